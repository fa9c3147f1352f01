"""Which requirements ask for which item of the protocol documents: `items.toml`, read and resolved.

A test keeps it whole, docs/generate/checked.py makes a page of it. Knows nothing of how anything is tried.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

from dragoman.conformance.requirement import requirements
from dragoman.schema.side import Side

TABLE = Path(__file__).with_name("items.toml")


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked of one item: ids or chapters of each side, with spaces between, and why not more."""

    agent: str = ""
    client: str = ""
    why: str = ""

    def names(self, side: Side) -> list[str]:
        """The ids and chapters of a side, in full."""
        named = self.agent if side is Side.AGENT else self.client
        return [f"{side.value}.{name}" for name in named.split()]


def read() -> dict[str, Asked]:
    """The table, by the ids of items."""
    return msgspec.convert(tomllib.loads(TABLE.read_text(encoding="utf-8")), dict[str, Asked])


def found(name: str) -> list[str]:
    """The requirements that an id or a chapter means; none when there is no such thing."""
    return [each.id for each in requirements().values() if name in (each.id, each.chapter)]
