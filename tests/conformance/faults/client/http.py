"""Faults of Streamable HTTP clients, seeded on the checker's side of the wire."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

from tests.conformance.faults.fault import RemoteFault, seed
from tests.conformance.faults.remote_edits import Exchange, exchange

Matches = Callable[[Exchange], bool]

# How long the stream of the connection is held at most. Seconds.
HELD = 2.0


def _without(name: str, matches: Matches) -> RemoteFault:
    """Remove a header from these requests."""

    def on_request(http: Exchange) -> None:
        if matches(http):
            http.headers.pop(name, None)

    return exchange(on_request=on_request)


def _named_already(http: Exchange) -> None:
    if http.calls == "initialize":
        http.headers["acp-connection-id"] = "made-up"


def _typeless(http: Exchange) -> None:
    if http.calls == "session/prompt":
        http.headers["content-type"] = "text/plain"


def _anything(http: Exchange) -> None:
    if http.method == "GET":
        http.headers["accept"] = "*/*"


def _stream_last(http: Exchange) -> Awaitable[None] | None:
    met = http.memory.notes.setdefault("met", asyncio.Event())
    if http.calls == "session/new":
        met.set()
    elif http.method == "GET" and not http.session:
        return _until(met)
    return None


async def _until(met: asyncio.Event) -> None:
    await asyncio.wait([asyncio.ensure_future(met.wait())], timeout=HELD)
    await asyncio.sleep(0.01)  # the POST is first in the record


def _left(http: Exchange) -> None:
    if http.method == "DELETE":
        http.status = 202


def _batched(http: Exchange) -> None:
    if http.calls == "session/prompt":
        http.body = b"[" + http.body + b"]"
        http.headers["content-length"] = str(len(http.body))


def _whole_only(http: Exchange, chunk: bytes) -> bytes:
    """Treat what one read returns as an event."""
    is_end = chunk.endswith((b"\n\n", b"\r\n\r\n"))
    is_rest = http.memory.notes.get(f"cut {http.session}", False)
    http.memory.notes[f"cut {http.session}"] = not is_end
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


def _drop_unknown_fields(_: Exchange, chunk: bytes) -> bytes:
    return b"" if b"tide:" in chunk else chunk


def _drop_cr_lf(_: Exchange, chunk: bytes) -> bytes:
    return b"" if b"\r\n" in chunk else chunk


def _timed(http: Exchange) -> None:
    if http.method == "GET":
        http.memory.notes["asked"] = time.monotonic()


def _note_slow_stream(http: Exchange) -> None:
    if http.method == "GET" and http.session and time.monotonic() - http.memory.notes["asked"] > 0.4:
        http.memory.notes["too late"] = True


def _drop_late_event(http: Exchange, chunk: bytes) -> bytes:
    return b"" if http.session and b"number 0002" in chunk and "too late" in http.memory.notes else chunk


def _drop_one_event(_: Exchange, chunk: bytes) -> bytes:
    return re.sub(rb"(?m)^data:.*number 0777.*\n", b"", chunk)


def _refuse_json_type(http: Exchange) -> None:
    if (
        http.calls == "session/prompt"
        and http.status == 202
        and http.answer_headers.get("content-type", "").startswith("application/json")
    ):
        http.status = 500


def _is_answer(http: Exchange) -> bool:
    message: Any = http.message
    return http.method == "POST" and isinstance(message, dict) and "method" not in message


seed("client.http.01", exchange(on_request=_named_already))
seed("client.http.02", _without("acp-connection-id", lambda http: http.method == "DELETE"))
seed("client.http.03", exchange(on_request=_typeless))
seed("client.http.04", exchange(on_request=_anything))
seed("client.http.05", exchange(on_request=_stream_last))
seed("client.http.06", _without("acp-connection-id", lambda http: http.method == "GET" and bool(http.session)))
seed("client.http.07", _without("acp-session-id", lambda http: http.calls == "session/prompt"))
seed("client.http.08", _without("acp-session-id", _is_answer))
seed("client.http.09", _without("cookie", lambda http: True))
seed("client.http.10", exchange(on_request=_left))
seed("client.http.11", exchange(raw=_whole_only))
seed("client.http.12", exchange(raw=_first_line))
seed("client.http.13", exchange(raw=_no_comments))
seed("client.http.14", exchange(raw=_drop_unknown_fields))
seed("client.http.15", exchange(raw=_drop_cr_lf))
seed("client.http.16", exchange(on_request=_timed, on_response=_note_slow_stream, raw=_drop_late_event))
seed("client.http.17", exchange(on_request=_batched))
seed("client.http.18", exchange(raw=_drop_one_event))
seed("client.http.19", exchange(on_response=_refuse_json_type))
