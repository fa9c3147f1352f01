"""A client whose connection is lost reconnects by itself: same initialize, same sessions, nothing twice."""

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

WITHIN = 90.0
EAGER = Backoff(initial_delay=0.001, max_delay=0.01, give_up_after=5.0)

ATTACHES = {"_meta": {"dragoman": {"attach": True}}}
LOADS = {"loadSession": True}


def encode(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}, separators=(",", ":")).encode()


def update(text: str, seq: int | None = None) -> bytes:
    params: dict[str, Any] = {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "text": text}}
    if seq is not None:
        params["_meta"] = {"dragoman": {"seq": seq}}
    return encode(method="session/update", params=params)


class Host:
    """The other end of every connection, controlled by the test."""

    def __init__(self, capabilities: dict[str, Any]) -> None:
        self.capabilities = capabilities
        self.lines: asyncio.Queue[MemoryTransport] = asyncio.Queue()
        self.said: list[str] = []
        self.reported = asyncio.Event()
        self.refusal: ConnectionFailed | None = None

    def report(self, line: str) -> None:
        self.said.append(line)
        self.reported.set()

    async def dial(self) -> Transport:
        if self.refusal is not None:
            raise self.refusal
        ours, theirs = memory_pair()
        self.lines.put_nowait(theirs)
        return ours

    async def receive_message(self, line: Transport) -> dict[str, Any]:
        """Return the next message; exactly one must have been sent."""
        frames = await line.receive()
        assert len(frames) == 1, frames
        assert isinstance(frames[0], bytes)
        message: dict[str, Any] = json.loads(frames[0])
        return message

    async def greet(self, line: Transport) -> dict[str, Any]:
        """Answer initialize."""
        asked = await self.receive_message(line)
        assert asked["method"] == "initialize"
        line.send(encode(id=asked["id"], result={"protocolVersion": 1, "agentCapabilities": self.capabilities}))
        return asked

    async def open(self) -> tuple[ReconnectingTransport, MemoryTransport]:
        """Return a client that is initialized and has session s."""
        client = await dial_reconnecting(self.dial, backoff=EAGER, report=self.report)
        line = await self.lines.get()
        client.send(encode(id=0, method="initialize", params={"protocolVersion": 1, "clientInfo": {"name": "x"}}))
        await self.greet(line)
        client.send(encode(id=1, method="session/new", params={"cwd": "/w", "mcpServers": []}))
        await self.receive_message(line)
        line.send(encode(id=1, result={"sessionId": "s"}))
        assert len(await receive_messages(client, 2)) == 2
        return client, line


async def receive_messages(client: Transport, count: int) -> list[dict[str, Any]]:
    frames: list[Any] = []
    while len(frames) < count:
        frames += await client.receive()
    return [json.loads(frame) for frame in frames]


def run_with_host(work: Callable[[Host], Awaitable[None]], capabilities: dict[str, Any] = ATTACHES) -> Host:
    async def main() -> Host:
        host = Host(capabilities)
        await work(host)
        return host

    return asyncio.run(asyncio.wait_for(main(), WITHIN))


def test_a_session_is_attached_after_the_last_delivered_entry() -> None:
    async def work(host: Host) -> None:
        client, line = await host.open()
        for seq in (4, 5):
            line.send(update("old", seq))
        await receive_messages(client, 2)
        await line.close("the host was restarted")
        line = await host.lines.get()
        introduced = await host.greet(line)
        assert introduced["params"] == {"protocolVersion": 1, "clientInfo": {"name": "x"}}
        joined = await host.receive_message(line)
        assert (joined["method"], joined["params"]) == ("session/attach", {"sessionId": "s", "cursor": 5})
        for frame in (update("again", 5), update("new", 6), encode(id=joined["id"], result={})):
            line.send(frame)
        line.send(update("newer", 7))
        got = await receive_messages(client, 2)
        assert [message["params"]["update"]["text"] for message in got] == ["new", "newer"]
        await host.reported.wait()
        await client.close()

    assert [line.partition(": ")[2] for line in run_with_host(work).said] == [
        "a new connection; 1 session attached again"
    ]


def test_open_requests_are_answered_after_the_missed_history() -> None:
    async def work(host: Host) -> None:
        client, line = await host.open()
        client.send(encode(id=2, method="session/prompt", params={"sessionId": "s", "prompt": []}))
        await host.receive_message(line)
        line.send(update("one", 1))
        await receive_messages(client, 1)
        await line.close()
        line = await host.lines.get()
        await host.greet(line)
        joined = await host.receive_message(line)
        line.send(update("two", 2))
        line.send(encode(id=joined["id"], result={}))
        two, lost = await receive_messages(client, 2)
        assert two["params"]["update"]["text"] == "two"
        assert (lost["id"], lost["error"]["data"]["kind"]) == (2, "connection_lost")
        assert "prompt again" in lost["error"]["message"]
        await client.close()

    run_with_host(work)


def test_a_question_of_the_lost_connection_is_cancelled_and_asked_again() -> None:
    async def work(host: Host) -> None:
        client, line = await host.open()
        question = encode(id=0, method="session/request_permission", params={"sessionId": "s"})
        line.send(question)
        await receive_messages(client, 1)
        await line.close()
        line = await host.lines.get()
        await host.greet(line)
        joined = await host.receive_message(line)
        line.send(question)
        line.send(encode(id=joined["id"], result={}))
        back, again = await receive_messages(client, 2)
        assert (back["method"], back["params"]) == ("$/cancel_request", {"requestId": 0})
        assert again["method"] == "session/request_permission"
        assert again["id"] != 0
        client.send(encode(id=0, result={"outcome": {"outcome": "cancelled"}}))  # the answer to the cancelled one
        client.send(encode(id=again["id"], result={"outcome": {"outcome": "selected", "optionId": "yes"}}))
        answer = await host.receive_message(line)
        assert (answer["id"], answer["result"]["outcome"]["outcome"]) == (0, "selected")
        await client.close()

    run_with_host(work)


def test_frames_sent_while_disconnected_are_sent_after_reconnecting() -> None:
    async def work(host: Host) -> None:
        client, line = await host.open()
        host.refusal = Unreachable("nobody listens", is_passing=True)
        await line.close()
        await host.reported.wait()
        client.send(encode(id=7, method="session/list", params={}))
        assert not client.congested()
        host.refusal = None
        line = await host.lines.get()
        await host.greet(line)
        joined = await host.receive_message(line)
        line.send(encode(id=joined["id"], result={}))
        assert (await host.receive_message(line))["method"] == "session/list"
        line.send(encode(id=7, result={"sessions": []}))
        assert (await receive_messages(client, 1))[0]["id"] == 7
        await client.close()

    reports = run_with_host(work).said
    assert "trying again" in reports[0]
    assert "connected again" in reports[1]


def test_a_history_replayed_on_load_is_not_delivered_twice() -> None:
    async def work(host: Host) -> None:
        client, line = await host.open()
        line.send(update("one"))
        await receive_messages(client, 1)
        await line.close()
        line = await host.lines.get()
        await host.greet(line)
        joined = await host.receive_message(line)
        assert joined["method"] == "session/load"
        assert joined["params"] == {"sessionId": "s", "cwd": "/w", "mcpServers": []}
        line.send(update("one"))
        line.send(encode(id=joined["id"], result={}))
        line.send(update("two"))
        (two,) = await receive_messages(client, 1)
        assert two["params"]["update"]["text"] == "two"
        await client.close()

    run_with_host(work, LOADS)


def test_a_session_that_no_longer_exists_is_reported_and_dropped() -> None:
    async def work(host: Host) -> None:
        client, line = await host.open()
        await line.close()
        line = await host.lines.get()
        await host.greet(line)
        joined = await host.receive_message(line)
        line.send(encode(id=joined["id"], error={"code": -32002, "message": "no such session"}))
        line.send(encode(method="_after"))
        assert (await receive_messages(client, 1))[0]["method"] == "_after"
        await host.reported.wait()
        await client.close()

    assert "no such session" in run_with_host(work).said[0]


@pytest.mark.parametrize(
    ("capabilities", "refusal", "says"),
    [
        ({}, None, "closed the connection"),  # it could not load the session
        (ATTACHES, Unreachable("the token is not valid any more", status=401), "not valid any more"),
    ],
)
def test_permanent_errors_end_the_transport(
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

    run_with_host(work, capabilities)


def test_a_connection_closed_by_the_server_is_not_reopened() -> None:
    async def work(host: Host) -> None:
        client, line = await host.open()
        line._other._fail(ClosedByServer("the host removed you"))
        with pytest.raises(TransportClosed, match="removed you"):
            await client.receive()
        await client.close()

    run_with_host(work)


def test_an_error_of_the_first_connection_is_raised() -> None:
    host = Host({})
    host.refusal = Unreachable("nobody listens", is_passing=True)
    with pytest.raises(Unreachable, match="nobody listens"):
        asyncio.run(dial_reconnecting(host.dial, backoff=EAGER))


def test_attaching_is_retried_after_a_temporary_error_and_frames_are_held() -> None:
    async def work(host: Host) -> None:
        client, line = await host.open()
        client.send(encode(id=2, method="session/new", params={"cwd": "/w", "mcpServers": []}))
        await host.receive_message(line)
        line.send(encode(id=2, result={"sessionId": "t"}))
        await receive_messages(client, 1)
        await line.close()
        line = await host.lines.get()
        await host.greet(line)
        busy = {"code": -32603, "message": "it crashed", "data": {"kind": "rate_limited", "retryAfter": 0.01}}
        line.send(encode(id=(await host.receive_message(line))["id"], error=busy))
        line.send(encode(id=(await host.receive_message(line))["id"], result={}))
        await host.reported.wait()  # one of the two is joined, and goes on
        client.send(encode(id=3, method="session/prompt", params={"sessionId": "s", "prompt": []}))
        client.send(encode(id=4, method="session/prompt", params={"sessionId": "t", "prompt": []}))
        reports = [await host.receive_message(line), await host.receive_message(line)]
        assert sorted(each["method"] for each in reports) == ["session/attach", "session/prompt"]
        assert {each["params"]["sessionId"] for each in reports if "prompt" in each["params"]} == {"t"}
        (again,) = (each for each in reports if each["method"] == "session/attach")
        line.send(encode(id=again["id"], error=busy))
        again = await host.receive_message(line)
        line.send(update("missed", 1))
        line.send(encode(id=again["id"], result={}))
        waited = await host.receive_message(line)
        assert (waited["id"], waited["params"]["sessionId"]) == (3, "s")
        assert (await receive_messages(client, 1))[0]["params"]["update"]["text"] == "missed"
        await client.close()

    reports = [line.partition(": ")[2] for line in run_with_host(work).said]
    assert reports[0] == "a new connection; 1 session attached again"
    assert "session s: cannot be attached yet; trying again for" in reports[1]
    assert "(it crashed)" in reports[1]
    assert "session s: attached again after" in reports[2]


def test_a_session_without_an_answer_does_not_block_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.roles.client.reconnect.transport.ANSWER_TIMEOUT", 0.05)

    async def work(host: Host) -> None:
        client, line = await host.open()
        client.send(encode(id=2, method="session/load", params={"sessionId": "t", "cwd": "/w", "mcpServers": []}))
        await host.receive_message(line)
        line.send(encode(id=2, result={}))
        await receive_messages(client, 1)
        await line.close()
        line = await host.lines.get()
        await host.greet(line)
        assert (await host.receive_message(line))["params"]["sessionId"] == "s"
        joined = await host.receive_message(line)
        assert joined["params"]["sessionId"] == "t"
        line.send(encode(id=joined["id"], result={}))
        await host.reported.wait()
        await client.close()

    assert "1 session attached again" in run_with_host(work).said[0]


def test_a_session_whose_answer_comes_late_is_attached_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.roles.client.reconnect.transport.ANSWER_TIMEOUT", 0.05)

    async def work(host: Host) -> None:
        client, line = await host.open()
        await line.close()
        line = await host.lines.get()
        await host.greet(line)
        asked = await host.receive_message(line)
        assert asked["method"] == "session/attach"
        line.send(update("one", 1))
        while not any("cannot be attached yet" in each for each in host.said):
            host.reported.clear()
            await host.reported.wait()
        line.send(update("two", 2))
        line.send(encode(id=asked["id"], result={}))
        client.send(encode(id=3, method="session/prompt", params={"sessionId": "s", "prompt": []}))
        assert (await host.receive_message(line))["method"] == "session/prompt"  # and no second attach
        texts = [each["params"]["update"]["text"] for each in await receive_messages(client, 2)]
        assert texts == ["one", "two"]
        await client.close()

    assert "attached again" in run_with_host(work).said[-1]


def test_an_unexpected_error_while_reconnecting_reaches_the_receiver() -> None:
    async def work(host: Host) -> None:
        client, line = await host.open()
        client.send(encode(id=2, method="session/prompt", params={"sessionId": "s", "prompt": []}))
        await host.receive_message(line)
        host.refusal = KeyError("a fault of ours")  # type: ignore[assignment]
        await line.close()
        assert (await receive_messages(client, 1))[0]["error"]["data"]["kind"] == "connection_lost"
        with pytest.raises(ConnectionFailed, match=r"reconnecting failed.*a fault of ours"):
            await client.receive()
        await client.close()

    run_with_host(work)


def test_a_viewer_reconnects_as_a_viewer() -> None:
    async def work(host: Host) -> None:
        client, line = await host.open()
        client.send(encode(id=2, method="session/attach", params={"sessionId": "t", "role": "observer"}))
        await host.receive_message(line)
        line.send(encode(id=2, result={"role": "observer"}))
        await receive_messages(client, 1)
        await line.close()
        line = await host.lines.get()
        await host.greet(line)
        line.send(encode(id=(await host.receive_message(line))["id"], result={}))
        joined = await host.receive_message(line)
        assert joined["params"] == {"sessionId": "t", "role": "observer", "historyPolicy": "full"}
        await client.close()

    run_with_host(work)


@pytest.mark.parametrize("dialect", ["draft", "crow"])
def test_a_question_that_cannot_be_cancelled_is_not_shown_twice(dialect: str) -> None:
    """Frames are written by hand; the answer to the question on the first connection goes to the second."""
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
        client.send(encode(id=0, method="initialize", params=spoken["initialize"]))
        line.send(encode(id=(await host.receive_message(line))["id"], result=spoken["introduced"]))
        client.send(encode(id=1, method="session/new", params=spoken["new"]))
        await host.receive_message(line)
        line.send(encode(id=1, result={"sessionId": "s"}))
        line.send(encode(**spoken["question"], params=spoken["asked"]))
        await receive_messages(client, 3)
        await line.close()
        line = await host.lines.get()
        line.send(encode(id=(await host.receive_message(line))["id"], result=spoken["introduced"]))
        joined = await host.receive_message(line)
        assert joined["method"] == "session/load"
        again = {**spoken["question"], **({"id": 1} if "id" in spoken["question"] else {})}
        line.send(encode(**again, params=spoken["asked"]))
        line.send(encode(id=joined["id"], result={}))
        line.send(encode(method="_after"))
        assert [each["method"] for each in await receive_messages(client, 1)] == ["_after"]
        client.send(encode(**spoken["answer"]))
        answer = await host.receive_message(line)
        assert answer == {"jsonrpc": "2.0", **spoken["answer"], **({"id": 1} if "id" in spoken["answer"] else {})}
        await client.close()

    run_with_host(work)


def test_an_entry_sent_as_several_updates_is_delivered_whole() -> None:
    async def work(host: Host) -> None:
        client, line = await host.open()
        line.send(update("old", 1))
        await receive_messages(client, 1)
        await line.close()
        line = await host.lines.get()
        await host.greet(line)
        joined = await host.receive_message(line)
        for frame in (update("old", 1), update("first half", 2), update("second half", 2)):
            line.send(frame)
        line.send(encode(id=joined["id"], result={}))
        messages = await receive_messages(client, 2)
        assert [message["params"]["update"]["text"] for message in messages] == ["first half", "second half"]
        await client.close()

    run_with_host(work)


@pytest.mark.parametrize(
    ("over", "dialect"),
    [*(("ws", name) for name in ("v1", "banjo", "2025.1", "crow", "draft")), ("http", "v1"), ("http", "2025.1")],
)
async def test_a_session_continues_after_its_server_restarts(over: str, dialect: str) -> None:
    agent = Agent("echo")
    said: list[str] = []

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.say(f"You said: {turn.text}")

    async def accept(transport: Transport, client: Principal) -> None:
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
    assert "1 session attached again" in said[-1]
