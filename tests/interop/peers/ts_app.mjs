// An agent written with the official TypeScript SDK: the first word of a prompt says what it shows. ts_agent.mjs has it
// on standard input and output, ts_server.mjs over HTTP and WebSocket.
// Knows nothing of Dragoman. py_agent.py is the same agent with the other SDK; keep the two in step.

import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { agent, methods, PROTOCOL_VERSION, RequestError } from "@agentclientprotocol/sdk";

const availableModes = [
  { id: "ask", name: "Ask" },
  { id: "code", name: "Code" },
];
const options = [
  { optionId: "yes", name: "Yes", kind: "allow_once" },
  { optionId: "no", name: "No", kind: "reject_once" },
];
const sessions = new Map();

class Turn {
  constructor(client, sessionId) {
    this.client = client;
    this.sessionId = sessionId;
    this.session = sessions.get(sessionId);
    this.cancelled = new Promise((resolve) => {
      this.session.cancel = () => {
        this.isCancelled = true;
        resolve();
      };
    });
  }

  async tell(update) {
    this.session.history.push(update);
    await this.client.notify(methods.client.session.update, { sessionId: this.sessionId, update });
  }

  call(method, params) {
    return this.client.request(method, { sessionId: this.sessionId, ...params });
  }

  say(text) {
    return this.tell({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
  }

  async tour() {
    await this.tell({ sessionUpdate: "agent_thought_chunk", content: { type: "text", text: "hm" } });
    await this.tell({
      sessionUpdate: "plan",
      entries: [{ content: "look", priority: "high", status: "in_progress" }],
    });
    await this.tell({
      sessionUpdate: "tool_call",
      toolCallId: "call",
      title: "Look",
      kind: "search",
      status: "pending",
      rawInput: { what: "all" },
    });
    await this.tell({
      sessionUpdate: "tool_call_update",
      toolCallId: "call",
      status: "completed",
      content: [{ type: "content", content: { type: "text", text: "found" } }],
    });
    for (const piece of ["one ", "two ", "three"]) await this.say(piece);
  }

  async ask() {
    const toolCall = { toolCallId: "call", title: "May I?", kind: "execute", rawInput: { command: "ls" } };
    const { outcome } = await this.call(methods.client.session.requestPermission, { toolCall, options });
    await this.say(outcome.outcome === "selected" ? outcome.optionId : outcome.outcome);
  }

  async read(rest) {
    const [path, line, limit] = rest.split(" ");
    const lines = line ? { line: Number(line), limit: Number(limit) } : {};
    await this.say((await this.call(methods.client.fs.readTextFile, { path, ...lines })).content);
  }

  async write(rest) {
    const [, path, content] = rest.match(/^(\S+) ([^]*)$/);
    await this.call(methods.client.fs.writeTextFile, { path, content });
    await this.say("written");
  }

  terminal(line) {
    return this.client.createTerminal({ sessionId: this.sessionId, command: "/bin/sh", args: ["-c", line] });
  }

  async run(rest) {
    const terminal = await this.terminal(rest);
    const { exitCode, signal } = await terminal.waitForExit();
    const { output, truncated } = await terminal.currentOutput();
    await terminal.release();
    await this.say(JSON.stringify([exitCode, signal ?? null, output, truncated]));
  }

  async kill() {
    const terminal = await this.terminal("echo begun; exec sleep 300");
    let running;
    while (!(running = await terminal.currentOutput()).output.includes("begun")) await pause(10);
    await terminal.kill();
    const { exitCode, signal } = await terminal.waitForExit();
    const { output } = await terminal.currentOutput();
    await terminal.release();
    const isRunning = (running.exitStatus ?? null) === null;
    await this.say(JSON.stringify([isRunning, exitCode ?? null, signal, output]));
  }

  async abandon() {
    await this.call(methods.client.terminal.create, { command: "sleep", args: ["300"] });
    await this.say("left");
  }

  async slow() {
    await this.tell({
      sessionUpdate: "tool_call",
      toolCallId: "call",
      title: "Wait",
      kind: "other",
      status: "in_progress",
    });
    await this.cancelled;
  }

  async half() {
    await this.say("a half: \ud83d");
    await this.say("a whole: 😀 中文 \x00 \u2028 ß");
  }

  async big(rest) {
    await this.say("é".repeat(Number(rest)));
  }

  async extension() {
    await this.say(JSON.stringify(await this.client.request("_example.org/unknown", { a: 1 })));
  }
}

export const performing = agent({ name: "typescript" })
  .onRequest(methods.agent.initialize, () => ({
    protocolVersion: PROTOCOL_VERSION,
    agentInfo: { name: "typescript", version: "1.0" },
    agentCapabilities: { loadSession: true },
  }))
  .onRequest(methods.agent.session.new, () => {
    const sessionId = randomUUID();
    sessions.set(sessionId, { mode: "ask", history: [] });
    return { sessionId, modes: { currentModeId: "ask", availableModes } };
  })
  .onRequest(methods.agent.session.load, async ({ params: { sessionId }, client }) => {
    const session = sessions.get(sessionId);
    if (!session) throw RequestError.resourceNotFound(sessionId);
    for (const update of session.history) await client.notify(methods.client.session.update, { sessionId, update });
    return { modes: { currentModeId: session.mode, availableModes } };
  })
  .onRequest(methods.agent.session.setMode, async ({ params: { sessionId, modeId }, client }) => {
    sessions.get(sessionId).mode = modeId;
    const update = { sessionUpdate: "current_mode_update", currentModeId: modeId };
    await client.notify(methods.client.session.update, { sessionId, update });
    return {};
  })
  .onNotification(methods.agent.session.cancel, ({ params }) => sessions.get(params.sessionId).cancel?.())
  .onRequest(methods.agent.session.prompt, async ({ params: { sessionId, prompt }, client }) => {
    const text = prompt.map((block) => (block.type === "text" ? block.text : "")).join("");
    const [, verb, rest] = text.match(/^(\w+) ?([^]*)$/);
    const turn = new Turn(client, sessionId);
    turn.session.history.push({ sessionUpdate: "user_message_chunk", content: { type: "text", text } });
    try {
      await turn[verb](rest);
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
      await turn.say(`error ${error.code}: ${error.message}`);
    }
    return { stopReason: turn.isCancelled ? "cancelled" : "end_turn" };
  });
