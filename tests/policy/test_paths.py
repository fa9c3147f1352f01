"""Path patterns match whole paths, name by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.policy.paths import fault_of, matches

ROOTS = ("/w", "/more")
HOME = "/home/me"


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("**", "/w/a/b", True),
        ("**", "/elsewhere/a", False),
        ("a.txt", "/w/a.txt", True),
        ("a.txt", "/more/a.txt", True),
        ("a.txt", "/w/x/a.txt", False),
        ("a.txt", "/w/a.txt.bak", False),
        ("./a.txt", "/w/a.txt", True),
        ("*.txt", "/w/a.txt", True),
        ("*.txt", "/w/x/a.txt", False),
        ("**/*.txt", "/w/a.txt", True),
        ("**/*.txt", "/w/x/y/a.txt", True),
        ("src/**", "/w/src/a/b", True),
        ("src/**", "/w/src", True),
        ("src/**", "/w/srcs/a", False),
        ("src/**/test_?.py", "/w/src/a/test_1.py", True),
        ("src/**/test_?.py", "/w/src/test_1.py", True),
        ("src/**/test_?.py", "/w/src/test_12.py", False),
        ("**/.env", "/w/.env", True),
        ("**/.env", "/w/a/.env", True),
        ("**/.env", "/w/a/x.env", False),
        ("[ab].txt", "/w/a.txt", True),
        ("[!ab].txt", "/w/a.txt", False),
        ("[!ab].txt", "/w/c.txt", True),
        ("[^a].txt", "/w/^.txt", True),
        ("a[!x]b", "/w/a/b", False),
        ("a?b", "/w/a/b", False),
        ("a.b", "/w/axb", False),
        ("a+(b)", "/w/a+(b)", True),
        ("[", "/w/[", True),
        ("A.txt", "/w/a.txt", False),
        ("/etc/**", "/etc/passwd", True),
        ("/etc/**", "/w/etc/passwd", False),
        ("/**", "/anything", True),
        ("/", "/w", False),
        ("~/.ssh/**", "/home/me/.ssh/id", True),
        ("~/.ssh/**", "/home/you/.ssh/id", False),
        ("~", "/home/me/x", True),
        ("*\n*", "/w/a\nb", True),
        ("**", "/w/a\nb", True),
        ("*.txt", "/w/.txt\n", False),
    ],
)
def test_patterns(pattern: str, path: str, expected: bool) -> None:
    assert matches(pattern, path, ROOTS, HOME) is expected


def test_without_a_home_nothing_is_at_home() -> None:
    assert not matches("~/a", "/a", (), "")


@pytest.mark.parametrize("pattern", ["", "../a", "a/../b", "~you/a", "a\0b"])
def test_patterns_that_nobody_can_mean_are_faults(pattern: str) -> None:
    assert fault_of(pattern) is not None


@pytest.mark.parametrize("pattern", ["**", "a/..b", "~/x", "/x", "a..b", "~"])
def test_other_patterns_are_none(pattern: str) -> None:
    assert fault_of(pattern) is None


@given(st.text(min_size=1), st.text())
def test_any_text_is_a_pattern_that_can_be_tried(pattern: str, path: str) -> None:
    assert matches(pattern, path, ROOTS, HOME) in (True, False)


@given(st.lists(st.text("ab.-_ é", min_size=1), min_size=1))
def test_a_path_without_signs_matches_itself_alone(names: list[str]) -> None:
    path = "/".join(names)
    if fault_of(path) is None and not path.startswith("./"):
        assert matches(path, f"/w/{path}", ("/w",), HOME)
        assert not matches(path, f"/w/{path}x", ("/w",), HOME)
