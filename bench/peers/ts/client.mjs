// The measured client written with the official TypeScript SDK: node client.mjs SPECIFICATION AGENT ARG...

import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";
import { ANSWER, drive } from "./work.mjs";

const specification = JSON.parse(process.argv[2]);
const [command, ...args] = process.argv.slice(3);
const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const stream = ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));

await client({ name: "bench" })
  .onRequest(methods.client.fs.readTextFile, async ({ params }) => ({
    content: specification.path ? await readFile(params.path, "utf8") : ANSWER,
  }))
  .connectWith(stream, async (agent) => {
    await agent.request(methods.agent.initialize, {
      protocolVersion: PROTOCOL_VERSION,
      clientCapabilities: { fs: { readTextFile: true } },
    });
    const figures = await drive(specification, {
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
    console.log(JSON.stringify(figures));
  });
child.stdin.end();
