// Terminal output with its colors. Everything else that a terminal would obey is left out.
import { h } from "../dom.js";
import { visible } from "./visible.js";

// CSI with its final byte, OSC up to its end, other escapes of two characters.
const ESCAPE = /\x1b(?:\[([0-9;:?<=>]*)[ -/]*([@-~])|[\]PX^_][\s\S]*?(?:\x07|\x1b\\|$)|[ -/]*[0-~]|$)|\x9b([0-9;:]*)([@-~])/g;

/** The lines of an output: each a list of {text, style}. A carriage return writes the line again, a backspace deletes. */
export function ansiLines(output) {
  const lines = [[]];
  let style = {};
  let at = 0;
  const write = (text) => {
    const pieces = text.split("\n");
    pieces.forEach((piece, index) => {
      if (index) lines.push([]);
      writeLine(lines, piece, style);
    });
  };
  ESCAPE.lastIndex = 0;
  for (let match = ESCAPE.exec(output); match; match = ESCAPE.exec(output)) {
    if (match.index > at) write(output.slice(at, match.index));
    at = ESCAPE.lastIndex;
    if ((match[2] || match[4]) === "m") style = restyle(style, match[1] ?? match[3] ?? "");
    if (!match[0]) ESCAPE.lastIndex += 1;
  }
  if (at < output.length) write(output.slice(at));
  return lines;
}

function writeLine(lines, text, style) {
  const rest = text.endsWith("\r") ? text.slice(0, -1) : text;
  const again = rest.lastIndexOf("\r");
  if (again >= 0) lines[lines.length - 1] = [];
  let shown = again >= 0 ? rest.slice(again + 1) : rest;
  while (shown.includes("\b")) {
    const shorter = shown.replace(/[^\b]\x08/g, "");
    if (shorter === shown) {
      shown = shown.replaceAll("\b", "");
      break;
    }
    shown = shorter;
  }
  if (shown) lines[lines.length - 1].push({ text: shown, style });
}

function restyle(before, codes) {
  const style = { ...before };
  const numbers = codes.split(/[;:]/).map((code) => Number(code) || 0);
  for (let at = 0; at < numbers.length; at += 1) {
    const code = numbers[at];
    if (code === 0) for (const key of Object.keys(style)) delete style[key];
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.under = true;
    else if (code === 7) style.invert = true;
    else if (code === 22) delete style.bold, delete style.dim;
    else if (code === 23) delete style.italic;
    else if (code === 24) delete style.under;
    else if (code === 27) delete style.invert;
    else if (code === 39) delete style.front;
    else if (code === 49) delete style.back;
    else if (code === 38 || code === 48) {
      const [color, used] = longColor(numbers, at + 1);
      style[code === 38 ? "front" : "back"] = color;
      at += used;
    } else if (code >= 30 && code <= 37) style.front = code - 30;
    else if (code >= 90 && code <= 97) style.front = code - 82;
    else if (code >= 40 && code <= 47) style.back = code - 40;
    else if (code >= 100 && code <= 107) style.back = code - 92;
  }
  return style;
}

// 256 colors and RGB become the nearest of the sixteen that the page has in both themes.
function longColor(numbers, at) {
  if (numbers[at] === 5) return [nearest256(numbers[at + 1] || 0), 2];
  if (numbers[at] === 2) return [nearestRgb(numbers[at + 1] || 0, numbers[at + 2] || 0, numbers[at + 3] || 0), 4];
  return [7, 0];
}

function nearest256(number) {
  if (number < 16) return number;
  if (number >= 232) return number > 243 ? 7 : 8;
  const cube = number - 16;
  return nearestRgb(Math.floor(cube / 36) * 51, (Math.floor(cube / 6) % 6) * 51, (cube % 6) * 51);
}

function nearestRgb(red, green, blue) {
  const top = Math.max(red, green, blue);
  if (top - Math.min(red, green, blue) < 40) return top > 150 ? 7 : 8;
  const bits = (red > top / 2 ? 1 : 0) | (green > top / 2 ? 2 : 0) | (blue > top / 2 ? 4 : 0);
  return top > 200 ? bits + 8 : bits;
}

/** A line as nodes. */
export function ansiNodes(line) {
  return line.map(({ text, style }) => {
    const names = Object.entries(style).map(([key, value]) => (value === true ? `x-${key}` : `x-${key}${value}`));
    return names.length ? h("span", { class: names.join(" ") }, visible(text)) : visible(text);
  });
}
