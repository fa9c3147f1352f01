"""Runs of text: the short way in for most of every stream.

Takes the frames of a block, gives the updates at one place in it that are bare pieces of one message and follow each
other. Each is read in one step, envelope and params together. The first frame that is anything else, or odd in any way,
ends the run, and the connection reads it the long way. No I/O, no memory.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from dragoman.engine.codec import CHUNK_TYPES
from dragoman.engine.decode import STRICT_ERRORS
from dragoman.schema.content import TextContent
from dragoman.schema.update import UpdateParams
from dragoman.wire.depth import is_too_deep
from dragoman.wire.envelope import Id
from dragoman.wire.frames import Frame

# How encoders begin the frame of an update; others are read the long way, which takes no more than a little longer.
_UPDATE_PREFIXES = (b'{"jsonrpc":"2.0","method":"session/update",', b'{"jsonrpc": "2.0", "method": "session/update",')


class _UpdateFrame(msgspec.Struct, gc=False):
    """The whole frame of an update."""

    method: Literal["session/update"]
    params: UpdateParams
    id: Id | UnsetType = UNSET


_decode = msgspec.json.Decoder(_UpdateFrame).decode


class TextRun(NamedTuple):
    """Bare pieces of one message, in wire order: chunks of one kind, with nothing but text in them."""

    session: str
    updates: list[Any]


def text_run_at(frames: list[Frame], start: int) -> TextRun | None:
    """The run that begins with the frame at `start`; None when that is not a bare piece of text."""
    first = frames[start]
    if type(first) is not bytes or not first.startswith(_UPDATE_PREFIXES):
        return None
    session = ""
    kind: Any = None
    message: Any = UNSET
    updates: list[Any] = []
    try:
        for frame in islice(frames, start, None):
            said = _decode(frame)  # type: ignore[arg-type]
            params = said.params
            update: Any = params.update
            if type(update) is not kind:
                if updates or type(update) not in CHUNK_TYPES:
                    break
                session, kind, message = params.session_id, type(update), update.message_id
            content = update.content
            if (
                type(content) is not TextContent
                or content.meta is not UNSET
                or content.annotations is not UNSET
                or update.meta is not UNSET
                or update.message_id != message
                or params.meta is not UNSET
                or params.session_id != session
                or said.id is not UNSET
                or is_too_deep(frame)  # type: ignore[arg-type]
            ):
                break
            updates.append(update)
    except (*STRICT_ERRORS, TypeError):  # odd, or too large to be bytes
        pass
    return TextRun(session, updates) if updates else None
