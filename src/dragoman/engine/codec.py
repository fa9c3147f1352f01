"""A dialect at work on one connection: envelopes to vocabulary, vocabulary to frames.

Official v1 needs almost no work and has a path of its own: params stay raw bytes until somebody looks, and a Struct is
encoded as it is. Every other dialect goes through its spelling on plain JSON values. No I/O, no memory (that is the
ledger's).
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from dragoman.dialect.dialects import Dialect
from dragoman.dialect.error_paths import peer_error_path
from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.dialect.side_data import with_side_data
from dragoman.dialect.text_chunk import Chunk
from dragoman.dialect.v1.tables import CODES as V1_CODES
from dragoman.dialect.v1.tables import STOP_ERRORS
from dragoman.engine.decode import json_values
from dragoman.errors import KINDS, Kind, ProtocolError
from dragoman.schema.base import Model, encode
from dragoman.schema.content import TextContent
from dragoman.schema.methods import METHODS, Method
from dragoman.schema.side import Side
from dragoman.schema.update import AgentMessageChunk, AgentThoughtChunk, UpdateParams, UserMessageChunk
from dragoman.wire.envelope import WireError

# The results in which v1 peers may say something otherwise than the vocabulary: models (dialect/v1/spelling).
_V1_TRANSLATED_RESULTS: frozenset[str] = frozenset(
    {"session/new", "session/load", "session/resume", "session/fork", "session/set_config_option"}
)
CHUNK_TYPES = frozenset({AgentMessageChunk, AgentThoughtChunk, UserMessageChunk})
_CHUNK_TYPE_BY_KIND: dict[Any, Any] = {kind.__struct_config__.tag: kind for kind in CHUNK_TYPES}
_NON_V1_STATUSES = frozenset({"awaiting_permission", "denied", "cancelled"})


class PeerCodec:
    """How one peer's dialect is spoken by us, who play `we`."""

    __slots__ = ("_kind_by_code", "dialect", "is_native", "side")

    def __init__(self, dialect: Dialect, side: Side) -> None:
        self.dialect = dialect
        self.side = side
        self.is_native = dialect.name == "v1"
        self._kind_by_code: dict[int, str] = {}
        for kind in KINDS:
            self._kind_by_code.setdefault(dialect.error_codes[kind], kind)
        self._kind_by_code.setdefault(
            V1_CODES[Kind.CANCELLED], Kind.CANCELLED
        )  # no seed has a number for it, or this number

    # --- calls ----------------------------------------------------------------------------------------------

    def lift_call(self, method: str, params: Any, has_side_data: bool) -> tuple[str, Method | None, Any]:
        """A call of the peer in the vocabulary: method, row, params (raw or values)."""
        if self.is_native and not has_side_data:
            row = METHODS.get((self.side, method))
            if row is not None:  # banjo's extras fail the strict reading, and are then read again
                return method, row, params
        source = json_values(params)
        if has_side_data:
            source = strip_side_data(source, method)
        method, source = self.dialect.lift_call(self.side, method, source)
        return method, METHODS.get((self.side, method)), source

    def lift_raw_params(self, method: str, source: Any) -> Any:
        """Params that were taken raw, as plain values of the vocabulary: banjo's extras in v1 are read now."""
        return self.dialect.lift_call(self.side, method, json_values(source))[1]

    def lower_call(self, method: str, params: Any) -> tuple[str, bytes]:
        """A call of ours as the peer spells it."""
        if self.is_native and _is_valid_v1(method, params):
            return method, encode(params)
        method, lowered = self.dialect.lower_call(self.side.other, method, json_values(params))
        return method, encode(lowered)

    # --- answers --------------------------------------------------------------------------------------------

    def lift_result(self, method: str, result: Any, has_side_data: bool) -> Any:
        """The result of a request of ours, in the vocabulary (raw or values)."""
        if self.is_native and not has_side_data and method not in _V1_TRANSLATED_RESULTS:
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
        """The result of a request of the peer, as it spells it; some stop reasons are errors in some dialects."""
        is_said = self.is_native and isinstance(result, Model) and not result.meta
        if is_said and getattr(result, "stop_reason", None) not in STOP_ERRORS:
            return encode(result)
        return encode(self.dialect.lower_result(self.side, method, json_values({} if result is None else result)))

    # --- errors ---------------------------------------------------------------------------------------------

    def lift_error(self, error: WireError) -> ProtocolError:
        """An error of the peer: a known `data.kind` decides, else the first kind with that number."""
        data = error.data
        said = data.get("kind") if isinstance(data, dict) else None
        kind = said if said in KINDS else self._kind_by_code.get(error.code, Kind.INTERNAL_ERROR)
        if kind == Kind.SESSION_NOT_FOUND and said is None and isinstance(data, dict) and "uri" in data:
            kind = Kind.RESOURCE_NOT_FOUND  # official v1 has one number for both (reference 1.14)
        if data is not None and not isinstance(data, dict):
            data = {"details": data}
        return ProtocolError(str(kind), error.message, data, code=error.code)

    def lower_error(self, error: ProtocolError) -> bytes:
        """An error of ours with the number this dialect gives its kind."""
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
        """A fault with its path as the peer wrote it; what another peer may have put here stays as it is."""
        if not isinstance(fault, dict) or not isinstance(fault.get("path"), str):
            return fault
        return {**fault, "path": peer_error_path(self.dialect.name, self.side, fault["path"])}


def _message_with_peer_path(message: str, faults: list[Any], located: list[Any]) -> str:
    """The sentence about the first fault, which begins with its path."""
    before, after = (part[0].get("path") if part and isinstance(part[0], dict) else None for part in (faults, located))
    if isinstance(before, str) and isinstance(after, str) and before and message.startswith(f"{before} "):
        return after + message[len(before) :]
    return message


def _is_valid_v1(method: str, params: Any) -> bool:
    """Whether a Struct of the vocabulary is official v1 as it stands."""
    if not isinstance(params, Model) or params.meta:
        return False  # side data may hold what no wire sees
    if method == "session/update":
        update = getattr(params, "update", None)
        return getattr(update, "status", None) not in _NON_V1_STATUSES and not getattr(update, "meta", None)
    if method == "session/request_permission":
        return getattr(getattr(params, "tool_call", None), "status", None) not in _NON_V1_STATUSES
    return True


def may_have_side_data(frame: bytes) -> bool:
    """Whether a frame may name our side data, plainly or escaped. (`in` is three times slower on bytes.)"""
    return frame.find(b"dragoman") >= 0 or frame.find(b"\\u00") >= 0


def is_bare_text(params: Any) -> bool:
    """Whether an update is a chunk of text with nothing beside it: most of every stream, and nothing to look for."""
    update = params.update
    if type(update) not in CHUNK_TYPES or params.meta is not UNSET or update.meta is not UNSET:
        return False
    content = update.content
    return type(content) is TextContent and content.meta is UNSET


def chunk_of(params: Any) -> Chunk | None:
    """The bare piece of text that a typed update is, for the short way; None when there is more to it."""
    if type(params) is not UpdateParams or not is_bare_text(params):
        return None
    update: Any = params.update
    content = update.content
    if update.message_id is not UNSET or content.annotations is not UNSET:
        return None
    return Chunk(params.session_id, update.__struct_config__.tag, content.text)


def update_of(chunk: Chunk) -> UpdateParams:
    """The typed update that a bare piece of text is."""
    return UpdateParams(
        session_id=chunk.session, update=_CHUNK_TYPE_BY_KIND[chunk.kind](content=TextContent(text=chunk.text))
    )


# What a host tells of itself among the agent's capabilities, in any dialect (reference 5.17): it is no side data.
_HOST_CAPABILITY_NAMES = ("attach", "host")


def _host_capabilities(source: Any) -> dict[str, Any]:
    """What the answer to initialize says that a host adds."""
    for name in ("agentCapabilities", "agent_capabilities", "capabilities"):
        told = source.get(name) if isinstance(source, dict) else None
        meta = told.get("_meta") if isinstance(told, dict) else None
        beside = meta.get(SIDE_DATA_KEY) if isinstance(meta, dict) else None
        if isinstance(beside, dict):
            return {key: beside[key] for key in _HOST_CAPABILITY_NAMES if key in beside}
    return {}


def strip_side_data(value: Any, method: str) -> Any:
    """The values without what the peer put under `_meta.dragoman`: it is ours alone (capabilities excepted)."""
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
