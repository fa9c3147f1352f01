"""Tables of the toy dialect: wire name -> vocabulary name."""

from __future__ import annotations

from typing import Final

from dragoman.dialect.text_chunk import KIND, SESSION, TEXT, ChunkForm
from dragoman.dialect.v1.tables import CHUNK_KINDS

NAME: Final = "toy"
METHODS: Final = {"say": "session/prompt"}
MEMBERS: Final = {"chat": "sessionId", "hello": "protocolVersion"}
CHUNK_FORMS: Final = (
    ChunkForm(
        {"chat": SESSION, "update": {"sessionUpdate": KIND, "content": {"type": "text", "text": TEXT}}},
        {kind: kind for kind in CHUNK_KINDS},
    ),
)
