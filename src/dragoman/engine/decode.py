"""Params and results as Structs: strictly first, leniently when that fails.

Takes raw JSON bytes or JSON values and the Struct type of the table's row; gives the Struct. No type means plain JSON
values (extension methods). The faults of the second pass that did not matter go to `noted`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from dragoman.schema.methods import decoder
from dragoman.wire.repair import repair

# What strict decoding raises when the second, lenient reading has to decide.
NOT_STRICT = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_any = msgspec.json.Decoder().decode
_decode: dict[type, Callable[[Any], Any]] = {}


def strictly(kind: type, raw: Raw) -> Any:
    """The Struct of raw JSON, by strict decoding alone; raises one of NOT_STRICT."""
    decode = _decode.get(kind)
    if decode is None:
        decode = _decode[kind] = decoder(kind).decode
    return decode(raw)


def read(kind: type | None, source: Any) -> Any:
    """The Struct that the source says; ProtocolError with every fault when a required part is wrong."""
    if kind is None:
        return values(source)
    if type(source) is Raw:
        try:
            return strictly(kind, source)
        except NOT_STRICT:
            return _second(kind, values(source))
    if isinstance(source, msgspec.Struct):
        return source
    try:
        return msgspec.convert({} if source is UNSET or source is None else source, kind)
    except NOT_STRICT:
        return _second(kind, source)


def values(source: Any) -> Any:
    """The plain JSON values of a source."""
    if type(source) is Raw:
        try:
            return _any(source)
        except NOT_STRICT:
            return repair(bytes(source))
    if source is UNSET:
        return {}
    if isinstance(source, msgspec.Struct):
        from dragoman.schema.base import to_json

        return to_json(source)
    return source


def _second(kind: type, source: Any) -> Any:
    from dragoman.schema.lenient import read as reread

    return reread(kind, {} if source is UNSET else source)[0]


def carried(params: Any, source: Any) -> Any:
    """The params as plain values together with the members of their source that no type knows."""
    if (type(source) is not Raw and not isinstance(source, dict)) or not isinstance(params, msgspec.Struct):
        return params
    from dragoman.schema.unknown_members import extras, merge

    unknown = extras(values(source), type(params))
    return merge(values(params), unknown) if unknown is not None else values(params)
