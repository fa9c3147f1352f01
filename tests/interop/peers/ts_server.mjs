// The agent of ts_app.mjs over HTTP and WebSocket, as the official TypeScript SDK serves it: prints its address, and
// serves until its standard input ends.

import { createServer } from "node:http";
import { AcpServer } from "@agentclientprotocol/sdk/experimental/server";
import { createNodeHttpHandler, createNodeWebSocketUpgradeHandler } from "@agentclientprotocol/sdk/experimental/node";
import { WebSocketServer } from "ws";
import { performing } from "./ts_app.mjs";

const acp = new AcpServer({ agent: performing });
const server = createServer(createNodeHttpHandler(acp));
server.on("upgrade", createNodeWebSocketUpgradeHandler(acp, new WebSocketServer({ noServer: true })));
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/acp`));
process.stdin.resume().on("end", () => process.exit(0));
