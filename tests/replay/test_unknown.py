"""The list of what real peers say and our vocabulary has no type for; unknown.json is that list, committed.

For each recording: methods without a row, kinds of updates and content without a type, and members that no type knows
(by their path in params or result). All of it is read, carried and passed on; nothing of it fails a turn. Messages that
cannot be read at all are named as well: only the one recording of version 2 of the protocol has some.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.dialect.dialects import load_dialect
from dragoman.engine.codec import decode_as
from dragoman.errors import ProtocolError
from dragoman.schema.base import Unknown
from dragoman.schema.methods import find_method
from dragoman.schema.side import Side
from dragoman.schema.unknown_members import ListExtras, ObjectExtras, find_unknown_members
from tests.replay.recordings import Step, load, names

LIST: dict[str, dict[str, list[str]]] = msgspec.json.decode(Path(__file__).with_name("unknown.json").read_bytes())


def unknown(steps: list[Step]) -> dict[str, list[str]]:
    """What no type knows, sorted by what it is."""
    found: dict[str, set[str]] = {"methods": set(), "types": set(), "members": set(), "unreadable": set()}
    asked: dict[tuple[str, Any], str] = {}
    v1 = load_dialect("v1")
    for step in steps:
        receiver = Side.AGENT if step.way == "c2a" else Side.CLIENT
        if step.method:
            name, params = v1.lift_call(receiver, step.method, step.params)
            asked[step.way, step.id] = name
            row = find_method(receiver, name)
            if row is None:
                found["methods"].add(step.method)
            elif name != "session/new" or "cwd" in params:
                look(name, row.params, params, found)
        elif step.is_answer and "result" in step.message:
            name = asked["a2c" if step.way == "c2a" else "c2a", step.id]
            row = find_method(receiver.other, name)
            result = v1.lift_result(receiver.other, name, step.message["result"])
            if row is not None and row.result is not None and result is not None:
                look(f"{name} result", row.result, result, found)
    return {name: sorted(values) for name, values in found.items() if values}


def look(where: str, kind: Any, value: Any, found: dict[str, set[str]]) -> None:
    if where == "session/update":
        where = value["update"]["sessionUpdate"]
    try:
        found["types"].update(tags(decode_as(kind, value)))
    except ProtocolError as error:
        found["unreadable"].add(f"{where}: {error.message}")
        return
    found["members"].update(f"{where}: {path}" for path in paths(find_unknown_members(value, kind)))


def tags(value: Any) -> set[str]:
    """The tags of all Unknowns in a Struct."""
    if isinstance(value, Unknown):
        return {value.tag}
    if isinstance(value, msgspec.Struct):
        return set().union(*(tags(getattr(value, name)) for name in value.__struct_fields__))
    if isinstance(value, list):
        return set().union(*map(tags, value)) if value else set()
    return set()


def paths(extra: Any, before: str = "") -> list[str]:
    """The paths of all extras; `[]` stands for any item of a list."""
    if isinstance(extra, ListExtras):
        return [path for item in extra.values() for path in paths(item, f"{before}[]")]
    if isinstance(extra, ObjectExtras):
        prefix = f"{before}." if before else ""
        return [
            path
            for name, item in extra.items()
            for path in (paths(item, prefix + name) if isinstance(item, ObjectExtras | ListExtras) else [prefix + name])
        ]
    return []


@pytest.mark.parametrize("name", names())
def test_members_unknown_to_our_types_are_listed(name: str) -> None:
    assert unknown(load(name)) == LIST.get(name, {})


def test_the_list_names_recordings() -> None:
    assert set(LIST) <= set(names())
