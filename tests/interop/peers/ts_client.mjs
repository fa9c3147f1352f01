// A client written with the official TypeScript SDK, played by remote control.
//
// Each line of its input is a step as JSON ({"do": "prompt", ...}), each line of its output what came of it: the result
// or the error, the updates that arrived meanwhile, the questions and calls it answered. It starts the agent it is told
// to. Knows nothing of Dragoman. py_client.py is the same client with the other SDK; keep the two in step.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { Readable, Writable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { client, methods, ndJsonStream, PROTOCOL_VERSION, RequestError } from "@agentclientprotocol/sdk";
import { createHttpStream } from "@agentclientprotocol/sdk/experimental/http-client";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
import { WebSocket } from "ws";

class Terminal {
  output = "";
  exitStatus = null;

  constructor(command, args, cwd) {
    this.process = spawn(command, args, { cwd, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [this.process.stdout, this.process.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => (this.output += text));
    }
    this.ended = new Promise((resolve) => {
      this.process.on("close", (exitCode, signal) => resolve((this.exitStatus = { exitCode, signal })));
    });
  }

  end() {
    if (this.exitStatus === null) this.process.kill();
  }
}

let updates = [];
let asked = [];
let calls = [];
let answer = null;
let cancelOn = null;
let child = null;
let connection = null;
let remote = null;
const terminals = new Map();

async function cancelIf(what, sessionId) {
  if (cancelOn !== what) return;
  cancelOn = null;
  await connection.agent.notify(methods.agent.session.cancel, { sessionId });
}

const app = client({ name: "typescript" })
  .onNotification(methods.client.session.update, async ({ params: { sessionId, update } }) => {
    updates.push({ sessionId, ...update });
    await cancelIf(update.sessionUpdate, sessionId);
  })
  .onRequest(methods.client.session.requestPermission, async ({ params }) => {
    asked.push({ toolCall: params.toolCall, options: params.options });
    await cancelIf("question", params.sessionId);
    const chosen = params.options.find((option) => option.kind === answer);
    return { outcome: chosen ? { outcome: "selected", optionId: chosen.optionId } : { outcome: "cancelled" } };
  })
  .onRequest(methods.client.fs.readTextFile, async ({ params: { path } }) => {
    calls.push("read");
    try {
      return { content: await readFile(path, "utf8") };
    } catch {
      throw RequestError.resourceNotFound(path);
    }
  })
  .onRequest(methods.client.fs.writeTextFile, async ({ params: { path, content } }) => {
    calls.push("write");
    await writeFile(path, content, "utf8");
    return {};
  })
  .onRequest(methods.client.terminal.create, ({ params: { command, args, cwd } }) => {
    calls.push("create");
    const terminal = new Terminal(command, args ?? [], cwd ?? undefined);
    const terminalId = String(terminal.process.pid);
    terminals.set(terminalId, terminal);
    return { terminalId };
  })
  .onRequest(methods.client.terminal.output, ({ params: { terminalId } }) => {
    calls.push("output");
    const { output, exitStatus } = terminals.get(terminalId);
    return { output, truncated: false, exitStatus };
  })
  .onRequest(methods.client.terminal.waitForExit, async ({ params: { sessionId, terminalId } }) => {
    calls.push("wait");
    await cancelIf("wait", sessionId);
    return terminals.get(terminalId).ended;
  })
  .onRequest(methods.client.terminal.kill, ({ params: { terminalId } }) => {
    calls.push("kill");
    terminals.get(terminalId).end();
    return {};
  })
  .onRequest(methods.client.terminal.release, ({ params: { terminalId } }) => {
    calls.push("release");
    terminals.get(terminalId).end();
    terminals.delete(terminalId);
    return {};
  });

const steps = {
  start({ command, cwd, url, headers = {}, offers_files = true }) {
    if (command) {
      const [program, ...args] = command;
      child = spawn(program, args, { cwd, stdio: ["pipe", "pipe", "inherit"] });
      child.gone = new Promise((resolve) => child.on("close", resolve));
      connection = app.connect(ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)));
    } else {
      remote = url.startsWith("ws")
        ? createWebSocketStream(url, { headers, WebSocket })
        : createHttpStream(url, { headers });
      connection = app.connect(remote);
    }
    return connection.agent.request(methods.agent.initialize, {
      protocolVersion: PROTOCOL_VERSION,
      clientCapabilities: {
        fs: { readTextFile: offers_files, writeTextFile: offers_files },
        terminal: offers_files,
        session: { configOptions: { boolean: {} } },
      },
      clientInfo: { name: "typescript", version: "1.0" },
    });
  },
  async stop() {
    if (remote) {
      connection.close();
      remote = null;
    }
    if (!child) return null;
    child.stdin.end();
    await child.gone;
    child = null;
    return null;
  },
  new: ({ cwd, servers = [] }) => connection.agent.request(methods.agent.session.new, { cwd, mcpServers: servers }),
  load: ({ session, cwd, servers = [] }) =>
    connection.agent.request(methods.agent.session.load, { sessionId: session, cwd, mcpServers: servers }),
  list: ({ cwd }) => connection.agent.request(methods.agent.session.list, { cwd }),
  mode: ({ session, mode }) =>
    connection.agent.request(methods.agent.session.setMode, { sessionId: session, modeId: mode }),
  option: ({ session, option, value }) =>
    connection.agent.request(methods.agent.session.setConfigOption, {
      sessionId: session,
      configId: option,
      value,
      ...(typeof value === "boolean" ? { type: "boolean" } : {}),
    }),
  prompt(step) {
    answer = step.answer ?? null;
    cancelOn = step.cancel_on ?? null;
    const prompt = [{ type: "text", text: step.text }];
    return connection.agent.request(methods.agent.session.prompt, { sessionId: step.session, prompt });
  },
  async disconnect({ session, text, file }) {
    const turn = steps.prompt({ session, text, answer: "allow_once" }).catch(() => null);
    while (!existsSync(file)) await pause(10);
    await steps.stop();
    await turn;
    return null;
  },
  extension: ({ method, params }) => connection.agent.request(`_${method}`, params),
};

for await (const line of createInterface({ input: process.stdin })) {
  const told = {};
  const step = JSON.parse(line);
  try {
    told.result = (await steps[step.do](step)) ?? null;
  } catch (error) {
    if (!(error instanceof RequestError) && !step.may_fail) throw error; // what the SDK raises when the line is gone
    told.error = { code: error.code ?? 0, message: error.message, data: error.data };
  }
  Object.assign(told, { updates, asked, calls });
  [updates, asked, calls] = [[], [], []];
  console.log(JSON.stringify(told));
}
await steps.stop();
process.exit(0);
