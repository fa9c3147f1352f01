"""One answer covers one thing: the first operation that matches it, in its session, until the turn ends."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.cli.approvals import Approvals, Operation, command_line, operations
from dragoman.schema.toolcall import Diff, ToolCallLocation
from dragoman.session.toolcall import ToolCall

WRITE_A = Operation("write", "/w/a")
WRITE_B = Operation("write", "/w/b")
LIST = Operation("execute", "ls -l")


def test_a_yes_covers_the_first_matching_operation_and_no_other() -> None:
    approvals = Approvals()
    approvals.note("s", [WRITE_A], True)
    assert approvals.recall("s", WRITE_B) is None
    assert approvals.recall("s", LIST) is None
    assert approvals.recall("s", WRITE_A) is True
    assert approvals.recall("s", WRITE_A) is None


def test_a_no_covers_as_a_yes_does() -> None:
    approvals = Approvals()
    approvals.note("s", [LIST], False)
    assert approvals.recall("s", LIST) is False
    assert approvals.recall("s", LIST) is None


def test_each_thing_that_a_question_named_is_covered_once() -> None:
    approvals = Approvals()
    approvals.note("s", [WRITE_A, WRITE_B], True)
    assert [approvals.recall("s", op) for op in (WRITE_B, WRITE_A, WRITE_A)] == [True, True, None]


def test_an_answer_does_not_reach_into_another_session_or_turn() -> None:
    approvals = Approvals()
    approvals.note("s", [WRITE_A], True)
    approvals.note("t", [WRITE_A], True)
    approvals.forget("s")
    assert approvals.recall("s", WRITE_A) is None
    assert approvals.recall("t", WRITE_A) is True


def test_a_lasting_answer_covers_until_the_turn_ends() -> None:
    approvals = Approvals()
    approvals.note("s", [WRITE_A], True, lasting=True)
    assert [approvals.recall("s", WRITE_A) for _ in range(3)] == [True, True, True]
    approvals.forget("s")
    assert approvals.recall("s", WRITE_A) is None


def test_the_last_answer_counts() -> None:
    approvals = Approvals()
    approvals.note("s", [WRITE_A], True)
    approvals.note("s", [WRITE_A], False)
    assert approvals.recall("s", WRITE_A) is False


def resolve(path: str) -> str:
    return path if path.startswith("/") else f"/w/{path}"


def call(**members: Any) -> ToolCall:
    return ToolCall(tool_call_id="1", **members)


@pytest.mark.parametrize(
    ("picture", "found"),
    [
        (call(kind="edit", locations=[ToolCallLocation(path="a")]), [WRITE_A]),
        (call(kind="edit", content=[Diff(path="/w/a", new_text="x")]), [WRITE_A]),
        (call(kind="edit", raw_input={"file_path": "/w/a"}), [WRITE_A]),
        (call(kind="other", raw_input={"path": "/w/a", "text": "x"}), [WRITE_A]),
        (call(kind="edit", locations=[ToolCallLocation(path="/w/a")], raw_input={"path": "a"}), [WRITE_A]),
        (call(kind="read", locations=[ToolCallLocation(path="a")]), [Operation("read", "/w/a")]),
        (call(kind="execute", raw_input={"command": "ls -l"}), [LIST]),
        (call(kind="execute", raw_input={"command": ["ls", "-l"]}), [LIST]),
        (call(kind="execute", raw_input={"command": ["bash", "-lc", "ls -l"]}), [LIST]),
        (call(kind="execute", raw_input={"command": "ls", "args": ["-l"]}), [LIST]),
        (call(kind="execute", raw_input="ls -l"), []),
        (call(kind="read", raw_input={"command": "ls -l"}), [LIST]),
        (call(kind="edit", raw_input={"path": 7, "command": [1]}), []),
        (call(kind="think"), []),
    ],
)
def test_a_tool_call_tells_what_it_is_about_in_many_ways(picture: ToolCall, found: list[Operation]) -> None:
    assert operations(picture, resolve) == found


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["ls -l"], "ls -l"),
        (["ls", "-l"], "ls -l"),
        (["/bin/sh", "-c", "ls -l | wc"], "ls -l | wc"),
        (["/bin/sh -c 'ls -l | wc'"], "ls -l | wc"),
        (["ls -l | wc"], "ls -l | wc"),
        (["echo", "a;rm x"], "echo 'a;rm x'"),
        (["echo a;rm x"], "echo a;rm x"),
        (["echo 'unbalanced"], "echo 'unbalanced"),
        (["/bin/sh", "-c", "a", "b"], "/bin/sh -c a b"),
    ],
)
def test_commands_are_the_same_only_if_a_shell_would_do_the_same(words: list[str], line: str) -> None:
    assert command_line(words[0], words[1:]) == line
