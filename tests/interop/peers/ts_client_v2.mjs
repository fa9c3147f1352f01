// A client of protocol version 2 written with the official TypeScript SDK. It starts the agent of its arguments, goes
// through hello, a permission request, cancel and load, and prints what it saw as one JSON object.
// Knows nothing of Dragoman.

import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk/experimental/v2";

const [, , cwd, program, ...args] = process.argv;
const child = spawn(program, args, { cwd, stdio: ["pipe", "pipe", "inherit"] });
const gone = new Promise((resolve) => child.on("close", resolve));
let updates = [];
let asked = [];
let answer = "allow_once";
let onUpdate = () => {};

const connection = client({ name: "typescript" })
  .onNotification(methods.client.session.update, ({ params: { update } }) => {
    updates.push(update);
    onUpdate(update);
  })
  .onRequest(methods.client.session.requestPermission, ({ params }) => {
    asked.push(params);
    const { optionId } = params.options.find((option) => option.kind === answer);
    return { outcome: { outcome: "selected", optionId } };
  })
  .connect(ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)));
const { agent } = connection;

async function turn(sessionId, text, cancelOn) {
  [updates, asked] = [[], []];
  const idle = new Promise((resolve) => {
    onUpdate = (update) => {
      if (update.sessionUpdate === cancelOn) {
        cancelOn = undefined;
        agent.notify(methods.agent.session.cancel, { sessionId });
      }
      if (update.sessionUpdate === "state_update" && update.state === "idle") resolve(update);
    };
  });
  const prompt = [{ type: "text", text }];
  const receipt = await agent.request(methods.agent.session.prompt, { sessionId, prompt });
  const { stopReason } = await idle;
  return { receipt, stopReason, updates, asked };
}

const seen = {};
seen.introduced = await agent.request(methods.agent.initialize, {
  protocolVersion: PROTOCOL_VERSION,
  info: { name: "typescript", version: "1.0" },
  capabilities: {},
});
seen.made = await agent.request(methods.agent.session.new, { cwd });
const { sessionId } = seen.made;
seen.hello = await turn(sessionId, "/echo hello");
seen.allowed = await turn(sessionId, "/write new.txt text");
answer = "reject_once";
seen.refused = await turn(sessionId, "/write other.txt text");
seen.cancelled = await turn(sessionId, "/slow 60", "tool_call_update");
seen.again = await turn(sessionId, "/echo again");
updates = [];
onUpdate = () => {};
await agent.request(methods.agent.session.resume, { sessionId, cwd, replayFrom: { type: "start" } });
seen.replayed = updates;
child.stdin.end();
await gone;
console.log(JSON.stringify(seen));
process.exit(0);
