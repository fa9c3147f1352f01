"""An agent that accepts one dialect only: `stubborn.py DIALECT refuse|answer LOG`.

It answers an initialize of another dialect with invalid params (`refuse`), or in its own dialect without reading it
(`answer`). It writes its folder and every message it receives to LOG, one JSON value per line.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.pairs.words import WORDS

# A member of initialize that only this dialect has.
SIGNS = {
    "v1": "clientCapabilities",
    "banjo": "clientCapabilities",
    "2025.1": "client_info",
    "crow": "client_capabilities",
    "draft": "capabilities",
}


def main(name: str, manner: str, log: str) -> None:
    words = WORDS[name]
    note(log, {"started": os.getcwd()})
    for line in sys.stdin:
        message = json.loads(line)
        note(log, message)
        method, params = message.get("method"), message.get("params", {})
        if method == "initialize":
            understood = SIGNS[name] in params and (name != "2025.1" or isinstance(params["protocol_version"], str))
            if understood or manner == "answer":
                answer(message, words.introduction)
            else:
                say({"id": message["id"], "error": {"code": -32602, "message": f"{SIGNS[name]} is missing"}})
        elif method == "session/new":
            answer(message, words.made(params.get("session_id", "made-by-agent")))
        elif method == "session/prompt":
            session = params.get("sessionId") or params.get("session_id")
            say({"method": "session/update", "params": words.say(session, f"in {os.getcwd()}")})
            answer(message, words.stopped)


def answer(message: Any, result: Any) -> None:
    say({"id": message["id"], "result": result})


def say(members: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **members}), flush=True)


def note(log: str, value: Any) -> None:
    with open(log, "a", encoding="utf-8") as file:
        file.write(json.dumps(value) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
