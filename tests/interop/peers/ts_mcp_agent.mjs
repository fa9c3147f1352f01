// An agent written with the official TypeScript SDK that uses the MCP servers its client offers on the connection.
// Its prompt is the text of the answers to tools/list and tools/call. Knows nothing of Dragoman.

import { Readable, Writable } from "node:stream";
import { agent, McpOverAcpCaller, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk/unstable";

const caller = new McpOverAcpCaller({ clientInfo: { name: "ag", version: "1" } });
let servers = [];

const app = agent({ name: "ts-mcp" })
  .onRequest(methods.agent.initialize, () => ({
    protocolVersion: PROTOCOL_VERSION,
    agentCapabilities: { mcpCapabilities: { http: false, sse: false, acp: true } },
    authMethods: [],
  }))
  .onRequest(methods.agent.session.new, ({ params }) => {
    servers = params.mcpServers;
    return { sessionId: "s" };
  })
  .onRequest(methods.agent.session.prompt, async ({ params, client }) => {
    const { serverId } = servers[0];
    if (params.prompt[0].text === "frames") {
      const call = (name, more) =>
        caller
          .request(client, serverId, "tools/call", { name, arguments: { text: "hi" }, _meta: { progressToken: "t" } }, more)
          .catch((error) => error.code);
      const seen = [await call("echo"), await call("inner"), await call("oops")];
      seen.push(await call("wait", { signal: AbortSignal.timeout(200) }));
      const update = { sessionUpdate: "agent_message_chunk", content: { type: "text", text: JSON.stringify(seen) } };
      await client.notify(methods.client.session.update, { sessionId: params.sessionId, update });
      return { stopReason: "end_turn" };
    }
    const notes = [];
    const onNotification = (note) => notes.push(note.method);
    const ask = (method, more) => caller.request(client, serverId, method, more, { onNotification });
    const found = {
      list: await ask("tools/list"),
      call: await ask("tools/call", { name: "add", arguments: { a: 2, b: 3 }, _meta: { progressToken: "t" } }),
      unknown: await ask("no/such"),
      notes,
    };
    try {
      await caller.request(client, "nobody", "tools/list");
    } catch (error) {
      found.outer = error.code;
    }
    const text = JSON.stringify(found);
    const update = { sessionUpdate: "agent_message_chunk", content: { type: "text", text } };
    await client.notify(methods.client.session.update, { sessionId: params.sessionId, update });
    return { stopReason: "end_turn" };
  })
  .onNotification("mcp/message", caller.handleNotification);

const connection = app.connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
await connection.closed;
process.exit(0);
