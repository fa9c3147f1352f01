"""Tools by symbol name, with ty: definition, references, symbols, hover, and a rename as one change through policy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, ProtocolError, WorkspaceAccess, WorkspaceUse, connect
from dragoman.bridge.lsp.positions import InvalidEdit, TextIndex
from dragoman.bridge.lsp.symbols import SymbolNotFound, find_symbol, read_symbols
from dragoman.bridge.lsp.tools import TOOLS, LanguageTools
from dragoman.bridge.lsp.workspace_edit import read_workspace_edit
from dragoman.bridge.lsp.workspace_observer import workspace_tools
from dragoman.errors import Kind
from dragoman.transport.memory import memory_pair
from tests.bridge.lsp.projects import PATIENCE, built_in, language_servers, write

LIBRARY = '''\
class Greeter:
    """Says hello."""

    def greet(self, name: str) -> str:
        return "é😀" + name


def greet(name: str) -> str:
    """Greet one person."""
    return Greeter().greet(name)
'''
USE = 'from library import greet\n\n"é😀"; print(greet("x"), greet("y"))\n'


@asynccontextmanager
async def tools_in(folder: Path, uses: list[WorkspaceUse], denied: str = "") -> AsyncIterator[LanguageTools]:
    """Return the tools of a session in a project of two files; `denied` is a file that may not be written."""
    write(folder, "pyproject.toml", "")
    write(folder, "library.py", LIBRARY)
    write(folder, "use.py", USE)

    def approve(use: WorkspaceUse) -> bool:
        uses.append(use)
        return not (use.operation == "write" and denied and use.resource.endswith(denied))

    ours, theirs = memory_pair()
    serving = asyncio.create_task(Agent("agent").serve(theirs))
    async with asyncio.timeout(PATIENCE):
        async with connect(ours, workspace=WorkspaceAccess(approve=approve)) as remote:
            session = await remote.open_session(str(folder))
            assert remote._workspace is not None
            async with language_servers(folder, [built_in("ruff"), built_in("ty")]) as servers:
                yield workspace_tools(remote._workspace, servers, session.id)
        await serving


async def test_symbols_are_found_by_their_names(tmp_path: Path) -> None:
    uses: list[WorkspaceUse] = []
    use, library = str(tmp_path / "use.py"), str(tmp_path / "library.py")
    async with tools_in(tmp_path, uses) as tools:
        assert await tools.call("definition", {"path": use, "symbol": "greet"}) == "library.py:8:5"
        assert await tools.call("definition", {"path": "use.py", "symbol": "greet"}) == "library.py:8:5"
        places = await tools.call("references", {"path": library, "symbol": "greet", "line": 8})
        assert sorted(places.splitlines()) == ["library.py:8:5", "use.py:1:21", "use.py:3:13", "use.py:3:25"]
        listed = await tools.call("symbols", {"path": library})
        assert "library.py:4:9 method Greeter.greet" in listed.splitlines()
        assert "library.py:8:5 function greet" in listed.splitlines()
        assert "class Greeter" in await tools.call("symbols", {"path": use, "query": "Greeter"})
        assert "Greet one person" in await tools.call("hover", {"path": use, "symbol": "greet"})
        assert await tools.call("diagnostics", {"path": library}) == "no problems"
    assert {(each.operation, each.resource) for each in uses} == {("read", use), ("read", library)}


@pytest.mark.item("BR-26")
async def test_a_rename_changes_all_files_at_once_with_permission_for_each(tmp_path: Path) -> None:
    uses: list[WorkspaceUse] = []
    async with tools_in(tmp_path, uses) as tools:
        arguments = {"path": str(tmp_path / "library.py"), "symbol": "greet", "line": 8, "new_name": "welcome"}
        assert (await tools.call("rename", arguments)).startswith("renamed greet to welcome in 2 files")
    assert (tmp_path / "use.py").read_text() == USE.replace("greet", "welcome")
    assert (tmp_path / "library.py").read_text() == LIBRARY.replace("def greet(name", "def welcome(name")
    written = [use for use in uses if use.operation == "write"]
    assert {use.resource for use in written} == {str(tmp_path / "use.py"), str(tmp_path / "library.py")}
    assert all(use.text and "welcome" in use.text for use in written)


@pytest.mark.item("BR-26")
@pytest.mark.parametrize("denied", ["use.py", "library.py"])
async def test_a_rename_that_is_denied_for_one_file_changes_none(tmp_path: Path, denied: str) -> None:
    async with tools_in(tmp_path, [], denied) as tools:
        arguments = {"path": str(tmp_path / "library.py"), "symbol": "greet", "line": 8, "new_name": "welcome"}
        with pytest.raises(ProtocolError) as caught:
            await tools.call("rename", arguments)
    assert caught.value.kind == Kind.PERMISSION_DENIED
    assert ((tmp_path / "use.py").read_text(), (tmp_path / "library.py").read_text()) == (USE, LIBRARY)


@pytest.mark.item("BR-26")
async def test_a_file_that_changes_while_the_user_is_asked_refuses_the_whole_rename(tmp_path: Path) -> None:
    uses: list[WorkspaceUse] = []

    class Changing(list[WorkspaceUse]):
        def append(self, use: WorkspaceUse) -> None:
            uses.append(use)
            if use.operation == "write":
                (tmp_path / "use.py").write_text(USE + "# another program\n")

    async with tools_in(tmp_path, Changing()) as tools:
        arguments = {"path": str(tmp_path / "library.py"), "symbol": "greet", "line": 8, "new_name": "welcome"}
        with pytest.raises(ProtocolError, match=r"use.py changed meanwhile; nothing was written") as caught:
            await tools.call("rename", arguments)
    assert caught.value.kind == Kind.INVALID_STATE
    assert (tmp_path / "library.py").read_text() == LIBRARY
    assert (tmp_path / "use.py").read_text() == USE + "# another program\n"


@pytest.mark.parametrize(
    ("name", "arguments", "what"),
    [
        ("definition", {"symbol": "nothing"}, "does not contain nothing; it has"),
        ("definition", {"symbol": "greet", "line": 3}, "library.py:3 does not contain greet"),
        ("definition", {"symbol": "greet"}, "several symbols greet: .*; give the line"),
        ("definition", {}, "wrong or missing symbol; give path, symbol, line"),
        ("definition", {"symbol": "greet", "line": "8"}, "wrong or missing line"),
        ("rename", {"symbol": "Greeter", "new_name": "not a name"}, "'not a name' is no name for a symbol"),
        ("fly", {}, "there is no tool 'fly'; there are diagnostics"),
    ],
)
async def test_a_call_that_cannot_be_answered_says_what_to_do(
    tmp_path: Path, name: str, arguments: dict[str, Any], what: str
) -> None:
    async with tools_in(tmp_path, []) as tools:
        with pytest.raises(ProtocolError, match=what):
            await tools.call(name, {"path": str(tmp_path / "library.py"), **arguments})
    assert (tmp_path / "library.py").read_text() == LIBRARY


async def test_files_outside_of_the_session_and_without_a_server_are_refused(tmp_path: Path) -> None:
    async with tools_in(tmp_path / "session", []) as tools:
        with pytest.raises(ProtocolError) as caught:
            await tools.call("hover", {"path": write(tmp_path, "secret.py", "x = 1"), "symbol": "x"})
        assert caught.value.kind == Kind.ACCESS_DENIED
        with pytest.raises(ProtocolError, match=r"no language server for .* is installed"):
            await tools.call("hover", {"path": write(tmp_path / "session", "a.zig", "x"), "symbol": "x"})


def test_every_tool_has_a_schema_with_its_required_members() -> None:
    for row in TOOLS:
        assert set(row.schema["required"]) <= row.schema["properties"].keys()
        assert "path" in row.required


def test_symbols_are_read_in_the_flat_form_of_older_servers() -> None:
    index = TextIndex("def one():\n    pass\ndef two(): pass\n")
    place = {"start": {"line": 2, "character": 0}, "end": {"line": 2, "character": 15}}
    items = [{"name": "two", "kind": 12, "location": {"uri": "x", "range": place}, "containerName": ""}, {"name": 1}]
    symbols = read_symbols(items, "/a.py", index)
    assert [(each.name, each.line, each.column, each.kind) for each in symbols] == [("two", 3, 5, "function")]
    assert find_symbol("two", None, symbols, "a.py", index) == index.text.index("two")
    with pytest.raises(SymbolNotFound):
        find_symbol("()", None, symbols, "a.py", index)


@pytest.mark.parametrize(
    "value",
    [
        {"documentChanges": [{"kind": "delete", "uri": "file:///a"}]},
        {"documentChanges": [7]},
        {"changes": {"http://x/a": []}},
        {"changes": {"file:///a": 7}},
        {"changes": {f"file:///{number}": [] for number in range(201)}},
    ],
)
def test_edits_that_are_more_than_changes_of_texts_are_refused(value: Any) -> None:
    with pytest.raises(InvalidEdit):
        read_workspace_edit(value)
