"""Print docs/checked.md: which requirement of `dragoman check` tests which item of the protocol documents.

Reads the items and the table of tests/conformance, and the requirements. `make docs` runs this script, and a test
compares the result; another test checks that the table is complete.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.conformance.requirement import requirements

ROOT = Path(__file__).parents[2]
SIDES = ("agent", "client")

OPENING = """\
# What is checked

<!-- Written by docs/generate/checked.py. Change tests/conformance/items.toml, then run `make docs`. -->

Everything that the protocol documents require ([the list](acceptance.md)), and the requirements of
[`dragoman check`](check.md) that test it on an agent or a client. `dragoman check agent --list` prints their sentences.
A name without a number is a whole chapter. If a side is not tested, the last column says why.

**{seen} of {all}** items are tested on the wire.
"""


def read(path: str) -> Any:
    """A TOML file of the tree."""
    return tomllib.loads((ROOT / path).read_text(encoding="utf-8"))


def cell(side: str, names: str) -> str:
    """Requirements, as a cell; raises on one that is not there."""
    known = {each for row in requirements().values() for each in (row.id, row.chapter)}
    for name in names.split():
        if f"{side}.{name}" not in known:
            raise SystemExit(f"items.toml: there is no {side}.{name}")
    return " ".join(f"`{name}`" for name in names.split())


def lines() -> Iterator[str]:
    """The page."""
    table = read("tests/conformance/items.toml")
    is_seen = Counter(any(side in asked for side in SIDES) for asked in table.values())
    yield OPENING.format(seen=is_seen[True], all=len(table))
    for chapter in read("docs/acceptance_items.toml")["chapter"]:
        yield f"## {chapter['title']}\n"
        yield "| id | requirement | agents | clients | why not |\n|---|---|---|---|---|"
        for item in chapter["items"]:
            asked = table[item["id"]]
            says = item["says"].replace("|", "\\|").replace("_", "\\_").replace("*", "\\*")
            cells = [cell(side, asked.get(side, "")) for side in SIDES]
            yield f"| {item['id']} | {says} | {cells[0]} | {cells[1]} | {asked.get('why', '')} |"
        yield ""


if __name__ == "__main__":
    print("\n".join(lines()).rstrip())
