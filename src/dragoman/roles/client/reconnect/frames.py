"""Frames between a client and an agent, as somebody who stands between them reads and writes them. Pure.

The client's introduction tells the dialect; its tables lift the calls and answers that pass, and spell what is said in
somebody's place. Nothing above this knows a spelling. Session ids are changed inside a frame without touching the rest
of it. Above are whereabouts.py and landing.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from dragoman.dialect import detect
from dragoman.dialect.dialects import load_dialect as find_dialect
from dragoman.dialect.side_data import with_side_data
from dragoman.engine.codec import PeerCodec
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.side import Side
from dragoman.wire.envelope import Id, WireError, encode_call, encode_error, encode_result
from dragoman.wire.repair import repair

# What a host of ours is asked in any dialect (reference 5.17), under the name that official clients use.
_METHOD_ALIASES = {"_dragoman/attach": "session/attach", "_dragoman/detach": "session/detach"}

# How an update of ours begins in each dialect, up to its session's id.
_UPDATE_HEAD = re.compile(
    rb'\{"jsonrpc":"2\.0","method":"session/update","params":\{"session(?:Id|_id)":("(?:[^"\\]|\\.)*")'
)

_SESSION_ID_MEMBERS = ("sessionId", "session_id")  # as transport/remote/streams.py knows it too

# Dialects whose clients choose the ids of sessions: over another connection they are known by the agent's only.
_CLIENT_CHOOSES_IDS = frozenset({"2025.1"})

_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode


class DialectFrames:
    """How the two speak; official v1 until the client has introduced itself."""

    def __init__(self) -> None:
        self._set_dialect("v1")

    def _set_dialect(self, name: str) -> None:
        self.dialect = find_dialect(name)
        self._client = PeerCodec(self.dialect, Side.CLIENT)
        self._agent = PeerCodec(self.dialect, Side.AGENT)

    def detect_client(self, params: Any) -> None:
        """The client introduced itself with this."""
        self._set_dialect(detect.dialect_of_client("initialize", params) or "v1")

    def with_reconnect_capability(self, params: Any) -> Any:
        """The introduction of a client that will come back: it asks what the agent calls its sessions, if it must."""
        if self.dialect.name not in _CLIENT_CHOOSES_IDS:
            return params
        try:
            method, lifted = self.dialect.lift_call(Side.AGENT, "initialize", params)
            offered = lifted.get("clientCapabilities") or {}
            if not isinstance(offered, dict):
                return params  # which the agent will refuse
            offered = with_side_data(offered, comesBack=True)
            return self.dialect.lower_call(Side.AGENT, method, {**lifted, "clientCapabilities": offered})[1]
        except ProtocolError:
            return params

    @property
    def is_native(self) -> bool:
        """Whether they speak as official clients do."""
        return self._client.is_native

    # --- reading ----------------------------------------------------------------------------------------------

    def lift_call(self, method: str, params: Any) -> tuple[str, dict[str, Any]]:
        """A call of the client's, in the vocabulary."""
        try:
            method, _, lifted = self._agent.lift_call(method, params, False)
        except ProtocolError:
            lifted = params
        return _METHOD_ALIASES.get(method, method), lifted if isinstance(lifted, dict) else {}

    def lift_result(self, method: str, result: Any) -> dict[str, Any]:
        """The agent's answer to a call, in the vocabulary; empty when it is no such thing."""
        try:
            lifted = self._client.lift_result(method, result, True)
        except ProtocolError:
            return {}
        return lifted if isinstance(lifted, dict) else {}

    def find_question(self, frame: bytes) -> str | None:
        """The session and the tool call that an update asks about, where questions are updates; None: none."""
        said = decode_frame(frame)
        try:
            method, asked = self.dialect.lift_call(Side.CLIENT, "session/update", (said or {}).get("params"))
        except ProtocolError:
            return None
        if method != "session/request_permission":
            return None
        call = asked.get("toolCall")
        return question_key({**asked, "toolCallId": call.get("toolCallId") if isinstance(call, dict) else None})

    def lift_error(self, error: Any) -> ProtocolError:
        """An error of the agent's."""
        try:
            return self._client.lift_error(msgspec.convert(error, WireError))
        except msgspec.ValidationError:
            return ProtocolError(Kind.INTERNAL_ERROR, str(error))

    # --- speaking ---------------------------------------------------------------------------------------------

    def encode_request(self, method: str, params: dict[str, Any], id: Id) -> bytes:
        """A request in the client's place."""
        method, spelled = self._client.lower_call(method, params)
        return encode_call(id, method, spelled)

    def encode_result(self, id: Id, method: str, result: dict[str, Any]) -> bytes:
        """A result in the agent's place."""
        return encode_result(id, self._agent.lower_result(method, result))

    def encode_error(self, id: Id, error: ProtocolError) -> bytes:
        """An error in the agent's place."""
        return encode_error(id, self._agent.lower_error(error))


def decode_frame(frame: bytes) -> dict[str, Any] | None:
    """A frame that is one JSON object with a proper id; None for every other, which is not ours to judge."""
    try:
        said = msgspec.json.decode(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        try:
            said = repair(frame)  # half an emoji, say, which many let pass
        except ProtocolError:
            return None
    if not isinstance(said, dict):
        return None
    id = said.get("id")
    return said if id is None or isinstance(id, int | str | float) else None


def question_key(params: dict[str, Any]) -> str:
    """The session and the tool call that a question or its answer is about, as one key."""
    return f"{params.get('sessionId')}/{params.get('toolCallId')}"


def session_of(params: Any) -> str | None:
    """The session that a call names, in whatever dialect."""
    named = (params.get(name) for name in _SESSION_ID_MEMBERS) if isinstance(params, dict) else ()
    return next((name for name in named if isinstance(name, str)), None)


def update_head(frame: bytes) -> tuple[bytes, str] | None:
    """How an update of a host begins, up to its session's id, and that id; None when it begins otherwise."""
    found = _UPDATE_HEAD.match(frame)
    if found is None:
        return None
    try:
        return found.group(0), str(msgspec.json.decode(found.group(1)))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def rename_session(frame: bytes, new_ids: Mapping[str, str]) -> bytes:
    """A call with its session by another name; what else is in it stays as it is written, if it can be read at all."""
    try:
        said: dict[str, Any] = _decode_members(frame)
        params: dict[str, Any] = _decode_members(said["params"])
        for member in _SESSION_ID_MEMBERS:
            name = msgspec.json.decode(params[member]) if member in params else None
            if isinstance(name, str) and name in new_ids:
                params[member] = new_ids[name]
                return msgspec.json.encode({**said, "params": params})
    except (msgspec.ValidationError, KeyError):
        pass
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        said = decode_frame(frame) or {}
        found = session_of(said.get("params"))
        for member in _SESSION_ID_MEMBERS if found is not None and found in new_ids else ():
            if said["params"].get(member) == found:
                return msgspec.json.encode({**said, "params": {**said["params"], member: new_ids[str(found)]}})
    return frame
