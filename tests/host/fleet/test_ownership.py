"""Who runs a session: a node dies, is paused, is cut off or drains, and its sessions go on elsewhere."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman import ProtocolError
from dragoman.errors import StoreFault
from dragoman.host.fleet.lease import LeaseTimes
from dragoman.host.fleet.operate import move_session
from dragoman.roles.client.remote_agent import RemoteAgent
from dragoman.roles.client.session import ClientSession
from dragoman.store.contract import Claim, Draft, Entry, decode_raw_entry
from tests.host.fleet.memory_fleet import FAST, Node, running_fleet
from tests.host.fleet.test_relay import record
from tests.host.memory_host import messages_of, open_session, until


async def kill(node: Node) -> None:
    """Let a node be gone for the others: no lease, no links. What it still does is fenced."""
    node.die()
    await node.cut_links()
    node.fleet.links._token = "dead"


def send_prompt(remote: RemoteAgent, session: str, text: str) -> asyncio.Future[Any]:
    """Send a prompt, also while another turn runs."""
    params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    return asyncio.ensure_future(remote.request("session/prompt", params))


def agent_text(session: ClientSession) -> str:
    return "".join(text for role, text in messages_of(session) if role == "agent")


def prompts_in(log: list[Entry]) -> list[str]:
    return [entry.body["prompt"][0]["text"] for entry in log if entry.kind == "prompt"]


async def wait_dead(node: Node, other: Node) -> None:
    """Wait until the lease of a node is over."""
    nodes = other.fleet.engine.nodes
    while (status := await nodes.node(node.name)) is not None and status.is_alive:  # noqa: ASYNC110
        await asyncio.sleep(0.02)


@pytest.mark.item("FL-16")
@pytest.mark.item("FL-18")
async def test_prompts_that_waited_at_a_dead_node_run_once_and_the_interrupted_one_does_not(tmp_path: Path) -> None:
    async with running_fleet(("n1", "n2"), times=FAST) as (first, second):
        async with first.client() as near, second.client() as far:
            session = await open_session(near, tmp_path)
            distant = await far.load_session(session.id, str(tmp_path))
            interrupted = send_prompt(far, session.id, "wait gate")
            await until(lambda: "waiting" in str(messages_of(distant)))
            waiting = send_prompt(far, session.id, "second")
            await until(lambda: len(first.host.rooms[session.id].queue.waiting) == 1)
            await kill(first)
            with pytest.raises(ProtocolError) as stopped:
                await interrupted
            assert stopped.value.data is not None
            assert stopped.value.data["interrupted"] is True
            assert (await waiting).stop_reason == "end_turn"
            assert messages_of(distant)[-1][1].endswith("heard second")
            assert second.owns(session.id)
            log = await second.host.store.read(session.id)
            assert [entry.body["prompt"][0]["text"] for entry in log if entry.kind == "prompt"] == [
                "wait gate",
                "second",
            ]
            ends = [entry.body for entry in log if entry.kind == "turn_ended"]
            assert ends[0]["error"]["kind"] == "interrupted"
            assert ends[1]["stopReason"] == "end_turn"
            assert [entry.seq for entry in log] == list(range(1, len(log) + 1))


@pytest.mark.item("FL-16")
async def test_clients_of_a_dead_node_are_back_elsewhere_by_cursor(tmp_path: Path) -> None:
    reports: list[str] = []
    async with running_fleet(("n1", "n2"), times=FAST, report=reports.append) as (first, second):
        async with first.client() as near:
            session = await open_session(near, tmp_path)
            await session.ask("one")
            seen = first.host.rooms[session.id].state.seq
            running = asyncio.ensure_future(session.ask("wait gate"))
            await until(lambda: "waiting" in str(messages_of(session)))
            await kill(first)
            await wait_dead(first, second)
            running.cancel()
        async with second.client() as again:
            params = {"sessionId": session.id, "cwd": str(tmp_path), "mcpServers": []}
            received: list[bytes] = []

            def tap(_: Any, frame: bytes) -> tuple[bool, None]:
                received.append(frame)
                return False, None

            again.connection.tap = tap
            await again.request("session/load", {**params, "_meta": {"dragoman": {"cursor": seen}}})
            assert second.owns(session.id), "nobody ran it, so this node does"
            assert f"session {session.id}: runs on this node now, before on node n1" in reports
            log = await second.host.store.read(session.id, after=seen)
            assert log[-1].kind == "turn_ended"
            assert log[-1].body["error"]["kind"] == "interrupted"
            assert "waiting for gate" in b"".join(received).decode()


async def test_a_session_of_one_nodes_folder_is_readable_everywhere_and_refused_by_name(tmp_path: Path) -> None:
    async with running_fleet(("n1", "n2"), labels={"n1": (), "n2": ()}, times=FAST) as (first, second):
        async with first.client() as near:
            session = await open_session(near, tmp_path)
            await session.ask("one")
            await kill(first)
            await wait_dead(first, second)
        async with second.client() as far:
            distant = await far.load_session(session.id, str(tmp_path))
            assert messages_of(distant) == [("user", "one"), ("agent", "heard one")]
            with pytest.raises(ProtocolError, match=r"workspace_away: its folder .* is on n1, which has been away"):
                await distant.ask("two")
            other = tmp_path / "other"
            other.mkdir()
            with pytest.raises(ProtocolError, match="there is no living node 'n9'"):
                await move_session(second.fleet.engine, session.id, "n9", str(other), "ann")
            await move_session(second.fleet.engine, session.id, "n2", str(other), "ann")
            assert await distant.ask("three") == "heard three"
            assert second.owns(session.id)
            assert second.host.rooms[session.id].state.cwd == str(other)


@pytest.mark.item("FL-05")
async def test_an_owner_that_was_paused_writes_nothing_after_another_claimed(tmp_path: Path) -> None:
    async with running_fleet(("n1", "n2"), times=FAST) as (first, second):
        received: list[tuple[str, Any]] = []
        async with first.client(**record(received)) as near, second.client() as far:
            session = await open_session(near, tmp_path)
            running = asyncio.ensure_future(session.ask("wait gate"))
            await until(lambda: "waiting" in str(messages_of(session)))
            first.die()
            await wait_dead(first, second)
            distant = await far.load_session(session.id, str(tmp_path))
            assert second.owns(session.id)
            first.hosted.agents[-1].gates["gate"].set()  # type: ignore[attr-defined]
            with pytest.raises(ProtocolError):
                await running
            await until(lambda: not first.owns(session.id))
            assert await distant.ask("after") == "heard after"
            await until(lambda: messages_of(session)[-1] == ("agent", "heard after"))
            assert "gate came" not in str(messages_of(session))
            assert "gate came" not in str(await second.host.store.read(session.id))
            assert first.fleet.counters.fenced == 1


@pytest.mark.item("FL-09")
async def test_a_node_that_cannot_renew_ends_its_agents_before_others_may_claim(tmp_path: Path) -> None:
    async with running_fleet(("n1", "n2"), times=FAST) as (first, _):
        received: list[tuple[str, Any]] = []
        async with first.client(**record(received)) as near:
            session = await open_session(near, tmp_path)
            running = asyncio.ensure_future(session.ask("wait gate"))
            await until(lambda: "waiting" in str(messages_of(session)))
            nodes = first.fleet.engine.nodes

            class Away:
                """An engine that this node does not reach."""

                async def renew(self, *_: Any) -> None:
                    raise StoreFault("away", "the engine does not answer")

                join = leave = renew

            first.fleet.lease._nodes = Away()  # type: ignore[assignment]
            await until(lambda: not first.fleet.lease.may_start_turns)
            status = await nodes.node("n1")
            assert status is not None
            assert status.is_alive
            await until(lambda: not first.owns(session.id))
            status = await nodes.node("n1")
            assert status is not None
            assert status.is_alive, "it lets its sessions go while the lease still counts"
            await until(lambda: all(each.failure is not None for each in first.hosted.started))
            with pytest.raises(ProtocolError):
                await running
            await until(lambda: any(name == "agent" for name, _ in received))
            assert "lost its lease" in next(params["message"] for name, params in received if name == "agent")
            with pytest.raises(ProtocolError, match=r"node n1 cannot run sessions now|workspace_away|try again"):
                await asyncio.wait_for(session.ask("more"), 30)
            first.fleet.lease._nodes = nodes
            await until(lambda: first.fleet.lease.may_start_turns)
            assert await session.ask("again") == "heard again"


async def test_a_link_that_is_cut_loses_and_doubles_nothing(tmp_path: Path) -> None:
    async with running_fleet(("n1", "n2")) as (first, second):
        async with first.client() as near, second.client() as far:
            session = await open_session(near, tmp_path)
            distant = await far.load_session(session.id, str(tmp_path))
            running = send_prompt(far, session.id, "wait gate")
            waiting = send_prompt(far, session.id, "next")
            await until(lambda: len(first.host.rooms[session.id].queue.waiting) == 1)
            gates = first.hosted.agents[-1].gates  # type: ignore[attr-defined]
            await until(lambda: "gate" in gates)  # the turn has begun
            await first.cut_links()
            gates["gate"].set()
            assert (await running).stop_reason == "end_turn"
            assert (await waiting).stop_reason == "end_turn"
            for number in range(5):
                await second.cut_links()
                assert await distant.ask(f"round {number}") == f"heard round {number}"
            rounds = [f"round {number}" for number in range(5)]
            log = await first.host.store.read(session.id)
            assert prompts_in(log) == ["wait gate", "next", *rounds]
            await until(lambda: agent_text(session) == agent_text(distant))
            assert agent_text(distant).count("heard") == 6, "each is heard once"


async def test_drain_lets_turns_end_and_sessions_go_on_elsewhere(tmp_path: Path) -> None:
    async with running_fleet(("n1", "n2")) as (first, second):
        async with first.client() as near, second.client() as far:
            session = await open_session(near, tmp_path)
            distant = await far.load_session(session.id, str(tmp_path))
            running = send_prompt(far, session.id, "wait gate")
            await until(lambda: "waiting" in str(messages_of(distant)))
            waiting = send_prompt(far, session.id, "next")
            await until(lambda: len(first.host.rooms[session.id].queue.waiting) == 1)
            draining = asyncio.ensure_future(first.fleet.drain(30))
            await until(lambda: first.fleet.is_draining)
            first.hosted.agents[-1].gates["gate"].set()  # type: ignore[attr-defined]
            assert (await running).stop_reason == "end_turn"
            await draining
            assert not first.host.rooms
            assert (await waiting).stop_reason == "end_turn"
            assert "gate came" in str(messages_of(distant))
            assert second.owns(session.id)
            with pytest.raises(Exception, match=r"drain|closed"):
                await open_session(near, tmp_path)


async def test_two_nodes_of_one_name_are_refused() -> None:
    async with running_fleet(("n1",)) as (first,):
        with pytest.raises(StoreFault, match="another node is called 'n1'"):
            async with running_fleet(("n1",), engine=first.fleet.engine):
                pass


async def test_a_node_that_was_killed_takes_its_name_back_when_its_lease_is_over() -> None:
    said: list[str] = []
    async with running_fleet(("n1",), times=FAST) as (first,):
        first.die()
        async with running_fleet(("n1",), engine=first.fleet.engine, report=said.append, times=FAST) as (again,):
            assert again.fleet.lease.is_held
            assert "a node n1 was here" in str(said)


def test_the_times_of_a_lease_are_in_their_order() -> None:
    for times in (LeaseTimes(), FAST):
        values = [times.renew, times.stop_turns, times.end_agents, times.kill_agents, times.counts]
        assert values == sorted(values)
    assert LeaseTimes().renew * 2 > LeaseTimes().stop_turns, "two renewals may fail"


async def test_a_prompt_whose_answer_was_lost_with_a_link_is_answered_from_the_log_and_not_run_again(
    tmp_path: Path,
) -> None:
    async with running_fleet(("n1", "n2")) as (first, second):
        async with first.client() as near, second.client() as far:
            session = await open_session(near, tmp_path)
            await far.load_session(session.id, str(tmp_path))
            asked = send_prompt(far, session.id, "wait gate")
            room = second.distant(session.id)
            await until(lambda: any(prompt.turn is not None for prompt in room.pending.values()))
            # The node of the client forgets the entry, as if it had been lost with the cut.
            (prompt,) = room.pending.values()
            log = await first.host.store.read(session.id)
            prompt.turn = None
            room.state.seq = next(entry.seq for entry in log if entry.kind == "prompt") - 1
            await second.cut_links()
            first.hosted.agents[-1].gates["gate"].set()  # type: ignore[attr-defined]
            assert (await asked).stop_reason == "end_turn"
            assert prompts_in(await first.host.store.read(session.id)) == ["wait gate"]


async def test_a_client_that_knows_more_than_a_node_gets_nothing_twice(tmp_path: Path) -> None:
    async with running_fleet(("n1", "n2"), times=FAST) as (first, second):
        async with first.client() as near, second.client() as far, second.client() as other:
            session = await open_session(near, tmp_path)
            await far.load_session(session.id, str(tmp_path))  # the second node has a room from now on
            await kill(first)
            await wait_dead(first, second)
            room = second.distant(session.id)
            known = room.state.seq
            claim = await second.host.store.owner(session.id)
            draft = Draft(kind="update", actor="agent", time="2026-01-01T00:00:00Z", body=CHUNK)
            await second.host.store.append(session.id, [draft] * 3, claim=claim)  # before the first node was gone
            received: list[bytes] = []

            def tap(_: Any, frame: bytes) -> tuple[bool, None]:
                received.append(frame)
                return False, None

            other.connection.tap = tap
            params = {"sessionId": session.id, "cwd": str(tmp_path), "mcpServers": []}
            await other.request("session/load", {**params, "_meta": {"dragoman": {"cursor": known + 3}}})
            await room.catch_up()
            assert room.state.seq == known + 3
            await other.request("session/list", {})  # its answer comes after everything that was sent before
            assert b"agent_message_chunk" not in b"".join(received)


CHUNK = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "sent by the first node"}}


async def test_a_prompt_whose_agent_was_starting_when_its_node_let_go_runs_at_the_next_owner(tmp_path: Path) -> None:
    async with running_fleet(("n1", "n2")) as (first, second):
        async with first.client() as near:
            session = await open_session(near, tmp_path)
            room = first.host.rooms[session.id]
            await room.agent.stop()
            lock = room.agent._lifecycle_lock
            await lock.acquire()  # its agent takes long to start
            asked = send_prompt(near, session.id, "one")
            await until(lambda: room.queue.running is not None)
            first.fleet.is_draining = True
            letting_go = asyncio.ensure_future(first.fleet.ownership.let_go(room, "drained"))
            await until(lambda: room.is_closed)
            lock.release()
            await letting_go
            assert (await asked).stop_reason == "end_turn"
            await until(lambda: second.owns(session.id))
            assert prompts_in(await second.host.store.read(session.id)) == ["one"]


async def test_a_new_owner_reads_to_the_end_of_the_log_although_the_engine_answers_from_the_past(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_fleet(("n1", "n2"), times=FAST) as (first, second):
        async with first.client() as near, second.client() as far:
            session = await open_session(near, tmp_path)
            known = first.host.rooms[session.id].state.seq
            running = asyncio.ensure_future(session.ask("wait gate"))
            await until(lambda: "waiting" in str(messages_of(session)))
            await kill(first)
            await wait_dead(first, second)
            store = second.host.store
            read, claim = store.lines, store.claim
            stale_reads = 1_000_000

            async def lines(*arguments: Any, **options: Any) -> list[bytes]:
                """Answer as a server that is behind does."""
                nonlocal stale_reads
                stale_reads -= 1
                found = await read(*arguments, **options)
                return [line for line in found if decode_raw_entry(line).seq <= known] if stale_reads >= 0 else found

            async def claim_log(*arguments: Any, **options: Any) -> Claim:
                nonlocal stale_reads
                claimed = await claim(*arguments, **options)
                stale_reads = 4
                return claimed

            monkeypatch.setattr(store, "lines", lines)
            monkeypatch.setattr(store, "claim", claim_log)
            distant = await far.load_session(session.id, str(tmp_path))
            assert await distant.ask("next") == "heard next"
            log = await read(session.id)
            kinds = [decode_raw_entry(line).kind for line in log]
            turns = [kind for kind in kinds if kind.startswith("turn")]
            assert turns == ["turn_started", "turn_ended"] * 2, "the interrupted turn was ended before the next began"
            running.cancel()
