// The measured agent and client written with the official TypeScript SDK, whatever carries the messages.

import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { agent, client, methods, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";
import { ANSWER, drive, Performer } from "./work.mjs";

const performer = new Performer();

// An agent to be connected to a stream, or to be served.
export function performing() {
  return agent({ name: "bench" })
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
    });
}

// The work that a specification names, done over a stream to an agent.
export async function figures(specification, stream) {
  let measured;
  await client({ name: "bench" })
    .onRequest(methods.client.fs.readTextFile, async ({ params }) => ({
      content: specification.path ? await readFile(params.path, "utf8") : ANSWER,
    }))
    .connectWith(stream, async (agent) => {
      await agent.request(methods.agent.initialize, {
        protocolVersion: PROTOCOL_VERSION,
        clientCapabilities: { fs: { readTextFile: true } },
      });
      measured = await drive(specification, {
        open: () => agent.buildSession(specification.cwd ?? process.cwd()).start(),
        async prompt(session, text, take) {
          const answered = session.prompt(text);
          for (;;) {
            const message = await session.nextUpdate();
            if (message.kind === "stop") break;
            const { update } = message;
            if (update.sessionUpdate === "agent_message_chunk" && update.content.type === "text") {
              take(update.content.text);
            }
          }
          return (await answered).stopReason;
        },
      });
    });
  return measured;
}
