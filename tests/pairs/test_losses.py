"""Round trips: what a message of one dialect loses when it passes through another dialect.

A -> B -> A returns A except for the members that data/dialects/losses.json lists, each by its path in A's JSON; `*` is
a message that B cannot express. Only codecs are tested: the state of emulators (sessions, folders, options) does not
count. A message that loses nothing is not in the table, and the table must not list what is not lost.
"""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from dragoman.dialect.dialects import DIALECT_NAMES, Dialect, load_dialect
from dragoman.dialect.losses import missing_paths, without_side_data
from dragoman.errors import ProtocolError
from dragoman.schema.side import Side

DATA = Path(__file__).parents[1] / "data" / "dialects"

Case = dict[str, Any]
Table = dict[str, dict[str, list[str]]]


def examples(name: str) -> list[Case]:
    cases: list[Case] = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    return [case for case in cases if not case.get("lift_only")]


def label(case: Case) -> str:
    """The kind of message: its method, what it updates, and whether it is the answer."""
    message = case["vocabulary"]
    update = message.get("params", {}).get("update", {}) if case["kind"] == "call" else {}
    kind = f"/{update['sessionUpdate']}" if "sessionUpdate" in update else ""
    return f"{message['method']}{kind}{'' if case['kind'] == 'call' else ' result'}"


def lost(here: Dialect, there: Dialect, case: Case) -> set[str]:
    """The paths in the JSON of `here` that do not come back from `there`."""
    side, method = Side(case["side"]), case["vocabulary"]["method"]
    try:
        if case["kind"] == "call":
            wire = without_side_data(case["wire"]["params"])
            name, lowered = there.lower_call(side, *here.lift_call(side, case["wire"]["method"], wire))
            received = (
                lowered if method == "initialize" else without_side_data(lowered)
            )  # a client's capabilities may use our key
            _, back = here.lower_call(side, *there.lift_call(side, name, received))
        else:
            wire = without_side_data(case["wire"]["result"])
            answer = there.lower_result(side, method, here.lift_result(side, method, wire))
            back = here.lower_result(side, method, there.lift_result(side, method, without_side_data(answer)))
    except ProtocolError:
        return {"*"}
    return set(missing_paths(wire, without_side_data(back), ""))


def losses(here: str, there: str) -> dict[str, list[str]]:
    """What each kind of message loses on the way."""
    found: dict[str, set[str]] = {}
    for case in examples(here):
        found.setdefault(label(case), set()).update(lost(load_dialect(here), load_dialect(there), case))
    return {kind: sorted(paths) for kind, paths in sorted(found.items()) if paths}


def table() -> Table:
    read: Table = json.loads((DATA / "losses.json").read_text(encoding="utf-8"))
    return read


@pytest.mark.parametrize(("here", "there"), list(permutations(DIALECT_NAMES, 2)))
def test_a_round_trip_loses_only_what_the_table_lists(here: str, there: str) -> None:
    assert losses(here, there) == table()[f"{here}->{there}"]


def test_the_table_has_every_pair_and_nothing_else() -> None:
    assert list(table()) == [f"{here}->{there}" for here, there in permutations(DIALECT_NAMES, 2)]


@pytest.mark.parametrize("name", DIALECT_NAMES)
def test_a_dialect_loses_nothing_to_itself(name: str) -> None:
    assert losses(name, name) == {}
