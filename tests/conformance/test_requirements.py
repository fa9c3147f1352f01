"""The table of requirements is whole: each row has its probe, its fault, its words and its source."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from dragoman.conformance.probe import probes
from dragoman.conformance.requirement import Level, chapters, requirements
from dragoman.conformance.twin import faults
from dragoman.dialect.dialects import DIALECT_NAMES
from dragoman.schema.side import Side

_ID = re.compile(r"(agent|client)\.[a-z0-9]+\.\d\d")


def test_every_requirement_has_one_probe_and_one_fault() -> None:
    assert probes().keys() == requirements().keys()
    assert faults().keys() == requirements().keys()


def test_there_are_enough_of_them() -> None:
    sides = Counter(requirement.side.value for requirement in requirements().values())
    assert sides["agent"] >= 120
    if any(chapter.name.startswith("client.") for chapter in chapters()):
        assert sides["client"] >= 80


def test_the_documents_say_how_many_there_are() -> None:
    sides = Counter(requirement.side.value for requirement in requirements().values())
    page = (Path(__file__).parents[2] / "docs" / "check.md").read_text(encoding="utf-8")
    assert f"There are {sides['agent']} requirements for agents and {sides['client']} for clients" in page


def test_each_side_has_requirements_of_every_level() -> None:
    found = {(each.side, each.level) for each in requirements().values()}
    assert found == {(side, level) for side in Side for level in Level}


def test_ids_sentences_and_sources_are_in_order() -> None:
    for requirement in requirements().values():
        assert _ID.fullmatch(requirement.id), requirement.id
        assert requirement.sentence.endswith("."), requirement
        assert requirement.source, requirement
        assert set(requirement.dialects) <= set(DIALECT_NAMES), requirement


def test_every_dialect_has_requirements_of_its_own() -> None:
    own = Counter(each.dialects[0] for each in requirements().values() if len(each.dialects) == 1)
    assert all(own[name] >= 10 for name in DIALECT_NAMES), own


def test_the_numbered_lines_of_what_real_peers_do_are_cited() -> None:
    """peers.md "JSON-RPC level" and "Ordering", as far as an agent shows them on the wire."""
    cited = " ".join(each.source for each in requirements().values() if each.side == "agent")
    for number in (1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18):
        assert re.search(rf"peers\.md {number}\b", cited), f"peers.md {number} has no requirement"
