"""An MCP server of the handshake era in the standard library alone, so that it starts at once; faults by argument.

python bare_server.py [FAULT] [ARGUMENT]
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

FAULT = sys.argv[1] if len(sys.argv) > 1 else ""
ARGUMENT = sys.argv[2] if len(sys.argv) > 2 else ""
PAGE = 2

TOOLS: list[dict[str, Any]] = [
    {"name": "echo", "title": "Echo a text", "description": "Say TEXT again", "annotations": {"readOnlyHint": True}},
    {"name": "fail", "description": "Fail", "annotations": {"openWorldHint": True}},
    {"name": "slow", "description": "Report progress, then answer when told to"},
    {"name": "environment", "description": "Show the environment and the folder"},
    {"name": "blocks", "description": "Answer with every kind of block"},
    {"name": "big", "description": "Answer with SIZE characters"},
    {"name": "exit", "description": "Exit in the middle of a call"},
    {"name": "ask", "description": "Ask the client for its roots, a form and a sample"},
    {"name": "lie", "description": "Break its own schema", "outputSchema": {
        "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}},
    {"name": "error", "description": "Answer with a JSON-RPC error"},
]  # fmt: skip

lock = threading.Lock()
answers: dict[str, Any] = {}
arrived = threading.Condition()
cancelled: set[Any] = set()


def send(**message: Any) -> None:
    """Write one message."""
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def ask(id: str, method: str, params: dict[str, Any] | None = None) -> Any:
    """Send a request to the client and wait for its answer."""
    send(id=id, method=method, params=params or {})
    with arrived:
        arrived.wait_for(lambda: id in answers, timeout=20)
    answer = answers.get(id, {})
    return answer.get("result", {"error": answer.get("error", {}).get("code")})


def text(value: Any, **more: Any) -> dict[str, Any]:
    """Return the result of a tool."""
    return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}], **more}


def slow(id: Any, arguments: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any] | None:
    """Report progress, then wait for a file or for the cancel."""
    for step in range(1, 4):
        token = meta.get("progressToken")
        params = {"progressToken": token, "progress": step, "total": 3, "message": f"step {step}"}
        send(method="notifications/progress", params=params)
    until = arguments.get("until", "")
    while not os.path.exists(until):
        if id in cancelled:
            with open(until + ".cancelled", "w") as file:
                file.write("yes")
            return None
        time.sleep(0.02)
    return text("done")


def ask_everything() -> dict[str, Any]:
    """Ask everything that a server can ask."""
    form = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
    secret = {"type": "object", "properties": {"password": {"type": "string"}}}
    sample = {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 10}
    return {
        "roots": ask("r1", "roots/list"),
        "form": ask("r2", "elicitation/create", {"message": "Which color?", "requestedSchema": form}),
        "secret": ask("r3", "elicitation/create", {"message": "Password?", "requestedSchema": secret}),
        "sample": ask("r4", "sampling/createMessage", sample),
    }


BLOCKS = [
    {"type": "text", "text": "words"},
    {"type": "image", "data": "aGk=", "mimeType": "image/png"},
    {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
    {"type": "resource", "resource": {"uri": "note://1", "mimeType": "text/plain", "text": "a note"}},
    {"type": "resource_link", "uri": "note://2", "name": "two"},
]


def call(id: Any, params: dict[str, Any]) -> dict[str, Any] | None:
    """Call a tool."""
    name, arguments = params["name"], params.get("arguments") or {}
    if name == "echo":
        return text(str(arguments.get("text", "")))
    if name == "fail":
        return text("it failed", isError=True)
    if name == "slow":
        return slow(id, arguments, params.get("_meta") or {})
    if name == "environment":
        return text({"env": dict(os.environ), "cwd": os.getcwd(), "pid": os.getpid()})
    if name == "blocks":
        return {"content": BLOCKS, "structuredContent": {"n": 1}}
    if name == "big":
        return text("x" * int(arguments["size"]))
    if name == "exit":
        print(f"I leave, my key is {os.environ.get('KEY', '')}", file=sys.stderr)
        sys.stderr.flush()
        os._exit(7)
    if name == "ask":
        return text(ask_everything())
    if name == "lie":
        return {"content": [], "structuredContent": {"n": "no number"}}
    raise KeyError(name)


def page(name: str, entries: list[Any], params: dict[str, Any]) -> dict[str, Any]:
    """Return one page of a list."""
    start = int(params.get("cursor") or 0)
    more = {"nextCursor": str(start + PAGE)} if start + PAGE < len(entries) else {}
    return {name: entries[start : start + PAGE], **more}


def tools() -> list[dict[str, Any]]:
    """Return the tools, with a schema each."""
    if FAULT == "schema":
        return [{"name": "echo", "inputSchema": "anything"}]
    return [{"inputSchema": {"type": "object"}, **tool} for tool in TOOLS]


PROMPT = {"name": "greet", "description": "Greet somebody", "arguments": [
    {"name": "who", "required": True}, {"name": "how"}]}  # fmt: skip


def result_of(id: Any, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result of a request."""
    match method:
        case "initialize":
            capabilities: dict[str, Any] = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}}
            info = {"name": "bare", "version": "1"}
            return {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": info}
        case "tools/list":
            return page("tools", tools(), params)
        case "tools/call":
            return call(id, params)
        case "resources/list":
            return {"resources": [{"uri": "note://1", "name": "one"}]}
        case "resources/templates/list":
            return {"resourceTemplates": [{"uriTemplate": "note://{id}", "name": "note"}]}
        case "resources/read":
            key = os.environ.get("KEY", "")
            return {"contents": [{"uri": params["uri"], "mimeType": "text/plain", "text": f"a note {key}"}]}
        case "prompts/list":
            return {"prompts": [PROMPT]}
        case "prompts/get":
            words = params.get("arguments") or {}
            greeting = f"Greet {words.get('who')} {words.get('how', 'kindly')}"
            return {"messages": [{"role": "user", "content": {"type": "text", "text": greeting}}]}
        case "ping":
            return {}
    raise KeyError(method)


def answer(message: dict[str, Any]) -> None:
    """Answer one request."""
    id, params = message["id"], message.get("params") or {}
    try:
        if params.get("name") == "error":
            send(id=id, error={"code": -32050, "message": f"no luck with {os.environ.get('KEY', 'it')}"})
            return
        result = result_of(id, message["method"], params)
    except KeyError as missing:
        send(id=id, error={"code": -32601, "message": f"there is no {missing}"})
        return
    if result is not None:
        send(id=id, result=result)


def misbehave() -> None:
    """Do what the fault says, before the first message."""
    if FAULT == "hang":
        time.sleep(600)
    if FAULT == "late":
        time.sleep(float(ARGUMENT))
    if FAULT == "noise":
        for _ in range(1000):
            print("starting up, please wait")
    if FAULT == "flood":
        for _ in range(20_000):
            send(method="notifications/message", params={"level": "info", "data": "x" * 200})
    if FAULT == "spawn":  # a child that outlives a careless parent
        import subprocess

        child = subprocess.Popen(["sleep", "600"])
        with open(ARGUMENT, "w") as file:
            file.write(f"{os.getpid()} {child.pid}")


def main() -> None:
    """Serve until the input ends."""
    misbehave()
    for line in sys.stdin:
        message = json.loads(line)
        if "method" not in message:
            with arrived:
                answers[message["id"]] = message
                arrived.notify_all()
        elif "id" in message:
            threading.Thread(target=answer, args=(message,), daemon=True).start()
        elif message["method"] == "notifications/cancelled":
            cancelled.add(message["params"]["requestId"])


if __name__ == "__main__":
    main()
