"""Frames between rooms and a process they share: no room gets frames of another."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dragoman.errors import TransportClosed
from dragoman.host.pool import process
from dragoman.host.pool.transport import SharedTransport
from dragoman.transport.memory import MemoryTransport, memory_pair
from dragoman.wire.frames import Oversize

TIMEOUT = 90.0

V2_CLOSES = {"protocolVersion": 2, "info": {"name": "a", "version": "1"}, "capabilities": {"session": {}}}
CLOSES = {"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"close": {}}}}


class TwoRooms:
    """Two rooms at one process, which the test plays."""

    def __init__(self) -> None:
        ours, self.process = memory_pair()
        self.over: list[process.SharedProcess] = []
        self.pier = process.SharedProcess(ours, self.over.append)
        self.one, self.two = self.pier.attach(), self.pier.attach()
        self._held: dict[Any, list[Any]] = {}

    async def next(self, end: MemoryTransport | SharedTransport) -> Any:
        """Return the next message at this end."""
        held = self._held.setdefault(end, [])
        if not held:
            held += await asyncio.wait_for(end.receive(), TIMEOUT)
        frame = held.pop(0)
        return json.loads(frame) if isinstance(frame, bytes) and frame[:1] == b"{" else frame

    async def received(self) -> tuple[list[Any], list[Any]]:
        """Return what the rooms received, up to a last message to all."""
        self.says("_last", {})
        received: tuple[list[Any], list[Any]] = ([], [])
        for transport, theirs in zip((self.one, self.two), received, strict=True):
            while (message := await self.next(transport)) != {"jsonrpc": "2.0", "method": "_last", "params": {}}:
                theirs.append(message)
        return received

    def asks(self, transport: SharedTransport, method: str, params: Any, id: Any = 1) -> None:
        """Send a request from a room."""
        transport.send(_frame({"id": id, "method": method, "params": params}))

    def says(self, method: str, params: Any, **more: Any) -> None:
        """Send something from the process."""
        self.process.send(_frame({**more, "method": method, "params": params}))

    async def answers(self, result: Any) -> Any:
        """Answer the next request as the process."""
        asked = await self.next(self.process)
        self.process.send(_frame({"id": asked["id"], "result": result}))
        return asked

    async def open_session(self, introduction: Any = CLOSES) -> None:
        """Initialize both rooms and open a session for each: a and b."""
        for transport, session in ((self.one, "a"), (self.two, "b")):
            self.asks(transport, "initialize", {"protocolVersion": 1})
            if transport is self.one:
                await self.answers(introduction)
            assert await self.next(transport) == {"jsonrpc": "2.0", "id": 1, "result": introduction}
            self.asks(transport, "session/new", {"cwd": "/"}, id=2)
            await self.answers({"sessionId": session})
            assert (await self.next(transport))["result"] == {"sessionId": session}


def _frame(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


def play(scene: Callable[[TwoRooms], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(TIMEOUT):
            rooms = TwoRooms()
            try:
                await scene(rooms)
            finally:
                await rooms.pier.close()

    asyncio.run(bounded())


def test_initialize_is_sent_once_and_different_params_are_refused() -> None:
    async def scene(rooms: TwoRooms) -> None:
        for transport, id in ((rooms.one, 1), (rooms.two, "x")):
            rooms.asks(transport, "initialize", {"protocolVersion": 1}, id=id)
        await rooms.answers(CLOSES)
        assert (await rooms.next(rooms.one))["id"] == 1
        assert (await rooms.next(rooms.two)) == {"jsonrpc": "2.0", "id": "x", "result": CLOSES}
        rooms.asks(rooms.two, "initialize", {"protocolVersion": 2})
        assert (await rooms.next(rooms.two))["error"]["code"] == -32603
        rooms.asks(rooms.one, "session/new", {"cwd": "/"})
        assert (await rooms.next(rooms.process))["method"] == "session/new"  # nothing else was sent

    play(scene)


def test_a_failed_login_can_be_retried_and_a_valid_one_is_not_repeated() -> None:
    async def scene(rooms: TwoRooms) -> None:
        rooms.asks(rooms.one, "authenticate", {"methodId": "key"})
        asked = await rooms.next(rooms.process)
        rooms.process.send(_frame({"id": asked["id"], "error": {"code": -32000, "message": "no"}}))
        assert (await rooms.next(rooms.one))["error"]["message"] == "no"
        rooms.asks(rooms.two, "authenticate", {"methodId": "key"})
        await rooms.answers({})
        assert (await rooms.next(rooms.two))["result"] == {}
        rooms.asks(rooms.one, "authenticate", {"methodId": "key"}, id=5)
        assert await rooms.next(rooms.one) == {"jsonrpc": "2.0", "id": 5, "result": {}}

    play(scene)


def test_the_same_request_id_in_two_rooms_gets_two_answers() -> None:
    async def scene(rooms: TwoRooms) -> None:
        for transport in (rooms.one, rooms.two):
            rooms.asks(transport, "session/new", {"cwd": "/"}, id=7)
        first, http2_socket = await rooms.next(rooms.process), await rooms.next(rooms.process)
        assert first["id"] != http2_socket["id"]
        rooms.says("session/update", {"sessionId": "b", "early": True})
        rooms.process.send(_frame({"id": http2_socket["id"], "result": {"sessionId": "b"}}))
        rooms.process.send(_frame({"id": first["id"], "result": {"sessionId": "a"}}))
        ones, twos = await rooms.received()
        assert [each["result"]["sessionId"] for each in ones] == ["a"]
        assert [each.get("id") for each in twos] == [None, 7]
        assert twos[0]["params"] == {"sessionId": "b", "early": True}

    play(scene)


def test_messages_of_a_session_reach_only_its_room() -> None:
    async def scene(rooms: TwoRooms) -> None:
        await rooms.open_session()
        rooms.says("session/update", {"sessionId": "a"})
        rooms.says("session/update", {"sessionId": "nobody's"})
        rooms.says("session/request_permission", {"sessionId": "b"}, id=0)
        rooms.says("$/cancel_request", {"requestId": 0})
        rooms.says("_global", {})
        rooms.says("_ask", {}, id="q")
        ones, twos = await rooms.received()
        assert [each["method"] for each in ones] == ["session/update", "_global", "_ask"]
        assert [each["method"] for each in twos] == ["session/request_permission", "$/cancel_request", "_global"]
        rooms.one.send(_frame({"id": 0, "result": "not asked"}))
        rooms.two.send(_frame({"id": 0, "result": "asked"}))
        rooms.two.send(_frame({"id": 0, "result": "again"}))
        rooms.one.send(_frame({"id": "q", "result": 1}))
        assert [(await rooms.next(rooms.process))["result"] for _ in range(2)] == ["asked", 1]

    play(scene)


def test_request_ids_are_mapped_back_in_params() -> None:
    async def scene(rooms: TwoRooms) -> None:
        await rooms.open_session()
        rooms.asks(rooms.two, "session/prompt", {"sessionId": "b"}, id="p")
        number = (await rooms.next(rooms.process))["id"]
        rooms.says("elicitation/create", {"requestId": number, "message": "?"}, id=1)
        assert (await rooms.next(rooms.two))["params"] == {"requestId": "p", "message": "?"}
        rooms.one.send(_frame({"method": "$/cancel_request", "params": {"requestId": "p"}}))  # not theirs
        rooms.two.send(_frame({"method": "$/cancel_request", "params": {"requestId": "p"}}))
        assert (await rooms.next(rooms.process))["params"] == {"requestId": number}
        rooms.two.send(_frame({"method": "_mark"}))
        assert (await rooms.next(rooms.process))["method"] == "_mark"

    play(scene)


def test_a_malformed_answer_becomes_an_error_for_the_caller() -> None:
    async def scene(rooms: TwoRooms) -> None:
        await rooms.open_session()
        for id in ("p", "q"):
            rooms.asks(rooms.two, "session/prompt", {"sessionId": "b"}, id=id)
        garbled, large = [(await rooms.next(rooms.process))["id"] for _ in range(2)]
        rooms.process.send(b"noise")
        rooms.process.send(b'{"jsonrpc":"2.0","id":%d,"result":{"a" noise' % garbled)
        end = b'{"jsonrpc":"2.0","id":%d,"result":{' % large
        rooms.process._other._incoming.deliver([Oversize(10**9, end, b"}}")])
        rooms.says("session/update", {"sessionId": ["b"], "requestId": {}})
        ones, twos = await rooms.received()
        assert ones[0] == b"noise"
        assert [(each["id"], each["error"]["code"]) for each in twos[:2]] == [("p", -32603), ("q", -32603)]

    play(scene)


def test_a_session_of_another_room_cannot_be_resumed() -> None:
    async def scene(rooms: TwoRooms) -> None:
        await rooms.open_session()
        rooms.asks(rooms.two, "session/resume", {"sessionId": "a"})
        assert (await rooms.next(rooms.two))["error"]["code"] == -32602
        rooms.asks(rooms.one, "session/close", {"sessionId": "a"})
        await rooms.answers({})
        await rooms.next(rooms.one)
        rooms.asks(rooms.two, "session/load", {"sessionId": "a"})
        rooms.says("session/update", {"sessionId": "a"})
        await rooms.answers({})
        ones, twos = await rooms.received()
        assert not ones
        assert [each.get("method") for each in twos] == ["session/update", None]

    play(scene)


@pytest.mark.parametrize("introduction", [CLOSES, {"protocolVersion": 1}, V2_CLOSES])
def test_a_detached_room_closes_its_session_and_open_requests(introduction: Any) -> None:
    async def scene(rooms: TwoRooms) -> None:
        await rooms.open_session(introduction)
        rooms.asks(rooms.one, "session/prompt", {"sessionId": "a"}, id=3)
        prompt = await rooms.next(rooms.process)
        rooms.says("session/request_permission", {"sessionId": "a"}, id=0)
        await rooms.next(rooms.one)
        leaving = asyncio.ensure_future(rooms.one.close())
        answer = await rooms.next(rooms.process)
        assert (answer["id"], answer["result"]) == (0, {"outcome": {"outcome": "cancelled"}})
        cancelled = await rooms.next(rooms.process)
        assert (cancelled["method"], cancelled["params"]) == ("session/cancel", {"sessionId": "a"})
        rooms.says("fs/read_text_file", {"sessionId": "a"}, id=1)  # it continues for a while
        rooms.says("session/update", {"sessionId": "a"})
        assert not leaving.done()
        if introduction in (CLOSES, V2_CLOSES):
            closed = await rooms.answers({})
            assert (closed["method"], closed["params"]) == ("session/close", {"sessionId": "a"})
        assert (await rooms.next(rooms.process))["error"]["code"] == -32800
        rooms.process.send(_frame({"id": prompt["id"], "result": {"stopReason": "cancelled"}}))
        await leaving
        rooms.says("session/update", {"sessionId": "b"})
        assert (await rooms.next(rooms.two))["params"] == {"sessionId": "b"}
        assert not rooms.over
        await rooms.two.close()
        assert rooms.over == [rooms.pier]
        with pytest.raises(TransportClosed):
            await rooms.process.receive()

    play(scene)


def test_a_session_opened_for_a_detached_room_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "RELEASE_TIMEOUT", 0.01)

    async def scene(rooms: TwoRooms) -> None:
        await rooms.open_session()
        rooms.asks(rooms.one, "session/new", {"cwd": "/"}, id=9)
        number = (await rooms.next(rooms.process))["id"]
        await rooms.one.close()  # an agent that does not answer delays nobody
        assert (await rooms.next(rooms.process))["params"] == {"sessionId": "a"}
        rooms.process.send(_frame({"id": number, "result": {"sessionId": "c"}}))
        closed = await rooms.next(rooms.process)
        assert (closed["method"], closed["params"]) == ("session/close", {"sessionId": "c"})

    play(scene)
