"""Text chunks, and runs of them: the fast path for most frames of a stream, decoded in one step each.

The first frame that is anything else ends a run; the connection then decodes that frame by the general path.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.dialect.text_chunk import Chunk
from dragoman.engine.codec import STRICT_ERRORS
from dragoman.schema.content import TextContent
from dragoman.schema.update import AgentMessageChunk, AgentThoughtChunk, UpdateParams, UserMessageChunk
from dragoman.wire.depth import is_too_deep
from dragoman.wire.envelope import Id
from dragoman.wire.frames import Frame

# How encoders usually begin the frame of an update; others take the general path, which is only a little slower.
_UPDATE_PREFIXES = (b'{"jsonrpc":"2.0","method":"session/update",', b'{"jsonrpc": "2.0", "method": "session/update",')

# The longest run: behind a slow handler, thousands may have queued.
MAX_RUN = 1024

CHUNK_TYPES = frozenset({AgentMessageChunk, AgentThoughtChunk, UserMessageChunk})
_CHUNK_TYPE_BY_KIND: dict[Any, Any] = {kind.__struct_config__.tag: kind for kind in CHUNK_TYPES}


class _UpdateFrame(msgspec.Struct, gc=False):
    """The whole frame of an update."""

    method: Literal["session/update"]
    params: UpdateParams
    id: Id | UnsetType = UNSET


# Made on first use: it takes milliseconds, and agents, who start most often, get no updates.
@cache
def _frame_decoder() -> msgspec.json.Decoder[_UpdateFrame]:
    return msgspec.json.Decoder(_UpdateFrame)


class TextRun(NamedTuple):
    """Consecutive text chunks of one message and one kind, in wire order."""

    session: str
    updates: list[Any]


def text_run_at(frames: list[Frame], start: int) -> TextRun | None:
    """Return the run that begins with the frame at `start`; None when that frame is not a text chunk."""
    first = frames[start]
    if type(first) is not bytes or not first.startswith(_UPDATE_PREFIXES):
        return None
    session = ""
    kind: Any = None
    message_id: Any = UNSET
    updates: list[Any] = []
    decode = _frame_decoder().decode
    try:
        # An islice would walk over all frames before, at every run.
        for index in range(start, min(len(frames), start + MAX_RUN)):
            frame = frames[index]
            message = decode(frame)  # type: ignore[arg-type]
            params = message.params
            update: Any = params.update
            if type(update) is not kind:
                if updates or type(update) not in CHUNK_TYPES:
                    break
                session, kind, message_id = params.session_id, type(update), update.message_id
            content = update.content
            if (
                type(content) is not TextContent
                or content.meta is not UNSET
                or content.annotations is not UNSET
                or update.meta is not UNSET
                or update.message_id != message_id
                or not _is_without_meta(params)
                or params.session_id != session
                or message.id is not UNSET
                or is_too_deep(frame)  # type: ignore[arg-type]
            ):
                break
            updates.append(update)
    except (*STRICT_ERRORS, TypeError):  # unusual, or an Oversize
        pass
    return TextRun(session, updates) if updates else None


def is_bare_text(params: Any) -> bool:
    """Whether an update is a text chunk without meta of others, like most updates of a stream."""
    update = params.update
    if type(update) not in CHUNK_TYPES or not _is_without_meta(params) or update.meta is not UNSET:
        return False
    content = update.content
    return type(content) is TextContent and content.meta is UNSET


def _is_without_meta(params: Any) -> bool:
    """Whether an update has no meta once our own is removed; a host numbers every update there."""
    meta = params.meta
    return meta is UNSET or (type(meta) is dict and len(meta) == 1 and SIDE_DATA_KEY in meta)


def chunk_of(params: Any) -> Chunk | None:
    """Return the text chunk that a typed update consists of; None when the update holds more than that."""
    if type(params) is not UpdateParams or params.meta is not UNSET or not is_bare_text(params):
        return None
    update: Any = params.update
    content = update.content
    if update.message_id is None or update.message_id == "" or content.annotations is not UNSET:
        return None
    return Chunk(params.session_id, update.__struct_config__.tag, content.text, update.message_id or "")


def update_of(chunk: Chunk) -> UpdateParams:
    """Return the typed update of a text chunk."""
    content = TextContent(text=chunk.text)
    update = _CHUNK_TYPE_BY_KIND[chunk.kind](content=content, message_id=chunk.message_id or UNSET)
    return UpdateParams(session_id=chunk.session, update=update)
