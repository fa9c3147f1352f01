"""Our client and the servers of the official SDKs, over HTTP and WebSocket: turns, questions, load where they can.

docs/protocol/http.md#python-sdk and #typescript-sdk list how these servers deviate from the documents. These tests show
which deviations our client handles.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman import Kind, ProtocolError, RemoteAgent, WorkspaceAccess, connect
from dragoman.schema.permission import RequestPermissionParams
from dragoman.schema.update import AgentMessageChunk, AgentThoughtChunk, Plan, ToolCallProgress, ToolCallStart
from tests.interop.commands import peer

TIMEOUT = 90.0


@pytest.fixture(scope="module", params=["py_server", "ts_server"])
def server(request: pytest.FixtureRequest, mark: str) -> Iterator[tuple[str, str]]:
    """A server of an official SDK: its name and its address."""
    process = subprocess.Popen(peer(request.param), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield request.param, process.stdout.readline().strip()
    finally:
        process.stdin.close()
        try:
            process.wait(TIMEOUT)
        finally:
            process.kill()
            process.stdout.close()


@pytest.fixture(params=["http", "ws"])
def url(request: pytest.FixtureRequest, server: tuple[str, str]) -> str:
    """Its address, for either way."""
    return server[1].replace("http", request.param, 1)


class RemoteClient:
    """A client, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[RequestPermissionParams] = []
        self.said: list[str] = []

    def answer(self, question: RequestPermissionParams) -> str:
        """Allow, and record the request."""
        self.asked.append(question)
        return "yes"


def visit(url: str, work: Any, **options: Any) -> RemoteClient:
    """Connect, and call a function with the agent."""
    guest = RemoteClient()

    async def main() -> None:
        async with asyncio.timeout(TIMEOUT):
            async with connect(
                url,
                permission=guest.answer,
                workspace=WorkspaceAccess(approve=lambda _: True),
                report=guest.said.append,
                **options,
            ) as agent:
                await work(agent)

    asyncio.run(main())
    return guest


@pytest.mark.item("OFF-03", "OFF-07")
def test_the_updates_of_a_turn_arrive_in_order(url: str, folder: Path) -> None:
    async def work(agent: RemoteAgent) -> None:
        session = await agent.open_session(str(folder))
        async with session.prompt("tour") as turn:
            kinds = [type(update) async for update in turn]
        assert kinds == [AgentThoughtChunk, Plan, ToolCallStart, ToolCallProgress, *[AgentMessageChunk] * 3]

    assert visit(url, work).said == []


@pytest.mark.item("OFF-03", "OFF-07")
def test_permission_is_requested_and_answered_during_a_turn(url: str, folder: Path) -> None:
    async def work(agent: RemoteAgent) -> None:
        session = await agent.open_session(str(folder))
        assert await session.ask("ask") == "yes"

    guest = visit(url, work)
    assert [question.tool_call.title for question in guest.asked] == ["May I?"]


def test_the_agent_uses_the_clients_files_over_the_network(url: str, tmp_path: Path) -> None:
    async def work(agent: RemoteAgent) -> None:
        session = await agent.open_session(str(tmp_path))
        assert await session.ask(f"write {tmp_path / 'a.txt'} some text") == "written"
        assert await session.ask(f"read {tmp_path / 'a.txt'}") == "some text"

    visit(url, work)
    assert (tmp_path / "a.txt").read_text() == "some text"


def test_two_sessions_of_one_connection_do_not_mix(url: str, folder: Path) -> None:
    async def work(agent: RemoteAgent) -> None:
        one, two = await agent.open_session(str(folder)), await agent.open_session(str(folder))
        texts = await asyncio.gather(one.ask("say one"), two.ask("say two"))
        assert list(texts) == ["one", "two"]

    visit(url, work)


def test_a_turn_is_cancelled(url: str, folder: Path) -> None:
    async def work(agent: RemoteAgent) -> None:
        session = await agent.open_session(str(folder))
        async with session.prompt("slow") as turn:
            async for update in turn:
                if isinstance(update, ToolCallStart):
                    turn.cancel()
        assert turn.stop_reason == "cancelled"

    visit(url, work)


def test_large_messages_pass_both_ways(url: str, folder: Path) -> None:
    async def work(agent: RemoteAgent) -> None:
        session = await agent.open_session(str(folder))
        assert await session.ask("big 1000000") == "é" * 1_000_000
        large = "x" * 900_000
        assert await session.ask(f"say {large}") == large

    visit(url, work)


@pytest.mark.item("OFF-03", "OFF-07")
def test_a_session_is_loaded_over_another_connection_if_the_server_supports_it(
    server: tuple[str, str], url: str, folder: Path
) -> None:
    kept: list[str] = []

    async def begin(agent: RemoteAgent) -> None:
        session = await agent.open_session(str(folder))
        assert await session.ask("say before") == "before"
        kept.append(session.id)

    async def go_on(agent: RemoteAgent) -> None:
        session = await agent.load_session(kept[0], str(folder))
        raised = [update.content.text for update in session.updates_outside_turns]  # the history came before the answer
        assert raised == ["say before", "before"]
        assert await session.ask("say after") == "after"

    visit(url, begin)
    if server[0] == "ts_server":
        visit(url, go_on)
        return
    # The official Python server makes an agent for each connection, and has no way back over HTTP
    # (docs/protocol/http.md#python-sdk).
    with pytest.raises(ProtocolError) as raised:
        visit(url, go_on)
    assert raised.value.kind in (Kind.RESOURCE_NOT_FOUND, Kind.SESSION_NOT_FOUND)
