"""Rebuild a transcript from a log, as a client would have seen it, and render it as Markdown.

Takes JSON lines from a store, gives the transcript of the session layer. Unknown members are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from dragoman.errors import ProtocolError
from dragoman.schema.lenient import read_leniently
from dragoman.schema.prompt import PromptParams
from dragoman.schema.toolcall import ToolCallUpdate
from dragoman.schema.update import UpdateParams, UserMessageChunk
from dragoman.session.message import Message
from dragoman.session.toolcall import ToolCall
from dragoman.session.transcript import Transcript
from dragoman.store.contract import EntryKind

_SPEAKERS = {"user": "User", "agent": "Agent"}


class _EntryLine(msgspec.Struct):
    kind: str
    body: msgspec.Raw


_entry_decoder = msgspec.json.Decoder(_EntryLine)
_update_decoder = msgspec.json.Decoder(UpdateParams)


def decode_updates(lines: Iterable[bytes]) -> Iterator[Any]:
    """Return the history as typed updates; prompts become user message chunks."""
    for line in lines:
        entry = _entry_decoder.decode(line)
        if entry.kind == EntryKind.UPDATE:
            update = decode_update(entry.body)
            if update is not None:
                yield update
        elif entry.kind == EntryKind.PROMPT:
            yield from (UserMessageChunk(content=block) for block in _decode_prompt(entry.body))


def build_transcript(lines: Iterable[bytes]) -> Transcript:
    """Return all messages and tool calls, merged."""
    taken = Transcript()
    for line in lines:
        entry = _entry_decoder.decode(line)
        if entry.kind == EntryKind.UPDATE:
            update = decode_update(entry.body)
            if update is not None:
                taken.add(update)
        elif entry.kind == EntryKind.PROMPT:
            taken.add_prompt(_decode_prompt(entry.body))
        elif entry.kind == EntryKind.ASKED:
            _note_permission(taken, msgspec.json.decode(entry.body))
    taken.merge_pending()
    return taken


def render_markdown(transcript: Transcript) -> str:
    """Render a transcript as Markdown: messages and tool calls, without thoughts."""
    parts: list[str] = []
    for entry in transcript:
        if isinstance(entry, Message) and entry.role in _SPEAKERS and entry.text.strip():
            parts.append(f"## {_SPEAKERS[entry.role]}\n\n{entry.text.strip()}")
        elif isinstance(entry, ToolCall):
            parts.append(f"- tool: {entry.title or entry.name or entry.tool_call_id} ({entry.status})")
    return "\n\n".join(parts) + "\n" if parts else ""


def decode_update(body: bytes | msgspec.Raw) -> Any:
    """Decode an update; None if it cannot be decoded at all."""
    try:
        return _update_decoder.decode(b'{"sessionId":"","update":%s}' % bytes(body)).update
    except msgspec.DecodeError:
        pass
    try:
        return read_leniently(UpdateParams, {"sessionId": "", "update": msgspec.json.decode(body)})[0].update
    except ProtocolError:
        return None


def _decode_prompt(body: msgspec.Raw) -> list[Any]:
    value = msgspec.json.decode(body)
    try:
        return list(read_leniently(PromptParams, {"sessionId": "", "prompt": value["prompt"]})[0].prompt)
    except (ProtocolError, KeyError, TypeError):
        return []


def _note_permission(transcript: Transcript, body: Any) -> None:
    try:
        transcript.add_permission_call(read_leniently(ToolCallUpdate, body["toolCall"])[0])
    except (ProtocolError, KeyError, TypeError):
        pass  # a permission request without a tool call
