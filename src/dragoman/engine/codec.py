"""Translate one peer's messages: envelopes to the vocabulary, the vocabulary to frames. Stateless, no I/O.

Official v1 takes a short path: params stay raw bytes until they are read, and a Struct is encoded as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from dragoman.dialect.dialects import DEFAULT_DIALECT, Dialect, load_dialect
from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.dialect.side_data import with_side_data
from dragoman.errors import KINDS, ForeignError, Kind, ProtocolError
from dragoman.schema.base import Model, encode
from dragoman.schema.methods import METHODS, Method
from dragoman.schema.side import Side
from dragoman.wire.envelope import WireError
from dragoman.wire.repair import repair

# Errors of strict decoding after which lenient decoding is tried.
STRICT_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_decode_any = msgspec.json.Decoder().decode
_decoders: dict[type, Callable[[Any], Any]] = {}


def decode_strict(kind: type, raw: Raw) -> Any:
    """Decode raw JSON strictly; raise one of STRICT_ERRORS."""
    decode = _decoders.get(kind)
    if decode is None:
        decode = _decoders[kind] = msgspec.json.Decoder(kind).decode
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


class PeerCodec:
    """The codec for one peer's dialect; `side` is the side we play."""

    __slots__ = ("_is_internal", "_kind_by_code", "_native", "dialect", "is_native", "side")

    def __init__(self, dialect: Dialect, side: Side, is_internal: bool = False) -> None:
        """An internal peer is a part of this program: what it says is in the vocabulary, with our side data."""
        self.dialect = dialect
        self._is_internal = is_internal
        self.side = side
        self._native = dialect.native
        self.is_native = dialect.is_native
        self._kind_by_code: dict[int, str] = {}
        for kind in KINDS:
            self._kind_by_code.setdefault(dialect.error_codes[kind], kind)
        # No document defines a code for it, or it is this one.
        self._kind_by_code.setdefault(load_dialect(DEFAULT_DIALECT).error_codes[Kind.CANCELLED], Kind.CANCELLED)

    def lift_call(self, method: str, params: Any, has_side_data: bool) -> tuple[str, Method | None, Any]:
        """Translate a call of the peer; return its method, its row and its params (raw or values)."""
        if self._is_internal:
            return method, METHODS.get((self.side, method)), params
        if self.is_native and not has_side_data:
            row = METHODS.get((self.side, method))
            if row is not None:  # banjo's extra members fail strict decoding, and are then lifted by lift_raw_params
                return method, row, params
        source = json_values(params)
        if has_side_data:
            source = strip_side_data(source, method)
        method, source = self.dialect.lift_call(self.side, method, source)
        return method, METHODS.get((self.side, method)), source

    def lift_raw_params(self, method: str, source: Any) -> Any:
        """Return raw params as plain values of the vocabulary, with banjo's extra v1 members translated."""
        values = json_values(source)
        return values if self._is_internal else self.dialect.lift_call(self.side, method, values)[1]

    def lower_call(self, method: str, params: Any) -> tuple[str, bytes]:
        """Translate a call of ours into the peer's dialect."""
        if self._native is not None and self._native.is_plain_call(method, params):
            return method, encode(params)
        method, lowered = self.dialect.lower_call(self.side.other, method, json_values(params))
        return method, encode(lowered)

    def lift_result(self, method: str, result: Any, has_side_data: bool) -> Any:
        """Translate the result of a request of ours (raw or values)."""
        is_plain = self._native is not None and not has_side_data and method not in self._native.translated_results
        if is_plain or self._is_internal:
            return result
        source = json_values(result)
        hosted = _host_capabilities(source) if has_side_data and method == "initialize" else {}
        if has_side_data:
            source = strip_side_data(source, "")
        lifted = self.dialect.lift_result(self.side.other, method, source)
        if hosted and isinstance(lifted, dict):
            lifted["agentCapabilities"] = with_side_data(lifted.get("agentCapabilities") or {}, **hosted)
        return lifted

    def lower_result(self, method: str, result: Any) -> bytes:
        """Translate our result for the peer; in some dialects a stop reason is an error."""
        if (
            self._native is not None
            and isinstance(result, Model)
            and not result.meta
            and getattr(result, "stop_reason", None) not in self._native.translated_stops
        ):
            return encode(result)
        return encode(self.dialect.lower_result(self.side, method, json_values({} if result is None else result)))

    def lift_error(self, error: WireError, method: str = "") -> ProtocolError:
        """Translate an error in the answer to `method`: a known `data.kind` decides, or else the code."""
        data = error.data
        named_kind = data.get("kind") if isinstance(data, dict) else None
        kind = named_kind if named_kind in KINDS else self._kind_by_code.get(error.code, Kind.INTERNAL_ERROR)
        # Official v1 and 2025.1 have one code for both (docs/protocol/errors.md#kinds). SDKs may leave `uri` out.
        is_resource = method.startswith(("fs/", "terminal/")) or (isinstance(data, dict) and "uri" in data)
        if kind == Kind.SESSION_NOT_FOUND and named_kind is None and is_resource:
            kind = Kind.RESOURCE_NOT_FOUND
        if data is not None and not isinstance(data, dict):
            data = {"details": data}
        return ProtocolError(str(kind), error.message, data, code=error.code)

    def lower_error(self, error: ProtocolError) -> bytes:
        """Encode an error of ours with the code that this dialect gives its kind."""
        if isinstance(error, ForeignError):
            more = {} if error.raw_data is None else {"data": error.raw_data}
            return encode({"code": error.code, "message": error.message, **more})
        code = self.dialect.error_codes.get(error.kind, -32603)
        data: dict[str, Any] = {**(error.data or {}), "kind": error.kind}
        if error.code is not None and self._kind_by_code.get(error.code) is None and error.kind == Kind.INTERNAL_ERROR:
            data.setdefault("code", error.code)
        message = error.message
        if error.kind == Kind.INVALID_PARAMS and not self.is_native and isinstance(faults := data.get("errors"), list):
            data["errors"] = [self._with_peer_path(fault) for fault in faults]
            message = _message_with_peer_path(message, faults, data["errors"])
        return encode({"code": code, "message": message, "data": data})

    def _with_peer_path(self, fault: Any) -> Any:
        """Return the fault with its path in the peer's spelling; leave anything of another shape unchanged."""
        if not isinstance(fault, dict) or not isinstance(fault.get("path"), str):
            return fault
        return {**fault, "path": self.dialect.peer_path(self.side, fault["path"])}


def _message_with_peer_path(message: str, faults: list[Any], peer_faults: list[Any]) -> str:
    """Return the message with the path of the first fault, which it begins with, in the peer's spelling."""
    before, after = (
        part[0].get("path") if part and isinstance(part[0], dict) else None for part in (faults, peer_faults)
    )
    if isinstance(before, str) and isinstance(after, str) and before and message.startswith(f"{before} "):
        return after + message[len(before) :]
    return message


def may_have_side_data(frame: bytes) -> bool:
    """Whether a frame may contain our side data, plain or escaped. (`in` is three times slower on bytes.)"""
    return frame.find(b"dragoman") >= 0 or frame.find(b"\\u00") >= 0


# What a host adds to the agent's capabilities, in any dialect (docs/protocol/extensions.md#attach): kept when side data
# is removed.
_HOST_CAPABILITY_NAMES = ("attach", "agents", "host")


def _host_capabilities(source: Any) -> dict[str, Any]:
    """Return what a host added to the result of initialize."""
    for name in ("agentCapabilities", "agent_capabilities", "capabilities"):
        capabilities = source.get(name) if isinstance(source, dict) else None
        meta = capabilities.get("_meta") if isinstance(capabilities, dict) else None
        side_data = meta.get(SIDE_DATA_KEY) if isinstance(meta, dict) else None
        if isinstance(side_data, dict):
            return {key: side_data[key] for key in _HOST_CAPABILITY_NAMES if key in side_data}
    return {}


def strip_side_data(value: Any, method: str) -> Any:
    """Return the values without `_meta.dragoman`, which only we may set; client capabilities keep it."""
    if isinstance(value, list):
        return [strip_side_data(item, "") for item in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for name, item in value.items():
        if method == "initialize" and name in ("clientCapabilities", "client_capabilities", "capabilities"):
            out[name] = item
        elif name == "_meta" and isinstance(item, dict):
            kept = {key: strip_side_data(inner, "") for key, inner in item.items() if key != SIDE_DATA_KEY}
            if kept or not item:
                out[name] = kept
        else:
            out[name] = strip_side_data(item, "")
    return out
