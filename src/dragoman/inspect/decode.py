"""Decode recorded messages of any dialect into schema values, and find schema violations.

The dialect of each side is detected from the client's first message and the agent's answer to initialize. Nothing that
a peer sent makes it raise.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from dragoman.dialect import detect
from dragoman.dialect.dialects import DEFAULT_DIALECT, Dialect, load_dialect
from dragoman.errors import ProtocolError
from dragoman.schema.lenient import Fault, parse, read_leniently
from dragoman.schema.methods import METHODS, Method
from dragoman.schema.side import Side
from dragoman.transport.recording.format import DECODE_ERRORS

# Prefixes of extension methods.
_EXTENSION_PREFIXES = ("_", "$/")


class RecordingDecoder:
    """The dialects of one recording."""

    def __init__(self, dialect_name: str = "auto") -> None:
        self._is_fixed = dialect_name != "auto"
        first = load_dialect(dialect_name if self._is_fixed else DEFAULT_DIALECT)
        self._dialects: dict[Side, Dialect] = {Side.CLIENT: first, Side.AGENT: first}
        self._client_known = self._agent_known = self._is_fixed
        self._is_later_version = False  # then no message is judged

    @property
    def dialect_names(self) -> tuple[str, str]:
        """The dialects of the client and of the agent."""
        return self._dialects[Side.CLIENT].name, self._dialects[Side.AGENT].name

    def decode_call(self, receiver: Side, method: str, raw: Raw, is_request: bool) -> tuple[str, Any, list[Fault]]:
        """Return the method and params of a call in the schema, and its faults."""
        value, faults = _decode_json(raw)
        if receiver is Side.AGENT and not self._is_fixed and (method == "initialize" or not self._client_known):
            self._agent_known = self._agent_known and method != "initialize"  # an agent may be started again
            self._detect_client(method, value)
        try:
            name, params = self._dialects[receiver.other].lift_call(receiver, method, value)
        except ProtocolError as error:
            return method, value, [*faults, *_faults_of_error(error)]
        row = METHODS.get((receiver, name))
        if self._is_later_version and name != "initialize":
            return name, params, faults
        if row is None:
            if not name.startswith(_EXTENSION_PREFIXES):
                faults = [*faults, Fault("method", f"{method!r} is not a known method")]
            return name, params, faults
        if row.request != is_request and not row.either:
            wanted = "a request: it needs an id" if row.request else "a notification: it has no id"
            faults.append(Fault("id", f"{method} is {wanted}", row.request))
        return name, params, faults + _schema_faults(row.params, params)

    def decode_result(self, responder: Side, method: str, raw: Raw) -> tuple[Any, list[Fault]]:
        """Return the result of a request in the schema, and its faults."""
        value, faults = _decode_json(raw)
        if method == "initialize" and responder is Side.AGENT and not self._agent_known:
            self._agent_known = True
            found = detect.certain_dialect_of_agent(value)
            if found is not None:  # else keep the client's
                self._dialects[Side.AGENT] = load_dialect(found)
        try:
            result = self._dialects[responder].lift_result(responder, method, value)
        except ProtocolError as error:
            return value, [*faults, *_faults_of_error(error)]
        row: Method | None = METHODS.get((responder, method))
        if method == "initialize":
            faults = faults + self._note_version(responder, value)
        if row is None or row.result in (None, Any) or self._is_later_version:
            return result, faults
        if value is None and self._dialects[responder].official:
            faults = [*faults, Fault("result", "is null; an empty result is {}", False)]
        return result, faults + _schema_faults(row.result, result)

    def _note_version(self, responder: Side, result: Any) -> list[Fault]:
        version = result.get("protocolVersion") if isinstance(result, dict) else None
        newest = self._dialects[responder].version
        is_known = newest is None or not isinstance(version, int) or version <= newest
        self._is_later_version = not is_known
        why = f"{version} is not known to Dragoman; the messages after this one are not judged"
        return [] if is_known else [Fault("protocolVersion", why)]

    def _detect_client(self, method: str, params: Any) -> None:
        found = detect.dialect_of_client(method, params)
        if found is not None:
            self._client_known = True
            self._dialects[Side.CLIENT] = load_dialect(found)
            if not self._agent_known:
                self._dialects[Side.AGENT] = load_dialect(found)


def _decode_json(raw: Raw) -> tuple[Any, list[Fault]]:
    if not raw:
        return {}, []
    try:
        return msgspec.json.decode(raw), []
    except DECODE_ERRORS as error:
        try:
            return parse(bytes(raw)), [Fault("", f"not valid JSON: {error}", False)]
        except ProtocolError as worse:
            return {}, [Fault("", worse.message)]


def _schema_faults(kind: Any, value: Any) -> list[Fault]:
    """Return the schema violations; try the fast strict check first, because nearly all messages are valid."""
    try:
        msgspec.convert({} if value is None else value, kind)
        return []
    except DECODE_ERRORS:
        pass
    try:
        return read_leniently(kind, value)[1]
    except ProtocolError as error:
        return _faults_of_error(error)


def _faults_of_error(error: ProtocolError) -> list[Fault]:
    listed = (error.data or {}).get("errors")
    if isinstance(listed, list) and listed:
        return [Fault(str(each.get("path", "")), str(each.get("message", ""))) for each in listed]
    return [Fault("", error.message)]
