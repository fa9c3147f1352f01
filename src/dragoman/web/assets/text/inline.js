// The marks inside a line of Markdown: code, emphasis, links. Nodes out; HTML in the text stays text.
import { h } from "../dom.js";
import { visible } from "./visible.js";

// A longer text has no marks: they are for people, and each search for an end is bounded.
const MAX_TEXT = 20000;
const MAX_SPAN = 2000;
const MAX_DEPTH = 6;

const SPECIAL = /[\\`*_~[!<]|https?:\/\/|\n/g;
const ADDRESS = /https?:\/\/[^\s<>"'`|\\^{}]{1,2000}/y;
const SAFE_ADDRESS = /^(?:https?:\/\/[^\s]|mailto:)/i;
const EMPHASIS = [
  ["**", "strong"],
  ["__", "strong"],
  ["~~", "s"],
  ["*", "em"],
  ["_", "em"],
];

/** The nodes of a text. */
export function inline(text, depth = 0) {
  if (text.length > MAX_TEXT || depth > MAX_DEPTH) return [visible(text)];
  const nodes = [];
  let plain = 0;
  let at = 0;
  const push = (node, start, end) => {
    if (start > plain) nodes.push(visible(text.slice(plain, start)));
    nodes.push(node);
    plain = at = end;
  };
  while (at < text.length) {
    SPECIAL.lastIndex = at;
    const match = SPECIAL.exec(text);
    if (!match) break;
    at = match.index;
    const found = MARKS[match[0][0]](text, at, depth);
    if (found) push(found.node, at, found.end);
    else at += match[0][0] === "h" ? match[0].length : 1;
  }
  if (plain < text.length) nodes.push(visible(text.slice(plain)));
  return nodes;
}

const MARKS = {
  "\\": (text, at) => (/[!-/:-@[-`{-~]/.test(text[at + 1] || "") ? { node: text[at + 1], end: at + 2 } : null),
  "\n": (text, at) => ({ node: h("br"), end: at + 1 }),
  "`": codeSpan,
  "*": emphasis,
  _: emphasis,
  "~": emphasis,
  "[": link,
  "!": (text, at, depth) => (text[at + 1] === "[" ? link(text, at + 1, depth, true) : null),
  "<": (text, at) => {
    const end = text.slice(at, at + MAX_SPAN).indexOf(">");
    const address = end > 0 ? text.slice(at + 1, at + end) : "";
    return SAFE_ADDRESS.test(address) && !/\s/.test(address) ? { node: anchor(address, address), end: at + end + 1 } : null;
  },
  h: (text, at) => {
    if (at && /\w/.test(text[at - 1])) return null;
    ADDRESS.lastIndex = at;
    const address = ADDRESS.exec(text)?.[0].replace(/[.,;:!?)\]*_]+$/, "");
    if (!address || address.endsWith("//")) return null; // only its beginning has come so far
    return { node: anchor(address, address), end: at + address.length };
  },
};

function codeSpan(text, at) {
  const ticks = /^`+/.exec(text.slice(at, at + 50))[0];
  const from = at + ticks.length;
  const inner = text.slice(from, from + MAX_SPAN);
  let end = inner.indexOf(ticks);
  while (end >= 0 && inner[end + ticks.length] === "`") {
    const skip = /^`+/.exec(inner.slice(end))[0].length;
    end = inner.indexOf(ticks, end + skip);
  }
  if (end < 0) return ticks.length > 1 ? { node: ticks, end: from } : null;
  const code = inner.slice(0, end).replaceAll("\n", " ");
  const bare = code.startsWith(" ") && code.endsWith(" ") && code.trim() ? code.slice(1, -1) : code;
  return { node: h("code", null, visible(bare)), end: from + end + ticks.length };
}

function emphasis(text, at, depth) {
  for (const [mark, tag] of EMPHASIS) {
    if (!text.startsWith(mark, at)) continue;
    const from = at + mark.length;
    if (/\s/.test(text[from] || " ")) return null;
    if (mark[0] === "_" && at && /\w/.test(text[at - 1])) return null; // snake_case
    const inner = text.slice(from, from + MAX_SPAN);
    let end = inner.indexOf(mark, 1);
    while (end > 0) {
      const before = inner[end - 1];
      const after = inner[end + mark.length] || "";
      const doubled = mark.length === 1 && (after === mark || before === mark);
      if (!/[\s\\]/.test(before) && !doubled && !(mark[0] === "_" && /\w/.test(after))) {
        return { node: h(tag, null, inline(inner.slice(0, end), depth + 1)), end: from + end + mark.length };
      }
      end = inner.indexOf(mark, end + mark.length + (doubled ? 1 : 0));
    }
    return mark.length === 2 ? { node: mark, end: from } : null;
  }
  return null;
}

function link(text, at, depth, isImage = false) {
  const part = text.slice(at, at + MAX_SPAN);
  let nesting = 0;
  let close = -1;
  for (let index = 0; index < part.length; index += 1) {
    if (part[index] === "\\") index += 1;
    else if (part[index] === "[") nesting += 1;
    else if (part[index] === "]" && --nesting === 0) {
      close = index;
      break;
    }
  }
  if (close < 0 || part[close + 1] !== "(") return null;
  const target = /^\(\s*<?([^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*)>?(?:\s+"[^"]*")?\s*\)/.exec(part.slice(close + 1));
  if (!target) return null;
  const label = part.slice(1, close);
  const end = at + close + 1 + target[0].length;
  const address = target[1];
  if (!SAFE_ADDRESS.test(address)) {
    // A path in the session, or something that must not be followed: shown, not linked.
    const shown = visible(label === address || !address ? label : `${label} (${address})`);
    return { node: h("span.path", null, shown), end };
  }
  if (isImage) return { node: anchor(address, label || address), end }; // nothing is loaded from elsewhere
  return { node: anchor(address, inline(label, depth + 1), label), end };
}

// The address of a link is shown when it is not its text, so that no link pretends to lead elsewhere.
function anchor(address, content, label = "") {
  const host = /^[a-z]+:\/\/(?:[^/@]*@)?([^/?#]+)/i.exec(address)?.[1] || "";
  const props = { href: address, target: "_blank", rel: "noopener noreferrer nofollow", title: visible(address) };
  const text = typeof content === "string" ? visible(content) : content;
  const looksLikeAddress = label && /^\s*(?:https?:|www\.)|\w\.[a-z]{2,}\//i.test(label) && !label.includes(host);
  return h("a", props, text, looksLikeAddress ? h("span.dim", null, ` (${visible(host)})`) : null);
}
