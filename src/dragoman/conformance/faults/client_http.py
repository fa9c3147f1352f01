"""Seeded faults of clients of Streamable HTTP: what the tester hears of them, and what they make of what it says."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

from dragoman.conformance.remote_seeding import Exchange, exchange
from dragoman.conformance.remote_twin import RemoteFault
from dragoman.conformance.twin import seeded

Meant = Callable[[Exchange], bool]

# The stream of the connection is held back for so long at most. Seconds.
HELD = 2.0


def _without(name: str, meant: Meant) -> RemoteFault:
    """These requests lack a header."""

    def asked(made: Exchange) -> None:
        if meant(made):
            made.headers.pop(name, None)

    return exchange(asked=asked)


def _named_already(made: Exchange) -> None:
    if made.calls == "initialize":
        made.headers["acp-connection-id"] = "made-up"


def _typeless(made: Exchange) -> None:
    if made.calls == "session/prompt":
        made.headers["content-type"] = "text/plain"


def _anything(made: Exchange) -> None:
    if made.method == "GET":
        made.headers["accept"] = "*/*"


def _stream_last(made: Exchange) -> Awaitable[None] | None:
    met = made.world.notes.setdefault("met", asyncio.Event())
    if made.calls == "session/new":
        met.set()
    elif made.method == "GET" and not made.session:
        return _until(met)
    return None


async def _until(met: asyncio.Event) -> None:
    await asyncio.wait([asyncio.ensure_future(met.wait())], timeout=HELD)
    await asyncio.sleep(0.01)  # the POST is first in the record


def _left(made: Exchange) -> None:
    if made.method == "DELETE":
        made.status = 202


def _batched(made: Exchange) -> None:
    if made.calls == "session/prompt":
        made.body = b"[" + made.body + b"]"
        made.headers["content-length"] = str(len(made.body))


def _whole_only(made: Exchange, chunk: bytes) -> bytes:
    """A reader for which what one read gives is an event."""
    is_end = chunk.endswith((b"\n\n", b"\r\n\r\n"))
    is_rest = made.world.notes.get(f"cut {made.session}", False)
    made.world.notes[f"cut {made.session}"] = not is_end
    return chunk if is_end and not is_rest else b""


def _first_line(_: Exchange, chunk: bytes) -> bytes:
    lines: list[bytes] = []
    has_data = False
    for line in chunk.split(b"\n"):
        if not (has_data and line.startswith(b"data:")):
            lines.append(line)
        has_data = line.startswith(b"data:") or (has_data and bool(line.strip()))
    return b"\n".join(lines)


def _no_comments(_: Exchange, chunk: bytes) -> bytes:
    return b"" if b": why" in chunk else chunk


def _strict(_: Exchange, chunk: bytes) -> bytes:
    return b"" if b"tide:" in chunk else chunk


def _unix(_: Exchange, chunk: bytes) -> bytes:
    return b"" if b"\r\n" in chunk else chunk


def _timed(made: Exchange) -> None:
    if made.method == "GET":
        made.world.notes["asked"] = time.monotonic()


def _impatient(made: Exchange) -> None:
    if made.method == "GET" and made.session and time.monotonic() - made.world.notes["asked"] > 0.4:
        made.world.notes["too late"] = True


def _inattentive(made: Exchange, chunk: bytes) -> bytes:
    return b"" if made.session and b"number 0002" in chunk and "too late" in made.world.notes else chunk


def _gap(_: Exchange, chunk: bytes) -> bytes:
    return re.sub(rb"(?m)^data:.*number 0777.*\n", b"", chunk)


def _picky(made: Exchange) -> None:
    if (
        made.calls == "session/prompt"
        and made.status == 202
        and made.said.get("content-type", "").startswith("application/json")
    ):
        made.status = 500


def _is_answer(made: Exchange) -> bool:
    message: Any = made.message
    return made.method == "POST" and isinstance(message, dict) and "method" not in message


seeded("client.http.01", exchange(asked=_named_already))
seeded("client.http.02", _without("acp-connection-id", lambda made: made.method == "DELETE"))
seeded("client.http.03", exchange(asked=_typeless))
seeded("client.http.04", exchange(asked=_anything))
seeded("client.http.05", exchange(asked=_stream_last))
seeded("client.http.06", _without("acp-connection-id", lambda made: made.method == "GET" and bool(made.session)))
seeded("client.http.07", _without("acp-session-id", lambda made: made.calls == "session/prompt"))
seeded("client.http.08", _without("acp-session-id", _is_answer))
seeded("client.http.09", _without("cookie", lambda made: True))
seeded("client.http.10", exchange(asked=_left))
seeded("client.http.11", exchange(raw=_whole_only))
seeded("client.http.12", exchange(raw=_first_line))
seeded("client.http.13", exchange(raw=_no_comments))
seeded("client.http.14", exchange(raw=_strict))
seeded("client.http.15", exchange(raw=_unix))
seeded("client.http.16", exchange(asked=_timed, answered=_impatient, raw=_inattentive))
seeded("client.http.17", exchange(asked=_batched))
seeded("client.http.18", exchange(raw=_gap))
seeded("client.http.19", exchange(answered=_picky))
