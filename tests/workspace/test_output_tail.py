"""OutputTail: the end of a stream as text, never more than the limit and never half a character."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.workspace.terminal import OutputTail


def tail_of(data: bytes, limit: int, final: bool = True) -> tuple[str, bool]:
    tail = OutputTail(limit)
    tail.feed(data)
    return tail.read(final)


@pytest.mark.parametrize(
    ("text", "limit", "kept", "truncated"),
    [
        ("hello", 10, "hello", False),
        ("hello", 5, "hello", False),
        ("hello", 4, "ello", True),
        ("hello", 0, "", True),
        ("", 0, "", False),
        ("aé", 2, "é", True),
        ("aéb", 2, "b", True),
        ("a🙂", 4, "🙂", True),
        ("a🙂b", 4, "b", True),
        ("🙂", 3, "", True),
        ("日本", 5, "本", True),
    ],
)
def test_the_start_is_cut_between_characters(text: str, limit: int, kept: str, truncated: bool) -> None:
    assert tail_of(text.encode(), limit) == (kept, truncated)


def test_an_incomplete_character_is_omitted_until_the_end() -> None:
    tail = OutputTail(10)
    tail.feed("a🙂".encode()[:3])
    assert tail.read(final=False) == ("a", False)
    assert tail.read(final=True) == ("a\ufffd", False)
    tail.feed("🙂".encode()[2:])
    assert tail.read(final=False) == ("a🙂", False)


def test_invalid_bytes_are_replaced_and_still_counted() -> None:
    assert tail_of(b"\xff\xfe", 10) == ("\ufffd\ufffd", False)
    assert tail_of(b"\xff" * 4, 4) == ("\ufffd", True)


@given(st.lists(st.binary(max_size=40), max_size=10), st.integers(0, 50), st.booleans())
def test_no_stream_gives_more_than_the_limit(chunks: list[bytes], limit: int, final: bool) -> None:
    tail = OutputTail(limit)
    for chunk in chunks:
        tail.feed(chunk)
    text, truncated = tail.read(final)
    assert len(text.encode()) <= limit
    assert truncated or text == tail_of(b"".join(chunks), 1 << 20, final)[0]


@given(st.text(max_size=200), st.integers(0, 100), st.integers(1, 7))
def test_the_end_of_the_text_is_kept_in_any_chunking(text: str, limit: int, size: int) -> None:
    text = text.encode(errors="replace").decode()
    data = text.encode()
    tail = OutputTail(limit)
    for start in range(0, len(data), size):
        tail.feed(data[start : start + size])
    kept, truncated = tail.read()
    assert text.endswith(kept)
    assert truncated == (len(data) > limit)
    assert len(kept.encode()) > limit - 4 or not truncated


def test_memory_stays_near_the_limit() -> None:
    tail = OutputTail(1000)
    for _ in range(100):
        tail.feed(b"x" * 10_000)
    assert tail.read() == ("x" * 1000, True)
    assert len(tail._data) < 200_000
