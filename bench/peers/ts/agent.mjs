// The measured agent of the official TypeScript SDK on standard input and output.

import { Readable, Writable } from "node:stream";
import { ndJsonStream } from "@agentclientprotocol/sdk";
import { performing } from "./app.mjs";

performing().connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
