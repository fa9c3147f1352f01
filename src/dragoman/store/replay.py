"""A log told again: as minutes, as a client would have taken them, and as a text for whoever was not there.

Takes lines of JSON as stores give them, gives the fold of the session layer. What no type knows is kept as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from dragoman.errors import ProtocolError
from dragoman.schema.lenient import read
from dragoman.schema.prompt import PromptParams
from dragoman.schema.toolcall import ToolCallUpdate
from dragoman.schema.update import UpdateParams, UserMessageChunk
from dragoman.session.message import Message
from dragoman.session.toolcall import ToolCall
from dragoman.session.transcript import Minutes
from dragoman.store.contract import EntryKind

_SPEAKERS = {"user": "User", "agent": "Agent"}


class _Line(msgspec.Struct):
    kind: str
    body: msgspec.Raw


_line = msgspec.json.Decoder(_Line)
_update = msgspec.json.Decoder(UpdateParams)


def updates(lines: Iterable[bytes]) -> Iterator[Any]:
    """The history as typed updates: prompts are chunks of the user's."""
    for line in lines:
        entry = _line.decode(line)
        if entry.kind == EntryKind.UPDATE:
            update = typed(entry.body)
            if update is not None:
                yield update
        elif entry.kind == EntryKind.PROMPT:
            yield from (UserMessageChunk(content=block) for block in _prompt(entry.body))


def minutes(lines: Iterable[bytes]) -> Minutes:
    """Everything said and done, merged."""
    taken = Minutes()
    for line in lines:
        entry = _line.decode(line)
        if entry.kind == EntryKind.UPDATE:
            update = typed(entry.body)
            if update is not None:
                taken.note(update)
        elif entry.kind == EntryKind.PROMPT:
            taken.prompt(_prompt(entry.body))
        elif entry.kind == EntryKind.ASKED:
            _asked(taken, msgspec.json.decode(entry.body))
    taken.gather()
    return taken


def as_text(taken: Minutes) -> str:
    """A transcript in Markdown: who said what, and which tools were used. Thoughts are left out."""
    parts: list[str] = []
    for entry in taken:
        if isinstance(entry, Message) and entry.role in _SPEAKERS and entry.text.strip():
            parts.append(f"## {_SPEAKERS[entry.role]}\n\n{entry.text.strip()}")
        elif isinstance(entry, ToolCall):
            parts.append(f"- tool: {entry.title or entry.name or entry.tool_call_id} ({entry.status})")
    return "\n\n".join(parts) + "\n" if parts else ""


def typed(body: bytes | msgspec.Raw) -> Any:
    """An update of the vocabulary; None when it cannot be understood at all."""
    try:
        return _update.decode(b'{"sessionId":"","update":%s}' % bytes(body)).update
    except msgspec.DecodeError:
        pass
    try:
        return read(UpdateParams, {"sessionId": "", "update": msgspec.json.decode(body)})[0].update
    except ProtocolError:
        return None


def _prompt(body: msgspec.Raw) -> list[Any]:
    value = msgspec.json.decode(body)
    try:
        return list(read(PromptParams, {"sessionId": "", "prompt": value["prompt"]})[0].prompt)
    except (ProtocolError, KeyError, TypeError):
        return []


def _asked(taken: Minutes, body: Any) -> None:
    try:
        taken.asked(read(ToolCallUpdate, body["toolCall"])[0])
    except (ProtocolError, KeyError, TypeError):
        pass  # a question that names no tool call
