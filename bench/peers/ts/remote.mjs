// The measured remote client of the official TypeScript SDK: node remote.mjs SPECIFICATION SERVER ARG..., over ws or http.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { createHttpStream } from "@agentclientprotocol/sdk/experimental/http-client";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
import { WebSocket } from "ws";
import { figures } from "./app.mjs";

const specification = JSON.parse(process.argv[2]);
const [command, ...args] = process.argv.slice(3);
const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const [address] = await once(createInterface(child.stdout), "line");
const stream =
  specification.over === "ws"
    ? createWebSocketStream(address.replace("http", "ws"), { WebSocket })
    : createHttpStream(address);
console.log(JSON.stringify(await figures(specification, stream)));
child.stdin.end();
await once(child, "exit");
process.exit(0);
