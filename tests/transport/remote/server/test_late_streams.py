"""A client may open the stream of a session late: after the answer to session/load, and after the whole history."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx
import pytest

from dragoman import Agent, Turn
from dragoman.errors import WriteStalled
from dragoman.store.memory import MemoryStore
from dragoman.transport.base import HIGH_WATER, Transport
from dragoman.transport.remote.server.auth import Principal
from dragoman.transport.remote.server.endpoint import Endpoint
from dragoman.transport.remote.server.http_transport import HttpServerTransport
from dragoman.transport.remote.server.limits import ServerLimits
from tests.transport.remote.module_server import NEW, Standing, prompt
from tests.transport.remote.server.test_protocols import EVENTS, events

# More than a sender may have waiting before it has to wait itself.
PIECES = 3 * HIGH_WATER // 4096

agent = Agent("late", store=MemoryStore())


@agent.prompt
async def answer(turn: Turn) -> None:
    """Say much, in messages that stay apart."""
    for number in range(PIECES):
        await turn.say(f"{number} ".ljust(4096))
        await turn.think(f"{number}")


async def accept(transport: Transport, client: Principal) -> None:
    await agent.serve(transport)


@pytest.fixture
def server() -> Iterator[Standing]:
    there = Standing(Endpoint(accept))
    yield there
    there.close()


def load(session: str) -> dict[str, object]:
    params = {"sessionId": session, "cwd": "/tmp", "mcpServers": []}
    return {"jsonrpc": "2.0", "id": 3, "method": "session/load", "params": params}


def test_a_large_history_reaches_a_client_that_opens_the_stream_after_the_answer(server: Standing) -> None:
    with server.connect() as client:
        mine = server.initialized(client)
        with client.stream("GET", "", headers={**EVENTS, **mine}) as connection:
            client.post("", json=NEW, headers=mine)
            session = next(each["result"]["sessionId"] for each in events(connection) if each.get("id") == 1)
        there = {**mine, "acp-session-id": session}
        with client.stream("GET", "", headers={**EVENTS, **there}) as stream:
            client.post("", json=prompt(session, "go"), headers=there)
            assert next(each for each in events(stream) if each.get("id") == 2)["result"]["stopReason"] == "end_turn"
        assert history_read_late(server, client, session) == 2 * PIECES


def history_read_late(server: Standing, client: httpx.Client, session: str) -> int:
    """Load a session, and read its stream after the answer has come. Return how many of the agent's updates came."""
    mine = server.initialized(client)
    with client.stream("GET", "", headers={**EVENTS, **mine}) as connection:
        assert client.post("", json=load(session), headers=mine).status_code == 202
        first = []
        for each in events(connection):
            if each.get("id") == 3:
                break
            first.append(each)
        assert "error" not in each
    with client.stream("GET", "", headers={**EVENTS, **mine, "acp-session-id": session}) as stream:
        count = sum("agent_" in str(each) for each in first)
        for each in events(stream):
            count += "agent_" in each["params"]["update"]["sessionUpdate"]
            if f"'{PIECES - 1}'" in str(each):
                return count
    raise AssertionError("the stream ended")


def update(session: str, size: int) -> bytes:
    return b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%b","x":"%b"}}' % (
        session.encode(),
        b"x" * size,
    )


async def test_what_nobody_can_read_yet_delays_nobody_until_the_buffer_is_full() -> None:
    limits = ServerLimits(stall=10.0)
    transport = HttpServerTransport("a client", limits)
    other = transport.open_reader(transport.session_stream("b") or transport._connection_stream, None)
    while transport.buffered_bytes < limits.buffered - 2 * HIGH_WATER:
        transport.send(update("a", 100_000))
    assert not transport.congested()
    assert transport.overdue_error(asyncio.get_running_loop().time() + 1000) is None, "its client may come later"
    transport.send(update("b", HIGH_WATER))
    assert transport.congested(), "this stream is read"
    draining = asyncio.ensure_future(transport.drain())
    await asyncio.sleep(0)
    while transport.take_events(other.stream):
        pass
    await draining
    for _ in range(3):
        transport.send(update("a", 100_000))
    assert transport.congested()
    overdue = transport.overdue_error(asyncio.get_running_loop().time() + 2000)
    assert overdue is not None
    assert isinstance(overdue[0], WriteStalled)
    transport.open_reader(transport.session_stream("a") or transport._connection_stream, None)
    assert transport._unopened_bytes == 0
