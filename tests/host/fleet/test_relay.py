"""Clients of one node in sessions of another: join, prompt, answer, lend, leave."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, ProtocolError, Turn
from dragoman.errors import ConnectionFailed
from dragoman.host.room.room import Room
from dragoman.roles.client.workspace import WorkspaceAccess
from tests.host.fleet.memory_fleet import Node, running_fleet
from tests.host.memory_host import ANNOUNCING, messages_of, open_session, until
from tests.host.room.test_workspace import free_guard

DIALECTS = ["v1", "banjo", "draft", "crow", "2025.1", "v2"]


def record(received: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the options of a client that records what is not in the log."""
    topics = ("presence", "queue", "turn", "permission_resolved", "agent", "workspace", "closed")
    on = {f"_dragoman/{name}": (lambda params, name=name: received.append((name, params))) for name in topics}
    return {"on": on, "capabilities": ANNOUNCING}


async def never(_: Any) -> str | None:
    """Do not answer."""
    await asyncio.Event().wait()
    return None


@pytest.mark.item("FL-12")
async def test_a_client_of_another_node_joins_and_prompts() -> None:
    async with running_fleet(("n1", "n2")) as (first, second):
        async with first.client() as near, second.client() as far:
            session = await open_session(near)
            await session.ask("one")
            distant = await far.load_session(session.id, "/tmp")
            assert messages_of(distant) == [("user", "one"), ("agent", "heard one")]
            assert not second.owns(session.id)
            async with distant.prompt("two") as turn:
                assert (await turn.wait()).stop_reason == "end_turn"
            assert messages_of(distant)[2:] == [("user", "two"), ("agent", "heard two")]
            await until(lambda: len(messages_of(session)) == 4)
            assert messages_of(session) == messages_of(distant)
            assert first.owns(session.id)


@pytest.mark.item("FL-12")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_every_dialect_works_from_another_node(dialect: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"version": 2} if dialect == "v2" else {"dialect": dialect}
    async with running_fleet(("n1", "n2")) as (first, second):
        async with first.client(permission=never) as near:
            session = await open_session(near, tmp_path)
            assert await session.ask("hello") == "heard hello"
            async with second.client(permission="allow", cwd=str(tmp_path), **options) as far:
                distant = await far.load_session(session.id, str(tmp_path))
                assert await distant.ask("again") == "heard again"
                if dialect != "2025.1":  # its clients have no questions without files
                    assert await distant.ask("ask") == "yes"
            assert messages_of(session)[:4] == [
                ("user", "hello"), ("agent", "heard hello"), ("user", "again"), ("agent", "heard again"),
            ]  # fmt: skip


@pytest.mark.item("FL-12")
async def test_questions_reach_members_of_other_nodes_and_the_first_answer_wins(tmp_path: Path) -> None:
    withdrawn = asyncio.Event()

    async def slow(_: Any) -> str | None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            withdrawn.set()
            raise
        return None

    async with running_fleet() as (first, second, third):
        async with (
            first.client(permission=slow) as near,
            second.client(permission=slow) as far,
            third.client(permission="allow") as farther,
        ):
            session = await open_session(near, tmp_path)
            for remote in (far, farther):
                await remote.load_session(session.id, str(tmp_path))
            assert await session.ask("ask") == "yes"
            await withdrawn.wait()


@pytest.mark.item("FL-12")
async def test_files_and_terminals_of_a_client_of_another_node_are_used(tmp_path: Path) -> None:
    def worker() -> Agent:
        agent = Agent("worker")

        @agent.prompt
        async def answer(turn: Turn) -> None:
            await turn.say(await turn.files.read(str(tmp_path / "note.txt")))
            terminal = await turn.terminals.create("echo", ["from a terminal"])
            await terminal.wait()
            await turn.say(" " + (await terminal.output()).output)
            await terminal.release()

        return agent

    (tmp_path / "note.txt").write_text("on the disk of the node")
    received: list[tuple[str, Any]] = []
    async with running_fleet(("n1", "n2"), worker, make_guard=free_guard) as (first, second):
        async with first.client(**record(received)) as near:
            session = await open_session(near, tmp_path)
            read: list[Any] = []

            async def read_file(params: Any) -> Any:
                read.append(params)
                return {"content": "from the far editor"}

            async with second.client(workspace=WorkspaceAccess(), on={"fs/read_text_file": read_file}) as far:
                distant = await far.resume_session(session.id, str(tmp_path))
                text = await distant.ask("go")
                assert text.split() == ["from", "the", "far", "editor", "from", "a", "terminal"]
                assert read[0].session_id == session.id
            assert {"user": "ann", "client": "dragoman"} in [
                params.get("terminals") for name, params in received if name == "workspace"
            ]
            await until(lambda: first.host.rooms[session.id].workspace.choose_provider("client.terminal") is None)


async def test_presence_counts_members_of_all_nodes(tmp_path: Path) -> None:
    received: list[tuple[str, Any]] = []
    async with running_fleet() as (first, second, third):
        async with first.client(**record(received)) as near:
            session = await open_session(near, tmp_path)

            def people() -> int:
                seen = [params for name, params in received if name == "presence"]
                return len(seen[-1]["members"]) if seen else 0

            async with second.client() as far, third.client() as farther:
                await far.load_session(session.id, str(tmp_path))
                await farther.load_session(session.id, str(tmp_path))
                await until(lambda: people() == 3)
                users = [member["user"] for member in received[-1][1]["members"]]
                assert users == ["ann", "ann", "ann"]
            await until(lambda: people() == 1)


async def test_cancel_settings_titles_and_close_go_to_the_owner(tmp_path: Path) -> None:
    async with running_fleet(("n1", "n2")) as (first, second):
        async with first.client() as near, second.client() as far:
            session = await open_session(near, tmp_path)
            distant = await far.load_session(session.id, str(tmp_path))
            async with distant.prompt("wait gate") as turn:
                await until(lambda: "waiting" in str(messages_of(distant)))
                distant.cancel()
                assert (await turn.wait()).stop_reason == "cancelled"
            await far.request("session/set_title", {"sessionId": session.id, "title": "from afar"})
            assert first.host.rooms[session.id].state.title == "from afar"
            await until(lambda: second.distant(session.id).state.title == "from afar")
            with pytest.raises(ProtocolError, match="does not serve"):
                await far.request("_unknown/method", {"sessionId": "nowhere"})
            await distant.close()
            await until(lambda: len(first.host.rooms[session.id].members) == 1)


async def test_a_viewer_of_another_node_may_not_prompt(tmp_path: Path) -> None:
    async with running_fleet(("n1", "n2")) as (first, second):
        async with first.client() as near, second.client("ben", principal={"is_local": False}) as far:
            session = await open_session(near, tmp_path)
            with pytest.raises(ProtocolError, match="there is no session"):
                await far.load_session(session.id, str(tmp_path))
            await first.host.session_roles.set_role(session.id, "ben", "viewer")
            distant = await far.load_session(session.id, str(tmp_path))
            with pytest.raises(ProtocolError, match="you are viewer"):
                await distant.ask("do it")
            assert first.host.rooms[session.id].queue.is_empty


@pytest.mark.item("FL-13")
async def test_each_link_carries_each_entry_once_and_all_members_hear_the_same(tmp_path: Path) -> None:
    async with running_fleet() as nodes:
        first, second, third = nodes
        async with first.client() as near:
            session = await open_session(near, tmp_path)
            sessions = [session]
            remotes = []
            for node in (second, third, second, third, second, third):
                context = node.client()
                remotes.append(context)
                remote = await context.__aenter__()
                sessions.append(await remote.load_session(session.id, str(tmp_path)))
            await session.ask("many 200")
            expected = messages_of(session)
            for each in sessions:
                await until(lambda each=each: messages_of(each) == expected)  # type: ignore[misc]
            count = first.host.rooms[session.id].state.seq
            for node in (second, third):
                (link,) = node.fleet.links.links.values()
                assert 200 < link.entries_received <= count
            for context in remotes:
                await context.__aexit__(None, None, None)


async def test_a_forged_node_token_is_refused(tmp_path: Path) -> None:
    reports: list[str] = []
    async with running_fleet(("n1", "n2"), report=reports.append) as (first, second):
        second.fleet.links._token = "another secret"
        async with first.client() as near, second.client() as far:
            session = await open_session(near, tmp_path)
            distant = await far.load_session(session.id, str(tmp_path))  # the history comes from the store
            second.fleet.times = type(second.fleet.times)(counts=0.1)
            with pytest.raises(ProtocolError):
                await asyncio.wait_for(_ask_shortly(second, distant), 30)
        assert any("node token is wrong" in line for line in reports)


async def _ask_shortly(node: Node, session: Any) -> str:
    import dragoman.host.fleet.ownership as module

    before, module.ATTACH_GRACE = module.ATTACH_GRACE, 0.5
    try:
        return str(await session.ask("hello"))
    finally:
        module.ATTACH_GRACE = before


async def test_a_session_is_deleted_and_forked_from_another_node(tmp_path: Path) -> None:
    async with running_fleet(("n1", "n2")) as (first, second):
        async with first.client() as near, second.client() as far:
            session = await open_session(near, tmp_path)
            await session.ask("one")
            distant = await far.load_session(session.id, str(tmp_path))
            fork = await far.fork_session(distant.id, str(tmp_path))
            assert second.owns(fork.id)
            assert await fork.ask("two") == "heard two"
            await far.delete_session(session.id)
            assert session.id not in {summary.session_id for summary in await first.host.store.sessions()}
            assert isinstance(second.host.rooms[fork.id], Room)


@pytest.mark.item("FL-14")
async def test_a_link_that_is_cut_for_long_loses_and_doubles_nothing_and_its_members_are_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[tuple[str, Any]] = []
    async with running_fleet(("n1", "n2")) as (first, second):
        async with first.client(**record(received)) as near, second.client() as far:
            session = await open_session(near, tmp_path)
            distant = await far.load_session(session.id, str(tmp_path))
            assert await distant.ask("one") == "heard one"

            async def refuse(_: Any) -> Any:
                raise ConnectionFailed("the network is cut")

            dial = second.fleet.links.link_to
            monkeypatch.setattr(second.fleet.links, "link_to", refuse)
            await first.cut_links()

            def states() -> list[str]:
                told = [params for name, params in received if name == "presence"]
                return sorted(each["state"] for each in told[-1]["members"]) if told else []

            await until(lambda: states() == ["away", "here"])
            for number in range(20):
                assert await session.ask(f"meanwhile {number}") == f"heard meanwhile {number}"
            monkeypatch.setattr(second.fleet.links, "link_to", dial)
            await until(lambda: messages_of(distant) == messages_of(session))
            await until(lambda: states() == ["here", "here"])
            assert await distant.ask("two") == "heard two"
            log = await first.host.store.read(session.id)
            said = [entry.body["prompt"][0]["text"] for entry in log if entry.kind == "prompt"]
            assert said == ["one", *(f"meanwhile {number}" for number in range(20)), "two"]
