"""Small conversations as recordings, written by hand, and reading them back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from dragoman.inspect.analyze import Analyzer
from dragoman.inspect.event import RecordedEvent
from dragoman.inspect.reader import RecordingReader
from dragoman.transport.recording.format import Header, RecordedLine, end_line, frame_line, header_line

DRAGOMAN = [sys.executable, "-m", "dragoman"]
TIMEOUT = 60.0

RECORDINGS = Path(__file__).parents[1] / "data" / "recordings"


def call(id: Any, method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def news(update: dict[str, Any], session: str = "s1") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}}


def answer(id: Any, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def chunk(text: str) -> dict[str, Any]:
    return news({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})


TALK: list[tuple[str, Any]] = [
    ("c2a", call(0, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})),
    ("a2c", answer(0, {"protocolVersion": 1, "agentCapabilities": {}})),
    ("c2a", call(1, "session/new", {"cwd": "/w", "mcpServers": []})),
    ("a2c", answer(1, {"sessionId": "s1"})),
    ("c2a", call(2, "session/prompt", {"sessionId": "s1", "prompt": [{"type": "text", "text": "hello"}]})),
    ("a2c", chunk("Hel")),
    ("a2c", chunk("lo ")),
    ("a2c", news({"sessionUpdate": "tool_call", "toolCallId": "t1", "title": "Read", "kind": "read"})),
    ("a2c", call(0, "fs/read_text_file", {"sessionId": "s1", "path": "/w/a"})),
    ("c2a", answer(0, {"content": "text"})),
    ("a2c", news({"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed"})),
    ("a2c", answer(2, {"stopReason": "end_turn"})),
]


def lines(talk: list[tuple[str, Any]] = TALK, step: int = 1000) -> list[bytes]:
    """A recording, one message every millisecond."""
    lines = [frame_line(n * step, way, _text(message)) for n, (way, message) in enumerate(talk, 1)]
    return [header_line(Header(command=["agent"], start="2026-01-01T00:00:00Z", epoch=1)), *lines]


def write(path: Path, talk: list[tuple[str, Any]] = TALK) -> Path:
    ending = end_line((len(talk) + 1) * 1000, "the agent exited with status 0", 0, len(talk))
    path.write_bytes(b"".join([*lines(talk), ending]))
    return path


def recorded(talk: list[tuple[str, Any]] = TALK) -> list[RecordedLine]:
    return list(RecordingReader().read(lines(talk)))


def observed(talk: list[tuple[str, Any]] = TALK) -> tuple[Analyzer, list[RecordedEvent]]:
    observer = Analyzer()
    return observer, [observer.analyze_line(each) for each in recorded(talk)]


def _text(message: Any) -> bytes:
    return message if isinstance(message, bytes) else json.dumps(message).encode()


def inspect(*words: str | Path, data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run `dragoman inspect` to its end."""
    source: dict[str, Any] = {"stdin": subprocess.DEVNULL} if data is None else {"input": data}
    return subprocess.run([*DRAGOMAN, "inspect", *map(str, words)], capture_output=True, timeout=TIMEOUT, **source)
