"""Unfinished messages and bodies: bounded for each user and for all, with a deadline, and freed with their socket."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from contextlib import suppress

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from dragoman.transport.remote.server.auth import AuthRequest, Principal, bearer_token
from dragoman.transport.remote.server.limits import FREE_BYTES, ServerLimits
from dragoman.transport.remote.server.uvicorn_ws import UvicornWebSocket
from tests.transport.remote.module_server import INITIALIZE, WITHIN, Standing, standing

SIZE = 500_000
LIMITS = ServerLimits(unfinished=2 * SIZE, unfinished_all=3 * SIZE)


async def by_name(request: AuthRequest) -> Principal:
    """Believe every name."""
    return Principal(user=bearer_token(request))


def dial(there: Standing, user: str) -> ClientConnection:
    headers = {"Authorization": f"Bearer {user}"}
    url = there.url.replace("http", "ws")
    return connect(url, additional_headers=headers, open_timeout=WITHIN, close_timeout=0.1, ping_interval=None)


def send_bytes(end: ClientConnection, data: bytes) -> None:
    """Send bytes. A server that refuses the message may close the socket before it has all of them."""
    with suppress(OSError):
        end.socket.sendall(data)


def begin_frame(end: ClientConnection, size: int = SIZE) -> None:
    """Send all of a frame but its last byte."""
    send_bytes(end, b"\x81\xff" + size.to_bytes(8, "big") + bytes(4) + b"x" * (size - 1))


def begin_pieces(end: ClientConnection, size: int = SIZE) -> None:
    """Send a message in pieces, without the last one."""
    for number in range(10):
        piece = size // 10
        send_bytes(end, bytes((1 if number == 0 else 0, 0xFF)) + piece.to_bytes(8, "big") + bytes(4) + b"x" * piece)


def wait_for(there: Standing, condition: Callable[[], bool]) -> None:
    async def poll() -> None:
        async with asyncio.timeout(WITHIN):
            while not condition():  # noqa: ASYNC110 (the server does not call us)
                await asyncio.sleep(0.005)

    there.ask(poll())


def close_code(end: ClientConnection) -> tuple[int, str]:
    with pytest.raises(ConnectionClosed) as closed:
        end.recv(timeout=WITHIN)
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code, closed.value.rcvd.reason


def is_served(end: ClientConnection) -> bool:
    end.send(json.dumps(INITIALIZE))
    return "result" in json.loads(end.recv(timeout=WITHIN))


@pytest.mark.parametrize("begin", [begin_frame, begin_pieces])
def test_the_unfinished_messages_of_one_user_are_bounded(begin: Callable[[ClientConnection], None]) -> None:
    with standing(limits=LIMITS, authenticate=by_name) as there:
        budget = there.app.byte_budget
        with dial(there, "ann") as one, dial(there, "ann") as two, dial(there, "ann") as three:
            begin(one)
            begin(two)
            wait_for(there, lambda: budget.total >= 2 * (SIZE - FREE_BYTES) - 2)
            begin(three)
            code, reason = close_code(three)
            assert (code, reason.partition(":")[0]) == (1013, "rate_limited")
            with dial(there, "ben") as other, dial(there, "ann") as small:
                assert is_served(small), "small messages need no budget"
                begin(other)
                wait_for(there, lambda: budget.total > 2 * SIZE)
        wait_for(there, lambda: budget.total == 0)


def test_the_unfinished_messages_of_all_users_are_bounded() -> None:
    with standing(limits=LIMITS, authenticate=by_name) as there:
        ends = [dial(there, user) for user in ("ann", "ben", "carl")]
        for end in ends:
            begin_frame(end)
        wait_for(there, lambda: there.app.byte_budget.total >= 3 * (SIZE - FREE_BYTES) - 3)
        with dial(there, "dora") as last:
            begin_frame(last)
            assert close_code(last)[0] == 1013
        for end in ends:
            end.socket.shutdown(socket.SHUT_RDWR)
        wait_for(there, lambda: there.app.byte_budget.total == 0)


def test_a_message_that_never_ends_times_out_and_one_that_ends_does_not() -> None:
    with standing(limits=ServerLimits(body_timeout=0.3), authenticate=by_name) as there:
        with dial(there, "ann") as fine, dial(there, "ann") as slow:
            begin_pieces(slow, 100)
            begin_frame(fine, 100_000)
            fine.socket.sendall(b"x")
            assert close_code(slow) == (1008, "timeout: a message did not come within 0.3 seconds")
            assert "error" in json.loads(fine.recv(timeout=WITHIN))
            assert is_served(fine)


def test_the_bytes_of_a_lost_socket_are_freed_at_once() -> None:
    with standing(limits=LIMITS, authenticate=by_name) as there:
        with dial(there, "ann") as end, dial(there, "ann") as other:
            begin_frame(end)
            begin_pieces(other)
            wait_for(there, lambda: there.app.byte_budget.total >= 2 * (SIZE - FREE_BYTES) - 1)
            sockets = [each for each in there.served.server_state.connections if isinstance(each, UvicornWebSocket)]
            end.socket.shutdown(socket.SHUT_RDWR)
            other.socket.shutdown(socket.SHUT_RDWR)
            wait_for(there, lambda: not there.served.server_state.connections)
        assert len(sockets) == 2
        for each in sockets:  # not only when the garbage collector comes
            assert not each.conn.reader.buffer
            assert not each.frames
            assert each.scope["extensions"].keys() == {"websocket.http.response"}


def test_bytes_before_the_upgrade_is_accepted_close_the_socket() -> None:
    waiting = asyncio.Event()

    async def never(request: AuthRequest) -> Principal:
        await waiting.wait()
        return Principal(user="ann")

    with standing(limits=LIMITS, authenticate=never) as there:
        with there.dial() as end:
            end.sendall(
                b"GET /acp HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eHh4eHh4eHh4eHh4eHh4eA==\r\n\r\n"
            )
            many = (b"\x81\xff" + SIZE.to_bytes(8, "big") + bytes(SIZE)) * 100
            with pytest.raises(OSError, match=r"reset|pipe"):
                end.sendall(many)
        there.loop.call_soon_threadsafe(waiting.set)


def test_unfinished_bodies_count_too() -> None:
    with standing(limits=LIMITS, authenticate=by_name) as there:
        head = (
            b"POST /acp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ann\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % SIZE
        )
        ends = [there.dial() for _ in range(2)]
        for end in ends:
            end.sendall(head + b" " * (SIZE - 1))
        wait_for(there, lambda: there.app.byte_budget.total >= 2 * (SIZE - FREE_BYTES) - 2)
        with there.dial() as last:
            last.sendall(head + b" " * (SIZE - 1))
            assert last.recv(12) == b"HTTP/1.1 429"
        for end in ends:
            end.close()
        wait_for(there, lambda: there.app.byte_budget.total == 0)
