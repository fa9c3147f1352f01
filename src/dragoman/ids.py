"""New ids, and the current time as the protocol writes it."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4


def now() -> str:
    """Return the current time in the format of the protocol."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_id() -> str:
    """Return a random id, for a session or a terminal."""
    return str(uuid4())
