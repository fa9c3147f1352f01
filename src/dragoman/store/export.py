"""A session as one portable file: JSON lines with a header before and a seal after them. Without credentials.

Takes any store and a file. The first line says what this is and in which version, then comes each entry on a line of
its own, as the log has it, and the last line counts them and has the SHA-256 of all before it. An import checks the
whole file before anything of it is kept, and keeps all or nothing. The store notes how many entries came from the file.
"""

from __future__ import annotations

from hashlib import sha256
from typing import BinaryIO

import msgspec

from dragoman.errors import Kind, ProtocolError, StoreFault
from dragoman.schema.base import encode
from dragoman.store.contract import FORMAT, Draft, Entry, Store, Summary
from dragoman.store.summary import foreign_sign

# The version of the file; an older one is read, a newer one refused.
VERSION = 1

# Entries that are read or appended at a time: many enough to be fast, few enough for any memory.
BATCH_SIZE = 1000

# No line is longer: what a peer may send in one message is less. Bytes.
MAX_LINE_BYTES = 256 * 1024 * 1024

# What a line that is not ours may raise: no JSON, no text, or brackets in brackets without end.
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class ExportHeader(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """The first line."""

    dragoman: str  # "session"
    version: int
    session_id: str
    exported_at: str = ""
    name: str | None = None
    forked_from: str | None = None


class ExportSeal(msgspec.Struct, kw_only=True):
    """The last line."""

    entries: int
    sha256: str


async def export_session(store: Store, session_id: str, file: BinaryIO, now: str) -> int:
    """Write a session into a file; how many entries there are. A damaged log is session_corrupted: repair it first."""
    summary = await store.find(session_id)
    id = summary.session_id
    header = ExportHeader(
        dragoman="session",
        version=VERSION,
        session_id=id,
        exported_at=now,
        name=summary.name,
        forked_from=summary.forked_from,
    )
    digest = sha256()
    count = 0

    def write(line: bytes) -> None:
        digest.update(line)
        file.write(line)

    write(encode(header) + b"\n")
    # What is appended meanwhile is not part of it.
    while count < summary.entries:
        lines = await store.lines(id, after=count, limit=min(BATCH_SIZE, summary.entries - count))
        if not lines:
            break
        for line in lines:
            write(line + b"\n")
        count += len(lines)
    file.write(encode(ExportSeal(entries=count, sha256=digest.hexdigest())) + b"\n")
    return count


async def import_session(
    store: Store, file: BinaryIO, *, session_id: str | None = None, name: str | None = None
) -> Summary:
    """Put the session of a file into a store, under its own id or another one, with a name if nobody has it."""
    start = file.tell()
    header, count = _verify_file(file)
    id = session_id or header.session_id
    if foreign_sign(id) or not id:
        raise _import_error(f"{id!r} cannot be the id of a session")
    await store.begin_import(id, count)  # before any entry: nobody sees one that is not known to be imported
    file.seek(start)
    file.readline(MAX_LINE_BYTES)
    kept = 0
    try:
        while kept < count:
            entries = [_parse_entry(file.readline(MAX_LINE_BYTES)) for _ in range(min(BATCH_SIZE, count - kept))]
            appended = await store.append(id, [_draft_of(entry) for entry in entries])
            kept += len(entries)
            if appended[-1].seq != kept:  # then the number of imported entries would be wrong
                message = f"another program wrote to session {id!r} while it was imported; import it again"
                raise ProtocolError(Kind.INVALID_STATE, message)
    except BaseException:
        await store.delete(id)
        raise
    if name is not None:
        return await store.rename(id, name)
    if header.name is not None:
        try:
            return await store.rename(id, header.name)
        except StoreFault:
            raise
        except ProtocolError:  # another one has it here, or it is none
            pass
    return await store.find(id)


def _verify_file(file: BinaryIO) -> tuple[ExportHeader, int]:
    """The header, and how many entries follow; invalid_params when the file is not as it was written."""
    first = file.readline(MAX_LINE_BYTES)
    header = _parse_header(first)
    digest = sha256(first)
    before = b""
    count = 0
    for line in iter(lambda: file.readline(MAX_LINE_BYTES), b""):
        if before:
            count += 1
            if _parse_entry(before).seq != count:
                raise _import_error(f"entry {count} is missing or stands elsewhere")
            digest.update(before)
        before = line
    try:
        seal = msgspec.json.decode(before, type=ExportSeal)
    except _UNREADABLE:
        raise _import_error("its end is missing") from None
    if seal.entries != count or seal.sha256 != digest.hexdigest():
        raise _import_error("it was changed or cut")
    if not count:
        raise _import_error("there is nothing in it")
    return header, count


def _parse_header(line: bytes) -> ExportHeader:
    try:
        header = msgspec.json.decode(line, type=ExportHeader)
    except _UNREADABLE:
        raise _import_error("it is no exported session") from None
    if header.dragoman != "session":
        raise _import_error(f"it holds a {header.dragoman!r}, not a session")
    if header.version > VERSION:
        raise _import_error(f"its version is {header.version}, and this program knows {VERSION}; use a newer one")
    return header


def _parse_entry(line: bytes) -> Entry:
    try:
        entry = msgspec.json.decode(line, type=Entry)
    except RecursionError:
        raise _import_error("an entry is nested too deeply") from None
    except _UNREADABLE as error:
        raise _import_error(f"an entry cannot be read: {error}") from None
    if entry.format > FORMAT:
        raise _import_error(
            f"its entries are of format {entry.format}, and this program knows {FORMAT}; use a newer one"
        )
    return entry


def _draft_of(entry: Entry) -> Draft:
    return Draft(kind=entry.kind, actor=entry.actor, time=entry.time, body=entry.body, turn=entry.turn)


def _import_error(why: str) -> ProtocolError:
    return ProtocolError(Kind.INVALID_PARAMS, f"this file cannot be imported: {why}")
