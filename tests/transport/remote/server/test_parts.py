"""The parts of the server that need no socket: resume buffers, rate limits, routing, and authentication."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.dialect.peek import FramePeek, NotOneMessage, peek_frame
from dragoman.errors import ProtocolError, StartFailed, WriteStalled
from dragoman.transport.base import MAX_QUEUED_BYTES
from dragoman.transport.remote.resume import (
    ACK_FRAMES,
    Acknowledgement,
    FramesGone,
    ResumeBuffer,
    encode_ack,
    parse_ack,
)
from dragoman.transport.remote.server.auth import AuthRequest, Refused
from dragoman.transport.remote.server.http_transport import HttpServerTransport
from dragoman.transport.remote.server.limits import RateLimiter, ServerLimits
from dragoman.transport.remote.server.origin import (
    authenticate_local,
    check_bind,
    check_host,
    check_origin,
    needs_proof,
    socket_owner,
)
from dragoman.transport.remote.server.ws_transport import WebSocketServerTransport
from dragoman.transport.remote.sse import encode_events, parse_cursor
from dragoman.transport.remote.streams import StreamRouter

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 30)),
        st.tuples(st.just("take"), st.one_of(st.none(), st.integers(0, 60))),
        st.tuples(st.just("cut"), st.integers(0, 5)),
        st.tuples(st.just("ack"), st.integers(0, 5)),
    ),
    max_size=60,
)


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_a_reconnected_client_gets_every_frame_once_and_in_order(steps: list[tuple[str, int | None]]) -> None:
    spool = ResumeBuffer(keep_bytes=None)
    received: list[bytes] = []
    sent: list[bytes] = []
    for step, number in steps:
        if step == "add":
            sent.append(b"%d" % len(sent) + b"x" * (number or 0))
            spool.add(sent[-1])
        elif step == "take":
            received += spool.take(number)
        elif step == "cut":  # the last ones were being sent when the socket was cut
            del received[max(len(received) - (number or 0), spool.last_taken - len(spool._taken_frames)) :]
            spool.rewind(len(received))
        else:
            spool.acknowledge(max(0, len(received) - (number or 0)))
        assert received == sent[: len(received)]
        assert spool.last_number == len(sent)
        assert spool.unacknowledged_size == sum(map(len, list(spool._taken_frames))) + sum(
            map(len, sent[len(received) :])
        )
    received += spool.take()
    assert received == sent


def test_frames_beyond_the_buffer_are_dropped() -> None:
    spool = ResumeBuffer(keep_bytes=10)
    for number in range(10):
        spool.add(b"%d" % number * 4)
    assert len(spool.take()) == 10
    spool.rewind(8)
    assert spool.take() == [b"8888", b"9999"]
    for number in (7, 11):
        with pytest.raises(FramesGone):
            spool.rewind(number)


async def test_all_posts_that_wait_for_space_are_delivered_when_there_is_some() -> None:
    transport = HttpServerTransport("ann", ServerLimits(stall=10.0))
    await transport.deliver_post(b"x" * (MAX_QUEUED_BYTES + 1), FramePeek())
    posts = [asyncio.ensure_future(transport.deliver_post(b"{}", FramePeek())) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(post.done() for post in posts)
    assert len(await transport.receive()) == 1
    async with asyncio.timeout(60.0):
        await asyncio.gather(*posts)
    assert await transport.receive() == [b"{}"] * 3


async def test_acknowledgements_are_sent_after_many_frames_and_parse_as_written() -> None:
    sent: list[bytes] = []
    buffer = ResumeBuffer(keep_bytes=None)

    def send(frame: bytes) -> bool:
        sent.append(frame)
        return True

    acknowledgement = Acknowledgement(buffer, send)
    for _ in range(ACK_FRAMES):
        assert not sent
        assert acknowledgement.count_frames([b"{}"], 2) == [b"{}"]
    assert [parse_ack(frame) for frame in sent] == [ACK_FRAMES]
    buffer.extend([b"one", b"two"])
    buffer.take()
    assert acknowledgement.count_frames([encode_ack(1), b"{}"], 2) == [b"{}"]
    assert buffer.unacknowledged_size == len(b"two")
    assert acknowledgement.received_count == ACK_FRAMES + 1
    assert len(sent) == 1
    acknowledgement.stop()
    assert parse_ack(encode_ack(7)) == 7
    for frame in (b"{}", b'{"jsonrpc":"2.0","method":"_dragoman/ack","params":{"cursor":-1}}', b"x", None):
        assert parse_ack(frame) is None


@pytest.mark.parametrize(
    "make",
    [
        lambda limits: WebSocketServerTransport("ann", limits),
        lambda limits: WebSocketServerTransport("ann", limits, is_resumable=True),
        lambda limits: HttpServerTransport("ann", limits),
    ],
)
async def test_one_frame_of_any_size_is_accepted_and_the_next_has_the_full_limit(
    make: Callable[[ServerLimits], WebSocketServerTransport | HttpServerTransport],
) -> None:
    transport = make(ServerLimits(buffered=1000))
    transport.send(b"x" * 5000, "s")
    for _ in range(10):
        transport.send(b"y" * 100, "s")
    assert not transport.closed.done()
    transport.send(b"z", "s")  # too much, which is noticed at the end of the pass
    await asyncio.sleep(0)
    assert transport.closed.done()
    with pytest.raises(WriteStalled, match="slow_consumer"):
        transport.send(b"z", "s")


def test_events_have_their_number_and_that_of_the_log() -> None:
    logged = b'{"params":{"_meta":{"dragoman":{"seq":41}}}}'
    quoted = msgspec.json.encode({"text": '"dragoman":{"seq":5}'})
    assert encode_events([b"{}", logged, quoted, b"{\n}"], 7) == (
        b"id: 7\ndata: {}\n\n"
        b"id: 8.41\ndata: " + logged + b"\n\n"
        b"id: 9\ndata: " + quoted + b"\n\n"
        b"id: 10\ndata: {\ndata: }\n\n"
    )
    assert encode_events([b"{\r}"], 1) == b"id: 1\ndata: {\ndata: }\n\n"
    assert encode_events([b"{}", b"[]"], 1, {2: b"5 s"}).startswith(b"id: 1\ndata: {}\n\ndragoman-after: 5 s\nid: 2\n")
    assert [parse_cursor(id) for id in ("8.41", "7", "", "x", "-1")] == [8, 7, None, None, None]


def test_each_user_has_a_separate_token_bucket() -> None:
    rate = RateLimiter(10.0, 20)
    assert [rate.take("ann", 0.0) for _ in range(20)] == [0.0] * 20
    assert rate.take("ann", 0.0) == pytest.approx(0.1)
    assert rate.take("bob", 0.0, 20) == 0.0
    assert rate.take("ann", 0.5, 5) == 0.0
    assert rate.take("ann", 0.5) > 0
    rate.drop_full_buckets(1.0)
    assert len(rate._buckets) == 2
    rate.drop_full_buckets(10.0)
    assert rate._buckets == {}


def frame(**members: object) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", **members})


def test_answers_and_updates_go_to_the_stream_of_their_session() -> None:
    routing = StreamRouter()
    routing.note_client_frame(peek_frame(frame(id=1, method="session/new", params={"cwd": "/"})))
    routing.note_client_frame(peek_frame(frame(id=2, method="session/prompt", params={"sessionId": "s"})))
    routing.note_client_frame(peek_frame(frame(id="3", method="session/load", params={"sessionId": "t"})))
    routing.note_client_frame(peek_frame(frame(id=4, method="session/prompt", params={"session_id": "u"})))
    assert routing.session_of(frame(id=1, result={"sessionId": "s"})) is None
    assert routing.known_sessions == {"s", "t"}
    update = frame(method="session/update", params={"sessionId": "s", "update": {}})
    assert [routing.session_of(update), routing.session_of(update)] == ["s", "s"]
    assert routing.session_of(frame(method="session/update", params={"sessionId": "s2", "update": {}})) == "s2"
    assert routing.session_of(frame(method="session/update", params={"sessionId": 'q"', "update": {}})) == 'q"'
    assert routing.session_of(frame(id=9, method="session/request_permission", params={"sessionId": "s"})) == "s"
    assert routing.session_of(frame(method="$/cancel_request", params={"requestId": 9})) == "s"
    assert routing.session_of(frame(id=2, result={})) == "s"
    assert routing.session_of(frame(id=2, result={})) is None, "an answer is given once"
    assert routing.session_of(frame(id="3", result={})) is None
    assert routing.session_of(frame(id=4, error={})) == "u"
    assert routing.session_of(frame(method="auth/status_update", params={})) is None


def test_a_text_that_is_not_one_message_is_recognized() -> None:
    for text in (b"[]", b"5", b"null"):
        with pytest.raises(NotOneMessage):
            peek_frame(text)
    with pytest.raises(ProtocolError, match="not JSON"):
        peek_frame(b"{")
    assert peek_frame(b'{"method":"x","params":[1],"id":{}}').method == "x"
    assert peek_frame(rb'{"method":"x","params":{"sessionId":"s","text":"\ud83d"}}').session == "s"


@pytest.mark.parametrize(
    ("host", "here", "hosts", "is_let_in"),
    [
        ("127.0.0.1:8000", "127.0.0.1", (), True),
        ("localhost", "127.0.0.1", (), True),
        ("[::1]:8000", "::1", (), True),
        ("LOCALHOST:9", "127.0.0.1", (), True),
        ("evil.example", "127.0.0.1", (), False),
        ("127.0.0.1.evil.example", "127.0.0.1", (), False),
        ("", "127.0.0.1", (), False),
        ("[", "127.0.0.1", (), False),
        ("mine.example:8000", "127.0.0.1", ("mine.example",), True),
        ("host.example", "192.0.2.1", (), True),
        ("host.example", "192.0.2.1", ("other.example",), False),
    ],
)
def test_only_our_own_host_names_are_accepted(host: str, here: str, hosts: tuple[str, ...], is_let_in: bool) -> None:
    request = AuthRequest(headers={"host": host}, server_address=(here, 8000))
    if is_let_in:
        check_host(request, hosts)
    else:
        with pytest.raises(Refused) as refused:
            check_host(request, hosts)
        assert refused.value.status == 421


@pytest.mark.parametrize(
    ("origin", "secure", "is_let_in"),
    [
        (None, False, True),
        ("http://localhost:8000", False, True),
        ("https://localhost:8000", True, True),
        ("http://localhost:8000", True, False),
        ("http://localhost:3000", False, False),
        ("http://localhost", False, False),
        ("null", False, False),
        ("https://editor.example", False, True),
        ("https://editor.example.evil", False, False),
    ],
)
def test_only_our_own_pages_and_allowed_origins_are_served(origin: str | None, secure: bool, is_let_in: bool) -> None:
    headers = {"host": "localhost:8000"} | ({"origin": origin} if origin is not None else {})
    request = AuthRequest(headers=headers, is_secure=secure)
    if is_let_in:
        check_origin(request, ("https://editor.example",))
    else:
        with pytest.raises(Refused) as refused:
            check_origin(request, ("https://editor.example",))
        assert refused.value.status == 403


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who owns a socket")
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_the_owner_of_a_socket_is_found_and_a_closed_socket_has_none(family: socket.AddressFamily) -> None:
    address = "127.0.0.1" if family is socket.AF_INET else "::1"
    try:
        listening = socket.create_server((address, 0), family=family)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with listening:
        here = listening.getsockname()[:2]
        with socket.create_connection(here) as end:
            there = end.getsockname()[:2]
            accepted, _ = listening.accept()
            assert socket_owner(there, here) == os.getuid()
            request = AuthRequest(address=there[0], port=there[1], server_address=here)
            visitor = asyncio.run(authenticate_local(request))
            assert (visitor.is_local, bool(visitor.user)) == (True, True)
        with accepted:  # the other end is closed: nobody owns a socket that was closed after sending
            assert socket_owner(there, here) == -1
            assert asyncio.run(authenticate_local(request)).is_local, "the same socket was found out before"
            with pytest.raises(Refused, match="another user"):
                asyncio.run(authenticate_local(AuthRequest(address=there[0], port=there[1], server_address=here)))


@pytest.mark.parametrize(
    "auth_request",
    [
        AuthRequest(address="192.0.2.7"),
        AuthRequest(address=""),
        AuthRequest(address="127.0.0.1", headers={"via": "proxy"}),
    ],
)
def test_a_remote_client_is_never_the_owner(auth_request: AuthRequest) -> None:
    with pytest.raises(Refused) as refused:
        asyncio.run(authenticate_local(auth_request))
    assert refused.value.status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_gets_nothing_where_no_token_is_needed(site: str) -> None:
    knock = AuthRequest(address="127.0.0.1", headers={"sec-fetch-site": site}, socket_cache={"uid": os.getuid()})
    with pytest.raises(Refused, match="page of another site") as refused:
        asyncio.run(authenticate_local(knock))
    assert refused.value.status == 403
    # An origin was checked before, and what the user typed comes from no site.
    for headers in ({"sec-fetch-site": site, "origin": "https://allowed.example"}, {"sec-fetch-site": "none"}):
        known = {"uid": os.getuid(), "confined": False}
        assert asyncio.run(authenticate_local(AuthRequest(address="::1", headers=headers, socket_cache=known))).is_local


def test_a_connection_of_nobody_knows_whom_is_not_the_owner() -> None:
    knock = AuthRequest(address="127.0.0.1", socket_cache={"uid": None})
    with pytest.raises(Refused, match="dragoman tokens create") as refused:
        asyncio.run(authenticate_local(knock))
    assert refused.value.status == 401
    assert needs_proof(knock)
    for other in (
        AuthRequest(address="127.0.0.1", socket_cache={"uid": None}, headers={"via": "proxy"}),
        AuthRequest(address="192.0.2.7", socket_cache={"uid": None}),
        AuthRequest(address="127.0.0.1", socket_cache={"uid": 5}),
    ):
        assert not needs_proof(other)


@pytest.mark.parametrize(
    ("bind", "tls", "leave", "found"),
    [
        ("127.0.0.1:8000", False, False, ("127.0.0.1", 8000)),
        ("localhost:0", False, False, ("127.0.0.1", 0)),
        ("8000", False, False, ("127.0.0.1", 8000)),
        ("[::1]:9", False, False, ("::1", 9)),
        ("0.0.0.0:9", True, True, ("0.0.0.0", 9)),
        ("host.example:9", True, True, ("host.example", 9)),
        ("0.0.0.0:9", False, True, "TLS"),
        ("[::]:9", False, True, "TLS"),
        ("host.example:9", False, True, "TLS"),
        ("0.0.0.0:9", True, False, "tokens"),
        ("127.0.0.1", False, False, "give the address to listen at"),
        (":8000", False, False, "give the address to listen at"),
        ("127.0.0.1:x", False, False, "give the address to listen at"),
        ("127.0.0.1:99999", False, False, "99999 is not a port"),
    ],
)
@pytest.mark.item("004-57")
def test_listen_addresses_are_parsed(bind: str, tls: bool, leave: bool, found: tuple[str, int] | str) -> None:
    if isinstance(found, tuple):
        assert check_bind(bind, has_tls=tls, has_auth=leave) == found
    else:
        with pytest.raises(StartFailed, match=found):
            check_bind(bind, has_tls=tls, has_auth=leave)


def test_without_the_extra_the_error_says_what_to_install() -> None:
    script = (
        "import sys, asyncio; sys.modules['uvicorn'] = None\n"
        "from dragoman import Agent\n"
        "app = Agent('x').asgi()\n"
        "try: asyncio.run(Agent('x').serve('127.0.0.1:0'))\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.startswith("StartFailed ")
    assert "pip install 'dragoman[host]'" in run.stdout
