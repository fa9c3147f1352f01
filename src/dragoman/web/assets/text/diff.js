// The difference of two texts by lines, and of two lines by words. Bounded in time for any input.

// Steps of the search before it gives up and shows the middle as replaced.
const MAX_STEPS = 2_000_000;

// Words compared in one line.
const MAX_WORDS = 400;

/** Rows of a diff: {type: " " | "+" | "-", text, old, new, mate}. `mate` pairs a removed line with the added one. */
export function diffLines(before, after) {
  const old = before === "" ? [] : splitLines(before);
  const now = after === "" ? [] : splitLines(after);
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head += 1;
  let tail = 0;
  while (tail < old.length - head && tail < now.length - head && old.at(-1 - tail) === now.at(-1 - tail)) tail += 1;
  const rows = [];
  const keep = (at, number) => rows.push({ type: " ", text: old[at], old: at + 1, new: number + 1 });
  for (let at = 0; at < head; at += 1) keep(at, at);
  for (const row of middle(old.slice(head, old.length - tail), now.slice(head, now.length - tail))) {
    rows.push({ ...row, old: row.old && row.old + head, new: row.new && row.new + head });
  }
  for (let at = tail; at > 0; at -= 1) keep(old.length - at, now.length - at);
  return pair(rows);
}

function splitLines(text) {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

// Myers' search for the shortest edit, with the trace of each step kept to walk back.
function middle(old, now) {
  const size = old.length + now.length;
  if (!size) return [];
  const replaced = () => [
    ...old.map((text, at) => ({ type: "-", text, old: at + 1 })),
    ...now.map((text, at) => ({ type: "+", text, new: at + 1 })),
  ];
  if (!old.length || !now.length) return replaced();
  let ends = new Map([[1, 0]]);
  const trace = [];
  let steps = 0;
  for (let depth = 0; depth <= size; depth += 1) {
    trace.push(ends);
    const next = new Map();
    for (let line = -depth; line <= depth; line += 2) {
      const down = line === -depth || (line !== depth && (ends.get(line - 1) ?? -1) < (ends.get(line + 1) ?? -1));
      let x = down ? (ends.get(line + 1) ?? 0) : (ends.get(line - 1) ?? 0) + 1;
      let y = x - line;
      while (x < old.length && y < now.length && old[x] === now[y]) {
        x += 1;
        y += 1;
      }
      next.set(line, x);
      if (x >= old.length && y >= now.length) return walkBack(trace, old, now);
    }
    steps += depth + 1;
    if (steps > MAX_STEPS / 8 || steps * depth > MAX_STEPS * 50) return replaced();
    ends = next;
  }
  return replaced();
}

function walkBack(trace, old, now) {
  const rows = [];
  let x = old.length;
  let y = now.length;
  for (let depth = trace.length - 1; depth >= 0; depth -= 1) {
    const ends = trace[depth];
    const line = x - y;
    const down = line === -depth || (line !== depth && (ends.get(line - 1) ?? -1) < (ends.get(line + 1) ?? -1));
    const before = down ? line + 1 : line - 1;
    const fromX = depth ? (ends.get(before) ?? 0) : 0;
    const fromY = depth ? fromX - before : 0;
    while (x > fromX && y > fromY) {
      x -= 1;
      y -= 1;
      rows.push({ type: " ", text: old[x], old: x + 1, new: y + 1 });
    }
    if (!depth) break;
    if (down) {
      y -= 1;
      rows.push({ type: "+", text: now[y], new: y + 1 });
    } else {
      x -= 1;
      rows.push({ type: "-", text: old[x], old: x + 1 });
    }
  }
  return rows.reverse();
}

// In each block of changes the removed lines come first, and lines at the same place are mates.
function pair(rows) {
  const found = [];
  let at = 0;
  while (at < rows.length) {
    if (rows[at].type === " ") {
      found.push(rows[at]);
      at += 1;
      continue;
    }
    const removed = [];
    const added = [];
    for (; at < rows.length && rows[at].type !== " "; at += 1) (rows[at].type === "-" ? removed : added).push(rows[at]);
    removed.forEach((row, index) => {
      if (added[index]) {
        row.mate = added[index];
        added[index].mate = row;
      }
    });
    found.push(...removed, ...added);
  }
  return found;
}

/** The parts of two lines: [{text, changed}] for each. Lines with little in common are whole. */
export function diffWords(before, after) {
  const old = before.match(/\w+|\s+|[^\w\s]/gu) || [];
  const now = after.match(/\w+|\s+|[^\w\s]/gu) || [];
  const whole = [[{ text: before, changed: false }], [{ text: after, changed: false }]];
  if (!old.length || !now.length || old.length > MAX_WORDS || now.length > MAX_WORDS) return whole;
  const width = now.length + 1;
  const lengths = new Uint16Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      lengths[i * width + j] =
        old[i] === now[j]
          ? lengths[(i + 1) * width + j + 1] + 1
          : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  if (lengths[0] * 3 < Math.min(old.length, now.length)) return whole;
  const left = [];
  const right = [];
  const push = (parts, text, changed) => {
    if (parts.at(-1)?.changed === changed) parts.at(-1).text += text;
    else parts.push({ text, changed });
  };
  let i = 0;
  let j = 0;
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      push(left, old[i], false);
      push(right, now[j], false);
      i += 1;
      j += 1;
    } else if (j >= now.length || (i < old.length && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])) {
      push(left, old[i], true);
      i += 1;
    } else {
      push(right, now[j], true);
      j += 1;
    }
  }
  return [left, right];
}

/** How many lines a diff adds and removes. */
export function countChanges(rows) {
  return {
    added: rows.filter((row) => row.type === "+").length,
    removed: rows.filter((row) => row.type === "-").length,
  };
}
