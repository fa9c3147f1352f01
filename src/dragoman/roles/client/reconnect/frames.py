"""Read and write frames between a client and an agent in the dialect of the client's initialize. No I/O."""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.dialect import detect
from dragoman.dialect.dialects import DEFAULT_DIALECT, load_dialect
from dragoman.dialect.peek import decode_frame
from dragoman.dialect.side_data import with_side_data
from dragoman.engine.codec import PeerCodec
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.side import Side
from dragoman.wire.envelope import Id, WireError, encode_call, encode_error, encode_result

# The host's own methods in every dialect (docs/protocol/extensions.md#attach), by their official names.
_METHOD_ALIASES = {"_dragoman/attach": "session/attach", "_dragoman/detach": "session/detach"}


class DialectFrames:
    """The dialect of a client and its agent; official v1 before initialize."""

    def __init__(self) -> None:
        self._set_dialect(DEFAULT_DIALECT)

    def _set_dialect(self, name: str) -> None:
        self.dialect = load_dialect(name)
        self._client = PeerCodec(self.dialect, Side.CLIENT)
        self._agent = PeerCodec(self.dialect, Side.AGENT)

    def detect_client(self, params: Any) -> None:
        """Detect the dialect from the params of initialize."""
        self._set_dialect(detect.dialect_of_client("initialize", params) or DEFAULT_DIALECT)

    def with_reconnect_capability(self, params: Any) -> Any:
        """Ask in initialize for the agent's own session ids, where the client chooses others."""
        if not self.dialect.client_chooses_ids:
            return params
        try:
            method, lifted = self.dialect.lift_call(Side.AGENT, "initialize", params)
            offered = lifted.get("clientCapabilities") or {}
            if not isinstance(offered, dict):
                return params  # the agent will reject it
            offered = with_side_data(offered, comesBack=True)
            return self.dialect.lower_call(Side.AGENT, method, {**lifted, "clientCapabilities": offered})[1]
        except ProtocolError:
            return params

    @property
    def is_native(self) -> bool:
        """Whether the dialect is official."""
        return self._client.is_native

    # --- reading ----------------------------------------------------------------------------------------------

    def lift_call(self, method: str, params: Any) -> tuple[str, dict[str, Any]]:
        """Return a call of the client in the vocabulary."""
        try:
            method, _, lifted = self._agent.lift_call(method, params, False)
        except ProtocolError:
            lifted = params
        return _METHOD_ALIASES.get(method, method), lifted if isinstance(lifted, dict) else {}

    def lift_result(self, method: str, result: Any) -> dict[str, Any]:
        """Return the agent's result in the vocabulary; empty if it cannot be read."""
        try:
            lifted = self._client.lift_result(method, result, True)
        except ProtocolError:
            return {}
        return lifted if isinstance(lifted, dict) else {}

    def find_question(self, frame: bytes) -> str | None:
        """Return the key of a permission request that is sent as an update (crow), or None."""
        message = decode_frame(frame)
        try:
            method, params = self.dialect.lift_call(Side.CLIENT, "session/update", (message or {}).get("params"))
        except ProtocolError:
            return None
        if method != "session/request_permission":
            return None
        call = params.get("toolCall")
        return question_key({**params, "toolCallId": call.get("toolCallId") if isinstance(call, dict) else None})

    def lift_error(self, error: Any) -> ProtocolError:
        """Return an error of the agent."""
        try:
            return self._client.lift_error(msgspec.convert(error, WireError))
        except msgspec.ValidationError:
            return ProtocolError(Kind.INTERNAL_ERROR, str(error))

    # --- writing ----------------------------------------------------------------------------------------------

    def encode_request(self, method: str, params: dict[str, Any], id: Id) -> bytes:
        """Encode a request in the client's place."""
        method, lowered = self._client.lower_call(method, params)
        return encode_call(id, method, lowered)

    def encode_result(self, id: Id, method: str, result: dict[str, Any]) -> bytes:
        """Encode a result in the agent's place."""
        return encode_result(id, self._agent.lower_result(method, result))

    def encode_error(self, id: Id, error: ProtocolError) -> bytes:
        """Encode an error in the agent's place."""
        return encode_error(id, self._agent.lower_error(error))


def question_key(params: dict[str, Any]) -> str:
    """Return the session and tool call of a question or its answer, as one key."""
    return f"{params.get('sessionId')}/{params.get('toolCallId')}"
