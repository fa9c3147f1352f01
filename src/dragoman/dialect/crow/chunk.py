"""A bare piece of text in crow: `{sessionId, update: {"@type", text}}`."""

from __future__ import annotations

from typing import Final

import msgspec

from dragoman.dialect.crow.tables import TEXTS
from dragoman.dialect.text_chunk import Form


class _Update(msgspec.Struct, forbid_unknown_fields=True, rename={"kind": "@type"}):
    kind: str
    text: str


class _Params(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    session_id: str
    update: _Update


CHUNK: Final = Form(
    _Params,
    TEXTS,
    lambda said: (said.session_id, said.update.kind, said.update.text),
    lambda session, kind, text: _Params(session, _Update(kind, text)),
)
