"""Streaming Markdown: the chunk boundaries do not matter, nothing is lost, nothing is a control character."""

from __future__ import annotations

import unicodedata
from itertools import pairwise
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.cli.ui.markdown import MAX_PENDING_MARK, Markdown
from dragoman.cli.ui.terminal import char_width

Pieces = list[tuple[str, str]]


def rendered(*chunks: str, width: int = 60) -> Pieces:
    """Return what is shown of a text that comes in these chunks."""
    shown: Pieces = []
    text = Markdown(shown.extend, lambda: width + 1)
    for chunk in chunks:
        text.feed(chunk)
    text.finish()
    return shown


def plain(*chunks: str, width: int = 60) -> str:
    """Return the same without styles."""
    return "".join(text for text, _ in rendered(*chunks, width=width))


def styles(text: str) -> dict[str, str]:
    """Return the style of each word."""
    return {word: style for word, style in rendered(text) if word.strip()}


def test_marks_become_styles() -> None:
    styled = styles("a **bold** and *slanted* and `code` and ~~gone~~ and _too_\n")
    assert styled["bold"] == "bold"
    assert styled["slanted"] == styled["too"] == "italic"
    assert styled["code"] == "code"
    assert styled["gone"] == "strike"
    assert styled["a"] == ""
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
def test_text_without_marks_is_unchanged(text: str) -> None:
    assert plain(f"{text}\n").rstrip() == text.replace("* ", "•" if text == "* " else "* ").rstrip()


def test_escaped_marks_are_shown_without_their_escape() -> None:
    assert plain("\\*not\\* \\`this\\`") == "*not* `this`"


def test_a_link_always_shows_its_target() -> None:
    assert plain("see [the bank](https://evil.example/x_(y)) now") == "see the bank (https://evil.example/x_(y)) now"


def test_headings_lists_quotes_rules_and_code() -> None:
    text = "# Title #\n\n- one\n  - two\n3. three\n> said\n> more\n\n***\n\n```py\n# *x*\n- y\n```\nend"
    assert plain(text) == (
        f"Title\n\n• one\n  • two\n3. three\n│ said\n│ more\n\n{'─' * 40}\n\n```py\n# *x*\n- y\n```\nend"
    )
    assert styles("## Sub title\n") == {"Sub": "bold", "title": "bold"}
    assert styles("```\n**x**\n```\n")["**x**"] == "code"


def test_long_cells_are_wrapped_and_columns_keep_their_side() -> None:
    table = (
        "| name | what it is | n |\n|---|:---:|---:|\n| a | a long cell with much text in it | 12 |\n| bb | b | 3 |\n"
    )
    assert plain(table, width=30).split("\n") == [
        "name │     what it is     │  n",
        "─────┼────────────────────┼───",
        "a    │ a long cell with   │ 12",
        "     │  much text in it   │   ",
        "bb   │         b          │  3",
        "",
    ]


def test_a_table_is_aligned_in_columns() -> None:
    assert plain("| a | b |\n|---|:-:|\n| long | `x` |\n| **y** | \\| |\n\nafter") == (
        "a    │ b\n─────┼──\nlong │ x\ny    │ |\n\nafter"
    )
    assert plain("| no table\nnext") == "| no table\nnext"


def test_lines_wrap_between_words_with_a_hanging_indent() -> None:
    text = "- " + "word " * 30
    lines = plain(text, width=30).splitlines()
    assert all(len(line) <= 30 for line in lines)
    assert [line[:2] for line in lines] == ["• ", *["  "] * (len(lines) - 1)]
    quoted = plain("> " + "word " * 30, width=30).splitlines()
    assert all(line.startswith("│ word") for line in quoted)


def test_certain_text_is_shown_at_once() -> None:
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


def test_a_partially_shown_word_is_not_wrapped() -> None:
    shown: Pieces = []
    text = Markdown(shown.extend, lambda: 12)
    text.feed("12345 789")
    text.flush_partial()
    text.feed("abcdef ghi")
    text.finish()
    assert "".join(piece for piece, _ in shown) == "12345 789abcdef\nghi"


LIVELY = st.text(st.sampled_from("ab *_`~#>-|[]()\\!1.\n\t 漢é\x1b\x07\r\x9b\u202e\u200b"), max_size=80)


def letters(*chunks: str, width: int) -> Pieces:
    """Return what is shown letter by letter, each with its style; a space has none."""
    return [
        (letter, style if letter.strip() else "") for text, style in rendered(*chunks, width=width) for letter in text
    ]


@pytest.mark.parametrize("longest_mark", [7, MAX_PENDING_MARK])
@given(LIVELY, st.lists(st.integers(0, 80), max_size=6), st.integers(8, 60))
@example("a \tb", [2], 20)  # a tab after a space
@example("`` ``-", [4], 20)  # code that begins with a space
@example("[ ](b)c", [3], 20)  # a label that begins with a space
@example("*****a***", [6], 20)  # two marks fit
@example("*** a**b", [5], 20)  # a run of marks before a space
@example("~~~ a~~~", [5], 20)
@example(">> - a", [2], 20)  # nested quotes, and a list inside
@example("\r |a", [2], 20)  # a carriage return is no white space before a table
@example("`12345`a", [7], 20)  # exactly as long as a mark may be
@example("~~~ 12345\na", [7], 20)  # longer
@example("         - a", [8], 20)
def test_chunk_boundaries_make_no_difference(longest_mark: int, text: str, cuts: list[int], width: int) -> None:
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    chunks = [text[start:end] for start, end in pairwise(places)]
    with mock.patch("dragoman.cli.ui.markdown.MAX_PENDING_MARK", longest_mark):
        assert letters(*chunks, width=width) == letters(text, width=width)


@given(LIVELY, st.integers(8, 60))
@example("```a\x1b]52;c;b3du\x07\u202e\nb\n```\n", 40)  # the language of code
def test_no_letter_is_lost_and_no_control_character_remains(text: str, width: int) -> None:
    output = plain(text, width=width)
    for letter in "ab漢é":
        assert output.count(letter) == text.count(letter)
    assert {character for character in output if unicodedata.category(character) in ("Cc", "Cf")} <= {"\n", "\t"}


@given(st.lists(st.text(st.sampled_from("ab漢"), min_size=1, max_size=4), max_size=40), st.integers(10, 60))
def test_no_line_is_wider_than_the_terminal(words: list[str], width: int) -> None:
    for line in plain(" ".join(words), width=width).splitlines():
        assert sum(map(char_width, line)) <= width


@pytest.mark.parametrize(
    ("before", "unit"), [("", "-"), ("", "["), ("", "*a "), ("```\n", "x"), ("| ", "x"), ("# ", "[")]
)
def test_the_time_for_a_very_long_line_grows_with_its_length(before: str, unit: str) -> None:
    text = before + unit * (150_000 // len(unit))  # if it grew with the square, this would take minutes
    output = plain(*(text[start : start + 50] for start in range(0, len(text), 50)))
    assert output.count(unit.strip()[-1]) == text.count(unit.strip()[-1])
