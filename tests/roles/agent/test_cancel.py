"""A cancelled turn is answered with cancelled, whatever the author's code does, and leaves no tool call open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dragoman import Agent, Kind, ProtocolError, Turn
from dragoman.engine.incoming import Incoming
from dragoman.roles.agent import auth, prompt
from dragoman.roles.agent.agent import CallNext
from tests.roles.raw_client import Raw, new_session, prompt_and_wait, raw_connection, updates

START = datetime(2026, 1, 1, tzinfo=UTC)

Work = Callable[[Turn, asyncio.Event], Awaitable[Any]]


async def obeys(turn: Turn, begun: asyncio.Event) -> None:
    async with turn.tool("Sleep"):
        begun.set()
        await asyncio.Event().wait()


async def swallows(turn: Turn, begun: asyncio.Event) -> str:
    call = await turn.tool("Sleep").__aenter__()
    begun.set()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await turn.say("never mind")
        await call.add_text("goes on")
    return "max_tokens"


async def cleans_up(turn: Turn, begun: asyncio.Event) -> None:
    async with turn.tool("Sleep"):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            await turn.say("cleaned up")


async def breaks(turn: Turn, begun: asyncio.Event) -> None:
    try:
        await obeys(turn, begun)
    except asyncio.CancelledError:
        raise ValueError("broken by the cancel") from None


async def refuses(turn: Turn, begun: asyncio.Event) -> None:
    try:
        await obeys(turn, begun)
    finally:
        raise ProtocolError(Kind.PERMISSION_DENIED, "something else")


async def works_in_a_group(turn: Turn, begun: asyncio.Event) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(obeys(turn, begun))
        group.create_task(asyncio.Event().wait())


def agent_with(work: Work) -> tuple[Agent, asyncio.Event]:
    """Return an agent that runs `work` in its first turn and says hello in later ones."""
    agent = Agent("worker")
    begun = asyncio.Event()

    @agent.prompt
    async def answer(turn: Turn) -> Any:
        if turn.session.turn_count > 1:
            await turn.say("hello again")
            return None
        return await work(turn, begun)

    return agent, begun


def send_prompt(client: Raw, session: str) -> int:
    """Send a prompt."""
    return client.ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]})


@pytest.mark.item("004-14", "001-13")
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("work", [obeys, swallows, cleans_up, breaks, refuses, works_in_a_group])
async def test_a_cancelled_turn_ends_as_cancelled_whatever_its_code_does(work: Work, times: int) -> None:
    agent, begun = agent_with(work)
    async with raw_connection(agent) as client:
        session = await new_session(client)
        asked = send_prompt(client, session)
        await begun.wait()
        for _ in range(times):
            client.notify("session/cancel", {"sessionId": session})
        answer = await client.until(lambda message: message.get("id") == asked)
        assert answer["result"] == {"stopReason": "cancelled"}
        states = [update["status"] for update in updates(client, "tool_call_update")]
        assert states[-1] == "failed"
        assert client.received.index(answer) == len(client.received) - 1
        if work is cleans_up:  # a second cancel does not disturb it
            assert updates(client, "agent_message_chunk")[-1]["content"]["text"] == "cleaned up"
        again = await prompt_and_wait(client, session)
        assert again["result"]["stopReason"] == "end_turn"


async def test_a_cancelled_turn_is_answered_although_its_code_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt, "CANCEL_TIMEOUT", 0.05)

    let_go = asyncio.Event()

    async def is_deaf(turn: Turn, begun: asyncio.Event) -> None:
        await turn.tool("Sleep").__aenter__()
        begun.set()
        for _ in range(3):  # the client's cancel, ours, and that of the connection's end
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    agent, begun = agent_with(is_deaf)
    async with raw_connection(agent) as client:
        session = await new_session(client)
        asked = send_prompt(client, session)
        await begun.wait()
        client.notify("session/cancel", {"sessionId": session})
        answer = await client.until(lambda message: message.get("id") == asked)
        assert answer["result"] == {"stopReason": "cancelled"}
        assert updates(client, "tool_call_update")[-1]["status"] == "failed"
        busy = await prompt_and_wait(client, session)
        assert busy["error"]["data"]["kind"] == Kind.INVALID_STATE
        let_go.set()
        await asyncio.sleep(0)  # its code sees it
        assert (await prompt_and_wait(client, session))["result"]["stopReason"] == "end_turn"


def add_middleware(agent: Agent) -> None:
    """Add a middleware that passes everything on."""

    @agent.middleware
    async def watch(message: Incoming, pass_on: CallNext) -> Any:
        return await pass_on()


async def test_a_cancelled_turn_behind_middleware_is_answered_although_its_code_does_not_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prompt, "CANCEL_TIMEOUT", 0.05)

    let_go = asyncio.Event()

    async def is_deaf(turn: Turn, begun: asyncio.Event) -> None:
        begun.set()
        while not let_go.is_set():
            with suppress(asyncio.CancelledError):
                await let_go.wait()

    agent, begun = agent_with(is_deaf)
    add_middleware(agent)
    async with raw_connection(agent) as client:
        session = await new_session(client)
        asked = send_prompt(client, session)
        await begun.wait()
        client.notify("session/cancel", {"sessionId": session})
        answer = await client.until(lambda message: message.get("id") == asked)
        assert answer["result"] == {"stopReason": "cancelled"}
        assert agent.sessions[session].turn is not None  # it does go on
        let_go.set()
        while agent.sessions[session].turn is not None:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert (await prompt_and_wait(client, session))["result"]["stopReason"] == "end_turn"
        assert len([message for message in client.received if message.get("id") == asked]) == 1


@pytest.mark.parametrize("is_deaf", [False, True])
@pytest.mark.parametrize("where", ["login", "middleware"])
async def test_a_cancel_reaches_a_prompt_whose_turn_has_not_begun(
    where: str, is_deaf: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt, "CANCEL_TIMEOUT", 0.05)
    clock = [START]
    monkeypatch.setattr(auth, "utc_now", lambda: clock[0])

    begun, let_go, ran = asyncio.Event(), asyncio.Event(), False
    agent = Agent("slow", auth_required=where == "login")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        nonlocal ran
        ran = True

    async def wait() -> None:
        begun.set()
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                if not is_deaf:
                    raise

    if where == "login":

        @agent.check_login
        async def logged_in() -> timedelta:
            if clock[0] > START:
                await wait()
            return timedelta(seconds=1)

    else:

        @agent.middleware
        async def slowly(message: Incoming, pass_on: CallNext) -> Any:
            if message.method == "session/prompt" and not let_go.is_set():
                await wait()
            return await pass_on()

    async with raw_connection(agent) as client:
        session = await new_session(client)
        clock[0] += timedelta(minutes=1)  # the login is over
        asked = send_prompt(client, session)
        await begun.wait()
        client.notify("session/cancel", {"sessionId": session})
        answer_ = await client.until(lambda message: message.get("id") == asked)
        assert answer_["result"] == {"stopReason": "cancelled"}
        let_go.set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not ran
        assert len([message for message in client.received if message.get("id") == asked]) == 1


async def test_a_cancel_of_a_client_that_did_not_open_the_session_is_ignored() -> None:
    agent, begun = agent_with(obeys)
    async with raw_connection(agent) as client, raw_connection(agent) as stranger:
        session = await new_session(client)
        asked = send_prompt(client, session)
        await begun.wait()
        stranger.notify("session/cancel", {"sessionId": session})
        await stranger.result("session/list", {})  # by now the cancel was read
        assert agent.sessions[session].turn is not None
        assert not any(message.get("id") == asked for message in client.received)
        client.notify("session/cancel", {"sessionId": session})
        await client.until(lambda message: message.get("id") == asked)


@pytest.mark.parametrize("method", ["session/close", "session/delete"])
async def test_closing_or_deleting_a_session_ends_its_turn_also_of_another_client(method: str) -> None:
    agent, begun = agent_with(obeys)
    async with raw_connection(agent) as client, raw_connection(agent) as other:
        session = await new_session(client)
        asked = send_prompt(client, session)
        await begun.wait()
        await other.result(method, {"sessionId": session})
        answer = await client.until(lambda message: message.get("id") == asked)
        assert answer["result"] == {"stopReason": "cancelled"}
