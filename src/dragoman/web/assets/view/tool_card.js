// A tool call as a row that opens: what it does, its state in sign, word and color, its input, changes and output.
import { fill, h, memory } from "../dom.js";
import { icon } from "../icons.js";
import { ansiLines, ansiNodes } from "../text/ansi.js";
import { markdown } from "../text/markdown.js";
import { visible, visibleLine } from "../text/visible.js";
import { T } from "../texts.js";
import { contentBlock, longText, plainText } from "./content.js";
import { changeOf, diffTable } from "./diff_view.js";
import { button, duration, shortPath } from "./parts.js";

const KIND_ICONS = {
  read: "file", edit: "pencil", delete: "trash", move: "move", search: "search", execute: "terminal",
  think: "bulb", fetch: "globe", switch_mode: "mode",
};

// Lines of an output that are shown at first: its end is what matters.
const SHOWN_LINES = 12;
const MAX_LINES = 2000;

const changes = new WeakMap(); // by diff block

/** The change of a diff block, computed once for all places that show it. */
export function cachedChange(block) {
  let found = changes.get(block);
  if (!found) changes.set(block, (found = changeOf(block)));
  return found;
}

/** The state of a call: {name, glyph, text}. */
export function stateOf(item) {
  const { call, decided, stopped } = item;
  const chosen = decided?.outcome?.optionId || "";
  const kind = item.asked?.options.find((option) => option.optionId === chosen)?.kind || chosen;
  const refused = decided && (decided.outcome?.outcome !== "selected" || /^(reject|deny)/.test(kind));
  const by = decided && decided.by !== "policy" ? visibleLine(decided.by, 40) : "";
  if (call.status === "failed") return { name: "no", glyph: "cross", text: refused && by ? T.deniedBy(by) : T.failed };
  if (call.status === "completed") return { name: "ok", glyph: "check", text: by ? T.allowedBy(by) : T.done };
  if (stopped) return { name: "dim", glyph: "stop", text: T.stoppedCall };
  if (item.asked && !item.decided) return { name: "wait", glyph: "shield", text: T.asks };
  if (call.status === "in_progress") return { name: "run", glyph: "spin", text: by ? T.runsAllowedBy(by) : T.runs };
  return { name: "dim", glyph: "circle", text: T.waits };
}

/** A card: {element, update}. */
export function toolCard(item, session) {
  const summary = h("summary");
  const body = h("div.tool-body");
  const element = h("details.tool", { tabindex: "-1" }, summary, body);
  let shown = "";
  let hasBody = false;
  const defaultOpen = () => {
    const content = item.call.content || [];
    if (item.asked && !item.decided && session.canWrite) return false; // the question shows it
    return content.some((block) => block.type === "diff") || (item.call.status === "failed" && content.length > 0);
  };
  const update = () => {
    const state = stateOf(item);
    fill(summary, ...head(item, state, session));
    if (item.opened === undefined ? defaultOpen() : item.opened) element.open = true;
    if (element.open) fillBody();
    else hasBody = false;
  };
  const fillBody = () => {
    const sign = JSON.stringify([item.version, element.open]);
    if (hasBody && sign === shown) return;
    shown = sign;
    hasBody = true;
    fill(body, ...bodyOf(item, session, update));
  };
  summary.addEventListener("click", () => {
    item.opened = !element.open;
  });
  element.addEventListener("toggle", () => element.open && fillBody());
  update();
  return { element, update };
}

function head(item, state, session) {
  const { call } = item;
  const diffs = (call.content || []).filter((block) => block.type === "diff").map(cachedChange);
  const added = diffs.reduce((sum, change) => sum + change.added, 0);
  const removed = diffs.reduce((sum, change) => sum + change.removed, 0);
  const seconds = item.endTime ? (Date.parse(item.endTime) - Date.parse(item.time)) / 1000 : 0;
  const exit = exitOf(item, session);
  return [
    icon("chevron", "chev"),
    icon(KIND_ICONS[call.kind] || "tool"),
    h("span.title.clip", null, titleNodes(call, session)),
    h(
      "span.sum",
      null,
      added ? h("span.add.num", null, `+${added}`) : null,
      removed ? h("span.del.num", null, `−${removed}`) : null,
      exit !== "" ? h("span.num", null, exit) : null,
      seconds >= 1 ? h("span.num.hide-s", null, duration(seconds)) : null,
      h("span.hide-s", null, state.text),
      h("span", { class: state.name, role: "img", "aria-label": state.text }, icon(state.glyph, state.glyph === "spin" ? "spin" : "")),
    ),
  ];
}

function exitOf(item, session) {
  for (const block of item.call.content || []) {
    const exit = block.type === "terminal" ? session.transcript.terminals.get(block.terminalId)?.exit : null;
    if (exit) return exit.signal ? visibleLine(String(exit.signal), 20) : T.exitCode(exit.code);
  }
  return "";
}

// A title often is a word and a path or a command: the first word is emphasized, and the rest is code. Others are prose.
function titleNodes(call, session) {
  const title = visibleLine(call.title || call.name || T.toolCall, 300);
  const [, word, rest] = /^(\S+)\s+(.+)$/.exec(title) || [null, title, ""];
  if (!KIND_ICONS[call.kind] || !rest || !isCode(title, rest, call, session)) return [h("b", null, title)];
  const shown = rest.replace(/^`|`$/g, "");
  return [h("b", null, word), " ", h("code", null, shortPath(shown, session.cwd))];
}

// Whether the rest of a title names a place or the command of the call, or looks like one: a/b, a.b, `a`.
function isCode(title, rest, call, session) {
  if (/[/`]|\.[^\s.]/.test(rest)) return true;
  const line = (text) => visibleLine(text, 300);
  const places = (call.locations || []).map((place) => line(shortPath(place.path, session.cwd)));
  const command = line(commandOf(call));
  return places.includes(rest) || (command && [rest, title].includes(command));
}

/** The command that a call runs, as the agent passed it; "" if it passed none. */
export function commandOf(call) {
  const command = call.rawInput?.command;
  if (typeof command === "string") return command;
  return Array.isArray(command) ? command.join(" ") : "";
}

function bodyOf(item, session, update) {
  const { call } = item;
  const parts = [];
  const content = call.content || [];
  const places = otherPlaces(call);
  if (places.length) parts.push(locations(places, session));
  for (const block of content) parts.push(contentOf(block, item, session, update));
  if (call.rawInput !== undefined && !content.some((block) => block.type === "diff")) parts.push(raw(T.input, call.rawInput));
  if (call.rawOutput !== undefined && !content.length) parts.push(raw(T.output, call.rawOutput));
  if (item.decided) parts.push(decision(item));
  if (!parts.length) parts.push(h("p.dim.pad", null, T.noDetails));
  return parts;
}

/** The places of a call that its changes do not name already. */
export function otherPlaces(call) {
  const changed = new Set((call.content || []).filter((block) => block.type === "diff").map((block) => block.path));
  return (call.locations || []).filter((place) => !changed.has(place.path));
}

function decision(item) {
  const { by, outcome, time } = item.decided;
  const option = item.asked?.options.find((each) => each.optionId === outcome?.optionId);
  const name = option ? visibleLine(option.name, 60) : outcome?.optionId || T.dismissed;
  return h("p.dim.pad", null, T.decided(by === "policy" ? T.policy : visibleLine(by, 60), name, new Date(time).toLocaleTimeString("en-GB")));
}

function locations(list, session) {
  return h("p.pad.places", null, list.slice(0, 20).map((place) => h("code.path", null, shortPath(place.path, session.cwd), place.line ? `:${place.line}` : "")));
}

function contentOf(block, item, session, update) {
  if (block.type === "diff") return diffPart(block, session, update);
  if (block.type === "terminal") return terminalPart(block.terminalId, session);
  const inner = block.content || block;
  if (inner.type === "text") {
    const isOutput = item.call.kind === "execute" || /\x1b\[/.test(inner.text || "");
    if (isOutput) return output(unfence(inner.text || ""));
    return h("div.pad.text.md", null, longText(inner.text || "", (text) => markdown(text)));
  }
  return h("div.pad", null, contentBlock(inner));
}

const unfence = (text) => /^```\w*\n([\s\S]*?)\n?```\s*$/.exec(text)?.[1] ?? text;

/** A change with its file name and a switch between one and two columns. */
export function diffPart(block, session, update = () => {}) {
  const change = cachedChange(block);
  const box = h("div.diff-part");
  const draw = () => {
    const two = memory.get("two", false) && innerWidth > 700;
    const name = shortPath(change.path, session.cwd);
    fill(
      box,
      h(
        "div.diff-top",
        null,
        h("code.path.clip", null, name),
        change.isNew ? h("span.dim", null, T.newFile) : null,
        h("span.add.num", null, `+${change.added}`),
        h("span.del.num", null, `−${change.removed}`),
        h("span.grow"),
        button(two ? T.oneColumn : T.twoColumns, () => (memory.set("two", !two), draw()), { kind: "bare hide-s" }),
      ),
      diffTable(change, two),
    );
  };
  draw();
  return box;
}

function terminalPart(id, session) {
  const terminal = session.transcript.terminals.get(id) || { output: "" };
  const box = h("div");
  const draw = () => {
    if (terminal.output) fill(box, output(terminal.output, terminal.command));
    else fill(box, h("p.dim.pad", null, !terminal.exit && !terminal.released ? T.noOutputYet : terminal.isKnown ? T.noOutput : T.outputGone));
  };
  draw();
  if (!terminal.output && !terminal.isKnown) {
    session.fetchTerminal(id).then((text) => {
      if (text === null || terminal.output) return;
      Object.assign(terminal, { output: text, isKnown: true });
      draw();
    });
  }
  return box;
}

/** Output of a command: its end, with a button for what was before. */
export function output(text, command = "") {
  const lines = ansiLines(text.replace(/\n$/, ""));
  const box = h("div.term", { tabindex: "0", role: "group", "aria-label": T.outputOf(visibleLine(command, 80)) });
  let shown = Math.min(lines.length, SHOWN_LINES);
  const draw = () => {
    const part = lines.slice(-shown);
    const hidden = lines.length - part.length;
    const nodes = part.map((line) => h("div", null, cutLine(line)));
    const more = hidden ? h("button.link.more", { type: "button" }, T.linesBefore(hidden)) : null;
    more?.addEventListener("click", () => {
      shown = Math.min(lines.length, shown < MAX_LINES ? MAX_LINES : shown + MAX_LINES);
      draw();
    });
    fill(box, more, nodes);
  };
  draw();
  return box;
}

function cutLine(line) {
  let length = 0;
  const kept = [];
  for (const part of line) {
    const text = part.text.slice(0, Math.max(0, 4000 - length));
    length += part.text.length;
    if (text) kept.push({ ...part, text });
  }
  if (length <= 4000) return ansiNodes(line);
  return [ansiNodes(kept), h("span.dim", null, T.cutCharacters(length - 4000))];
}

function raw(label, value) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2) || "";
  return h("details.raw", null, h("summary.dim", null, icon("chevron", "chev"), label), plainText(text, "mono pad"));
}
