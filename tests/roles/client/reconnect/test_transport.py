"""A client whose connection is gone for good comes back by itself: same introduction, same sessions, nothing twice."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dragoman import Agent, Turn, connect
from dragoman.errors import ConnectionFailed, TransportClosed, Unreachable
from dragoman.roles.client.reconnect.transport import ReconnectingTransport, dial_reconnecting
from dragoman.transport.base import Transport
from dragoman.transport.memory import MemoryTransport, memory_pair
from dragoman.transport.remote.errors import ClosedByServer
from dragoman.transport.remote.retry import Backoff
from dragoman.transport.remote.server.auth import Principal
from dragoman.transport.remote.server.endpoint import Endpoint
from dragoman.transport.remote.server.listener import open_listener

WITHIN = 20.0
EAGER = Backoff(initial_delay=0.001, max_delay=0.01, give_up_after=5.0)

ATTACHES = {"_meta": {"dragoman": {"attach": True}}}
LOADS = {"loadSession": True}


def say(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}, separators=(",", ":")).encode()


def update(text: str, seq: int | None = None) -> bytes:
    params: dict[str, Any] = {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "text": text}}
    if seq is not None:
        params["_meta"] = {"dragoman": {"seq": seq}}
    return say(method="session/update", params=params)


class Host:
    """The other end of every connection that is dialled, played by the test."""

    def __init__(self, capabilities: dict[str, Any]) -> None:
        self.capabilities = capabilities
        self.lines: asyncio.Queue[MemoryTransport] = asyncio.Queue()
        self.said: list[str] = []
        self.told = asyncio.Event()
        self.refusal: ConnectionFailed | None = None

    def report(self, line: str) -> None:
        self.said.append(line)
        self.told.set()

    async def dial(self) -> Transport:
        if self.refusal is not None:
            raise self.refusal
        ours, theirs = memory_pair()
        self.lines.put_nowait(theirs)
        return ours

    async def hear(self, line: Transport) -> dict[str, Any]:
        """The next message; exactly one has been sent."""
        frames = await line.receive()
        assert len(frames) == 1, frames
        assert isinstance(frames[0], bytes)
        message: dict[str, Any] = json.loads(frames[0])
        return message

    async def greet(self, line: Transport) -> dict[str, Any]:
        """Answer initialize."""
        asked = await self.hear(line)
        assert asked["method"] == "initialize"
        line.send(say(id=asked["id"], result={"protocolVersion": 1, "agentCapabilities": self.capabilities}))
        return asked

    async def open(self) -> tuple[ReconnectingTransport, MemoryTransport]:
        """A client that has introduced itself and opened session s."""
        client = await dial_reconnecting(self.dial, backoff=EAGER, report=self.report)
        line = await self.lines.get()
        client.send(say(id=0, method="initialize", params={"protocolVersion": 1, "clientInfo": {"name": "x"}}))
        await self.greet(line)
        client.send(say(id=1, method="session/new", params={"cwd": "/w", "mcpServers": []}))
        await self.hear(line)
        line.send(say(id=1, result={"sessionId": "s"}))
        assert len(await heard(client, 2)) == 2
        return client, line


async def heard(client: Transport, count: int) -> list[dict[str, Any]]:
    frames: list[Any] = []
    while len(frames) < count:
        frames += await client.receive()
    return [json.loads(frame) for frame in frames]


def play(work: Callable[[Host], Awaitable[None]], capabilities: dict[str, Any] = ATTACHES) -> Host:
    async def main() -> Host:
        host = Host(capabilities)
        await work(host)
        return host

    return asyncio.run(asyncio.wait_for(main(), WITHIN))


def test_a_session_is_joined_after_the_last_entry_that_was_told() -> None:
    async def work(host: Host) -> None:
        client, line = await host.open()
        for seq in (4, 5):
            line.send(update("old", seq))
        await heard(client, 2)
        await line.close("the host was restarted")
        line = await host.lines.get()
        introduced = await host.greet(line)
        assert introduced["params"] == {"protocolVersion": 1, "clientInfo": {"name": "x"}}
        joined = await host.hear(line)
        assert (joined["method"], joined["params"]) == ("session/attach", {"sessionId": "s", "cursor": 5})
        for frame in (update("again", 5), update("new", 6), say(id=joined["id"], result={})):
            line.send(frame)
        line.send(update("newer", 7))
        got = await heard(client, 2)
        assert [message["params"]["update"]["text"] for message in got] == ["new", "newer"]
        await host.told.wait()
        await client.close()

    assert [line.partition(": ")[2] for line in play(work).said] == ["a new connection; 1 session joined again"]


def test_what_was_open_is_answered_after_the_history_that_was_missed() -> None:
    async def work(host: Host) -> None:
        client, line = await host.open()
        client.send(say(id=2, method="session/prompt", params={"sessionId": "s", "prompt": []}))
        await host.hear(line)
        line.send(update("one", 1))
        await heard(client, 1)
        await line.close()
        line = await host.lines.get()
        await host.greet(line)
        joined = await host.hear(line)
        line.send(update("two", 2))
        line.send(say(id=joined["id"], result={}))
        two, lost = await heard(client, 2)
        assert two["params"]["update"]["text"] == "two"
        assert (lost["id"], lost["error"]["data"]["kind"]) == (2, "connection_lost")
        assert "prompt again" in lost["error"]["message"]
        await client.close()

    play(work)


def test_a_question_of_the_last_connection_is_taken_back_and_asked_anew() -> None:
    async def work(host: Host) -> None:
        client, line = await host.open()
        question = say(id=0, method="session/request_permission", params={"sessionId": "s"})
        line.send(question)
        await heard(client, 1)
        await line.close()
        line = await host.lines.get()
        await host.greet(line)
        joined = await host.hear(line)
        line.send(question)
        line.send(say(id=joined["id"], result={}))
        back, again = await heard(client, 2)
        assert (back["method"], back["params"]) == ("$/cancel_request", {"requestId": 0})
        assert again["method"] == "session/request_permission"
        assert again["id"] != 0
        client.send(say(id=0, result={"outcome": {"outcome": "cancelled"}}))  # the answer to the one taken back
        client.send(say(id=again["id"], result={"outcome": {"outcome": "selected", "optionId": "yes"}}))
        answer = await host.hear(line)
        assert (answer["id"], answer["result"]["outcome"]["outcome"]) == (0, "selected")
        await client.close()

    play(work)


def test_what_is_said_meanwhile_is_sent_when_there_is_a_connection_again() -> None:
    async def work(host: Host) -> None:
        client, line = await host.open()
        host.refusal = Unreachable("nobody listens", is_passing=True)
        await line.close()
        await host.told.wait()
        client.send(say(id=7, method="session/list", params={}))
        assert not client.congested()
        host.refusal = None
        line = await host.lines.get()
        await host.greet(line)
        joined = await host.hear(line)
        line.send(say(id=joined["id"], result={}))
        assert (await host.hear(line))["method"] == "session/list"
        line.send(say(id=7, result={"sessions": []}))
        assert (await heard(client, 1))[0]["id"] == 7
        await client.close()

    said = play(work).said
    assert "trying again" in said[0]
    assert "connected again" in said[1]


def test_an_agent_that_tells_all_again_on_load_is_not_heard_twice() -> None:
    async def work(host: Host) -> None:
        client, line = await host.open()
        line.send(update("one"))
        await heard(client, 1)
        await line.close()
        line = await host.lines.get()
        await host.greet(line)
        joined = await host.hear(line)
        assert joined["method"] == "session/load"
        assert joined["params"] == {"sessionId": "s", "cwd": "/w", "mcpServers": []}
        line.send(update("one"))
        line.send(say(id=joined["id"], result={}))
        line.send(update("two"))
        (two,) = await heard(client, 1)
        assert two["params"]["update"]["text"] == "two"
        await client.close()

    play(work, LOADS)


def test_a_session_that_is_no_longer_there_is_told_and_left() -> None:
    async def work(host: Host) -> None:
        client, line = await host.open()
        await line.close()
        line = await host.lines.get()
        await host.greet(line)
        joined = await host.hear(line)
        line.send(say(id=joined["id"], error={"code": -32002, "message": "no such session"}))
        line.send(say(method="_after"))
        assert (await heard(client, 1))[0]["method"] == "_after"
        await host.told.wait()
        await client.close()

    assert "no such session" in play(work).said[0]


@pytest.mark.parametrize(
    ("capabilities", "refusal", "says"),
    [
        ({}, None, "closed the connection"),  # it could not load the session
        (ATTACHES, Unreachable("the token is not valid any more", status=401), "not valid any more"),
    ],
)
def test_there_is_an_end_where_coming_back_makes_no_sense(
    capabilities: dict[str, Any], refusal: ConnectionFailed | None, says: str
) -> None:
    async def work(host: Host) -> None:
        client, line = await host.open()
        host.refusal = refusal
        await line.close()
        with pytest.raises(ConnectionFailed, match=says):
            await client.receive()
        with pytest.raises(ConnectionFailed):
            client.send(b"{}")
        await client.close()

    play(work, capabilities)


def test_a_server_that_said_goodbye_is_left_alone() -> None:
    async def work(host: Host) -> None:
        client, line = await host.open()
        line._other._fail(ClosedByServer("the host removed you"))
        with pytest.raises(TransportClosed, match="removed you"):
            await client.receive()
        await client.close()

    play(work)


def test_what_fails_before_anything_began_is_simply_told() -> None:
    host = Host({})
    host.refusal = Unreachable("nobody listens", is_passing=True)
    with pytest.raises(Unreachable, match="nobody listens"):
        asyncio.run(dial_reconnecting(host.dial, backoff=EAGER))


def test_a_session_that_cannot_be_joined_yet_is_tried_again_and_what_is_said_in_it_waits() -> None:
    async def work(host: Host) -> None:
        client, line = await host.open()
        client.send(say(id=2, method="session/new", params={"cwd": "/w", "mcpServers": []}))
        await host.hear(line)
        line.send(say(id=2, result={"sessionId": "t"}))
        await heard(client, 1)
        await line.close()
        line = await host.lines.get()
        await host.greet(line)
        busy = {"code": -32603, "message": "it crashed", "data": {"kind": "rate_limited", "retryAfter": 0.01}}
        line.send(say(id=(await host.hear(line))["id"], error=busy))
        line.send(say(id=(await host.hear(line))["id"], result={}))
        await host.told.wait()  # one of the two is joined, and goes on
        client.send(say(id=3, method="session/prompt", params={"sessionId": "s", "prompt": []}))
        client.send(say(id=4, method="session/prompt", params={"sessionId": "t", "prompt": []}))
        said = [await host.hear(line), await host.hear(line)]
        assert sorted(each["method"] for each in said) == ["session/attach", "session/prompt"]
        assert {each["params"]["sessionId"] for each in said if "prompt" in each["params"]} == {"t"}
        (again,) = (each for each in said if each["method"] == "session/attach")
        line.send(say(id=again["id"], error=busy))
        again = await host.hear(line)
        line.send(update("missed", 1))
        line.send(say(id=again["id"], result={}))
        waited = await host.hear(line)
        assert (waited["id"], waited["params"]["sessionId"]) == (3, "s")
        assert (await heard(client, 1))[0]["params"]["update"]["text"] == "missed"
        await client.close()

    said = [line.partition(": ")[2] for line in play(work).said]
    assert said[0] == "a new connection; 1 session joined again"
    assert "session s: cannot be joined yet; trying again for" in said[1]
    assert "(it crashed)" in said[1]
    assert "session s: joined again after" in said[2]


def test_a_session_that_nobody_answers_for_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.roles.client.reconnect.attach.ANSWER_TIMEOUT", 0.05)

    async def work(host: Host) -> None:
        client, line = await host.open()
        client.send(say(id=2, method="session/load", params={"sessionId": "t", "cwd": "/w", "mcpServers": []}))
        await host.hear(line)
        line.send(say(id=2, result={}))
        await heard(client, 1)
        await line.close()
        line = await host.lines.get()
        await host.greet(line)
        assert (await host.hear(line))["params"]["sessionId"] == "s"
        joined = await host.hear(line)
        assert joined["params"]["sessionId"] == "t"
        line.send(say(id=joined["id"], result={}))
        await host.told.wait()
        await client.close()

    assert "1 session joined again" in play(work).said[0]


def test_whatever_goes_wrong_on_the_way_back_is_told_to_who_receives() -> None:
    async def work(host: Host) -> None:
        client, line = await host.open()
        client.send(say(id=2, method="session/prompt", params={"sessionId": "s", "prompt": []}))
        await host.hear(line)
        host.refusal = KeyError("a fault of ours")  # type: ignore[assignment]
        await line.close()
        assert (await heard(client, 1))[0]["error"]["data"]["kind"] == "connection_lost"
        with pytest.raises(ConnectionFailed, match=r"could not go on.*a fault of ours"):
            await client.receive()
        await client.close()

    play(work)


def test_who_only_looked_on_comes_back_to_look_on() -> None:
    async def work(host: Host) -> None:
        client, line = await host.open()
        client.send(say(id=2, method="session/attach", params={"sessionId": "t", "role": "observer"}))
        await host.hear(line)
        line.send(say(id=2, result={"role": "observer"}))
        await heard(client, 1)
        await line.close()
        line = await host.lines.get()
        await host.greet(line)
        line.send(say(id=(await host.hear(line))["id"], result={}))
        joined = await host.hear(line)
        assert joined["params"] == {"sessionId": "t", "role": "observer", "historyPolicy": "full"}
        await client.close()

    play(work)


@pytest.mark.parametrize("dialect", ["draft", "crow"])
def test_a_question_that_cannot_be_taken_back_is_not_put_twice(dialect: str) -> None:
    """What the dialect says is written by hand; the answer to the question of the first line reaches the second."""
    spoken: dict[str, Any] = {
        "draft": {
            "initialize": {"protocolVersion": 1, "capabilities": {}},
            "introduced": {"protocolVersion": 1, "agentInfo": {"name": "a"}, "capabilities": ATTACHES},
            "new": {"workingDirectory": "/w"},
            "question": {"method": "session/request_permission", "id": 7},
            "asked": {"sessionId": "s", "operation": "file_write", "resource": "/w/a"},
            "answer": {"id": 7, "result": {"granted": True}},
        },
        "crow": {
            "initialize": {"protocol_version": 1, "client_capabilities": {}},
            "introduced": {"protocol_version": 1, "agent_capabilities": ATTACHES},
            "new": {"cwd": "/w", "mcpServers": []},
            "question": {"method": "session/update"},
            "asked": {
                "sessionId": "s",
                "update": {
                    "@type": "permission_request",
                    "tool_call_id": "c",
                    "title": "Write",
                    "permission_options": [{"id": "y", "title": "Allow", "is_primary": True}],
                },
            },
            "answer": {
                "method": "permission_response",
                "params": {"session_id": "s", "tool_call_id": "c", "option_id": "y"},
            },
        },
    }[dialect]

    async def work(host: Host) -> None:
        client = await dial_reconnecting(host.dial, backoff=EAGER, report=host.report)
        line = await host.lines.get()
        client.send(say(id=0, method="initialize", params=spoken["initialize"]))
        line.send(say(id=(await host.hear(line))["id"], result=spoken["introduced"]))
        client.send(say(id=1, method="session/new", params=spoken["new"]))
        await host.hear(line)
        line.send(say(id=1, result={"sessionId": "s"}))
        line.send(say(**spoken["question"], params=spoken["asked"]))
        await heard(client, 3)
        await line.close()
        line = await host.lines.get()
        line.send(say(id=(await host.hear(line))["id"], result=spoken["introduced"]))
        joined = await host.hear(line)
        assert joined["method"] == "session/load"
        again = {**spoken["question"], **({"id": 1} if "id" in spoken["question"] else {})}
        line.send(say(**again, params=spoken["asked"]))
        line.send(say(id=joined["id"], result={}))
        line.send(say(method="_after"))
        assert [each["method"] for each in await heard(client, 1)] == ["_after"]
        client.send(say(**spoken["answer"]))
        answer = await host.hear(line)
        assert answer == {"jsonrpc": "2.0", **spoken["answer"], **({"id": 1} if "id" in spoken["answer"] else {})}
        await client.close()

    play(work)


def test_an_entry_that_is_told_in_several_updates_is_heard_whole() -> None:
    async def work(host: Host) -> None:
        client, line = await host.open()
        line.send(update("old", 1))
        await heard(client, 1)
        await line.close()
        line = await host.lines.get()
        await host.greet(line)
        joined = await host.hear(line)
        for frame in (update("old", 1), update("first half", 2), update("second half", 2)):
            line.send(frame)
        line.send(say(id=joined["id"], result={}))
        told = await heard(client, 2)
        assert [message["params"]["update"]["text"] for message in told] == ["first half", "second half"]
        await client.close()

    play(work)


@pytest.mark.parametrize(
    ("over", "dialect"),
    [*(("ws", name) for name in ("v1", "banjo", "2025.1", "crow", "draft")), ("http", "v1"), ("http", "2025.1")],
)
async def test_a_conversation_goes_on_after_its_server_was_restarted(over: str, dialect: str) -> None:
    agent = Agent("parrot")
    said: list[str] = []

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.say(f"You said: {turn.text}")

    async def accept(transport: Transport, visitor: Principal) -> None:
        await agent.serve(transport)

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
    async with open_listener(Endpoint(accept), bind=place):
        remote = await (
            connecting := connect(f"{over}://{place}/acp", dialect=dialect, cwd="/", report=said.append)
        ).__aenter__()
        session = await remote.open_session("/")
        assert await session.ask("one") == "You said: one"
    async with open_listener(Endpoint(accept), bind=place):
        assert await session.ask("two") == "You said: two"
        await connecting.__aexit__(None, None, None)
    assert "1 session joined again" in said[-1]
