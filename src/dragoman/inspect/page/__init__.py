"""One self-contained HTML page that shows a recording as a sequence of messages between lifelines.

Shows one recording, or several of one conversation (the hops of a chain). All text of a peer is in one block of JSON
that cannot end its element; the script writes it with textContent only. The page's policy forbids other scripts and all
requests.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

import msgspec

from dragoman.inspect.event import RecordedEvent, RecordedToolCall, RecordedTurn
from dragoman.transport.recording.format import Header

_DIRECTIONS = {"c2a": 0, "a2c": 1, "err": 2}

# What the page shows of one message; the recording itself has the rest. Characters.
MAX_SHOWN = 64 * 1024


def render_page(hops: Sequence[tuple[Header, list[RecordedEvent]]], title: str) -> str:
    """Return the page of one recording, or of the hops of a chain, the client's first."""
    data = encode_for_script(page_data(hops, title))
    style, script = _read_asset("style.css"), _read_asset("script.js")
    policy = f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; base-uri 'none'"
    parts = {"POLICY": policy, "TITLE": escape(title), "STYLE": style, "DATA": data, "SCRIPT": script}
    head, *rest = _read_asset("template.html").split("{{")
    return head + "".join(parts[name] + after for name, after in (piece.split("}}", 1) for piece in rest))


def encode_for_script(value: Any) -> str:
    """Return JSON that is safe inside a script element: no less-than sign, no line separators of JavaScript."""
    text = msgspec.json.encode(value).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def page_data(hops: Sequence[tuple[Header, list[RecordedEvent]]], title: str) -> dict[str, Any]:
    """Return everything that the page shows."""
    first = hops[0][0]
    placed = [
        (_event_time(header, event, first), hop, event) for hop, (header, events) in enumerate(hops) for event in events
    ]
    if len(hops) > 1:
        placed.sort(key=lambda each: each[0])
    row_of = {(hop, event.line): row for row, (_, hop, event) in enumerate(placed)}
    answers = {
        (hop, event.request.line): row for row, (_, hop, event) in enumerate(placed) if event.request is not None
    }
    calls: dict[int, tuple[int, RecordedToolCall]] = {}
    order: dict[int, int] = {}  # of turns and tool calls: the index in their list
    turns: dict[int, dict[str, Any]] = {}
    sessions: dict[str, int] = {}
    running: RecordedTurn | None = None
    rows = []
    for row, (t, hop, event) in enumerate(placed):
        if event.tool_call is not None:
            order.setdefault(id(event.tool_call), len(calls))
            calls.setdefault(id(event.tool_call), (hop, event.tool_call))
        if hop == 0:
            running = event.turn
        turn = running  # a message behind the proxy belongs to the turn before it
        if turn is not None:
            order.setdefault(id(turn), len(turns))
            turns.setdefault(id(turn), {**_turn_data(turn), "first": row})["last"] = row
        if hop == 0 and event.request is not None and event.method == "session/prompt":
            running = None
        partner = row_of.get((hop, event.request.line)) if event.request is not None else answers.get((hop, event.line))
        rows.append(_row_data(event, t, hop, partner, order.get(id(turn), -1),
                         order.get(id(event.tool_call), -1),
                         sessions.setdefault(event.session, len(sessions)) if event.session else -1))  # fmt: skip
    return {
        "title": title,
        "command": " ".join(first.command),
        "start": first.start,
        "redacted": first.redacted,
        "lines": _lanes([header for header, _ in hops]),
        "rows": rows,
        "turns": list(turns.values()),
        "calls": [_call_data(call, hop, row_of) for hop, call in calls.values()],
        "sessions": list(sessions),
    }


def _lanes(headers: Sequence[Header]) -> list[str]:
    """Return the names of the components, the client first; each recording is between two of them."""
    last = headers[-1].between[1] if len(headers[-1].between) == 2 else "Agent"
    inner = [header.between[0] if header.between else "Proxy" for header in headers[1:]]
    return ["Client", *inner, last]


def _turn_data(turn: RecordedTurn) -> dict[str, Any]:
    return {"n": turn.number, "prompt": turn.prompt, "stop": turn.stop_reason, "took": turn.duration,
            "session": turn.session, "calls": len(turn.tool_calls)}  # fmt: skip


def _event_time(header: Header, event: RecordedEvent, first: Header) -> int:
    return (event.t or 0) + (header.epoch - first.epoch if header.epoch and first.epoch else 0)


def _row_data(
    event: RecordedEvent, t: int, hop: int, partner: int | None, turn: int, call: int, session: int
) -> list[Any]:
    data = event.recorded.data
    raw = data[: MAX_SHOWN * 4].decode("utf-8", "replace")
    if len(raw) > MAX_SHOWN:
        raw = raw[:MAX_SHOWN] + "…"
    return [
        t if event.t is not None else None,
        _DIRECTIONS.get(event.direction, 2),
        event.kind,
        event.update or event.method or event.kind,
        event.id,
        session,
        event.text,
        event.latency,
        partner,
        turn,
        call,
        [[str(fault), fault.fatal] for fault in event.faults],
        event.traceparent,
        raw,
        event.size,
        hop,
    ]


def _call_data(call: RecordedToolCall, hop: int, row_of: dict[tuple[int, int], int]) -> list[Any]:
    took = call.end - call.start if call.end is not None and call.start is not None else None
    return [call.title or call.id, call.kind, call.status, row_of.get((hop, call.first_line), 0),
            row_of.get((hop, call.last_line), 0), took, hop]  # fmt: skip


def _read_asset(name: str) -> str:
    return files("dragoman.inspect.page").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()
