"""One session in the window: prompts, cards, questions, stopping, an agent that ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.cli.ui.rows import clip_text
from dragoman.config.config_file import NamedAgent
from dragoman.tui import texts
from tests.tui.window import ALT_UP, CTRL_C, CTRL_D, ENTER, ESC, SMALL, TAB, UP, open_window

SNAPSHOTS = Path(__file__).parents[1] / "data" / "tui"


def check_snapshot(name: str, shown: str) -> None:
    """Compare a screen with the one that is kept; a new one is written, and the test fails once."""
    file = SNAPSHOTS / f"{name}.txt"
    if not file.exists():
        file.write_text(shown, encoding="utf-8")
        pytest.fail(f"there was no {file.name}; look at it, and keep it")
    assert shown == file.read_text(encoding="utf-8")


@pytest.mark.item("FA-22")
@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (160, 50)])
@pytest.mark.parametrize("theme", ["dark", "none"])
async def test_a_turn_and_its_question_look_like_this(here: Path, columns: int, rows: int, theme: str) -> None:
    async with open_window(here, columns=columns, rows=rows, theme=theme) as window:
        window.type("/tour" + ENTER)
        await window.expect("This is a message; it came in several")
        await window.expect_that(lambda: not window.app.shown_tab.is_running)
        window.type("/edit notes.txt old new" + ENTER)
        await window.expect_that(lambda: window.app.is_question_focused)
        await window.expect_gone("Tab: answer")
        has_colors = theme != "none"
        check_snapshot(f"question-{columns}x{rows}-{theme}", window.snapshot(has_colors=has_colors))
        window.type("y")
        await window.expect("Changed notes.txt.")
        await window.expect("● live")
        check_snapshot(f"turn-{columns}x{rows}-{theme}", window.snapshot(has_colors=has_colors))
    assert (here / "notes.txt").read_text() == "a line to read\nthe new text\nthe end\n"


@pytest.mark.item("FA-26")
async def test_an_enter_or_a_letter_typed_before_the_question_stood_there_does_not_answer_it(here: Path) -> None:
    async with open_window(here) as window:
        window.type("/edit notes.txt old new" + ENTER + "y" + ENTER)
        await window.expect("The agent asks for permission")
        await window.expect("1 waits  y")  # it was sent as a prompt, and waits
        await window.expect_that(lambda: window.app.is_question_focused)
        assert "old" in (here / "notes.txt").read_text()
        window.type(ENTER)  # no key of the question
        await window.expect("press one of these keys")
        window.type("n")
        await window.expect("I left notes.txt as it is.")
    assert "old" in (here / "notes.txt").read_text()


async def test_a_key_that_is_part_of_a_word_or_of_a_draft_answers_nothing(here: Path) -> None:
    async with open_window(here) as window:
        window.type("/edit notes.txt old new" + ENTER)
        await window.expect_that(lambda: window.app.is_question_focused)
        window.type("yes, but")  # came at once, as when pasted
        await window.expect_that(lambda: window.app.composer.text == "yes, but")
        window.type("\x1b[200~y\x1b[201~")
        await window.expect_that(lambda: window.app.composer.text == "yes, buty")
        await window.expect("Tab: answer")
        assert window.app.shown_tab.is_asking
        assert not window.app.is_question_focused
        window.type(TAB)
        await window.answer("n")
        await window.expect("I left notes.txt as it is.")
        assert window.app.composer.text == "yes, buty"


async def test_a_question_mark_shows_the_keys_during_a_question(here: Path) -> None:
    async with open_window(here) as window:
        window.type("/edit notes.txt old new" + ENTER)
        await window.expect_that(lambda: window.app.is_question_focused)
        assert "? keys" in window.text
        window.type("?")
        await window.expect("Everywhere")
        assert "press one of these keys" not in window.text
        window.type(ESC)
        await window.expect_gone("Everywhere")
        await window.answer("n")
        await window.expect("I left notes.txt as it is.")


async def test_prompts_wait_while_the_agent_works_and_can_be_taken_back(here: Path) -> None:
    async with open_window(here) as window:
        window.type("/slow 1000" + ENTER)
        await window.expect("Wait 1000 seconds")
        window.type("/echo first" + ENTER)
        await window.expect("1 waits  /echo first")
        window.type("/echo second" + ENTER)
        await window.expect("2 wait  /echo first")
        window.type("\x1b\x7f")  # Alt-Backspace
        await window.expect_that(lambda: window.app.composer.text == "/echo second")
        window.type(CTRL_C)
        await window.expect("the turn ended: cancelled")
        await window.expect("│ /echo first")
        await window.expect_that(lambda: not window.app.shown_tab.is_running)
        assert window.app.composer.text == "/echo second"


@pytest.mark.item("FA-26")
async def test_ctrl_c_stops_closes_clears_and_quits_by_turns(here: Path) -> None:
    async with open_window(here) as window:
        window.type("/ask" + ENTER)
        await window.expect("asks for permission")
        window.type(CTRL_C)
        await window.expect("the turn ended: cancelled")
        window.type("draft")
        await window.expect_that(lambda: window.app.composer.text == "draft")
        window.type(CTRL_C)
        await window.expect_that(lambda: window.app.composer.text == "")
        window.type("?")
        await window.expect("Everywhere")
        window.type(CTRL_C)
        await window.expect_gone("Everywhere")
        window.type(CTRL_C)
        await window.expect("press Ctrl-C again to quit")
        window.type(CTRL_C)
        await window.expect_that(lambda: window.app.is_quitting)


@pytest.mark.parametrize("columns", [80, 60])
async def test_the_prompt_says_that_keys_are_commands_while_one_browses(here: Path, columns: int) -> None:
    async with open_window(here, columns=columns, rows=24) as window:
        window.type("/echo hello" + ENTER)
        await window.expect_that(lambda: window.transcript.count("hello") == 2 and "● live" in window.text)
        await window.expect(texts.PROMPT_HINT)
        writing = window.style_of("❯")
        window.type(ESC)
        await window.expect(texts.PROMPT_HINT_BROWSING)
        assert texts.PROMPT_HINT not in window.text
        assert window.style_of("❯") != writing
        window.type("/")
        await window.expect(texts.PROMPT_HINT_FINDING)
        window.type("hello" + ENTER)
        await window.expect(texts.PROMPT_HINT_BROWSING)
        window.type("v")
        await window.expect(f"❯  {texts.COPY_HINT}")
        window.type(ESC)
        await window.expect(texts.PROMPT_HINT_BROWSING)
        window.type("i")
        await window.expect(texts.PROMPT_HINT)
        assert window.style_of("❯") == writing


@pytest.mark.parametrize("columns", [80, 60])
async def test_a_message_in_the_status_line_is_not_cut_by_the_keys(here: Path, columns: int) -> None:
    async with open_window(here, columns=columns, rows=24) as window:
        await window.expect("^K all  ? keys  ● live")
        for hint in (texts.QUIT_HINT, texts.STOPPING, texts.COPY_HINT, texts.START_STOPPED):
            window.app.show_hint(hint)
            await window.expect(f"\n {clip_text(hint, columns - 2)}")
        # The keys give way first, then the state.
        window.app.show_hint(texts.QUIT_HINT)
        await window.expect_that(lambda: window.lines[-1].endswith("● live"))
        window.app.show_hint("x" * columns)
        await window.expect_that(lambda: window.lines[-1].endswith("x…"))
        window.app.show_hint("")
        await window.expect("^K all  ? keys  ● live")


async def test_an_agent_that_ends_is_started_again_by_the_next_prompt(here: Path) -> None:
    async with open_window(here, agent=SMALL) as window:
        window.type("hello" + ENTER)
        await window.expect_that(lambda: not window.app.shown_tab.is_running and "hello" in window.text)
        window.type("crash" + ENTER)
        await window.expect("the next prompt starts the agent again")
        await window.expect("○ ended")
        window.type("again" + ENTER)
        await window.expect("● live")


@pytest.mark.parametrize("script", ["cat", "missing", "exit"])
async def test_an_agent_that_cannot_start_is_started_once_for_each_prompt(here: Path, script: str) -> None:
    starts = here / "starts"
    command = {"cat": "exec cat", "exit": "exit 1", "missing": "exec /no/such/program"}[script]
    agent = NamedAgent(name="bad", command="sh", args=("-c", f"echo start >> {starts}; {command}"))
    async with open_window(here, agent=agent) as window:
        await window.expect("the next prompt starts the agent again")
        # The status line keeps what happened; the transcript has the reason in full.
        reason = {"cat": "sh -c echo", "exit": "agent sh exited with status 1", "missing": "agent sh exited"}[script]
        await window.expect(f"\n bad did not start: {reason}")
        assert "starting" not in window.lines[-1]
        before = starts.read_text().count("start")
        window.type("hi" + ENTER)
        await window.expect_that(lambda: starts.read_text().count("start") > before)
        await window.expect_that(lambda: window.app.shown_tab.state == "ended")
        await window.expect_that(lambda: window.app.composer.text == "hi")
        assert starts.read_text().count("start") == before + 1
        assert not window.app.shown_tab.waiting
        window.type(CTRL_C)
        await window.expect_that(lambda: window.app.composer.text == "")
        assert window.app.shown_tab.state == "ended"


async def test_ctrl_c_stops_a_start_that_hangs_and_gives_the_prompt_back(here: Path) -> None:
    agent = NamedAgent(name="slow", command="sleep", args=("1000",))
    async with open_window(here, agent=agent, waits_for_session=False) as window:
        await window.expect("starting")
        window.type("hi" + ENTER)
        await window.expect_that(lambda: window.app.shown_tab.waiting)
        window.type(CTRL_C)
        await window.expect("the start was stopped")
        await window.expect_that(lambda: window.app.composer.text == "hi")
        await window.expect("○ did not start")
        assert window.app.shown_tab.state == "ended"


async def test_history_completion_and_browsing(here: Path) -> None:
    async with open_window(here) as window:
        window.type("/think of something" + ENTER)
        await window.expect("▸ thought")
        window.type(UP)
        await window.expect_that(lambda: window.app.composer.text == "/think of something")
        window.type(CTRL_C)
        window.type("/edi")
        await window.expect("Ask, then replace OLD by NEW in a file")
        window.type(TAB)
        await window.expect_that(lambda: window.app.composer.text.startswith("/edit "))
        window.type(CTRL_C + "see @no")
        await window.expect_that(lambda: "@notes.txt" in window.text)
        window.type(ESC)
        window.type(CTRL_C)
        await window.expect_that(lambda: window.app.composer.text == "")
        window.type(ALT_UP)
        await window.expect_that(lambda: window.app.is_browsing)
        window.type("ko")
        await window.expect("▾ thought")
        await window.expect("of something")
        window.type("y")
        await window.expect_that(lambda: "\x1b]52;c;" in window.sink.raw)
        window.type(ESC)
        await window.expect_that(lambda: not window.app.is_browsing)
        window.type(CTRL_D)
        await window.expect_that(lambda: window.app.is_quitting)
