"""Nothing a peer says can drive the terminal, and only our own styles reach it."""

from __future__ import annotations

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.cli.ui.diff import changed
from dragoman.cli.ui.terminal import MARK, Line, Sheet, Terminal, clip, columns, single, visible


class Screenlike(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


PLAIN: dict[str, str] = {"NO_COLOR": "1"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text\n\tand a tab", "plain text\n\tand a tab"),
        ("\x1b[31mred", "␛[31mred"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("\x9b31m and \x9d0;t\x9c", "<U+009B>31m and <U+009D>0;t<U+009C>"),
        ("abc\rxyz", "abc␍xyz"),
        ("dos\r\nlines\r\n", "dos\nlines\n"),
        ("\x08\x7f\x00", "␈␡␀"),
        ("a\u202eb\u2066c", "a<U+202E>b<U+2066>c"),
        ("lone \ud800", "lone <U+D800>"),
        ("zero\u200bwidth \ufeff", "zero<U+200B>width <U+FEFF>"),
        ("\U000e0041", "<U+E0041>"),
        ("ünï → 漢字 👩\u200d💻", "ünï → 漢字 👩\u200d💻"),
    ],
)
def test_what_could_act_is_made_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text(st.characters(codec=None)))
def test_no_text_leaves_anything_a_terminal_obeys(text: str) -> None:
    left = {character for character in visible(text) if unicodedata.category(character) in ("Cc", "Cs")}
    assert left <= {"\n", "\t"}
    assert not set(visible(text)) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")


@given(st.text(), st.integers(1, 40))
def test_a_clipped_line_fits(text: str, width: int) -> None:
    line = single(text)
    assert sum(map(columns, clip(line, width))) <= width
    assert "\n" not in line


def test_styles_only_on_a_terminal_that_wants_them() -> None:
    for stream, environ, inked in (
        (Screenlike(), {}, True),
        (Screenlike(), {"NO_COLOR": "1"}, False),
        (Screenlike(), {"NO_COLOR": ""}, True),
        (Screenlike(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ):
        Sheet(stream, environ).line("hello", "red")
        assert ("\x1b[31m" in stream.getvalue()) is inked


def test_peer_text_gets_our_style_but_never_its_own() -> None:
    stream = Screenlike()
    Sheet(stream, {}).say("a\x1b[0mb", "dim")
    assert stream.getvalue() == "\x1b[2ma␛[0mb\x1b[0m"


def test_the_mark_of_questions_cannot_be_written_by_a_peer() -> None:
    stream = Screenlike()
    sheet = Sheet(stream, PLAIN)
    sheet.say(f"{MARK} y/n? ")
    sheet.line(f"{MARK} fake")
    sheet.block("x", [Line(f"{MARK} fake")])
    assert MARK not in stream.getvalue()
    sheet.mark([Line(f"write this:\n{MARK} y/n? y\nand more")])
    assert stream.getvalue().count(MARK) == 3
    assert all(line.startswith(f"{MARK} ") for line in stream.getvalue().splitlines()[-3:])


def test_a_long_line_of_a_question_is_wrapped_behind_the_mark() -> None:
    stream = Screenlike()
    Sheet(stream, PLAIN).mark([Line("word " * 60), Line("漢" * 100)])
    lines = stream.getvalue().splitlines()
    assert all(line.startswith(f"{MARK} ") and sum(map(columns, line)) <= 80 for line in lines)
    assert "".join(line[2:] for line in lines) == "word " * 60 + "漢" * 100


def test_a_line_begins_on_a_line_of_its_own() -> None:
    stream = io.StringIO()
    sheet = Sheet(stream)
    sheet.say("half a line")
    sheet.line("ours")
    sheet.gap()
    sheet.say("more\n")
    sheet.fresh()
    assert stream.getvalue() == "half a line\nours\n\nmore\n"


def test_a_block_is_drawn_over_only_while_it_stands_at_the_end() -> None:
    stream = Screenlike()
    sheet = Sheet(stream, {})
    sheet.block("plan", [Line("a"), Line("b")])
    sheet.block("plan", [Line("A"), Line("b")])
    assert stream.getvalue() == "a\nb\n\x1b[2A\x1b[JA\nb\n"
    sheet.line("between")
    assert not sheet.continues("plan")


def test_beside_a_pipe_everything_but_the_answer_goes_to_stderr() -> None:
    out, err = io.StringIO(), io.StringIO()
    piped = Terminal(out, err)
    piped.answer.say("the answer")
    piped.aside.line("a note")
    assert (out.getvalue(), err.getvalue()) == ("the answer", "a note\n")
    shown = Terminal(Screenlike(), err, {})
    assert shown.aside is shown.answer


def test_a_change_is_shown_with_what_goes_and_what_comes() -> None:
    assert [line.text for line in changed("a\nb\nc\n", "a\nB\nc\n", 20)] == [
        "@@ -1,3 +1,3 @@",
        "  a",
        "- b",
        "+ B",
        "  c",
    ]
    assert [line.text for line in changed(None, "x\ny\n", 20)] == ["+ x", "+ y"]
    assert [line.text for line in changed("a", "a\n", 20)][1:] == ["- a (no newline at the end)", "+ a"]
    assert [line.text for line in changed("a\n", "a\n", 20)] == ["(nothing changes)"]


def test_a_long_change_says_what_it_leaves_out() -> None:
    lines = changed(None, "x\n" * 100, 10)
    assert len(lines) == 11
    assert lines[-1].text == "… 90 more lines"
    assert "too long to compare" in changed("a" * 300_000, "b" * 300_000, 10)[0].text
