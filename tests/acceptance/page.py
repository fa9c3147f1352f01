"""The acceptance page: the table of items and their tests, as Markdown.

Takes docs/acceptance_items.toml and, for each item, the names of tests that ran and passed; returns the text of
docs/acceptance.md. The same results always give the same text, without dates and times. This module does not import
pytest; tests/conftest.py collects the results.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "acceptance_items.toml"

PREAMBLE = """\
# Acceptance

**{shown} of {total}** items have a test that passed.

What the protocol documents require, one row per item. The ids never change. `make test` writes this page from the
marks on tests. It counts only tests that ran and passed in that run; a skipped test does not count. **W** items are
visible on the wire, and their tests check raw JSON. **B** items are behavior, and their tests run a command or use the
public API. The sentences are in [acceptance_items.toml](acceptance_items.toml).
"""


class Item(NamedTuple):
    """A requirement: its id, W (wire), B (behavior) or W/B, and a sentence."""

    id: str
    kind: str
    says: str


class Chapter(NamedTuple):
    """The items of one source document."""

    seed: str
    title: str
    items: tuple[Item, ...]


def read_table(path: Path = TABLE) -> tuple[Chapter, ...]:
    """Return the chapters in the order of the file."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return tuple(
        Chapter(chapter["seed"], chapter["title"], tuple(Item(**item) for item in chapter["items"]))
        for chapter in table["chapter"]
    )


def item_ids(chapters: Iterable[Chapter]) -> list[str]:
    """Return all ids, in order."""
    return [item.id for chapter in chapters for item in chapter.items]


def base_name(nodeid: str) -> str:
    """Return a test's name without its parameters: the page lists a test once."""
    return nodeid.partition("[")[0]


def render(chapters: Iterable[Chapter], shown_by: Mapping[str, Iterable[str]]) -> str:
    """Return the page's text. `shown_by` maps an item's id to the node ids of tests that passed."""
    chapters = tuple(chapters)
    names = {id: sorted({base_name(nodeid) for nodeid in shown_by.get(id, ())}) for id in item_ids(chapters)}
    lines = [PREAMBLE.format(shown=sum(map(bool, names.values())), total=len(names))]
    lines += ["| source | passed |", "|---|---|"]
    for chapter in chapters:
        count = sum(bool(names[item.id]) for item in chapter.items)
        lines.append(f"| {chapter.title} | {count} of {len(chapter.items)} |")
    for chapter in chapters:
        lines += ["", f"## {chapter.title}", "", "| id | kind | requirement | state | tests |"]
        lines.append("|---|---|---|---|---|")
        for item in chapter.items:
            state = "passed" if names[item.id] else "not yet"
            tests = "<br>".join(f"`{name}`" for name in names[item.id])
            lines.append(f"| {item.id} | {item.kind} | {cell(item.says)} | {state} | {tests} |")
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """Escape a sentence for a table cell: JSON and names with underscores are not Markdown."""
    return re.sub(r"([|_*<\[\]])", r"\\\1", text)
