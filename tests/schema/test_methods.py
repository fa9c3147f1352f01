"""The one table: each row is consistent with its types."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec
import pytest

from dragoman.schema import initialize
from dragoman.schema.base import Model
from dragoman.schema.introspect import Shape, shape_of
from dragoman.schema.methods import METHODS, Method, find_method
from dragoman.schema.side import Side

ROWS = list(METHODS.values())


def _step(shape: Shape, part: str) -> list[Shape]:
    name, _, is_list = part.partition("[")
    found = []
    for one in shape.variants.values() or [shape]:
        for member in one.members:
            if member.key == name:
                inner = member.shape
                found += [inner.items] if is_list and inner.items else [] if is_list else [inner]
    return found


def _walk(kind: Any, path: str) -> list[Shape]:
    shapes = [shape_of(kind)]
    for part in path.split("."):
        shapes = [inner for shape in shapes for inner in _step(shape, part)]
    return shapes


def _capability(path: str) -> bool:
    end, _, rest = path.partition(".")
    kind: Any = {"agent": initialize.AgentCapabilities, "client": initialize.ClientCapabilities}[end]
    return rest.startswith("_meta.dragoman.") or bool(_walk(kind, rest))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.side}-{row.name}")
def test_a_row_agrees_with_its_types(row: Method) -> None:
    assert METHODS[row.side, row.name] is row
    assert issubclass(row.params, Model)
    assert row.request is (row.result is not None)
    assert row.result in (None, Any) or issubclass(row.result, Model)
    assert row.since
    keys = {field.encode_name for field in msgspec.structs.fields(row.params)}
    assert row.scope == ("session" if "sessionId" in keys else "connection")
    for path in row.ids:
        assert _walk(row.params, path), path
    for path in row.result_ids:
        assert _walk(row.result, path), path
    assert not row.gate or _capability(row.gate)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.side}-{row.name}")
def test_every_session_and_terminal_id_is_listed(row: Method) -> None:
    for kind, listed in ((row.params, row.ids), (row.result, row.result_ids)):
        if isinstance(kind, type) and issubclass(kind, Model):
            keys = {field.encode_name for field in msgspec.structs.fields(kind)}
            assert {"sessionId", "terminalId", "elicitationId"} & keys <= set(listed)


def test_the_two_sides_are_each_others_other() -> None:
    assert Side.AGENT.other is Side.CLIENT
    assert Side.CLIENT.other is Side.AGENT
    assert f"{Side.AGENT}" == "agent"


def test_the_same_name_can_mean_two_things_on_two_sides() -> None:
    poll, push = find_method(Side.CLIENT, "terminal/output"), find_method(Side.AGENT, "terminal/output")
    assert poll
    assert push
    assert poll.params is not push.params
    assert find_method(Side.AGENT, "session/set_model") is None
    assert find_method(Side.AGENT, "nes/start") is None


def test_the_table_comes_without_the_second_pass() -> None:
    code = (
        "import sys, dragoman.schema.methods\n"
        "print([m for m in ('dragoman.schema.lenient', 'dragoman.schema.introspect', 'json', 'inspect',"
        " 'dataclasses') if m in sys.modules])"
    )
    bare = "import sys, msgspec; print([m for m in ('json', 'inspect', 'dataclasses') if m in sys.modules])"
    names = [
        subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=True).stdout
        for text in (code, bare)
    ]
    assert names[0] == names[1]
