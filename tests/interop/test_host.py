"""Two real clients in one session of a host: an official SDK over `dragoman attach`, ours over WebSocket.

The agent of the host uses another dialect than both. At the end, both have received the same.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman import connect
from dragoman.roles.client.session import ClientSession
from tests.interop.commands import DRAGOMAN, EVERYTHING
from tests.interop.remote import RemoteClient

TIMEOUT = 90.0


@pytest.fixture(scope="module")
def host(mark: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A host whose agent uses the draft: its address."""
    process = subprocess.Popen(
        [*DRAGOMAN, "serve", "--json", "--bind", "127.0.0.1:0", "--", *EVERYTHING, "--dialect", "draft"],
        cwd=tmp_path_factory.mktemp("host"),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield str(json.loads(process.stdout.readline())["url"])
    finally:
        process.terminate()
        try:
            assert process.wait(TIMEOUT) == 0
        finally:
            process.kill()
            process.stdout.close()


@pytest.mark.parametrize("name", ["py_client", "ts_client"])
def test_an_official_client_and_ours_get_the_same_updates_in_one_session(host: str, name: str, tmp_path: Path) -> None:
    cwd = str(tmp_path)
    theirs = RemoteClient(name)
    received: list[dict[str, Any]] = []

    async def scene() -> None:
        theirs("start", cwd=cwd, command=[*DRAGOMAN, "attach", host], offers_files=False)
        session = theirs("new", cwd=cwd).result["sessionId"]
        first = theirs("prompt", session=session, text="/write a.txt hello", answer="allow_once")
        assert [question["toolCall"]["title"] for question in first.asked] == ["Write a.txt"]
        assert (tmp_path / "a.txt").read_text().strip() == "hello"
        async with asyncio.timeout(TIMEOUT), connect(host.replace("http", "ws"), permission="deny") as remote:
            ours = await remote.load_session(session, cwd)
            assert await ours.ask("/echo from us") == "from us"
            # In a thread: the official client may wait for us, who are in the same room.
            last = await asyncio.to_thread(theirs, "prompt", session=session, text="/echo from them")
            received.extend([*first.updates, *last.updates])
            while not messages_of(ours)[-1][1].endswith("from them"):  # noqa: ASYNC110 (it comes in its own time)
                await asyncio.sleep(0.01)
            assert "".join(text for role, text in messages_of(ours) if role == "agent") == agents_words(received)
            asked = [text for role, text in messages_of(ours) if role == "user"]
            assert asked == ["/write a.txt hello", "/echo from us", "/echo from them"]
            assert [each["content"]["text"] for each in received if each["sessionUpdate"] == "user_message_chunk"] == [
                "/echo from us"
            ]
            assert finished(received) == [(call.title, call.status) for call in ours.tool_calls.values()]
            await remote.delete_session(session)  # else its agent lives on, as it should

    try:
        asyncio.run(scene())
    finally:
        theirs.close()


def messages_of(session: ClientSession) -> list[tuple[str, str]]:
    """The messages with their roles, as our client received them."""
    return [(message.role, message.text) for message in session.transcript.messages]


def agents_words(updates: list[dict[str, Any]]) -> str:
    """The whole text of the agent."""
    return "".join(each["content"]["text"] for each in updates if each["sessionUpdate"] == "agent_message_chunk")


def finished(updates: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Tool calls by title, each with its last status."""
    calls: dict[str, dict[str, Any]] = {}
    for update in updates:
        if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
            calls.setdefault(update["toolCallId"], {}).update(update)
    return [(call["title"], call["status"]) for call in calls.values()]
