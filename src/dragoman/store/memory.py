"""A store that lasts as long as the process: for tests, and for whoever wants nothing kept."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dragoman.errors import Kind, ProtocolError
from dragoman.store.contract import Draft, Entry, Summary


class MemoryStore:
    """Logs in a dict. Entries are kept encoded, so nobody can change what was logged."""

    def __init__(self) -> None:
        self._logs: dict[str, list[bytes]] = {}
        self._times: dict[str, str] = {}
        self._closed = False

    async def append(self, session_id: str, drafts: Sequence[Draft]) -> list[Entry]:
        """Add drafts to a log and give their entries."""
        self._check_open()
        log = self._logs.get(session_id, [])
        entries = [
            Entry(seq=number, kind=draft.kind, actor=draft.actor, time=draft.time, body=draft.body, turn=draft.turn)
            for number, draft in enumerate(drafts, start=len(log) + 1)
        ]
        encoded = [msgspec.json.encode(entry) for entry in entries]  # a body that is not JSON fails before any is kept
        if encoded:
            self._logs[session_id] = [*log, *encoded]
            self._times.pop(session_id, None)
            self._times[session_id] = entries[-1].time
        return entries

    async def read(self, session_id: str, after: int = 0, limit: int | None = None) -> list[Entry]:
        """The entries above `after`."""
        self._check_open()
        if session_id not in self._logs:
            raise ProtocolError(
                Kind.SESSION_NOT_FOUND, f"there is no session {session_id!r} in this store", {"sessionId": session_id}
            )
        start = max(after, 0)
        end = None if limit is None else start + max(limit, 0)
        return [msgspec.json.decode(entry, type=Entry) for entry in self._logs[session_id][start:end]]

    async def sessions(self) -> list[Summary]:
        """All logs, the one that changed last first."""
        self._check_open()
        return [
            Summary(session_id=session_id, entries=len(self._logs[session_id]), updated_at=time)
            for session_id, time in reversed(self._times.items())
        ]

    async def delete(self, session_id: str) -> bool:
        """Forget a log."""
        self._check_open()
        self._times.pop(session_id, None)
        return self._logs.pop(session_id, None) is not None

    async def close(self) -> None:
        """Forget everything."""
        self._closed = True
        self._logs.clear()
        self._times.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise ProtocolError(Kind.INVALID_STATE, "this store is closed")
