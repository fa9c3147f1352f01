"""JSON-RPC envelopes: parse frames into calls, results and errors, and encode them. Params and results stay raw.

Knows no method and no dialect. A frame that is no envelope raises Malformed with the kind to answer and the id if
found.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman.errors import Kind, ProtocolError
from dragoman.wire.depth import MAX_DEPTH, is_too_deep
from dragoman.wire.frames import EXCERPT_SIZE, Oversize
from dragoman.wire.repair import repair

Id = int | str | float | None


class Envelope(msgspec.Struct, gc=False):
    """One JSON-RPC object; a call has a method, an answer a result or an error."""

    id: Id | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class WireError(msgspec.Struct):
    """The error member of an answer, as far as the peer filled it in."""

    code: int = -32603
    message: str = ""
    data: Any = None


# JSON's names for values that are no object.
_JSON_TYPE_NAMES: dict[type, str] = {
    int: "a number",
    float: "a number",
    str: "a string",
    bool: "a boolean",
    type(None): "null",
}

_decode = msgspec.json.Decoder(Envelope).decode
_encode = msgspec.json.Encoder().encode


def parse_envelope(frame: bytes) -> Envelope:
    """Parse a frame: strictly first, leniently when that fails."""
    try:
        envelope = _decode(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        envelope = _parse_lenient(frame)
    if envelope.method is UNSET and envelope.result is UNSET and envelope.error is UNSET:
        raise Malformed(Kind.INVALID_REQUEST, "neither a method, a result nor an error is in the message", envelope)
    if is_too_deep(frame):
        raise Malformed(Kind.PARSE_ERROR, f"the message is nested deeper than {MAX_DEPTH} levels; flatten it", envelope)
    return envelope


class Malformed(ProtocolError):
    """A frame that is no envelope; `id` and `is_call` are what is known of it."""

    def __init__(self, kind: str, message: str, found: Envelope | None = None) -> None:
        super().__init__(kind, message)
        self.id: Id = None
        self.is_call = False
        if found is not None:
            self.id = None if found.id is UNSET else found.id
            self.is_call = found.method is not UNSET


def _parse_lenient(frame: bytes) -> Envelope:
    try:
        value = repair(frame)
    except ProtocolError as error:
        raise Malformed(error.kind, error.message, _parse_broken(frame)) from None
    if isinstance(value, list):
        raise Malformed(Kind.INVALID_REQUEST, "batches are not supported; send each message alone")
    if not isinstance(value, dict):
        raise Malformed(Kind.INVALID_REQUEST, f"a message is an object, not {_JSON_TYPE_NAMES[type(value)]}")
    id = value.get("id", UNSET)
    if isinstance(id, bool) or not isinstance(id, int | str | float | None | UnsetType):
        raise Malformed(Kind.INVALID_REQUEST, "an id is a number, a string or null")
    method = value.get("method", UNSET)
    if method is None and ("result" in value or "error" in value):
        method = UNSET  # an encoder that writes missing members as null
    if not isinstance(method, str | UnsetType):
        raise Malformed(Kind.INVALID_REQUEST, "the method is a string", Envelope(id=id, method=""))
    raw = {name: Raw(_encode(value[name])) for name in ("params", "result", "error") if name in value}
    return Envelope(id=id, method=method, **raw)


def read_error(raw: Raw) -> WireError:
    """Read an error object of any shape (docs/protocol/peers.md#method-not-found-text,
    docs/protocol/peers.md#missing-params).
    """
    try:
        return msgspec.json.decode(raw, type=WireError)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        value = repair(bytes(raw))
    if not isinstance(value, dict):
        return WireError(message=value if isinstance(value, str) else "the peer did not say what is wrong")
    return WireError(
        code=_error_code(value.get("code")), message=_error_message(value.get("message", "")), data=value.get("data")
    )


def _error_code(code: Any) -> int:
    usable = isinstance(code, int | float) and not isinstance(code, bool) and abs(code) < 2**63
    return int(code) if usable else -32603


def _error_message(message: Any) -> str:
    return message if isinstance(message, str) else _encode(message).decode()


# The id of an oversize message is a member of the top object: among the first, or among the last before the closing
# brace (docs/protocol/peers.md#id-shapes: some encoders put it last). Nested ids must not match.
_MEMBER_TEXT = rb'"(?:jsonrpc|id|method)"\s*:\s*(?:-?\d+|null|"(?:[^"\\]|\\.)*")'
_LEADING_MEMBERS = re.compile(rb"\s*\{\s*((?:" + _MEMBER_TEXT + rb"\s*,\s*)*)")
_TRAILING_MEMBERS = re.compile(rb"((?:,\s*" + _MEMBER_TEXT + rb"\s*)+)\}\s*\Z")
_MEMBER = re.compile(rb'"(jsonrpc|id|method)"\s*:\s*(-?\d+|null|"(?:[^"\\]|\\.)*")')
_ANSWER_START = re.compile(_LEADING_MEMBERS.pattern + rb'"(?:result|error)"\s*:')


def parse_excerpt(frame: Oversize) -> Envelope:
    """Return the id and method of an oversize message, if they are near either end."""
    members: dict[bytes, Any] = {}
    for match in (_LEADING_MEMBERS.match(frame.head), _TRAILING_MEMBERS.search(frame.tail)):
        for name, value in _MEMBER.findall(match.group(1)) if match else ():
            try:
                members[name] = repair(value)
            except ProtocolError:  # numbers like 007, escapes like \q
                continue
    method = members.get(b"method")
    return Envelope(id=members.get(b"id", UNSET), method=method if isinstance(method, str) else UNSET)


def _parse_broken(frame: bytes) -> Envelope | None:
    """Return what is known of a line that cannot be parsed, if somebody waits for it.

    A call that nests too deep gets its error under its own id. An answer that was garbled, for example by a print from
    another thread, must still end its request. For other broken lines JSON-RPC wants the id null.
    """
    is_answer = _ANSWER_START.match(frame) is not None
    if not is_answer and not is_too_deep(frame):
        return None
    found = parse_excerpt(Oversize(len(frame), frame[:EXCERPT_SIZE], frame[-EXCERPT_SIZE:]))
    return Envelope(id=found.id) if is_answer else found  # a method at the end of an answer is part of the garbage


def encode_call(id: Id | UnsetType, method: str, params: bytes | Raw | None) -> bytes:
    """Encode a request, or a notification when the id is UNSET."""
    head = b'{"jsonrpc":"2.0",' if id is UNSET else b'{"jsonrpc":"2.0","id":%b,' % _encode(id)
    if params is None:
        return b'%b"method":%b}' % (head, _encode(method))
    return b'%b"method":%b,"params":%b}' % (head, _encode(method), params)


def encode_result(id: Id, result: bytes | Raw) -> bytes:
    """Encode an answer with a result."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_encode(id), result)


def encode_error(id: Id, error: bytes | Raw) -> bytes:
    """Encode an answer with an error."""
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (_encode(id), error)
