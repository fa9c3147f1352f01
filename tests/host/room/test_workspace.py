"""Files and terminals in a room: those of a client, else those of the host."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Turn, WorkspaceAccess
from dragoman.errors import Kind, ProtocolError
from dragoman.policy.decide import Policy
from dragoman.roles.client.permission.guard import Guard
from dragoman.schema.base import to_json
from tests.host.auth.test_roles import record_notifications
from tests.host.memory_host import open_session, running_host, until


def free_guard(ask: Any) -> Guard:
    """Return a guard that allows everything inside the session's folders."""
    return Guard(Policy(mode="bypassPermissions"), ask=ask)


class Buffers:
    """An editor with unsaved text, which records whether it was asked for it."""

    def __init__(self, **texts: str) -> None:
        self.texts = texts
        self.asked: list[str] = []
        self.wrote: dict[str, str] = {}

    def options(self) -> dict[str, Any]:
        return {"on": {"fs/read_text_file": self.read, "fs/write_text_file": self.write}}

    def read(self, params: Any) -> dict[str, Any]:
        name = Path(params.path).name
        self.asked.append(name)
        if name not in self.texts:
            raise ProtocolError(Kind.RESOURCE_NOT_FOUND, f"no buffer {name}")
        return {"content": self.texts[name]}

    def write(self, params: Any) -> dict[str, Any]:
        self.wrote[Path(params.path).name] = params.content
        return {}


async def test_the_prompting_client_provides_files_first_then_the_host(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("on disk")
    (tmp_path / "other.txt").write_text("only on disk")

    one, two = Buffers(**{"note.txt": "ann's"}), Buffers(**{"note.txt": "ben's"})
    async with (
        running_host(make_guard=free_guard) as hosted,
        hosted.client("ann") as plain,
        hosted.client("ann", **one.options()) as ann,
        hosted.client("ann", **two.options()) as ben,
    ):
        session = await open_session(plain, tmp_path)
        note, other = tmp_path / "note.txt", tmp_path / "other.txt"
        assert await session.ask(f"read {note}") == "on disk"
        first, http2_socket = await ann.resume_session(session.id, "/"), await ben.resume_session(session.id, "/")
        assert await http2_socket.ask(f"read {note}") == "ben's"
        assert await first.ask(f"read {note}") == "ann's"
        assert await session.ask(f"read {note}") == "ann's"  # the member that joined first
        assert await first.ask(f"read {other}") == "only on disk"
        await first.ask(f"write {other} new")
        assert one.wrote == {"other.txt": "new"}
        assert other.read_text() == "only on disk"


async def test_a_prompting_client_whose_socket_is_not_open_yet_still_provides_its_files(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("on disk")
    buffers = Buffers(**{"note.txt": "ann's"})
    async with running_host(make_guard=free_guard) as hosted, hosted.client("ann", **buffers.options()) as ann:
        session = await open_session(ann, tmp_path)
        [member] = hosted.host.rooms[session.id].members.values()
        member.client._on_presence(False)  # as over HTTP, before its stream of events is open
        assert await session.ask(f"read {tmp_path / 'note.txt'}") == "ann's"


async def test_a_client_that_leaves_during_a_file_request_is_replaced_by_the_host(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("on disk")

    is_asked = asyncio.Event()

    async def never(params: Any) -> Any:
        is_asked.set()
        await asyncio.Event().wait()

    async with running_host(make_guard=free_guard) as hosted, hosted.client() as ann:
        session = await open_session(ann, tmp_path)
        async with hosted.client(on={"fs/read_text_file": never}) as editor:
            await editor.resume_session(session.id, "/")
            reading = asyncio.ensure_future(session.ask(f"read {tmp_path / 'note.txt'}"))
            await is_asked.wait()
        assert await reading == "on disk"


def runner() -> Agent:
    agent = Agent("runner")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        terminal = await turn.terminals.create("sh", ["-c", "echo out; sleep 60"])
        await turn.say("started")
        try:
            done = await terminal.wait()
        except ProtocolError as error:
            await turn.say(f" {error.kind}: {error.message}")
        else:
            await turn.say(f" {done}")

    return agent


async def test_a_terminal_ends_with_the_client_that_ran_it(tmp_path: Path) -> None:
    received: list[tuple[str, Any]] = []
    async with (
        running_host(runner, make_guard=free_guard) as hosted,
        hosted.client("ann", **record_notifications(received)) as ann,
    ):
        session = await open_session(ann, tmp_path)
        async with hosted.client("ben", principal={"is_local": True}, workspace=WorkspaceAccess()) as ben:
            await hosted.host.session_roles.set_role(session.id, "ben", "editor")
            await ben.resume_session(session.id, "/")
            running = asyncio.ensure_future(session.ask("go"))
            await until(lambda: any(name == "workspace" for name, _ in received))
            await until(lambda: len(session.transcript.messages) > 1)
            await ben.connection.transport.close("the train is in a tunnel")
        text = await running
        assert text.startswith("started resource_not_found: the client that ran this terminal has left")
        workspace_params = next(params for name, params in received if name == "workspace")
        assert workspace_params["terminals"] == {"user": "ben", "client": "dragoman"}


@pytest.mark.parametrize("is_offered", [False, True], ids=["the host's", "a member's"])
async def test_command_output_is_sent_once_to_all_but_the_client_that_ran_it(tmp_path: Path, is_offered: bool) -> None:
    def echoing() -> Agent:
        agent = Agent("echoing")

        @agent.prompt
        async def answer(turn: Turn) -> None:
            terminal = await turn.terminals.create("echo", ["out"])
            await terminal.wait()
            await terminal.release()

        return agent

    received: dict[str, list[str]] = {"ann": [], "ben": []}

    def options(name: str) -> dict[str, Any]:
        on = {"_dragoman/terminal": lambda params: received[name].append(params["output"])}
        return {"on": on, "extra_capabilities": {"host": {"terminals": True}}}

    workspace: dict[str, Any] = {"workspace": WorkspaceAccess()} if is_offered else {}
    async with (
        running_host(echoing, make_guard=free_guard) as hosted,
        hosted.client("ann", **options("ann")) as ann,
        hosted.client("ann", **options("ben"), **workspace) as ben,
    ):
        session = await open_session(ann, tmp_path)
        await ben.resume_session(session.id, str(tmp_path))
        await session.ask("go")
        assert received["ann"] == ["out\n"]
        await until(lambda: is_offered or received["ben"] == ["out\n"])
        assert len(received["ben"]) == (0 if is_offered else 1)


async def test_a_workspace_use_that_policy_asks_about_is_sent_to_the_members(tmp_path: Path) -> None:
    asked: list[str] = []

    def allow(params: Any) -> str:
        asked.append(params.tool_call.title)
        return "allow"

    async with running_host() as hosted, hosted.client("ann", permission=allow) as ann:
        session = await open_session(ann, tmp_path)
        assert await session.ask(f"write {tmp_path / 'new.txt'} text") == "written"
        assert (tmp_path / "new.txt").read_text() == "text"
        assert asked == [f"file write: {tmp_path / 'new.txt'}"]
        log = await hosted.host.store.read(session.id)
        assert [e.actor for e in log if e.kind == "decided"] == ["ann"]


async def test_members_are_shown_what_a_write_would_write(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("before")
    contents: list[Any] = []

    def allow(params: Any) -> str:
        contents.append(to_json(params.tool_call)["content"])
        return "allow"

    async with running_host() as hosted, hosted.client("ann", permission=allow) as ann:
        session = await open_session(ann, tmp_path)
        for name, text in (("old.txt", "after"), ("new.txt", "text"), ("large.txt", "x" * 300_000)):
            assert await session.ask(f"write {tmp_path / name} {text}") == "written"
        logged = [e.body["toolCall"]["content"] for e in await hosted.host.store.read(session.id) if e.kind == "asked"]
    old, new, large = contents
    assert old == [{"type": "diff", "path": str(tmp_path / "old.txt"), "oldText": "before", "newText": "after"}]
    assert new == [{"type": "diff", "path": str(tmp_path / "new.txt"), "oldText": None, "newText": "text"}]
    assert large[0]["content"]["text"].startswith("The first 100000 of 300000 characters to write:\n\nxxx")
    assert logged == contents


@pytest.mark.parametrize("path", ["/etc/hostname", "../outside.txt"])
async def test_the_host_gives_no_access_outside_the_session_folders(path: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "outside.txt").write_text("secret")
    async with running_host(make_guard=free_guard) as hosted, hosted.client("ann") as ann:
        session = await open_session(ann, tmp_path / "in")
        with pytest.raises(ProtocolError):
            await session.ask(f"read {tmp_path / 'in' / path}")
