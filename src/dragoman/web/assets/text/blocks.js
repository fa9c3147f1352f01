// Markdown by blocks: lines in, a tree of blocks out. Each line is looked at a bounded number of times.

// Deeper quotes and lists are read as paragraphs.
const MAX_DEPTH = 8;

const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([\w+#./-]{0,40})[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+|$)/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?: +|\t|$)/;
const TABLE_RULE = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const BLANK = /^\s*$/;

const begins = (line) => FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line);

/** The blocks of some lines: {type, from, to, ...}; `from` and `to` count lines. */
export function parseBlocks(lines, depth = 0) {
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (BLANK.test(lines[at])) {
      at += 1;
      continue;
    }
    const block = parseBlock(lines, at, depth);
    blocks.push({ ...block, from: at });
    at = block.to;
  }
  return blocks;
}

function parseBlock(lines, at, depth) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return parseFence(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) {
    const text = line.slice(heading[0].length).replace(/[ \t]+#+[ \t]*$/, "");
    return { type: "heading", level: heading[1].length, text, to: at + 1 };
  }
  if (RULE.test(line)) return { type: "rule", to: at + 1 };
  if (QUOTE.test(line) && depth < MAX_DEPTH) return parseQuote(lines, at, depth);
  if (ITEM.test(line) && depth < MAX_DEPTH) return parseList(lines, at, depth);
  if (line.includes("|") && at + 1 < lines.length && lines[at + 1].includes("-") && TABLE_RULE.test(lines[at + 1])) {
    return parseTable(lines, at);
  }
  let to = at + 1;
  while (to < lines.length && !BLANK.test(lines[to]) && !begins(lines[to]) && !ITEM.test(lines[to])) to += 1;
  return { type: "paragraph", text: lines.slice(at, to).join("\n"), to };
}

function parseFence(lines, at, fence) {
  const mark = fence[1];
  let to = at + 1;
  while (to < lines.length) {
    const line = lines[to].trim();
    if (line.startsWith(mark) && line === mark[0].repeat(line.length)) {
      return { type: "code", language: fence[2], lines: lines.slice(at + 1, to), closed: true, to: to + 1 };
    }
    to += 1;
  }
  return { type: "code", language: fence[2], lines: lines.slice(at + 1), closed: false, to };
}

function parseQuote(lines, at, depth) {
  let to = at;
  const inner = [];
  while (to < lines.length && (QUOTE.test(lines[to]) || (inner.length && !BLANK.test(lines[to]) && !begins(lines[to])))) {
    inner.push(lines[to].replace(QUOTE, ""));
    to += 1;
  }
  return { type: "quote", blocks: parseBlocks(inner, depth + 1), to };
}

function parseList(lines, at, depth) {
  const first = ITEM.exec(lines[at]);
  const ordered = /\d/.test(first[2]);
  const items = [];
  let to = at;
  while (to < lines.length) {
    const found = ITEM.exec(lines[to]);
    if (!found || /\d/.test(found[2]) !== ordered || RULE.test(lines[to])) break;
    const indent = Math.min(found[0].length, found[1].length + found[2].length + 4);
    const inner = [lines[to].slice(found[0].length)];
    to += 1;
    while (to < lines.length) {
      const line = lines[to];
      const space = /^ */.exec(line)[0].length;
      if (BLANK.test(line)) {
        const next = lines[to + 1];
        if (next === undefined || BLANK.test(next) || /^ */.exec(next)[0].length < Math.min(indent, 2)) break;
        inner.push("");
      } else if (space >= Math.min(indent, 2) && (space >= indent || ITEM.test(line.trimStart()))) {
        inner.push(line.slice(Math.min(space, indent)));
      } else if (!ITEM.test(line) && !begins(line) && !BLANK.test(lines[to - 1])) {
        inner.push(line.trimStart());
      } else break;
      to += 1;
    }
    items.push(parseItem(inner, depth));
    if (to < lines.length && BLANK.test(lines[to]) && to + 1 < lines.length && ITEM.test(lines[to + 1])) to += 1;
  }
  return { type: "list", ordered, start: ordered ? Number.parseInt(first[2], 10) : 1, items, to };
}

function parseItem(lines, depth) {
  const task = /^\[([ xX])\] /.exec(lines[0]);
  const rest = task ? [lines[0].slice(4), ...lines.slice(1)] : lines;
  return { task: task ? task[1] !== " " : null, blocks: parseBlocks(rest, depth + 1) };
}

function cells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function parseTable(lines, at) {
  const head = cells(lines[at]);
  const rows = [];
  let to = at + 2;
  while (to < lines.length && lines[to].includes("|") && !BLANK.test(lines[to])) {
    rows.push(cells(lines[to]).slice(0, head.length));
    to += 1;
  }
  return { type: "table", head, rows, to };
}
