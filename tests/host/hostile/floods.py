"""Attacks below the messages: HTTP/2 frames, ambiguous HTTP/1.1 heads, WebSocket frames.

Rows as in attacks.py. Slow ones are for the long run.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
from collections import Counter

from hpack import Encoder

from tests.host.hostile import http2_frames as h2
from tests.host.hostile.attacker import WITHIN, Target, closing, read
from tests.host.hostile.attacks import Attack

# Far more frames than the limit, and how many are sent at once.
MANY = 20_000
PIECE = 1_000


# --- HTTP/2 -------------------------------------------------------------------------------------------------------


def _flood(one: bytes, opening: bytes = b"") -> Attack:
    async def attack(target: Target) -> str:
        async with h2.http2_socket(target.port, WITHIN) as line:
            await line.send(opening, *[one * PIECE] * (MANY // PIECE))
            return await line.outcome()

    return attack


async def _admit(line: h2.Http2Socket, target: Target) -> bytes:
    """Make an authenticated request on stream 1, so that the socket is limited by itself. Return its headers."""
    block = h2.heads(extra=[("authorization", f"Bearer {target.good}")])
    await line.send(h2.request(1, block=block))
    assert await line.answers(1) == [1]
    return block


def _many_sockets(piece: bytes, count: int) -> Attack:
    """Return an attack by ten sockets without a token, each of them within the limits of one."""

    async def one(target: Target) -> str:
        async with h2.http2_socket(target.port, WITHIN) as line:
            await line.send(*[piece] * count)
            await line.send(h2.frame(h2.GOAWAY, bytes(8)))
            return await line.outcome()

    async def attack(target: Target) -> str:
        outcomes = await asyncio.gather(*(one(target) for _ in range(10)))
        return "most are calm" if outcomes.count("calm") >= 6 else ", ".join(outcomes)

    return attack


async def _rapid_reset(target: Target) -> str:
    async with h2.http2_socket(target.port, WITHIN) as line:
        block, code = h2.heads(), b"\0\0\0\x08"
        for start in range(1, 4_000, 200):
            pairs = (
                h2.request(stream, block=block) + h2.frame(h2.RST, code, stream=stream)
                for stream in range(start, start + 200, 2)
            )
            await line.send(b"".join(pairs))
        return await line.outcome()


async def _endless_continuation(target: Target) -> str:
    async with h2.http2_socket(target.port, WITHIN) as line:
        await _admit(line, target)
        await line.send(h2.request(3, flags=0))
        await line.send(*[h2.frame(h2.CONTINUATION, b"", stream=3) * 100] * 100)
        return await line.outcome()


async def _large_head(target: Target) -> str:
    block = Encoder().encode([(f"x-{n}", os.urandom(3000).hex()) for n in range(100)], huffman=False)
    pieces = [block[start : start + 16_000] for start in range(0, len(block), 16_000)]
    async with h2.http2_socket(target.port, WITHIN) as line:
        await line.send(h2.request(1, flags=0))
        await line.send(*(h2.frame(h2.CONTINUATION, piece, stream=1) for piece in pieces[:-1]))
        await line.send(h2.frame(h2.CONTINUATION, pieces[-1], flags=h2.END_HEADERS, stream=1))
        return await line.outcome()


async def _header_bomb(target: Target) -> str:
    """Send one long header, indexed, and then refer to it ten thousand times."""
    packer = Encoder()
    first = packer.encode([(":method", "GET"), (":scheme", "http"), (":path", "/"), ("x-long", "y" * 3900)])
    again = packer.encode([("x-long", "y" * 3900)])
    assert len(again) == 1
    async with h2.http2_socket(target.port, WITHIN) as line:
        await line.send(h2.request(1, block=bytes(first) + bytes(again) * 10_000))
        return await line.outcome()


async def _huge_table(target: Target) -> str:
    """Change the header table size without end. Expect a normal answer."""
    async with h2.http2_socket(target.port, WITHIN) as line:
        block = await _admit(line, target)
        await line.send(h2.settings(_1=2**31))
        await line.send(*(h2.settings(_1=size) for size in (0, 2**30) * 200))
        await line.send(*(h2.request(stream, block=block) for stream in range(3, 42, 2)))
        return f"answered {len(await line.answers(21))}"


async def _deep_priorities(target: Target) -> str:
    """Make each stream depend on the one before."""
    chain = (
        h2.frame(h2.PRIORITY, stream.to_bytes(4, "big") + b"\xff", stream=stream + 2) for stream in range(1, 3000, 2)
    )
    async with h2.http2_socket(target.port, WITHIN) as line:
        block = await _admit(line, target)
        await line.send(b"".join(chain), h2.request(3001, block=block))
        return f"answered {len(await line.answers(2))}"


async def _own_parent(target: Target) -> str:
    async with h2.http2_socket(target.port, WITHIN) as line:
        await line.send(h2.frame(h2.PRIORITY, (3).to_bytes(4, "big") + b"\0", stream=3))
        return await line.outcome()


async def _too_many_streams(target: Target) -> str:
    head = h2.heads(extra=[("authorization", f"Bearer {target.good}"), ("content-type", "application/json")])
    async with h2.http2_socket(target.port, WITHIN) as line:
        await _admit(line, target)
        await line.send(
            *(h2.request(stream, flags=h2.END_HEADERS, block=head) for stream in range(3, 2 * 300, 2)),
        )
        return await line.outcome()


async def _slow_preface(target: Target) -> str:
    return (await target.raw(*(h2.PREFACE[n : n + 1] for n in range(20)), pause=0.3)).decode()


async def _body_after_answer(target: Target) -> str:
    """Send an endless body after the refusal. The rest is dropped, and other streams are answered."""
    async with h2.http2_socket(target.port, WITHIN) as line:
        block = await _admit(line, target)
        await line.send(h2.request(3, flags=h2.END_HEADERS, block=block))
        await line.send(*[h2.frame(h2.DATA, b"x" * 1000, stream=3)] * 60)
        await line.send(h2.request(5, block=block))
        return f"answered {len(await line.answers(3))}"


async def _closed_window(target: Target) -> str:
    """Send requests and read nothing."""
    async with h2.http2_socket(target.port, WITHIN) as line:
        block = await _admit(line, target)
        await line.send(h2.settings(_4=0), *(h2.request(stream, block=block) for stream in range(3, 200, 2)))
        return await line.outcome()


async def _slow_head(target: Target) -> str:
    async with h2.http2_socket(target.port, WITHIN) as line:
        empty = h2.frame(h2.CONTINUATION, b"", stream=1)
        await line.send(
            h2.request(1, flags=0), *(empty[place : place + 1] for place in range(9)), *[empty] * 50, pause=0.3
        )
        return await line.outcome()


# --- HTTP/1.1 -----------------------------------------------------------------------------------------------------


def _post(*lines: str, body: bytes = b"", ends: str = "\r\n") -> Attack:
    """Return a POST of an authenticated user with these lines."""

    async def attack(target: Target) -> str:
        head = ["POST /acp HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {target.good}"]
        head += ["Content-Type: application/json", *lines, "", ""]
        return read(await target.raw(ends.join(head).encode("latin-1") + body))

    return attack


async def _pipeline(target: Target) -> str:
    """Send a thousand requests at once. They are answered in order, until they are too many without a token."""
    one = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    answer = await target.raw(one * 1000)
    return " then ".join(dict.fromkeys(status.decode() for status in re.findall(rb"HTTP/1\.1 (\d+)", answer)))


async def _refused_body(target: Target) -> str:
    """Send the body slowly after the refusal."""
    head = (
        b"POST /acp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    return read(await target.raw(head, *[b"1\r\n \r\n"] * 200, pause=0.1))


async def _slow_body_after_refusal(target: Target) -> str:
    head = (
        b"POST /acp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer " + target.good.encode() + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    return read(await target.raw(head, *[b"1\r\n \r\n"] * 200, pause=0.1))


async def _write_until_closed(writer: asyncio.StreamWriter, piece: bytes, within: float) -> str:
    """Write this again and again until the server closes."""
    try:
        async with asyncio.timeout(within):
            while True:
                writer.write(piece)
                await writer.drain()
    except OSError:
        return "cut"
    except TimeoutError:
        return "hangs"
    finally:
        writer.transport.abort()


async def _unread_answers(target: Target) -> str:
    """Send requests without end and read nothing."""
    _, writer = await asyncio.open_connection("127.0.0.1", target.port, limit=1024)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    return await _write_until_closed(writer, b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 1000, 4 * WITHIN)


# --- WebSocket ----------------------------------------------------------------------------------------------------


def _masked(opcode: int, payload: bytes, *, fin: bool = True, reserved: int = 0) -> bytes:
    """Return a frame of a client with a zero mask."""
    size = bytes((0x80 | len(payload),)) if len(payload) < 126 else b"\xfe" + len(payload).to_bytes(2, "big")
    return bytes(((0x80 if fin else 0) | reserved | opcode,)) + size + b"\0\0\0\0" + payload


def _frames(*pieces: bytes) -> Attack:
    async def attack(target: Target) -> str:
        async with target.socket(target.good) as socket:
            try:
                for piece in pieces:
                    if socket.transport.is_closing():
                        break
                    socket.transport.write(piece)
                    await asyncio.sleep(0)  # let the loop send it
            except OSError:
                pass
            return await closing(socket)

    return attack


async def _unfinished_messages(target: Target) -> str:
    """Send forty large messages without their ends, by as many sockets of a guest."""
    size = 900_000
    start = b"\x81\xff" + size.to_bytes(8, "big") + bytes(4) + b"x" * (size - 1)

    async def one() -> str:
        async with target.socket(target.shared) as socket:
            socket.transport.write(start)
            return await closing(socket)

    codes = Counter(await asyncio.gather(*(one() for _ in range(40))))
    is_bounded = codes.keys() == {"1013", "1008"} and codes["1013"] >= 30  # too much at once, or too late
    return "some wait until the deadline" if is_bounded else str(codes)


async def _idle_sockets(target: Target) -> str:
    """Open sockets that say nothing. All are closed in time."""

    async def one() -> str:
        return (await target.raw(b"")).decode()

    return ", ".join(set(await asyncio.gather(*(one() for _ in range(300)))))


async def _unread_pongs(target: Target) -> str:
    """Send pings without end and read no answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", target.port, limit=1024)
    key = base64.b64encode(os.urandom(16)).decode()
    head = f"GET /acp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {target.good}\r\nConnection: Upgrade\r\n"
    head += f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
    async with asyncio.timeout(WITHIN):
        writer.write(head.encode())
        await reader.readuntil(b"\r\n\r\n")
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    return await _write_until_closed(writer, _masked(9, b"x" * 125) * 500, WITHIN)


async def _compression(target: Target) -> str:
    async with target.socket(target.good) as socket:  # the client library offers it
        assert socket.response is not None
        assert socket.request is not None
        offered = "permessage-deflate" in socket.request.headers.get("Sec-WebSocket-Extensions", "")
        taken = "Sec-WebSocket-Extensions" in socket.response.headers
        return f"offered {offered}, taken {taken}"


async def _upgrade_with_body(target: Target) -> str:
    return await target.upgrade(target.good, Content_Length="10")


async def _upgrade_with_headers(target: Target) -> str:
    """Send more header lines than the library takes, and fewer bytes than our limit."""
    return await target.upgrade(target.good, **{f"X_{number}": "y" for number in range(200)})


PING, TEXT, CONT = 9, 1, 0

FLOODS: dict[str, tuple[Attack, str]] = {
    # --- HTTP/2
    "streams opened and reset by the thousand": (_rapid_reset, "calm"),
    "headers that go on without end": (_endless_continuation, "goaway 1"),
    "headers that are too large": (_large_head, "calm"),
    "a header said ten thousand times by a byte": (_header_bomb, "calm"),
    "a flood of settings": (_flood(h2.settings(_4=65_535)), "calm"),
    "a flood of pings": (_flood(h2.frame(h2.PING, b"12345678")), "calm"),
    "pings of ten sockets": (_many_sockets(h2.frame(h2.PING, b"12345678") * 100, 19), "most are calm"),
    "settings of ten sockets": (_many_sockets(h2.settings(_4=65_535) * 100, 19), "most are calm"),
    "requests of ten sockets": (
        _many_sockets(b"".join(h2.request(stream) for stream in range(1, 200, 2)), 1),
        "most are calm",
    ),
    "a flood of priorities": (_flood(h2.frame(h2.PRIORITY, b"\0\0\0\0\1", stream=5)), "calm"),
    "a flood of windows": (_flood(h2.frame(h2.WINDOW, b"\0\0\0\1")), "calm"),
    "a flood of frames nobody knows": (_flood(h2.frame(99, b"x")), "calm"),
    "a flood of empty pieces of a body": (
        _flood(h2.frame(h2.DATA, b"", stream=1), h2.request(1, flags=h2.END_HEADERS)),
        "calm",
    ),
    "a table of headers without end": (_huge_table, "answered 21"),
    "priorities that hang on each other": (_deep_priorities, "answered 2"),
    "a stream that hangs on itself": (_own_parent, "goaway 1"),
    "more requests at once than streams": (_too_many_streams, "goaway 1"),
    "a preface that drips": (_slow_preface, ""),
    "a body after the answer": (_body_after_answer, "answered 3"),
    # --- HTTP/1.1
    "a body with two kinds of length": (
        _post("Content-Length: 4", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
        "400 invalid_request",
    ),
    "a body with two lengths": (
        _post("Content-Length: 4", "Content-Length: 5", body=b"{}  "),
        "400 invalid_request",
    ),
    "a length that is no number": (_post("Content-Length: +4", body=b"{}  "), "400 invalid_request"),
    "an encoding that is none": (_post("Transfer-Encoding: xchunked", body=b"0\r\n\r\n"), "400 invalid_request"),
    "lines that end with LF alone": (_post("Content-Length: 2", body=b"{}", ends="\n"), "400 invalid_request"),
    "one line that ends with LF alone": (
        _post("X: y\nTransfer-Encoding: chunked", "Content-Length: 2", body=b"{}"),
        "400 invalid_request",
    ),
    "a header that goes on in the next line": (
        _post("X: y\r\n Transfer-Encoding: chunked", "Content-Length: 2", body=b"{}"),
        "400 invalid_request",
    ),
    "a space before the colon": (_post("Content-Length : 2", body=b"{}"), "400 invalid_request"),
    "a piece whose length is no number": (
        _post("Transfer-Encoding: chunked", body=b"zz\r\n"),
        "400 invalid_request",
    ),
    "a thousand requests in one breath": (_pipeline, "401 then 429"),
    "a body that drips after the answer": (_refused_body, "401 auth_required"),
    "a body in crumbs without end": (_slow_body_after_refusal, "408 timeout"),
    "an upgrade with a body": (_upgrade_with_body, "400 invalid_request"),
    "an upgrade with two hundred headers": (_upgrade_with_headers, "400 invalid_request"),
    # --- WebSocket
    "a flood of WebSocket pings": (_frames(*[_masked(PING, b"") * PIECE] * (MANY // PIECE)), "1008"),
    "a message of pieces without end": (
        _frames(_masked(TEXT, b"x", fin=False), *[_masked(CONT, b"", fin=False) * PIECE] * (MANY // PIECE)),
        "1008",
    ),
    "a message of pieces that is too large": (
        _frames(_masked(TEXT, b"x", fin=False), *[_masked(CONT, b"x" * 10_000, fin=False)] * 110),
        "1009",
    ),
    "pings whose answers are not read": (_unread_pongs, "cut"),
    "forty messages that do not end": (_unfinished_messages, "some wait until the deadline"),
    "three hundred sockets that say nothing": (_idle_sockets, ""),
    "an unmasked frame": (_frames(b"\x81\x02{}"), "1002"),
    "a ping that is too long": (_frames(b"\x89\xfe\x00\x7e\0\0\0\0" + b"x" * 126), "1002"),
    "a ping in pieces": (_frames(_masked(PING, b"x", fin=False)), "1002"),
    "a piece of no message": (_frames(_masked(CONT, b"x")), "1002"),
    "a message in the middle of another": (_frames(_masked(TEXT, b"{", fin=False), _masked(TEXT, b"{}")), "1002"),
    "a frame of no kind": (_frames(_masked(3, b"x")), "1002"),
    "compression is not agreed on": (_compression, "offered True, taken False"),
    "a compressed message all the same": (_frames(_masked(TEXT, b"x", reserved=0x40)), "1002"),
}

LASTING: dict[str, tuple[Attack, str]] = {
    "a window that never opens": (_closed_window, ""),
    "a head of HTTP/2 that drips": (_slow_head, ""),
    "answers that are not read": (_unread_answers, "cut"),
}
