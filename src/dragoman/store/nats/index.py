"""What is known of sessions besides their logs: a record each for the summary, the name, the state, the credentials.

All are messages of one stream with one message a subject, changed by compare-and-set.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec

from dragoman.errors import StoreFault
from dragoman.store.fleet import Record, changed_record_fault
from dragoman.store.nats.client import Conflict, NatsClient, StreamMessage
from dragoman.store.nats.messages import META, head_subject, token, untoken

# How often a record that another node changes at the same moment is tried again.
MAX_TRIES = 20

# So many records of a list are read from the leader; the rest of a longer one from any replica, in batches.
FROM_LEADER = 64


class SessionHead(msgspec.Struct, omit_defaults=True):
    """The part of a summary that few entries change."""

    session_id: str
    turns: int = 0
    created_at: str = ""
    name: str | None = None
    title: str | None = None
    prompted: str | None = None
    agent: str | None = None
    agent_session: str | None = None
    cwd: str | None = None
    forked_from: str | None = None
    archived: bool = False
    imported: int = 0
    expired: bool = False
    witness: int = 0  # entries that the log had at least: one that is shorter lost its end


class Index:
    """The records of one stream."""

    def __init__(self, client: NatsClient) -> None:
        self._client = client

    async def get(self, subject: str) -> StreamMessage | None:
        """Return a record, from the leader."""
        return await self._client.last(META, subject)

    async def put(self, subject: str, data: bytes, *, expected: int | None = None) -> int:
        """Write a record; raise Conflict if its last sequence is not the expected one."""
        return await self._client.publish(subject, data, expected=expected)

    async def delete(self, subject: str) -> None:
        """Delete a record, or all of a filter."""
        await self._client.purge(META, subject)

    async def list(self, filter: str) -> AsyncIterator[StreamMessage]:
        """Return all records of a filter."""
        seq = 1
        for _ in range(FROM_LEADER):
            message = await self._client.next(META, filter, seq)
            if message is None:
                return
            yield message
            seq = message.seq + 1
        async for message in self._client.batch(META, filter, seq):
            yield message

    # --- summaries ----------------------------------------------------------------------------------------------

    async def head(self, session_id: str) -> SessionHead | None:
        """Return the summary of a session."""
        message = await self.get(head_subject(session_id))
        return None if message is None else _decode(message.data)

    async def change_head(self, session_id: str, change: Callable[[SessionHead], None]) -> SessionHead:
        """Change the summary of a session, or make one."""
        subject = head_subject(session_id)
        for _ in range(MAX_TRIES):
            message = await self.get(subject)
            head = SessionHead(session_id) if message is None else _decode(message.data)
            change(head)
            try:
                await self.put(subject, msgspec.json.encode(head), expected=0 if message is None else message.seq)
            except Conflict:
                await asyncio.sleep(0.01)
                continue
            return head
        raise StoreFault("locked", f"other nodes change session {session_id!r} all the time; try again")

    async def heads(self, prefix: str = "") -> AsyncIterator[SessionHead]:
        """Return the summaries of the sessions whose ids start so; few are read for a long beginning."""
        part = token(prefix[:8]) if len(prefix) >= 8 else "*"
        async for message in self.list(f"dgm.meta.head.{part}.*"):
            head = _decode(message.data)
            if head.session_id.startswith(prefix):
                yield head

    async def delete_session(self, session_id: str) -> None:
        """Delete all records of a session but its name."""
        for subject in (head_subject(session_id), state_subject(session_id), credentials_subject(session_id)):
            await self.delete(subject)


def _decode(data: bytes) -> SessionHead:
    return msgspec.json.decode(data, type=SessionHead)


def name_subject(name: str) -> str:
    """Return the subject of the session with a name."""
    return f"dgm.meta.name.{token(name)}"


def state_subject(session_id: str) -> str:
    """Return the subject of the state of a session."""
    return f"dgm.meta.state.{token(session_id)}"


def credentials_subject(session_id: str) -> str:
    """Return the subject of the sealed credentials of a session."""
    return f"dgm.meta.credentials.{token(session_id)}"


class NatsRecords:
    """Records (contract: `Records`): the parts of a key between slashes are tokens; a version is a sequence."""

    def __init__(self, index: Index) -> None:
        self._index = index

    async def get(self, kind: str, key: str) -> Record | None:
        message = await self._index.get(_subject(kind, key))
        return None if message is None else _record(message)

    async def put(self, kind: str, key: str, value: bytes, *, version: int | None = None) -> int:
        try:
            return await self._index.put(_subject(kind, key), value, expected=version)
        except Conflict:
            raise changed_record_fault(kind, key) from None

    async def delete(self, kind: str, key: str) -> None:
        await self._index.delete(_subject(kind, key))

    async def list_records(self, kind: str, prefix: str = "") -> list[Record]:
        folder, slash, _ = prefix.rpartition("/")
        filter = f"{_subject(kind, folder)}.>" if slash else f"dgm.meta.record.{token(kind)}.>"
        records = [_record(message) async for message in self._index.list(filter)]
        return sorted((each for each in records if each.key.startswith(prefix)), key=lambda record: record.key)


def _subject(kind: str, key: str) -> str:
    parts = ".".join(token(part) for part in key.split("/"))
    return f"dgm.meta.record.{token(kind)}.{parts}"


def _record(message: StreamMessage) -> Record:
    key = "/".join(untoken(part) for part in message.subject.split(".")[4:])
    return Record(key=key, value=message.data, version=message.seq)
