"""A bare piece of text on its short way from one wire to another: read, noted and said without the vocabulary between.

Most of every stream is such pieces: a kind, a text, and nothing else. Each dialect has a form for them (its `chunk`
module); what does not fit the form exactly goes the long way, by spelling and flow, and both ways come to the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from dragoman.schema.base import encode


class Chunk(NamedTuple):
    """One piece of text: its session, its kind in the vocabulary, the text."""

    session: str
    kind: str
    text: str


class ChunkForm:
    """How a dialect writes a bare piece of text: the shape of the params, and its words for the kinds."""

    __slots__ = ("_build", "_decode", "_kind_by_name", "_name_by_kind", "_unpack")

    def __init__(
        self,
        shape: type[msgspec.Struct],
        kinds: Mapping[str, str],
        unpack: Callable[[Any], tuple[str, str, str]],
        build: Callable[[str, str, str], msgspec.Struct],
    ) -> None:
        self._decode = msgspec.json.Decoder(shape).decode
        self._kind_by_name = dict(kinds)  # the dialect's word -> the vocabulary's
        self._name_by_kind = {kind: word for word, kind in kinds.items()}
        self._unpack = unpack  # session, word and text of the params
        self._build = build  # and params of them

    def parse_params(self, params: Raw) -> Chunk | None:
        """The piece of text that these params are; None when they are more or other than that."""
        try:
            session, word, text = self._unpack(self._decode(params))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        kind = self._kind_by_name.get(word)
        return None if kind is None else Chunk(session, kind, text)

    def render_params(self, chunk: Chunk) -> bytes:
        """The params of a piece of text."""
        return encode(self._build(chunk.session, self._name_by_kind[chunk.kind], chunk.text))
