"""Which requirements cover which item of the protocol documents: `items.toml`, read and resolved.

A test checks it, and docs/generate/checked.py makes a page of it.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

from dragoman.conformance.requirement import requirements
from dragoman.schema.side import Side

TABLE = Path(__file__).with_name("items.toml")


class Item(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The requirements of one item: ids or chapters of each side, separated by spaces, and why not more."""

    agent: str = ""
    client: str = ""
    why: str = ""

    def names(self, side: Side) -> list[str]:
        """Return the ids and chapters of a side, in full."""
        named = self.agent if side is Side.AGENT else self.client
        return [f"{side.value}.{name}" for name in named.split()]


def read() -> dict[str, Item]:
    """Return the table, by the ids of items."""
    return msgspec.convert(tomllib.loads(TABLE.read_text(encoding="utf-8")), dict[str, Item])


def matching(name: str) -> list[str]:
    """Return the requirements of an id or a chapter."""
    return [each.id for each in requirements().values() if name in (each.id, each.chapter)]
