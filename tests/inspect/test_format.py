"""The format: traffic is restored byte for byte, and unreadable lines are reported."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.inspect.reader import MAX_NOISE_LINES, NotARecording, RecordingReader
from dragoman.transport.recording.format import (
    KEPT_OF_LONG_LINE,
    Header,
    TrafficSplitter,
    frame_line,
    header_line,
    restore_bytes,
)
from tests.inspect.conversation import TALK, lines

pieces = st.lists(
    st.one_of(
        st.binary(max_size=20), st.sampled_from([b"\n", b"\r\n", b'{"a":1}', b'{"a":"\xc3\xa9"}\r\n', b"\xff\n"])
    ),
    max_size=30,
)


@given(pieces)
def test_the_traffic_is_restored_byte_for_byte(chunks: list[bytes]) -> None:
    cutter = TrafficSplitter()
    found = [line for chunk in chunks for line in cutter.feed(chunk)] + cutter.finish()
    file = [header_line(Header())] + [frame_line(n, "a2c", *line) for n, line in enumerate(found)]
    for line in file:
        assert isinstance(json.loads(line), dict)
    reader = RecordingReader()
    assert restore_bytes(list(reader.read(file)), "a2c") == b"".join(chunks)
    assert reader.problems == []


@pytest.mark.parametrize("parts", [[b"x" * 50 + b"\r\n"], [b"x" * 20, b"x" * 30, b"\r", b"\n"], [b"x" * 49, b"x\n"]])
def test_a_huge_line_is_recorded_with_its_beginning_and_size(parts: list[bytes]) -> None:
    cutter = TrafficSplitter(limit=40)
    (line,) = [line for part in [*parts, b"next"] for line in cutter.feed(part)]
    assert line.cut == 50
    assert line.data == b"x" * len(line.data)
    assert 40 <= len(line.data) <= KEPT_OF_LONG_LINE
    assert cutter.finish()[0].data == b"next"


def test_a_line_of_exactly_the_limit_is_recorded_completely() -> None:
    cutter = TrafficSplitter(limit=40)
    found = [*cutter.feed(b"x" * 30), *cutter.feed(b"x" * 10 + b"\r\n")]
    assert [(line.data, line.eol, line.cut) for line in found] == [(b"x" * 40, b"\r\n", 0)]


def test_a_message_is_embedded_as_it_was_sent() -> None:
    assert (
        frame_line(7, "c2a", b'{"id": 1,  "x":"\\u00e9"}') == b'{"t":7,"dir":"c2a","msg":{"id": 1,  "x":"\\u00e9"}}\n'
    )


def test_a_truncated_recording_is_read_up_to_its_end() -> None:
    whole = lines()
    reader = RecordingReader()
    found = list(reader.read([*whole[:4], whole[4][:20]]))
    assert len(found) == 3
    assert [(trouble.line, "cut" in trouble.reason) for trouble in reader.problems] == [(5, True)]


def test_noise_in_a_recording_is_skipped_and_reported_by_line() -> None:
    whole = lines()
    reader = RecordingReader()
    found = list(reader.read([*whole[:3], b"\x00garbage\n", b'{"some":"json"}\n', *whole[3:]]))
    assert len(found) == len(TALK)
    assert [trouble.line for trouble in reader.problems] == [4, 5]


def test_a_newer_format_is_read_as_far_as_possible() -> None:
    newer = b'{"dragoman":"recording","format":9}\n'
    unknown = [b'{"t":1,"dir":"c2a","zipped":"xyz"}\n', b'{"t":2,"dir":"sideways","msg":{}}\n']
    reader = RecordingReader()
    assert len(list(reader.read([newer, *lines()[1:3], *unknown, *lines()[3:]]))) == len(TALK)
    assert [trouble.line for trouble in reader.problems] == [1, 4, 5]
    assert "format 9 is newer" in reader.problems[0].reason


def test_a_file_that_is_not_a_recording_is_refused() -> None:
    with pytest.raises(NotARecording):
        list(RecordingReader().read([b"\x89PNG noise\n"] * (MAX_NOISE_LINES + 1)))


def test_bare_messages_get_their_direction_from_the_method_table() -> None:
    bare = [json.dumps(message).encode() + b"\n" for _, message in TALK]
    found = list(RecordingReader().read(bare))
    assert [each.direction for each in found] == [way for way, _ in TALK]
    assert {each.t for each in found} == {None}


def test_fractional_times_without_a_header_are_seconds() -> None:
    reader = RecordingReader()
    (found,) = reader.read([b'{"t": 0, "dir": "note", "cmd": ["x"]}\n', b'{"t": 1.5, "dir": "err", "raw": "hm"}\n'])
    assert (found.t, found.direction, found.data) == (1_500_000, "err", b"hm")
    assert reader.header.command == ["x"]
