"""The most frequent message there is, recognised at a glance: one piece of text and nothing else.

As a form for the short way from wire to wire, and as values for the dialects whose messages are plain texts, so that a
stream of tokens costs them next to nothing.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from dragoman.dialect.reshape import Object
from dragoman.dialect.text_chunk import Form
from dragoman.dialect.v1.tables import CHUNKS


class _Text(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["text"]
    text: str


class _Update(msgspec.Struct, forbid_unknown_fields=True, rename={"kind": "sessionUpdate"}):
    kind: str
    content: _Text


class _Params(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    session_id: str
    update: _Update


CHUNK: Final = Form(
    _Params,
    {kind: kind for kind in CHUNKS},
    lambda said: (said.session_id, said.update.kind, said.update.content.text),
    lambda session, kind, text: _Params(session, _Update(kind, _Text("text", text))),
)


def chunk_text(params: Object) -> str | None:
    """The text of a session/update that is a chunk of plain text without any further member; else None."""
    update = params.get("update")
    if len(params) != 2 or type(update) is not dict or len(update) != 2 or "sessionId" not in params:
        return None
    content = update.get("content")
    if type(content) is not dict or len(content) != 2 or content.get("type") != "text":
        return None
    text = content.get("text")
    return text if type(text) is str and update.get("sessionUpdate") in CHUNKS else None
