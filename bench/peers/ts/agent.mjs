// The measured agent written with the official TypeScript SDK.

import { randomUUID } from "node:crypto";
import { Readable, Writable } from "node:stream";
import { agent, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";
import { Performer } from "./work.mjs";

const performer = new Performer();

agent({ name: "bench" })
  .onRequest(methods.agent.initialize, () => ({
    protocolVersion: PROTOCOL_VERSION,
    agentInfo: { name: "bench", version: "1.0" },
    agentCapabilities: {},
  }))
  .onRequest(methods.agent.session.new, () => ({ sessionId: randomUUID() }))
  .onRequest(methods.agent.session.prompt, async ({ params: { sessionId, prompt }, client }) => {
    const text = prompt.map((block) => (block.type === "text" ? block.text : "")).join("");
    await performer.perform(
      text,
      (text) =>
        client.notify(methods.client.session.update, {
          sessionId,
          update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text } },
        }),
      async (path) => (await client.request(methods.client.fs.readTextFile, { sessionId, path })).content,
    );
    return { stopReason: "end_turn" };
  })
  .connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
