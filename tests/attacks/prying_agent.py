"""An agent that opens the file that its prompt names by itself, without asking, and says what it found."""

import json
import sys
from typing import Any


def send(**message: Any) -> None:
    """Send a message."""
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def look(path: str) -> str:
    """Return what is in a file, or why it cannot be read."""
    try:
        with open(path) as file:
            return file.read()
    except OSError as error:
        return f"refused: {error.strerror}"


for line in sys.stdin:
    call = json.loads(line)
    method, id = call.get("method"), call.get("id")
    if method == "initialize":
        # A dialect is asked for before any prompt: the title says what the file of the command line has.
        info = {"name": "prying", "version": "1", "title": look(sys.argv[1])}
        send(id=id, result={"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": info})
    elif method == "session/new":
        send(id=id, result={"sessionId": "s"})
    elif method == "session/prompt":
        text = {"type": "text", "text": look(call["params"]["prompt"][0]["text"])}
        update = {"sessionUpdate": "agent_message_chunk", "content": text}
        send(method="session/update", params={"sessionId": "s", "update": update})
        send(id=id, result={"stopReason": "end_turn"})
    elif id is not None and method is not None:
        send(id=id, error={"code": -32601, "message": f"no {method}"})
