"""Event streams are parsed in any chunking, with ids and without, also from servers that deviate from the standard."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import Overloaded
from dragoman.transport.remote.sse import EventParser, ServerSentEvent, encode_events


def fed(stream: bytes, cuts: list[int]) -> list[ServerSentEvent]:
    parser, got, at, turn = EventParser(), [], 0, 0
    while at < len(stream):
        size = cuts[turn % len(cuts)]
        got += parser.feed(stream[at : at + size])
        at, turn = at + size, turn + 1
    return got


cuts = st.lists(st.integers(1, 60), min_size=1, max_size=6)
lines = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=40).map(str.encode)


@settings(max_examples=60, deadline=None)
@given(st.lists(lines, max_size=8), cuts, st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_the_reader_reads_what_the_writer_wrote_with_any_line_end(
    frames: list[bytes], cuts: list[int], end: bytes
) -> None:
    stream = encode_events(frames, 5).replace(b"\n", end)
    # A carriage return at the very end may be half of a line end: the next bytes decide.
    got = fed(stream + b": keepalive" + end, cuts)
    assert [event.data for event in got] == frames
    assert [event.id for event in got] == [b"%d" % number for number in range(5, 5 + len(frames))]
    taken = EventParser().feed_batch(stream + b": keepalive" + end)
    assert taken.frames == frames
    assert taken.last_id == (got[-1].id if got else b"")


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b'data: {"a":1}\n\n', [ServerSentEvent(b'{"a":1}')]),
        (b'data:{"a":1}\n\n', [ServerSentEvent(b'{"a":1}')]),
        (b'data: {"a":\ndata: 1}\n\n', [ServerSentEvent(b'{"a": 1}')]),
        (b"event: message\nid: 7.12\ndata: x\nretry: 5\n\n", [ServerSentEvent(b"x", b"7.12")]),
        (b"id: 3\ndata: x\ndragoman-after: 9 s\n\n", [ServerSentEvent(b"x", b"3", b"9 s")]),
        (b": keepalive\n\ndata: x\n\n: more\n\n", [ServerSentEvent(b"x")]),
        (b"\n\n\ndata: x\n\n\n\ndata: y\n\n", [ServerSentEvent(b"x"), ServerSentEvent(b"y")]),
        (b"id: 1\n\n", []),
        (b"data: unfinished\n", []),
        (
            b"id: 1\ndata: x\n\nid: 2\n\nid: 3\ndata: y\ndata: z\n\n",
            [ServerSentEvent(b"x", b"1"), ServerSentEvent(b"y z", b"3")],
        ),
    ],
)
def test_every_form_of_an_event_is_parsed(stream: bytes, expected: list[ServerSentEvent]) -> None:
    for size in (1, 3, 1000):
        assert fed(stream, [size]) == expected
    taken = EventParser().feed_batch(stream)
    assert taken.frames == [event.data for event in expected]
    assert taken.last_id == (expected[-1].id if expected else b"")
    assert list(taken.after.values()) == [event.after for event in expected if event.after]


def test_an_event_that_never_ends_is_refused() -> None:
    parser = EventParser(limit=1000)
    parser.feed(b"data: " + b"x" * 1000)
    with pytest.raises(Overloaded, match="an event of more than"):
        parser.feed(b"x" * 100_000)
