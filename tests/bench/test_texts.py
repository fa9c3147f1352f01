"""What the measured clients accept as the work they asked for."""

from itertools import islice

import pytest

from bench.peers.texts import Reader, chunks, document, is_document
from dragoman.agents.everything import samples


def test_chunks_differ_and_have_the_size_asked_for() -> None:
    texts = list(islice(chunks(40), 1000))
    assert len(set(texts)) == 1000
    assert {len(text) for text in texts} == {40}


def test_chunks_in_order_are_accepted_and_counted() -> None:
    reader = Reader()
    for text in islice(chunks(), 3):
        reader.take(text)
    reader.expect(3)


@pytest.mark.parametrize("number", [0, 2], ids=["a chunk twice", "a chunk skipped"])
def test_a_chunk_out_of_order_is_an_error(number: int) -> None:
    reader = Reader()
    reader.take(next(chunks()))
    with pytest.raises(ValueError, match="chunk 1"):
        reader.take(next(islice(chunks(), number, None)))


def test_a_missing_chunk_at_the_end_is_an_error() -> None:
    reader = Reader()
    reader.take(next(chunks()))
    with pytest.raises(ValueError, match="expected 2"):
        reader.expect(2)


@pytest.mark.parametrize("size", [100, 65_536, 1_000_000])
def test_a_document_is_recognized_and_a_changed_one_is_not(size: int) -> None:
    text = document(size)
    assert len(text) == size
    assert is_document(text, size)
    assert not is_document(text[:-1], size)
    assert not is_document(text[:-1] + "?", size)


def test_the_everything_agent_streams_the_texts_that_are_expected_of_it() -> None:
    assert [samples.chunk(number, 40) for number in range(100)] == list(islice(chunks(40), 100))
