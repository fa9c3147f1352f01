// The shortest client one would write with the official TypeScript SDK: `ts_plain.mjs AGENT ARG...`, one prompt, one
// answer. Text is drawn as in a real interface, in time that grows with its length. Ctrl-C cancels. py_plain.py is the
// same client with the other SDK; keep the two in step. Knows nothing of Dragoman.

import { spawn } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { Readable, Writable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { client, methods, ndJsonStream, PROTOCOL_VERSION, RequestError } from "@agentclientprotocol/sdk";

const CHARACTERS_PER_MILLISECOND = 2000;
let cancelled = false;

const app = client({ name: "plain" })
  .onNotification(methods.client.session.update, async ({ params: { update } }) => {
    if (update.sessionUpdate !== "agent_message_chunk" || update.content.type !== "text") return;
    await pause(update.content.text.length / CHARACTERS_PER_MILLISECOND);
    process.stdout.write(update.content.text);
  })
  .onRequest(methods.client.session.requestPermission, ({ params: { options } }) => {
    const chosen = options.find(({ kind }) => kind === "allow_once" || kind === "allow_always");
    if (cancelled || !chosen) return { outcome: { outcome: "cancelled" } };
    return { outcome: { outcome: "selected", optionId: chosen.optionId } };
  })
  .onRequest(methods.client.fs.readTextFile, async ({ params: { path, line, limit } }) => {
    let text;
    try {
      text = await readFile(path, "utf8");
    } catch {
      throw RequestError.resourceNotFound(path);
    }
    if (line == null && limit == null) return { content: text };
    const start = (line ?? 1) - 1;
    return { content: text.split("\n").slice(start, limit == null ? undefined : start + limit).join("\n") };
  })
  .onRequest(methods.client.fs.writeTextFile, async ({ params: { path, content } }) => {
    await writeFile(path, content, "utf8");
    return {};
  });

const [program, ...args] = process.argv.slice(2);
const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
const connection = app.connect(ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)));
try {
  await connection.agent.request(methods.agent.initialize, {
    protocolVersion: PROTOCOL_VERSION,
    clientCapabilities: { fs: { readTextFile: true, writeTextFile: true } },
    clientInfo: { name: "plain", version: "1.0" },
  });
  const { sessionId } = await connection.agent.request(methods.agent.session.new, { cwd: process.cwd(), mcpServers: [] });
  process.once("SIGINT", () => {
    cancelled = true;
    connection.agent.notify(methods.agent.session.cancel, { sessionId });
  });
  const prompt = [{ type: "text", text: "Hello" }];
  const { stopReason } = await connection.agent.request(methods.agent.session.prompt, { sessionId, prompt });
  console.error(`the turn ended: ${stopReason}`);
} catch (error) {
  if (!(error instanceof RequestError)) throw error;
  console.error(`the agent answered with an error: ${error.message}`);
  process.exitCode = 1;
} finally {
  child.kill();
}
