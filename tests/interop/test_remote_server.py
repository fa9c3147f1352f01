"""Remote clients of the official SDKs and our server, over HTTP and WebSocket: turns, questions, files, load."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.commands import PEERS
from tests.interop.remote import RemoteClient

TIMEOUT = 90.0


@pytest.fixture(scope="module")
def server(mark: str) -> Iterator[str]:
    """The address of the everything agent behind our server."""
    command = [sys.executable, str(PEERS / "our_server.py")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        try:
            process.wait(TIMEOUT)
        finally:
            process.kill()
            process.stdout.close()


@pytest.fixture(scope="module", params=["http", "ws"])
def url(request: pytest.FixtureRequest, server: str) -> str:
    """Its address, for either way."""
    return server.replace("http", request.param, 1)


@pytest.fixture
def agent(client: RemoteClient, url: str, folder: Path) -> RemoteClient:
    """A client that is connected to the agent."""
    started = client("start", url=url, cwd=str(folder))
    assert started.result["agentCapabilities"]["loadSession"] is True
    return client


@pytest.mark.item("OFF-03", "OFF-07")
def test_a_turn_with_a_permission_request_is_completed(agent: RemoteClient, folder: Path) -> None:
    session = agent("new", cwd=str(folder)).result["sessionId"]
    turn = agent("prompt", session=session, text="/echo ünd 😀")
    assert (turn.result["stopReason"], turn.text) == ("end_turn", "ünd 😀")
    asked = agent("prompt", session=session, text="/ask", answer="allow_once")
    assert asked.result["stopReason"] == "end_turn"
    assert len(asked.asked) == 1
    refused = agent("prompt", session=session, text="/ask", answer="reject_once")
    assert refused.text != asked.text


def test_the_clients_files_and_terminals_are_used(agent: RemoteClient, folder: Path) -> None:
    session = agent("new", cwd=str(folder)).result["sessionId"]
    turn = agent("prompt", session=session, text="/write note.txt remote", answer="allow_once")
    assert turn.result["stopReason"] == "end_turn"
    assert (folder / "note.txt").read_text() == "remote"
    assert "write" in turn.calls
    assert "hello" in str(agent("prompt", session=session, text="/run echo hello", answer="allow_once").updates)


def test_a_turn_is_cancelled_in_the_middle(agent: RemoteClient, folder: Path) -> None:
    session = agent("new", cwd=str(folder)).result["sessionId"]
    turn = agent("prompt", session=session, text="/slow 60", cancel_on="tool_call_update")
    assert turn.result["stopReason"] == "cancelled"


def test_many_updates_arrive_in_order(agent: RemoteClient, folder: Path) -> None:
    session = agent("new", cwd=str(folder)).result["sessionId"]
    words = " ".join(str(number) for number in range(500))
    assert f"> {words}\n" in agent("prompt", session=session, text=words).text


@pytest.mark.item("OFF-03", "OFF-07")
def test_a_session_is_loaded_over_a_new_connection(agent: RemoteClient, url: str, folder: Path) -> None:
    session = agent("new", cwd=str(folder)).result["sessionId"]
    agent("prompt", session=session, text="/echo before")
    agent("stop")
    agent("start", url=url, cwd=str(folder))
    loaded = agent("load", session=session, cwd=str(folder))
    turn = agent("prompt", session=session, text="/echo after")
    received = [*loaded.updates, *turn.updates]
    texts = [update["content"]["text"] for update in received if update["sessionUpdate"] == "agent_message_chunk"]
    assert texts == ["before", "after"], "the history comes once, and before what follows"
