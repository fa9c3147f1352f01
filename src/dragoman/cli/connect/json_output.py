"""`--json`: the entries of a session as JSON lines on standard output, then the result (docs/store.md).

Entries of a session on this machine come from its store; LogFollower reads those of a host while one prompt runs."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO

from dragoman.cli.ui.terminal import escape_json
from dragoman.errors import ConnectionFailed, ProtocolError
from dragoman.ids import now
from dragoman.schema.base import encode
from dragoman.store.contract import Entry, EntryKind
from dragoman.store.formats import FIRST_FORMAT

if TYPE_CHECKING:
    from dragoman.cli.host_client.store import HostStore

# The kind of the last line. It is not in the log: an exit code belongs to a command, not to a session.
RESULT_KIND = "result"


def entry_to_json(session: str, entry: Entry) -> dict[str, Any]:
    """Return an entry as a JSON object."""
    line = {"session": session, "seq": entry.seq, "kind": entry.kind, "actor": entry.actor}
    line |= {"time": entry.time, "turn": entry.turn, "body": entry.body}
    return line | ({"format": entry.format} if entry.format != FIRST_FORMAT else {})


class NullStream(io.StringIO):
    """A stream that drops the answer as text, while it is printed as entries."""

    def write(self, text: str) -> int:
        """Drop the text."""
        return len(text)


class JsonOutput:
    """Writes lines while there is a reader."""

    def __init__(self, stream: BinaryIO, main_task: asyncio.Task[Any] | None = None) -> None:
        """`main_task` is cancelled when the reader is gone."""
        self.failure: OSError | None = None  # the reader is gone, or the disk is full
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
            self._turn_end = {name: body[name] for name in ("stopReason", "usage", "error") if name in body}
        elif entry.kind == EntryKind.UPDATE and body.get("sessionUpdate") == "agent_message_chunk":
            content = body.get("content")
            self._answer_parts.append(str(content.get("text") or "") if isinstance(content, dict) else "")
        self._write(entry_to_json(session, entry))

    def write_result(self, code: int, **more: Any) -> int:
        """Write the last line; return the exit code."""
        body = {"exitCode": code, **self._turn_end, "text": "".join(self._answer_parts), **more}
        self._write({"session": self._session, "kind": RESULT_KIND, "time": now(), "body": body})
        return code

    def _write(self, line: dict[str, Any]) -> None:
        if self.failure is not None:
            return
        try:
            self._stream.write(escape_json(encode(line)) + b"\n")
            self._stream.flush()
        except OSError as error:
            self.failure = error
            if self._main_task is not None:
                self._main_task.cancel()


# Entries of a short period are read together, which saves requests. Seconds.
BATCH_DELAY = 0.05

OnEntry = Callable[[str, Entry], None]


class LogFollower:
    """Reads one log as it grows."""

    def __init__(self, store: HostStore, on_entry: OnEntry, own_turn_id: Callable[[], str]) -> None:
        """`own_turn_id` returns the id of our own turn, empty until it has begun."""
        self._store = store
        self._on_entry = on_entry
        self._own_turn_id = own_turn_id
        self._session_id = ""
        self._last_seq = 0
        self._wakeup = asyncio.Event()
        self._held_entries: list[Entry] = []  # of turns that may belong to other members
        self._reader_task: asyncio.Task[None] | None = None

    def start(self, session_id: str, after: int) -> None:
        """Follow this session, after the entry with this number."""
        self._session_id, self._last_seq = session_id, after
        self._reader_task = asyncio.create_task(self._run())
        self._wakeup.set()

    def wake(self) -> None:
        """Note that something happened in the session."""
        self._wakeup.set()

    async def finish(self) -> None:
        """Read the remaining entries and stop."""
        if self._reader_task is None:
            return
        self._reader_task.cancel()
        await asyncio.gather(self._reader_task, return_exceptions=True)
        await self._read_new_entries()
        for entry in self._held_entries:
            self._on_entry(self._session_id, entry)

    async def _run(self) -> None:
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            await self._read_new_entries()
            await asyncio.sleep(BATCH_DELAY)

    async def _read_new_entries(self) -> None:
        # If the session was deleted, access was revoked or the host is gone, the prompt reports it.
        with suppress(ProtocolError, ConnectionFailed):
            for entry in await self._store.read(self._session_id, self._last_seq):
                self._last_seq = entry.seq
                self._deliver(entry)

    def _deliver(self, entry: Entry) -> None:
        if entry.kind == EntryKind.MEMBER:
            return  # members who join and leave are not part of the conversation
        own = self._own_turn_id()
        if not own and (entry.turn or self._held_entries):
            self._held_entries.append(entry)
            return
        for each in [*self._held_entries, entry]:
            if each.turn in (None, own):
                self._on_entry(self._session_id, each)
        self._held_entries.clear()
