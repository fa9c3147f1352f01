"""Citations of pages and decisions lead to a page and a heading, and none of the old kinds is left."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_docs import FENCED, HEADING, ROOT, anchors

PAGES = ROOT / "docs" / "protocol"
FOLDERS = ("src", "tests", "docs", "examples", "bench", "interop")
SUFFIXES = {".py", ".md", ".toml"}

# `docs/protocol/permission.md#ask`, or a whole page: `docs/protocol/permission.md`.
CITATION = re.compile(r"docs/(?P<page>(?:protocol|decisions)/[\w.-]+?\.md)(?:#(?P<anchor>[\w-]+))?")

# A decision record by its number.
DECISION = re.compile(r"\bdecision (?P<number>\d{4})\b")

# Notes and source documents that are not in the repository: nobody can follow these.
OLD = re.compile(
    r"\breference\s+\d+(?:\.\d+)*\b"
    r"|(?<!protocol/)\bpeers\.md\s+(?:[PC]?\d)"
    r"|\bseeds?\s+00[0-4]\b"
    r"|\b5\.14-\d+",
    re.IGNORECASE,
)


def texts() -> Iterator[tuple[Path, str]]:
    """Every file that may cite, with its text."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and path != Path(__file__) and path.is_file():
                yield path, path.read_text(encoding="utf-8")


def broken(text: str) -> Iterator[str]:
    """The citations in a text that name a page or a heading which is not there."""
    for citation in CITATION.finditer(text):
        page = ROOT / "docs" / citation["page"]
        if not page.is_file():
            yield f"{citation[0]}: no such page"
        elif citation["anchor"] and citation["anchor"] not in anchors(page.read_text(encoding="utf-8")):
            yield f"{citation[0]}: no such heading"
    for citation in DECISION.finditer(text):
        if not list((ROOT / "docs" / "decisions").glob(f"{citation['number']}-*.md")):
            yield f"{citation[0]}: no such decision"


def test_citations_lead_somewhere() -> None:
    found = [f"{path.relative_to(ROOT)}: {each}" for path, text in texts() for each in broken(text)]
    assert found == []


def test_no_citation_of_notes_that_are_not_here() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, old.start()) + 1}: {old[0]}"
        for path, text in texts()
        for old in OLD.finditer(text)
    ]
    assert found == []


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.name)
def test_headings_of_a_page_differ(page: Path) -> None:
    """Two equal headings would have one anchor between them, and a citation could not tell which is meant."""
    titles = Counter(each["title"].lower() for each in HEADING.finditer(FENCED.sub("", page.read_text("utf-8"))))
    assert [title for title, count in titles.items() if count > 1] == []


def test_every_page_is_in_the_index() -> None:
    index = (PAGES / "README.md").read_text(encoding="utf-8")
    assert [
        page.name for page in PAGES.glob("*.md") if page.name != "README.md" and f"({page.name})" not in index
    ] == []


def test_wrong_citations_are_seen() -> None:
    text = "docs/protocol/README.md docs/protocol/README.md#dialects docs/protocol/gone.md docs/protocol/README.md#no."
    assert list(broken(f"{text} docs/decisions/gone.md; decision 0014, decision 9999")) == [
        "docs/protocol/gone.md: no such page",
        "docs/protocol/README.md#no: no such heading",
        "docs/decisions/gone.md: no such page",
        "decision 9999: no such decision",
    ]
    old = "reference 1.12, peers.md 7, Seed 003, peers.md C4-30; docs/protocol/peers.md#models, the seed 3"
    assert [each[0] for each in OLD.finditer(old)] == ["reference 1.12", "peers.md 7", "Seed 003", "peers.md C4"]
