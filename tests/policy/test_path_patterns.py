"""Path patterns match whole paths, name by name."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.policy.patterns import MAX_PATH_LENGTH, glob_matcher, path_matcher, path_pattern_fault

ROOTS = ("/w", "/more")
HOME = "/home/me"


def path_matches(pattern: str, path: str, bases: tuple[str, ...], home: str) -> bool:
    return path_matcher((pattern,), bases, home)(path) is not None


@given(st.lists(st.sampled_from(["a", "*.txt", "src/**", "~", ".", "/etc/**", "**/b"]), max_size=4))
def test_several_patterns_match_what_one_of_them_matches(patterns: list[str]) -> None:
    for path in ("/w", "/w/a", "/w/x.txt", "/more/src/y", "/home/me", "/home/me/b", "/etc/b", "/w/q/b", "/"):
        together = path_matcher(tuple(patterns), ROOTS, HOME)(path) is not None
        assert together is any(path_matches(pattern, path, ROOTS, HOME) for pattern in patterns)


@pytest.mark.parametrize("pattern", ["**", "a/**", ".", "./a", "*"])
def test_a_root_folder_is_a_base_like_others(pattern: str) -> None:
    found = {path for path in ("/", "/a", "/a/b") if path_matches(pattern, path, ("/",), "")}
    assert found == {
        "**": {"/", "/a", "/a/b"}, "a/**": {"/a", "/a/b"}, ".": {"/"}, "./a": {"/a"}, "*": {"/", "/a"},
    }[pattern]  # fmt: skip


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
        ("**/**", "/w/a/b", True),
        ("src/**/**", "/w/src/a", True),
        ("src/**/**/a", "/w/src/a", True),
        ("src/**/b/**", "/w/src/a/b", True),
        ("src/**/b/**", "/w/src/a/bc", False),
        ("**/a/b/**/a/c", "/w/a/a/b/a/b/a/c", True),
        ("*a*b*a", "/w/xabxa", True),
        ("*a*b*a", "/w/xaab", False),
        ("[!]", "/w/[!]", True),
        ("[!]]", "/w/]", False),
        ("[z-a]", "/w/z", False),
        ("[a-c-]", "/w/-", True),
        (".", "/w", True),
        (".", "/w/a", False),
    ],
)
def test_path_patterns_match(pattern: str, path: str, expected: bool) -> None:
    assert path_matches(pattern, path, ROOTS, HOME) is expected


def test_without_a_home_no_home_pattern_matches() -> None:
    assert not path_matches("~/a", "/a", (), "")


@pytest.mark.parametrize("pattern", ["", "../a", "a/../b", "~you/a", "a\0b"])
def test_invalid_patterns_are_reported(pattern: str) -> None:
    assert path_pattern_fault(pattern) is not None


@pytest.mark.parametrize("pattern", ["**", "a/..b", "~/x", "/x", "a..b", "~"])
def test_valid_patterns_are_not_reported(pattern: str) -> None:
    assert path_pattern_fault(pattern) is None


@given(st.text(min_size=1), st.text())
def test_any_text_can_be_matched_as_a_pattern(pattern: str, path: str) -> None:
    assert path_matches(pattern, path, ROOTS, HOME) in (True, False)


@given(st.lists(st.text("ab.-_ é", min_size=1), min_size=1))
def test_a_path_without_wildcards_matches_only_itself(names: list[str]) -> None:
    path = "/".join(names)
    if path_pattern_fault(path) is None and not path.startswith("./") and path != ".":
        assert path_matches(path, f"/w/{path}", ("/w",), HOME)
        assert not path_matches(path, f"/w/{path}x", ("/w",), HOME)


# --- by the book: what a pattern means, written as plainly as it can be, and slow ---------------------------------


def matches_parts(parts: list[str], names: list[str]) -> bool:
    """Return whether names match the parts of a pattern."""
    if not parts:
        return not names
    if parts[0] == "**":
        return len(parts) == 1 or any(matches_parts(parts[1:], names[skipped:]) for skipped in range(len(names) + 1))
    return bool(names) and matches_name(parts[0], names[0]) and matches_parts(parts[1:], names[1:])


def matches_name(part: str, name: str) -> bool:
    """Return whether one name matches one part of a pattern."""
    if not part:
        return not name
    if part[0] == "*":
        return matches_name(part[1:], name) or bool(name and matches_name(part, name[1:]))
    end = part.find("]", 3 if part[1:2] == "!" else 2) if part[0] == "[" else -1
    if end > 0:
        return bool(name) and in_brackets(part[1:end], name[0]) and matches_name(part[end + 1 :], name[1:])
    return bool(name) and part[0] in ("?", name[0]) and matches_name(part[1:], name[1:])


def in_brackets(inner: str, character: str) -> bool:
    """Return whether a character is in a bracket expression."""
    if inner[0] == "!":
        return not among_these(inner[1:], character)
    return among_these(inner, character)


def among_these(members: str, character: str) -> bool:
    if not members:
        return False
    if len(members) > 2 and members[1] == "-":
        return members[0] <= character <= members[2] or among_these(members[3:], character)
    return members[0] == character or among_these(members[1:], character)


PARTS = st.one_of(st.just("**"), st.sampled_from(["a", "b", "*", "?", "a*"]), st.text("ab-*?[]!", max_size=6))


@settings(max_examples=1000)
@given(st.lists(PARTS, min_size=1, max_size=6), st.lists(st.text("ab-[]!", max_size=5), min_size=1, max_size=6))
def test_a_pattern_matches_like_the_reference_implementation(parts: list[str], names: list[str]) -> None:
    pattern, path = "/x/" + "/".join(parts), "/x/" + "/".join(names)
    assert path_matches(pattern, path, (), "") is matches_parts(pattern.split("/"), path.split("/"))


@given(st.text("ab-*?[]!", max_size=8), st.text("ab-[]!", max_size=8))
def test_a_name_matches_like_the_reference_implementation(part: str, name: str) -> None:
    assert bool(glob_matcher(part)(name)) is matches_name(part, name)


# A backtracking matcher would not finish on any of these.
@pytest.mark.parametrize(
    "pattern",
    [
        "**/" * 200 + "b",
        "**/a/" * 100 + "b",
        "**/*/" * 100 + "b",
        "**/a*/" * 100 + "**/b",
        "**/a/a/" * 50 + "b/**",
        "*a" * 100 + "b",
        "a*" * 100 + "b",
        "?*" * 100 + "b",
        "[a-z]*" * 60 + "b",
        "/".join(["*a*a*a"] * 60 + ["b"]),
    ],
)
def test_no_pattern_is_slow(pattern: str) -> None:
    deep, wide = "/w" + "/a" * (MAX_PATH_LENGTH // 2 - 1), "/w/" + "a" * (MAX_PATH_LENGTH - 3)
    mixed = "/w" + "/aaaaaaaaaaaaaaa" * (MAX_PATH_LENGTH // 16 - 1)
    for path in (deep, wide, mixed):
        assert not path_matches(pattern, path, ("/w",), "")
    assert not glob_matcher(pattern)("a" * 100_000)
