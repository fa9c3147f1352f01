"""What the measured clients accept as the work they asked for."""

import pytest

from bench.peers.texts import Reader, chunk, document, is_document


def test_chunks_differ_and_have_the_size_asked_for() -> None:
    texts = [chunk(number, 40) for number in range(1000)]
    assert len(set(texts)) == 1000
    assert {len(text) for text in texts} == {40}


def test_chunks_in_order_are_taken_and_counted() -> None:
    reader = Reader()
    for number in range(3):
        reader.take(chunk(number))
    reader.expect(3)


@pytest.mark.parametrize("number", [0, 2], ids=["a chunk twice", "a chunk skipped"])
def test_a_chunk_out_of_order_is_an_error(number: int) -> None:
    reader = Reader()
    reader.take(chunk(0))
    with pytest.raises(ValueError, match="chunk 1"):
        reader.take(chunk(number))


def test_a_missing_chunk_at_the_end_is_an_error() -> None:
    reader = Reader()
    reader.take(chunk(0))
    with pytest.raises(ValueError, match="expected 2"):
        reader.expect(2)


@pytest.mark.parametrize("size", [100, 65_536, 1_000_000])
def test_a_document_is_recognised_and_a_changed_one_is_not(size: int) -> None:
    text = document(size)
    assert len(text) == size
    assert is_document(text, size)
    assert not is_document(text[:-1], size)
    assert not is_document(text[:-1] + "?", size)
