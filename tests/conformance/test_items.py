"""Every item of the protocol documents is asked for by requirements, or it is said why nobody can see it."""

from __future__ import annotations

from dragoman.conformance.requirement import requirements
from dragoman.schema.side import Side
from tests.acceptance.page import read_table
from tests.conformance.items import found, read

ITEMS = [item for chapter in read_table() for item in chapter.items]
# The dialect of the documents that are about one alone.
DIALECTS = {"000": "2025.1", "001": "v1", "002": "crow", "003": "banjo", "004": "draft"}


def test_every_item_stands_in_the_table_once_and_in_order() -> None:
    assert list(read()) == [item.id for item in ITEMS]


def test_what_is_named_is_there() -> None:
    named = [(id, name) for id, asked in read().items() for side in Side for name in asked.names(side)]
    assert [(id, name) for id, name in named if not found(name)] == []


def test_an_item_of_the_wire_is_asked_of_both_sides_or_says_why_not() -> None:
    table = read()
    for item in ITEMS:
        asked = table[item.id]
        assert asked.why or (asked.agent and asked.client), item
        assert asked.agent or asked.client or asked.why, item
        if item.kind == "W":
            assert asked.agent or asked.client, f"{item.id} is seen on the wire, and nobody is asked for it"


def test_what_is_named_is_asked_in_the_dialect_of_the_document() -> None:
    for id, asked in read().items():
        dialect = DIALECTS.get(id.partition("-")[0])
        for side in Side:
            for name in asked.names(side):
                rows = [requirements()[each] for each in found(name)]
                assert dialect is None or any(row.applies(dialect, row.way) for row in rows), f"{id}: {name}"
