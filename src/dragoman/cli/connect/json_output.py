"""`--json`: a conversation as entries of its log, one a line on standard output, and how it ended as the last one.

Takes entries once they are kept, gives lines; what the lines mean is docs/store.md. Above is run.
"""

from __future__ import annotations

import asyncio
import io
from typing import Any, BinaryIO

from dragoman.schema.base import encode
from dragoman.store.contract import FORMAT, Entry, EntryKind
from dragoman.store.session_log import now

# The kind of the last line. It is not in the log: an exit code is of one command, not of a session.
RESULT = "result"


def told(session: str, entry: Entry) -> dict[str, Any]:
    """An entry as a line has it."""
    line = {"session": session, "seq": entry.seq, "kind": entry.kind, "actor": entry.actor}
    line |= {"time": entry.time, "turn": entry.turn, "body": entry.body}
    return line | ({"format": entry.format} if entry.format != FORMAT else {})


class Nowhere(io.StringIO):
    """Where the answer goes as text while it is printed as entries."""

    def write(self, text: str) -> int:
        """Forget it."""
        return len(text)


class Entries:
    """Writes lines as long as somebody reads them."""

    def __init__(self, stream: BinaryIO, main: asyncio.Task[Any] | None = None) -> None:
        """`main` is ended when nobody reads any more."""
        self.is_broken = False  # nobody reads any more
        self._stream = stream
        self._main = main
        self._session: str | None = None
        self._said: list[str] = []
        self._ended: dict[str, Any] = {}

    def put(self, session: str, entry: Entry) -> None:
        """One entry that is kept now."""
        self._session = session
        body = entry.body if isinstance(entry.body, dict) else {}
        if entry.kind == EntryKind.TURN_ENDED:
            self._ended = {name: body[name] for name in ("stopReason", "usage") if name in body}
        elif entry.kind == EntryKind.UPDATE and body.get("sessionUpdate") == "agent_message_chunk":
            content = body.get("content")
            self._said.append(str(content.get("text") or "") if isinstance(content, dict) else "")
        self._write(told(session, entry))

    def result(self, code: int, **more: Any) -> int:
        """The last line; gives the exit code."""
        body = {"exitCode": code, **self._ended, "text": "".join(self._said), **more}
        self._write({"session": self._session, "kind": RESULT, "time": now(), "body": body})
        return code

    def _write(self, line: dict[str, Any]) -> None:
        if self.is_broken:
            return
        try:
            self._stream.write(encode(line) + b"\n")
            self._stream.flush()
        except BrokenPipeError:
            self.is_broken = True
            if self._main is not None:
                self._main.cancel()
