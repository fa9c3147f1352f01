"""Which method is allowed when: initialize first and once, one turn at a time in a session."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman import Agent
from dragoman.engine.lifecycle import IDLE, PROCESSING, Lifecycle
from dragoman.errors import Kind, ProtocolError
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import memory_pair
from tests.engine.raw_peer import call


def refusal(lifecycle: Lifecycle, method: str, session: str | None = None) -> ProtocolError | None:
    try:
        lifecycle.check_allowed(method, session)
    except ProtocolError as error:
        return error
    return None


@pytest.mark.parametrize("method", ["session/new", "session/prompt", "authenticate", "unheard", "session/cancel"])
def test_other_requests_are_refused_before_initialize(method: str) -> None:
    lifecycle = Lifecycle()
    error = refusal(lifecycle, method)
    assert error is not None
    assert error.kind == Kind.INVALID_STATE
    assert refusal(lifecycle, "initialize") is None
    lifecycle.is_initialized = True
    assert refusal(lifecycle, method) is None


def test_extensions_and_cancels_are_allowed_before_initialize() -> None:
    assert refusal(Lifecycle(), "_acme/hello") is None
    assert refusal(Lifecycle(), "$/cancel_request") is None


def test_a_second_initialize_is_refused() -> None:
    lifecycle = Lifecycle()
    lifecycle.is_initialized = True
    error = refusal(lifecycle, "initialize")
    assert error is not None
    assert error.kind == Kind.INVALID_STATE


@pytest.mark.parametrize("method", ["session/prompt", "session/load", "session/resume", "session/fork"])
def test_a_second_prompt_during_a_turn_is_refused(method: str) -> None:
    lifecycle = Lifecycle()
    lifecycle.is_initialized = True
    lifecycle.open_session("s")
    assert refusal(lifecycle, method, "s") is None
    lifecycle.begin_turn("s")
    error = refusal(lifecycle, method, "s")
    assert error is not None
    assert (error.kind, error.data) == (Kind.INVALID_STATE, {"sessionId": "s", "state": PROCESSING})
    assert refusal(lifecycle, method, "another") is None
    assert refusal(lifecycle, "session/set_mode", "s") is None
    lifecycle.end_turn("s")
    assert lifecycle.sessions == {"s": IDLE}
    assert refusal(lifecycle, method, "s") is None


def test_a_session_that_was_closed_meanwhile_stays_closed() -> None:
    lifecycle = Lifecycle()
    lifecycle.open_session("s")
    lifecycle.begin_turn("s")
    lifecycle.close_session("s")
    lifecycle.end_turn("s")
    assert lifecycle.sessions == {}


WORDS: dict[str, tuple[Any, Any, Any, int]] = {
    "v1": (
        {"protocolVersion": 1, "clientCapabilities": {}},
        {"cwd": "/", "mcpServers": []},
        lambda id: {"sessionId": id, "prompt": [{"type": "text", "text": "go"}]},
        -32600,
    ),
    "2025.1": (
        {"protocol_version": "2025.1", "capabilities": {}, "client_info": {"name": "c", "version": "1"}},
        {"session_id": "mine"},
        lambda id: {"session_id": id, "content": [{"type": "text", "text": "go"}]},
        -32003,
    ),
    "draft": (
        {"protocolVersion": 1, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
        {"workingDirectory": "/"},
        lambda id: {"sessionId": id, "content": [{"type": "text", "text": "go"}]},
        -32006,
    ),
}


@pytest.mark.item("000-18")
@pytest.mark.parametrize("name", WORDS)
async def test_an_invalid_state_error_has_the_code_of_the_dialect(name: str) -> None:
    initialize, new, prompt, code = WORDS[name]

    release = asyncio.Event()
    agent = Agent("waits", version="1", dialect=name)

    @agent.prompt
    async def answer(_: Any) -> None:
        await release.wait()

    ours, theirs = memory_pair()
    connection = agent.start_connection(ours, report=lambda _: None)
    peer = ScriptedPeer(theirs)
    wrong = {"code": code, "data": {"kind": "invalid_state"}}

    async def refused(id: int, method: str, params: Any) -> None:
        peer.send(call(id, method, params))
        await peer.expect(id=id, error=wrong)

    await refused(1, "session/new", new)
    await refused(2, "session/prompt", prompt("none"))
    assert "result" in await peer.request(3, "initialize", initialize)
    await refused(4, "initialize", initialize)
    opened = (await peer.request(5, "session/new", new))["result"]
    id = opened.get("sessionId") or opened.get("session_id") or "mine"
    peer.send(call(6, "session/prompt", prompt(id)))
    await refused(7, "session/prompt", prompt(id))
    release.set()
    assert "result" in (received := await peer.receive())
    assert received["id"] == 6
    assert "result" in await peer.request(8, "session/prompt", prompt(id))
    await connection.close()
