// What texts.py, meter.py, perform.py and drive.py say, in JavaScript: texts, figures of this process, and the
// agent's and client's halves of the measured work. Keep the two in step; knows no SDK.

import { existsSync, readFileSync, writeFileSync } from "node:fs";

export const CHUNK_BYTES = 40;
export const ANSWER = "the same few words every time\n";
const MIB = 1024 * 1024;
const WARM_CHUNKS = 500;
const WARM_REQUESTS = 200;

const TAIL = "all work and no play makes a dull agent ".repeat(8);
let block = "";
for (let number = 0; number < 1024; number++) {
  block += `line ${String(number).padStart(6, "0")} of a long document, written once and sent in one piece\n`;
}

export function chunk(number, size = CHUNK_BYTES) {
  return `chunk ${String(number).padStart(5, "0")} ${TAIL.slice(0, size - 12)}`;
}

export function document(size) {
  const head = `document of ${size} characters\n`;
  const rest = size - head.length;
  return head + block.repeat(Math.floor(rest / block.length)) + block.slice(0, rest % block.length);
}

function isDocument(text, size) {
  const head = `document of ${size} characters\n`;
  if (text.length !== size || !text.startsWith(head)) return false;
  for (let start = head.length; start < size; start += block.length) {
    if (!block.startsWith(text.slice(start, start + block.length))) return false;
  }
  return true;
}

function resident(field) {
  if (!existsSync("/proc/self/status")) return process.resourceUsage().maxRSS * 1024;
  const line = readFileSync("/proc/self/status", "utf8").split("\n").find((line) => line.startsWith(field));
  return Number(line.split(/\s+/)[1]) * 1024;
}

class Meter {
  constructor() {
    this.mark();
  }
  mark() {
    try {
      writeFileSync("/proc/self/clear_refs", "5");
    } catch {
      // no such file, or no leave: the peak then counts from the start
    }
    this.resident = resident("VmRSS:");
    this.cpu = process.cpuUsage();
  }
  read() {
    const used = process.cpuUsage(this.cpu);
    const peak = resident("VmHWM:");
    return { cpu: (used.user + used.system) / 1e6, peak, growth: Math.max(0, peak - this.resident) };
  }
}

export class Performer {
  meter = new Meter();
  noted = {};

  async perform(prompt, say, read) {
    const [verb, ...args] = prompt.trim().split(/\s+/);
    if (verb === "/mark") {
      this.noted = {};
      this.meter.mark();
    } else if (verb === "/stream") {
      const [count, size] = args.map(Number);
      for (let number = 0; number < count; number++) await say(chunk(number, size));
    } else if (verb === "/document") {
      await say(document(Number(args[0])));
    } else if (verb === "/files") {
      this.noted = await readFiles(Number(args[0]), Number(args[1]), args[2] ?? "", read);
    } else if (verb === "/report") {
      await say(JSON.stringify({ ...this.meter.read(), ...this.noted }));
    } else {
      throw new Error(`unknown work: ${prompt.slice(0, 80)}`);
    }
  }
}

async function readFiles(count, inflight, path, read) {
  const latencies = [];
  let next = 0;
  async function worker() {
    while (next < count) {
      const number = next++;
      const asked = performance.now();
      const text = await read(path || `/bench/file-${String(number).padStart(5, "0")}.txt`);
      latencies.push(performance.now() - asked);
      if (!text || (!path && text !== ANSWER)) throw new Error(`request ${number}: unexpected answer`);
    }
  }
  const started = performance.now();
  await Promise.all(Array.from({ length: inflight }, worker));
  const elapsed = performance.now() - started;
  if (latencies.length !== count) throw new Error(`${latencies.length} answers to ${count} requests`);
  latencies.sort((one, other) => one - other);
  return { p50: latencies[Math.floor(count / 2)] / 1e3, requests_per_second: (count / elapsed) * 1e3 };
}

// client: { open(): session, prompt(session, text, take): stopReason }
export async function drive(specification, client) {
  const ended = async (session, text, take) => {
    const reason = await client.prompt(session, text, take);
    if (reason !== "end_turn") throw new Error(`${text.slice(0, 40)} stopped with ${reason}`);
  };
  const streamed = async (session, count) => {
    let seen = 0;
    await ended(session, `/stream ${count} ${CHUNK_BYTES}`, (text) => {
      if (text !== chunk(seen)) throw new Error(`chunk ${seen}: got ${text.slice(0, 80)}`);
      seen++;
    });
    if (seen !== count) throw new Error(`got ${seen} chunks, expected ${count}`);
  };
  const report = async (session) => {
    let text = "";
    await ended(session, "/report", (more) => (text += more));
    return JSON.parse(text);
  };
  const marked = async (session) => {
    await ended(session, "/mark", () => {});
    return new Meter();
  };

  const works = {
    async stream({ count }) {
      const session = await client.open();
      await streamed(session, WARM_CHUNKS);
      const meter = await marked(session);
      const started = performance.now();
      await streamed(session, count);
      const elapsed = performance.now() - started;
      const ours = meter.read();
      const theirs = await report(session);
      return {
        messages_per_second: (count / elapsed) * 1e3,
        client_cpu_us: (ours.cpu / count) * 1e6,
        client_peak_mb: ours.peak / MIB,
        agent_cpu_us: (theirs.cpu / count) * 1e6,
        agent_peak_mb: theirs.peak / MIB,
      };
    },
    async files({ count, inflight, path = "" }) {
      const session = await client.open();
      await ended(session, `/files ${WARM_REQUESTS} ${inflight} ${path}`, () => {});
      await marked(session);
      await ended(session, `/files ${count} ${inflight} ${path}`, () => {});
      const { p50, requests_per_second } = await report(session);
      return { p50_us: p50 * 1e6, requests_per_second };
    },
    async sessions({ count, updates }) {
      await streamed(await client.open(), WARM_CHUNKS);
      const started = performance.now();
      await Promise.all(Array.from({ length: count }, async () => streamed(await client.open(), updates)));
      return { time_ms: performance.now() - started };
    },
    async document({ size }) {
      const texts = [];
      const session = await client.open();
      const meter = await marked(session);
      const started = performance.now();
      await ended(session, `/document ${size}`, (text) => texts.push(text));
      const elapsed = performance.now() - started;
      const ours = meter.read();
      if (texts.length !== 1 || !isDocument(texts[0], size)) throw new Error("the document arrived changed");
      const theirs = await report(session);
      return { time_ms: elapsed, client_growth: ours.growth / size, agent_growth: theirs.growth / size };
    },
  };
  return works[specification.work](specification);
}
