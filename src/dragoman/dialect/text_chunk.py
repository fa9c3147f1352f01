"""The fast path of plain text chunks: from one wire to another without the vocabulary.

Most of every stream is such chunks: a kind, a text, and nothing else. Each dialect has a form for them; a message that
does not fit exactly takes the slow path through codec and flow, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from dragoman.schema.base import encode


class Chunk(NamedTuple):
    """One text chunk: its session, its vocabulary kind, its text."""

    session: str
    kind: str
    text: str


class ChunkForm:
    """How a dialect writes a plain text chunk: the shape of the params, and its names of the kinds."""

    __slots__ = ("_build", "_decode", "_kind_by_name", "_name_by_kind", "_unpack")

    def __init__(
        self,
        shape: type[msgspec.Struct],
        kinds: Mapping[str, str],
        unpack: Callable[[Any], tuple[str, str, str]],
        build: Callable[[str, str, str], msgspec.Struct],
    ) -> None:
        self._decode = msgspec.json.Decoder(shape).decode
        self._kind_by_name = dict(kinds)  # dialect name -> vocabulary kind
        self._name_by_kind = {kind: word for word, kind in kinds.items()}
        self._unpack = unpack  # params -> session, kind and text
        self._build = build  # session, kind and text -> params

    def parse_params(self, params: Raw) -> Chunk | None:
        """Return the text chunk in these params; None if they hold anything else."""
        try:
            session, word, text = self._unpack(self._decode(params))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        kind = self._kind_by_name.get(word)
        return None if kind is None else Chunk(session, kind, text)

    def render_params(self, chunk: Chunk) -> bytes:
        """Return the params of a text chunk."""
        return encode(self._build(chunk.session, self._name_by_kind[chunk.kind], chunk.text))
