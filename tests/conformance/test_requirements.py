"""The table of requirements is complete: each has its probe, its fault, its sentence and its source."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from dragoman.conformance.requirement import Level, probes, requirements
from dragoman.dialect.dialects import DIALECT_NAMES
from dragoman.schema.side import Side
from tests.conformance.faults.fault import faults
from tests.test_citations import broken

_ID = re.compile(r"(agent|client)\.[a-z0-9]+\.\d\d")


def test_every_requirement_has_one_probe_and_one_fault() -> None:
    assert probes().keys() == requirements().keys()
    assert faults().keys() == requirements().keys()


def test_the_number_of_requirements_does_not_shrink() -> None:
    sides = Counter(requirement.side.value for requirement in requirements().values())
    assert sides["agent"] >= 120
    assert sides["client"] >= 80


def test_the_documentation_has_the_number_of_requirements() -> None:
    sides = Counter(requirement.side.value for requirement in requirements().values())
    page = (Path(__file__).parents[2] / "docs" / "check.md").read_text(encoding="utf-8")
    assert f"There are {sides['agent']} requirements for agents and {sides['client']} for clients" in page


def test_each_side_has_requirements_of_every_level() -> None:
    found = {(each.side, each.level) for each in requirements().values()}
    assert found == {(side, level) for side in Side for level in Level}


def test_ids_sentences_and_sources_are_valid() -> None:
    for requirement in requirements().values():
        assert _ID.fullmatch(requirement.id), requirement.id
        assert requirement.sentence.endswith("."), requirement
        assert requirement.source, requirement
        assert set(requirement.dialects) <= set(DIALECT_NAMES), requirement


def test_sources_lead_to_a_page_and_a_heading() -> None:
    """Probes cite pages without their folder, which the test of citations does not see."""
    for requirement in requirements().values():
        assert requirement.source.startswith(("docs/protocol/", "RFC ")), requirement
        assert list(broken(requirement.source)) == [], requirement.id


def test_every_dialect_has_requirements_of_its_own() -> None:
    own = Counter(each.dialects[0] for each in requirements().values() if len(each.dialects) == 1)
    assert all(own[name] >= 10 for name in DIALECT_NAMES), own


def test_known_behavior_of_real_peers_is_cited() -> None:
    """docs/protocol/peers.md#json-rpc-level and #ordering, as far as an agent shows them on the wire."""
    cited = " ".join(each.source for each in requirements().values() if each.side == "agent")
    page = (Path(__file__).parents[2] / "docs" / "protocol" / "peers.md").read_text(encoding="utf-8")
    headings = re.findall(r"(?m)^### (\S+)$", page[page.index("## JSON-RPC level") : page.index("## Fields")])
    shown_by_clients = {"other-codes", "repeated-mode-updates"}
    assert [each for each in headings if each not in shown_by_clients and f"peers.md#{each}" not in cited] == []
