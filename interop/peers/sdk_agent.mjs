// An agent written with the official TypeScript SDK, for the matrix: it does what `[[...]]` in a prompt orders.
// Knows nothing of Dragoman. Sessions are files in its home, so that another process can load them. sdk_agent.py is
// the same agent with the other SDK; keep the two in step.

import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { agent, methods, ndJsonStream, PROTOCOL_VERSION, RequestError } from "@agentclientprotocol/sdk";

const ORDER = /\[\[(say|write|run|slow|recall)(?: ([^\]]*))?\]\]/;
const BEAT = 100;
const home = join(process.env.HOME, "sessions");
const kept = (sessionId) => join(home, `${sessionId}.json`);
const options = [
  { optionId: "yes", name: "Yes", kind: "allow_once" },
  { optionId: "no", name: "No", kind: "reject_once" },
];
const sessions = new Map();

class Turn {
  constructor(client, sessionId, session) {
    Object.assign(this, { client, sessionId, session, stop: new AbortController() });
    session.turn = this;
  }

  tell(update) {
    return this.client.notify(methods.client.session.update, { sessionId: this.sessionId, update });
  }

  async say(text) {
    for (const piece of text.match(/\S+\s*/g) ?? [])
      await this.tell({ sessionUpdate: "agent_message_chunk", content: { type: "text", text: piece } });
  }

  async slow(seconds) {
    for (let number = 0; number < (Number(seconds) * 1000) / BEAT; number++) {
      await this.say(`${number} `);
      await pause(BEAT, undefined, { signal: this.stop.signal });
    }
  }

  recall() {
    return this.say(`Earlier I was told: ${this.session.told.slice(0, -1).join("; ")}`);
  }

  async write(rest) {
    const [, path, content] = rest.match(/^(\S+) ([^]*)$/);
    if (!(await this.may("Write a file", "edit", { path, content }, path))) return;
    await this.client.request(methods.client.fs.writeTextFile, { sessionId: this.sessionId, path, content });
    await this.tell({ sessionUpdate: "tool_call_update", toolCallId: "call", status: "completed" });
    await this.say("Written.");
  }

  async run(line) {
    if (!(await this.may(`Run ${line}`, "execute", { command: line }))) return;
    const { sessionId } = this;
    const terminal = await this.client.createTerminal({ sessionId, command: "/bin/sh", args: ["-c", line] });
    const { exitCode } = await terminal.waitForExit();
    await terminal.release();
    await this.tell({ sessionUpdate: "tool_call_update", toolCallId: "call", status: "completed" });
    await this.say(`It ended with exit code ${exitCode}.`);
  }

  async may(title, kind, rawInput, path) {
    const toolCall = { toolCallId: "call", title, kind, rawInput, ...(path ? { locations: [{ path }] } : {}) };
    await this.tell({ sessionUpdate: "tool_call", status: "pending", ...toolCall });
    const asked = { sessionId: this.sessionId, toolCall, options };
    const { outcome } = await this.client.request(methods.client.session.requestPermission, asked);
    if (outcome.outcome === "selected" && outcome.optionId === "yes") return true;
    await this.tell({ sessionUpdate: "tool_call_update", toolCallId: "call", status: "failed" });
    await this.say("I may not.");
    return false;
  }
}

const connection = agent({ name: "official TypeScript SDK" })
  .onRequest(methods.agent.initialize, () => ({
    protocolVersion: PROTOCOL_VERSION,
    agentInfo: { name: "official TypeScript SDK", version: process.env.SDK_VERSION ?? "?" },
    agentCapabilities: { loadSession: true },
  }))
  .onRequest(methods.agent.session.new, () => {
    const sessionId = randomUUID();
    sessions.set(sessionId, { told: [] });
    return { sessionId };
  })
  .onRequest(methods.agent.session.load, async ({ params: { sessionId }, client }) => {
    if (!existsSync(kept(sessionId))) throw RequestError.resourceNotFound(sessionId);
    const told = JSON.parse(readFileSync(kept(sessionId), "utf8"));
    sessions.set(sessionId, { told });
    for (const text of told) {
      const update = { sessionUpdate: "user_message_chunk", content: { type: "text", text } };
      await client.notify(methods.client.session.update, { sessionId, update });
    }
    return {};
  })
  .onNotification(methods.agent.session.cancel, ({ params }) => sessions.get(params.sessionId)?.turn?.stop.abort())
  .onRequest(methods.agent.session.prompt, async ({ params: { sessionId, prompt }, client }) => {
    const text = prompt.map((block) => (block.type === "text" ? block.text : "")).join("");
    const session = sessions.get(sessionId);
    session.told.push(text);
    mkdirSync(home, { recursive: true });
    writeFileSync(kept(sessionId), JSON.stringify(session.told));
    const [, verb, rest] = text.match(ORDER) ?? ["", "say", "I was told nothing."];
    const turn = new Turn(client, sessionId, session);
    try {
      await turn[verb](rest ?? "");
    } catch (error) {
      if (!turn.stop.signal.aborted) throw error;
    }
    return { stopReason: turn.stop.signal.aborted ? "cancelled" : "end_turn" };
  })
  .connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));

await connection.closed;
process.exit(0);
