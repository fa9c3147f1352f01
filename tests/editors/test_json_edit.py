"""One member of a JSON text with comments is changed, and nothing else."""

from __future__ import annotations

import json
from types import NoneType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.editors.json_edit import find_member, remove_member, restore_member, set_member, source_of
from dragoman.editors.jsonc import JsonFault, parse

ENTRY = {"type": "custom", "command": "/bin/a", "args": ["x y", 'q"']}
PATH = ("agent_servers", "Roof")

ZED = """\
// my settings
{
  "theme": "One Dark", // dark
  "agent_servers": {
    /* the first */
    "Claude": { "type": "custom", "command": "claude", },
  },
  "vim_mode": true,
}
"""


def value_of(text: str) -> Any:
    node = parse(text)
    return None if node is None else node.value


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("// only a comment\n", '// only a comment\n{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("{}", '{\n  "a": {\n    "b": 1\n  }\n}'),
        ('{"x": 1}', '{"x": 1, "a": {"b": 1}}'),
        ('{"x": 1,}', '{"x": 1, "a": {"b": 1},}'),
        ('{\n\t"x": 1\n}\n', '{\n\t"x": 1,\n\t"a": {\n\t\t"b": 1\n\t}\n}\n'),
        ('{\n  "x": 1 // one\n}\n', '{\n  "x": 1, // one\n  "a": {\n    "b": 1\n  }\n}\n'),
        ('{\n  "x": 1, // one\n}\n', '{\n  "x": 1, // one\n  "a": {\n    "b": 1\n  },\n}\n'),
        ('{\n  "a": {"b": 7, "c": 8} // kept\n}\n', '{\n  "a": {"b": 1, "c": 8} // kept\n}\n'),
        ('{\n  "a": {} // kept\n}\n', '{\n  "a": {\n    "b": 1\n  } // kept\n}\n'),
        ('{\n  "a": {\n    // none yet\n  }\n}\n', '{\n  "a": {\n    // none yet\n    "b": 1\n  }\n}\n'),
        ('{\r\n  "x": 1\r\n}\r\n', '{\r\n  "x": 1,\r\n  "a": {\r\n    "b": 1\r\n  }\r\n}\r\n'),
        ('{ "x": [1,\n 2] }', '{ "x": [1,\n 2], "a": {"b": 1} }'),
        ('\ufeff{"x": "http://a/*b*/"}', '\ufeff{"x": "http://a/*b*/", "a": {"b": 1}}'),
    ],
)
def test_a_member_is_set_and_everything_else_stays(before: str, after: str) -> None:
    assert set_member(before, ("a", "b"), 1) == after


def test_an_entry_joins_the_others_in_their_layout() -> None:
    after = set_member(ZED, PATH, ENTRY)
    added = [line for line in after.splitlines() if line not in ZED.splitlines()]
    assert [line for line in ZED.splitlines() if line not in after.splitlines()] == []
    assert added[0] == '    "Roof": {'
    assert value_of(after)["agent_servers"]["Roof"] == ENTRY
    assert remove_member(after, PATH) == ZED


def test_a_replaced_entry_can_be_restored_as_it_stood() -> None:
    path = ("agent_servers", "Claude")
    source = source_of(ZED, path)
    assert source == '{ "type": "custom", "command": "claude", }'
    after = set_member(ZED, path, ENTRY)
    assert after != ZED
    assert restore_member(after, path, source) == ZED


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"b": 1}', "{}"),
        ('{"a": 1, "b": 2}', '{"a": 1}'),
        ('{\n  "b": 1,\n  "a": 2\n}', '{\n  "a": 2\n}'),
        ('{\n  "a": 2,\n  "b": {\n    "c": 1\n  }\n}', '{\n  "a": 2\n}'),
        ('{\n  "b": 1, // about b\n  "a": 2\n}', '{\n   // about b\n  "a": 2\n}'),
        ('{"a": 1}', '{"a": 1}'),
    ],
)
def test_a_member_is_removed_with_its_comma_and_its_line(before: str, after: str) -> None:
    assert remove_member(before, ("b",)) == after


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", 'line 1: a key in double quotes or "}" was expected'),
        ('{\n"a" 1}', 'line 2: a colon was expected after "a"'),
        ('{\n"a": 1\n"b": 2}', 'line 3: a comma or "}" was expected'),
        ('{"a": 1, "a": 2}', 'line 1: the key "a" is there twice; remove one of them'),
        ('{"a": tru}', "line 1: a value was expected"),
        ("/* open", "line 1: a comment does not end"),
        ("{} {}", "line 1: there is text after the end of the value"),
        ("[" * 200, "line 1: more than 100 levels of nesting"),
        ('{"agent_servers": 5}', "line 1: agent_servers is not an object in braces; change it by hand"),
        ("[]", "line 1: the file is not an object in braces; change it by hand"),
    ],
)
def test_a_text_that_cannot_be_changed_is_refused_by_line(text: str, reason: str) -> None:
    with pytest.raises(JsonFault) as caught:
        set_member(text, PATH, ENTRY)
    assert str(caught.value) == reason


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(
    document=st.dictionaries(NAMES, VALUES, max_size=4),
    path=st.lists(NAMES, min_size=1, max_size=3),
    value=VALUES,
    indent=st.sampled_from([None, 1, 4, "\t"]),
)
def test_setting_and_removing_any_member_of_any_document_changes_only_that(
    document: dict[str, Any], path: list[str], value: Any, indent: Any
) -> None:
    before = json.dumps(document, indent=indent)
    keys = tuple(path)
    try:
        after = set_member(before, keys, value)
    except JsonFault:  # a value on the way is no object
        assert any(not isinstance(find_member(before, keys[:depth]), NoneType) for depth in range(1, len(keys)))
        return
    found = find_member(after, keys)
    assert found is not None
    assert found.value == value
    had = find_member(before, keys)
    if had is None:
        cleared = value_of(remove_member(after, keys))
        for key in keys[:-1]:
            cleared = cleared[key]
        assert keys[-1] not in cleared
    else:
        assert value_of(restore_member(after, keys, source_of(before, keys) or "")) == document


@given(st.text(alphabet='{}[]",:/*\\ \n1ab', max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        node = parse(text)
    except JsonFault:
        return
    assert node is None or 0 <= node.start < node.end <= len(text)
