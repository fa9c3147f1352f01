"""Faults of Streamable HTTP servers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from tests.conformance.faults.fault import RemoteFault, seed
from tests.conformance.faults.remote_edits import Edit, Event, Exchange, exchange, move_events

Json = Any
Matches = Callable[[Exchange], bool]


def _status(matches: Matches, status: int) -> RemoteFault:
    """Answer these with another status."""

    def on_response(http: Exchange) -> None:
        if matches(http):
            http.status = status

    return exchange(on_response=on_response)


def _with_headers(**headers: str) -> RemoteFault:
    """Handle every request as if it had these headers; "" for none."""

    def on_request(http: Exchange) -> None:
        for name, value in headers.items():
            name = name.replace("_", "-")
            if value:
                http.headers[name] = value
            else:
                http.headers.pop(name, None)

    return exchange(on_request=on_request)


def _is_first(http: Exchange) -> bool:
    return http.calls == "initialize"


def _edit_first_response(edit: Edit, on_request: Edit | None = None) -> RemoteFault:
    def on_response(http: Exchange) -> None:
        if _is_first(http):
            edit(http)

    return (
        exchange(on_response=on_response)
        if on_request is None
        else exchange(on_request=on_request, on_response=on_response)
    )


def _remove_connection_id(http: Exchange) -> None:
    http.answer_headers.pop("acp-connection-id", None)


ALWAYS = "always-the-same"


def _same_name(http: Exchange) -> None:
    """Every client gets the connection that was opened last."""
    if "acp-connection-id" in http.answer_headers:
        http.memory.notes["last"] = http.answer_headers["acp-connection-id"]
        http.answer_headers["acp-connection-id"] = ALWAYS


def _last(http: Exchange) -> None:
    if http.connection == ALWAYS:
        http.headers["acp-connection-id"] = http.memory.notes["last"]


def _plain(http: Exchange) -> None:
    http.answer_headers["content-type"] = "text/plain"


def _with_body(http: Exchange) -> None:
    if http.status == 202:
        http.answer = b"{}"


def _plain_stream(http: Exchange) -> None:
    if http.answer_headers.get("content-type") == "text/event-stream":
        http.answer_headers["content-type"] = "text/plain"


def _add_invalid_event(_: Exchange, events: list[Event]) -> list[Event]:
    return [*events, Event(b"data: hello\n\n")]


def _is_new(message: dict[str, Json]) -> bool:
    result = message.get("result")
    return isinstance(result, dict) and "sessionId" in result


def _without_new(_: Exchange, events: list[Event]) -> list[Event]:
    return [event for event in events if not _is_new(event.message)]


def _any_type(http: Exchange) -> None:
    if http.method == "POST":
        http.headers["content-type"] = "application/json"


def _any_accept(http: Exchange) -> None:
    if http.method == "GET":
        http.headers["accept"] = "text/event-stream"


def _is_prompt(http: Exchange) -> bool:
    return http.calls == "session/prompt"


def _use_session_of_body(http: Exchange) -> None:
    params = http.message.get("params") if isinstance(http.message, dict) else None
    if isinstance(params, dict) and http.session and isinstance(params.get("sessionId"), str):
        http.headers["acp-session-id"] = params["sessionId"]


def _accept_after_delete(http: Exchange) -> None:
    gone = http.memory.notes.setdefault("gone", set())
    if http.method == "DELETE":
        gone.add(http.connection)
    elif http.connection in gone and http.method == "POST":
        http.status = 202


def _only_known(http: Exchange) -> None:
    """The official Python server's fault: it knows a session only by the answer that opened it."""
    if http.method == "GET" and http.session and http.connection not in http.memory.notes.get(http.session, ()):
        http.status, http.answer = 404, b'{"error":"Unknown session id"}'


def _known(http: Exchange, events: list[Event]) -> list[Event]:
    for event in events:
        if _is_new(event.message):
            http.memory.notes.setdefault(event.message["result"]["sessionId"], set()).add(http.connection)
    return events


def _drop_one_chunk(_: Exchange, events: list[Event]) -> list[Event]:
    return [event for event in events if b"chunk 00777" not in event.text]


def _prompted_early(http: Exchange) -> None:
    key = f"read {http.connection} {http.session}"
    if http.method == "GET":
        http.memory.notes.setdefault(key, "first")
    elif _is_prompt(http):
        http.memory.notes.setdefault(key, "late")


def _lost(http: Exchange, events: list[Event]) -> list[Event]:
    if http.session and http.memory.notes.get(f"read {http.connection} {http.session}") == "late":
        return [event for event in events if event.message.get("method") != "session/update"]
    return events


def _shared(http: Exchange) -> None:
    """Accept a second GET, which reads what the first one would (see `_half`)."""
    key = f"reader {http.connection} {http.session}"
    if http.method == "GET" and http.session and "last-event-id" not in http.headers:
        if key in http.memory.notes:
            http.headers["acp-session-id"] = f"{http.session}-second"
            http.memory.notes[f"second {key}"] = http.headers["acp-session-id"]
        http.memory.notes[key] = True


def _half(http: Exchange, events: list[Event]) -> list[Event]:
    import asyncio

    second = http.memory.notes.get(f"second reader {http.connection} {http.session}")
    send = http.memory.sends.get((http.connection, second)) if second else None
    if send is None:
        return events
    for event in events[::2]:
        message = {"type": "http.response.body", "body": event.text, "more_body": True}
        http.memory.notes["sharing"] = asyncio.ensure_future(send(message))
    return events[1::2]


def _one_id(_: Exchange, events: list[Event]) -> list[Event]:
    for event in events:
        event.text = re.sub(rb"(?m)^id: 2(?=\.|$)", b"id: 1", event.text)
    return events


def _send_invalid_cookie(http: Exchange) -> None:
    http.answer_headers["set-cookie"] = "nonsense"


def _any_host(http: Exchange) -> None:
    http.headers["host"] = "localhost"


def _large(http: Exchange) -> None:
    if int(http.headers.get("content-length", "0")) > 64 * 1024 * 1024:
        http.status, http.answer = 500, b'{"error":"out of memory"}'


def _hide_size_limit(http: Exchange) -> None:
    if http.status == 413:
        http.answer = b'{"error":"too large"}'


def _note_null_body(http: Exchange) -> None:
    if http.method == "POST" and http.body == b"null":
        http.memory.notes["upset"] = True


def _drop_events_after_null(http: Exchange, events: list[Event]) -> list[Event]:
    return [] if http.memory.notes.get("upset") else events


def _empty_404_body(http: Exchange) -> None:
    if http.status == 404:
        http.answer = b""


def _is_question(message: dict[str, Json]) -> bool:
    return message.get("method") == "session/request_permission"


def _is_end(message: dict[str, Json]) -> bool:
    """Whether it answers a prompt; v2 has a receipt with the id of the message."""
    result = message.get("result")
    return isinstance(result, dict) and ("stopReason" in result or "messageId" in result)


def _without_http2(data: bytes) -> bytes | None:
    return None if data.startswith(b"PRI * HTTP/2.0") else data


def _is_nameless(http: Exchange) -> bool:
    return _is_prompt(http) and not http.session and "sessionId" not in json.dumps(http.message)


def _refused(status: int) -> Edit:
    """Refuse a POST to an unknown connection with this status."""

    def on_response(http: Exchange) -> None:
        known = http.memory.notes.setdefault("known", set())
        if _is_first(http):
            known.add(http.answer_headers.get("acp-connection-id"))
        elif http.method == "POST" and http.status == 404 and http.connection not in known:
            http.status = status

    return on_response


seed("agent.http.01", _edit_first_response(_plain))
seed("agent.http.02", _edit_first_response(_remove_connection_id))
seed("agent.http.03", _edit_first_response(_same_name, _last))
seed("agent.http.04", _status(lambda http: http.status == 202 and http.calls == "session/new", 200))
seed("agent.http.05", exchange(on_response=_with_body))
seed("agent.http.06", exchange(on_response=_plain_stream))
seed("agent.http.07", exchange(events=_add_invalid_event))
seed("agent.http.08", exchange(events=_without_new))
seed("agent.http.09", move_events(lambda message: message.get("method") == "session/update"))
seed("agent.http.10", move_events(_is_end))
seed("agent.http.11", move_events(_is_question))
seed("agent.http.12", exchange(on_request=_any_type))
seed("agent.http.13", _status(lambda http: http.status == 400 and bool(http.body) and http.message is None, 202))
seed("agent.http.14", _status(lambda http: http.calls == "session/new" and not http.connection, 404))
seed("agent.http.15", exchange(on_response=_refused(400)))
seed("agent.http.16", exchange(on_request=_any_accept))
seed("agent.http.17", _status(lambda http: http.method == "GET" and http.status == 400, 404))
seed("agent.http.18", _status(lambda http: http.method == "GET" and http.status == 404, 400))
seed("agent.http.19", _status(lambda http: isinstance(http.message, list), 400))
seed("agent.http.20", _status(_is_nameless, 202))
seed("agent.http.21", _status(lambda http: _is_prompt(http) and not http.session and not _is_nameless(http), 500))
seed("agent.http.22", _status(lambda http: _is_prompt(http) and http.status == 404, 202))
seed("agent.http.23", exchange(on_request=_use_session_of_body))
seed("agent.http.24", _status(lambda http: http.method == "DELETE" and http.status == 202, 200))
seed("agent.http.25", exchange(on_response=_accept_after_delete))
seed("agent.http.26", exchange(ends=False))
seed("agent.http.27", _status(lambda http: http.method == "DELETE" and http.status == 400, 404))
seed("agent.http.28", exchange(on_request=_only_known, events=_known))
seed("agent.http.29", move_events(lambda message: message.get("id") == "load", to_session=True))
seed("agent.http.30", exchange(events=_drop_one_chunk))
seed("agent.http.31", exchange(on_request=_prompted_early, events=_lost))
seed("agent.http.32", exchange(on_request=_shared, events=_half))
seed("agent.http.33", exchange(events=_one_id))
seed("agent.http.34", _with_headers(last_event_id=""))
seed("agent.http.35", _edit_first_response(_send_invalid_cookie))
seed("agent.http.36", _with_headers(origin=""))
seed("agent.http.37", exchange(on_request=_any_host))
seed("agent.http.38", exchange(on_request=_large))
seed("agent.http.39", exchange(on_response=_hide_size_limit))
seed("agent.http.40", exchange(on_request=_note_null_body, events=_drop_events_after_null))
seed("agent.http.41", RemoteFault(towards_server=_without_http2))
seed("agent.http.42", _status(lambda http: _is_first(http) and bool(http.connection), 500))
seed("agent.http.43", exchange(on_response=_empty_404_body))
seed("agent.http.44", _status(lambda http: http.method == "PUT", 200))
seed("agent.http.45", _with_headers(authorization="Bearer check-token"))
