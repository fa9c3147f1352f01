"""Peer text cannot control the terminal; only our own styles reach it."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.cli.ui.format import diff_lines
from dragoman.cli.ui.key_prompt import KeyChoice, Prompter
from dragoman.cli.ui.terminal import (
    MAX_LINE_ROWS,
    QUESTION_BAR,
    OutputStream,
    StyledLine,
    TerminalOutput,
    char_width,
    clip,
    escape_json,
    sanitize,
    sanitize_line,
)


class Screenlike(io.StringIO):
    """A stream that claims to be a terminal."""

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
def test_control_characters_are_made_visible(text: str, shown: str) -> None:
    assert sanitize(text) == shown


@given(st.text(st.characters(codec=None)))
def test_sanitized_text_has_no_control_characters(text: str) -> None:
    left = {character for character in sanitize(text) if unicodedata.category(character) in ("Cc", "Cs")}
    assert left <= {"\n", "\t"}
    assert not set(sanitize(text)) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")


@given(st.text(), st.integers(1, 40))
def test_a_clipped_line_fits(text: str, width: int) -> None:
    line = sanitize_line(text)
    assert sum(map(char_width, clip(line, width))) <= width
    assert "\n" not in line


def test_styles_are_written_only_to_a_terminal_with_color() -> None:
    for stream, environ, inked in (
        (Screenlike(), {}, True),
        (Screenlike(), {"NO_COLOR": "1"}, False),
        (Screenlike(), {"NO_COLOR": ""}, True),
        (Screenlike(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ):
        OutputStream(stream, environ).write_line("hello", "red")
        assert ("\x1b[31m" in stream.getvalue()) is inked


def test_without_color_the_layout_stays() -> None:
    output = OutputStream(Screenlike(), {"NO_COLOR": "1"})
    assert output.has_ansi  # Markdown is laid out, and lines are redrawn


def test_peer_text_gets_our_style_but_never_its_own() -> None:
    stream = Screenlike()
    OutputStream(stream, {}).write_text("a\x1b[0mb", "dim")
    assert stream.getvalue() == "\x1b[2ma␛[0mb\x1b[0m"


def test_a_peer_cannot_write_the_question_bar() -> None:
    stream = Screenlike()
    output = OutputStream(stream, PLAIN)
    output.write_text(f"{QUESTION_BAR} y/n? ")
    output.write_line(f"{QUESTION_BAR} fake")
    output.draw_block("x", [StyledLine(f"{QUESTION_BAR} fake")])
    assert QUESTION_BAR not in stream.getvalue()
    for look_alike in "▉▊▋▌▍▎▏▐❙❚┃":
        output.write_text(f"{look_alike} y/n? ")
        assert look_alike not in stream.getvalue()
    output.write_question([StyledLine(f"write this:\n{QUESTION_BAR} y/n? y\nand more")])
    assert stream.getvalue().count(QUESTION_BAR) == 3
    assert all(line.startswith(f"{QUESTION_BAR} ") for line in stream.getvalue().splitlines()[-3:])


def test_a_long_line_of_a_question_is_wrapped_after_the_bar() -> None:
    stream = Screenlike()
    OutputStream(stream, PLAIN).write_question([StyledLine("word " * 60), StyledLine("漢" * 100)])
    lines = stream.getvalue().splitlines()
    assert all(line.startswith(f"{QUESTION_BAR} ") and sum(map(char_width, line)) <= 80 for line in lines)
    assert "".join(line[2:] for line in lines) == "word " * 60 + "漢" * 100


def test_write_line_starts_a_new_line() -> None:
    stream = io.StringIO()
    output = OutputStream(stream)
    output.write_text("half a line")
    output.write_line("ours")
    output.ensure_blank_line()
    output.write_text("more\n")
    output.ensure_line_start()
    assert stream.getvalue() == "half a line\nours\n\nmore\n"


def test_a_block_is_redrawn_only_while_it_is_at_the_end() -> None:
    stream = Screenlike()
    output = OutputStream(stream, {})
    output.draw_block("plan", [StyledLine("a"), StyledLine("b")])
    output.draw_block("plan", [StyledLine("A"), StyledLine("b")])
    assert stream.getvalue() == "a\nb\n\x1b[2A\x1b[JA\nb\n"
    output.write_line("between")
    assert not output.can_redraw("plan")


def test_with_a_pipe_everything_but_the_answer_goes_to_stderr() -> None:
    out, err = io.StringIO(), io.StringIO()
    piped = TerminalOutput(out, err)
    piped.answer.write_text("the answer")
    piped.diagnostics.write_line("a note")
    assert (out.getvalue(), err.getvalue()) == ("the answer", "a note\n")
    output = TerminalOutput(Screenlike(), err, {})
    assert output.diagnostics is output.answer


def test_a_diff_shows_removed_and_added_lines() -> None:
    assert [line.text for line in diff_lines("a\nb\nc\n", "a\nB\nc\n", 20)] == [
        "@@ -1,3 +1,3 @@",
        "  a",
        "- b",
        "+ B",
        "  c",
    ]
    assert [line.text for line in diff_lines(None, "x\ny\n", 20)] == ["+ x", "+ y"]
    assert [line.text for line in diff_lines("a", "a\n", 20)][1:] == ["- a (no newline at the end)", "+ a"]
    assert [line.text for line in diff_lines("a\n", "a\n", 20)] == ["(no change)"]


def test_a_long_diff_is_truncated_with_a_count() -> None:
    lines = diff_lines(None, "x\n" * 100, 10)
    assert len(lines) == 11
    assert lines[-1].text == "… 90 more lines"
    assert "too long to compare" in diff_lines("a" * 300_000, "b" * 300_000, 10)[0].text


@pytest.mark.parametrize(
    "command",
    [
        "echo hi" + " " * 5000 + "; rm -rf x",
        "echo hi; rm -rf x" + " " * 5000,
        "echo hi\u3000" + "\u00a0" * 5000 + "; rm -rf x",
        "echo " + "a" * 20_000 + "; rm -rf x",
        "; rm -rf x #" + "漢" * 20_000,
    ],
)
def test_a_long_line_does_not_push_the_command_off_the_screen(command: str) -> None:
    stream = Screenlike()
    rows = OutputStream(stream, PLAIN).write_question([StyledLine(command, "bold")])
    lines = stream.getvalue().splitlines()
    assert len(lines) == rows <= MAX_LINE_ROWS
    assert "; rm -rf x" in "".join(line.removeprefix(f"{QUESTION_BAR} ") for line in lines)
    assert "…" in stream.getvalue()  # it says that something is left out


def test_a_question_longer_than_the_screen_names_its_subject_again_above_the_keys() -> None:
    async def ask(question: list[StyledLine]) -> str:
        stream = Screenlike()
        ours, theirs = pty.openpty()
        try:
            prompter = Prompter(OutputStream(stream, PLAIN), theirs)
            asking = asyncio.ensure_future(prompter.choose(question, [KeyChoice("y", "yes", "y")]))
            while "y? " not in stream.getvalue():  # noqa: ASYNC110 - the output is what is waited for
                await asyncio.sleep(0)
            prompter.close_question()
            await asking
        finally:
            os.close(ours)
            os.close(theirs)
        return stream.getvalue()

    subject = StyledLine("rm -rf x", "bold")
    assert asyncio.run(ask([subject, StyledLine("+ a line")])).count("rm -rf x") == 1
    screen = asyncio.run(ask([subject, *(StyledLine(f"+ {number}") for number in range(60))]))
    assert "▌ + 59\n▌ All of this is about:\n▌ rm -rf x\n▌   y  yes\n" in screen


@pytest.mark.parametrize("value", ["\x9b31m", "\u202eabc", "\x7f", "\U000e0041", "é\u200b", "plain"])
def test_json_for_a_terminal_has_escapes_and_the_same_value(value: str) -> None:
    escaped = escape_json(msgspec.json.encode({"a\x9d": value}))
    assert msgspec.json.decode(escaped) == {"a\x9d": value}
    assert sanitize(escaped.decode()) == escaped.decode()


def test_sentences_are_broken_between_words_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OutputStream, "width", 60)
    sentence = "the connection to the host was lost and is tried again in a moment, as long as you want"
    screen, pipe = Screenlike(), io.StringIO()
    OutputStream(screen, PLAIN).write_prose(sentence)
    OutputStream(pipe, PLAIN).write_prose(sentence)
    lines = screen.getvalue().splitlines()
    assert len(lines) == 2
    assert max(map(len, lines)) < 60
    assert " ".join(lines) == sentence
    assert pipe.getvalue() == f"{sentence}\n"
    row = Screenlike()
    OutputStream(row, PLAIN).write_prose("  :mode [ID]       show or change the mode of the agent, and list all modes")
    assert row.getvalue().splitlines()[1].startswith(" " * 19 + "and list")


def test_a_question_is_broken_between_words_and_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OutputStream, "width", 40)
    question = "y  yes, for changing this file, always in this folder, until you revoke it; " + "x" * 50
    screen = Screenlike()
    OutputStream(screen, PLAIN).write_question([StyledLine(question)])
    rows = [line.removeprefix(f"{QUESTION_BAR} ") for line in screen.getvalue().splitlines()]
    assert "".join(rows) == question
    assert all(row.endswith((" ", "x")) for row in rows)
    assert max(map(len, rows)) <= 38
