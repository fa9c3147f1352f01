"""Timeouts: what takes too long ends with the kind timeout."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from dragoman import Agent, Kind, ProtocolError, StartFailed, Turn, connect
from dragoman.roles.client.dial import Dialer
from dragoman.roles.client.turn_timeouts import CANCEL_GRACE, TurnTimeouts
from dragoman.schema.permission import RequestPermissionParams
from dragoman.testing import ScriptedPeer, connect_in_memory
from dragoman.transport.memory import memory_pair
from tests.roles.translated_pair import CWD, TRANSLATED, translated

SOON = 0.03


# --- the watch, without a clock -------------------------------------------------------------------------------


def test_an_agent_without_updates_for_the_timeout_is_idle() -> None:
    watch = TurnTimeouts(10.0, None, now=0.0)
    assert watch.check(2.5, update_count=0, agent_is_waiting=False) is None
    assert watch.check(10.0, update_count=1, agent_is_waiting=False) is None
    assert watch.check(19.9, update_count=1, agent_is_waiting=False) is None
    assert watch.check(20.0, update_count=1, agent_is_waiting=False) == "the agent sent no update for 10 s"


def test_time_in_which_the_agent_waits_for_us_does_not_count() -> None:
    watch = TurnTimeouts(10.0, None, now=0.0)
    assert watch.check(100.0, update_count=0, agent_is_waiting=True) is None
    assert watch.check(109.0, update_count=0, agent_is_waiting=False) is None
    assert watch.check(110.0, update_count=0, agent_is_waiting=False) is not None


def test_the_turn_timeout_counts_all_time() -> None:
    watch = TurnTimeouts(None, 10.0, now=5.0)
    assert watch.check(14.9, update_count=99, agent_is_waiting=True) is None
    assert watch.check(15.0, update_count=100, agent_is_waiting=True) == "the turn took longer than 10 s"


@pytest.mark.parametrize(
    ("idle", "whole", "pause", "grace"), [(8.0, None, 2.0, CANCEL_GRACE), (None, 3.0, 3.0, 3.0), (8.0, 1.0, 1.0, 1.0)]
)
def test_the_next_check_is_in_time_for_both_timeouts(
    idle: float | None, whole: float | None, pause: float, grace: float
) -> None:
    watch = TurnTimeouts(idle, whole, now=0.0)
    assert (watch.next_check(0.0), watch.grace) == (pause, grace)


# --- turns ----------------------------------------------------------------------------------------------------


def silent_agent() -> tuple[Agent, list[str]]:
    """Return an agent that sends one word and then nothing, and what became of its turns."""
    agent = Agent("dreamer", version="1")
    ends: list[str] = []

    @agent.prompt
    async def dream(turn: Turn) -> None:
        if turn.text != "dream":
            await turn.say("awake")
            return
        await turn.say("zz")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    return agent, ends


@pytest.mark.item("004-62")
async def test_a_silent_turn_is_cancelled_and_ends_with_timeout() -> None:
    agent, ends = silent_agent()
    async with connect_in_memory(agent, idle_timeout=SOON) as remote:
        session = await remote.open_session(CWD)
        with pytest.raises(ProtocolError, match="sent no update") as caught:
            await session.ask("dream")
        assert caught.value.kind == Kind.TIMEOUT
        assert ends == ["cancelled"]
        assert await session.ask("wake up", idle_timeout=10) == "awake"


@pytest.mark.item("004-62")
async def test_a_turn_ends_at_its_timeout_despite_updates() -> None:
    agent = Agent("talker", version="1")

    @agent.prompt
    async def talk(turn: Turn) -> None:
        while True:
            await turn.say("bla ")
            await asyncio.sleep(0)

    async with connect_in_memory(agent) as remote:
        session = await remote.open_session(CWD)
        with pytest.raises(ProtocolError, match="longer than") as caught:
            await session.ask("talk", timeout=SOON, idle_timeout=10)
        assert caught.value.kind == Kind.TIMEOUT


async def test_a_timed_out_turn_ends_although_the_agent_does_not_end_it() -> None:
    ours, theirs = memory_pair()
    peer = ScriptedPeer(theirs)

    async def script() -> None:
        asked = await peer.expect(method="initialize")
        peer.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"protocolVersion": 1}})
        asked = await peer.expect(method="session/new")
        peer.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"sessionId": "s"}})
        first = await peer.expect(method="session/prompt")
        await peer.expect(method="session/cancel")
        second = await peer.expect(method="session/prompt")
        for asked in (first, second):  # the first one comes much too late, and nobody minds
            peer.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"stopReason": "end_turn"}})

    playing = asyncio.create_task(script())
    async with connect(ours, idle_timeout=SOON) as remote:
        session = await remote.open_session(CWD)
        turn = session.prompt("one")
        with pytest.raises(ProtocolError) as caught:
            async with turn:
                await turn.wait()
        assert caught.value.kind == Kind.TIMEOUT
        async with session.prompt("two", idle_timeout=10) as other:
            assert (await other.wait()).stop_reason == "end_turn"
        assert turn.result is None
    await playing


async def test_an_agent_that_waits_for_the_user_is_not_idle() -> None:
    agent = Agent("asker", version="1")

    @agent.prompt
    async def ask(turn: Turn) -> None:
        await turn.say("yes" if await turn.ask_permission("May I?") else "no")

    waits: list[bool] = []

    async def think(question: RequestPermissionParams) -> str:
        await asyncio.sleep(0)
        waits.append(session._keeps_agent_waiting)
        return question.options[0].option_id

    async with connect_in_memory(agent, idle_timeout=10, permission=think) as remote:
        session = await remote.open_session(CWD)
        assert await session.ask("go") == "yes"
        assert waits == [True]
        assert not session._keeps_agent_waiting


async def test_without_timeouts_there_is_no_timer() -> None:
    agent, _ = silent_agent()
    async with connect_in_memory(agent) as remote:
        session = await remote.open_session(CWD)
        async with session.prompt("dream") as turn:
            assert turn._timer is None
            turn.cancel()
        assert turn.stop_reason == "cancelled"


# --- everything else ------------------------------------------------------------------------------------------


@pytest.mark.item("004-62")
async def test_an_answer_that_never_comes_is_a_timeout() -> None:
    agent, _ = silent_agent()

    @agent.on("_slow")
    async def slow(params: object) -> None:
        await asyncio.Event().wait()

    async with connect_in_memory(agent, timeout=SOON) as remote:
        with pytest.raises(ProtocolError, match="_slow was not answered") as caught:
            await remote.request("_slow", {})
        assert caught.value.kind == Kind.TIMEOUT


@pytest.mark.item("004-62")
@pytest.mark.parametrize(("client", "agent"), TRANSLATED)
async def test_what_times_out_in_an_agent_reaches_the_client_as_a_timeout(client: str, agent: str) -> None:
    hasty = Agent("hasty", version="1")

    @hasty.prompt
    async def ask(turn: Turn) -> None:
        await turn.session.request("_acme/slow", {}, timeout=SOON)

    async def never(_: object) -> None:
        await asyncio.Event().wait()

    async with translated(hasty, client, agent, on={"_acme/slow": never}) as remote:
        session = await remote.open_session(CWD)
        with pytest.raises(ProtocolError) as caught:
            await session.ask("go")
        assert caught.value.kind == Kind.TIMEOUT


@pytest.mark.item("004-62")
async def test_a_timeout_of_an_agent_is_minus_32009_in_the_draft() -> None:
    agent = Agent("hasty", version="1", dialect="draft")

    @agent.prompt
    async def ask(turn: Turn) -> None:
        await turn.session.request("_acme/slow", {}, timeout=SOON)

    ours, theirs = memory_pair()
    serving = agent.start_connection(theirs)
    client = ScriptedPeer(ours)
    info = {"protocolVersion": 1, "clientInfo": {"name": "c", "version": "1"}, "capabilities": {}}
    await client.request(1, "initialize", info)
    made = await client.request(2, "session/new", {"workingDirectory": CWD})
    content = [{"type": "text", "text": "go"}]
    params = {"sessionId": made["result"]["sessionId"], "content": content}
    answer = await client.request(3, "session/prompt", params)
    assert answer["error"]["code"] == -32009
    await serving.close()


# --- starting -------------------------------------------------------------------------------------------------


async def test_a_silent_agent_is_given_up_at_start_and_each_attempt_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reports: list[str] = []
    monkeypatch.setitem(cast(Any, Dialer.__init__).__kwdefaults__, "initialize_timeout", SOON)
    with pytest.raises(StartFailed, match="does not understand initialize"):
        async with connect(["sh", "-c", "cat > /dev/null"], report=reports.append):
            pass
    attempts = ["v1", "draft", "crow", "2025.1", "v2"]
    assert [line.split(":")[0] for line in reports] == [f"sh -c cat > /dev/null in {name}" for name in attempts]


async def test_the_initialize_timeout_of_a_user_is_that_of_all_dialects_together(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    command = ["sh", "-c", f"echo >> {starts}; cat > /dev/null"]
    with pytest.raises(StartFailed, match=r"does not understand initialize within 0.5 seconds \(v1: "):
        async with connect(command, initialize_timeout=0.5):
            pass
    assert len(starts.read_text().splitlines()) == 1
