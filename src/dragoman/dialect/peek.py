"""Peek at raw frames of any dialect: method, ids and session, without decoding the rest; and rename their session.

The only module that reads frames before their dialect is known. No I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from dragoman.errors import Kind, ProtocolError
from dragoman.wire.envelope import Id
from dragoman.wire.repair import repair

# The member that names the session, in some dialect.
_SESSION_MEMBERS = ("sessionId", "session_id")

# The start of an update of ours in any dialect, up to the session id.
_UPDATE_HEAD = re.compile(
    rb'\{"jsonrpc":"2\.0","method":"session/update","params":\{"session(?:Id|_id)":("(?:[^"\\]|\\.)*")'
)


class FramePeek(Struct, frozen=True):
    """What is known of a frame."""

    id: Id | UnsetType = UNSET
    method: str = ""  # "" for an answer
    session: str | None = None  # from its params
    named_id: Id | UnsetType = UNSET  # the request that its params name: to cancel it, or to ask because of it


class NotOneMessage(ProtocolError):
    """A text that is not one message: a batch, or no object at all."""


class _Params(Struct):
    sessionId: str | UnsetType | None = UNSET
    session_id: str | UnsetType | None = UNSET
    requestId: Id | UnsetType = UNSET


class _Message(Struct):
    id: Id | UnsetType = UNSET
    method: str | UnsetType | None = UNSET
    params: _Params | UnsetType | None = UNSET
    result: Any = UNSET


_decode_message = msgspec.json.Decoder(_Message).decode
_decode_params = msgspec.json.Decoder(_Params).decode
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode


def peek_frame(frame: bytes) -> FramePeek:
    """Peek at a frame; raise ProtocolError when it is not JSON, and NotOneMessage when it is no object."""
    try:
        message = _decode_message(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _peek_lenient(frame)
    params = message.params
    method = message.method or ""
    if not isinstance(params, _Params):
        return FramePeek(message.id, method)
    return FramePeek(message.id, method, params.sessionId or params.session_id or None, params.requestId)


def peek_params(params: Raw | bytes | UnsetType | None) -> FramePeek:
    """Peek at the params of a call, or at a result; empty if they cannot be read."""
    if params is None or isinstance(params, UnsetType):
        return FramePeek()
    try:
        found = _decode_params(params)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return FramePeek()
    return FramePeek(session=found.sessionId or found.session_id or None, named_id=found.requestId)


def _peek_lenient(frame: bytes) -> FramePeek:
    value = repair(frame)
    if isinstance(value, list):
        raise NotOneMessage(Kind.CAPABILITY_UNSUPPORTED, "batches are not supported; send one message a request")
    if not isinstance(value, dict):
        raise NotOneMessage(Kind.INVALID_REQUEST, "a message is a JSON object")
    id, method = value.get("id", UNSET), value.get("method")
    is_id = isinstance(id, str | int | float | None | UnsetType) and not isinstance(id, bool)
    session = session_of(value.get("params")) or None
    return FramePeek(id if is_id else None, method if isinstance(method, str) else "", session)


def decode_frame(frame: bytes) -> dict[str, Any] | None:
    """Decode a frame that is one JSON object with a valid id; return None for others."""
    try:
        message = msgspec.json.decode(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        try:
            message = repair(frame)  # for example half an emoji, which many parsers accept
        except ProtocolError:
            return None
    if not isinstance(message, dict):
        return None
    id = message.get("id")
    return message if id is None or isinstance(id, int | str | float) else None


def session_of(values: Any) -> str | None:
    """Return the session that params or a result name."""
    ids = (values.get(name) for name in _SESSION_MEMBERS) if isinstance(values, dict) else ()
    return next((name for name in ids if isinstance(name, str)), None)


def opened_session(frame: bytes) -> str | None:
    """Return the session that an answer names."""
    return session_of((decode_frame(frame) or {}).get("result")) or None


def update_head(frame: bytes) -> tuple[bytes, str] | None:
    """Return the start of an update of ours, up to its session id, and that id; None if it starts otherwise."""
    match = _UPDATE_HEAD.match(frame)
    if match is None:
        return None
    try:
        return match.group(0), str(msgspec.json.decode(match.group(1)))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def rename_session(frame: bytes, new_ids: Mapping[str, str]) -> bytes:
    """Replace the session id of a call and leave the rest as it is."""
    try:
        message: dict[str, Any] = _decode_members(frame)
        params: dict[str, Any] = _decode_members(message["params"])
        for member in _SESSION_MEMBERS:
            name = msgspec.json.decode(params[member]) if member in params else None
            if isinstance(name, str) and name in new_ids:
                params[member] = new_ids[name]
                return msgspec.json.encode({**message, "params": params})
    except (msgspec.ValidationError, KeyError):
        pass
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        message = decode_frame(frame) or {}
        session = session_of(message.get("params"))
        for member in _SESSION_MEMBERS if session is not None and session in new_ids else ():
            if message["params"].get(member) == session:
                return msgspec.json.encode({**message, "params": {**message["params"], member: new_ids[str(session)]}})
    return frame
