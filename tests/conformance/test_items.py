"""Every item of the protocol documents has requirements, or a reason why it cannot be checked."""

from __future__ import annotations

import re

from dragoman.conformance.requirement import requirements
from dragoman.schema.side import Side
from tests.acceptance.page import read_table
from tests.conformance.items import matching, read

ITEMS = [item for chapter in read_table() for item in chapter.items]
# Documents about one agent or one client; others are about chains, hosts and pages, which no check sees.
ABOUT_PEERS = re.compile(r"\d+-|V2-|OFF-")

# The dialect of the documents that are about only one.
DIALECTS = {"000": "2025.1", "001": "v1", "002": "crow", "003": "banjo", "004": "draft", "V2": "v2"}


def test_every_item_is_in_the_table_once_and_in_order() -> None:
    assert list(read()) == [item.id for item in ITEMS]


def test_named_requirements_exist() -> None:
    named = [(id, name) for id, request in read().items() for side in Side for name in request.names(side)]
    assert [(id, name) for id, name in named if not matching(name)] == []


def test_an_item_of_the_wire_has_requirements_of_both_sides_or_a_reason() -> None:
    table = read()
    for item in ITEMS:
        request = table[item.id]
        assert request.why or (request.agent and request.client), item
        assert request.agent or request.client or request.why, item
        if item.kind == "W" and ABOUT_PEERS.match(item.id):
            assert request.agent or request.client, f"{item.id} is seen on the wire, and nobody is asked for it"


def test_named_requirements_apply_to_the_dialect_of_the_document() -> None:
    for id, request in read().items():
        dialect = DIALECTS.get(id.partition("-")[0])
        for side in Side:
            for name in request.names(side):
                rows = [requirements()[each] for each in matching(name)]
                assert dialect is None or any(row.applies(dialect, row.way) for row in rows), f"{id}: {name}"
