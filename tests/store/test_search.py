"""Passages: text is joined and cut so that it is found, whatever its size, in one pass over it."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from dragoman.errors import ProtocolError
from dragoman.store import search as module
from dragoman.store.search import FINDABLE, MAX_PASSAGE, parse_query, split_passages


def line(seq: int, text: str, update: str = "agent_message_chunk") -> bytes:
    body = {"sessionUpdate": update, "content": {"type": "text", "text": text}}
    return msgspec.json.encode({"seq": seq, "kind": "update", "body": body})


class Counted(str):
    """A text that counts the characters which are copied out of it."""

    copied = 0

    def __getitem__(self, key: Any) -> Counted:
        found = str.__getitem__(self, key)
        Counted.copied += len(found)
        return Counted(found)


def test_a_long_text_is_cut_without_copying_the_rest() -> None:
    text = Counted("words " * 200_000)
    Counted.copied = 0
    pieces = list(module._split_text(text))
    assert "".join(pieces) == text
    assert max(map(len, pieces)) <= MAX_PASSAGE
    assert Counted.copied == len(text)


def test_a_query_without_words_is_refused_in_words_that_fit_every_caller() -> None:
    with pytest.raises(ProtocolError) as caught:
        parse_query(" ?! ")
    assert caught.value.message == "the query has no words; give at least one word, such as: parse error"


def test_a_text_without_white_space_is_cut_too() -> None:
    assert [len(piece) for piece in module._split_text("x" * (2 * MAX_PASSAGE + 1))] == [MAX_PASSAGE, MAX_PASSAGE, 1]


def test_only_the_searchable_part_of_an_entry_is_read() -> None:
    found = list(split_passages([line(1, "a"), line(2, "b " * FINDABLE), line(3, "c")]))
    assert [passage.text for passage in (found[0], found[-1])] == ["a", "c"]
    assert sum(len(passage.text) for passage in found[1:-1]) == FINDABLE
    assert {(passage.first, passage.last) for passage in found[1:-1]} == {(2, 2)}


def test_a_word_that_is_streamed_in_chunks_is_not_cut_if_there_is_white_space() -> None:
    dice = random.Random("words in pieces")
    words = [f"word{number}" for number in range(30_000)]
    text = " ".join(words)
    pieces, start = [], 0
    while start < len(text):
        end = start + dice.randint(1, 9)
        pieces.append(text[start:end])
        start = end
    found = list(split_passages(line(seq, piece) for seq, piece in enumerate(pieces, 1)))
    assert len(found) > 5
    assert "".join(passage.text for passage in found) == text
    assert max(len(passage.text) for passage in found) <= MAX_PASSAGE
    assert [word for passage in found for word in passage.text.split()] == words
    # Each begins with an entry of its own: reading can go on there.
    assert all(before.last < after.first for before, after in pairwise(found))


def test_a_stream_without_white_space_is_cut_between_entries() -> None:
    found = list(split_passages(line(seq, "x" * 1000) for seq in range(1, 101)))
    assert sum(len(passage.text) for passage in found) == 100_000
    assert max(len(passage.text) for passage in found) <= MAX_PASSAGE


@pytest.mark.parametrize("update", ["tool_call_update", "plan", "usage_update", "agent_message_chunk"])
def test_an_entry_that_is_nested_too_deeply_is_skipped(update: str) -> None:
    deep = b'{"seq":2,"kind":"update","body":{"sessionUpdate":"%s","x":%s}}' % (
        update.encode(),
        b"[" * 10_000 + b"]" * 10_000,
    )
    found = list(split_passages([line(1, "before and "), deep, line(3, "after")]))
    assert [passage.text for passage in found] == ["before and after"]
