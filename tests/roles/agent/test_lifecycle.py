"""Which calls are allowed: before initialize, without a login, in unknown, closed and busy sessions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman import Agent, Kind, ProtocolError, Session, Turn
from dragoman.schema.config import SessionMode
from dragoman.transport.memory import memory_pair
from tests.acceptance.draft import Raw
from tests.roles.raw_client import CWD, initialize_params, new_session, prompt_and_wait, raw_connection

AGAIN = {"cwd": CWD, "mcpServers": []}


def params_of(method: str, session: str) -> dict[str, Any]:
    """Return params that are valid except for the state."""
    more: dict[str, Any] = {
        "session/new": AGAIN,
        "session/load": AGAIN,
        "session/resume": AGAIN,
        "session/fork": AGAIN,
        "session/prompt": {"prompt": []},
        "session/set_mode": {"modeId": "b"},
        "session/set_config_option": {"configId": "x", "value": "y"},
    }
    named = {} if method in ("session/new", "session/list") else {"sessionId": session}
    return {**named, **more.get(method, {})}


OF_SESSIONS = ["session/load", "session/resume", "session/fork", "session/close"]
OF_OPEN_SESSIONS = ["session/prompt", "session/set_mode", "session/set_config_option"]


def agent_with_modes(**declared: Any) -> Agent:
    """Return an echo agent with modes."""
    agent = Agent("moded", modes=[SessionMode(id="a", name="A"), SessionMode(id="b", name="B")], **declared)

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.say(turn.text)

    return agent


@pytest.mark.parametrize("method", ["session/new", "session/list", *OF_SESSIONS, *OF_OPEN_SESSIONS])
async def test_nothing_is_served_before_initialize_or_without_a_login(method: str) -> None:
    ours, theirs = memory_pair()
    agent = agent_with_modes(auth_required=True)
    agent.authenticate("door")(lambda _: True)
    connection = agent.start_connection(theirs)
    client = Raw(ours)
    early = await client.error(method, params_of(method, "s"))
    assert early["data"]["kind"] == Kind.INVALID_STATE
    assert "initialize" in early["message"]
    await client.result("initialize", initialize_params("v1", {}))
    outside = await client.call(method, params_of(method, "s"))
    kind = Kind.SESSION_NOT_FOUND if method == "session/close" else Kind.AUTH_REQUIRED  # to let go needs no login
    assert outside["error"]["data"]["kind"] == kind
    await connection.close()


@pytest.mark.parametrize("method", [*OF_SESSIONS, *OF_OPEN_SESSIONS])
async def test_a_session_that_does_not_exist_is_not_found_and_named(method: str) -> None:
    async with raw_connection(agent_with_modes()) as client:
        error = await client.error(method, params_of(method, "nowhere"))
        assert error["data"]["kind"] == Kind.SESSION_NOT_FOUND
        assert error["data"]["sessionId"] == "nowhere"


@pytest.mark.parametrize(("dialect", "code"), [("v1", -32600), ("banjo", -32600), ("draft", -32006)])
@pytest.mark.parametrize("method", OF_OPEN_SESSIONS)
async def test_a_closed_session_must_be_opened_again_first(method: str, dialect: str, code: int) -> None:
    agent = agent_with_modes()
    async with raw_connection(agent) as opener:
        session = await new_session(opener)
        await opener.result("session/close", {"sessionId": session})
        async with raw_connection(agent, dialect) as client:
            asked = params_of(method, session)
            if dialect == "draft":
                asked = {"sessionId": session, "content": [], "mode": "b", "key": "x", "value": "y"}
            error = await client.error(method, asked)
            assert (error["code"], error["data"]["kind"]) == (code, Kind.INVALID_STATE)
            assert "load or resume" in error["message"]
        await opener.result("session/resume", {"sessionId": session, **AGAIN})
        assert "result" in await prompt_and_wait(opener, session)


def busy_agent() -> tuple[Agent, asyncio.Event, asyncio.Event]:
    """Return an agent whose turns run until an event is set."""
    agent = Agent("busy")
    begun, let_go = asyncio.Event(), asyncio.Event()

    @agent.prompt
    async def answer(turn: Turn) -> None:
        begun.set()
        await let_go.wait()

    return agent, begun, let_go


@pytest.mark.parametrize("method", ["session/prompt", "session/load", "session/resume", "session/fork"])
async def test_while_a_turn_runs_its_session_is_not_prompted_loaded_or_forked(method: str) -> None:
    agent, begun, let_go = busy_agent()
    async with raw_connection(agent) as client, raw_connection(agent) as other:
        session = await new_session(client)
        asked = client.ask("session/prompt", {"sessionId": session, "prompt": []})
        await begun.wait()
        error = await client.error(method, params_of(method, session))
        assert (error["data"]["kind"], error["data"]["state"]) == (Kind.INVALID_STATE, "processing")
        if method in ("session/load", "session/resume"):  # nor does another client take it away
            error = await other.error(method, params_of(method, session))
            assert (error["data"]["kind"], error["data"]["state"]) == (Kind.INVALID_STATE, "processing")
        let_go.set()
        assert (await client.answer(asked))["result"]["stopReason"] == "end_turn"
        assert "result" in await other.call("session/load", params_of("session/load", session))


async def test_a_session_whose_client_disconnected_can_be_opened_by_another() -> None:
    agent, begun, _ = busy_agent()
    async with raw_connection(agent) as client:
        session = await new_session(client)
        client.ask("session/prompt", {"sessionId": session, "prompt": []})
        await begun.wait()
    async with raw_connection(agent) as other:
        assert "error" not in await other.call("session/load", params_of("session/load", session))


async def test_a_session_whose_reopening_a_hook_rejects_stays_closed() -> None:
    agent = agent_with_modes()

    @agent.on_session_reopened
    def reopened(_: Session) -> None:
        raise ProtocolError(Kind.SESSION_EXPIRED, "too old")

    async with raw_connection(agent) as client:
        session = await new_session(client)
        await client.result("session/close", {"sessionId": session})
        error = await client.error("session/load", params_of("session/load", session))
        assert error["data"]["kind"] == Kind.SESSION_EXPIRED
        assert (await prompt_and_wait(client, session))["error"]["data"]["kind"] == Kind.INVALID_STATE


async def test_a_second_initialize_is_rejected() -> None:
    async with raw_connection(agent_with_modes()) as client:
        error = await client.error("initialize", initialize_params("v1", {}))
        assert error["data"]["kind"] == Kind.INVALID_STATE
