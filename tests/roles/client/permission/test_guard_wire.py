"""The guard in raw JSON: each cell of the mode table, cancelled questions, protected files."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman import ClientSession, RemoteAgent, connect
from dragoman.config.paths import user_paths
from dragoman.policy.decide import Policy
from dragoman.policy.decision import ALLOW, ASK, DENY
from dragoman.policy.modes import MODES
from dragoman.policy.question import OPERATIONS
from dragoman.policy.rules import Rule, RuleFile
from dragoman.roles.client.permission.guard import Guard
from dragoman.roles.client.permission.questions import PermissionChoice, PermissionPrompt
from dragoman.store.audit import AuditLog
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import memory_pair
from tests.policy.test_modes import SIGNS, TABLE

OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "ever", "name": "Ever", "kind": "allow_always"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]

# How an agent asks for each operation; mcp_start is no agent's to ask.
CALLS: dict[str, dict[str, Any]] = {
    "file_read": {"kind": "read", "locations": [{"path": "a"}]},
    "file_write": {"kind": "edit", "locations": [{"path": "a"}]},
    "file_delete": {"kind": "delete", "locations": [{"path": "a"}]},
    "terminal_execute": {"kind": "execute", "rawInput": {"command": "make"}},
    "network_access": {"kind": "fetch", "rawInput": {"url": "https://example.org"}},
    "mcp_tool": {"kind": "other", "name": "mcp__tracker__list"},
    "switch_mode": {"kind": "switch_mode"},
    "other": {"kind": "think"},
}


class Wire:
    """A raw agent and a guarded client, with one session."""

    def __init__(self, peer: ScriptedPeer, guard: Guard, remote: RemoteAgent, session: ClientSession) -> None:
        self.peer = peer
        self.guard = guard
        self.remote = remote
        self.session = session
        self._id = 100

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the client's answer as raw JSON."""
        self._id += 1
        answer = await self.peer.request(self._id, method, {"sessionId": "s", **params})
        return {name: value for name, value in answer.items() if name in ("result", "error")}

    def permission(self, id: str, call: dict[str, Any], options: list[dict[str, str]] = OPTIONS) -> Any:
        """Return the outcome of a permission request."""
        return self.call("session/request_permission", toolCall={"toolCallId": id, **call}, options=options)

    def own_mode(self, mode: str) -> None:
        """Report the agent's mode."""
        update = {"sessionUpdate": "current_mode_update", "currentModeId": mode}
        self.peer.send({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}})


@asynccontextmanager
async def guarded_wire(folder: Path, **options: Any) -> AsyncIterator[Wire]:
    """Return a raw v1 agent with a session in `folder`."""
    ours, theirs = memory_pair()
    peer = ScriptedPeer(theirs)
    modes = {
        "currentModeId": "default",
        "availableModes": [{"id": name, "name": name} for name in ("default", *sorted(set(MODES) - {"default"}))],
    }

    async def begin() -> None:
        for result in ({"protocolVersion": 1}, {"sessionId": "s", "modes": modes}):
            asked = await peer.receive()
            peer.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})

    beginning = asyncio.create_task(begin())
    guard = Guard(**{"policy": Policy(), **options})
    async with connect(
        ours, dialect="v1", permission=guard.request_permission, workspace=guard.workspace_access()
    ) as remote:
        guard.set_agent(remote, "raw")
        session = await remote.open_session(str(folder))
        await beginning
        yield Wire(peer, guard, remote, session)
    await guard.close()


def selected_outcome(option: str) -> dict[str, Any]:
    """Return a raw outcome."""
    return {"result": {"outcome": {"outcome": "selected", "optionId": option}}}


# The write of several files at once (docs/protocol/extensions.md#file-calls).
BATCH = "fs/write_files"

CANCELLED = {"result": {"outcome": {"outcome": "cancelled"}}}


# --- the table, cell by cell --------------------------------------------------------------------------------


@pytest.mark.item("003-14", "004-47")
@pytest.mark.parametrize("answer", [ALLOW, DENY], ids=["who says yes", "who says no"])
@pytest.mark.parametrize("mode", TABLE)
async def test_each_cell_is_answered_so_on_the_wire(tmp_path: Path, mode: str, answer: Any) -> None:
    """The table decides without the user unless it says ask."""

    asked: list[PermissionPrompt] = []

    def user(question: PermissionPrompt) -> PermissionChoice:
        asked.append(question)
        return PermissionChoice(answer)

    async with guarded_wire(tmp_path, ask=user, mode=mode) as wire:
        for operation, sign in zip(OPERATIONS, TABLE[mode], strict=True):
            if operation not in CALLS:
                continue
            before = len(asked)
            raw = await wire.permission(operation, CALLS[operation])
            expected = {"allow": "yes", "deny": "no", "ask": "yes" if answer is ALLOW else "no"}[SIGNS[sign]]
            assert (operation, raw) == (operation, selected_outcome(expected))
            assert len(asked) - before == (SIGNS[sign] == "ask"), operation


@pytest.mark.item("003-14", "004-47")
@pytest.mark.parametrize("mode", TABLE)
async def test_each_cell_holds_on_the_wire_for_workspace_uses(tmp_path: Path, mode: str) -> None:
    (tmp_path / "a").write_text("old")
    path, asked = str(tmp_path / "a"), []

    def user(question: PermissionPrompt) -> PermissionChoice:
        asked.append(question.questions[0].operation)
        return PermissionChoice(DENY)

    async with guarded_wire(tmp_path, ask=user, mode=mode) as wire:
        answers = {
            "file_read": await wire.call("fs/read_text_file", path=path),
            "file_write": await wire.call("fs/write_text_file", path=path, content="new"),
            "terminal_execute": await wire.call("terminal/create", command="true"),
        }
    cells = {name: SIGNS[sign] for name, sign in zip(OPERATIONS, TABLE[mode], strict=True) if name in answers}
    assert asked == [name for name, cell in cells.items() if cell == "ask"]
    for name, raw in answers.items():
        if cells[name] == "allow":
            assert "result" in raw, (name, raw)
        else:
            assert raw["error"]["data"]["kind"] == "permission_denied", name
    assert answers["file_read"] == {"result": {"content": "old"}}
    assert (tmp_path / "a").read_text() == ("new" if cells["file_write"] == "allow" else "old")


@pytest.mark.parametrize("own", MODES)
@pytest.mark.parametrize("mode", ["default", "acceptEdits", "bypassPermissions", "dontAsk"])
async def test_the_agents_own_mode_makes_the_answer_stricter_and_never_looser(
    tmp_path: Path, mode: str, own: str
) -> None:
    """Return how strict an answer is: allowed, asked, denied."""

    asked: list[PermissionPrompt] = []

    def user(question: PermissionPrompt) -> PermissionChoice:
        asked.append(question)
        return PermissionChoice(ALLOW)

    async def strictness(operation: str) -> int:
        before = len(asked)
        raw = await wire.permission(operation, CALLS[operation])
        return 2 if raw == selected_outcome("no") else len(asked) - before

    async with guarded_wire(tmp_path, ask=user, mode=mode) as wire:
        alone = {name: await strictness(name) for name in CALLS}
        wire.own_mode(own)
        both = {name: await strictness(name) for name in CALLS}
        assert wire.session.mode == own
        assert wire.guard.mode("s") == mode
    assert all(both[name] >= alone[name] for name in CALLS)
    if own in ("plan", "architect"):
        assert both["file_write"] == both["terminal_execute"] == 2
    if own == "ask" and mode != "bypassPermissions":
        assert both["file_write"] >= 1


# --- questions that nobody answers ----------------------------------------------------------------------------


async def test_cancelling_answers_every_open_question_and_asks_no_more(tmp_path: Path) -> None:
    """One question is open and others wait behind it: all are answered, and the user sees only the first."""

    asked: list[PermissionPrompt] = []
    open_now = asyncio.Event()
    audit = AuditLog(str(tmp_path / "audit.jsonl"), durable=False)

    async def user(question: PermissionPrompt) -> PermissionChoice:
        asked.append(question)
        open_now.set()
        await asyncio.Event().wait()
        return PermissionChoice(ALLOW)

    async with guarded_wire(tmp_path, ask=user, audit=audit) as wire:
        async with wire.session.prompt("go") as turn:
            prompt = await wire.peer.expect(method="session/prompt")
            for number in (1, 2, 3):
                call = {"toolCallId": str(number), **CALLS["terminal_execute"]}
                params = {"sessionId": "s", "toolCall": call, "options": OPTIONS}
                wire.peer.send(
                    {"jsonrpc": "2.0", "id": number, "method": "session/request_permission", "params": params}
                )
                await open_now.wait()
            use = {"sessionId": "s", "command": "make"}
            wire.peer.send({"jsonrpc": "2.0", "id": 4, "method": "terminal/create", "params": use})
            (tmp_path / "a").write_text("x")
            await wire.call("fs/read_text_file", path=str(tmp_path / "a"))  # so all before it has arrived
            turn.cancel()
            answers: dict[int, Any] = {}
            while len(answers) < 4:
                message = await wire.peer.receive()
                if "id" in message and "method" not in message:
                    answers[message["id"]] = message
            wire.peer.send({"jsonrpc": "2.0", "id": prompt["id"], "result": {"stopReason": "cancelled"}})
            await turn.wait()
        assert turn.stop_reason == "cancelled"
        assert [answers[number]["result"] for number in (1, 2, 3)] == [CANCELLED["result"]] * 3
        assert answers[4]["error"]["data"]["kind"] == "permission_denied"
        assert len(asked) == 1
    decided = [each["decision"] for each in audit.entries() if each["what"] == "decided"]
    assert sorted(decided) == ["allow"] + ["cancelled"] * 4


async def test_a_question_that_nobody_answers_is_refused_by_an_offered_option(tmp_path: Path) -> None:

    async def silent(_: PermissionPrompt) -> PermissionChoice:
        await asyncio.Event().wait()
        return PermissionChoice(ALLOW)

    async with guarded_wire(tmp_path, ask=silent, answer_timeout=0.01) as wire:
        assert await wire.permission("1", CALLS["terminal_execute"]) == selected_outcome("no")
        raw = await wire.call("fs/write_text_file", path=str(tmp_path / "a"), content="x")
        assert "nobody answered within 0.01 seconds" in raw["error"]["message"]
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("scope", ["once", "session", "workspace", "always"])
@pytest.mark.parametrize(
    ("offered", "shown"),
    [
        (["allow_once", "reject_once"], {"once": "allow_once", "always": "allow_once"}),
        (["allow_once", "allow_always"], {"once": "allow_once", "always": "allow_always"}),
        (["allow_always", "reject_once"], {"once": None, "always": "allow_always"}),
        (["reject_once"], {"once": None, "always": None}),
        ([], {"once": None, "always": None}),
        (["allow_for_a_while", "reject_once"], {"once": None, "always": None}),
    ],
)
async def test_an_approval_is_sent_as_an_offered_option_or_not_at_all(
    tmp_path: Path, offered: list[str], shown: dict[str, str | None], scope: str
) -> None:
    """Never answer with an option that was not offered or that goes further than the user
    (docs/protocol/peers.md#lost-options).
    """

    async with guarded_wire(tmp_path, ask=lambda _: PermissionChoice(ALLOW, scope)) as wire:
        options = [{"optionId": f"id-{kind}", "name": kind, "kind": kind} for kind in offered]
        raw = await wire.permission("1", CALLS["terminal_execute"], options)
        expected = shown["always" if scope == "always" else "once"]
        assert raw == (CANCELLED if expected is None else selected_outcome(f"id-{expected}"))


# --- what is ours -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "link", "folder link", "dots", "hard link", "missing folder"])
@pytest.mark.parametrize("file", ["policy", "agents", "grants", "trust", "audit", "store", "project", "other project"])
async def test_no_file_call_writes_protected_files_even_if_everything_is_allowed(
    tmp_path: Path, file: str, kind: str
) -> None:
    """The session's folder is the whole home directory, with relative XDG folders, which count as unset."""

    home = tmp_path.resolve()
    found = user_paths({"HOME": str(home), "XDG_CONFIG_HOME": "config", "XDG_STATE_HOME": "./state"})
    assert found.config == str(home / ".config" / "dragoman")
    ours = {
        "policy": found.policy,
        "agents": os.path.join(found.config, "config.toml"),
        "grants": found.grants,
        "trust": found.trust,
        "audit": found.audit,
        "store": os.path.join(found.data, "store.sqlite"),
        "project": str(home / ".dragoman" / "policy.toml"),
        "other project": str(home / "code" / "x" / ".dragoman" / "policy.toml"),
    }[file]
    real = Path(ours)
    name = str(real)
    # Before the guard comes: what it reads must be in order.
    guard = Guard.for_user(found, environ={}, mode="bypassPermissions", roots=[str(home)])
    if kind != "missing folder":
        real.parent.mkdir(parents=True, exist_ok=True)
    if kind == "link":
        (home / "innocent").symlink_to(real)
        name = str(home / "innocent")
    elif kind == "folder link":
        (home / "innocent").symlink_to(real.parent)
        name = str(home / "innocent" / real.name)
    elif kind == "dots":
        name = f"{real.parent}/../{real.parent.name}/./{real.name}"
    elif kind == "hard link":
        if not real.exists():
            real.write_text("{}" if real.suffix == ".json" else "")
        os.link(real, home / "innocent")
        name = str(home / "innocent")
    before = real.read_bytes() if real.exists() else None
    ours_end, theirs = memory_pair()
    peer = ScriptedPeer(theirs)

    async def agent() -> list[dict[str, Any]]:
        for result in ({"protocolVersion": 1}, {"sessionId": "s"}):
            asked = await peer.receive()
            peer.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})
        await opened.wait()
        text = "mode = 'bypassPermissions'"
        calls: list[tuple[str, dict[str, Any]]] = [
            ("fs/write_text_file", {"path": name, "content": text}),
            (BATCH, {"files": [{"path": name, "content": text}]}),
        ]
        return [
            await peer.request(id, method, {"sessionId": "s", **params}) for id, (method, params) in enumerate(calls, 1)
        ]

    opened = asyncio.Event()
    playing = asyncio.create_task(agent())
    async with connect(
        ours_end, dialect="v1", permission=guard.request_permission, workspace=guard.workspace_access()
    ) as remote:
        guard.set_agent(remote)
        await remote.open_session(str(home))
        opened.set()
        answers = await playing
    await guard.close()
    if kind == "hard link":  # the other name is a file of its own from then on
        assert real.read_bytes()[: len(before or b"")] == before
    else:
        kinds = [answer["error"]["data"]["kind"] for answer in answers]
        assert set(kinds) <= {"permission_denied", "access_denied", "resource_not_found"}, answers
        after = real.read_bytes() if real.exists() else None
        assert (after or b"").startswith(before or b"")
        assert b"bypassPermissions" not in (after or b"") or file == "audit"


# --- approved and used --------------------------------------------------------------------------------------


# Every file call, with the name that it uses below a folder.
FILE_CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "fs/read_text_file": ("file", {}),
    "fs/read_binary_file": ("file", {}),
    "fs/list_directory": ("", {}),
    "fs/watch": ("", {}),
    "fs/write_text_file": ("file", {"content": "new"}),
    "fs/write_binary_file": ("file", {"data": "bmV3"}),
    "fs/create_directory": ("made", {}),
    "fs/write_files": ("file", {}),
}


@pytest.mark.parametrize("swapped", ["the link that was named", "the folder that was approved"])
@pytest.mark.parametrize("method", FILE_CALLS)
async def test_what_is_used_is_what_was_approved_whatever_changes_while_the_user_thinks(
    tmp_path: Path, method: str, swapped: str
) -> None:
    folder = tmp_path.resolve()
    for name in ("approved", "secret"):
        (folder / name).mkdir()
        (folder / name / "file").write_text(name)
    (folder / "link").symlink_to("approved")

    def swap(prompt: PermissionPrompt) -> PermissionChoice:
        assert prompt.questions[0].resource.startswith(f"{folder}/approved")
        if swapped == "the link that was named":
            (folder / "link").unlink()
            (folder / "link").symlink_to("secret")
        else:
            (folder / "approved").rename(folder / "moved")
            (folder / "approved").symlink_to("secret")
        return PermissionChoice(ALLOW)

    name, more = FILE_CALLS[method]
    path = f"{folder}/link/{name}"
    params = {"path": path, **more} if method != BATCH else {"files": [{"path": path, "content": "new"}]}
    policy = Policy(files=(RuleFile(name="all", rules=(Rule(verdict=ASK),)),))
    async with guarded_wire(tmp_path, ask=swap, policy=policy) as wire:
        answer = await wire.call(method, **params)
    if swapped == "the folder that was approved":
        assert answer["error"]["data"]["kind"] == "permission_denied"
    else:
        assert "error" not in answer
        assert "secret" not in str(answer)
    assert [each.name for each in (folder / "secret").iterdir()] == ["file"]
    assert (folder / "secret" / "file").read_text() == "secret"


async def test_a_program_that_appears_while_the_user_thinks_is_not_run_instead_of_the_approved_line(
    tmp_path: Path,
) -> None:
    """`/folder/tool now` is a shell line, unless there is a program of that name when it is asked about."""
    folder = tmp_path.resolve()

    def write_program(name: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\ntouch '{folder}/ran {name}'\n")
        (folder / name).chmod(0o755)

    def appear(prompt: PermissionPrompt) -> PermissionChoice:
        lines.append(prompt.questions[0].resource)
        write_program("tool now")
        return PermissionChoice(ALLOW)

    lines: list[str] = []
    write_program("tool")
    async with guarded_wire(tmp_path, ask=appear) as wire:
        for _ in range(2):
            answer = await wire.call("terminal/create", command=f"{folder}/tool now")
            await wire.call("terminal/wait_for_exit", terminalId=answer["result"]["terminalId"])
            assert (folder / "ran tool now").exists() == (len(lines) == 2)
    assert (folder / "ran tool").exists()
    assert lines == [f"{folder}/tool now", f"'{folder}/tool now'"]
