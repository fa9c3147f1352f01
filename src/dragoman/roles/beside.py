"""Side data of calls about files and terminals: read from params, told in results to those who can hear it.

Takes and gives typed messages. What a dialect knows beyond official v1 stands there (encodings, timeouts, streams); a
peer that said none of it is answered officially.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from dragoman.dialect.shape import SIDE


def side(params: Any) -> dict[str, Any]:
    """The side data of a call; empty when there is none."""
    found = (params.meta or {}).get(SIDE)
    return found if isinstance(found, dict) else {}


def noted_for(params: Any, told: dict[str, Any]) -> Any:
    """Side data for a peer whose dialect wants it; official answers stay official."""
    return {SIDE: told} if side(params) else UNSET


def number(value: Any) -> int | None:
    """A number that was said, or None."""
    return value if isinstance(value, int) else None
