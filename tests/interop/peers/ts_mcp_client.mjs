// A client written with the official TypeScript SDK that offers an MCP server on the connection. It starts the agent named
// on its command line, sends one prompt, and prints the text of the answer. Knows nothing of Dragoman.

import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { client, McpOverAcpProvider, McpProtocolError, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk/unstable";

const provider = new McpOverAcpProvider();
let text = "";
let waiting;

async function serve({ method, params, notify, signal }) {
  if (method === "tools/list") {
    const inputSchema = { type: "object", properties: { text: { type: "string" } } };
    const tools = ["echo", "inner", "oops", "wait"].map((name) => ({ name, inputSchema }));
    return { result: { tools, resultType: "complete", ttlMs: 0, cacheScope: "public" } };
  }
  if (params?.name === "inner") throw new McpProtocolError(-32050, "inner bad", { x: 1 });
  if (params?.name === "oops") throw new Error("oops");
  if (params?.name === "wait") {
    const aborted = new Promise((_, fail) => signal.addEventListener("abort", () => fail(signal.reason)));
    waiting = aborted.catch(() => {});
    await remote.notify(methods.agent.session.cancel, { sessionId });
    await aborted;
  }
  if (method === "tools/call") {
    const token = params._meta?.progressToken;
    if (token !== undefined) {
      await notify("notifications/progress", { progressToken: token, progress: 1, message: "halfway" });
    }
    const content = [{ type: "text", text: `echo ${params.arguments.text}` }];
    return { result: { content, resultType: "complete" } };
  }
  return { error: { code: -32601, message: `no ${method}` } };
}

const [command, ...rest] = process.argv.slice(3);
const child = spawn(command, rest, { stdio: ["pipe", "pipe", "inherit"] });
const app = client({ name: "ts-mcp" })
  .onNotification(methods.client.session.update, ({ params }) => {
    text += params.update.content?.text ?? "";
  })
  .onRequest(methods.client.session.requestPermission, () => ({ outcome: { outcome: "selected", optionId: "allow_once" } }))
  .onRequest("mcp/message", provider.handleRequest);
const connection = app.connect(ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)));
const remote = connection.agent;
await remote.request(methods.agent.initialize, { protocolVersion: PROTOCOL_VERSION, clientCapabilities: {} });
const registration = provider.registerServer(remote, { name: "tools", handler: serve });
const session = { cwd: process.cwd(), mcpServers: [registration.declaration] };
const { sessionId } = await remote.request(methods.agent.session.new, session);
for (const prompt of process.argv[2].split("\n")) {
  await remote.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text: prompt }] });
  await waiting; // the cancel of a call may come after the end of its turn
}
console.log(text);
// Not killed: what stands between this client and the agent has read all frames when it exits.
child.stdin.end();
await new Promise((exited) => child.on("exit", exited));
process.exit(0);
