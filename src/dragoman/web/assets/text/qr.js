// QR codes (ISO/IEC 18004): bytes, error correction L, versions 1 to 20. A link is drawn, never sent to a service.
import { h } from "../dom.js";

// For each version: codewords in all, error correction codewords of a block, blocks (level L).
const VERSIONS = [
  null, [26, 7, 1], [44, 10, 1], [70, 15, 1], [100, 20, 1], [134, 26, 1], [172, 18, 2], [196, 20, 2], [242, 24, 2],
  [292, 30, 2], [346, 18, 4], [404, 20, 4], [466, 24, 4], [532, 26, 4], [581, 30, 4], [655, 22, 6], [733, 24, 6],
  [815, 28, 6], [901, 30, 6], [991, 28, 7], [1085, 28, 8],
];

const EXP = new Uint8Array(512);
const LOG = new Uint8Array(256);
for (let at = 0, value = 1; at < 255; at += 1) {
  EXP[at] = EXP[at + 255] = value;
  LOG[value] = at;
  value = value & 128 ? (value << 1) ^ 0x11d : value << 1;
}

function generator(degree) {
  let poly = [1];
  for (let at = 0; at < degree; at += 1) {
    const next = new Array(poly.length + 1).fill(0);
    poly.forEach((value, index) => {
      next[index] ^= value;
      if (value) next[index + 1] ^= EXP[LOG[value] + at];
    });
    poly = next;
  }
  return poly;
}

function correction(data, degree) {
  const poly = generator(degree);
  const rest = new Array(degree).fill(0);
  for (const byte of data) {
    const factor = byte ^ rest.shift();
    rest.push(0);
    if (factor) for (let at = 0; at < degree; at += 1) if (poly[at + 1]) rest[at] ^= EXP[LOG[factor] + LOG[poly[at + 1]]];
  }
  return rest;
}

const dataLength = (version) => VERSIONS[version][0] - VERSIONS[version][1] * VERSIONS[version][2];

function codewords(bytes, version) {
  const bits = [];
  const push = (value, count) => {
    for (let at = count - 1; at >= 0; at -= 1) bits.push((value >> at) & 1);
  };
  push(4, 4);
  push(bytes.length, version < 10 ? 8 : 16);
  for (const byte of bytes) push(byte, 8);
  const capacity = dataLength(version) * 8;
  push(0, Math.min(4, capacity - bits.length));
  while (bits.length % 8) bits.push(0);
  const data = [];
  for (let at = 0; at < bits.length; at += 8) data.push(Number.parseInt(bits.slice(at, at + 8).join(""), 2));
  for (let pad = 0xec; data.length < capacity / 8; pad ^= 0xec ^ 0x11) data.push(pad);
  return interleave(data, version);
}

function interleave(data, version) {
  const [, degree, count] = VERSIONS[version];
  const short = Math.floor(data.length / count);
  const longer = data.length % count;
  const blocks = [];
  for (let at = 0, from = 0; at < count; at += 1) {
    const length = short + (at >= count - longer ? 1 : 0);
    blocks.push(data.slice(from, from + length));
    from += length;
  }
  const checks = blocks.map((block) => correction(block, degree));
  const all = [];
  for (let at = 0; at <= short; at += 1) for (const block of blocks) if (at < block.length) all.push(block[at]);
  for (let at = 0; at < degree; at += 1) for (const check of checks) all.push(check[at]);
  return all;
}

function alignment(version) {
  if (version === 1) return [];
  const count = Math.floor(version / 7) + 2;
  const last = version * 4 + 10;
  const step = count === 2 ? last - 6 : Math.ceil((last - 6) / (count - 1) / 2) * 2;
  const places = [6];
  for (let place = last; places.length < count; place -= step) places.splice(1, 0, place);
  return places;
}

/** The modules of a code: rows of true (dark) and false. Throws if the text is too long. */
export function qrMatrix(text) {
  const bytes = new TextEncoder().encode(text);
  let version = 1;
  while (version < VERSIONS.length && bytes.length + (version < 10 ? 2 : 3) > dataLength(version)) version += 1;
  if (version === VERSIONS.length) throw new RangeError("the text is too long for a QR code");
  const size = version * 4 + 17;
  const dark = Array.from({ length: size }, () => new Array(size).fill(false));
  const fixed = Array.from({ length: size }, () => new Array(size).fill(false));
  const set = (row, column, value) => {
    if (row < 0 || column < 0 || row >= size || column >= size) return;
    dark[row][column] = value;
    fixed[row][column] = true;
  };
  drawFixed(set, size, version);
  drawData(dark, fixed, codewords(bytes, version));
  let best = null;
  for (let mask = 0; mask < 8; mask += 1) {
    const tried = dark.map((row) => [...row]);
    applyMask(tried, fixed, mask);
    drawFormat(tried, mask);
    const score = penalty(tried);
    if (!best || score < best.score) best = { score, modules: tried };
  }
  return best.modules;
}

function drawFixed(set, size, version) {
  for (let at = 0; at < size; at += 1) {
    set(6, at, at % 2 === 0);
    set(at, 6, at % 2 === 0);
  }
  for (const [row, column] of [[3, 3], [3, size - 4], [size - 4, 3]]) {
    for (let y = -4; y <= 4; y += 1) for (let x = -4; x <= 4; x += 1) set(row + y, column + x, ![2, 4].includes(Math.max(Math.abs(x), Math.abs(y))));
  }
  const places = alignment(version);
  for (const row of places) {
    for (const column of places) {
      if ((row === 6 && (column === 6 || column === size - 7)) || (column === 6 && row === size - 7)) continue;
      for (let y = -2; y <= 2; y += 1) for (let x = -2; x <= 2; x += 1) set(row + y, column + x, Math.max(Math.abs(x), Math.abs(y)) !== 1);
    }
  }
  for (let at = 0; at < 9; at += 1) {
    set(8, at, at === 6);
    set(at, 8, at === 6);
    if (at < 8) set(8, size - 1 - at, false);
    if (at < 8) set(size - 1 - at, 8, at === 7);
  }
  if (version >= 7) {
    let rest = version;
    for (let at = 0; at < 12; at += 1) rest = (rest << 1) ^ ((rest >> 11) * 0x1f25);
    const bits = (version << 12) | rest;
    for (let at = 0; at < 18; at += 1) {
      set(Math.floor(at / 3), size - 11 + (at % 3), Boolean((bits >> at) & 1));
      set(size - 11 + (at % 3), Math.floor(at / 3), Boolean((bits >> at) & 1));
    }
  }
}

function drawData(dark, fixed, data) {
  const size = dark.length;
  let bit = 0;
  for (let right = size - 1; right >= 1; right -= 2) {
    if (right === 6) right = 5;
    for (let step = 0; step < size; step += 1) {
      const row = ((right + 1) & 2) === 0 ? size - 1 - step : step;
      for (const column of [right, right - 1]) {
        if (fixed[row][column]) continue;
        dark[row][column] = bit < data.length * 8 && Boolean((data[bit >> 3] >> (7 - (bit & 7))) & 1);
        bit += 1;
      }
    }
  }
}

const MASKS = [
  (y, x) => (y + x) % 2 === 0,
  (y) => y % 2 === 0,
  (y, x) => x % 3 === 0,
  (y, x) => (y + x) % 3 === 0,
  (y, x) => (Math.floor(y / 2) + Math.floor(x / 3)) % 2 === 0,
  (y, x) => ((y * x) % 2) + ((y * x) % 3) === 0,
  (y, x) => (((y * x) % 2) + ((y * x) % 3)) % 2 === 0,
  (y, x) => (((y + x) % 2) + ((y * x) % 3)) % 2 === 0,
];

function applyMask(modules, fixed, mask) {
  modules.forEach((row, y) => row.forEach((_, x) => !fixed[y][x] && MASKS[mask](y, x) && (row[x] = !row[x])));
}

function drawFormat(modules, mask) {
  const size = modules.length;
  const data = (1 << 3) | mask; // level L
  let rest = data;
  for (let at = 0; at < 10; at += 1) rest = (rest << 1) ^ ((rest >> 9) * 0x537);
  const bits = ((data << 10) | rest) ^ 0x5412;
  const bit = (at) => Boolean((bits >> at) & 1);
  for (let at = 0; at <= 5; at += 1) modules[at][8] = bit(at);
  modules[7][8] = bit(6);
  modules[8][8] = bit(7);
  modules[8][7] = bit(8);
  for (let at = 9; at < 15; at += 1) modules[8][14 - at] = bit(at);
  for (let at = 0; at < 8; at += 1) modules[8][size - 1 - at] = bit(at);
  for (let at = 8; at < 15; at += 1) modules[size - 15 + at][8] = bit(at);
  modules[size - 8][8] = true;
}

function penalty(modules) {
  const size = modules.length;
  let score = 0;
  let count = 0;
  const lines = [...modules, ...modules.map((_, x) => modules.map((row) => row[x]))];
  for (const line of lines) {
    let run = 1;
    for (let at = 1; at <= size; at += 1) {
      if (at < size && line[at] === line[at - 1]) run += 1;
      else {
        if (run >= 5) score += run - 2;
        run = 1;
      }
    }
    const text = line.map((value) => (value ? "1" : "0")).join("");
    for (const sign of ["10111010000", "00001011101"]) for (let at = text.indexOf(sign); at >= 0; at = text.indexOf(sign, at + 1)) score += 40;
  }
  for (let y = 0; y < size; y += 1) {
    for (let x = 0; x < size; x += 1) {
      if (modules[y][x]) count += 1;
      if (y && x && modules[y][x] === modules[y - 1][x] && modules[y][x] === modules[y][x - 1] && modules[y][x] === modules[y - 1][x - 1]) score += 3;
    }
  }
  return score + Math.floor(Math.abs((count * 20) / (size * size) - 10)) * 10;
}

/** A code as an image of one path. */
export function qrSvg(text) {
  const modules = qrMatrix(text);
  const size = modules.length + 8;
  let path = "";
  modules.forEach((row, y) => row.forEach((value, x) => value && (path += `M${x + 4} ${y + 4}h1v1h-1z`)));
  const svg = h("svg", { viewBox: `0 0 ${size} ${size}`, "shape-rendering": "crispEdges", "aria-hidden": "true" });
  svg.append(h("path", { d: `M0 0h${size}v${size}H0z`, class: "qr-light" }), h("path", { d: path, class: "qr-dark" }));
  return svg;
}
