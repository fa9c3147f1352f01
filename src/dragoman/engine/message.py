"""A call as it reaches a handler: the method's row, its typed params, and what it was on the wire.

Made by Speech, taken by handlers and relays. Params are decoded when somebody looks at them, so a relay that only
passes a message on never pays for it.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, UnsetType

from dragoman.engine.reading import read
from dragoman.schema.methods import Method
from dragoman.wire.envelope import Id

# Where the params stand: raw vocabulary JSON, JSON values, or already a Struct.
Source = Raw | Any


class Incoming:
    """One call of the peer; `id` is UNSET for a notification."""

    __slots__ = ("_params", "frame", "id", "late", "method", "row", "source")

    def __init__(
        self, id: Id | UnsetType, method: str, row: Method | None, source: Source, frame: bytes | None = None
    ) -> None:
        self.id = id
        self.method = method
        self.row = row
        self.source = source
        self.frame = frame  # as it came, while it may be forwarded as it came
        self.late = False
        self._params: Any = UNSET

    @property
    def is_request(self) -> bool:
        """Whether the peer waits for an answer."""
        return self.id is not UNSET

    @property
    def params(self) -> Any:
        """The params as their Struct, plain JSON for an extension; invalid ones raise with every fault listed."""
        if self._params is UNSET:
            self._params = read(self.row.params if self.row is not None else None, self.source)
        return self._params

    @params.setter
    def params(self, value: Any) -> None:
        self._params = value
        self.source = value
        self.frame = None
