"""JSON that a strict decoder refuses is read as far as possible."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import Kind, ProtocolError
from dragoman.wire.depth import MAX_DEPTH
from dragoman.wire.repair import clean_text, repair


@pytest.mark.parametrize(
    ("frame", "value"),
    [
        (b'{"text":"caf\xc3"}', {"text": "caf\ufffd"}),
        (b'{"text":"\xff\xfe"}', {"text": "\ufffd\ufffd"}),
        (b'{"text":"\\ud83e"}', {"text": "\ufffd"}),
        (b'{"\\udd9c":1}', {"\ufffd": 1}),
        (b'{"text":"\\ud83e\\udd9c"}', {"text": "🦜"}),
        (b'{"text":"\\udd9c\\ud83e"}', {"text": "\ufffd\ufffd"}),
        (b'{"n":NaN,"i":Infinity,"j":-Infinity}', {"n": None, "i": None, "j": None}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'{"a":"tab\there"}', {"a": "tab\there"}),
        (b'\xef\xbb\xbf{"a":1}', {"a": 1}),
        (b'{"a":' + b"9" * 30 + b"}", {"a": int("9" * 30)}),
        (b'{"a":' + b"1" * 300 + b"}", {"a": float("1" * 300)}),
    ],
)
def test_it_reads(frame: bytes, value: Any) -> None:
    assert repair(frame) == value


@pytest.mark.parametrize("frame", [b"", b"{", b"hello", b"{'a':1}", b'{"a":1}}', b"[1,]", b'"\\q"', b"01", b"\x00"])
def test_what_is_no_json_is_a_parse_error(frame: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        repair(frame)
    assert caught.value.kind == Kind.PARSE_ERROR


@pytest.mark.parametrize("levels", [MAX_DEPTH + 2, 900, 5000, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_a_depth_bomb_is_a_parse_error(opening: bytes, closing: bytes, levels: int) -> None:
    with pytest.raises(ProtocolError, match="nested deeper") as caught:
        repair(opening * levels + b"1" + closing * levels)
    assert caught.value.kind == Kind.PARSE_ERROR


def test_digits_without_end_cost_no_time() -> None:
    assert repair(b'{"a":' + b"7" * 1_000_000 + b"}") == {"a": float("inf")}


@given(st.text())
def test_clean_text_stays_as_it_is(text: str) -> None:
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert clean_text(text) == text


@given(st.text(alphabet=st.characters(categories=["Cs", "L"])))
def test_cleaned_text_can_always_be_encoded(text: str) -> None:
    clean_text(text).encode()
    assert clean_text(clean_text(text)) == clean_text(text)


@given(st.binary(max_size=60))
def test_any_bytes_give_values_that_can_be_encoded_or_a_parse_error(frame: bytes) -> None:
    try:
        value = repair(frame)
    except ProtocolError as error:
        value = error.kind
        assert value == Kind.PARSE_ERROR
    msgspec.json.encode(value)


scalars = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    scalars | st.text(alphabet=st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet="abc", max_size=3), inner, max_size=4),
    max_leaves=10,
)


@given(json_values)
def test_good_json_is_read_as_it_is(value: Any) -> None:
    assert repair(json.dumps(value).encode()) == value
