"""Framing: any chunking of a stream gives the same frames, and a line over the limit is skipped without being held."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.wire.frames import EXCERPT_SIZE, Frame, LineSplitter, Oversize

lines = st.lists(st.binary(max_size=30).map(lambda data: data.replace(b"\n", b" ")), max_size=8)
endings = st.sampled_from([b"\n", b"\r\n"])


def frames_of(*chunks: bytes, limit: int = 1000) -> list[Frame]:
    splitter = LineSplitter(limit)
    return [frame for chunk in chunks for frame in splitter.feed(chunk)] + splitter.finish()


def held(splitter: LineSplitter) -> int:
    """The bytes a splitter keeps."""
    skipped = splitter._skipped
    parts = sum(map(len, splitter._parts))
    return parts + (len(skipped.head) + len(skipped.tail) if skipped else 0)


@given(lines, endings)
def test_splitting_at_every_position_gives_the_same_frames(texts: list[bytes], ending: bytes) -> None:
    stream = ending.join([*texts, b"last"])
    whole = frames_of(stream, limit=20)
    for at in range(len(stream) + 1):
        assert frames_of(stream[:at], stream[at:], limit=20) == whole


@given(st.lists(st.binary(max_size=9), max_size=30), st.integers(min_value=1, max_value=12))
def test_any_chunking_gives_the_same_frames(chunks: list[bytes], limit: int) -> None:
    assert frames_of(*chunks, limit=limit) == frames_of(b"".join(chunks), limit=limit)


@given(st.binary(max_size=200))
def test_byte_by_byte_gives_the_same_frames(stream: bytes) -> None:
    assert frames_of(*(stream[i : i + 1] for i in range(len(stream))), limit=20) == frames_of(stream, limit=20)


def test_frames_come_in_order_and_without_their_line_ends() -> None:
    assert frames_of(b'{"a":1}\n{"b":2}\r\n{"c":3}\n') == [b'{"a":1}', b'{"b":2}', b'{"c":3}']


def test_blank_lines_are_dropped() -> None:
    assert frames_of(b"\n\r\n  \t\r\n\n1\n\n \n2") == [b"1", b"2"]


def test_a_last_line_without_a_newline_is_a_frame() -> None:
    assert frames_of(b"1\n2") == [b"1", b"2"]
    assert frames_of(b"1\n2\r") == [b"1", b"2"]
    assert frames_of(b"1\n") == [b"1"]
    assert frames_of(b"") == []


def test_only_one_carriage_return_belongs_to_the_line_end() -> None:
    assert frames_of(b"a\r\r\nb\rc\r\n") == [b"a\r", b"b\rc"]


def test_broken_utf_8_passes_as_it_is() -> None:
    assert frames_of(b"\xff\xc3\n\xf0\x9f") == [b"\xff\xc3", b"\xf0\x9f"]


def test_a_frame_of_exactly_the_limit_is_kept_and_one_more_byte_is_not() -> None:
    for ending in (b"\n", b"\r\n", b""):
        assert frames_of(b"x" * 50 + ending, limit=50) == [b"x" * 50]
        (frame,) = frames_of(b"x" * 51 + ending, limit=50)
        assert isinstance(frame, Oversize)
        assert frame.size == 51


@given(st.integers(min_value=1, max_value=60_000), st.integers(min_value=1, max_value=5000))
def test_a_line_over_the_limit_is_skipped_and_both_its_ends_are_kept(size: int, chunk: int) -> None:
    line = b"".join(b"%07d," % number for number in range(size // 8 + 1))
    stream = b"before\n" + line + b"\nafter\n"
    got = frames_of(*(stream[at : at + chunk] for at in range(0, len(stream), chunk)), limit=100)
    if len(line) <= 100:
        assert got == [b"before", line, b"after"]
    else:
        assert got == [b"before", Oversize(len(line), line[:EXCERPT_SIZE], line[-EXCERPT_SIZE:]), b"after"]


def test_a_line_over_the_limit_is_never_held() -> None:
    splitter = LineSplitter(10_000)
    most = 0
    for _ in range(2000):
        assert splitter.feed(b"x" * 5000) == []
        most = max(most, held(splitter))
    assert most <= 10_000 + 5000
    assert held(splitter) <= 2 * EXCERPT_SIZE + 1
    (frame,) = splitter.feed(b"\n")
    assert isinstance(frame, Oversize)
    assert frame.size == 10_000_000
    assert held(splitter) == 0


def test_nothing_is_left_of_frames_that_were_given() -> None:
    splitter = LineSplitter()
    splitter.feed(b"x" * 100_000 + b"\n" + b"y" * 10)
    assert held(splitter) == 10
    splitter.feed(b"\n")
    assert held(splitter) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="measures the process as Linux tells it")
def test_a_gigabyte_in_one_line_does_not_fill_memory() -> None:
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    splitter, chunk = LineSplitter(1024 * 1024), b"z" * (1024 * 1024)
    for _ in range(1024):
        splitter.feed(chunk)
    assert [type(frame) for frame in splitter.feed(b"\n")] == [Oversize]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # KiB
