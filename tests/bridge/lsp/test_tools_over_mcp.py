"""The tools of language servers as an MCP server of each session: for agents of every kind, and behind a relay."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Turn, WorkspaceAccess, WorkspaceUse
from dragoman.bridge.lsp.workspace_observer import LanguageServerObserver, relay_extension
from dragoman.mcp.tool_table import ToolTable
from dragoman.schema.initialize import AgentCapabilities, McpCapabilities
from dragoman.testing import connect_in_memory
from tests.bridge.lsp.projects import QUICK, built_in, write
from tests.bridge.lsp.test_tools import LIBRARY, USE
from tests.cli.process import DRAGOMAN, EVERYTHING, run
from tests.roles.proxy.test_mcp_servers import agent_with, through_relay


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}")
    write(tmp_path, "pyproject.toml", "")
    write(tmp_path, "library.py", LIBRARY)
    write(tmp_path, "use.py", USE)
    return tmp_path


@pytest.mark.item("BR-25")
@pytest.mark.parametrize("form", ["acp", "http", "stdio"])
async def test_an_agent_uses_language_tools_by_symbol_name_in_the_form_that_it_takes(form: str, project: Path) -> None:
    taken = McpCapabilities(http=form == "http", sse=False, acp=form == "acp")
    agent = Agent("plain", capabilities=AgentCapabilities(mcp_capabilities=taken))
    found: dict[str, Any] = {}
    at = {"path": str(project / "library.py"), "symbol": "greet", "line": 8}

    @agent.prompt
    async def answer(turn: Turn) -> None:
        found["form"] = turn.session.mcp_servers[0].form
        for name, arguments in (
            ("definition", {"path": str(project / "use.py"), "symbol": "greet"}),
            ("references", at),
            ("symbols", {"path": at["path"]}),
            ("hover", at),
            ("rename", {**at, "new_name": "welcome"}),
            ("definition", {"path": str(project / "use.py"), "symbol": "nobody"}),
        ):
            result = await turn.tools.call("lsp", name, arguments)
            text = "".join(getattr(block, "text", "") for block in result.content)
            found[f"{name} failed" if result.is_error else name] = text

    uses: list[WorkspaceUse] = []
    workspace = WorkspaceAccess(approve=lambda use: uses.append(use) or True)  # type: ignore[func-returns-value]
    workspace.observer = LanguageServerObserver([built_in("ty")], server_settings=QUICK, offers_tools=True)
    async with connect_in_memory(agent, workspace=workspace, permission="allow") as remote:
        session = await remote.open_session(str(project))
        await session.ask("go")
    assert found["form"] == form
    assert found["definition"] == "library.py:8:5"
    assert sorted(found["references"].splitlines()) == ["library.py:8:5", "use.py:1:21", "use.py:3:13", "use.py:3:25"]
    assert "library.py:4:9 method Greeter.greet" in found["symbols"]
    assert "Greet one person" in found["hover"]
    assert found["rename"] == "renamed greet to welcome in 2 files: library.py, use.py"
    assert "nobody" in found["definition failed"]
    assert "print(welcome(" in (project / "use.py").read_text()
    assert {use.resource for use in uses if use.operation == "write"} == {
        str(project / "library.py"),
        str(project / "use.py"),
    }


@pytest.mark.item("BR-25", "BR-26")
async def test_an_agent_behind_a_relay_has_the_tools_and_the_client_is_asked_once_for_all_files(project: Path) -> None:
    found: list[str] = []
    asked: list[Any] = []

    async def act(turn: Turn) -> None:
        at = {"path": str(project / "library.py"), "symbol": "greet", "line": 8, "new_name": "welcome"}
        result = await turn.tools.call("lsp", "rename", at)
        found.append("".join(getattr(block, "text", "") for block in result.content))

    def permit(question: Any) -> str:
        asked.append(question)
        return str(question.options[0].option_id)

    tables: list[ToolTable] = []
    extend = relay_extension([built_in("ty")], None, lambda _: None, QUICK, tables)
    async with through_relay(
        agent_with(act, acp=True), extend=extend, tables=tables, workspace=WorkspaceAccess(), permission=permit
    ) as remote:
        await (await remote.open_session(str(project))).ask("go")
    assert found == ["renamed greet to welcome in 2 files: library.py, use.py"]
    assert "print(welcome(" in (project / "use.py").read_text()
    diffs = [item.path for question in asked for item in question.tool_call.content or ()]
    assert sorted(diffs) == [str(project / "library.py"), str(project / "use.py")]


@pytest.mark.item("BR-25")
def test_run_gives_any_agent_the_tools(project: Path) -> None:
    arguments = {"path": str(project / "use.py"), "symbol": "greet", "new_name": "welcome"}
    ran = run(f"/call lsp rename {json.dumps(arguments)}", "--lsp", "-y", cwd=project)
    assert ran.returncode == 0, ran.stderr
    assert "renamed greet to welcome in 2 files" in ran.stdout + ran.stderr
    assert "def welcome" in (project / "library.py").read_text()
    assert "welcome" in (project / "use.py").read_text()


def test_a_rename_behind_a_relay_that_the_user_of_the_editor_refuses_writes_nothing(project: Path) -> None:
    arguments = {"path": str(project / "use.py"), "symbol": "greet", "new_name": "welcome"}
    policy = project / "policy.toml"
    policy.write_text('version = 1\n[[rule]]\ndecision = "deny"\noperation = "file_write"\n')
    proxy = [*DRAGOMAN, "translate", "--lsp", "--", *EVERYTHING]
    ran = run(f"/call lsp rename {json.dumps(arguments)}", "--policy", str(policy), "-y", cwd=project, agent=proxy)
    assert "the user did not allow the rename" in ran.stdout + ran.stderr
    assert (project / "library.py").read_text() == LIBRARY
