"""A call as a handler gets it: the method's row, its typed params and its source.

Params are decoded when they are first read, so a relay that only forwards a message never decodes it.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, UnsetType

from dragoman.engine.codec import PeerCodec
from dragoman.engine.decode import STRICT_ERRORS, decode_as, decode_strict, json_values
from dragoman.schema.methods import Method
from dragoman.wire.envelope import Id

# The params in one of three forms: raw vocabulary JSON, JSON values, or a Struct.
Source = Raw | Any


class Incoming:
    """One call of the peer; `id` is UNSET for a notification."""

    __slots__ = ("_codec", "_params", "id", "method", "row", "source")

    def __init__(
        self, id: Id | UnsetType, method: str, row: Method | None, source: Source, codec: PeerCodec | None = None
    ) -> None:
        self.id = id
        self.method = method
        self.row = row
        self.source = source
        self._codec = codec  # reads the source again when strict decoding fails
        self._params: Any = UNSET

    @property
    def is_request(self) -> bool:
        """Whether the peer waits for an answer."""
        return self.id is not UNSET

    @property
    def params(self) -> Any:
        """The params as a Struct, or plain JSON for an extension; raises ProtocolError with every fault when they are
        invalid.
        """
        if self._params is UNSET:
            kind = self.row.params if self.row is not None else None
            if type(self.source) is Raw and kind is not None:
                try:
                    self._params = decode_strict(kind, self.source)
                    return self._params
                except STRICT_ERRORS:
                    self.source = self.values
            self._params = decode_as(kind, self.source)
        return self._params

    @params.setter
    def params(self, value: Any) -> None:
        self._params = value
        self.source = value

    @property
    def values(self) -> Any:
        """The params as plain values of the vocabulary, with unknown members."""
        if type(self.source) is Raw and self._codec is not None and self.row is not None:
            self.source = self._codec.lift_raw_params(self.method, self.source)
        return json_values(self.source)
