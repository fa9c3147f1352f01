"""A proxy for chains without any library: passes everything on, or misbehaves as its arguments say.

raw_proxy.py [--old] [--log FILE] [--mark TEXT] [--FAULT [METHOD]]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

Json = dict[str, Any]

parser = argparse.ArgumentParser()
parser.add_argument("--old", action="store_true", help="know only _proxy/*")
parser.add_argument("--log", help="write every line that arrives to this file")
parser.add_argument("--mark", default="", help="put this before the text of each chunk")
parser.add_argument("--die", help="exit when this method arrives, in either direction")
parser.add_argument("--die-once", help="the same, unless this file exists, which is then made")
parser.add_argument("--twice", help="answer this method twice")
parser.add_argument("--silent", help="never answer this method")
parser.add_argument("--version", type=int, help="answer initialize with this version")
parser.add_argument("--raise-version", action="store_true", help="ask the successor for a higher version")
parser.add_argument("--forge", choices=("agent", "initialize", "nested", "answer"), help="pretend to be somebody else")
parser.add_argument("--no-proxy", action="store_true", help="answer everything like an agent")
parser.add_argument("--alone", action="store_true", help="answer initialize without asking the successor")
options = parser.parse_args()

WORD = "_proxy" if options.old else "proxy"
SUCCESSOR, INITIALIZE = f"{WORD}/successor", f"{WORD}/initialize"
log = open(options.log, "ab", buffering=0) if options.log else None  # noqa: SIM115
pending: dict[int, Any] = {}
last = 0


def send(message: Json) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")) + "\n")


def pass_on(id: Any, method: str, params: Any, wrapped: bool) -> None:
    global last
    call: Json = {"method": method} if params is None else {"method": method, "params": params}
    if wrapped:
        call = {"method": SUCCESSOR, "params": call}
    if id is not None:
        last += 1
        pending[last] = id
        call = {"id": last, **call}
    send(call)


def die_if_asked(method: str) -> None:
    if options.die != method:
        return
    if options.die_once:
        if os.path.exists(options.die_once):
            return
        open(options.die_once, "w").close()
    print("the raw proxy was told to die", file=sys.stderr)
    sys.stdout.flush()
    os._exit(7)


def on_call(message: Json) -> None:
    id, method = message.get("id"), message["method"]
    params: Any = message.get("params")
    if method == "$/cancel_request":
        for ours, theirs in pending.items():
            if theirs == params["requestId"]:
                send({"method": "$/cancel_request", "params": {"requestId": ours}})
        return
    die_if_asked(method)
    if options.no_proxy or (method.endswith("proxy/initialize") and method != INITIALIZE):
        send({"id": id, "error": {"code": -32601, "message": "Method not found"}})
        return
    if method == INITIALIZE:
        if options.alone:
            send({"id": id, "result": {"protocolVersion": 1, "agentCapabilities": {}}})
            return
        if options.silent == "initialize":
            return
        if options.raise_version:
            params = {**params, "protocolVersion": 9}
        pass_on(id, "initialize", params, wrapped=True)
    elif method == SUCCESSOR:
        inner, given = params["method"], params.get("params")
        die_if_asked(inner)
        if options.mark and inner == "session/update" and "text" in given["update"].get("content", {}):
            given["update"]["content"]["text"] = options.mark + given["update"]["content"]["text"]
        if options.silent != inner:
            pass_on(id, inner, given, wrapped=False)
    elif options.silent != method:
        if options.forge == "initialize" and method == "session/new":
            send({"id": "f", "method": "initialize", "params": {"protocolVersion": 1}})
        elif options.forge == "nested" and method == "session/new":
            send({"id": "f", "method": SUCCESSOR, "params": {"method": SUCCESSOR, "params": {"method": "_x"}}})
        elif options.forge == "answer" and method == "session/new":
            for number in range(5000, 5020):
                send({"id": number, "result": {"sessionId": "forged"}})
        pass_on(id, method, params, wrapped=True)
        if options.twice == method:
            send({"id": id, "result": {"sessionId": "first of two"}})


def on_answer(message: Json) -> None:
    theirs = pending.pop(message["id"], None)
    if theirs is None:
        return
    if options.version is not None and "protocolVersion" in (message.get("result") or {}):
        message["result"]["protocolVersion"] = options.version
    message["id"] = theirs
    message.pop("jsonrpc", None)
    send(message)


for line in sys.stdin.buffer:
    if log is not None:
        log.write(line)
    received = json.loads(line)
    if "method" in received:
        on_call(received)
    else:
        on_answer(received)
    sys.stdout.flush()
