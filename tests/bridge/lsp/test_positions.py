"""Positions in the three encodings of LSP, and edits: nothing is moved to a wrong place."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.bridge.lsp.positions import ENCODINGS, InvalidEdit, TextIndex, apply_edits

TEXTS = st.text(st.sampled_from("ab \n\r\u2028é漢😀"), max_size=40)


def range_of(index: TextIndex, start: int, end: int) -> dict[str, Any]:
    """Return an LSP range."""
    return {"start": index.position(start), "end": index.position(end)}


@given(TEXTS, st.sampled_from(ENCODINGS))
def test_every_offset_has_a_position_that_leads_back(text: str, encoding: str) -> None:
    index = TextIndex(text, encoding)
    for offset in range(len(text) + 1):
        if text[offset - 1 : offset + 1] != "\r\n":  # no position is between the two
            assert index.offset(index.position(offset)) == offset


@pytest.mark.parametrize(("encoding", "character"), [("utf-8", 7), ("utf-16", 4), ("utf-32", 3)])
def test_characters_are_counted_in_the_encoding_of_the_server(encoding: str, character: int) -> None:
    text = "x = 1\né😀a = 漢"
    position = TextIndex(text, encoding).position(text.index(" = 漢"))
    assert position == {"line": 1, "character": character}
    assert TextIndex(text, encoding).place(position) == (2, 4)


def test_only_the_three_line_ends_of_lsp_end_a_line() -> None:
    assert TextIndex("a\u2028b\x0bc\x85d\ne\r\nf\rg").line_count == 4


@pytest.mark.parametrize(
    ("position", "offset"),
    [
        ({"line": 0, "character": 99}, 3),
        ({"line": 9, "character": 0}, 6),
        ({"line": -1, "character": -1}, 0),
        ({"line": 1.0, "character": 1.0}, 5),
        ({"line": "1", "character": None}, 0),
        (None, 0),
    ],
)
def test_a_wrong_position_is_moved_into_the_text(position: Any, offset: int) -> None:
    assert TextIndex("abc\nde").offset(position) == offset


def test_a_position_inside_a_character_is_the_start_of_it() -> None:
    assert TextIndex("😀x", "utf-16").offset({"line": 0, "character": 1}) == 0
    assert TextIndex("😀x", "utf-8").offset({"line": 0, "character": 3}) == 0


@given(TEXTS, st.data(), st.sampled_from(ENCODINGS))
def test_edits_replace_exactly_their_ranges(text: str, data: st.DataObject, encoding: str) -> None:
    text = text.replace("\r", "")
    index = TextIndex(text, encoding)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
    spans = list(pairwise(cuts))[::2]
    edits = [{"range": range_of(index, start, end), "newText": f"<{start}>"} for start, end in spans]
    expected, last = "", 0
    for start, end in spans:
        expected, last = f"{expected}{text[last:start]}<{start}>", end
    assert apply_edits(text, data.draw(st.permutations(edits)), encoding) == expected + text[last:]


def test_insertions_at_one_place_keep_their_order() -> None:
    here = {"start": {"line": 0, "character": 1}, "end": {"line": 0, "character": 1}}
    assert apply_edits("ab", [{"range": here, "newText": "1"}, {"range": here, "newText": "2"}], "utf-16") == "a12b"


@pytest.mark.parametrize(
    "edits",
    [
        [{"range": {"start": {"line": 0, "character": 2}, "end": {"line": 0, "character": 1}}, "newText": "x"}],
        [{"newText": "x"}],
        [{"range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}}],
        [
            {"range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 2}}, "newText": "x"},
            {"range": {"start": {"line": 0, "character": 1}, "end": {"line": 0, "character": 3}}, "newText": "y"},
        ],
    ],
)
def test_an_edit_that_makes_no_sense_is_refused(edits: list[Any]) -> None:
    with pytest.raises(InvalidEdit):
        apply_edits("abc", edits, "utf-16")
