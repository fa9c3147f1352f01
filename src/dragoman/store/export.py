"""Export and import a session as one JSON lines file, without credentials: a header, the entries, their SHA-256.

An import verifies the whole file first, and imports all or nothing.
"""

from __future__ import annotations

from hashlib import sha256
from typing import BinaryIO

import msgspec

from dragoman.errors import Kind, ProtocolError, StoreFault
from dragoman.schema.base import encode
from dragoman.store.contract import Draft, Entry, Store, Summary, decode_entry
from dragoman.store.summary import disallowed_character

# The file version; an older one is read, a newer one is an error.
VERSION = 1

# Entries that are read or appended at a time: enough to be fast, few enough to fit in memory.
BATCH_SIZE = 1000

# The longest line: more than a peer may send in one message. Bytes.
MAX_LINE_BYTES = 256 * 1024 * 1024

# Errors that a foreign line may raise: not JSON, not text, or nested too deeply.
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
    """Write a session to a file and return the number of entries.

    A damaged log raises session_corrupted: repair it first.
    """
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
    # Entries appended meanwhile are not exported.
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
    """Import a session from a file, under its own id or another one, with its name if that is free."""
    start = file.tell()
    header, count = _verify_file(file)
    id = session_id or header.session_id
    if disallowed_character(id) or not id:
        raise _import_error(f"{id!r} is not a valid session id")
    await store.begin_import(id, count)  # before any entry, so that every reader knows it is imported
    file.seek(start)
    file.readline(MAX_LINE_BYTES)
    imported = 0
    try:
        while imported < count:
            entries = [_parse_entry(file.readline(MAX_LINE_BYTES)) for _ in range(min(BATCH_SIZE, count - imported))]
            drafts = [msgspec.convert(entry, Draft, from_attributes=True) for entry in entries]
            appended = await store.append(id, drafts)
            imported += len(drafts)
            if appended[-1].seq != imported:  # then the number of imported entries would be wrong
                message = f"another program wrote to session {id!r} during the import; import it again"
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
        except ProtocolError:  # the name is taken or invalid
            pass
    return await store.find(id)


def _verify_file(file: BinaryIO) -> tuple[ExportHeader, int]:
    """Return the header and the number of entries; raise invalid_params if the file was changed."""
    first = file.readline(MAX_LINE_BYTES)
    header = _parse_header(first)
    digest = sha256(first)
    before = b""
    count = 0
    for line in iter(lambda: file.readline(MAX_LINE_BYTES), b""):
        if before:
            count += 1
            if _parse_entry(before).seq != count:
                raise _import_error(f"entry {count} is missing or out of order")
            digest.update(before)
        before = line
    try:
        seal = msgspec.json.decode(before, type=ExportSeal)
    except _UNREADABLE:
        raise _import_error("the end of the file is missing") from None
    if seal.entries != count or seal.sha256 != digest.hexdigest():
        raise _import_error("the file was changed or truncated")
    if not count:
        raise _import_error("the file is empty")
    return header, count


def _parse_header(line: bytes) -> ExportHeader:
    try:
        header = msgspec.json.decode(line, type=ExportHeader)
    except _UNREADABLE:
        raise _import_error("the file is not an exported session") from None
    if header.dragoman != "session":
        raise _import_error(f"the file holds a {header.dragoman!r}, not a session")
    if header.version > VERSION:
        raise _import_error(f"the file has version {header.version}, this Dragoman reads {VERSION}; update Dragoman")
    return header


def _parse_entry(line: bytes) -> Entry:
    try:
        entry = decode_entry(line)
    except RecursionError:
        raise _import_error("an entry is nested too deeply") from None
    except _UNREADABLE as error:
        raise _import_error(f"an entry cannot be read: {error}") from None
    except StoreFault as error:
        raise _import_error(error.message) from None
    return entry


def _import_error(why: str) -> ProtocolError:
    return ProtocolError(Kind.INVALID_PARAMS, f"this file cannot be imported: {why}")
