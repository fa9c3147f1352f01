// A change of a file: in one column or in two, with the changed words marked. Long parts that did not change are folded.
import { h } from "../dom.js";
import { countChanges, diffLines, diffWords } from "../text/diff.js";
import { languageOf, tokens } from "../text/highlight.js";
import { visible } from "../text/visible.js";
import { T } from "../texts.js";

// Unchanged lines shown around a change, and rows shown at once.
const CONTEXT = 3;
const MAX_ROWS = 400;

// A longer line is cut: its rest is in the file.
const MAX_LINE = 2000;

// Texts beyond this are compared by nobody; they are shown as new. Characters.
const MAX_COMPARED = 2_000_000;

/** The rows of a change, computed once. */
export function changeOf(block) {
  const before = typeof block.oldText === "string" ? block.oldText : "";
  const after = typeof block.newText === "string" ? block.newText : "";
  const isHuge = before.length + after.length > MAX_COMPARED;
  const rows = isHuge ? diffLines("", after.slice(0, MAX_COMPARED)) : diffLines(before, after);
  return { path: block.path || "", rows, isNew: block.oldText === null || block.oldText === undefined, ...countChanges(rows) };
}

/** The table of a change. `two` puts old and new side by side. */
export function diffTable(change, two) {
  const language = languageOf(change.path);
  const label = T.changeOf(visible(change.path));
  const body = h("tbody");
  const box = h("div.diff", { class: two ? "two" : "one", tabindex: "0", role: "group", "aria-label": label }, h("table", null, h("caption.vh", null, label), body));
  const parts = foldUnchanged(change.rows);
  fillRows(body, parts, 0, two, language);
  return box;
}

function fillRows(body, parts, start, two, language) {
  let count = 0;
  for (let at = start; at < parts.length; at += 1) {
    const part = parts[at];
    if (count > MAX_ROWS) {
      const left = parts.slice(at).reduce((sum, each) => sum + each.rows.length, 0);
      const more = gapRow(T.moreLines(left), two, () => {
        more.remove();
        fillRows(body, parts, at, two, language);
      });
      body.append(more);
      return;
    }
    if (part.folded) {
      const gap = gapRow(T.unchangedLines(part.rows.length), two, () => gap.replaceWith(...rowsOf(part.rows, two, language)));
      body.append(gap);
    } else {
      body.append(...rowsOf(part.rows.slice(0, MAX_ROWS * 5), two, language));
      count += part.rows.length;
    }
  }
}

function foldUnchanged(rows) {
  const near = new Uint8Array(rows.length);
  rows.forEach((row, at) => {
    if (row.type === " ") return;
    for (let index = Math.max(0, at - CONTEXT); index <= Math.min(rows.length - 1, at + CONTEXT); index += 1) near[index] = 1;
  });
  const parts = [];
  rows.forEach((row, at) => {
    const folded = !near[at];
    if (parts.at(-1)?.folded !== folded || (!folded && parts.at(-1).rows.length >= MAX_ROWS && row.type === " ")) parts.push({ folded, rows: [] });
    parts.at(-1).rows.push(row);
  });
  return parts.map((part) => (part.rows.length < 3 ? { ...part, folded: false } : part));
}

function gapRow(text, two, act) {
  return h("tr.gap", null, h("td", { colspan: "4" }, h("button.link", { type: "button", onclick: act }, text)));
}

function rowsOf(rows, two, language) {
  return two ? twoColumns(rows, language) : rows.map((row) => oneColumn(row, language));
}

function oneColumn(row, language) {
  const kind = { "+": "plus", "-": "minus" }[row.type] || "";
  return h(
    "tr",
    kind ? { class: kind } : null,
    h("td.n", null, row.old || ""),
    h("td.n", null, row.new || ""),
    h("td.m", null, kind ? h("span", { "aria-hidden": "true" }, row.type) : null, kind ? h("span.vh", null, T[kind]) : null),
    h("td", null, lineNodes(row, language)),
  );
}

function twoColumns(rows, language) {
  const made = [];
  let at = 0;
  while (at < rows.length) {
    if (rows[at].type === " ") {
      made.push(h("tr", null, side(rows[at], "old", language), side(rows[at], "new", language)));
      at += 1;
      continue;
    }
    const removed = [];
    const added = [];
    for (; at < rows.length && rows[at].type !== " "; at += 1) (rows[at].type === "-" ? removed : added).push(rows[at]);
    for (let index = 0; index < Math.max(removed.length, added.length); index += 1) {
      made.push(h("tr", null, side(removed[index], "old", language), side(added[index], "new", language)));
    }
  }
  return made;
}

function side(row, which, language) {
  if (!row) return [h("td.n"), h("td.none")];
  const kind = { "+": "plus", "-": "minus" }[row.type] || "";
  return [
    h("td.n", null, row[which] || ""),
    h("td", kind ? { class: kind } : null, kind ? h("span.vh", null, T[kind]) : null, lineNodes(row, language)),
  ];
}

function lineNodes(row, language) {
  const text = row.text.length > MAX_LINE ? `${row.text.slice(0, MAX_LINE)}…` : row.text;
  if (!row.mate || text.length > 1000) return colored(text, language);
  const [old, now] = row.type === "-" ? diffWords(row.text, row.mate.text) : diffWords(row.mate.text, row.text);
  const parts = row.type === "-" ? old : now;
  const tag = row.type === "-" ? "del" : "ins";
  return parts.map((part) => (part.changed ? h(tag, null, visible(part.text)) : colored(part.text, language)));
}

function colored(text, language) {
  if (!language || text.length > 1000) return visible(text);
  return tokens(visible(text), language).map((token) => (token.type ? h(`span.t${token.type}`, null, token.text) : token.text));
}
