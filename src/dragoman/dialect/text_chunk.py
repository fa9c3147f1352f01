"""The fast path of plain text chunks: from one wire to another without the vocabulary.

Most of every stream is such chunks: a kind, a text, and nothing else. Each dialect has a form for them; a message that
does not fit exactly takes the slow path through codec and flow, with the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Raw

from dragoman.schema.base import encode

# Where session, kind, message id and text are in the params of a chunk, in this order.
SESSION: Final = "<session>"
KIND: Final = "<kind>"
MESSAGE_ID: Final = "<message id>"
TEXT: Final = "<text>"


class Chunk(NamedTuple):
    """One text chunk: its session, its vocabulary kind, its text, and the id of its message if it has one."""

    session: str
    kind: str
    text: str
    message_id: str = ""


class ChunkForm:
    """How a dialect writes a plain text chunk: the params with SESSION, KIND and TEXT, and its names of the kinds.

    A form with MESSAGE_ID is only for chunks with an id, any other form only for chunks without.
    """

    __slots__ = ("_decode", "_end", "_kind_by_name", "_middle_by_kind", "_start", "_unpack", "has_ids", "kinds")

    def __init__(self, params: Mapping[str, Any], kinds: Mapping[str, str]) -> None:
        self._decode = msgspec.json.Decoder(_shape_of(params)).decode
        paths = dict(_paths_of(params, ""))
        self.has_ids = MESSAGE_ID in paths
        self._unpack = attrgetter(*(paths[name] for name in (SESSION, KIND, TEXT, MESSAGE_ID) if name in paths))
        self._kind_by_name = dict(kinds)  # dialect name -> vocabulary kind
        self.kinds = frozenset(kinds.values())
        self._start, rest = encode(params).split(encode(SESSION))
        middle, self._end = rest.split(encode(TEXT))
        self._middle_by_kind = {
            kind: middle.replace(encode(KIND), encode(name)).partition(encode(MESSAGE_ID))
            for name, kind in kinds.items()
        }

    def parse_params(self, params: Raw) -> Chunk | None:
        """Return the text chunk in these params; None if they hold anything else."""
        try:
            session, name, *rest = self._unpack(self._decode(params))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        kind = self._kind_by_name.get(name)
        return None if kind is None else Chunk(session, kind, *rest)

    def render_params(self, chunk: Chunk) -> bytes:
        """Return the params of a text chunk."""
        before_id, id, after_id = self._middle_by_kind[chunk.kind]
        return b"".join(
            (
                self._start,
                encode(chunk.session),
                before_id,
                encode(chunk.message_id) if id else b"",
                after_id,
                encode(chunk.text),
                self._end,
            )
        )


def parse_chunk(forms: Iterable[ChunkForm], params: Raw) -> Chunk | None:
    """Return the text chunk in these params; None if they fit none of the forms."""
    for form in forms:
        chunk = form.parse_params(params)
        if chunk is not None:
            return chunk
    return None


def render_chunk(forms: Iterable[ChunkForm], chunk: Chunk) -> bytes | None:
    """Return the params of a text chunk; None if it has to take the general path."""
    for form in forms:
        if form.has_ids is bool(chunk.message_id) and chunk.kind in form.kinds:
            return form.render_params(chunk)
    return None


def _shape_of(form: Mapping[str, Any]) -> type[msgspec.Struct]:
    """Return the type of an object: other members are errors, and fixed values must be as they are."""
    fields: list[tuple[str, Any]] = []
    for number, value in enumerate(form.values()):
        is_variable = value in (SESSION, KIND, MESSAGE_ID, TEXT)
        fields.append(
            (f"m{number}", _shape_of(value) if isinstance(value, dict) else str if is_variable else Literal[value])
        )
    names = {f"m{number}": name for number, name in enumerate(form)}
    return msgspec.defstruct("ChunkParams", fields, rename=names, forbid_unknown_fields=True)


def _paths_of(form: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    for number, value in enumerate(form.values()):
        if isinstance(value, dict):
            yield from _paths_of(value, f"{path}m{number}.")
        else:
            yield value, f"{path}m{number}"
