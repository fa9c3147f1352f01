// The measured client of the official TypeScript SDK: node client.mjs SPECIFICATION AGENT ARG...

import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { ndJsonStream } from "@agentclientprotocol/sdk";
import { figures } from "./app.mjs";

const [command, ...args] = process.argv.slice(3);
const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const stream = ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
console.log(JSON.stringify(await figures(JSON.parse(process.argv[2]), stream)));
child.stdin.end();
