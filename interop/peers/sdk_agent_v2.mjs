// An agent of protocol version 2 written with the official TypeScript SDK: it does what `[[...]]` in a prompt orders.
// Knows nothing of Dragoman. Sessions are files in its home, so that another process can load them. sdk_agent_v2.py is
// the same agent with the other SDK; keep the two in step.

import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { agent, methods, ndJsonStream, PROTOCOL_VERSION, RequestError } from "@agentclientprotocol/sdk/experimental/v2";

const ORDER = /\[\[(say|write|run|slow|recall)(?: ([^\]]*))?\]\]/;
const BEAT = 100;
const home = join(process.env.HOME, "sessions");
const kept = (sessionId) => join(home, `${sessionId}.json`);
const options = [
  { optionId: "yes", name: "Yes", kind: "allow_once" },
  { optionId: "no", name: "No", kind: "reject_once" },
];
const sessions = new Map();
const block = (text) => ({ type: "text", text });

class Turn {
  constructor(client, sessionId, session) {
    Object.assign(this, { client, sessionId, session, messageId: randomUUID(), stop: new AbortController() });
    session.turn = this;
  }

  tell(sessionUpdate, members) {
    const update = { sessionUpdate, ...members };
    return this.client.notify(methods.client.session.update, { sessionId: this.sessionId, update });
  }

  state(state, members = {}) {
    return this.tell("state_update", { state, ...members });
  }

  // Runs after the prompt was answered, and ends with idle.
  async work(verb, rest) {
    await this.state("running");
    let stopReason = "end_turn";
    let error;
    try {
      await this[verb](rest);
    } catch (fault) {
      error = { code: -32603, message: String(fault) };
      stopReason = "error";
    }
    if (this.stop.signal.aborted) [stopReason, error] = ["cancelled", undefined];
    await this.state("idle", { stopReason, ...(error ? { error } : {}) });
  }

  async say(text) {
    for (const piece of text.match(/\S+\s*/g) ?? [])
      await this.tell("agent_message_chunk", { messageId: this.messageId, content: block(piece) });
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
    writeFileSync(path, content);
    await this.tell("tool_call_update", { toolCallId: "call", status: "completed" });
    await this.say("Written.");
  }

  async run(line) {
    if (!(await this.may(`Run ${line}`, "execute", { command: line }))) return;
    const terminalId = randomUUID();
    const content = [{ type: "terminal", terminalId }];
    await this.tell("terminal_update", { terminalId, command: line });
    await this.tell("tool_call_update", { toolCallId: "call", status: "in_progress", content });
    const [exitCode, output] = await new Promise((resolve) =>
      execFile("/bin/sh", ["-c", line], (error, stdout) => resolve([error?.code ?? 0, stdout])),
    );
    await this.tell("terminal_output_chunk", { terminalId, data: Buffer.from(output).toString("base64") });
    await this.tell("terminal_update", { terminalId, exitStatus: { exitCode } });
    await this.tell("tool_call_update", { toolCallId: "call", status: "completed" });
    await this.say(`It ended with exit code ${exitCode}.`);
  }

  async may(title, kind, rawInput, path) {
    const toolCall = { toolCallId: "call", title, kind, rawInput, ...(path ? { locations: [{ path }] } : {}) };
    await this.tell("tool_call_update", { status: "pending", ...toolCall });
    await this.state("requires_action");
    const asked = { sessionId: this.sessionId, title, subject: { type: "tool_call", toolCall }, options };
    const { outcome } = await this.client.request(methods.client.session.requestPermission, asked);
    await this.state("running");
    if (outcome.outcome === "selected" && outcome.optionId === "yes") return true;
    await this.tell("tool_call_update", { toolCallId: "call", status: "failed" });
    await this.say("I may not.");
    return false;
  }
}

const connection = agent({ name: "official TypeScript SDK" })
  .onRequest(methods.agent.initialize, () => ({
    protocolVersion: PROTOCOL_VERSION,
    info: { name: "official TypeScript SDK, v2", version: process.env.SDK_VERSION ?? "?" },
    capabilities: { session: {} },
  }))
  .onRequest(methods.agent.session.new, () => {
    const sessionId = randomUUID();
    sessions.set(sessionId, { told: [] });
    return { sessionId };
  })
  .onRequest(methods.agent.session.list, () => ({ sessions: [] }))
  .onRequest(methods.agent.session.close, ({ params }) => {
    sessions.get(params.sessionId)?.turn?.stop.abort();
    return {};
  })
  .onRequest(methods.agent.session.resume, async ({ params: { sessionId, replayFrom }, client }) => {
    if (!existsSync(kept(sessionId))) throw RequestError.resourceNotFound(sessionId);
    const told = JSON.parse(readFileSync(kept(sessionId), "utf8"));
    sessions.set(sessionId, { told });
    const updates = told.map((text, n) => ({
      sessionUpdate: "user_message",
      messageId: `${sessionId}-${n}`,
      content: [block(text)],
    }));
    for (const update of [...(replayFrom ? updates : []), { sessionUpdate: "state_update", state: "idle" }])
      await client.notify(methods.client.session.update, { sessionId, update });
    return {};
  })
  .onNotification(methods.agent.session.cancel, ({ params }) => sessions.get(params.sessionId)?.turn?.stop.abort())
  .onRequest(methods.agent.session.prompt, async ({ params: { sessionId, prompt }, client }) => {
    const text = prompt.map((each) => (each.type === "text" ? each.text : "")).join("");
    const session = sessions.get(sessionId);
    if (!session) throw RequestError.resourceNotFound(sessionId);
    session.told.push(text);
    mkdirSync(home, { recursive: true });
    writeFileSync(kept(sessionId), JSON.stringify(session.told));
    const [, verb, rest] = text.match(ORDER) ?? ["", "say", "I was told nothing."];
    const turn = new Turn(client, sessionId, session);
    const messageId = randomUUID();
    await turn.tell("user_message", { messageId, content: prompt });
    setImmediate(() => turn.work(verb, rest ?? ""));
    return { messageId };
  })
  .connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));

await connection.closed;
process.exit(0);
