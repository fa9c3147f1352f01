"""New ids, and the current time as the protocol writes it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache
from uuid import uuid4


def now() -> str:
    """Return the current time in the format of the protocol."""
    seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
    return f"{_second_text(seconds)}.{milliseconds:03}Z"


# Every entry of a log has a time; the entries of one second share most of it.
@lru_cache(maxsize=1)
def _second_text(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def new_id() -> str:
    """Return a random id, for a session or a terminal."""
    return str(uuid4())
