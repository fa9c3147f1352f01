// Text from peers as it may be shown: characters that hide, reorder or imitate are named, not obeyed.

// Bidirectional controls, zero-width characters, invisible operators, tags, and control characters but tab and newline.
const INVISIBLE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]|\udb40[\udc00-\udfff]/g;

// A joiner inside an emoji is part of the picture, and a variation of it is harmless.
const JOINER = "\u200d";
const PICTURE = /\p{Extended_Pictographic}|[\u{1f3fb}-\u{1f3ff}]|\ufe0f/u;

// Peers may send anything where a text belongs.
const asText = (value) => (typeof value === "string" ? value : value === null || value === undefined ? "" : String(value));

/** The text with each invisible character as ⟨U+200B⟩. A lone carriage return is a newline. */
export function visible(value) {
  const text = asText(value);
  const lines = text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
  return lines.replace(INVISIBLE, (char, at) => {
    if (char === JOINER && isJoin(lines, at)) return char;
    return `⟨U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

function isJoin(text, at) {
  const before = text.slice(Math.max(0, at - 2), at);
  const after = text.slice(at + 1, at + 3);
  return PICTURE.test(before) && PICTURE.test(after);
}

/** The same in one line, cut to a length. */
export function visibleLine(value, length = 200) {
  const text = asText(value);
  const cut = text.length > length ? `${text.slice(0, length - 1)}…` : text;
  return visible(cut.replace(/\s+/g, " ")).trim();
}

/** A text cut for the screen: what is shown, and how many characters are not. */
export function clip(value, length) {
  const text = asText(value);
  if (text.length <= length) return { shown: text, rest: 0 };
  let end = text.lastIndexOf("\n", length);
  if (end < length / 2) end = length;
  if (/[\ud800-\udbff]/.test(text[end - 1])) end -= 1;
  return { shown: text.slice(0, end), rest: text.length - end };
}
