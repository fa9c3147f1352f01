"""A language server that misbehaves on request: `python broken_server.py HOW LOGFILE`.

Reads messages with a reader of its own. It pushes one diagnostic for each "bad" in a text. Every start is a line of
LOGFILE, and so is every answer that it gets to its own requests. With `gate` it is silent until LOGFILE.go exists.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

# How late the diagnostics of `late` are: far later than a client that does not wait. Seconds.
LATE = 0.3


def send(message: dict[str, Any]) -> None:
    """Write one message."""
    data = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%b" % (len(data), data))
    sys.stdout.buffer.flush()


def receive() -> dict[str, Any]:
    """Read one message; exit at the end of the input."""
    size = 0
    while (line := sys.stdin.buffer.readline().strip()) or not size:
        if line.lower().startswith(b"content-length:"):
            size = int(line.split(b":")[1])
        elif not line:
            sys.exit(0)
    found: dict[str, Any] = json.loads(sys.stdin.buffer.read(size))
    return found


def note(log: str, text: str) -> None:
    """Append a line to the log."""
    with open(log, "a") as file:
        file.write(text + "\n")


def diagnostics(text: str, how: str) -> list[dict[str, Any]]:
    """Return one diagnostic for each "bad"; with wrong positions if asked to."""
    found = []
    for number, line in enumerate(text.split("\n")):
        if "bad" in line:
            start = {"line": number, "character": line.index("bad")}
            if how == "positions":
                start = {"line": 10**9, "character": -5}
            found.append({"range": {"start": start, "end": start}, "severity": 1, "message": f"bad in {line!r}"})
    return found


def main(how: str, log: str) -> None:
    """Serve until the input ends."""
    note(log, f"start {os.getpid()}")
    if how == "noise":
        sys.stdout.write("Loading plug-ins...\nwarning: Content-Length unknown\n")
        sys.stdout.flush()
    if how == "babble":
        while True:
            sys.stdout.write("no messages at all " * 1000)
    if how == "exit":
        sys.exit("cannot read its configuration")
    texts: dict[str, str] = {}
    while True:
        message = receive()
        method, params = message.get("method"), message.get("params") or {}
        if method is None:
            note(log, f"answer {message['id']} {json.dumps(message.get('result'))}")
        elif method == "initialize":
            if how == "mute":
                time.sleep(60)
            send({"id": message["id"], "result": {"capabilities": {"hoverProvider": True, "renameProvider": True}}})
            for number, request in enumerate(
                ["client/registerCapability", "workspace/configuration", "window/workDoneProgress/create",
                 "workspace/applyEdit"]
            ):  # fmt: skip
                send({"id": f"s{number}", "method": request, "params": {"items": [{"section": "a.b"}, {}]}})
        elif method == "shutdown":
            note(log, f"shutdown {'params' in message}")
            if how != "stubborn":
                send({"id": message["id"], "result": None})
        elif method == "exit" and how != "stubborn":
            note(log, "exit")
            return
        elif method == "textDocument/hover":
            if how == "huge":
                send({"id": message["id"], "result": {"contents": "x" * 40_000_000}})
            elif how == "flood":
                while True:
                    send({"method": "window/logMessage", "params": {"type": 4, "message": "busy"}})
            elif how != "hang":
                send({"id": message["id"], "result": {"contents": {"kind": "markdown", "value": "a thing"}}})
        elif method in ("textDocument/didOpen", "textDocument/didChange"):
            document = params["textDocument"]
            text = document.get("text") or params["contentChanges"][0]["text"]
            texts[document["uri"]] = text
            if how == "crash" and "crash" in text:
                os._exit(3)
            if how == "late":
                time.sleep(LATE)
            while how == "gate" and not os.path.exists(log + ".go"):
                time.sleep(0.01)
            if how != "silent":
                items = diagnostics(text, how)
                version = {} if how == "versionless" else {"version": document["version"]}
                send(
                    {
                        "method": "textDocument/publishDiagnostics",
                        "params": {"uri": document["uri"], "diagnostics": items, **version},
                    }
                )
        elif "id" in message:
            send({"id": message["id"], "error": {"code": -32601, "message": "no"}})


if __name__ == "__main__":
    main(*sys.argv[1:])
