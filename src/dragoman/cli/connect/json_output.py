"""`--json`: the entries of a session as JSON lines on standard output, then the result (docs/store.md)."""

from __future__ import annotations

import asyncio
import io
from typing import Any, BinaryIO

from dragoman.schema.base import encode
from dragoman.store.contract import FORMAT, Entry, EntryKind
from dragoman.store.session_log import timestamp

# The kind of the last line. It is not in the log: an exit code belongs to a command, not to a session.
RESULT_KIND = "result"


def entry_to_json(session: str, entry: Entry) -> dict[str, Any]:
    """Return an entry as a JSON object."""
    line = {"session": session, "seq": entry.seq, "kind": entry.kind, "actor": entry.actor}
    line |= {"time": entry.time, "turn": entry.turn, "body": entry.body}
    return line | ({"format": entry.format} if entry.format != FORMAT else {})


class NullStream(io.StringIO):
    """A stream that drops the answer as text, while it is printed as entries."""

    def write(self, text: str) -> int:
        """Drop the text."""
        return len(text)


class JsonOutput:
    """Writes lines while there is a reader."""

    def __init__(self, stream: BinaryIO, main_task: asyncio.Task[Any] | None = None) -> None:
        """`main_task` is cancelled when the reader is gone."""
        self.is_broken = False  # the reader is gone
        self._stream = stream
        self._main_task = main_task
        self._session: str | None = None
        self._answer_parts: list[str] = []
        self._turn_end: dict[str, Any] = {}

    def write_entry(self, session: str, entry: Entry) -> None:
        """Write one stored entry."""
        self._session = session
        body = entry.body if isinstance(entry.body, dict) else {}
        if entry.kind == EntryKind.TURN_ENDED:
            self._turn_end = {name: body[name] for name in ("stopReason", "usage") if name in body}
        elif entry.kind == EntryKind.UPDATE and body.get("sessionUpdate") == "agent_message_chunk":
            content = body.get("content")
            self._answer_parts.append(str(content.get("text") or "") if isinstance(content, dict) else "")
        self._write(entry_to_json(session, entry))

    def write_result(self, code: int, **more: Any) -> int:
        """Write the last line; return the exit code."""
        body = {"exitCode": code, **self._turn_end, "text": "".join(self._answer_parts), **more}
        self._write({"session": self._session, "kind": RESULT_KIND, "time": timestamp(), "body": body})
        return code

    def _write(self, line: dict[str, Any]) -> None:
        if self.is_broken:
            return
        try:
            self._stream.write(encode(line) + b"\n")
            self._stream.flush()
        except BrokenPipeError:
            self.is_broken = True
            if self._main_task is not None:
                self._main_task.cancel()
