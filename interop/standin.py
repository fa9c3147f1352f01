"""Stands in for `dragoman run --json --session` until that is there: the same flags, one entry a line.

The driver chooses between the two; nothing else knows of this module, and it goes when the command has come.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec

from dragoman import ConnectionFailed, Lending, ProtocolError, connect
from dragoman.roles.client import choose

CODES = {"end_turn": 0, "refusal": 3, "max_tokens": 4, "max_turn_requests": 4, "cancelled": 5}


def put(kind: str, body: Any) -> None:
    """One entry."""
    sys.stdout.buffer.write(msgspec.json.encode({"kind": kind, "body": body}) + b"\n")
    sys.stdout.flush()


async def main() -> int:
    """One prompt."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--prompt")
    parser.add_argument("--yes", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--session")
    parser.add_argument("--cwd")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    kept = Path(os.environ["XDG_STATE_HOME"]) / f"{options.session}.session"

    refused: list[str | None] = []

    def permission(params: Any) -> str | None:
        put("asked", params)
        chosen = choose(params, "allow" if options.yes else "deny")
        put("decided", {"optionId": chosen})
        if not options.yes:
            refused.append(chosen)
        return chosen

    def heard(data: bytes) -> None:
        sys.stderr.buffer.write(data)

    lending = Lending(approve=lambda question: options.yes or question.operation == "read")
    try:
        async with connect(
            options.command, cwd=options.cwd, permission=permission, lend=lending, stderr=heard
        ) as agent:
            put("opened", {"agentInfo": agent.info})
            if options.session and kept.exists():
                session = await agent.load(kept.read_text(), options.cwd)
            else:
                session = await agent.open(options.cwd)
            if options.session:
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_text(session.id)
            async with session.prompt(options.prompt) as turn:
                asyncio.get_running_loop().add_signal_handler(signal.SIGINT, turn.cancel)
                async for update in turn:
                    put("update", update)
            put("turn_ended", {"stopReason": turn.stop_reason})
            return 6 if refused and turn.stop_reason == "end_turn" else CODES.get(turn.stop_reason or "", 1)
    except (ProtocolError, ConnectionFailed) as error:
        details = json.dumps(getattr(error, "data", None), default=str)
        print(f"standin: {type(error).__name__}: {error} {details}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
