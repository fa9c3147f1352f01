"""Seeded faults of servers of Streamable HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from dragoman.conformance.remote_seeding import Edit, Event, Exchange, exchange, moved
from dragoman.conformance.remote_twin import RemoteFault
from dragoman.conformance.twin import seeded

Json = Any
Meant = Callable[[Exchange], bool]


def _status(meant: Meant, status: int) -> RemoteFault:
    """These are answered with another status."""

    def answered(made: Exchange) -> None:
        if meant(made):
            made.status = status

    return exchange(answered=answered)


def _asked(**headers: str) -> RemoteFault:
    """The server takes every request as if it had these headers; "" for none."""

    def asked(made: Exchange) -> None:
        for name, value in headers.items():
            name = name.replace("_", "-")
            if value:
                made.headers[name] = value
            else:
                made.headers.pop(name, None)

    return exchange(asked=asked)


def _is_first(made: Exchange) -> bool:
    return made.calls == "initialize"


def _first(edit: Edit, asked: Edit | None = None) -> RemoteFault:
    def answered(made: Exchange) -> None:
        if _is_first(made):
            edit(made)

    return exchange(answered=answered) if asked is None else exchange(asked=asked, answered=answered)


def _unnamed(made: Exchange) -> None:
    made.said.pop("acp-connection-id", None)


ALWAYS = "always-the-same"


def _same_name(made: Exchange) -> None:
    """Whoever comes has the connection that was opened last."""
    if "acp-connection-id" in made.said:
        made.world.notes["last"] = made.said["acp-connection-id"]
        made.said["acp-connection-id"] = ALWAYS


def _last(made: Exchange) -> None:
    if made.connection == ALWAYS:
        made.headers["acp-connection-id"] = made.world.notes["last"]


def _plain(made: Exchange) -> None:
    made.said["content-type"] = "text/plain"


def _with_body(made: Exchange) -> None:
    if made.status == 202:
        made.answer = b"{}"


def _plain_stream(made: Exchange) -> None:
    if made.said.get("content-type") == "text/event-stream":
        made.said["content-type"] = "text/plain"


def _chatter(_: Exchange, events: list[Event]) -> list[Event]:
    return [*events, Event(b"data: hello\n\n")]


def _is_new(message: dict[str, Json]) -> bool:
    result = message.get("result")
    return isinstance(result, dict) and "sessionId" in result


def _without_new(_: Exchange, events: list[Event]) -> list[Event]:
    return [event for event in events if not _is_new(event.message)]


def _any_type(made: Exchange) -> None:
    if made.method == "POST":
        made.headers["content-type"] = "application/json"


def _any_accept(made: Exchange) -> None:
    if made.method == "GET":
        made.headers["accept"] = "text/event-stream"


def _is_prompt(made: Exchange) -> bool:
    return made.calls == "session/prompt"


def _body_wins(made: Exchange) -> None:
    params = made.message.get("params") if isinstance(made.message, dict) else None
    if isinstance(params, dict) and made.session and isinstance(params.get("sessionId"), str):
        made.headers["acp-session-id"] = params["sessionId"]


def _undead(made: Exchange) -> None:
    gone = made.world.notes.setdefault("gone", set())
    if made.method == "DELETE":
        gone.add(made.connection)
    elif made.connection in gone and made.method == "POST":
        made.status = 202


def _only_known(made: Exchange) -> None:
    """The official Python server's fault: a session is known by the answer that opened it, and by nothing else."""
    if made.method == "GET" and made.session and made.connection not in made.world.notes.get(made.session, ()):
        made.status, made.answer = 404, b'{"error":"Unknown session id"}'


def _known(made: Exchange, events: list[Event]) -> list[Event]:
    for event in events:
        if _is_new(event.message):
            made.world.notes.setdefault(event.message["result"]["sessionId"], set()).add(made.connection)
    return events


def _gap(_: Exchange, events: list[Event]) -> list[Event]:
    return [event for event in events if b"chunk 00777" not in event.text]


def _prompted_early(made: Exchange) -> None:
    key = f"read {made.connection} {made.session}"
    if made.method == "GET":
        made.world.notes.setdefault(key, "first")
    elif _is_prompt(made):
        made.world.notes.setdefault(key, "late")


def _lost(made: Exchange, events: list[Event]) -> list[Event]:
    if made.session and made.world.notes.get(f"read {made.connection} {made.session}") == "late":
        return [event for event in events if event.message.get("method") != "session/update"]
    return events


def _shared(made: Exchange) -> None:
    """A second GET is granted; it reads what the other connection of its own would (see `_half`)."""
    key = f"reader {made.connection} {made.session}"
    if made.method == "GET" and made.session and "last-event-id" not in made.headers:
        if key in made.world.notes:
            made.headers["acp-session-id"] = f"{made.session}-second"
            made.world.notes[f"second {key}"] = made.headers["acp-session-id"]
        made.world.notes[key] = True


def _half(made: Exchange, events: list[Event]) -> list[Event]:
    import asyncio

    second = made.world.notes.get(f"second reader {made.connection} {made.session}")
    send = made.world.sends.get((made.connection, second)) if second else None
    if send is None:
        return events
    for event in events[::2]:
        message = {"type": "http.response.body", "body": event.text, "more_body": True}
        made.world.notes["sharing"] = asyncio.ensure_future(send(message))
    return events[1::2]


def _one_id(_: Exchange, events: list[Event]) -> list[Event]:
    for event in events:
        event.text = re.sub(rb"(?m)^id: 2(?=\.|$)", b"id: 1", event.text)
    return events


def _crumbling_cookie(made: Exchange) -> None:
    made.said["set-cookie"] = "nonsense"


def _any_host(made: Exchange) -> None:
    made.headers["host"] = "localhost"


def _large(made: Exchange) -> None:
    if int(made.headers.get("content-length", "0")) > 64 * 1024 * 1024:
        made.status, made.answer = 500, b'{"error":"out of memory"}'


def _tight_lipped(made: Exchange) -> None:
    if made.status == 413:
        made.answer = b'{"error":"too large"}'


def _upset(made: Exchange) -> None:
    if made.method == "POST" and made.body == b"null":
        made.world.notes["upset"] = True


def _silenced(made: Exchange, events: list[Event]) -> list[Event]:
    return [] if made.world.notes.get("upset") else events


def _speechless(made: Exchange) -> None:
    if made.status == 404:
        made.answer = b""


def _is_question(message: dict[str, Json]) -> bool:
    return message.get("method") == "session/request_permission"


def _is_end(message: dict[str, Json]) -> bool:
    result = message.get("result")
    return isinstance(result, dict) and "stopReason" in result


def _without_http2(data: bytes) -> bytes | None:
    return None if data.startswith(b"PRI * HTTP/2.0") else data


def _is_nameless(made: Exchange) -> bool:
    return _is_prompt(made) and not made.session and "sessionId" not in json.dumps(made.message)


def _refused(status: int) -> Edit:
    """A connection that never was is refused with this status, when something is posted to it."""

    def answered(made: Exchange) -> None:
        known = made.world.notes.setdefault("known", set())
        if _is_first(made):
            known.add(made.said.get("acp-connection-id"))
        elif made.method == "POST" and made.status == 404 and made.connection not in known:
            made.status = status

    return answered


seeded("agent.http.01", _first(_plain))
seeded("agent.http.02", _first(_unnamed))
seeded("agent.http.03", _first(_same_name, _last))
seeded("agent.http.04", _status(lambda made: made.status == 202 and made.calls == "session/new", 200))
seeded("agent.http.05", exchange(answered=_with_body))
seeded("agent.http.06", exchange(answered=_plain_stream))
seeded("agent.http.07", exchange(events=_chatter))
seeded("agent.http.08", exchange(events=_without_new))
seeded("agent.http.09", moved(lambda message: message.get("method") == "session/update"))
seeded("agent.http.10", moved(_is_end))
seeded("agent.http.11", moved(_is_question))
seeded("agent.http.12", exchange(asked=_any_type))
seeded("agent.http.13", _status(lambda made: made.status == 400 and bool(made.body) and made.message is None, 202))
seeded("agent.http.14", _status(lambda made: made.calls == "session/new" and not made.connection, 404))
seeded("agent.http.15", exchange(answered=_refused(400)))
seeded("agent.http.16", exchange(asked=_any_accept))
seeded("agent.http.17", _status(lambda made: made.method == "GET" and made.status == 400, 404))
seeded("agent.http.18", _status(lambda made: made.method == "GET" and made.status == 404, 400))
seeded("agent.http.19", _status(lambda made: isinstance(made.message, list), 400))
seeded("agent.http.20", _status(_is_nameless, 202))
seeded("agent.http.21", _status(lambda made: _is_prompt(made) and not made.session and not _is_nameless(made), 500))
seeded("agent.http.22", _status(lambda made: _is_prompt(made) and made.status == 404, 202))
seeded("agent.http.23", exchange(asked=_body_wins))
seeded("agent.http.24", _status(lambda made: made.method == "DELETE" and made.status == 202, 200))
seeded("agent.http.25", exchange(answered=_undead))
seeded("agent.http.26", exchange(ends=False))
seeded("agent.http.27", _status(lambda made: made.method == "DELETE" and made.status == 400, 404))
seeded("agent.http.28", exchange(asked=_only_known, events=_known))
seeded("agent.http.29", moved(lambda message: message.get("id") == "load", to_session=True))
seeded("agent.http.30", exchange(events=_gap))
seeded("agent.http.31", exchange(asked=_prompted_early, events=_lost))
seeded("agent.http.32", exchange(asked=_shared, events=_half))
seeded("agent.http.33", exchange(events=_one_id))
seeded("agent.http.34", _asked(last_event_id=""))
seeded("agent.http.35", _first(_crumbling_cookie))
seeded("agent.http.36", _asked(origin=""))
seeded("agent.http.37", exchange(asked=_any_host))
seeded("agent.http.38", exchange(asked=_large))
seeded("agent.http.39", exchange(answered=_tight_lipped))
seeded("agent.http.40", exchange(asked=_upset, events=_silenced))
seeded("agent.http.41", RemoteFault(towards_server=_without_http2))
seeded("agent.http.42", _status(lambda made: _is_first(made) and bool(made.connection), 500))
seeded("agent.http.43", exchange(answered=_speechless))
seeded("agent.http.44", _status(lambda made: made.method == "PUT", 200))
seeded("agent.http.45", _asked(authorization="Bearer check-token"))
