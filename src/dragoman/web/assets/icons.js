// Line icons, 16 by 16, drawn for this page.
import { h } from "./dom.js";

const PATHS = {
  mark: "M8 2v12M2 8h12M3.8 3.8l8.4 8.4M12.2 3.8l-8.4 8.4",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM14 14l-3.4-3.4",
  plus: "M8 3v10M3 8h10",
  moon: "M13 9.5A5.5 5.5 0 1 1 6.500 3a4.400 4.400 0 0 0 6.500 6.500z",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM8 1.500v1M8 13.500v1M1.500 8h1M13.500 8h1M3.400 3.400l.7.7M11.900 11.900l.7.7M12.600 3.400l-.7.7M4.100 11.900l-.7.7",
  chevron: "M6 3.500 10.500 8 6 12.500",
  down: "M4 6.500 8 10.500 12 6.500",
  back: "M10 3.500 5.500 8l4.500 4.500",
  check: "M3 8.500 6.500 12 13 4.500",
  cross: "M4 4l8 8M12 4l-8 8",
  circle: "M8 13A5 5 0 1 0 8 3a5 5 0 0 0 0 10z",
  spin: "M8 3a5 5 0 1 1-5 5",
  stop: "M5 5h6v6H5z",
  shield: "M8 2 3 4v4c0 3 2.200 5 5 6 2.800-1 5-3 5-6V4z",
  file: "M4 2h5l3 3v9H4zM9 2v3h3",
  pencil: "M3 13l.6-2.600L11 3l2 2-7.400 7.400zM9.500 4.500l2 2",
  terminal: "M3 4.500 6.500 8 3 11.500M8 12h5",
  globe: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM2 8h12M8 2c2 2 2 10 0 12M8 2c-2 2-2 10 0 12",
  trash: "M3 4h10M6 4V2.500h4V4M4.500 4l.5 9.500h6l.5-9.500",
  move: "M2 8h12M11 5l3 3-3 3",
  bulb: "M6 12h4M6.500 14h3M8 2a4 4 0 0 0-2 7.500V11h4V9.500A4 4 0 0 0 8 2z",
  tool: "M10 3a3.200 3.200 0 0 0-3 4.200L3 11.200 4.800 13l4-4A3.200 3.200 0 0 0 13 6l-2 1-1-1z",
  mode: "M3 5h7M12.500 5h.5M3 11h.5M6 11h7M11 3.500v3M5 9.500v3",
  send: "M8 13V3.500M4 7.500l4-4 4 4",
  link: "M6.500 9.500l3-3M7 4.500l1-1a3 3 0 0 1 4.500 4.500l-1 1M9 11.500l-1 1A3 3 0 0 1 3.500 8l1-1",
  dots: "M3.500 8h.01M8 8h.01M12.500 8h.01",
  inbox: "M2 9.500 4 3h8l2 6.500V13H2zM2 9.500h3.500L6.500 11h3l1-1.500H14",
  chat: "M3 3h10v8H7l-3 2.500V11H3z",
  diff: "M8 3v5M5.500 5.500h5M5.500 11.500h5",
  list: "M6 4h8M6 8h8M6 12h8M2.500 4h.01M2.500 8h.01M2.500 12h.01",
  gauge: "M2.500 12a6 6 0 1 1 11 0M8 10l3-4",
  out: "M9 3H4v10h5M7 8h7M11.500 5.500 14 8l-2.500 2.500",
  fork: "M4.500 4v8M4.500 8h4a3 3 0 0 0 3-3V4M4.500 4.010V4M11.500 4.010V4M4.500 12.010V12",
  bell: "M4 11V7a4 4 0 0 1 8 0v4l1 1.500H3zM7 14h2",
  people: "M6 7.500A2.200 2.200 0 1 0 6 3a2.200 2.200 0 0 0 0 4.500zM2 13c0-2.500 1.500-4 4-4s4 1.500 4 4M10.500 3.500a2 2 0 0 1 0 4M12 9.500c1.300.5 2 1.700 2 3.500",
  keyboard: "M2 4.500h12v7H2zM4.500 7h.01M7 7h.01M9.500 7h.01M12 7h.01M5 9.500h6",
  copy: "M5.500 5.500h7v8h-7zM10.500 5.500v-3h-7v8h2",
  warn: "M8 2.500 14 13H2zM8 6.500v3M8 11.500v.01",
};

/** An icon. It is decoration; its button or row has the text. */
export function icon(name, extra = "") {
  return h(
    "svg",
    { class: `i ${extra}`.trim(), viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" },
    h("path", { d: PATHS[name] || PATHS.circle }),
  );
}
