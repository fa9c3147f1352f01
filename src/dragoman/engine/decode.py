"""Decode params and results into Structs: strictly first, leniently when that fails.

Without a type, as for extension methods, the result is plain JSON values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from dragoman.schema.methods import decoder_for
from dragoman.wire.repair import repair

# Errors of strict decoding after which lenient decoding is tried.
STRICT_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_decode_any = msgspec.json.Decoder().decode
_decoders: dict[type, Callable[[Any], Any]] = {}


def decode_strict(kind: type, raw: Raw) -> Any:
    """Decode raw JSON strictly; raise one of STRICT_ERRORS."""
    decode = _decoders.get(kind)
    if decode is None:
        decode = _decoders[kind] = decoder_for(kind).decode
    return decode(raw)


def decode_as(kind: type | None, source: Any) -> Any:
    """Decode a source into a Struct; raise ProtocolError with every fault when a required part is wrong."""
    if kind is None:
        return json_values(source)
    if type(source) is Raw:
        try:
            return decode_strict(kind, source)
        except STRICT_ERRORS:
            return _decode_lenient(kind, json_values(source))
    if isinstance(source, msgspec.Struct):
        return source
    try:
        return msgspec.convert({} if source is UNSET or source is None else source, kind)
    except STRICT_ERRORS:
        return _decode_lenient(kind, source)


def json_values(source: Any) -> Any:
    """Return a source as plain JSON values."""
    if type(source) is Raw:
        try:
            return _decode_any(source)
        except STRICT_ERRORS:
            return repair(bytes(source))
    if source is UNSET:
        return {}
    if isinstance(source, msgspec.Struct):
        from dragoman.schema.base import to_json

        return to_json(source)
    return source


def _decode_lenient(kind: type, source: Any) -> Any:
    from dragoman.schema.lenient import read_leniently as reread

    return reread(kind, {} if source is UNSET else source)[0]


def with_unknown_members(params: Any, source: Any) -> Any:
    """Return params as plain values, plus the members of their source that no type knows."""
    if (type(source) is not Raw and not isinstance(source, dict)) or not isinstance(params, msgspec.Struct):
        return params
    from dragoman.schema.unknown_members import find_unknown_members, merge_unknown_members

    unknown = find_unknown_members(json_values(source), type(params))
    return merge_unknown_members(json_values(params), unknown) if unknown is not None else json_values(params)
