"""Frames between rooms and a process they share, as they are on the wire: nobody gets what is another's."""

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

PATIENCE = 20.0

CLOSES = {"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"close": {}}}}


class Stage:
    """Two rooms at one process, which the test plays."""

    def __init__(self) -> None:
        ours, self.process = memory_pair()
        self.over: list[process.SharedProcess] = []
        self.pier = process.SharedProcess(ours, self.over.append)
        self.one, self.two = self.pier.attach(), self.pier.attach()
        self._held: dict[Any, list[Any]] = {}

    async def next(self, end: MemoryTransport | SharedTransport) -> Any:
        """The next message at this end."""
        held = self._held.setdefault(end, [])
        if not held:
            held += await asyncio.wait_for(end.receive(), PATIENCE)
        frame = held.pop(0)
        return json.loads(frame) if isinstance(frame, bytes) and frame[:1] == b"{" else frame

    async def heard(self) -> tuple[list[Any], list[Any]]:
        """What the rooms have heard, up to a word to all that is said last."""
        self.says("_last", {})
        heard: tuple[list[Any], list[Any]] = ([], [])
        for berth, theirs in zip((self.one, self.two), heard, strict=True):
            while (message := await self.next(berth)) != {"jsonrpc": "2.0", "method": "_last", "params": {}}:
                theirs.append(message)
        return heard

    def asks(self, berth: SharedTransport, method: str, params: Any, id: Any = 1) -> None:
        """A room asks."""
        berth.send(_said({"id": id, "method": method, "params": params}))

    def says(self, method: str, params: Any, **more: Any) -> None:
        """The process says something."""
        self.process.send(_said({**more, "method": method, "params": params}))

    async def answers(self, result: Any) -> Any:
        """The process answers what it is asked next."""
        asked = await self.next(self.process)
        self.process.send(_said({"id": asked["id"], "result": result}))
        return asked

    async def opened(self, introduction: Any = CLOSES) -> None:
        """Both rooms have introduced themselves and opened a session each: a and b."""
        for berth, session in ((self.one, "a"), (self.two, "b")):
            self.asks(berth, "initialize", {"protocolVersion": 1})
            if berth is self.one:
                await self.answers(introduction)
            assert await self.next(berth) == {"jsonrpc": "2.0", "id": 1, "result": introduction}
            self.asks(berth, "session/new", {"cwd": "/"}, id=2)
            await self.answers({"sessionId": session})
            assert (await self.next(berth))["result"] == {"sessionId": session}


def _said(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


def play(scene: Callable[[Stage], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            stage = Stage()
            try:
                await scene(stage)
            finally:
                await stage.pier.close()

    asyncio.run(bounded())


def test_all_introduce_themselves_once_and_only_in_the_same_words() -> None:
    async def scene(stage: Stage) -> None:
        for berth, id in ((stage.one, 1), (stage.two, "x")):
            stage.asks(berth, "initialize", {"protocolVersion": 1}, id=id)
        await stage.answers(CLOSES)
        assert (await stage.next(stage.one))["id"] == 1
        assert (await stage.next(stage.two)) == {"jsonrpc": "2.0", "id": "x", "result": CLOSES}
        stage.asks(stage.two, "initialize", {"protocolVersion": 2})
        assert (await stage.next(stage.two))["error"]["code"] == -32603
        stage.asks(stage.one, "session/new", {"cwd": "/"})
        assert (await stage.next(stage.process))["method"] == "session/new"  # nothing else was said

    play(scene)


def test_a_login_that_failed_may_be_tried_again_and_one_that_holds_is_not_repeated() -> None:
    async def scene(stage: Stage) -> None:
        stage.asks(stage.one, "authenticate", {"methodId": "key"})
        asked = await stage.next(stage.process)
        stage.process.send(_said({"id": asked["id"], "error": {"code": -32000, "message": "no"}}))
        assert (await stage.next(stage.one))["error"]["message"] == "no"
        stage.asks(stage.two, "authenticate", {"methodId": "key"})
        await stage.answers({})
        assert (await stage.next(stage.two))["result"] == {}
        stage.asks(stage.one, "authenticate", {"methodId": "key"}, id=5)
        assert await stage.next(stage.one) == {"jsonrpc": "2.0", "id": 5, "result": {}}

    play(scene)


def test_the_same_id_of_two_rooms_is_two_requests_and_each_hears_its_own_answer() -> None:
    async def scene(stage: Stage) -> None:
        for berth in (stage.one, stage.two):
            stage.asks(berth, "session/new", {"cwd": "/"}, id=7)
        first, second = await stage.next(stage.process), await stage.next(stage.process)
        assert first["id"] != second["id"]
        stage.says("session/update", {"sessionId": "b", "early": True})
        stage.process.send(_said({"id": second["id"], "result": {"sessionId": "b"}}))
        stage.process.send(_said({"id": first["id"], "result": {"sessionId": "a"}}))
        ones, twos = await stage.heard()
        assert [each["result"]["sessionId"] for each in ones] == ["a"]
        assert [each.get("id") for each in twos] == [None, 7]
        assert twos[0]["params"] == {"sessionId": "b", "early": True}

    play(scene)


def test_what_is_said_in_a_session_reaches_its_room_alone() -> None:
    async def scene(stage: Stage) -> None:
        await stage.opened()
        stage.says("session/update", {"sessionId": "a"})
        stage.says("session/update", {"sessionId": "nobody's"})
        stage.says("session/request_permission", {"sessionId": "b"}, id=0)
        stage.says("$/cancel_request", {"requestId": 0})
        stage.says("_global", {})
        stage.says("_ask", {}, id="q")
        ones, twos = await stage.heard()
        assert [each["method"] for each in ones] == ["session/update", "_global", "_ask"]
        assert [each["method"] for each in twos] == ["session/request_permission", "$/cancel_request", "_global"]
        stage.one.send(_said({"id": 0, "result": "not asked"}))
        stage.two.send(_said({"id": 0, "result": "asked"}))
        stage.two.send(_said({"id": 0, "result": "again"}))
        stage.one.send(_said({"id": "q", "result": 1}))
        assert [(await stage.next(stage.process))["result"] for _ in range(2)] == ["asked", 1]

    play(scene)


def test_numbers_of_requests_are_turned_back_wherever_they_are_named() -> None:
    async def scene(stage: Stage) -> None:
        await stage.opened()
        stage.asks(stage.two, "session/prompt", {"sessionId": "b"}, id="p")
        number = (await stage.next(stage.process))["id"]
        stage.says("elicitation/create", {"requestId": number, "message": "?"}, id=1)
        assert (await stage.next(stage.two))["params"] == {"requestId": "p", "message": "?"}
        stage.one.send(_said({"method": "$/cancel_request", "params": {"requestId": "p"}}))  # not theirs
        stage.two.send(_said({"method": "$/cancel_request", "params": {"requestId": "p"}}))
        assert (await stage.next(stage.process))["params"] == {"requestId": number}
        stage.two.send(_said({"method": "_mark"}))
        assert (await stage.next(stage.process))["method"] == "_mark"

    play(scene)


def test_what_cannot_be_read_is_told_to_whoever_waits_for_it() -> None:
    async def scene(stage: Stage) -> None:
        await stage.opened()
        for id in ("p", "q"):
            stage.asks(stage.two, "session/prompt", {"sessionId": "b"}, id=id)
        garbled, large = [(await stage.next(stage.process))["id"] for _ in range(2)]
        stage.process.send(b"noise")
        stage.process.send(b'{"jsonrpc":"2.0","id":%d,"result":{"a" noise' % garbled)
        end = b'{"jsonrpc":"2.0","id":%d,"result":{' % large
        stage.process._other._inbox.append(Oversize(10**9, end, b"}}"))
        stage.says("session/update", {"sessionId": ["b"], "requestId": {}})
        ones, twos = await stage.heard()
        assert ones[0] == b"noise"
        assert [(each["id"], each["error"]["code"]) for each in twos[:2]] == [("p", -32603), ("q", -32603)]

    play(scene)


def test_nobody_goes_on_with_a_session_that_another_room_has() -> None:
    async def scene(stage: Stage) -> None:
        await stage.opened()
        stage.asks(stage.two, "session/resume", {"sessionId": "a"})
        assert (await stage.next(stage.two))["error"]["code"] == -32602
        stage.asks(stage.one, "session/close", {"sessionId": "a"})
        await stage.answers({})
        await stage.next(stage.one)
        stage.asks(stage.two, "session/load", {"sessionId": "a"})
        stage.says("session/update", {"sessionId": "a"})
        await stage.answers({})
        ones, twos = await stage.heard()
        assert not ones
        assert [each.get("method") for each in twos] == ["session/update", None]

    play(scene)


@pytest.mark.parametrize("introduction", [CLOSES, {"protocolVersion": 1}])
def test_a_room_that_leaves_ends_its_session_and_what_was_open_in_it(introduction: Any) -> None:
    async def scene(stage: Stage) -> None:
        await stage.opened(introduction)
        stage.asks(stage.one, "session/prompt", {"sessionId": "a"}, id=3)
        prompt = await stage.next(stage.process)
        stage.says("session/request_permission", {"sessionId": "a"}, id=0)
        await stage.next(stage.one)
        leaving = asyncio.ensure_future(stage.one.close())
        answer = await stage.next(stage.process)
        assert (answer["id"], answer["result"]) == (0, {"outcome": {"outcome": "cancelled"}})
        cancelled = await stage.next(stage.process)
        assert (cancelled["method"], cancelled["params"]) == ("session/cancel", {"sessionId": "a"})
        stage.says("fs/read_text_file", {"sessionId": "a"}, id=1)  # it goes on for a while
        stage.says("session/update", {"sessionId": "a"})
        assert not leaving.done()
        if introduction is CLOSES:
            closed = await stage.answers({})
            assert (closed["method"], closed["params"]) == ("session/close", {"sessionId": "a"})
        assert (await stage.next(stage.process))["error"]["code"] == -32800
        stage.process.send(_said({"id": prompt["id"], "result": {"stopReason": "cancelled"}}))
        await leaving
        stage.says("session/update", {"sessionId": "b"})
        assert (await stage.next(stage.two))["params"] == {"sessionId": "b"}
        assert not stage.over
        await stage.two.close()
        assert stage.over == [stage.pier]
        with pytest.raises(TransportClosed):
            await stage.process.receive()

    play(scene)


def test_a_session_that_is_opened_for_a_room_that_left_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "RELEASE_TIMEOUT", 0.01)

    async def scene(stage: Stage) -> None:
        await stage.opened()
        stage.asks(stage.one, "session/new", {"cwd": "/"}, id=9)
        number = (await stage.next(stage.process))["id"]
        await stage.one.close()  # an agent that does not answer holds nobody up
        assert (await stage.next(stage.process))["params"] == {"sessionId": "a"}
        stage.process.send(_said({"id": number, "result": {"sessionId": "c"}}))
        closed = await stage.next(stage.process)
        assert (closed["method"], closed["params"]) == ("session/close", {"sessionId": "c"})

    play(scene)
