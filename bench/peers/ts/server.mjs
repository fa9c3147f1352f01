// The measured agent behind the official TypeScript SDK's node server: prints its address, serves until its input ends.

import { createServer } from "node:http";
import { createNodeHttpHandler, createNodeWebSocketUpgradeHandler } from "@agentclientprotocol/sdk/experimental/node";
import { AcpServer } from "@agentclientprotocol/sdk/experimental/server";
import { WebSocketServer } from "ws";
import { performing } from "./app.mjs";

const acp = new AcpServer({ createAgent: performing });
const server = createServer(createNodeHttpHandler(acp));
server.on("upgrade", createNodeWebSocketUpgradeHandler(acp, new WebSocketServer({ noServer: true })));
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/acp`));
process.stdin.resume().on("end", () => process.exit(0));
