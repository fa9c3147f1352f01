"""One event of a server-sent stream, and how it stands on the wire."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Event:
    """What is sent, as JSON unless it is a string; `pause` seconds after the one before it."""

    data: Any
    name: str | None = None
    pause: float = 0.0

    def encode(self) -> bytes:
        """The lines of the event, with the blank one that ends it."""
        text = self.data if isinstance(self.data, str) else json.dumps(self.data)
        named = f"event: {self.name}\n" if self.name else ""
        return f"{named}data: {text}\n\n".encode()
