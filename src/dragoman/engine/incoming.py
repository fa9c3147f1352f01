"""A call as it reaches a handler: the method's row, its typed params, and what it was on the wire.

Made by Speech, taken by handlers and relays. Params are decoded when somebody looks at them, so a relay that only
passes a message on never pays for it.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, UnsetType

from dragoman.engine.codec import PeerCodec
from dragoman.engine.decode import STRICT_ERRORS, decode_as, decode_strict, json_values
from dragoman.schema.methods import Method
from dragoman.wire.envelope import Id

# Where the params stand: raw vocabulary JSON, JSON values, or already a Struct.
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
        self._codec = codec  # how to read the source again, where it is raw and odd
        self._params: Any = UNSET

    @property
    def is_request(self) -> bool:
        """Whether the peer waits for an answer."""
        return self.id is not UNSET

    @property
    def params(self) -> Any:
        """The params as their Struct, plain JSON for an extension; invalid ones raise with every fault listed."""
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
        """The params as plain values of the vocabulary, with the members no type knows."""
        if type(self.source) is Raw and self._codec is not None and self.row is not None:
            self.source = self._codec.lift_raw_params(self.method, self.source)
        return json_values(self.source)
