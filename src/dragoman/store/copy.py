"""Copy sessions from one store to another, line by line, with their names, origins, states and credentials.

A copy that was interrupted is repeated: what is there already is compared, and the rest is added. Each log is verified.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from hashlib import sha256

import msgspec

from dragoman.errors import Kind, ProtocolError, StoreFault
from dragoman.store.contract import Draft, Selection, Store, Summary, decode_raw_entry, session_cursor

# Entries that are read and appended at a time, and sessions that are listed at a time.
BATCH_SIZE = 1000
PAGE_SIZE = 500


class CopiedSession(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a copy did with one session."""

    session_id: str
    entries: int
    sha256: str = ""  # of all lines with their newlines, as in an export without its header
    added: int = 0  # entries that were not there yet
    error: str = ""  # why it was not copied


async def copy_sessions(source: Store, target: Store) -> AsyncIterator[CopiedSession]:
    """Copy all sessions, those before their forks; a session that cannot be copied stops no other."""
    known = [summary async for summary in list_all(source)]
    for summary in sorted(known, key=lambda summary: summary.forked_from is not None):
        try:
            yield await copy_session(source, target, summary)
        except StoreFault:
            raise  # a store that fails would fail for all others
        except ProtocolError as error:
            if error.kind == Kind.SESSION_NOT_FOUND and not await _has_session(source, summary.session_id):
                continue  # deleted meanwhile
            yield CopiedSession(session_id=summary.session_id, entries=summary.entries, error=error.message)


async def list_all(store: Store) -> AsyncIterator[Summary]:
    """Return all sessions, a page at a time."""
    after = None
    while page := await store.sessions(Selection(after=after, limit=PAGE_SIZE)):
        for summary in page:
            yield summary
        after = session_cursor(page[-1])


async def copy_session(source: Store, target: Store, summary: Summary) -> CopiedSession:
    """Copy one session up to the entries that it has now; raise invalid_params if the target has another one."""
    id = summary.session_id
    present = await _present_entries(target, summary)
    digest = sha256()
    for start in range(0, summary.entries, BATCH_SIZE):
        end = min(start + BATCH_SIZE, summary.entries)
        lines = await source.lines(id, start, end - start)
        if present > start:
            there = await target.lines(id, start, min(present, end) - start)
            if there != lines[: len(there)]:
                raise _other_session(id)
        missing = lines[max(present - start, 0) :]
        if missing:
            await target.append(id, [_to_draft(line) for line in missing])
        for line in lines:
            digest.update(line + b"\n")
    if (stored := await log_digest(target, id, summary.entries)) != digest.hexdigest():
        raise ProtocolError(Kind.SESSION_CORRUPTED, f"the copy of session {id!r} differs: its sum is {stored}")
    await _copy_rest(source, target, summary)
    return CopiedSession(
        session_id=id,
        entries=summary.entries,
        sha256=digest.hexdigest(),
        added=max(summary.entries - present, 0),
    )


async def log_digest(store: Store, session_id: str, entries: int) -> str:
    """Return the SHA-256 of the first entries of a log, each line with its newline."""
    digest = sha256()
    for start in range(0, entries, BATCH_SIZE):
        for line in await store.lines(session_id, start, min(BATCH_SIZE, entries - start)):
            digest.update(line + b"\n")
    return digest.hexdigest()


async def _present_entries(target: Store, summary: Summary) -> int:
    """Return how many entries the target has, after creating the session if it is missing."""
    id = summary.session_id
    try:
        there = await target.find(id)
    except ProtocolError as error:
        if error.kind != Kind.SESSION_NOT_FOUND:
            raise
        there = None
    if there is None or there.session_id != id:
        await target.begin_import(id, summary.imported, forked_from=summary.forked_from)
        return 0
    if (there.imported, there.forked_from) != (summary.imported, summary.forked_from):
        raise _other_session(id)
    return there.entries


async def _copy_rest(source: Store, target: Store, summary: Summary) -> None:
    """Copy the name, the state and the credentials."""
    id = summary.session_id
    if summary.name is not None:
        await target.rename(id, summary.name)
    saved = await source.saved_state(id)
    if saved is not None and saved.seq <= summary.entries:
        await target.save_state(id, saved.seq, saved.state)
    if credentials := await source.credentials(id):
        await target.keep_credentials(id, credentials)


def _to_draft(line: bytes) -> Draft:
    entry = decode_raw_entry(line)
    return Draft(kind=entry.kind, actor=entry.actor, time=entry.time, body=entry.body, turn=entry.turn)


async def _has_session(store: Store, session_id: str) -> bool:
    try:
        return (await store.find(session_id)).session_id == session_id
    except ProtocolError as error:
        if error.kind != Kind.SESSION_NOT_FOUND:
            raise
        return False


def _other_session(session_id: str) -> ProtocolError:
    message = f"the target has another session {session_id!r}; delete that one, or copy to an empty store"
    return ProtocolError(Kind.INVALID_PARAMS, message, {"sessionId": session_id})
