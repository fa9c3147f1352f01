"""Our reading of the official schema agrees with a complete validator, on examples and on broken copies of them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from dragoman.conformance import official_schema

EXAMPLES = json.loads((Path(__file__).parents[1] / "data" / "dialects" / "canonical.json").read_text("utf-8"))
ODD: tuple[Any, ...] = (None, -1, 1.5, "odd", True, [], {}, [5], {"type": "text"})


def _parts() -> Iterator[tuple[str, str, Any]]:
    """The params and results of the examples that an agent sends."""
    for example in EXAMPLES:
        spelled = example["spelled"].get("v1") or {}
        is_call = example["kind"] != "result"
        value = spelled.get("params" if is_call else "result")
        if (example["side"] == "client") is is_call and isinstance(value, dict):
            yield "params" if is_call else "result", str(example["vocabulary"].get("method")), value


def _broken(value: Any) -> Iterator[Any]:
    """Copies with one part replaced or removed, at any depth."""
    yield from ODD
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        if isinstance(value, dict):
            yield {name: item for name, item in value.items() if name != key}
        for changed in _broken(value[key]):
            made = copy.copy(value)
            made[key] = changed
            yield made


def test_it_agrees_with_a_complete_validator() -> None:
    whole = official_schema._document()
    tried = refused = 0
    for part, method, value in _parts():
        schema = official_schema.definition(part, method)
        if schema is None:
            continue
        validator = Draft202012Validator({**schema, "$defs": whole["$defs"]})
        for each in (value, *list(_broken(value))[:150]):
            mine = official_schema.problem(each, schema, "it")
            tried, refused = tried + 1, refused + bool(mine)
            assert bool(mine) is not validator.is_valid(each), (method, each, mine)
    assert refused > 200
    assert tried - refused > 200


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({}, "result.sessionId is missing"),
        ({"sessionId": "a", "modes": {"currentModeId": 5}}, "result.modes.availableModes is missing"),
        ({"sessionId": "a", "_meta": []}, "result._meta is [], not object or null"),
    ],
)
def test_it_says_what_is_wrong(value: Any, says: str) -> None:
    schema = official_schema.definition("result", "session/new")
    assert schema is not None
    assert official_schema.problem(value, schema, "result") == says


def test_members_that_the_schema_does_not_name_are_found_at_the_root() -> None:
    schema = official_schema.definition("params", "session/update")
    assert schema is not None
    assert official_schema.unknown_members({"sessionId": "a", "update": {}, "_meta": {}, "vendor": 1}, schema) == [
        "vendor"
    ]
