"""WebSocket messages are parsed from bytes in any chunking and any fragmentation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode

from dragoman.transport.remote.client.ws_frames import CLOSE, PING, FrameParser, WebSocketProtocolError
from dragoman.wire.frames import Oversize


def wire(opcode: Opcode, data: bytes, fin: bool = True) -> bytes:
    """A frame as the `websockets` package writes it for a server."""
    return Frame(opcode, data, fin).serialize(mask=False)


def fed(stream: bytes, cuts: list[int], limit: int = 1 << 20) -> tuple[list[Any], list[tuple[int, bytes]]]:
    frames: list[Any] = []
    cutter, at, turn = FrameParser(limit), 0, 0
    while at < len(stream):
        size = cuts[turn % len(cuts)]
        frames += cutter.feed(stream[at : at + size])
        at, turn = at + size, turn + 1
    return frames, cutter.control_frames


texts = st.binary(max_size=200).map(lambda data: data.replace(b"\n", b" ").replace(b"\r", b" "))
messages = st.lists(st.tuples(st.sampled_from(["whole", "parts", "ping", "binary", "long"]), texts), max_size=8)


@settings(max_examples=60, deadline=None)
@given(messages, st.lists(st.integers(1, 300), min_size=1, max_size=6))
def test_any_chunking_gives_the_messages_that_were_sent(sent: list[tuple[str, bytes]], cuts: list[int]) -> None:
    stream, expected, pings = b"", [], []
    for kind, data in sent:
        if kind == "ping":
            stream += wire(Opcode.PING, data[:100])
            pings.append((PING, data[:100]))
        elif kind == "binary":
            stream += wire(Opcode.BINARY, data)
        elif kind == "parts":
            half = len(data) // 2
            stream += wire(Opcode.TEXT, data[:half], fin=False) + wire(Opcode.PING, b"between")
            stream += wire(Opcode.CONT, data[half:])
            pings.append((PING, b"between"))
            expected.append(data)
        else:
            whole = data * 400 if kind == "long" else data
            stream += wire(Opcode.TEXT, whole)
            expected.append(whole)
    assert fed(stream, cuts) == (expected, pings)


def test_a_message_beyond_the_limit_is_skipped_and_its_ends_are_kept() -> None:
    big = b'{"id":7,' + b"x" * 20_000 + b"}"
    stream = wire(Opcode.TEXT, b"before") + wire(Opcode.TEXT, big) + wire(Opcode.TEXT, b"after")
    for size in (1, 1000, len(stream)):
        (before, skipped, after), _ = fed(stream, [size], limit=10_000)
        assert (before, after) == (b"before", b"after")
        assert isinstance(skipped, Oversize)
        assert skipped.size == len(big)
        assert skipped.head == big[:4096]
        assert skipped.tail == big[-4096:]


def test_fragments_that_are_too_large_together_are_skipped_too() -> None:
    stream = wire(Opcode.TEXT, b"a" * 600, fin=False) + wire(Opcode.CONT, b"b" * 600) + wire(Opcode.TEXT, b"after")
    (skipped, after), _ = fed(stream, [100], limit=1000)
    assert isinstance(skipped, Oversize)
    assert (skipped.size, skipped.head[:1], skipped.tail[-1:]) == (1200, b"a", b"b")
    assert after == b"after"


def test_a_message_on_several_lines_becomes_one_line() -> None:
    frames, _ = fed(wire(Opcode.TEXT, b'{\r\n "a": 1\n}'), [1000])
    assert frames == [b'{   "a": 1 }']


def test_a_close_frame_is_kept_with_its_code() -> None:
    _, controls = fed(wire(Opcode.CLOSE, b"\x03\xe8bye"), [2])
    assert controls == [(CLOSE, b"\x03\xe8bye")]


@pytest.mark.parametrize(
    "stream",
    [
        Frame(Opcode.TEXT, b"masked").serialize(mask=True),
        b"\xc1\x02ab",  # an extension's bit
        wire(Opcode.CONT, b"of nothing"),
        wire(Opcode.TEXT, b"a", fin=False) + wire(Opcode.TEXT, b"b"),
        b"\x89\x7e\x00\x80" + b"x" * 128,  # a ping that is too long
        b"\x83\x01x",  # no known opcode
    ],
    ids=["masked", "extension", "continued", "interrupted", "long control", "opcode"],
)
def test_an_invalid_websocket_frame_is_refused(stream: bytes) -> None:
    with pytest.raises(WebSocketProtocolError) as raised:
        fed(stream, [1000])
    assert raised.value.code == 1002
