"""Nesting past the limit is detected without decoding, whatever is in strings."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.wire import depth
from dragoman.wire.depth import MAX_DEPTH, is_too_deep

texts = st.text(alphabet='ab{}[]"\\\n é', max_size=20)
values: st.SearchStrategy[Any] = st.recursive(
    texts | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=40
)


def nested(levels: int) -> bytes:
    return b'{"a":[' * (levels // 2) + b"[" * (levels % 2) + b"]" * (levels % 2) + b"]}" * (levels // 2)


def test_the_limit_is_exact() -> None:
    assert not is_too_deep(nested(MAX_DEPTH))
    assert is_too_deep(nested(MAX_DEPTH + 1))


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert not is_too_deep(b"[" + b"{}," * 10_000 + b"[]]")


def test_brackets_in_strings_do_not_count() -> None:
    text = json.dumps({"code": '{[{["\\' * 1000, "\\": "[" * 1000}).encode()
    assert not is_too_deep(text)
    assert is_too_deep(text[:-1] + b',"deep":' + nested(MAX_DEPTH) + b"}")


@given(values, st.sampled_from([0, 150, MAX_DEPTH, 500]))
def test_it_agrees_with_the_values(value: Any, levels: int) -> None:
    for _ in range(levels):
        value = [value, "}]"]
    assert is_too_deep(json.dumps(value).encode()) == (_depth(value) > MAX_DEPTH)


@pytest.mark.parametrize("part", [1, 2, 3, 7])
def test_it_does_not_matter_where_a_large_message_is_cut(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depth, "_PART_SIZE", part)
    text = json.dumps({"a": '\\\\"{[' * 300, "b\\": ["\\"]}).encode()
    assert not is_too_deep(text)
    assert is_too_deep(text[:-1] + b',"deep":' + nested(MAX_DEPTH) + b"}")


def _depth(value: Any) -> int:
    deepest, level = 0, [value]
    while True:
        level = [
            item
            for holder in level
            if isinstance(holder, dict | list)
            for item in [None, *(holder.values() if isinstance(holder, dict) else holder)]
        ]
        if not level:
            return deepest
        deepest += 1
