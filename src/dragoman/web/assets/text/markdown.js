// Markdown on the screen, also while it grows: only the last block is made again when text is added.
import { h } from "../dom.js";
import { icon } from "../icons.js";
import { T } from "../texts.js";
import { parseBlocks } from "./blocks.js";
import { highlight, languageOf } from "./highlight.js";
import { inline } from "./inline.js";
import { visible } from "./visible.js";

/** Markdown in an element: update(text) shows the text, whose beginning usually was there before. */
export class MarkdownView {
  #text = "";
  #start = 0; // where the last block begins
  #last = null; // {block, node} of the last block

  constructor(element) {
    this.element = element;
  }

  update(text) {
    if (text === this.#text) return;
    if (!text.startsWith(this.#text)) {
      this.element.replaceChildren();
      this.#start = 0;
      this.#last = null;
    }
    const before = this.#text;
    this.#text = text;
    if (this.#appendToCode(text.slice(before.length))) return;
    if (this.#last) this.#last.node.remove();
    const lines = text.slice(this.#start).split("\n");
    const blocks = parseBlocks(lines);
    let line = 0;
    for (const block of blocks) {
      for (; line < block.from; line += 1) this.#start += lines[line].length + 1;
      const node = renderBlock(block);
      this.#last = { block, node };
      this.element.append(node);
    }
    if (!blocks.length) this.#last = null;
  }

  // While a fence is open, its text only grows: the lines so far stay as they are.
  #appendToCode(added) {
    const block = this.#last?.block;
    if (block?.type !== "code" || block.closed || !block.lines.length || /[`~]/.test(added)) return false;
    const code = this.#last.node.querySelector("code");
    code.append(visible(added));
    block.lines.push("");
    return true;
  }
}

/** The nodes of a whole text. */
export function markdown(text) {
  return parseBlocks(text.split("\n")).map(renderBlock);
}

function renderBlock(block) {
  return RENDERERS[block.type](block);
}

const RENDERERS = {
  // All headings of an answer have one level below that of the transcript: agents skip levels, and readers of the page
  // should not. What they look like tells them apart.
  heading: ({ level, text }) => h("h3", { class: `level${level}` }, inline(text)),
  rule: () => h("hr"),
  paragraph: ({ text }) => h("p", null, inline(text)),
  quote: ({ blocks }) => h("blockquote", null, blocks.map(renderBlock)),
  code: ({ language, lines, closed }) => codeBlock(lines.join("\n"), language, closed),
  list: ({ ordered, start, items }) =>
    h(ordered ? "ol" : "ul", ordered && start !== 1 ? { start } : null, items.map(renderItem)),
  table: ({ head, rows }) =>
    h(
      "div.table",
      { tabindex: "0", role: "group", "aria-label": T.table },
      h(
        "table",
        null,
        h("thead", null, h("tr", null, head.map((cell) => h("th", { scope: "col" }, inline(cell))))),
        h("tbody", null, rows.map((row) => h("tr", null, row.map((cell) => h("td", null, inline(cell)))))),
      ),
    ),
};

function renderItem({ task, blocks }) {
  const only = blocks.length && blocks[0].type === "paragraph" ? blocks[0] : null;
  const content = only ? [inline(only.text), blocks.slice(1).map(renderBlock)] : blocks.map(renderBlock);
  if (task === null) return h("li", null, content);
  const mark = h("span.task", { role: "img", "aria-label": task ? T.taskDone : T.taskOpen }, icon(task ? "check" : "circle"));
  return h("li.has-task", null, mark, content);
}

/** A block of code with its language and a button that copies it. */
export function codeBlock(text, name, isWhole = true) {
  const language = languageOf(name || "");
  const code = h("code", null, isWhole && language ? highlight(visible(text), language) : visible(text));
  const copy = h("button.icon.copy", { type: "button", "aria-label": T.copyCode, title: T.copyCode }, icon("copy"));
  copy.addEventListener("click", () => navigator.clipboard?.writeText(code.textContent));
  const label = T.codeIn(name);
  return h(
    "div.code",
    null,
    copy,
    h("pre", { tabindex: "0", role: "group", "aria-label": label }, code),
  );
}
