"""What the keys do: find, copy, mouse, themes, terminal panes, following the agent, the editor, forms."""

from __future__ import annotations

import ast
import base64
import re
from pathlib import Path

import pytest

from dragoman.tui import texts
from dragoman.tui.actions import Actions
from dragoman.tui.follow import FilePane, editor_command
from dragoman.tui.keys import KEYS, help_rows
from dragoman.tui.transcript_actions import TranscriptActions
from tests.source_facts import parse
from tests.tui.window import ALT_UP, CTRL_C, DOWN, ENTER, ESC, UP, Window, open_window

CTRL_F, CTRL_T, CTRL_Y, CTRL_K = "\x06", "\x14", "\x19", "\x0b"


def copied(window: Window) -> str:
    """What was copied last."""
    found = re.findall(r"\x1b\]52;c;([^\x07]*)\x07", window.sink.raw)
    return base64.b64decode(found[-1]).decode() if found else ""


def click(window: Window, text: str, kind: str = "M", button: int = 0, column: int = 0) -> None:
    """Press (M) or release (m) the mouse on a text."""
    rows = [at for at, line in enumerate(window.lines) if text in line and at]  # not in the title
    assert rows, f"{text!r} is not on the screen:\n{window.text}"
    row = rows[0]
    window.type(f"\x1b[<{button};{window.lines[row].index(text) + 1 + column};{row + 1}{kind}")


@pytest.mark.item("FA-23")
async def test_find_copy_mode_and_mouse(here: Path) -> None:
    async with open_window(here) as window:
        window.type("/echo the needle is here" + ENTER)
        await window.expect_that(lambda: window.transcript.count("needle") == 2, "the prompt and its answer")
        window.type("/stream 120 60" + ENTER)
        await window.expect_that(lambda: "more characters in this line" in window.transcript, "the end to be shown")
        await window.expect_that(lambda: not window.app.shown_tab.is_running)
        assert "needle" not in window.transcript
        window.type(CTRL_F + "needle")
        await window.expect("find: needle")
        await window.expect_that(lambda: "needle is here" in window.transcript)
        assert window.style_of("needle is here").bg != "default"
        window.type(ENTER + "v" + "v" + "$" + "y")
        await window.expect_that(lambda: "the needle is here" in copied(window))
        window.type(ESC)
        await window.expect_that(lambda: not window.app.is_browsing)
        window.type(CTRL_Y)
        await window.expect_that(lambda: len(copied(window)) > 1000, "the last answer")
        click(window, "needle is here")
        click(window, "needle is here", "M", 32, 5)  # moved while pressed
        click(window, "needle is here", "m", 0, 5)
        await window.expect_that(lambda: copied(window) == "needle")
        top = window.lines[3]
        window.type("\x1b[<64;60;10M")  # the wheel
        await window.expect_that(lambda: window.lines[3] != top)
        window.type(CTRL_C)
        assert not window.app.is_quitting


@pytest.mark.item("FA-23")
async def test_themes_help_and_all_actions(here: Path) -> None:
    async with open_window(here, columns=100, rows=30) as window:
        window.type("?")
        await window.expect("Everywhere")
        window.type(DOWN + UP + ESC)
        await window.expect_gone("Everywhere")
        dark = window.style_of("Ask the agent").fg
        window.type(CTRL_K + "theme light" + ENTER)
        await window.expect_that(lambda: window.style_of("Ask the agent").fg not in (dark, "default"))
        window.type(CTRL_K + "theme none" + ENTER)
        await window.expect_that(lambda: window.style_of("Ask the agent").fg == "default")
        window.type(CTRL_K + ":mode" + ENTER)
        await window.expect_that(lambda: window.app.composer.text == ":mode ")
        window.type("code" + ENTER)
        await window.expect("mode is now Code")
        assert "Code" in window.lines[-1]


@pytest.mark.item("FA-22")
async def test_the_output_of_a_command_has_its_colors_and_a_pane(here: Path) -> None:
    (here / "colors.sh").write_text("printf '\\033[31mred\\033[0m\\033[2J\\n'; seq 1 40\n")
    async with open_window(here, columns=100, rows=30) as window:
        window.type("/run sh colors.sh" + ENTER)
        await window.answer("y")
        await window.expect("ended with exit code 0")
        await window.expect("… 37 lines before (o opens)")
        window.type(ALT_UP + "kt")
        await window.expect("-41 of 41")  # the pane shows the end
        window.type("g")
        await window.expect(" 1-")
        await window.expect_that(lambda: window.style_of("red").fg == "red" or len(window.style_of("red").fg) == 6)
        window.type("q" + "o")
        await window.expect_gone("lines before")
        assert window.app.is_browsing


@pytest.mark.item("FA-24")
async def test_the_place_where_the_agent_works_is_shown_and_opened_in_the_editor(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = here / "editor.sh"
    editor.write_text(f'#!/bin/sh\necho "$@" > {here}/opened\n')
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    async with open_window(here, columns=160, rows=40) as window:
        window.type(CTRL_T)
        await window.expect("following the agent")
        window.type("/read notes.txt" + ENTER)
        await window.expect("1 a line to read")  # the pane, with line numbers
        await window.expect_that(lambda: not window.app.shown_tab.is_running)
        window.type(ALT_UP + "k" + "e")
        await window.expect_that(lambda: (here / "opened").exists() and (here / "opened").read_text().endswith("\n"))
        assert (here / "opened").read_text().split() == ["+1", str(here / "notes.txt")]
        window.type(CTRL_T)
        await window.expect_gone("1 a line to read")


def test_editors_get_the_line_in_their_own_way(tmp_path: Path) -> None:
    assert editor_command("/a.py", 7, {"EDITOR": "vim -n"}) == ["vim", "-n", "+7", "/a.py"]
    assert editor_command("/a.py", 7, {"EDITOR": "vi", "VISUAL": "code -w"}) == ["code", "-w", "-g", "/a.py:7"]
    assert editor_command("/a.py", 7, {}) == []
    (tmp_path / "a.py").write_text("\n".join(f"line {number}" for number in range(100)))
    rows = FilePane(str(tmp_path / "a.py"), 50).rows(60, 20, str(tmp_path))
    assert len(rows) == 20
    assert next(row for row in rows if row.fill == "cursor-row").text.strip() == "50 line 49"
    assert "No such file" in FilePane("/no/such", 1).rows(60, 5, "/")[1].text


@pytest.mark.parametrize("editor", ["vim", "emacs", "code -w", "hx", "kate", "idea"])
def test_no_file_name_is_an_option_of_the_editor(editor: str) -> None:
    for name in ("+!sh x", "-c:!sh x", "--remote-expr=system('x')"):
        given = editor_command(name, 1, {"EDITOR": editor})[len(editor.split()) :]
        assert [word for word in given if name in word and not word.startswith("/")] == []


async def test_a_form_is_filled_in_line_by_line(here: Path) -> None:
    async with open_window(here) as window:
        window.type("/form" + ENTER)
        await window.expect("The agent asks you:")
        await window.expect(" y  answer   n  decline")
        await window.answer("y")
        for label, value in (("Name:", "Ann"), ("Age:", "33"), ("Height:", "1.7")):
            await window.expect(f"▌ {label}")
            await window.expect_that(window.app.is_answer_settled)
            window.type(value + ENTER)
        await window.expect("▌ Awake")
        await window.answer("y")
        await window.expect("▌ Color")
        await window.answer("1")
        await window.expect("color: red")
        assert "name: Ann" in window.text
        assert "age: 33" in window.text


async def test_an_answer_that_a_form_does_not_take_is_explained_above_the_line(here: Path) -> None:
    async with open_window(here) as window:
        window.type("/form" + ENTER)
        await window.answer("y")
        await window.expect("▌ Name:")
        await window.expect_that(window.app.is_answer_settled)
        window.type(ENTER)
        await window.expect("▌ this is required; Esc stops the agent\n▌ Name:")
        await window.expect_that(window.app.is_answer_settled)
        window.type("Ann" + ENTER)
        await window.expect("▌ Age:")
        assert "this is required" not in window.text
        await window.expect_that(window.app.is_answer_settled)
        window.type("many" + ENTER)
        await window.expect("▌ type a whole number\n▌ Age:")
        window.type(ESC)
        await window.expect_that(lambda: not window.app.shown_tab.is_running)
        await window.expect_gone("▌ Age:")


@pytest.mark.item("FA-29")
def test_every_key_has_an_action_and_texts_are_in_one_place() -> None:
    for key in KEYS:
        assert hasattr(Actions, key.action) or hasattr(TranscriptActions, key.action), key
    assert "Ctrl-C" in "\n".join(row.text for row in help_rows(100))
    names = {name for name in vars(texts) if name.isupper()}
    used = set()
    for path in Path(texts.__file__).parent.rglob("*.py"):
        used |= {node.attr for node in ast.walk(parse(path.read_text())) if isinstance(node, ast.Attribute)}
    assert names - used == set()
