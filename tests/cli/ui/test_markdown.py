"""Markdown as it streams in: the same whatever the pieces are, nothing lost, nothing that acts."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.cli.ui.markdown import Markdown
from dragoman.cli.ui.terminal import char_width

Pieces = list[tuple[str, str]]


def rendered(*chunks: str, width: int = 60) -> Pieces:
    """What is shown of a text that comes in these chunks."""
    shown: Pieces = []
    text = Markdown(shown.extend, lambda: width + 1)
    for chunk in chunks:
        text.feed(chunk)
    text.finish()
    return shown


def plain(*chunks: str, width: int = 60) -> str:
    """The same without styles."""
    return "".join(text for text, _ in rendered(*chunks, width=width))


def styles(text: str) -> dict[str, str]:
    """The style of each word."""
    return {word: style for word, style in rendered(text) if word.strip()}


def test_marks_become_styles() -> None:
    shown = styles("a **bold** and *slanted* and `code` and ~~gone~~ and _too_\n")
    assert shown["bold"] == "bold"
    assert shown["slanted"] == shown["too"] == "italic"
    assert shown["code"] == "code"
    assert shown["gone"] == "strike"
    assert shown["a"] == ""
    assert styles("**a `b` c**\n") == {"a": "bold", "b": "bold code", "c": "bold"}


@pytest.mark.parametrize(
    "text",
    [
        "snake_case_name and __init__.py",
        "2 * 3 * 4",
        "an unclosed **mark",
        "a lone ` tick and a [bracket",
        "no list: -x, no heading: #x",
        "* ",
        "trailing backslash \\",
    ],
)
def test_what_is_no_mark_stays_as_it_is(text: str) -> None:
    assert plain(f"{text}\n").rstrip() == text.replace("* ", "•" if text == "* " else "* ").rstrip()


def test_escaped_marks_are_shown_without_their_escape() -> None:
    assert plain("\\*not\\* \\`this\\`") == "*not* `this`"


def test_a_link_always_says_where_it_leads() -> None:
    assert plain("see [the bank](https://evil.example/x_(y)) now") == "see the bank (https://evil.example/x_(y)) now"


def test_headings_lists_quotes_rules_and_code() -> None:
    text = "# Title #\n\n- one\n  - two\n3. three\n> said\n> more\n\n***\n\n```py\n# *x*\n- y\n```\nend"
    assert plain(text) == (
        f"Title\n\n• one\n  • two\n3. three\n│ said\n│ more\n\n{'─' * 40}\n\n```py\n# *x*\n- y\n```\nend"
    )
    assert styles("## Sub title\n") == {"Sub": "bold", "title": "bold"}
    assert styles("```\n**x**\n```\n")["**x**"] == "code"


def test_a_table_is_set_in_columns() -> None:
    assert plain("| a | b |\n|---|:-:|\n| long | `x` |\n| **y** | \\| |\n\nafter") == (
        "a    │ b\n─────┼──\nlong │ x\ny    │ |\n\nafter"
    )
    assert plain("| no table\nnext") == "| no table\nnext"


def test_lines_are_broken_between_words_and_hang() -> None:
    text = "- " + "word " * 30
    lines = plain(text, width=30).splitlines()
    assert all(len(line) <= 30 for line in lines)
    assert [line[:2] for line in lines] == ["• ", *["  "] * (len(lines) - 1)]
    quoted = plain("> " + "word " * 30, width=30).splitlines()
    assert all(line.startswith("│ word") for line in quoted)


def test_what_is_certain_is_shown_at_once() -> None:
    shown: Pieces = []
    text = Markdown(shown.extend, lambda: 80)

    def so_far() -> str:
        return "".join(piece for piece, _ in shown)

    text.feed("Hello wor")
    assert so_far() == "Hello"
    text.flush_partial()
    assert so_far() == "Hello wor"
    text.feed("ld **bo")
    assert so_far() == "Hello world"
    text.feed("ld** on")
    assert so_far() == "Hello world bold"
    text.finish()
    assert so_far() == "Hello world bold on"


def test_a_word_that_was_shown_in_part_is_not_broken() -> None:
    shown: Pieces = []
    text = Markdown(shown.extend, lambda: 12)
    text.feed("12345 789")
    text.flush_partial()
    text.feed("abcdef ghi")
    text.finish()
    assert "".join(piece for piece, _ in shown) == "12345 789abcdef\nghi"


LIVELY = st.text(st.sampled_from("ab *_`~#>-|[]()\\!1.\n\t 漢é\x1b\x07\r"), max_size=80)


@given(LIVELY, st.lists(st.integers(0, 80), max_size=6), st.integers(8, 60))
def test_pieces_make_no_difference(text: str, cuts: list[int], width: int) -> None:
    text = text.replace("\r", "")
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    chunks = [text[start:end] for start, end in pairwise(places)]
    assert plain(*chunks, width=width) == plain(text, width=width)


@given(LIVELY, st.integers(8, 60))
def test_no_letter_is_lost_and_nothing_acts(text: str, width: int) -> None:
    shown = plain(text, width=width)
    for letter in "ab漢é":
        assert shown.count(letter) == text.count(letter)
    assert {character for character in shown if unicodedata.category(character) == "Cc"} <= {"\n", "\t"}


@given(st.lists(st.text(st.sampled_from("ab漢"), min_size=1, max_size=4), max_size=40), st.integers(10, 60))
def test_no_line_is_wider_than_the_terminal(words: list[str], width: int) -> None:
    for line in plain(" ".join(words), width=width).splitlines():
        assert sum(map(char_width, line)) <= width
