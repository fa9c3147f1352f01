"""Every example of every dialect, both ways; the examples are data, written by hand from the documents."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from dragoman.dialect.dialects import DIALECT_NAMES, load_dialect
from dragoman.errors import KINDS, ProtocolError, Unsayable
from dragoman.schema.side import Side

DATA = Path(__file__).parents[1] / "data" / "dialects"

Case = dict[str, Any]


def _read(name: str) -> list[Case]:
    path = DATA / f"{name}.json"
    cases: list[Case] = json.loads(path.read_text(encoding="utf-8"))
    return cases


def _examples(both_ways: bool = False) -> list[Any]:
    return [
        pytest.param(dialect, case, id=f"{dialect}/{case['id']}")
        for dialect in DIALECT_NAMES
        for case in _read(dialect)
        if not (both_ways and case.get("lift_only"))
    ]


def _canonical() -> list[Any]:
    return [
        pytest.param(dialect, case, id=f"{case['id']}/{dialect}")
        for case in _read("canonical")
        for dialect in DIALECT_NAMES
        if dialect in case["spelled"]
    ]


def _lift(dialect: str, case: Case, wire: Case) -> Case:
    side, spelling = Side(case["side"]), load_dialect(dialect)
    if case["kind"] == "call":
        method, params = spelling.lift_call(side, wire["method"], wire["params"])
        return {"method": method, "params": params}
    result = spelling.lift_result(side, case["vocabulary"]["method"], wire["result"])
    return {"method": case["vocabulary"]["method"], "result": result}


def _lower(dialect: str, case: Case) -> Case:
    side, spelling, message = Side(case["side"]), load_dialect(dialect), case["vocabulary"]
    if case["kind"] == "call":
        method, params = spelling.lower_call(side, message["method"], message["params"])
        return {"method": method, "params": params}
    return {"result": spelling.lower_result(side, message["method"], message["result"])}


def _wire(case: Case) -> Case:
    wire = case["wire"]
    if case["kind"] == "call":
        # Under a client's capabilities our key is the peer's to use.
        known = wire["params"] if wire["method"] == "initialize" else _known(wire["params"])
        return {"method": wire["method"], "params": known}
    return {"result": _known(wire["result"])}


def _known(value: Any) -> Any:
    """The value without what a peer said under our key: it is not believed, and so does not come back."""
    if isinstance(value, list):
        return [_known(item) for item in value]
    if not isinstance(value, dict):
        return value
    out = {name: _known(item) for name, item in value.items() if name != "_meta"}
    if "_meta" in value:
        meta = value["_meta"]
        kept = {key: item for key, item in meta.items() if key != "dragoman"} if type(meta) is dict else meta
        if kept or kept == meta:
            out["_meta"] = kept
    return out


def _same(left: Any, right: Any) -> bool:
    # Python takes 1, 1.0 and True for equal; a peer does not.
    return json.dumps(_ordered(left), sort_keys=True) == json.dumps(_ordered(right), sort_keys=True)


def _ordered(value: Any) -> Any:
    """The value with every list of what was inferred in one order: it is a set."""
    if isinstance(value, list):
        return [_ordered(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: sorted(item) if name == "inferred" and isinstance(item, list) else _ordered(item)
        for name, item in value.items()
    }


def _explain(got: Any, expected: Any) -> str:
    return f"\n     got {json.dumps(got, sort_keys=True)}\nexpected {json.dumps(expected, sort_keys=True)}"


@pytest.mark.parametrize(("dialect", "case"), _examples())
def test_an_example_lifts_to_the_vocabulary(dialect: str, case: Case) -> None:
    before = deepcopy(case["wire"])
    got = _lift(dialect, case, case["wire"])
    assert _same(got, case["vocabulary"]), _explain(got, case["vocabulary"])
    assert _same(case["wire"], before), "lifting changed its input"


@pytest.mark.parametrize(("dialect", "case"), _examples(both_ways=True))
def test_an_example_survives_a_round_trip_through_the_vocabulary(dialect: str, case: Case) -> None:
    before = deepcopy(case["vocabulary"])
    got = _lower(dialect, case)
    assert _same(got, _wire(case)), _explain(got, _wire(case))
    assert _same(case["vocabulary"], before), "lowering changed its input"


@pytest.mark.parametrize(("dialect", "case"), _canonical())
def test_the_vocabulary_lowers_to_every_dialect_or_is_refused_by_name(dialect: str, case: Case) -> None:
    before, expected = deepcopy(case["vocabulary"]), case["spelled"][dialect]
    if expected is None:
        with pytest.raises(ProtocolError) as caught:
            _lower(dialect, case)
        # The end of a turn is refused as the error that it is in that dialect, everything else by name.
        stop = (case["vocabulary"].get("result") or {}).get("stopReason")
        if stop is None:
            assert isinstance(caught.value, Unsayable)
        else:
            assert caught.value.data == {"stopReason": stop}
        return
    got = _lower(dialect, case)
    if case["kind"] == "result":
        expected = {"result": expected["result"]}
    assert _same(got, expected), _explain(got, expected)
    assert _same(case["vocabulary"], before), "lowering changed its input"


@pytest.mark.parametrize(("dialect", "case"), _canonical())
def test_marks_of_inferred_values_are_never_sent(dialect: str, case: Case) -> None:
    try:
        got = _lower(dialect, case)
    except ProtocolError:
        return
    assert not list(_notes(got))


def _notes(value: Any) -> Any:
    if isinstance(value, dict):
        meta = value.get("_meta")
        side = meta.get("dragoman") if isinstance(meta, dict) else None
        if isinstance(side, dict) and "inferred" in side:
            yield side
        for item in value.values():
            yield from _notes(item)
    elif isinstance(value, list):
        for item in value:
            yield from _notes(item)


def _codes(dialect: str) -> dict[str, int]:
    return load_dialect(dialect).error_codes


def _errors() -> dict[str, Any]:
    errors: dict[str, Any] = json.loads((DATA / "errors.json").read_text(encoding="utf-8"))
    return errors


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_every_kind_of_error_has_its_number_in_every_dialect(dialect: str) -> None:
    assert set(_codes(dialect)) == set(KINDS)
    assert _codes(dialect) == {kind: row[dialect] for kind, row in _errors()["codes"].items()}


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_a_number_means_the_first_kind_that_has_it(dialect: str) -> None:
    meaning: dict[str, str] = {}
    for kind, code in _codes(dialect).items():
        meaning.setdefault(str(code), kind)
    assert meaning == _errors()["kinds"][dialect]


@pytest.mark.parametrize("case", _errors()["results"], ids=lambda case: str(case["id"]))
def test_a_result_with_a_failure_becomes_an_error(case: Case) -> None:
    spelling, wire = load_dialect(case["dialect"]), case["wire"]
    with pytest.raises(ProtocolError) as caught:
        spelling.lift_result(Side(case["side"]), wire["method"], wire["result"])
    assert (caught.value.kind, caught.value.message) == (case["kind"], case["message"])
