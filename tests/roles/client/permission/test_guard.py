"""The guard over the wire: the same decision for permission requests and workspace uses, all of it audited."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, ProtocolError, Turn, WorkspaceUse, connect
from dragoman.config.grants import GrantsFile
from dragoman.config.paths import user_paths
from dragoman.config.policy_files import PolicyLoader
from dragoman.errors import Kind
from dragoman.policy.decide import Policy
from dragoman.policy.decision import ALLOW, DENY
from dragoman.policy.modes import MODES
from dragoman.policy.parse import parse_rule_file
from dragoman.policy.question import OPERATIONS
from dragoman.roles.client.permission.guard import Guard
from dragoman.roles.client.permission.questions import PermissionChoice, PermissionPrompt
from dragoman.schema.mcp import McpServer, NameValue
from dragoman.schema.permission import PermissionOption, RequestPermissionParams
from dragoman.schema.toolcall import ToolCallLocation, ToolCallUpdate
from dragoman.store.audit import AuditLog
from dragoman.testing import ScriptedPeer, connect_in_memory
from dragoman.transport.memory import memory_pair
from tests.roles.client.guarded_client import DIALECTS, guarded

YES, NO = PermissionChoice(ALLOW), PermissionChoice(DENY)

# How an agent asks for each operation, by its tool call.
CALLS: dict[str, dict[str, Any]] = {
    "file_read": {"kind": "read", "paths": ["a"]},
    "file_write": {"kind": "edit", "paths": ["a"]},
    "file_delete": {"kind": "delete", "paths": ["a"]},
    "terminal_execute": {"kind": "execute", "raw_input": {"command": "make"}},
    "network_access": {"kind": "fetch", "raw_input": {"url": "https://example.org"}},
    "mcp_tool": {"kind": "other", "name": "mcp__tracker__list"},
    "switch_mode": {"kind": "switch_mode"},
    "other": {"kind": "other"},
}
# The draft names six operations; whatever else is asked for is an MCP tool there.
SIX = OPERATIONS[:6]


def rules(text: str) -> Policy:
    """Return a policy from one file."""
    return Policy(files=(parse_rule_file(text, "policy.toml"),))


# --- modes --------------------------------------------------------------------------------------------------


@pytest.mark.item("003-14", "004-47")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("mode", MODES)
async def test_each_mode_means_for_each_operation_what_the_table_says(tmp_path: Path, mode: str, dialect: str) -> None:
    async with guarded(tmp_path, dialect, YES) as scene:
        assert scene.session.modes is not None
        assert [each.id for each in scene.session.modes.available_modes] == list(MODES)
        await scene.guard.switch_mode(scene.session, mode)
        assert await scene.do_one(do="mode") == mode
        for operation, call in CALLS.items():
            if dialect == "draft" and operation not in SIX:
                continue
            before = len(scene.user.asked)
            answer = await scene.do_one(do="ask", id=operation, title=operation, **call)
            asked = len(scene.user.asked) - before
            expected = MODES[mode].verdicts[operation].label
            seen = "ask" if asked else "allow" if answer.startswith("allow") else "deny"
            assert (operation, seen) == (operation, expected)
            if asked:
                assert [each.operation for each in scene.user.asked[-1].questions] == [operation]


@pytest.mark.item("003-14", "004-47")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("mode", "read", "write", "execute", "asked"),
    [
        ("default", "old", "written", "hi", 2),
        ("acceptEdits", "old", "written", "hi", 1),
        ("bypassPermissions", "old", "written", "hi", 0),
        ("dontAsk", "old", "permission_denied", "permission_denied", 0),
        ("plan", "old", "permission_denied", "permission_denied", 0),
        ("code", "old", "written", "hi", 1),
        ("architect", "old", "permission_denied", "permission_denied", 0),
        ("ask", "old", "permission_denied", "permission_denied", 0),
    ],
)
async def test_each_mode_holds_for_workspace_uses(
    tmp_path: Path, mode: str, read: str, write: str, execute: str, asked: int, dialect: str
) -> None:
    async with guarded(tmp_path, dialect, YES) as scene:
        (scene.folder / "a").write_text("old")
        await scene.guard.switch_mode(scene.session, mode)
        path = str(scene.folder / "a")
        answer = await scene.do(
            {"do": "read", "path": path},
            {"do": "write", "path": path, "text": "new"},
            {"do": "run", "command": "echo", "args": ["hi"]},
        )
        assert answer == [read, write, execute]
        assert len(scene.user.asked) == asked
        assert (scene.folder / "a").read_text() == ("new" if write == "written" else "old")


@pytest.mark.item("004-47")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_what_is_planned_is_done_when_the_user_says_so(tmp_path: Path, dialect: str) -> None:
    async with guarded(tmp_path, dialect, mode="plan") as scene:
        write = {"do": "write", "path": str(scene.folder / "a"), "text": "x"}
        assert await scene.do_one(**write) == "permission_denied"
        await scene.guard.switch_mode(scene.session, "code")
        assert scene.session.mode == "code"
        assert await scene.do_one(**write) == "written"
        changes = [(each["mode"], each["detail"]) for each in scene.entries() if each["what"] == "mode"]
        assert changes == [("code", {"before": "plan"})]


async def test_the_agents_own_mode_is_not_the_users(tmp_path: Path) -> None:
    async with guarded(tmp_path, "v1", NO) as scene:
        write = {"do": "write", "path": str(scene.folder / "a"), "text": "x"}
        await scene.session.set_mode("bypassPermissions")
        assert await scene.do_one(**write) == "permission_denied"
        assert len(scene.user.asked) == 1
        await scene.guard.switch_mode(scene.session, "bypassPermissions")
        await scene.session.set_mode("plan")
        assert await scene.do_one(**write) == "permission_denied"
        assert len(scene.user.asked) == 1


# --- asking, remembering, taking back ------------------------------------------------------------------------


@pytest.mark.item("004-35", "004-54")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_permission_is_asked_before_writing_and_reused_for_the_session(tmp_path: Path, dialect: str) -> None:
    async with guarded(tmp_path, dialect, PermissionChoice(ALLOW, "session")) as scene:
        path = str(scene.folder / "a")
        step = {"do": "ask", "kind": "edit", "title": "Edit a", "paths": [path], "reason": "it was asked for"}
        write = {"do": "write", "path": path, "text": "x"}
        assert (await scene.do(step, write))[1] == "written"
        assert (await scene.do(step, write, write))[1:] == ["written", "written"]
        assert len(scene.user.asked) == 1
        asked = scene.user.asked[0]
        assert asked.lines[0] == f"file write: {path}"
        assert asked.decision.reason == "mode default: ask file_write"
        if dialect == "draft":
            assert asked.reason == "it was asked for"
        other = {"do": "write", "path": str(scene.folder / "b"), "text": "x"}
        await scene.do(other)
        assert len(scene.user.asked) == 2


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_one_yes_covers_the_tool_call_and_the_one_use_that_it_is_about(tmp_path: Path, dialect: str) -> None:
    async with guarded(tmp_path, dialect, YES, NO) as scene:
        path = str(scene.folder / "a")
        step = {"do": "ask", "kind": "edit", "paths": [path]}
        write = {"do": "write", "path": path, "text": "x"}
        answer = await scene.do(step, write, write)
        assert answer == ["allow_once", "written", "permission_denied"]
        assert len(scene.user.asked) == 2


@pytest.mark.parametrize(
    ("shown", "written", "is_covered"),
    [
        ({"old_text": "one\ntwo\n", "new_text": "one\n2\n"}, "one\n2\n", True),
        ({"old_text": "one\ntwo", "new_text": "one\n2"}, "one\n2\n", True),
        ({"old_text": "two", "new_text": "2"}, "one\n2\n", True),
        ({"new_text": "one\n2\n"}, "one\n2\n", True),
        ({"old_text": "o", "new_text": "0"}, "0ne\ntwo\n", True),
        ({"old_text": "o", "new_text": "0"}, "0ne\ntw0\n", True),
        ({"old_text": "one\ntwo\n", "new_text": "one\n2\n"}, "one\n2\nevil\n", False),
        ({"old_text": "two", "new_text": "2"}, "2", False),
        ({"old_text": "three", "new_text": "3"}, "one\ntwo\n", False),
        ({"new_text": "one\n"}, "evil\n", False),
    ],
)
async def test_one_yes_covers_only_the_text_that_the_tool_call_showed(
    tmp_path: Path, shown: dict[str, str], written: str, is_covered: bool
) -> None:
    async with guarded(tmp_path, "v1", YES, NO) as scene:
        file = scene.folder / "a"
        file.write_text("one\ntwo\n")
        step = {"do": "ask", "kind": "edit", "paths": [str(file)], "diffs": [{"path": str(file), **shown}]}
        answer = await scene.do(step, {"do": "write", "path": str(file), "text": written})
        assert answer == ["allow_once", "written" if is_covered else "permission_denied"]
        assert len(scene.user.asked) == (1 if is_covered else 2)
        assert file.read_text() == (written if is_covered else "one\ntwo\n")


async def test_a_change_that_would_fill_the_memory_at_every_place_is_not_covered(tmp_path: Path) -> None:
    async with guarded(tmp_path, "v1", YES, NO) as scene:
        file = scene.folder / "a"
        file.write_text("x" * 500_000)
        diff = {"path": str(file), "old_text": "x", "new_text": "y" * 1_000_000}  # 500 GB
        step = {"do": "ask", "kind": "edit", "paths": [str(file)], "diffs": [diff]}
        assert (await scene.do(step, {"do": "write", "path": str(file), "text": "z"}))[1] == "permission_denied"
        assert len(scene.user.asked) == 2


async def test_one_yes_covers_no_file_whose_change_was_not_shown(tmp_path: Path) -> None:
    async with guarded(tmp_path, "v1", YES, NO) as scene:
        shown, other = str(scene.folder / "a"), str(scene.folder / "b")
        step = {"do": "ask", "kind": "edit", "paths": [shown, other], "diffs": [{"path": shown, "new_text": "x"}]}
        assert (await scene.do(step, {"do": "write", "path": other, "text": "x"}))[1] == "permission_denied"
        assert len(scene.user.asked) == 2


async def test_a_no_to_the_tool_call_is_a_no_to_its_use(tmp_path: Path) -> None:
    async with guarded(tmp_path, "v1", NO) as scene:
        command = {"command": "echo", "args": ["hi"]}
        step = {"do": "ask", "kind": "execute", "raw_input": {"command": "sh -c 'echo hi'"}}
        assert await scene.do(step, {"do": "run", **command}) == ["reject_once", "permission_denied"]
        assert len(scene.user.asked) == 1


async def test_an_answer_does_not_reach_into_the_next_turn(tmp_path: Path) -> None:
    async with guarded(tmp_path, "v1", YES, NO) as scene:
        path = str(scene.folder / "a")
        await scene.do({"do": "ask", "kind": "edit", "paths": [path]})
        assert await scene.do_one(do="write", path=path, text="x") == "permission_denied"


async def test_an_answer_ends_with_its_turn_though_no_other_begins(tmp_path: Path) -> None:
    """An agent that continues after its turn has to ask again."""

    async with guarded(tmp_path, "v1", YES, NO) as scene:
        path = str(scene.folder / "a")
        await scene.do({"do": "ask", "kind": "edit", "paths": [path]})
        use = WorkspaceUse(operation="write", resource=path, session_id=scene.session.id, requested_path=path)
        assert await scene.guard.approve(use) is False
        assert len(scene.user.asked) == 2


@pytest.mark.item("004-04")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_permission_is_granted_denied_and_revoked_during_a_session(tmp_path: Path, dialect: str) -> None:
    async with guarded(tmp_path, dialect, PermissionChoice(ALLOW, "always"), NO) as scene:
        write = {"do": "write", "path": str(scene.folder / "a"), "text": "x"}
        assert await scene.do_one(**write) == "written"
        assert await scene.do_one(**write) == "written"
        assert len(scene.user.asked) == 1
        elsewhere = GrantsFile(str(tmp_path / "grants.json"))
        (grant,) = elsewhere.current()
        assert (grant.scope, grant.agent, grant.resource) == ("always", "doer", str(scene.folder / "a"))
        elsewhere.revoke([grant.id])
        assert await scene.do_one(**write) == "permission_denied"
        assert len(scene.user.asked) == 2


@pytest.mark.item("004-04")
async def test_files_and_terminals_that_are_not_offered_cannot_be_used(tmp_path: Path) -> None:
    guard = Guard(mode="bypassPermissions")
    ours, theirs = memory_pair()
    peer = ScriptedPeer(theirs)

    async def agent() -> dict[str, Any]:
        asked = await peer.expect(method="initialize")
        assert asked["params"]["clientCapabilities"]["fs"] == {"readTextFile": False, "writeTextFile": False}
        peer.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"protocolVersion": 1}})
        params = {"sessionId": "s", "path": str(tmp_path / "a"), "content": "x"}
        return await peer.request(7, "fs/write_text_file", params)

    playing = asyncio.create_task(agent())
    async with connect(
        ours,
        dialect="v1",
        permission=guard.request_permission,
        workspace=guard.workspace_access(files=False, terminals=False),
    ):
        assert "error" in await playing
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("scope", "asks_in"), [("session", ["session", "run", "folder"]), ("workspace", ["folder"]), ("always", [])]
)
async def test_each_scope_covers_what_it_should(tmp_path: Path, scope: str, asks_in: list[str]) -> None:
    """The user is asked again in another session, in another run of the client, and in another folder."""
    make = {"do": "ask", "kind": "execute", "raw_input": {"command": "make"}}
    once_more = json.dumps([make])

    asked = []
    async with guarded(tmp_path, "v1", PermissionChoice(ALLOW, scope), NO) as scene:
        await scene.do(make, make)
        assert len(scene.user.asked) == 1
        await (await scene.agent.open_session(str(scene.folder))).ask(once_more)
        if len(scene.user.asked) > 1:
            asked.append("session")
    async with guarded(tmp_path, "v1", NO) as scene:
        await scene.do(make)
        if scene.user.asked:
            asked.append("run")
    async with guarded(tmp_path, "v1", NO) as scene:
        (tmp_path / "v").mkdir()
        await (await scene.agent.open_session(str(tmp_path / "v"))).ask(once_more)
        if scene.user.asked:
            asked.append("folder")
    assert asked == asks_in


async def test_remembered_answers_expire(tmp_path: Path) -> None:
    clock = [100.0]
    answers = (PermissionChoice(ALLOW, "always", lifetime=60.0), NO)
    async with guarded(tmp_path, "v1", *answers, clock=lambda: clock[0]) as scene:
        write = {"do": "write", "path": str(scene.folder / "a"), "text": "x"}
        assert await scene.do_one(**write) == "written"
        clock[0] = 159.0
        assert await scene.do_one(**write) == "written"
        clock[0] = 161.0
        assert await scene.do_one(**write) == "permission_denied"


@pytest.mark.parametrize(
    ("offered", "choice", "expected"),
    [
        (["allow_once", "reject_once"], PermissionChoice(ALLOW, "session"), "allow_once"),
        (["allow_once", "allow_always"], PermissionChoice(ALLOW, "always"), "allow_always"),
        (["allow_always", "reject_once"], PermissionChoice(ALLOW), "cancelled"),
        (["allow_once", "allow_always"], PermissionChoice(DENY), "cancelled"),
        (["allow_once", "reject_always"], PermissionChoice(option_id="reject_always"), "reject_always"),
        (["allow_once", "reject_once"], PermissionChoice(option_id="nosuch"), "reject_once"),
        (["allow_once", "reject_once"], None, "cancelled"),
    ],
)
async def test_the_answer_is_one_of_the_options_that_were_offered(
    tmp_path: Path, offered: list[str], choice: PermissionChoice | None, expected: str
) -> None:
    async with guarded(tmp_path, "v1", choice) as scene:
        options = [{"option_id": kind, "name": kind, "kind": kind} for kind in offered]
        assert await scene.do_one(do="ask", kind="execute", options=options) == expected


async def test_an_option_of_the_agents_that_lasts_is_remembered_for_this_project(tmp_path: Path) -> None:
    async with guarded(tmp_path, "v1", PermissionChoice(option_id="allow_always")) as scene:
        step = {"do": "ask", "kind": "execute", "raw_input": {"command": "make"}}
        assert await scene.do_one(**step) == "allow_always"
        (grant,) = GrantsFile(str(tmp_path / "grants.json")).current()
        assert (grant.scope, grant.workspace) == ("workspace", str(scene.folder))
        await scene.do_one(**step)
        assert len(scene.user.asked) == 1


# --- nobody answers -----------------------------------------------------------------------------------------


async def test_a_question_that_nobody_answers_is_a_no(tmp_path: Path) -> None:

    async def silent(_: PermissionPrompt) -> PermissionChoice | None:
        await asyncio.Event().wait()
        return YES

    async with guarded(tmp_path, "v1", answer_timeout=0.01) as scene:
        scene.guard._ask_user = silent
        step = {"do": "ask", "kind": "execute", "raw_input": {"command": "make"}}
        assert await scene.do_one(**step) == "reject_once"
        assert await scene.do_one(do="run", command="make") == "permission_denied"
        decided = [each for each in scene.entries() if each["what"] == "decided"]
        assert {each["reason"] for each in decided} == {"nobody answered within 0.01 seconds"}


async def test_without_anybody_to_ask_the_answer_is_no(tmp_path: Path) -> None:
    async with guarded(tmp_path, "v1", nobody=True) as scene:
        assert await scene.do_one(do="run", command="make") == "permission_denied"
        assert await scene.do_one(do="ask", kind="execute") == "reject_once"


@pytest.mark.parametrize("step", [{"do": "ask", "kind": "execute"}, {"do": "run", "command": "make"}])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_cancelling_a_turn_closes_its_questions(tmp_path: Path, step: dict[str, Any], dialect: str) -> None:
    async with guarded(tmp_path, dialect) as scene:
        asked = asyncio.Event()

        async def waiting(_: PermissionPrompt) -> PermissionChoice | None:
            asked.set()
            await asyncio.Event().wait()
            return YES

        scene.guard._ask_user = waiting
        async with scene.session.prompt(json.dumps([step])) as turn:
            await asked.wait()
            turn.cancel()
            await turn.wait()
        assert turn.stop_reason == "cancelled"
    decided = [each["decision"] for each in scene.entries() if each["what"] == "decided"]
    assert decided == ["cancelled"]


async def test_two_questions_about_one_thing_are_one_question(tmp_path: Path) -> None:
    async with guarded(tmp_path, "v1") as scene:
        asking, release = asyncio.Event(), asyncio.Event()
        seen: list[PermissionPrompt] = []

        async def slow(asked: PermissionPrompt) -> PermissionChoice | None:
            seen.append(asked)
            asking.set()
            await release.wait()
            return PermissionChoice(ALLOW, "session")

        scene.guard._ask_user = slow
        use = WorkspaceUse(operation="execute", resource="make", session_id=scene.session.id)
        both = [asyncio.create_task(scene.guard.approve(use)) for _ in range(2)]
        await asking.wait()
        release.set()
        assert await asyncio.gather(*both) == [True, True]
        assert len(seen) == 1


# --- rules, files and boundaries ------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_rules_decide_without_asking(tmp_path: Path, dialect: str) -> None:
    policy = rules(
        '[[rule]]\ndecision = "deny"\npath = "**/.env"\n'
        '[[rule]]\ndecision = "allow"\noperation = "file_write"\npath = "src/**"\n'
        '[[rule]]\ndecision = "allow"\ncommand = ["echo"]\n'
    )

    async with guarded(tmp_path, dialect, NO, policy=policy) as scene:
        (scene.folder / "src").mkdir()
        (scene.folder / ".env").write_text("x")
        (scene.folder / "link").symlink_to(".env")
        src = str(scene.folder / "src" / "a")
        answer = await scene.do(
            {"do": "write", "path": src, "text": "x"},
            {"do": "read", "path": str(scene.folder / ".env")},
            {"do": "read", "path": str(scene.folder / "link")},
            {"do": "run", "command": "echo", "args": ["hi; rm x"]},
        )
        assert answer == ["written", "permission_denied", "permission_denied", "hi; rm x"]
        assert scene.user.asked == []
        assert await scene.do_one(do="run", command="echo hi; touch x") == "permission_denied"
        assert len(scene.user.asked) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_permission_for_a_command_does_not_cover_a_program_that_is_named_like_a_shell(
    tmp_path: Path, dialect: str
) -> None:
    policy = rules('[[rule]]\ndecision = "allow"\ncommand = ["echo"]\n')
    always = PermissionChoice(ALLOW, "always")
    async with guarded(tmp_path, dialect, NO, always, NO, policy=policy) as scene:
        (scene.folder / "bash").write_text("#!/bin/sh\ntouch started\n")
        (scene.folder / "bash").chmod(0o755)
        run = {"do": "run", "command": "./bash", "args": ["-c", "echo hi"]}
        assert await scene.do_one(**run) == "permission_denied"
        assert not (scene.folder / "started").exists()
        assert scene.user.asked[0].lines[0] == "terminal execute: ./bash -c 'echo hi'"
        step = {"do": "ask", "kind": "execute", "raw_input": {"command": "./bash -c 'make'"}}
        assert await scene.do_one(**step) == "allow_always"
        assert scene.user.asked[1].lines[0] == "terminal execute: ./bash -c make"
        # The answer is for the program that was shown.
        assert await scene.do_one(do="run", command="make") == "permission_denied"
        assert await scene.do_one(**run | {"command": "bash"}) == "hi"
        assert len(scene.user.asked) == 3


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_rule_about_a_shell_applies_to_its_lines_and_the_question_shows_the_line_alone(
    tmp_path: Path, dialect: str
) -> None:
    policy = rules('[[rule]]\ndecision = "deny"\ncommand = ["bash"]\n[[rule]]\ndecision = "ask"\ncommand = ["sh"]\n')
    async with guarded(tmp_path, dialect, YES, policy=policy, mode="bypassPermissions") as scene:
        run = {"do": "run", "args": ["-c", "echo hi"]}
        step = {"do": "ask", "kind": "execute", "raw_input": {"command": "bash -c 'echo hi'"}}
        assert await scene.do(run | {"command": "bash"}, step) == ["permission_denied", "reject_once"]
        await scene.guard.switch_mode(scene.session, "default")
        assert await scene.do_one(**run, command="sh") == "hi"
        (asked,) = scene.user.asked
        assert asked.lines == ["terminal execute: echo hi", "asked by rule 2 of policy.toml, line 4"]
        assert {entry["resource"] for entry in scene.entries() if entry["what"] == "decided"} == {"echo hi"}


async def test_a_rule_about_a_shell_does_not_apply_to_lines_for_which_we_start_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "w").mkdir()
    monkeypatch.chdir(tmp_path / "w")  # the only folder of a 2025.1 agent
    policy = rules('[[rule]]\ndecision = "deny"\ncommand = ["sh"]\n')
    async with guarded(tmp_path, "2025.1", policy=policy, mode="bypassPermissions") as scene:
        line = {"do": "run", "command": "sh", "args": ["-c", "echo hi | cat"]}  # sent as the line alone
        shell = {"do": "run", "command": "/bin/sh", "args": ["-c", "echo hi", "name"]}
        assert await scene.do(line, shell) == ["hi", "permission_denied"]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_permission_for_a_command_does_not_cover_its_pager(tmp_path: Path, dialect: str) -> None:
    policy = rules('[[rule]]\ndecision = "allow"\ncommand = ["env"]\n')

    async with guarded(tmp_path, dialect, NO, policy=policy) as scene:
        ran = {"do": "run", "command": "env", "interactive": dialect == "draft"}
        assert "GIT_PAGER=cat" in await scene.do(ran | {"env": {"GIT_PAGER": "cat", "TERM": "dumb"}})
        assert scene.user.asked == []
        assert await scene.do(ran | {"env": {"GIT_PAGER": "touch pwned"}}) == ["permission_denied"]
        (asked,) = scene.user.asked
        assert asked.questions[0].env == ("GIT_PAGER",)
        assert asked.lines[:2] == ["terminal execute: env", "with GIT_PAGER=touch pwned"]
        assert any("real terminal" in line for line in asked.lines) is (dialect == "draft")
        assert [each["detail"].get("interactive") for each in scene.entries() if each["what"] == "asked"] == [
            True if dialect == "draft" else None
        ]


async def test_protected_files_are_never_written_through_file_calls(tmp_path: Path) -> None:
    found = user_paths({"HOME": str(tmp_path)})
    options: dict[str, Any] = {
        "policy": PolicyLoader(found),
        "protected": found.protected_paths,
        "mode": "bypassPermissions",
    }
    async with guarded(tmp_path, "v1", **options) as scene:
        (scene.folder / ".dragoman").mkdir()
        (scene.folder / "innocent").symlink_to(".dragoman")
        for path in (".dragoman/policy.toml", "innocent/policy.toml"):
            full = str(scene.folder / path)
            assert await scene.do_one(do="write", path=full, text="x") in ("permission_denied", "access_denied")
            assert await scene.do_one(do="ask", kind="edit", paths=[full]) == "reject_once"
        for file in (found.policy, found.grants, found.trust, found.audit):
            assert await scene.do_one(do="ask", kind="edit", paths=[file]) == "reject_once"
        assert os.listdir(scene.folder / ".dragoman") == []


async def test_policy_adds_and_removes_folders_during_a_session(tmp_path: Path) -> None:
    found = user_paths({"HOME": str(tmp_path)})
    os.makedirs(found.config)
    notes = tmp_path / "notes"
    (notes / ".dragoman").mkdir(parents=True)
    (notes / "a").write_text("note")
    options: dict[str, Any] = {"policy": PolicyLoader(found), "protected": found.protected_paths}
    async with guarded(tmp_path, "v1", NO, **options) as scene:
        assert await scene.do_one(do="read", path=str(notes / "a")) == Kind.ACCESS_DENIED
        Path(found.policy).write_text('mode = "acceptEdits"\nroots = ["~/notes"]')
        assert await scene.do_one(do="read", path=str(notes / "a")) == "note"
        assert await scene.do_one(do="write", path=str(notes / "b"), text="x") == "written"
        assert await scene.do_one(do="write", path=str(notes / ".dragoman/policy.toml"), text="x") == (
            Kind.PERMISSION_DENIED
        )
        assert await scene.do_one(do="read", path=str(tmp_path / "notes/../secret")) == Kind.ACCESS_DENIED
        Path(found.policy).write_text("")
        assert await scene.do_one(do="read", path=str(notes / "a")) == Kind.ACCESS_DENIED
        assert scene.user.asked == []


async def test_a_protected_path_is_not_written_even_if_approved(tmp_path: Path) -> None:
    options: dict[str, Any] = {"protected": lambda roots: [f"{roots[0]}/ours"], "mode": "bypassPermissions"}
    async with guarded(tmp_path, "v1", **options) as scene:
        path = str(scene.folder / "ours")
        assert await scene.do_one(do="write", path=path, text="x") == Kind.ACCESS_DENIED


async def test_a_folder_that_is_reached_by_a_link_is_still_the_sessions_own(tmp_path: Path) -> None:
    async with guarded(tmp_path, "v1", NO) as scene:
        (tmp_path / "link").symlink_to(scene.folder)
        (scene.folder / "a").write_text("hello")
        (scene.folder / "out").symlink_to("/etc")
        session = await scene.agent.open_session(str(tmp_path / "link"))
        path = str(tmp_path / "link" / "a")
        steps = [{"do": "read", "path": path}, {"do": "ask", "kind": "read", "paths": [path, "a"]}]
        assert (await session.ask(json.dumps(steps))).split() == ["hello", "allow_once"]
        assert scene.user.asked == []
        outside = {"do": "ask", "kind": "read", "paths": ["out/passwd"]}
        await session.ask(json.dumps([outside]))
        assert [each.resource for each in scene.user.asked[0].questions] == ["/etc/passwd"]


async def test_text_of_the_agent_is_quoted(tmp_path: Path) -> None:
    async with guarded(tmp_path, "v1", NO) as scene:
        await scene.do_one(do="ask", kind="edit", title="/w/harmless")
        assert scene.user.asked[0].lines[0] == 'file write: "/w/harmless"'


async def test_a_session_that_nobody_knows_is_asked_about(tmp_path: Path) -> None:
    async with guarded(tmp_path, "v1", YES) as scene:
        call = ToolCallUpdate(tool_call_id="c", kind="read", locations=[ToolCallLocation(path="/etc/passwd")])
        options = [PermissionOption(option_id="y", name="Yes", kind="allow_once")]
        params = RequestPermissionParams(session_id="of-a-subagent", tool_call=call, options=options)
        assert await scene.guard.request_permission(params) == "y"
        assert scene.user.asked[0].questions[0].roots == ()


async def test_a_damaged_file_of_grants_denies(tmp_path: Path) -> None:
    async with guarded(tmp_path, "v1") as scene:
        (tmp_path / "grants.json").write_text("{")
        assert await scene.do_one(do="ask", kind="execute") == "reject_once"
        (tmp_path / "grants.json").unlink()


@pytest.mark.parametrize("mode", ["bypassPermissions", "default"])
@pytest.mark.parametrize("fault", ["no file", "no log"])
async def test_what_cannot_be_audited_is_denied(tmp_path: Path, mode: str, fault: str) -> None:
    async with guarded(tmp_path, "v1", YES, mode=mode) as scene:
        if fault == "no file":
            os.mkdir(tmp_path / "audit.jsonl")
        else:
            (tmp_path / "audit.jsonl").write_text("something else\n")
        write = {"do": "write", "path": str(scene.folder / "a"), "text": "x"}
        assert await scene.do_one(**write) == "permission_denied"
        assert await scene.do_one(do="ask", kind="execute") == "reject_once"
        assert not (scene.folder / "a").exists()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_answer_for_a_command_in_one_folder_does_not_cover_another(tmp_path: Path, dialect: str) -> None:
    async with guarded(tmp_path, dialect, PermissionChoice(ALLOW, "workspace"), NO) as scene:
        for folder, word in ((scene.folder, "good"), (scene.folder / "sub", "EVIL")):
            folder.mkdir(exist_ok=True)
            (folder / "run.sh").write_text(f"#!/bin/sh\necho {word}\n")
            (folder / "run.sh").chmod(0o755)
        (scene.folder / "link").symlink_to("sub")
        ran = {"do": "run", "command": "./run.sh"}
        assert await scene.do(ran, ran | {"cwd": str(scene.folder)}) == ["good", "good"]
        assert len(scene.user.asked) == 1
        assert not any("folder" in line for line in scene.user.asked[0].lines)
        for name in ("sub", "link"):
            assert await scene.do(ran | {"cwd": str(scene.folder / name)}) == ["permission_denied"]
            asked = scene.user.asked[-1]
            assert asked.lines[:2] == ["terminal execute: ./run.sh", f"in the folder {scene.folder}/sub"]
        assert len(scene.user.asked) == 3
        entries = [each["detail"].get("cwd") for each in scene.entries() if each["what"] == "decided"]
        assert entries == [None, None, f"{scene.folder}/sub", f"{scene.folder}/sub"]


async def test_an_answer_to_a_tool_call_covers_the_command_in_the_folder_that_the_call_named(tmp_path: Path) -> None:
    async with guarded(tmp_path, "v1", YES, NO) as scene:
        (scene.folder / "sub").mkdir()
        ask = {"do": "ask", "kind": "execute", "raw_input": {"command": "pwd", "cwd": "sub"}}
        use = {"do": "run", "command": "pwd", "cwd": str(scene.folder / "sub")}
        assert await scene.do(ask, use) == ["allow_once", str(scene.folder / "sub")]
        assert len(scene.user.asked) == 1
        assert await scene.do(ask, {"do": "run", "command": "pwd"}) == ["reject_once", "permission_denied"]


async def test_a_command_does_not_start_in_a_folder_that_was_changed_while_the_user_was_asked(tmp_path: Path) -> None:
    async with guarded(tmp_path, "v1", YES) as scene:
        (scene.folder / "sub").mkdir()
        (scene.folder / "other").mkdir()

        def swap(asked: PermissionPrompt) -> PermissionChoice:
            assert asked.questions[0].cwd == str(scene.folder / "sub")
            (scene.folder / "sub").rmdir()
            (scene.folder / "sub").symlink_to("other")
            return YES

        scene.guard._ask_user = swap
        assert await scene.do_one(do="run", command="pwd", cwd=str(scene.folder / "sub")) == "permission_denied"


async def test_a_question_shows_the_file_that_is_written_unless_reading_it_is_denied(tmp_path: Path) -> None:
    policy = rules('[[rule]]\ndecision = "deny"\noperation = "file_read"\npath = "secret"\n')
    async with guarded(tmp_path, "v1", YES, YES, policy=policy) as scene:
        for name in ("plain", "secret"):
            (scene.folder / name).write_text("before")
            assert await scene.do_one(do="write", path=str(scene.folder / name), text="after") == "written"
        assert [(asked.current_text, asked.new_text) for asked in scene.user.asked] == [
            ("before", "after"),
            (None, "after"),
        ]


async def test_a_folder_outside_is_rejected_without_asking(tmp_path: Path) -> None:
    async with guarded(tmp_path, "v1", YES) as scene:
        assert await scene.do_one(do="run", command="pwd", cwd="/etc") == "access_denied"
        assert scene.user.asked == []


async def test_a_server_with_the_name_of_an_allowed_one_is_not_allowed(tmp_path: Path) -> None:
    policy = rules('[[rule]]\ndecision = "allow"\nserver = "docs"\ncommand = "docs-server"\nenv = "DOCS_TOKEN"\n')
    token, preload = NameValue(name="DOCS_TOKEN", value="t0ken-t0ken"), NameValue(name="LD_PRELOAD", value="/x.so")
    servers = [
        McpServer(name="docs", command="docs-server", args=[], env=[token]),
        McpServer(name="docs", command="/bin/sh", args=["-c", "evil"], env=[]),
        McpServer(name="docs", command="docs-server", args=[], env=[token, preload]),
        McpServer(name="docs", type="http", url="file:///etc/passwd", headers=[]),
        McpServer(name="docs", type="http", url="https://evil", command="docs-server", headers=[]),
    ]
    async with guarded(tmp_path, "v1", NO, policy=policy) as scene:
        assert await scene.guard.allowed_servers(servers, str(scene.folder)) == servers[:1]
        assert [asked.lines[0] for asked in scene.user.asked] == [
            "mcp start: docs: /bin/sh -c evil",
            "mcp start: docs: docs-server",
            "mcp start: docs: file:///etc/passwd",
            "mcp start: docs: docs-server https://evil",
        ]
        assert scene.user.asked[1].lines[1:3] == ["with DOCS_TOKEN=[redacted]", "with LD_PRELOAD=/x.so"]


async def test_only_servers_that_the_user_agrees_to_are_started(tmp_path: Path) -> None:
    policy = rules('[[rule]]\ndecision = "allow"\noperation = "mcp_start"\nserver = "docs"\n')
    servers = [
        McpServer(name="docs", command="docs-server", args=["--x"], env=[]),
        McpServer(name="tracker", type="http", url="https://tracker", headers=[]),
    ]
    async with guarded(tmp_path, "v1", NO, policy=policy) as scene:
        allowed = await scene.guard.allowed_servers(servers, str(scene.folder))
        assert [server.name for server in allowed] == ["docs"]
        assert [each.questions[0].server for each in scene.user.asked] == ["tracker"]


# --- audit --------------------------------------------------------------------------------------------------


@pytest.mark.item("004-53")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_four_layers_of_safety(tmp_path: Path, dialect: str) -> None:
    """Only what is offered can be used; each use needs permission; permission has a scope; all of it is audited."""

    async with guarded(tmp_path, dialect, PermissionChoice(ALLOW, "session"), NO) as scene:
        path = str(scene.folder / "a")
        assert await scene.do_one(do="write", path="/etc/dragoman-was-here", text="x") != "written"
        answer = await scene.do(
            {"do": "write", "path": path, "text": "content of the file"},
            {"do": "write", "path": path, "text": "content of the file"},
            {"do": "read", "path": path},
            {"do": "run", "command": "make"},
        )
        assert answer == ["written", "written", "content of the file", "permission_denied"]
        entries = [(each["what"], each.get("operation"), each.get("decision")) for each in scene.entries()]
        assert entries[-11:] == [
            ("asked", "file_write", "ask"),
            ("granted", "file_write", "allow"),
            ("decided", "file_write", "allow"),
            ("done", "fs/write_text_file", "done"),
            ("decided", "file_write", "allow"),
            ("done", "fs/write_text_file", "done"),
            ("decided", "file_read", "allow"),
            ("done", "fs/read_text_file", "done"),
            ("asked", "terminal_execute", "ask"),
            ("decided", "terminal_execute", "deny"),
            ("done", "terminal/create", "failed"),
        ]
        assert ("done", "fs/write_text_file", "failed") in entries
        decided = next(each for each in scene.entries() if each["what"] == "decided")
        assert decided["who"] == "doer"
        assert decided["session"] == scene.session.id
        assert decided["workspace"] == str(scene.folder)
        assert decided["reason"] == "the user said allow (session)"
        assert decided["time"].endswith("Z")
        assert "content of the file" not in Path(scene.audit.path).read_text()


@pytest.mark.parametrize(
    "answer", [PermissionChoice(ALLOW, user="ann"), PermissionChoice(option_id="nosuch", user="ann")]
)
async def test_the_audit_names_the_member_of_a_host_who_decided(tmp_path: Path, answer: PermissionChoice) -> None:
    async with guarded(tmp_path, "v1", answer) as scene:
        await scene.do_one(do="ask", kind="edit", paths=[str(scene.folder / "a")])
        (decided,) = [each for each in scene.entries() if each["what"] == "decided"]
    assert decided["detail"]["user"] == "ann"


async def test_secrets_reach_neither_audit_nor_grants(tmp_path: Path) -> None:
    """Put markers into commands, environment, headers, titles and reasons; then search everything that was written."""
    canaries = ["canary-known-0123456789", "canary-header-0123456789", "canary-bearer-0123456789", "sk-" + "canary" * 5]

    servers = [
        McpServer(name="t", type="http", url="https://t/?k=1", headers=[NameValue(name="X", value=canaries[1])]),
        McpServer(name="c", command="c", args=["--token", canaries[1]], env=[]),
    ]
    async with guarded(tmp_path, "v1", PermissionChoice(ALLOW, "always"), secrets=canaries[:1]) as scene:
        await scene.guard.allowed_servers(servers, str(scene.folder))
        for line in (
            f"curl -H 'Authorization: Bearer {canaries[2]}' x",
            f"login {canaries[0]}",
            f"use {canaries[1]}",
            f"OPENAI={canaries[3]} x",
        ):
            await scene.do_one(do="ask", kind="execute", title=line, reason=line, raw_input={"command": line})
            await scene.do({"do": "run", "command": line})
        path = str(scene.folder / canaries[0])
        await scene.do_one(do="write", path=path, text="x")
        assert len(scene.entries()) > 10
    kept = "".join(file.read_text() for file in tmp_path.glob("*.json*"))
    assert [canary for canary in canaries if canary in kept] == []
    assert "[redacted]" in kept


async def test_credentials_reach_neither_audit_nor_grants(tmp_path: Path) -> None:
    """An agent repeats the token it was given wherever it can."""
    token = "canary-credential-5e1f"

    async with guarded(tmp_path, "v1", PermissionChoice(ALLOW, "always")) as scene:
        scene.guard.add_secrets([token])
        path = str(scene.folder / token)
        answer = await scene.do(
            {"do": "ask", "kind": "edit", "title": token, "paths": [path]},
            {"do": "read", "path": path},
            {"do": "write", "path": f"/nowhere/{token}", "text": "x"},
            {"do": "run", "command": f"false {token}"},
        )
        assert len(answer) == 4
    kept = "".join(file.read_text() for file in tmp_path.glob("*.json*"))
    assert token not in kept
    assert kept.count("[redacted]") > 3


@pytest.mark.parametrize("dialect", ["v1", "draft", "2025.1"])
async def test_credentials_given_to_an_agent_are_redacted_automatically(tmp_path: Path, dialect: str) -> None:
    """Check every value in authenticate, even if its name and form do not suggest a secret."""
    secret = "canary credential 91c4"

    agent = Agent("leaky", dialect=dialect, auth_required=True)
    given: list[Any] = []

    @agent.authenticate("token")
    def check(credentials: dict[str, str]) -> None:
        given.append(credentials)

    @agent.prompt
    async def answer(turn: Turn) -> None:
        with suppress(ProtocolError):
            await turn.files.read(f"{turn.session.cwd}/{secret}")
        with suppress(ProtocolError):
            await turn.terminals.run("sh", ["-c", f"true {secret}"])

    audit = AuditLog(str(tmp_path / "audit.jsonl"), durable=False)
    guard = Guard(audit=audit, mode="bypassPermissions")
    options: dict[str, Any] = {"dialect": dialect, "cwd": str(tmp_path), "workspace": guard.workspace_access()}
    async with connect_in_memory(agent, permission=guard.request_permission, **options) as remote:
        guard.set_agent(remote)
        await remote.authenticate("token", {"token": secret, "refresh": f"{secret}-2"})
        await (await remote.open_session(str(tmp_path))).ask("go")
    await guard.close()
    assert given
    kept = Path(audit.path).read_text()
    assert "canary" not in kept
    assert kept.count("[redacted]") > 3
    assert guard.redaction.redact_text(f"invalid token {secret}") == "invalid token [redacted]"


async def test_a_command_with_a_secret_is_remembered_but_not_stored(tmp_path: Path) -> None:
    async with guarded(tmp_path, "v1", PermissionChoice(ALLOW, "always"), secrets=["canary-0123456789"]) as scene:
        step = {"do": "ask", "kind": "execute", "raw_input": {"command": "login canary-0123456789"}}
        await scene.do_one(**step)
        await scene.do_one(**step)
        assert len(scene.user.asked) == 1
        assert GrantsFile(str(tmp_path / "grants.json")).current() == ()


# --- the draft on the wire ------------------------------------------------------------------------------------


@pytest.mark.item("004-22")
@pytest.mark.parametrize("operation", SIX)
@pytest.mark.parametrize(
    ("choice", "answer"),
    [
        (PermissionChoice(ALLOW, "once"), {"granted": True, "scope": "once"}),
        (PermissionChoice(ALLOW, "session"), {"granted": True, "remember": True, "scope": "session"}),
        (PermissionChoice(ALLOW, "workspace"), {"granted": True, "remember": True, "scope": "workspace"}),
        (PermissionChoice(ALLOW, "always"), {"granted": True, "remember": True, "scope": "always"}),
        (PermissionChoice(DENY), {"granted": False}),
    ],
)
async def test_a_draft_question_names_an_operation_and_its_answer_a_scope(
    tmp_path: Path, operation: str, choice: PermissionChoice, answer: dict[str, Any]
) -> None:
    seen: list[PermissionPrompt] = []

    def ask(asked: PermissionPrompt) -> PermissionChoice:
        seen.append(asked)
        return choice

    policy = rules('[[rule]]\ndecision = "ask"\n')  # reading too
    audit = AuditLog(str(tmp_path / "audit"), durable=False)
    guard = Guard(policy, grants=GrantsFile(str(tmp_path / "grants.json")), audit=audit, ask=ask)
    ours, theirs = memory_pair()
    peer = ScriptedPeer(theirs)
    resource = "src/a" if operation.startswith("file") else "something"

    async def agent() -> list[dict[str, Any]]:
        for result in (
            {"protocolVersion": 1, "agentInfo": {"name": "a", "version": "1"}, "capabilities": {}},
            {"sessionId": "s", "createdAt": "2026-01-01T00:00:00Z"},
        ):
            asked = await peer.receive()
            peer.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})
        await opened.wait()
        params = {"sessionId": "s", "operation": operation, "resource": resource, "reason": "because"}
        return [await peer.request(number, "session/request_permission", params) for number in (1, 2)]

    opened = asyncio.Event()
    playing = asyncio.create_task(agent())
    async with connect(
        ours, dialect="draft", permission=guard.request_permission, workspace=guard.workspace_access()
    ) as remote:
        guard.set_agent(remote)
        await remote.open_session(str(tmp_path))
        opened.set()
        first, second = await playing
    assert first["result"] == answer
    (question,) = seen[0].questions
    assert question.operation == operation
    assert seen[0].reason == "because"
    is_remembered = answer.get("remember", False)
    assert len(seen) == (1 if is_remembered else 2)
    assert second["result"]["granted"] is answer["granted"]
    assert audit.verify().faults == []


async def test_a_refused_use_tells_the_agent_so(tmp_path: Path) -> None:
    async with guarded(tmp_path, "v1", nobody=True) as scene:
        assert await scene.do_one(do="write", path=str(scene.folder / "a"), text="x") == Kind.PERMISSION_DENIED


def test_a_mode_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown policy mode"):
        Guard(mode="yolo")
