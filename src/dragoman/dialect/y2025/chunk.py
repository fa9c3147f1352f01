"""A bare piece of text in 2025.1: `{session_id, type, data: {text}}`."""

from __future__ import annotations

from typing import Final

import msgspec

from dragoman.dialect.text_chunk import Form
from dragoman.dialect.v1.tables import CHUNKS


class _Data(msgspec.Struct, forbid_unknown_fields=True):
    text: str


class _Params(msgspec.Struct, forbid_unknown_fields=True):
    session_id: str
    type: str
    data: _Data


CHUNK: Final = Form(
    _Params,
    {kind: kind for kind in CHUNKS},
    lambda said: (said.session_id, said.type, said.data.text),
    lambda session, kind, text: _Params(session, kind, _Data(text)),
)
