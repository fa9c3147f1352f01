"""A tool call asks about everything that it names, wherever it names it."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.policy.toolcall_questions import questions_for_call
from dragoman.schema.toolcall import Diff, ToolCallLocation
from dragoman.session.toolcall import ToolCall

WRITE_BOTH = [("file_write", "/w/a"), ("file_write", "/w/b")]


def questions_of(side: dict[str, Any] | None = None, **members: Any) -> list[tuple[str, str]]:
    """Return operation and resource of all questions of a call; /w/link resolves to /real."""
    call = ToolCall(tool_call_id="c", **members)

    def absolute(path: str) -> str:
        return path if path.startswith("/") else f"/w/{path}"

    found = questions_for_call(call, side or {}, lambda path: absolute(path).replace("/w/link", "/real"), absolute)
    return [(each.operation, each.resource) for each in found]


@pytest.mark.parametrize(
    ("given", "folder"),
    [({}, ""), ({"cwd": "sub"}, "/w/sub"), ({"workdir": "/w/link"}, "/real"), ({"directory": 5}, "")],
)
@pytest.mark.parametrize("side", [{}, {"operation": "terminal_execute", "resource": "make"}])
def test_the_question_for_a_command_has_the_folder_that_it_names(
    given: dict[str, Any], folder: str, side: dict[str, Any]
) -> None:
    call = ToolCall(tool_call_id="c", kind="execute", raw_input={"command": "make", **given})
    (found,) = questions_for_call(
        call, side, lambda path: f"/w/{path}" if path[0] != "/" else "/real", lambda path: path
    )
    assert (found.resource, found.cwd) == ("make", folder)


def at(*paths: str) -> list[ToolCallLocation]:
    """Return locations of a tool call."""
    return [ToolCallLocation(path=path) for path in paths]


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"kind": "read", "locations": at("a", "b")}, [("file_read", "/w/a"), ("file_read", "/w/b")]),
        ({"kind": "search", "raw_input": {"path": "src"}}, [("file_read", "/w/src")]),
        ({"kind": "edit", "locations": at("a"), "raw_input": {"file_path": "a"}}, [("file_write", "/w/a")]),
        ({"kind": "edit", "locations": at("a"), "raw_input": {"file_path": "b"}}, WRITE_BOTH),
        ({"kind": "delete", "locations": at("a")}, [("file_delete", "/w/a")]),
        ({"kind": "move", "raw_input": {"path": "a", "destination": "b"}}, WRITE_BOTH),
        ({"kind": "other", "locations": at("a")}, [("file_write", "/w/a")]),
        ({"kind": "read", "content": [Diff(path="x", new_text="")]}, [("file_write", "/w/x")]),
        ({"kind": "execute", "raw_input": {"command": "make"}, "locations": at("/w")}, [("terminal_execute", "make")]),
        ({"kind": "execute", "raw_input": {"command": ["bash", "-lc", "make x"]}}, [("terminal_execute", "make x")]),
        ({"kind": "execute", "raw_input": {"command": "npm", "args": ["test"]}}, [("terminal_execute", "npm test")]),
        ({"kind": "read", "raw_input": {"cmd": "rm x"}}, [("terminal_execute", "rm x")]),
        ({"kind": "fetch", "raw_input": {"url": "https://a"}}, [("network_access", "https://a")]),
        ({"kind": "edit"}, [("file_write", "")]),
        ({"kind": "execute"}, [("terminal_execute", "")]),
        ({"kind": "fetch"}, [("network_access", "")]),
        ({"kind": "switch_mode"}, [("switch_mode", "")]),
        ({"kind": "think"}, [("other", "")]),
        ({"kind": "sing", "raw_input": "free text"}, [("other", "")]),
        ({"kind": "read", "name": "mcp__github__get", "locations": at("a")}, [("mcp_tool", "")]),
    ],
)
def test_a_tool_call_becomes_these_questions(members: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert questions_of(**members) == expected


@pytest.mark.parametrize(
    ("operation", "resource", "expected"),
    [
        ("file_read", "a", ("file_read", "/w/a")),
        ("file_write", "/w/link", ("file_write", "/real")),
        ("file_delete", "a", ("file_delete", "/w/a")),
        ("terminal_execute", "make", ("terminal_execute", "make")),
        ("network_access", "https://a", ("network_access", "https://a")),
        ("mcp_tool", "github", ("mcp_tool", "github")),
        ("dance", "x", ("other", "x")),
        ("file_write", None, ("file_write", "")),
    ],
)
def test_the_drafts_side_data_names_the_operation(operation: str, resource: Any, expected: tuple[str, str]) -> None:
    assert questions_of({"operation": operation, "resource": resource}, kind="other") == [expected]


def test_the_requested_path_is_kept_with_the_resolved_path() -> None:
    call = ToolCall(tool_call_id="c", kind="edit", locations=at("/w/link/a", "/w/b"))
    linked, plain = questions_for_call(call, {}, lambda path: path.replace("/w/link", "/real"), lambda path: path)
    assert (linked.resource, linked.requested_path) == ("/real/a", "/w/link/a")
    assert (plain.resource, plain.requested_path) == ("/w/b", "")


def test_tools_of_mcp_servers_are_recognized_by_their_names() -> None:
    call = ToolCall(tool_call_id="c", name="mcp__github__create__issue", title="Create")
    (found,) = questions_for_call(call, {}, str, str)
    assert (found.server, found.tool, found.title) == ("github", "create__issue", "Create")
