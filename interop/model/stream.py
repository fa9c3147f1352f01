"""One server-sent event and its encoding."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Event:
    """The data, as JSON unless it is a string, sent `pause` seconds after the previous event."""

    data: Any
    name: str | None = None
    pause: float = 0.0

    def encode(self) -> bytes:
        """The lines of the event, with the blank line at its end."""
        text = self.data if isinstance(self.data, str) else json.dumps(self.data)
        named = f"event: {self.name}\n" if self.name else ""
        return f"{named}data: {text}\n\n".encode()
