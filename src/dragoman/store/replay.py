"""Rebuild a transcript from the lines of a log, as a client would have seen it, and render it as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import msgspec

from dragoman.errors import ProtocolError
from dragoman.schema.content import ContentBlock
from dragoman.schema.lenient import read_leniently
from dragoman.schema.prompt import PromptParams
from dragoman.schema.toolcall import ToolCallUpdate
from dragoman.schema.update import UpdateParams, UserMessageChunk
from dragoman.session.message import Message
from dragoman.session.toolcall import ToolCall
from dragoman.session.transcript import Transcript
from dragoman.store.contract import EntryKind, decode_raw_entry

_SPEAKERS = {"user": "User", "agent": "Agent"}


# Made on first use: it takes milliseconds, and every agent imports this module.
@cache
def _update_decoder() -> msgspec.json.Decoder[UpdateParams]:
    return msgspec.json.Decoder(UpdateParams)


class _LoggedPrompt(msgspec.Struct):
    """The body of an entry for a prompt, as far as it is needed here."""

    prompt: list[ContentBlock]


@cache
def _prompt_decoder() -> msgspec.json.Decoder[_LoggedPrompt]:
    return msgspec.json.Decoder(_LoggedPrompt)


def decode_updates(lines: Iterable[bytes]) -> Iterator[Any]:
    """Return the history as typed updates; prompts become user message chunks."""
    for entry in map(decode_raw_entry, lines):
        if entry.kind == EntryKind.UPDATE and (update := decode_update(entry.body)) is not None:
            yield update
        elif entry.kind == EntryKind.PROMPT:
            yield from (UserMessageChunk(content=block) for block in decode_prompt(entry.body))


def build_transcript(lines: Iterable[bytes]) -> Transcript:
    """Return all messages and tool calls, merged."""
    transcript = Transcript()
    for entry in map(decode_raw_entry, lines):
        if entry.kind == EntryKind.UPDATE and (update := decode_update(entry.body)) is not None:
            transcript.add(update)
        elif entry.kind == EntryKind.PROMPT:
            transcript.add_prompt(decode_prompt(entry.body))
        elif entry.kind == EntryKind.ASKED:
            with suppress(ProtocolError, KeyError, TypeError):  # a question without a tool call
                transcript.add_permission_call(read_leniently(ToolCallUpdate, entry.value["toolCall"])[0])
    transcript.merge_pending()
    return transcript


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
        return _update_decoder().decode(b'{"sessionId":"","update":%s}' % bytes(body)).update
    except msgspec.DecodeError:
        pass
    try:
        return read_leniently(UpdateParams, {"sessionId": "", "update": msgspec.json.decode(body)})[0].update
    except ProtocolError:
        return None


def decode_prompt(body: bytes | msgspec.Raw) -> list[Any]:
    """Decode the blocks of a prompt; empty if they cannot be decoded."""
    with suppress(msgspec.DecodeError):
        return list(_prompt_decoder().decode(body).prompt)
    try:
        value = msgspec.json.decode(body)
        return list(read_leniently(PromptParams, {"sessionId": "", "prompt": value["prompt"]})[0].prompt)
    except (ProtocolError, KeyError, TypeError):
        return []
