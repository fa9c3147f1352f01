// The items of a transcript as elements: what was said, thought and noticed. Tool calls are in tool_card.js.
import { fill, h, setText } from "../dom.js";
import { icon } from "../icons.js";
import { visible, visibleLine } from "../text/visible.js";
import { T } from "../texts.js";
import { PartsView, plainText } from "./content.js";
import { clock, duration } from "./parts.js";
import { toolCard } from "./tool_card.js";

/** The view of an item: {element, update}. */
export function itemView(item, session) {
  return VIEWS[item.type](item, session);
}

/** About how high an item will be, before it is drawn. Pixels. */
export function estimateHeight(item) {
  if (item.type === "tool") return 46;
  if (item.type === "note") return 36;
  if (item.type === "thought") return 36;
  const length = item.parts.reduce((sum, part) => sum + (part.text?.length || 400), 0);
  return Math.min(40 + Math.ceil(length / 90) * 22, 20000);
}

const VIEWS = {
  user(item) {
    const parts = new PartsView(item, false);
    const head = h("div.by", null, h("b", null, visibleLine(item.user || T.you, 60)), h("time.num", null, clock(item.time)));
    const element = h("article.said", { tabindex: "-1", "aria-label": T.promptOf(visibleLine(item.user || "", 60)) }, head, parts.element);
    return { element: wrap(element), update: () => parts.update() };
  },
  agent(item) {
    const parts = new PartsView(item, true);
    const caret = h("span.caret", { "aria-hidden": "true" });
    const element = h("article.answer", { tabindex: "-1", "aria-label": T.answer }, parts.element);
    const update = () => {
      parts.update();
      placeCaret(parts.element, caret, item.open);
    };
    update();
    return { element: wrap(element), update };
  },
  thought(item) {
    const parts = new PartsView(item, true);
    const label = h("span");
    const element = h("details.thought", { tabindex: "-1" }, h("summary", null, icon("chevron", "chev"), icon("bulb"), label), h("div.body", null, parts.element));
    const update = () => {
      if (element.open) parts.update();
      const seconds = item.ended && item.time ? (Date.parse(item.ended) - Date.parse(item.time)) / 1000 : 0;
      setText(label, item.open ? T.thinks : seconds >= 1 ? T.thoughtFor(duration(seconds)) : T.thought);
    };
    element.addEventListener("toggle", () => parts.update());
    update();
    return { element: wrap(element), update };
  },
  tool(item, session) {
    const card = toolCard(item, session);
    return { element: wrap(h("div.work", null, card.element)), update: card.update };
  },
  note(item) {
    const element = h("div.note");
    const update = () => fill(element, ...noteNodes(item));
    update();
    return { element: wrap(element, item.tone), update };
  },
};

// Margins of items would not be measured; the space between them is padding of a wrapper.
function wrap(element, tone = "") {
  return h("div.item", { class: tone }, element);
}

function placeCaret(text, caret, isOpen) {
  if (!isOpen) {
    caret.remove();
    return;
  }
  let place = text;
  while (place.lastElementChild && place.lastElementChild !== caret && /^(DIV|P|UL|OL|LI|BLOCKQUOTE)$/.test(place.lastElementChild.tagName)) {
    place = place.lastElementChild;
  }
  if (place.lastChild !== caret && !place.closest(".code, .table")) place.append(caret);
}

function noteNodes(item) {
  const render = NOTES[item.name] || ((each) => [icon(each.tone === "bad" ? "warn" : "circle"), h("span", null, visible(each.text || ""))]);
  return render(item);
}

const NOTES = {
  mode: ({ text }) => [icon("mode"), h("span", null, T.modeIs(visibleLine(text, 60)))],
  stopped: ({ text, seconds }) => [icon("stop"), h("span", null, `${T.stopReasons[text] || visibleLine(text, 60)}${seconds ? ` · ${duration(seconds)}` : ""}`)],
  turnFailed: ({ text }) => [icon("warn"), h("span", null, T.turnFailed(visible(text)))],
  entryLost: () => [icon("warn"), h("span", null, T.entryLost)],
  notice: ({ text, tone }) => [icon(tone === "soft" ? "bell" : "warn"), h("span", null, visible(text))],
  compaction: ({ status, summary, text }) => [
    summary ? h("details.resource", null, h("summary", null, icon("chevron", "chev"), T.compacted), plainText(summary)) : h("span", null, status === "failed" ? T.compactionFailed(visible(text)) : T.compacted),
  ],
  agentExited: ({ text, stderr }) => [
    icon("warn"),
    h("div", null, h("p", null, h("b", null, T.agentExited), " ", visible(text)), h("p.dim", null, T.agentRestarts), stderr ? h("pre.term", { tabindex: "0" }, visible(Array.isArray(stderr) ? stderr.join("\n") : String(stderr))) : null),
  ],
};
