"""`dragoman chat`, as a user sees it on a terminal."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from dragoman.cli.chat.colon_commands import KEY_HELP
from dragoman.policy.modes import MODES, mode_summary
from tests.cli.process import EVERYTHING, OnScreen, dragoman

CHAT = ("chat", "--", *EVERYTHING)

TAB, ENTER, CTRL_C, CTRL_D, UP, ALT_ENTER = "\t", "\r", "\x03", "\x04", "\x1b[A", "\x1b\r"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with a file."""
    folder = tmp_path / "here"
    (folder / "src").mkdir(parents=True)
    (folder / "notes.txt").write_text("the old text\n")
    (folder / "src" / "main.py").write_text("print()\n")
    return folder


def chat(here: Path, *options: str, columns: int = 80) -> OnScreen:
    """Start a chat with the everything agent."""
    return OnScreen("chat", *options, "--", *EVERYTHING, cwd=here, columns=columns)


def test_without_a_terminal_chat_advises_run(here: Path) -> None:
    ran = dragoman(*CHAT, cwd=here)
    assert ran.returncode == 2
    assert "chat needs a terminal; for one prompt, use: dragoman run" in ran.stderr
    assert ran.stderr.count("\n") == 1


@pytest.mark.item("004-03", "004-65")
def test_markdown_thoughts_plans_and_tool_calls_are_shown(here: Path) -> None:
    with chat(here) as terminal:
        terminal.await_last("›")
        assert "Everything 0.1.0 (v1) in " in terminal.text
        terminal.type("/tour" + ENTER)
        terminal.await_text("[x] Tell about it")
        terminal.await_last("›")
        for line in ("[>] Look around", "[ ] Do the work", "✓ Look around", "This is a message; it came in several"):
            assert line in terminal.text
        assert terminal.style_of("message; it came").bold
        assert terminal.style_of("✓ Look around").fg == "green"
        assert terminal.style_of("[x] Tell").fg == "green"
        assert "\x1b[2mSomebody" in terminal.raw
        terminal.type(CTRL_D)
        assert terminal.end() == 0


@pytest.mark.item("004-03", "004-65")
def test_a_question_is_answered_by_one_key_and_remembered_for_its_scope(here: Path) -> None:
    with chat(here) as terminal:
        terminal.await_last("›")
        terminal.type("/edit notes.txt old new" + ENTER)
        terminal.await_last("▌ y/s/w/a/n?")
        assert "▌ - the old text\n▌ + the new text" in terminal.text
        assert terminal.style_of("- the old").fg == "red"
        assert terminal.style_of("+ the new").fg == "green"
        terminal.type("s")
        terminal.await_text("Changed notes.txt.")
        terminal.await_last("›")
        terminal.type("/edit notes.txt new newer" + ENTER)
        terminal.await_text("+ the newer text")  # shown when it was done, because no question showed it
        terminal.await_last("›")
        assert terminal.raw.count("y/s/w/a/n?") == 1
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    assert (here / "notes.txt").read_text() == "the newer text\n"


@pytest.mark.item("004-03", "004-65")
def test_ctrl_c_stops_the_turn_and_the_chat_continues(here: Path) -> None:
    with chat(here) as terminal:
        terminal.await_last("›")
        terminal.type("/slow 1000" + ENTER)
        terminal.await_text("… Wait 1000 seconds")
        terminal.await_text("Ctrl-C stops the agent · what you type is kept")
        terminal.type(CTRL_C)
        terminal.await_text("✗ Wait 1000 seconds")
        terminal.await_text("the turn ended: cancelled")
        assert "Ctrl-C stops the agent" not in terminal.text
        terminal.await_last("›")
        terminal.type("/echo still here" + ENTER)
        terminal.await_line("still here")
        terminal.await_last("›")
        terminal.type(CTRL_C)
        terminal.await_text("press Ctrl-C again or Ctrl-D to quit")
        terminal.type(CTRL_C)
        assert terminal.end() == 0


def test_a_second_ctrl_c_quits(here: Path) -> None:
    deaf = here / "deaf.py"
    deaf.write_text(
        "import asyncio\nfrom dragoman import Agent\nagent = Agent('deaf')\n@agent.prompt\nasync def answer(turn):\n"
        "    await turn.say('not listening')\n    while True:\n        try:\n            await asyncio.sleep(1000)\n"
        "        except asyncio.CancelledError:\n            await turn.say('; still not')\nagent.run()\n"
    )
    with OnScreen("chat", "--", sys.executable, str(deaf), cwd=here) as terminal:
        terminal.await_last("›")
        terminal.type("go" + ENTER)
        terminal.await_text("not listening")
        terminal.type(CTRL_C)
        terminal.await_text("; still not")
        terminal.type(CTRL_C)
        assert terminal.end() == 130


def test_tab_completes_slash_commands_files_and_colon_commands(here: Path) -> None:
    with chat(here) as terminal:
        terminal.await_last("›")
        terminal.type("/echo ready" + ENTER)  # the list of commands comes before the answer to this
        terminal.await_text("\nready")
        terminal.await_last("›")
        terminal.type("/tit" + TAB)
        terminal.await_last("› /title")
        terminal.type("A name" + ENTER)
        terminal.await_text("This session has a title now.")
        terminal.await_last("›")
        terminal.type("/merge see @no" + TAB)
        terminal.await_last("› /merge see @notes.txt")
        terminal.type(" and @sr" + TAB)
        terminal.await_last("› /merge see @notes.txt and @src/")
        terminal.type("m" + TAB)
        terminal.await_last("› /merge see @notes.txt and @src/main.py")
        terminal.type(ENTER)
        terminal.await_text("the old text")  # the file was attached
        terminal.await_text("print()")
        terminal.await_last("›")
        terminal.type(":mode co" + TAB)
        terminal.await_last("› :mode code")
        terminal.type(ENTER)
        terminal.await_text("mode is now Code")
        terminal.type(CTRL_D)
        assert terminal.end() == 0


def test_modes_models_and_options_are_shown_and_changed(here: Path) -> None:
    with chat(here, "--model", "loud", "--agent-mode", "code") as terminal:
        terminal.await_last("›")
        terminal.await_text("Code · Loud")
        terminal.type("hello" + ENTER)
        terminal.await_text("│ HELLO")
        terminal.await_last("›")
        terminal.type(":model plain" + ENTER)
        terminal.await_text("model is now Plain")
        terminal.type(":set verbose on" + ENTER)
        terminal.await_text("verbose is now on")
        terminal.type(":policy plan" + ENTER)
        terminal.await_text("policy: plan")
        terminal.type("/usage" + ENTER)
        terminal.await_text("1.5k of 8k tokens, 0.25 USD")
        terminal.await_last("›")  # type-ahead before the end of a turn stays on the next line, without its Enter
        terminal.type(":model nosuch" + ENTER)
        terminal.await_text("there is no model 'nosuch'; choose one of: plain, loud")
        terminal.type(":nosuch" + ENTER)
        terminal.await_text("there is no command :nosuch; :help lists all commands")
        terminal.type(":polcy" + ENTER)
        terminal.await_text("there is no command :polcy; did you mean :policy?")
        terminal.type("::x" + ENTER)
        terminal.await_text("│ :x")
        terminal.await_last("›")
        terminal.type(":help" + ENTER)
        terminal.await_text("start a new session")
        terminal.type(":quit" + ENTER)
        assert terminal.end() == 0


def test_colon_commands_typed_quickly_run_one_by_one(here: Path) -> None:
    with chat(here) as terminal:
        terminal.await_last("›")
        for line in (":model loud", ":set verbose on", ":policy plan", ":nosuch"):
            terminal.type(line + ENTER)
        terminal.await_text("model is now Loud")
        terminal.await_text("verbose is now on")
        terminal.await_text("policy mode is now plan")
        terminal.await_text("there is no command :nosuch; :help lists all commands")
        replies = ("model is now", "verbose is now", "policy mode is now", "there is no command")
        positions = [terminal.text.index(reply) for reply in replies]
        assert positions == sorted(positions)


def test_the_input_history_is_kept_and_private(here: Path, tmp_path: Path) -> None:
    with chat(here) as terminal:
        terminal.await_last("›")
        terminal.type("/echo one" + ALT_ENTER + "two" + ENTER)
        terminal.await_line("two")
        terminal.await_last("›")
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    file = tmp_path / "state" / "dragoman" / "history"
    assert json.loads(file.read_text()) == "/echo one\ntwo"
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    with chat(here) as terminal:
        terminal.await_last("›")
        terminal.type(UP)
        terminal.await_last("… two")
        assert "› /echo one\n… two" in terminal.text


def test_type_ahead_during_a_turn_is_kept_and_not_sent(here: Path) -> None:
    with chat(here) as terminal:
        terminal.await_last("›")
        terminal.type("/slow 1.5" + ENTER)
        terminal.await_text("… Wait")
        terminal.type("something else" + ENTER)
        terminal.await_last("› something else")
        assert "You said" not in terminal.text
        terminal.type("!" + ENTER)
        terminal.await_text("│ something else!")


def test_updates_outside_turns_are_shown_above_the_input_line(here: Path) -> None:
    with chat(here) as terminal:
        terminal.await_last("›")
        terminal.type("/late" + ENTER)
        terminal.await_text("session title is now 'A session with late news'")
        terminal.await_last("›")
        screen = terminal.text
        assert screen.index("More comes after") < screen.index("This came after") < screen.index("session title is now")


def test_the_input_line_waits_until_updates_after_a_turn_are_shown(here: Path) -> None:
    late = here / "late.py"
    late.write_text(
        "import asyncio\nfrom dragoman import Agent\nfrom dragoman.schema.content import TextContent\n"
        "from dragoman.schema.update import AgentMessageChunk\nagent = Agent('late')\n"
        "def say(session, *words):\n"
        "    session.send_update(AgentMessageChunk(content=TextContent(text=words[0])))\n"
        "    if words[1:]:\n        asyncio.get_running_loop().call_later(0.1, say, session, *words[1:])\n"
        "@agent.prompt\nasync def answer(turn):\n    await turn.say('before\\n')\n"
        "    asyncio.get_running_loop().call_soon(say, turn.session, 'one ', 'two ', 'three ', 'four\\n')\n"
        "agent.run()\n"
    )
    with OnScreen("chat", "--", sys.executable, str(late), cwd=here) as terminal:
        terminal.await_last("›")
        terminal.type("go" + ENTER)
        terminal.await_line("one two three four")
        terminal.await_last("›")
        assert terminal.text.count("one two three four") == 1


def test_lines_fit_a_narrower_window(here: Path) -> None:
    with chat(here, columns=80) as terminal:
        terminal.await_last("›")
        terminal.resize(40)
        terminal.type("/echo " + "word " * 20 + ENTER)
        terminal.await_line("word word word word word word word word")  # no word is broken
        terminal.await_last("›")
        assert all(len(line) <= 40 for line in terminal.text.split("\n"))


def test_an_agent_cannot_draw_a_question_or_drive_the_terminal(here: Path) -> None:
    with chat(here) as terminal:
        terminal.await_last("›")
        terminal.type("/echo ▌ y/n? <b>" + ENTER)
        terminal.await_line("| y/n? <b>")
        terminal.await_last("›")
        assert "▌ y/n? <b>" not in terminal.text.split("\n")


def test_chat_survives_an_error_and_ends_after_an_exit_without_restart(here: Path) -> None:
    with chat(here) as terminal:
        terminal.await_last("›")
        terminal.type("/error timeout" + ENTER)
        terminal.await_text("the agent answered with an error (timeout)")
        terminal.await_last("›")
        terminal.type("/crash" + ENTER)
        terminal.await_text("y/n?")
        terminal.type("n")
        assert terminal.end() == 7
        assert "everything: crashing, as I was told" in terminal.text


def test_an_agent_exit_between_turns_is_noticed(here: Path) -> None:
    script = here / "goes.py"
    script.write_text(
        "import asyncio, os\nfrom dragoman import Agent\n"
        "agent = Agent('goes')\n@agent.prompt\nasync def answer(turn):\n"
        "    await turn.say('goodbye')\n    asyncio.get_running_loop().call_later(0.5, os._exit, 4)\nagent.run()\n"
    )
    with OnScreen("chat", "--", sys.executable, str(script), cwd=here) as terminal:
        terminal.await_last("›")
        terminal.type("go" + ENTER)
        terminal.await_text("goodbye")
        terminal.await_text("y/n?")
        terminal.type("n")
        assert terminal.end() == 7
        assert "exited with status 4" in terminal.text


def test_without_prompt_toolkit_chat_reads_plain_lines(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = here / "blocked"
    (blocked / "prompt_toolkit").mkdir(parents=True)
    (blocked / "prompt_toolkit" / "__init__.py").write_text("raise ImportError('not here')\n")
    monkeypatch.setenv("PYTHONPATH", str(blocked))
    with chat(here) as terminal:
        terminal.await_last("›")
        assert "pip install 'dragoman[tui]'" in terminal.text
        terminal.type("/edit notes.txt old new\n")
        terminal.await_last("▌ y/s/w/a/n?")
        terminal.type("y")
        terminal.await_text("Changed notes.txt.")
        terminal.await_last("›")
        terminal.type("/late\n")
        terminal.await_text("session title is now 'A session with late news'")
        terminal.await_last("›")
        terminal.type("/echo one\\\n")
        terminal.await_last("…")
        terminal.type("two\n")
        terminal.await_line("two")
        terminal.await_last("›")
        terminal.type(CTRL_D)
        assert terminal.end() == 0


def test_a_form_is_filled_in_field_by_field_and_a_link_is_shown(here: Path) -> None:
    with chat(here) as terminal:
        terminal.await_last("›")
        terminal.type("/form" + ENTER)
        terminal.await_last("▌ y/n?")
        assert "▌ Tell me about yourself" in terminal.text
        terminal.type("y")
        terminal.await_last("▌ Name:")
        terminal.type("\n")
        terminal.await_text("▌ this is required; Ctrl-D closes the question")
        terminal.await_last("▌ Name:")
        terminal.type("Ada\n")
        terminal.await_last("▌ Age:")
        terminal.type("many\n")
        terminal.await_text("type a whole number")
        terminal.await_last("▌ Age:")
        terminal.type("36\n")
        terminal.await_last("▌ Height:")
        terminal.type("1.7\n")
        terminal.await_last("▌ y/n?")
        terminal.type("n")
        terminal.await_last("▌ 1/2/3?")
        terminal.type("2")
        terminal.await_text("• color: green")
        for answer in ("name: Ada", "age: 36", "height: 1.7", "awake: False"):
            assert answer in terminal.text
        terminal.await_last("›")
        terminal.type("/form" + ENTER)
        terminal.await_last("▌ y/n?")
        terminal.type("y")
        terminal.await_last("▌ Name:")
        terminal.type(CTRL_D)
        terminal.await_text("You closed the question.")
        terminal.await_last("›")
        terminal.type("/link" + ENTER)
        terminal.await_last("▌ y/n?")
        assert "▌   https://example.org/everything?session=" in terminal.text
        terminal.type("n")
        terminal.await_text("You declined.")


def test_a_required_login_asks_for_the_method(here: Path) -> None:
    script = here / "locked.py"
    script.write_text(
        """
import json, sys
def say(**message): print(json.dumps(dict(jsonrpc="2.0", **message)), flush=True)
is_known = False
for line in sys.stdin:
    call = json.loads(line)
    match call.get("method"):
        case "initialize":
            methods = [dict(id="browser", name="In a browser"), dict(id="key", name="With a key")]
            say(id=call["id"], result=dict(protocolVersion=1, agentCapabilities={}, authMethods=methods))
        case "authenticate":
            is_known = call["params"]["methodId"] == "key"
            say(id=call["id"], result={})
        case "session/new" if is_known:
            say(id=call["id"], result=dict(sessionId="s"))
        case "session/new":
            say(id=call["id"], error=dict(code=-32000, message="Authentication required"))
"""
    )
    with OnScreen("chat", "--", sys.executable, str(script), cwd=here) as terminal:
        terminal.await_last("▌ 1/2/n?")
        assert "▌   2  With a key" in terminal.text
        terminal.type("2")
        terminal.await_last("›")
        terminal.type(CTRL_D)
        assert terminal.end() == 0


@pytest.mark.parametrize("columns", [80, 60])
def test_help_and_policy_modes_are_broken_between_words(here: Path, columns: int) -> None:
    with chat(here, columns=columns) as terminal:
        terminal.await_last("›")
        terminal.type(":help" + ENTER)
        terminal.await_text("quit (also Ctrl-D)")
        terminal.await_last("›")
        assert set(KEY_HELP.split()) <= set(terminal.text.split())
        terminal.type(":policy" + ENTER)
        terminal.await_text("• default")
        terminal.await_last("›")
        assert {word for mode in MODES for word in mode_summary(mode).split()} <= set(
            terminal.text.translate(str.maketrans("()", "  ")).split()
        )
        terminal.type(CTRL_D)
        assert terminal.end() == 0


@pytest.mark.parametrize("columns", [80, 60])
def test_a_program_for_editors_tells_a_person_what_to_run_instead(here: Path, columns: int) -> None:
    with OnScreen("agent", "everything", cwd=here, columns=columns) as terminal:
        terminal.await_text("dragoman chat -- ")
        text = " ".join(terminal.text.partition("dragoman chat")[0].split())
        assert text.startswith("This program speaks the Agent Client Protocol on standard input and output; an editor")
        # The command is one line, which the terminal breaks where it is full; how far that is depends on the path.
        terminal.await_joined("-m dragoman agent everything")


def test_a_mode_that_the_user_chooses_is_reported_once(here: Path) -> None:
    with chat(here) as terminal:
        terminal.await_last("›")
        for typed, name in (("code", "Code"), ("ask", "Ask")):
            terminal.type(f":mode {typed}{ENTER}")
            terminal.await_text(f"mode is now {name}")
            terminal.await_last("›")
        terminal.type("/mode code" + ENTER)  # now the agent changes it
        terminal.await_count("mode is now Code", 2)
        terminal.await_last("›")
        assert terminal.text.lower().count("mode is now") == 3
        terminal.type(CTRL_D)
        assert terminal.end() == 0
