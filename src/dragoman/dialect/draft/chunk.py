"""A bare piece of text in the draft: `{sessionId, type, data: {content}}`."""

from __future__ import annotations

from typing import Final

import msgspec

from dragoman.dialect.draft.tables import CHUNKS
from dragoman.dialect.text_chunk import Form


class _Data(msgspec.Struct, forbid_unknown_fields=True):
    content: str


class _Params(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    session_id: str
    type: str
    data: _Data


CHUNK: Final = Form(
    _Params,
    CHUNKS,
    lambda said: (said.session_id, said.type, said.data.content),
    lambda session, kind, text: _Params(session, kind, _Data(text)),
)
