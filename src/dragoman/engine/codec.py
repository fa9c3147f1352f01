"""A dialect at work on one connection: envelopes to vocabulary, vocabulary to frames.

Official v1 needs almost no work and has a path of its own: params stay raw bytes until somebody looks, and a Struct is
encoded as it is. Every other dialect goes through its spelling on plain JSON values. No I/O, no memory (that is the
ledger's).
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from dragoman.dialect.dialects import Dialect
from dragoman.dialect.error_paths import spelled
from dragoman.dialect.reshape import SIDE
from dragoman.dialect.side_data import noted
from dragoman.dialect.text_chunk import Chunk
from dragoman.dialect.v1.tables import CODES as V1_CODES
from dragoman.dialect.v1.tables import STOP_ERRORS
from dragoman.engine.decode import values
from dragoman.errors import KINDS, Kind, ProtocolError
from dragoman.schema.base import Model, encode
from dragoman.schema.content import TextContent
from dragoman.schema.methods import METHODS, Method
from dragoman.schema.side import Side
from dragoman.schema.update import AgentMessageChunk, AgentThoughtChunk, UpdateParams, UserMessageChunk
from dragoman.wire.envelope import WireError

# The results in which v1 peers may say something otherwise than the vocabulary: models (dialect/v1/spelling).
_SPELLED_IN_V1: frozenset[str] = frozenset(
    {"session/new", "session/load", "session/resume", "session/fork", "session/set_config_option"}
)
CHUNKS = frozenset({AgentMessageChunk, AgentThoughtChunk, UserMessageChunk})
_BY_KIND: dict[Any, Any] = {kind.__struct_config__.tag: kind for kind in CHUNKS}
_WIDENED_STATUS = frozenset({"awaiting_permission", "denied", "cancelled"})


class Speech:
    """How one peer's dialect is spoken by us, who play `we`."""

    __slots__ = ("_kinds", "dialect", "plain", "we")

    def __init__(self, dialect: Dialect, we: Side) -> None:
        self.dialect = dialect
        self.we = we
        self.plain = dialect.name == "v1"
        self._kinds: dict[int, str] = {}
        for kind in KINDS:
            self._kinds.setdefault(dialect.codes[kind], kind)
        self._kinds.setdefault(V1_CODES[Kind.CANCELLED], Kind.CANCELLED)  # no seed has a number for it, or this number

    # --- calls ----------------------------------------------------------------------------------------------

    def lift_call(self, method: str, params: Any, tainted: bool) -> tuple[str, Method | None, Any]:
        """A call of the peer in the vocabulary: method, row, params (raw or values)."""
        if self.plain and not tainted:
            row = METHODS.get((self.we, method))
            if row is not None:  # banjo's extras fail the strict reading, and are then read again
                return method, row, params
        source = values(params)
        if tainted:
            source = untainted(source, method)
        method, source = self.dialect.lift_call(self.we, method, source)
        return method, METHODS.get((self.we, method)), source

    def reread(self, method: str, source: Any) -> Any:
        """Params that were taken raw, as plain values of the vocabulary: banjo's extras in v1 are read now."""
        return self.dialect.lift_call(self.we, method, values(source))[1]

    def lower_call(self, method: str, params: Any) -> tuple[str, bytes]:
        """A call of ours as the peer spells it."""
        if self.plain and _said_in_v1(method, params):
            return method, encode(params)
        method, lowered = self.dialect.lower_call(self.we.other, method, values(params))
        return method, encode(lowered)

    # --- answers --------------------------------------------------------------------------------------------

    def lift_result(self, method: str, result: Any, tainted: bool) -> Any:
        """The result of a request of ours, in the vocabulary (raw or values)."""
        if self.plain and not tainted and method not in _SPELLED_IN_V1:
            return result
        source = values(result)
        hosted = _hosted(source) if tainted and method == "initialize" else {}
        if tainted:
            source = untainted(source, "")
        lifted = self.dialect.lift_result(self.we.other, method, source)
        if hosted and isinstance(lifted, dict):
            lifted["agentCapabilities"] = noted(lifted.get("agentCapabilities") or {}, **hosted)
        return lifted

    def lower_result(self, method: str, result: Any) -> bytes:
        """The result of a request of the peer, as it spells it; some stop reasons are errors in some dialects."""
        is_said = self.plain and isinstance(result, Model) and not result.meta
        if is_said and getattr(result, "stop_reason", None) not in STOP_ERRORS:
            return encode(result)
        return encode(self.dialect.lower_result(self.we, method, values({} if result is None else result)))

    # --- errors ---------------------------------------------------------------------------------------------

    def lift_error(self, error: WireError) -> ProtocolError:
        """An error of the peer: a known `data.kind` decides, else the first kind with that number."""
        data = error.data
        said = data.get("kind") if isinstance(data, dict) else None
        kind = said if said in KINDS else self._kinds.get(error.code, Kind.INTERNAL_ERROR)
        if kind == Kind.SESSION_NOT_FOUND and said is None and isinstance(data, dict) and "uri" in data:
            kind = Kind.RESOURCE_NOT_FOUND  # official v1 has one number for both (reference 1.14)
        if data is not None and not isinstance(data, dict):
            data = {"details": data}
        return ProtocolError(str(kind), error.message, data, code=error.code)

    def lower_error(self, error: ProtocolError) -> bytes:
        """An error of ours with the number this dialect gives its kind."""
        code = self.dialect.codes.get(error.kind, -32603)
        data: dict[str, Any] = {**(error.data or {}), "kind": error.kind}
        if error.code is not None and self._kinds.get(error.code) is None and error.kind == Kind.INTERNAL_ERROR:
            data.setdefault("code", error.code)
        message = error.message
        if error.kind == Kind.INVALID_PARAMS and not self.plain and isinstance(faults := data.get("errors"), list):
            data["errors"] = [self._located(fault) for fault in faults]
            message = _renamed(message, faults, data["errors"])
        return encode({"code": code, "message": message, "data": data})

    def _located(self, fault: Any) -> Any:
        """A fault with its path as the peer wrote it; what another peer may have put here stays as it is."""
        if not isinstance(fault, dict) or not isinstance(fault.get("path"), str):
            return fault
        return {**fault, "path": spelled(self.dialect.name, self.we, fault["path"])}


def _renamed(message: str, faults: list[Any], located: list[Any]) -> str:
    """The sentence about the first fault, which begins with its path."""
    before, after = (part[0].get("path") if part and isinstance(part[0], dict) else None for part in (faults, located))
    if isinstance(before, str) and isinstance(after, str) and before and message.startswith(f"{before} "):
        return after + message[len(before) :]
    return message


def _said_in_v1(method: str, params: Any) -> bool:
    """Whether a Struct of the vocabulary is official v1 as it stands."""
    if not isinstance(params, Model) or params.meta:
        return False  # side data may hold what no wire sees
    if method == "session/update":
        update = getattr(params, "update", None)
        return getattr(update, "status", None) not in _WIDENED_STATUS and not getattr(update, "meta", None)
    if method == "session/request_permission":
        return getattr(getattr(params, "tool_call", None), "status", None) not in _WIDENED_STATUS
    return True


def may_name_side(frame: bytes) -> bool:
    """Whether a frame may name our side data, plainly or escaped. (`in` is three times slower on bytes.)"""
    return frame.find(b"dragoman") >= 0 or frame.find(b"\\u00") >= 0


def is_bare(params: Any) -> bool:
    """Whether an update is a chunk of text with nothing beside it: most of every stream, and nothing to look for."""
    update = params.update
    if type(update) not in CHUNKS or params.meta is not UNSET or update.meta is not UNSET:
        return False
    content = update.content
    return type(content) is TextContent and content.meta is UNSET


def chunk_of(params: Any) -> Chunk | None:
    """The bare piece of text that a typed update is, for the short way; None when there is more to it."""
    if type(params) is not UpdateParams or not is_bare(params):
        return None
    update: Any = params.update
    content = update.content
    if update.message_id is not UNSET or content.annotations is not UNSET:
        return None
    return Chunk(params.session_id, update.__struct_config__.tag, content.text)


def update_of(chunk: Chunk) -> UpdateParams:
    """The typed update that a bare piece of text is."""
    return UpdateParams(session_id=chunk.session, update=_BY_KIND[chunk.kind](content=TextContent(text=chunk.text)))


# What a host tells of itself among the agent's capabilities, in any dialect (reference 5.17): it is no side data.
_HOSTED = ("attach", "host")


def _hosted(source: Any) -> dict[str, Any]:
    """What the answer to initialize says that a host adds."""
    for name in ("agentCapabilities", "agent_capabilities", "capabilities"):
        told = source.get(name) if isinstance(source, dict) else None
        meta = told.get("_meta") if isinstance(told, dict) else None
        beside = meta.get(SIDE) if isinstance(meta, dict) else None
        if isinstance(beside, dict):
            return {key: beside[key] for key in _HOSTED if key in beside}
    return {}


def untainted(value: Any, method: str) -> Any:
    """The values without what the peer put under `_meta.dragoman`: it is ours alone (capabilities excepted)."""
    if isinstance(value, list):
        return [untainted(item, "") for item in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for name, item in value.items():
        if method == "initialize" and name in ("clientCapabilities", "client_capabilities", "capabilities"):
            out[name] = item
        elif name == "_meta" and isinstance(item, dict):
            kept = {key: untainted(inner, "") for key, inner in item.items() if key != SIDE}
            if kept or not item:
                out[name] = kept
        else:
            out[name] = untainted(item, "")
    return out
