"""docs/protocol/draft.md#error-codes: the error codes, what errors carry, limits and timeouts (recovery is in
tests/roles).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from dragoman import Agent, Kind, ProtocolError, Turn, WorkspaceAccess
from dragoman.transport.memory import memory_pair
from tests.acceptance.draft import (
    CREATED,
    SESSION,
    Raw,
    during_turn,
    open_session,
    playing,
    prompted,
    run,
    serving,
    text_prompt,
)

CODES = {
    Kind.SESSION_NOT_FOUND: -32000,
    Kind.AUTH_REQUIRED: -32001,
    Kind.PERMISSION_DENIED: -32002,
    Kind.CANCELLED: -32003,
    Kind.RESOURCE_NOT_FOUND: -32004,
    Kind.ACCESS_DENIED: -32005,
    Kind.INVALID_STATE: -32006,
    Kind.CAPABILITY_UNSUPPORTED: -32007,
    Kind.RATE_LIMITED: -32008,
    Kind.TIMEOUT: -32009,
}
STANDARD = {
    Kind.PARSE_ERROR: -32700,
    Kind.INVALID_REQUEST: -32600,
    Kind.METHOD_NOT_FOUND: -32601,
    Kind.INVALID_PARAMS: -32602,
    Kind.INTERNAL_ERROR: -32603,
}


def doing(work: Callable[[Turn], Awaitable[None]]) -> Agent:
    """Return an agent that does this in every turn."""
    agent = Agent("worker", version="1", dialect="draft")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await work(turn)

    return agent


# --- 15.1 codes -----------------------------------------------------------------------------------------------


@pytest.mark.item("004-58")
@pytest.mark.parametrize(("kind", "code"), [*CODES.items(), *STANDARD.items()])
def test_every_kind_of_error_has_the_drafts_code_both_ways(kind: str, code: int) -> None:
    """Raised by an agent's author it is this number on the wire; the bare number is that kind to our client."""

    async def fail(_: Turn) -> None:
        raise ProtocolError(kind, "on purpose")

    async def agent_side() -> None:
        async with serving(doing(fail)) as client:
            error = (await prompted(client, await open_session(client)))["error"]
            assert (error["code"], error["message"]) == (code, "on purpose")

    async def client_side() -> None:
        async def part(agent: Raw) -> None:
            agent.reply(await agent.expect(method="session/new"), {"sessionId": SESSION, "createdAt": CREATED})
            agent.refuse(await agent.expect(method="session/prompt"), code, "on purpose")

        async with playing(part) as remote:
            session = await remote.open_session("/")
            with pytest.raises(ProtocolError, match="on purpose") as refusal:
                await session.ask("go")
            assert refusal.value.kind == kind

    run(agent_side())
    run(client_side())


@pytest.mark.item("004-58")
async def test_our_agent_sends_each_error_code_for_its_cause() -> None:
    """What really goes wrong at an agent: no initialize, no such session, a second turn, content it does not take, a
    call it does not serve, leave that is refused, a client that never answers."""

    async def work_on(turn: Turn) -> None:
        if turn.text == "wait":
            await asyncio.Event().wait()
        elif turn.text == "leave":
            await turn.require_permission("May I?", kind="edit")
        elif turn.text == "silence":
            await turn.session.request("_vendor/silent", {}, timeout=0.05)

    agent = doing(work_on)
    ours, theirs = memory_pair()
    connection = agent.start_connection(theirs)
    early = Raw(ours)
    assert (await early.error("session/new", {"workingDirectory": "/"}))["code"] == -32006
    await connection.close()
    async with serving(agent) as client:
        client.answers["session/request_permission"] = lambda _: {"granted": False}
        assert (await client.error("session/prompt", text_prompt("sess_invalid")))["code"] == -32000
        assert (await client.error("session/load", {"sessionId": "sess_invalid"}))["code"] == -32000
        session = await open_session(client)
        running = client.ask("session/prompt", text_prompt(session, "wait"))
        assert (await client.error("session/prompt", text_prompt(session)))["code"] == -32006
        client.notify("session/cancel", {"sessionId": session})
        assert (await client.answer(running))["result"]["stopReason"] == "cancelled"
        image = {"type": "image", "source": {"type": "base64", "mediaType": "image/png", "data": ""}}
        refused = await client.error("session/prompt", {"sessionId": session, "content": [image]})
        assert refused["code"] == -32007
        assert (await prompted(client, session, "leave"))["error"]["code"] == -32002
        id = client.ask("session/prompt", text_prompt(session, "silence"))
        await client.wait_for_call("_vendor/silent")  # and never an answer
        assert (await client.answer(id))["error"]["code"] == -32009
        assert (await client.error("session/nothing", {}))["code"] == -32601
        assert (await client.error("session/new", {"workingDirectory": 5}))["code"] == -32602


@pytest.mark.item("004-58")
async def test_our_client_sends_each_error_code_for_its_cause(tmp_path: Path) -> None:
    """What really goes wrong at a client: a missing file, one outside, leave refused, what it does not lend."""

    async def part(agent: Raw) -> None:
        missing = await agent.error("fs/read_text_file", {"path": str(tmp_path / "none")})
        assert missing["code"] == -32004
        assert (await agent.error("fs/read_text_file", {"path": "/etc/hostname"}))["code"] == -32005
        refused = await agent.error("fs/write_text_file", {"path": str(tmp_path / "a"), "content": "x"})
        assert refused["code"] == -32002
        assert (await agent.error("terminal/create", {"command": "true"}))["code"] == -32007

    workspace = WorkspaceAccess(terminals=False, approve=lambda question: question.operation == "read")
    await during_turn(tmp_path, part, workspace=workspace)


# --- 15.2 what an error carries -------------------------------------------------------------------------------


@pytest.mark.item("004-59")
async def test_an_error_has_data_that_explains_it() -> None:
    """code, message and data: the session and a suggestion for an unknown one, the members that were wrong, the state,
    the missing capability; and data of an author's own goes along."""

    async def fail(_: Turn) -> None:
        raise ProtocolError(Kind.RATE_LIMITED, "slow down", {"retryAfter": 30, "suggestion": "wait half a minute"})

    async with serving(doing(fail)) as client:
        unknown = await client.error("session/prompt", text_prompt("sess_invalid"))
        assert unknown["code"] == -32000
        assert isinstance(unknown["message"], str)
        assert unknown["data"]["sessionId"] == "sess_invalid"
        assert "session/new" in unknown["data"]["suggestion"]
        wrong = await client.error("session/new", {"workingDirectory": 5})
        assert wrong["code"] == -32602
        assert wrong["data"]["errors"]
        limited = (await prompted(client, await open_session(client)))["error"]
        assert limited["data"].items() >= {"retryAfter": 30, "suggestion": "wait half a minute"}.items()


@pytest.mark.item("004-59")
async def test_our_client_receives_the_data_of_an_error() -> None:
    """The error object of section 15.2, as it stands there, is raised with its kind, its message and its data."""

    data = {"sessionId": "sess_invalid", "suggestion": "Create a new session with session/new"}

    async def part(agent: Raw) -> None:
        asked = await agent.expect(method="session/load")
        error = {"code": -32000, "message": "Session not found", "data": data}
        agent.send({"jsonrpc": "2.0", "id": asked["id"], "error": error})

    async with playing(part) as remote:
        with pytest.raises(ProtocolError, match="Session not found") as refusal:
            await remote.load_session("sess_invalid", "/")
        assert refusal.value.kind == Kind.SESSION_NOT_FOUND
        assert refusal.value.data is not None
        assert refusal.value.data.items() >= data.items()


# --- 15.1 limits and timeouts ---------------------------------------------------------------------------------


@pytest.mark.item("004-61")
async def test_an_agent_limits_the_rate_and_reports_it() -> None:
    """An agent that takes two prompts refuses the third with -32008 and a time to wait, and goes on afterwards; our
    client's author sees the kind."""
    taken: list[str] = []

    async def limited(turn: Turn) -> None:
        if len(taken) == 2:
            taken.clear()
            raise ProtocolError(Kind.RATE_LIMITED, "two prompts a minute", {"retryAfterMs": 20})
        taken.append(turn.text)

    async with serving(doing(limited)) as client:
        session = await open_session(client)
        for _ in range(2):
            assert "result" in await prompted(client, session)
        error = (await prompted(client, session))["error"]
        assert (error["code"], error["data"]["retryAfterMs"]) == (-32008, 20)
        assert "result" in await prompted(client, session)

    async def part(agent: Raw) -> None:
        agent.reply(await agent.expect(method="session/new"), {"sessionId": SESSION, "createdAt": CREATED})
        agent.refuse(await agent.expect(method="session/set_mode"), -32008, "Rate limited")

    async with playing(part) as remote:
        session_ = await remote.open_session("/")
        with pytest.raises(ProtocolError) as refusal:
            await session_.set_mode("plan")
        assert refusal.value.kind == Kind.RATE_LIMITED


@pytest.mark.item("004-61")
async def test_our_client_limits_terminals_and_reports_it(tmp_path: Path) -> None:
    """One more than the limit is -32008; after a release there is room again."""

    async def part(agent: Raw) -> None:
        agent.answers["terminal/output"] = lambda _: {"received": True}
        terminals: list[str] = []
        while True:
            answered = await agent.call("terminal/create", {"command": "sleep", "args": ["600"]})
            if "error" in answered:
                break
            terminals.append(answered["result"]["terminalId"])
            assert len(terminals) < 100
        assert answered["error"]["code"] == -32008
        await agent.result("terminal/release", {"terminalId": terminals[0]})
        assert "result" in await agent.call("terminal/create", {"command": "true"})

    await during_turn(tmp_path, part, workspace=WorkspaceAccess())


@pytest.mark.item("004-62")
async def test_a_request_that_takes_too_long_fails_with_timeout() -> None:
    """A limit of the author's, a client that never answers, and our own client's wait: -32009 on the wire, the kind
    `timeout` for whoever waits, and the turn is over."""

    async def slow(turn: Turn) -> None:
        if turn.text == "own":
            async with asyncio.timeout(0.02):
                await asyncio.Event().wait()
        else:
            await turn.session.request("_vendor/silent", {}, timeout=0.02)

    async with serving(doing(slow)) as client:
        session = await open_session(client)
        assert (await prompted(client, session, "own"))["error"]["code"] == -32009
        id = client.ask("session/prompt", text_prompt(session, "client"))
        await client.wait_for_call("_vendor/silent")
        assert (await client.answer(id))["error"]["code"] == -32009

    async def part(agent: Raw) -> None:
        await agent.expect(method="_vendor/slow")

    async with playing(part) as remote:
        with pytest.raises(ProtocolError) as refusal:
            await remote.request("_vendor/slow", {}, timeout=0.02)
        assert refusal.value.kind == Kind.TIMEOUT
