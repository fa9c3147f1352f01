"""A connection: each request is answered once, and nothing a peer sends ends it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from dragoman.dialect.dialects import load_dialect
from dragoman.engine.incoming import DoneCallback, Incoming
from dragoman.errors import ConnectionFailed, Kind, Overloaded, ProtocolError, WriteStalled
from dragoman.schema.side import Side
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import memory_pair
from dragoman.transport.stream import StreamTransport
from tests.engine.raw_peer import call, note, result, talking


async def _later(params: Any) -> Any:
    await asyncio.sleep(0)
    return params


def _refuse(_: Any) -> Any:
    raise ProtocolError(Kind.RESOURCE_NOT_FOUND, "no such thing", {"uri": "x"})


async def _refuse_later(_: Any) -> Any:
    await asyncio.sleep(0)
    raise ProtocolError(Kind.RESOURCE_NOT_FOUND, "no such thing", {"uri": "x"})


def _break(_: Any) -> Any:
    raise ZeroDivisionError("oops")


async def _break_later(_: Any) -> Any:
    await asyncio.sleep(0)
    raise ZeroDivisionError("oops")


def _place(function: Callable[..., Any], line: int) -> str:
    return f"test_connection.py:{function.__code__.co_firstlineno + line}"


async def _cancel_itself(_: Any) -> Any:
    raise asyncio.CancelledError


@pytest.mark.item("001-10")
@pytest.mark.parametrize(
    ("function", "answer"),
    [
        (lambda params: params, {"result": {"n": 1}}),
        (_later, {"result": {"n": 1}}),
        (lambda _: None, {"result": {}}),
        (_refuse, {"error": {"code": -32002, "message": "no such thing"}}),
        (_refuse_later, {"error": {"code": -32002, "message": "no such thing"}}),
        (_break, {"error": {"code": -32603, "message": f"ZeroDivisionError: oops ({_place(_break, 1)})"}}),
        (_break_later, {"error": {"code": -32603, "message": f"ZeroDivisionError: oops ({_place(_break_later, 2)})"}}),
        (_cancel_itself, {"error": {"code": -32800, "message": "cancelled"}}),
        (lambda _: object(), {"error": {"code": -32603}}),
        (lambda _: {1j: 2}, {"error": {"code": -32603}}),
    ],
)
async def test_a_request_gets_one_answer_whatever_its_handler_does(function: Any, answer: dict[str, Any]) -> None:
    async with talking({"_do": function}) as talk:
        talk.peer.send(call(7, "_do", {"n": 1}))
        received = await talk.peer.expect(jsonrpc="2.0", id=7, **answer)
        assert ("result" in received) != ("error" in received)
        assert await talk.answers() == []


async def test_a_handler_that_answers_twice_sends_one_answer() -> None:
    def handler(_: Incoming, done: DoneCallback) -> None:
        done({"n": 1}, None)
        done({"n": 2}, None)
        done(None, ProtocolError(Kind.TIMEOUT))

    async with talking(handlers={"_do": handler}) as talk:
        talk.peer.send(call(1, "_do"))
        await talk.peer.expect(id=1, result={"n": 1})
        assert await talk.answers() == []


@pytest.mark.item("004-50", "000-04")
async def test_an_unknown_request_is_refused_and_an_unknown_notification_is_ignored() -> None:
    for name in ("v1", "draft", "2025.1", "crow", "banjo"):
        async with talking(dialect=name) as talk:
            for method in ("_acme.example/unheard", "_x", "unheard", ""):
                talk.peer.send(call(method, method, {}))
                await talk.peer.expect(id=method, error={"code": -32601})
                talk.peer.send(note(method, {}))
            assert await talk.answers() == []


@pytest.mark.parametrize("id", [0, "0", "a", -5, 1.5, 2**60, 10**25, None, "é🦜"])
async def test_the_answer_has_the_id_of_the_request(id: Any) -> None:
    async with talking() as talk:
        talk.peer.send(f'{{"id":{_json(id)},"method":"_echo","params":{{}}}}'.encode())
        assert (await talk.peer.receive())["id"] == id


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


async def test_a_notification_is_never_answered_not_even_when_its_handler_fails() -> None:
    async with talking({"session/cancel": _break, "_sync": _refuse, "_async": _break_later}) as talk:
        talk.peer.send(note("session/cancel", {"sessionId": "s"}))
        talk.peer.send(note("session/cancel", {"no": "session"}))
        talk.peer.send(note("_sync", {}))
        talk.peer.send(note("_async", {}))
        assert await talk.answers() == []
        assert any("no such thing" in text for text in talk.reports)


async def test_a_notification_with_an_id_is_answered() -> None:
    seen: list[str] = []
    async with talking({"session/cancel": lambda params: seen.append(params.session_id)}) as talk:
        talk.peer.send(call(1, "session/cancel", {"sessionId": "s"}))
        await talk.peer.expect(id=1, result={})
        assert seen == ["s"]
        assert await talk.answers() == []


async def test_two_requests_with_one_id_are_both_answered_and_the_later_one_can_be_cancelled() -> None:
    gates = [asyncio.Event(), asyncio.Event()]

    async def wait(params: Any) -> Any:
        await gates[params["n"]].wait()
        return params

    async with talking({"_wait": wait}) as talk:
        talk.peer.send(call(1, "_wait", {"n": 0}))
        talk.peer.send(call(1, "_wait", {"n": 1}))
        await talk.answers()
        gates[0].set()
        await talk.peer.expect(id=1, result={"n": 0})
        assert talk.connection.running_requests.cancel(1)
        await talk.peer.expect(id=1, error={"code": -32800})
        assert not talk.connection.running_requests.cancel(1)


async def test_invalid_params_are_refused_with_every_error() -> None:
    async with talking({"session/new": lambda _: {}}) as talk:
        talk.peer.send(call(1, "session/new", {"cwd": 5, "mcpServers": "none"}))
        answer = await talk.peer.expect(id=1, error={"code": -32602, "data": {"kind": "invalid_params"}})
        assert {fault["path"] for fault in answer["error"]["data"]["errors"]} == {"cwd", "mcpServers"}


@pytest.mark.parametrize(
    ("frame", "code", "id"),
    [
        (b'{"id":1,"method":', -32700, None),
        (b"hello", -32700, None),
        (b"{'id':1}", -32700, None),
        (b"[]", -32600, None),
        (b'[{"id":1,"method":"_echo"}]', -32600, None),
        (b"5", -32600, None),
        (b'{"id":{},"method":"_echo"}', -32600, None),
        (b'{"id":true,"method":"_echo"}', -32600, None),
        (b'{"id":8}', -32600, 8),
        (b'{"id":8,"method":5}', -32600, 8),
        (b'{"id":8,"method":"_echo","params":' + b"[" * 300 + b"]" * 300 + b"}", -32700, 8),
        (b"[" * 100_000 + b"]" * 100_000, -32700, None),
    ],
)
async def test_a_client_that_sends_an_invalid_message_gets_an_error_and_is_still_served(
    frame: bytes, code: int, id: Any
) -> None:
    async with talking() as talk:
        talk.peer.send(frame)
        answer = await talk.peer.expect(error={"code": code})
        assert answer["id"] == id
        assert await talk.answers() == []
        assert len(talk.reports) == 1


async def test_invalid_lines_of_an_agent_are_reported_and_not_answered() -> None:
    async with talking(we=Side.CLIENT) as talk:
        for frame in (b"Loading model...", b"\x1b[32mready\x1b[0m", b"\xff\xfe", b"42", b'"quoted"', b"null"):
            talk.peer.send(frame)
        assert await talk.answers() == []
        assert len(talk.reports) == 6
        assert "Loading model..." in talk.reports[0]
        talk.peer.send(b'{"id":1,"method":')
        await talk.peer.expect(id=None, error={"code": -32700})


async def test_an_error_in_a_dialect_loses_one_message() -> None:

    def lift(_: Any, method: str, params: Any) -> tuple[str, Any]:
        if method == "_fault":
            raise RuntimeError("a fault of ours")
        return method, params

    broken = msgspec.structs.replace(load_dialect("crow"), lift_call=lift, lift_result=lambda *_: 1 / 0)
    async with talking(dialect=broken) as talk:
        talk.peer.send(call(1, "_fault", {}))
        message = f"RuntimeError: a fault of ours ({_place(lift, 2)})"
        await talk.peer.expect(id=1, error={"code": -32603, "message": message})
        talk.peer.send(note("_fault", {}))
        asking = asyncio.create_task(talk.connection.request("_ask", {}))
        asked = await talk.peer.expect(method="_ask")
        talk.peer.send(result(asked["id"], {}))
        with pytest.raises(ProtocolError, match="ZeroDivisionError"):
            await asking
        assert await talk.answers() == []


@asynccontextmanager
async def piped(max_frame: int) -> AsyncIterator[tuple[StreamTransport, StreamTransport]]:
    """Two transports over pipes; ours takes frames up to this size."""
    to_us, from_peer = os.pipe()
    to_peer, from_us = os.pipe()
    ours = StreamTransport(to_us, from_us, peer="the peer", max_frame=max_frame)
    theirs = StreamTransport(to_peer, from_peer, peer="us")
    try:
        yield ours, theirs
    finally:
        await ours.close()
        await theirs.close()


BULK = "x" * 200_000


async def test_a_request_over_the_limit_is_answered_with_too_large_and_its_id() -> None:
    async with piped(1000) as ends, talking(ends=ends) as talk:
        for frame in (
            call(5, "_echo", {"bulk": BULK, "id": 6}),
            {"params": {"id": 6, "bulk": BULK}, "method": "_echo", "id": 5},
        ):
            talk.peer.send(frame)
            answer = await talk.peer.expect(id=5, error={"code": -32600, "data": {"kind": "too_large"}})
            assert answer["error"]["data"]["size"] > 200_000
        talk.peer.send({"params": {"id": 6, "bulk": BULK}, "method": "_echo"})
        answer = await talk.peer.expect(error={"code": -32600, "data": {"kind": "invalid_request"}})
        assert answer["id"] is None
        assert await talk.answers() == []


async def test_an_answer_over_the_limit_fails_its_request_only() -> None:
    async with piped(1000) as ends, talking(ends=ends) as talk:
        first = asyncio.create_task(talk.connection.request("_first", {}))
        second = asyncio.create_task(talk.connection.request("_second", {}))
        asked = [await talk.peer.expect(method="_first"), await talk.peer.expect(method="_second")]
        talk.peer.send({"result": {"bulk": BULK}, "jsonrpc": "2.0", "id": asked[0]["id"]})
        with pytest.raises(ProtocolError) as caught:
            await first
        assert caught.value.kind == Kind.TOO_LARGE
        talk.peer.send(result(asked[1]["id"], {"n": 2}))
        assert await second == {"n": 2}
        assert await talk.answers() == []


@pytest.mark.parametrize("garbage", [b"[" * 5000 + b"]" * 5000, b"{ oops }"])
async def test_an_answer_that_cannot_be_read_fails_its_request_only(garbage: bytes) -> None:
    async with talking() as talk:
        first = asyncio.create_task(talk.connection.request("_first", {}))
        second = asyncio.create_task(talk.connection.request("_second", {}))
        asked = [await talk.peer.expect(method="_first"), await talk.peer.expect(method="_second")]
        talk.peer.send(b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (asked[0]["id"], garbage))
        with pytest.raises(ProtocolError, match="the answer to _first"):
            await first
        talk.peer.send(b'{"jsonrpc":"2.0","id":99,"result":%b}' % garbage)  # 99 may be a request of the peer's own
        assert (await talk.peer.expect(error={"code": -32700}))["id"] is None
        talk.peer.send(result(asked[1]["id"], {"n": 2}))
        assert await second == {"n": 2}
        assert await talk.answers() == []


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ({"result": {"n": 1}}, {"n": 1}),
        ({"result": {"n": 1}, "error": None}, {"n": 1}),
        ({"result": {"n": 1}, "method": None}, {"n": 1}),
        ({"result": None}, None),
        ({"error": {"code": -32800, "message": "stopped"}}, Kind.CANCELLED),
        ({"error": {"code": -32601, "message": "?"}, "result": None}, Kind.METHOD_NOT_FOUND),
        ({"error": {"code": 1, "message": "odd"}}, Kind.INTERNAL_ERROR),
        ({"error": "only a text"}, Kind.INTERNAL_ERROR),
        ({"error": {"code": 1, "data": {"kind": "rate_limited"}}}, Kind.RATE_LIMITED),
        ({}, Kind.INVALID_REQUEST),
    ],
)
async def test_our_request_returns_the_answer_of_the_peer(answer: dict[str, Any], outcome: Any) -> None:
    async with talking() as talk:
        for as_text in (False, True):
            asking = asyncio.create_task(talk.connection.request("_ask", {}))
            id = (await talk.peer.expect(method="_ask", params={}))["id"]
            talk.peer.send({"jsonrpc": "2.0", "id": str(id) if as_text else id, **answer})
            if isinstance(outcome, str):
                with pytest.raises(ProtocolError) as caught:
                    await asking
                assert caught.value.kind == outcome
            else:
                assert await asking == outcome
        assert await talk.answers() == []


async def test_on_result_runs_before_the_next_message_and_its_error_is_raised() -> None:
    order: list[str] = []

    async with talking({"_told": lambda _: order.append("told")}) as talk:
        takers: list[Any] = [lambda _: order.append("first"), lambda _: 1 / 0]
        for first in takers:
            asking = asyncio.create_task(talk.connection.request("_ask", {}, on_result=first))
            asked = await talk.peer.expect(method="_ask")
            talk.peer.send(result(asked["id"], {}))
            talk.peer.send(note("_told", {}))
            await asyncio.wait({asking})
        assert order == ["first", "told", "told"]
        assert isinstance(asking.exception(), ZeroDivisionError)
        assert await talk.answers() == []


async def test_unexpected_answers_are_reported_and_harmless() -> None:
    async with talking() as talk:
        for frame in (
            result(99, {}),
            result("²", {}),
            result("9" * 5000, {}),
            result(None, {}),
            {"error": {"code": -1, "message": "no id"}},
            {"id": 4, "error": {"code": float("1e300"), "message": [1]}},
            {"id": 4, "error": None},
        ):
            talk.peer.send(frame)
        talk.peer.send(b'{"error":{"code":1e999,"message":"caf\xc3"}}')
        assert await talk.answers() == []
        assert len(talk.reports) == 8


async def test_both_ends_count_from_zero_and_never_mix_up_their_ids() -> None:
    """docs/protocol/peers.md#id-shapes"""

    async with talking({"_mine": _later}) as talk:
        asking = asyncio.create_task(talk.connection.request("_ask", {}))
        assert (await talk.peer.expect(method="_ask"))["id"] == 0
        talk.peer.send(call(0, "_mine", {"from": "peer"}))
        await talk.peer.expect(id=0, result={"from": "peer"})
        talk.peer.send(result(0, {"to": "us"}))
        assert await asking == {"to": "us"}


async def test_a_request_that_is_not_answered_in_time_fails_and_is_cancelled() -> None:
    async with talking() as talk:
        with pytest.raises(ProtocolError, match=r"_ask was not answered within 0\.01 s") as caught:
            await talk.connection.request("_ask", {}, timeout=0.01)
        assert caught.value.kind == Kind.TIMEOUT
        asked = await talk.peer.expect(method="_ask")
        await talk.peer.expect(method="$/cancel_request", params={"requestId": asked["id"]})
        talk.peer.send(result(asked["id"], {"too": "late"}))
        assert await talk.answers() == []
        assert talk.reports == []  # a late answer is expected


async def test_cancelling_a_request_notifies_the_peer_if_the_dialect_can() -> None:
    for name, says in (("v1", True), ("banjo", True), ("crow", False), ("2025.1", False), ("draft", False)):
        async with talking(dialect=name) as talk:
            asking = asyncio.create_task(talk.connection.request("_ask", {}))
            asked = await talk.peer.expect(method="_ask")
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            if says:
                await talk.peer.expect(method="$/cancel_request", params={"requestId": asked["id"]})
            assert await talk.answers() == []


async def test_requests_over_the_limit_are_refused_and_the_others_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.engine.requests.MAX_RUNNING_REQUESTS", 3)

    gate = asyncio.Event()

    async def wait(_: Any) -> Any:
        await gate.wait()
        return {}

    async with talking({"_wait": wait}) as talk:
        for id in range(5):
            talk.peer.send(call(id, "_wait"))
        for id in (3, 4):
            await talk.peer.expect(id=id, error={"code": -32603, "data": {"kind": "rate_limited"}})
        gate.set()
        assert sorted([(await talk.peer.expect(result={}))["id"] for _ in range(3)]) == [0, 1, 2]
        talk.peer.send(call(6, "_wait"))
        await talk.peer.expect(id=6, result={})


async def test_a_slow_handler_slows_the_peer_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.engine.inbox.INBOX_BYTES", 2000)

    gate = asyncio.Event()
    seen: list[int] = []

    async def slowly(params: Any) -> None:
        await gate.wait()
        seen.append(params["n"])

    ends = memory_pair(limit=2000)
    async with talking({"_tell": slowly}, ends=ends) as talk:
        for n in range(500):
            talk.peer.send(note("_tell", {"n": n}))
        for _ in range(100):
            await asyncio.sleep(0)
        assert ends[1].congested()  # about 30,000 bytes were sent, and most of them wait at the peer's end
        assert seen == []
        gate.set()
        await talk.peer.request("last", "_echo", {})
        assert seen == list(range(500))
        assert not ends[1].congested()


async def test_a_peer_that_floods_a_handler_that_waits_for_it_causes_overload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.engine.inbox.INBOX_BYTES", 2000)
    monkeypatch.setattr("dragoman.engine.connection.INBOX_HARD_BYTES", 20_000)

    async def ask_back(_: Any) -> None:
        await talk.connection.request("_ask", {})

    async with talking({"_tell": ask_back}) as talk:
        asking = asyncio.create_task(talk.connection.request("_ask", {}))
        for n in range(2000):
            talk.peer.send(note("_tell", {"n": n}))
        with pytest.raises(Overloaded, match="that no handler has taken yet"):
            await asking
        assert isinstance(talk.connection.failure, Overloaded)


async def test_a_peer_that_reads_nothing_is_reported_as_a_stall() -> None:
    async with talking(ends=memory_pair(limit=100, stall=0.05)) as talk:
        asking = [asyncio.create_task(talk.connection.request("_ask", {"text": "x" * 100})) for _ in range(3)]
        for request in asking:
            with pytest.raises(WriteStalled, match=r"took no bytes for 0\.05 seconds"):
                await request
        assert isinstance(talk.connection.failure, WriteStalled)


async def test_requests_made_before_the_end_of_input_are_still_answered() -> None:
    to_us, from_peer = os.pipe()
    to_peer, from_us = os.pipe()
    ours = StreamTransport(to_us, from_us)
    begun, gate = asyncio.Event(), asyncio.Event()

    async def wait(params: Any) -> Any:
        begun.set()
        await gate.wait()
        return params

    async with talking({"_wait": wait}, ends=(ours, memory_pair()[0])) as talk:
        frames = [call(1, "_echo", {"n": 1}), call(2, "_wait", {"n": 2}), note("_echo", {}), call(3, "_echo", {})]
        text = b"\r\n".join(msgspec.json.encode(frame) for frame in frames)  # the last line lacks its newline
        os.write(from_peer, text)
        os.close(from_peer)
        await begun.wait()
        gate.set()
        await talk.connection.ended.wait()
        await ours.close()
        answers = [msgspec.json.decode(line) for line in os.read(to_peer, 10_000).splitlines()]
        os.close(to_peer)
        assert {answer["id"] for answer in answers} == {1, 2, 3}
        assert len(answers) == 3
        assert "closed the connection" in str(talk.connection.failure)


async def test_at_the_end_open_requests_fail_with_the_reason_and_handlers_are_cancelled() -> None:
    ended: list[str] = []

    async def wait(_: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("handler")

    async with talking({"_wait": wait}) as talk:
        talk.peer.send(call(1, "_wait"))
        asking = asyncio.create_task(talk.connection.request("_ask", {}))
        await talk.peer.expect(method="_ask")
        await talk.connection.close("no more")
        assert ended == ["handler"]
        for request in (asking, talk.connection.request("_again", {})):
            with pytest.raises(ConnectionFailed, match="no more"):
                await request
        talk.connection.notify("_note", {})  # sends nothing, fails nothing


async def test_a_second_initialize_cannot_change_the_capabilities() -> None:
    async with talking({"initialize": lambda _: {"protocolVersion": 1}}) as talk:
        talk.peer.send(call(1, "initialize", {"protocolVersion": 1, "clientCapabilities": {}}))
        await talk.peer.expect(id=1, result={"protocolVersion": 1})
        more = {"fs": {"readTextFile": True}}
        await talk.peer.request(2, "initialize", {"protocolVersion": 1, "clientCapabilities": more})
        assert not talk.connection.offers("client.fs.readTextFile")


async def test_an_agent_cannot_initialize_as_a_client() -> None:
    async with talking(we=Side.CLIENT) as talk:
        peer: ScriptedPeer = talk.peer
        answer = await peer.request(1, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        assert answer["error"]["code"] == -32601


@pytest.mark.parametrize("leaving", [call(1, "_leave"), note("_leave", {})], ids=["request", "notification"])
async def test_a_handler_may_close_its_own_connection(leaving: dict[str, Any]) -> None:
    left = asyncio.Event()

    async def leave(_: Any) -> Any:
        await asyncio.sleep(0)
        await talk.connection.close("enough")
        left.set()

    async def wait(_: Any) -> Any:
        await asyncio.Event().wait()

    async with talking({"_leave": leave, "_wait": wait}) as talk:
        talk.peer.send(call(7, "_wait"))
        talk.peer.send(leaving)
        await left.wait()
        assert "enough" in str(talk.connection.failure)
