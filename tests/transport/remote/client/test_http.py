"""Streamable HTTP on the wire: what each request contains, and how deviations of other servers are handled."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dragoman.errors import TransportClosed, Unreachable
from dragoman.transport.remote.client.http import HttpTransport
from tests.transport.remote.client_and_server import meeting, take
from tests.transport.remote.scripted_server import Scripted, ServerRequest, scripted

WITHIN = 90.0


def call(id: int | None, method: str, **params: Any) -> bytes:
    head = {"jsonrpc": "2.0"} if id is None else {"jsonrpc": "2.0", "id": id}
    return json.dumps({**head, "method": method, "params": params}).encode()


async def receive_frames(ours: HttpTransport, count: int = 1) -> list[Any]:
    return [json.loads(frame) for frame in await take(ours, count)]


def play(work: Callable[[Scripted, HttpTransport], Awaitable[None]], said: list[str] | None = None) -> Scripted:
    async def main() -> Scripted:
        async with scripted(said) as (server, ours):
            await work(server, ours)
        return server

    return asyncio.run(asyncio.wait_for(main(), WITHIN))


def is_call(method: str) -> Callable[[ServerRequest], bool]:
    return lambda asked: asked.method == "POST" and asked.body.get("method") == method


def is_stream(session: str | None) -> Callable[[ServerRequest], bool]:
    return lambda asked: asked.method == "GET" and asked.session == session


def test_every_message_of_a_session_names_it_including_answers() -> None:
    async def work(server: Scripted, ours: HttpTransport) -> None:
        ours.send(call(1, "session/new", cwd="/", mcpServers=[]))
        server.say(id=1, result={"sessionId": "s1"})
        await receive_frames(ours)
        ours.send(call(2, "session/prompt", sessionId="s1", prompt=[]))
        server.say("s1", id=7, method="session/request_permission", params={"sessionId": "s1"})
        server.say("s1", id="seven", method="fs/read_text_file", params={"path": "/x"})  # no session in it
        await receive_frames(ours, 2)
        for id in (7, "seven"):
            ours.send(json.dumps({"jsonrpc": "2.0", "id": id, "result": {}}).encode())
        server.say("s1", id=2, result={"stopReason": "end_turn"})
        await receive_frames(ours)
        ours.send(call(None, "session/cancel", sessionId="s1"))
        ours.send(call(3, "session/list"))
        ours.send(call(4, "cancel", session_id="s2"))  # as another dialect spells it
        server.say(id=3, result={})
        await receive_frames(ours)
        await ours.close()

    server = play(work)
    assert server.posts() == [
        ("session/new", None),
        ("session/prompt", "s1"),
        ("answer to 7", "s1"),
        ("answer to seven", "s1"),
        ("session/cancel", "s1"),
        ("session/list", None),
        ("cancel", "s2"),
    ]
    first, *others = server.asked
    assert "acp-connection-id" not in first.headers
    assert {each.headers["acp-connection-id"] for each in others} == {"c1"}
    assert {each.headers["authorization"] for each in server.asked} == {"Bearer t"}
    assert {each.headers["x-team"] for each in server.asked} == {"blue"}
    assert {each.session for each in server.asked if each.method == "GET"} == {None, "s1", "s2"}
    assert {each.headers["accept"] for each in server.asked if each.method == "GET"} == {"text/event-stream"}
    assert server.asked[-1].method == "DELETE"


def test_cookies_are_kept_for_the_life_of_the_connection() -> None:
    async def work(server: Scripted, ours: HttpTransport) -> None:
        server.cookie = "node=a7; Path=/; HttpOnly"
        ours.send(call(1, "session/list"))
        ours.send(call(2, "session/list"))
        server.say(id=2, result={})
        await receive_frames(ours)

    server = play(work)
    assert server.asked[-1].headers["cookie"] == "node=a7"


def test_messages_are_posted_one_after_the_other_and_numbered() -> None:
    async def work(server: Scripted, ours: HttpTransport) -> None:
        for number in range(20):
            ours.send(call(None, "_n", n=number))
        ours.send(call(1, "session/list"))
        server.say(id=1, result={})
        await receive_frames(ours)

    posts = [each for each in play(work).asked if each.method == "POST"][1:]
    assert [each.body["params"].get("n") for each in posts] == [*range(20), None]
    assert [each.headers["dragoman-frame"] for each in posts] == [str(number) for number in range(1, 22)]


def test_a_rate_limited_message_is_sent_again_when_the_server_says() -> None:
    said: list[str] = []

    async def work(server: Scripted, ours: HttpTransport) -> None:
        server.refuse(is_call("session/list"), 429)
        server.refuse(is_call("session/list"), 503)
        ours.send(call(1, "session/list"))
        server.say(id=1, result={})
        await receive_frames(ours)

    assert play(work, said).posts() == [("session/list", None)] * 3
    assert len(said) == 2


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (404, b"Unknown session id", "session_not_found"),
        (400, b"Missing Acp-Session-Id", "invalid_request"),
        (413, b"Request body too large", "too_large"),
        (500, b"oops", "internal_error"),
        (501, b'{"error":{"kind":"capability_unsupported","message":"no batches"}}', "capability_unsupported"),
    ],
)
def test_a_refused_request_gets_an_error_and_the_connection_continues(status: int, body: bytes, kind: str) -> None:
    async def work(server: Scripted, ours: HttpTransport) -> None:
        server.refuse(is_call("session/prompt"), status, body)
        ours.send(call(1, "session/prompt", sessionId="s1", prompt=[]))
        (answer,) = await receive_frames(ours)
        assert answer["id"] == 1
        assert answer["error"]["data"]["kind"] == kind
        ours.send(call(2, "session/list"))
        server.say(id=2, result={})
        assert (await receive_frames(ours))[0]["id"] == 2

    assert len(play(work).posts()) == 2


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (404, b"Unknown Acp-Connection-Id", TransportClosed),
        (404, b'{"error":{"kind":"resource_not_found","message":"load your sessions"}}', TransportClosed),
        (401, b"", Unreachable),
    ],
)
def test_a_connection_that_the_server_forgot_ends(status: int, body: bytes, error: type[Exception]) -> None:
    async def work(server: Scripted, ours: HttpTransport) -> None:
        server.refuse(is_call("session/list"), status, body)
        ours.send(call(1, "session/list"))
        with pytest.raises(error):
            await ours.receive()

    play(work)


def test_session_load_is_retried_without_the_session_header_if_the_server_does_not_know_it() -> None:
    async def work(server: Scripted, ours: HttpTransport) -> None:
        server.refuse(is_stream("s1"), 404, b"Unknown session id")
        server.refuse(is_call("session/load"), 404, b"Unknown session id")
        ours.send(call(1, "session/load", sessionId="s1", cwd="/", mcpServers=[]))
        await server.wait_for_method("session/load", 2)
        server.say(method="session/update", params={"sessionId": "s1"})  # its history comes on the connection's stream
        server.say(id=1, result={})
        history, answer = await receive_frames(ours, 2)
        assert (history["method"], answer["id"]) == ("session/update", 1)
        server.say("s1", method="session/update", params={"sessionId": "s1", "later": True})
        assert (await receive_frames(ours))[0]["params"]["later"]  # the stream was requested again

    assert play(work).posts() == [("session/load", "s1"), ("session/load", None)]


def test_a_stream_that_seems_to_have_another_reader_is_requested_again() -> None:
    async def work(server: Scripted, ours: HttpTransport) -> None:
        for _ in range(3):
            server.refuse(is_stream("s1"), 409, b"Outbound stream already has an active receiver")
        ours.send(call(1, "session/prompt", sessionId="s1", prompt=[]))
        server.say("s1", id=1, result={})
        assert (await receive_frames(ours))[0]["id"] == 1

    play(work)


def test_a_stream_that_ends_normally_is_requested_again() -> None:
    async def work(server: Scripted, ours: HttpTransport) -> None:
        for number in range(8):
            server.say(method="_n", params={"n": number})
            assert (await receive_frames(ours))[0]["params"]["n"] == number
            server.stream().put_nowait(None)

    play(work)


def test_the_answer_to_a_load_waits_for_the_history_on_another_stream() -> None:
    async def work(server: Scripted, ours: HttpTransport) -> None:
        ours.send(call(1, "session/load", sessionId="s1", cwd="/", mcpServers=[]))
        await server.wait_for_method("session/load")
        server.say(id=1, result={})
        await asyncio.sleep(0.03)  # the history is late, as it may be on another socket
        for number in range(3):
            server.say("s1", method="session/update", params={"sessionId": "s1", "n": number})
        assert [message.get("id") for message in await receive_frames(ours, 4)] == [None, None, None, 1]

    play(work)


async def test_messages_of_our_server_arrive_in_order_over_two_streams() -> None:
    async with meeting() as there:
        ours, theirs = await there.meet("http")
        ours.send(call(1, "session/load", sessionId="s1", cwd="/", mcpServers=[]))
        await take(theirs, 1)
        history = [
            json.dumps(
                {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s1", "n": number}},
                separators=(",", ":"),
            ).encode()
            for number in range(2000)
        ]
        answer = b'{"jsonrpc":"2.0","id":1,"result":{}}'
        for frame in (*history, answer):
            theirs.send(frame)
        assert await take(ours, 2001) == [*history, answer]
        await ours.close()
