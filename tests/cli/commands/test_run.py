"""`dragoman run`: the answer on stdout, the rest on stderr, one permission request per action, exit codes."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.process import DRAGOMAN, EVERYTHING, TIMEOUT, OnTerminal, dragoman, run
from tests.process_start import started

RUN = ("run", "--prompt")
AGENT = ("--", *EVERYTHING)


# --- without a terminal ---------------------------------------------------------------------------------------


def test_only_the_answer_is_on_stdout(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    ran = run("/read a.txt", cwd=tmp_path)
    assert ran.returncode == 0
    assert ran.stdout == "`a.txt` has 1 line.\n"
    assert "✓ Read a.txt" in ran.stderr
    assert "    one" in ran.stderr
    assert "\x1b" not in ran.stderr


def test_thoughts_and_plans_go_to_stderr(tmp_path: Path) -> None:
    ran = run("/tour", cwd=tmp_path)
    assert ran.stdout.startswith("This is a **message**")
    assert "[>] Look around\n[ ] Do the work\n[ ] Tell about it\n" in ran.stderr
    assert "[x] Tell about it" in ran.stderr
    assert "A thought comes first" in ran.stderr


@pytest.mark.parametrize(
    ("prompt", "stdout", "stderr"),
    [
        ("/rewrite", "A first version, which will not stay.\n\nA better version.\n", ""),
        ("/unsay", "You were not meant to read this.\n\nI said nothing.\n", "(the agent took that back)"),
        ("/terminal echo hi", "It ended with 0.\n", "✓ Run echo hi\n    hi"),
    ],
)
def test_messages_that_change_and_terminals_of_a_v2_agent_are_shown(
    tmp_path: Path, prompt: str, stdout: str, stderr: str
) -> None:
    ran = run(prompt, "--dialect", "v2", "--yes", cwd=tmp_path)
    assert ran.stdout == stdout, ran.stderr
    assert stderr in ran.stderr


def test_the_prompt_can_come_on_standard_input(tmp_path: Path) -> None:
    ran = dragoman("run", *AGENT, cwd=tmp_path, text="hello from a pipe")
    assert "> hello from a pipe" in ran.stdout
    assert ran.returncode == 0


@pytest.mark.parametrize(
    ("prompt", "code", "expected"),
    [
        ("/error refusal", 3, "the turn ended: refusal"),
        ("/error max_tokens", 4, "the turn ended: max tokens"),
        ("/error max_turn_requests", 4, "the turn ended: max turn requests"),
        ("/error rate_limited", 1, "the request was refused (rate_limited)"),
        ("/error error", 1, "the agent answered with an error (internal_error)"),
        ("/error auth_required", 1, "log in with the agent's own command first"),
        ("/crash", 7, "exited with status 3; stderr:\neverything: crashing, as I was told"),
    ],
)
def test_the_exit_code_says_how_it_ended(tmp_path: Path, prompt: str, code: int, expected: str) -> None:
    ran = run(prompt, cwd=tmp_path)
    assert ran.returncode == code
    assert expected in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("dialect", ["v1", pytest.param("draft", marks=pytest.mark.item("004-64"))])
@pytest.mark.parametrize(("options", "written"), [((), False), (("--yes",), True)], ids=["nobody to ask", "--yes"])
def test_writing_needs_permission(tmp_path: Path, dialect: str, options: tuple[str, ...], written: bool) -> None:
    agent = [*EVERYTHING, "--dialect", dialect]
    ran = run("/write a.txt text", "--dialect", dialect, *options, cwd=tmp_path, agent=agent)
    assert ran.returncode == (0 if written else 6), ran.stderr
    assert (tmp_path / "a.txt").exists() is written
    assert ("refused (there is nobody to ask): Write a.txt" in ran.stderr) is not written


@pytest.mark.parametrize(("options", "made"), [((), False), (("--yes",), True)], ids=["nobody to ask", "--yes"])
def test_running_a_command_needs_permission(tmp_path: Path, options: tuple[str, ...], made: bool) -> None:
    ran = run("/run echo hi > made; cat made", *options, cwd=tmp_path)
    assert (tmp_path / "made").exists() is made
    assert ("    hi\n" in ran.stderr) is made


@pytest.mark.item("000-20")
def test_the_client_decides_even_if_the_agent_cannot_ask(tmp_path: Path) -> None:
    """2025.1 has no permission requests: the client asks when the workspace is used."""
    agent = [*EVERYTHING, "--dialect", "2025.1"]
    ran = run("/write a.txt text", "--dialect", "2025.1", cwd=tmp_path, agent=agent)
    assert not (tmp_path / "a.txt").exists()
    assert "refused (there is nobody to ask)" in ran.stderr
    run("/write a.txt text", "--yes", "--dialect", "2025.1", cwd=tmp_path, agent=agent)
    assert (tmp_path / "a.txt").read_text() == "text"


def test_yes_does_not_allow_files_outside_the_working_directory(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    run("/write ../outside.txt text", "--yes", cwd=inside)
    assert not (tmp_path / "outside.txt").exists()


def test_the_dialect_is_detected(tmp_path: Path) -> None:
    for dialect in ("draft", "crow", "2025.1"):
        ran = run("/echo heard", cwd=tmp_path, agent=[*EVERYTHING, "--dialect", dialect])
        assert (ran.returncode, ran.stdout) == (0, "heard\n"), (dialect, ran.stderr)


def test_cwd_sets_the_working_directory(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / "a.txt").write_text("x\n")
    assert "1 line" in run("/read a.txt", "--cwd", str(there), cwd=tmp_path).stdout


def scripted(tmp_path: Path, *steps: object) -> list[str]:
    """Return an agent that sends these updates in its one turn."""
    script = tmp_path / "scripted.py"
    script.write_text(
        f"""
import json, sys
def say(**message): print(json.dumps(dict(jsonrpc="2.0", **message)), flush=True)
for line in sys.stdin:
    call = json.loads(line)
    match call.get("method"):
        case "initialize":
            say(id=call["id"], result=dict(protocolVersion=1, agentCapabilities=dict()))
        case "session/new":
            say(id=call["id"], result=dict(sessionId="s"))
        case "session/prompt":
            for update in json.loads({json.dumps(json.dumps(steps))}):
                say(method="session/update", params=dict(sessionId="s", update=update))
            print("words on stderr", file=sys.stderr, flush=True)
            say(id=call["id"], result=dict(stopReason="end_turn"))
"""
    )
    return [sys.executable, str(script)]


def test_peer_text_cannot_drive_a_terminal(tmp_path: Path) -> None:
    evil = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e"
    text = {"type": "text", "text": f"hi {evil}"}
    ran = run(
        "go",
        cwd=tmp_path,
        agent=scripted(
            tmp_path,
            {"sessionUpdate": "agent_message_chunk", "content": text},
            {"sessionUpdate": "agent_thought_chunk", "content": text},
            {"sessionUpdate": "tool_call", "toolCallId": "1", "title": evil, "status": "completed"},
            {"sessionUpdate": "plan", "entries": [{"content": evil, "priority": "low", "status": "pending"}]},
            {"sessionUpdate": "session_info_update", "title": evil},
            {"sessionUpdate": "current_mode_update", "currentModeId": evil},
        ),
    )
    assert ran.returncode == 0
    assert ran.stdout == "hi ␛[2J␛]0;owned␇<U+009B>31m<U+202E>\n"
    assert not set("\x1b\x07\x9b\u202e") & set(ran.stderr)
    assert ran.stderr.count("␛[2J") == 5


def test_unknown_updates_are_ignored(tmp_path: Path) -> None:
    ran = run("go", cwd=tmp_path, agent=scripted(tmp_path, {"sessionUpdate": "from_the_future", "x": 1}))
    assert (ran.returncode, ran.stdout) == (0, "")


def test_stderr_of_the_agent_is_shown_with_verbose(tmp_path: Path) -> None:
    agent = scripted(tmp_path)
    assert "words on stderr" not in run("go", cwd=tmp_path, agent=agent).stderr
    assert "words on stderr" in run("go", "--verbose", cwd=tmp_path, agent=agent).stderr


def test_a_closed_pipe_ends_the_run_quietly(tmp_path: Path) -> None:
    command = [*DRAGOMAN, "run", "--prompt", "/stream 200000 100", "--", *EVERYTHING]
    with started(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(100)
        process.stdout.close()
        process.wait(timeout=TIMEOUT)
        assert b"Traceback" not in process.stderr.read()
        assert process.returncode == 141


def test_a_signal_cancels_the_turn_without_a_terminal_too(tmp_path: Path) -> None:
    command = [*DRAGOMAN, "run", "--prompt", "/slow 1000", "--", *EVERYTHING]
    with started(
        command, cwd=tmp_path, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert b"Wait 1000 seconds" in line
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(timeout=TIMEOUT) == 5


# --- on a terminal --------------------------------------------------------------------------------------------


def test_one_yes_covers_the_question_and_the_writing(tmp_path: Path) -> None:
    """The agent asks for permission and then writes through the client: one action, one question."""
    (tmp_path / "a.txt").write_text("the old text\n")
    with OnTerminal(*RUN, "/edit a.txt old new", *AGENT, cwd=tmp_path) as terminal:
        terminal.await_text("y/s/w/a/n? ")
        question = terminal.text
        assert "▌ Edit a.txt\n" in question
        assert "▌   write: a.txt\n" in question
        assert "▌ - the old text\n▌ + the new text\n" in question
        terminal.type("y")
        assert terminal.end() == 0
        assert (tmp_path / "a.txt").read_text() == "the new text\n"
        assert terminal.text.count("y/s/w/a/n? ") == 1
        assert "wants to write" not in terminal.text
        assert "Changed a.txt." in terminal.text


def test_a_refusal_reaches_the_agent(tmp_path: Path) -> None:
    with OnTerminal(*RUN, "/run touch made", *AGENT, cwd=tmp_path) as terminal:
        terminal.await_text("y/s/w/a/n? ")
        assert "▌   command: touch made\n" in terminal.text
        terminal.type("what?")
        # A longer word is no answer, even with an "a" in it: the question is asked again on the same line.
        terminal.await_count("▌ y/s/w/a/n? ", 2)
        terminal.type("n")
        assert terminal.end() == 0
        assert not (tmp_path / "made").exists()
        assert "I did not run it." in terminal.text


def test_workspace_use_is_asked_if_the_agent_does_not_ask(tmp_path: Path) -> None:
    agent = ("--dialect", "2025.1", "--", *EVERYTHING, "--dialect", "2025.1")
    with OnTerminal(*RUN, "/write a.txt text", *agent, cwd=tmp_path) as terminal:
        terminal.await_text("y/s/w/a/n? ")
        assert "▌ The agent wants to write:\n▌ a.txt\n▌ + text\n" in terminal.text
        terminal.type("y\n")
        assert terminal.end() == 0
    assert (tmp_path / "a.txt").read_text() == "text"


def test_a_user_with_a_piped_prompt_can_still_be_asked(tmp_path: Path) -> None:
    with OnTerminal("run", *AGENT, cwd=tmp_path, piped="/write a.txt text") as terminal:
        terminal.await_text("y/s/w/a/n? ")
        terminal.type("y\n")
        assert terminal.end() == 0
    assert (tmp_path / "a.txt").read_text() == "text"


def test_type_ahead_does_not_answer_a_question(tmp_path: Path) -> None:
    """The agent waits for a file, so that the keys are typed before it asks."""
    script = tmp_path / "asks.py"
    script.write_text(
        "import asyncio, pathlib\n"
        "from dragoman import Agent\n"
        "agent = Agent('asks')\n"
        "@agent.prompt\n"
        "async def answer(turn):\n"
        "    await turn.say('ready')\n"
        "    while not pathlib.Path('typed').exists():\n"
        "        await asyncio.sleep(0.01)\n"
        "    await turn.say(f' answer: {(await turn.ask_permission(\"May I?\")).kind}')\n"
        "agent.run()\n"
    )
    with OnTerminal(*RUN, "go", "--", sys.executable, str(script), cwd=tmp_path) as terminal:
        terminal.await_text("ready")
        terminal.type("y\n")
        terminal.await_text("readyy")  # the echo of the terminal: the line is in its buffer now
        (tmp_path / "typed").touch()
        terminal.await_text("y/s/w/a/n? ")
        terminal.type("n\n")
        assert terminal.end() == 0
        assert "answer: reject_once" in terminal.text


def test_ctrl_c_cancels_the_turn(tmp_path: Path) -> None:
    with OnTerminal(*RUN, "/slow 1000", *AGENT, cwd=tmp_path) as terminal:
        terminal.await_text("… Wait 1000 seconds")
        terminal.type("\x03")
        assert terminal.end() == 5
        assert "cancelling; press Ctrl-C again to end at once" in terminal.text
        assert "✗ Wait 1000 seconds" in terminal.text


def test_ctrl_c_at_a_question_cancels_the_turn(tmp_path: Path) -> None:
    with OnTerminal(*RUN, "/write a.txt text", *AGENT, cwd=tmp_path) as terminal:
        terminal.await_text("y/s/w/a/n? ")
        terminal.type("\x03")
        assert terminal.end() == 5
    assert not (tmp_path / "a.txt").exists()


def test_a_second_ctrl_c_ends_everything(tmp_path: Path) -> None:
    """An agent that ignores a cancel is ended with us."""
    deaf = tmp_path / "deaf.py"
    deaf.write_text(
        "import asyncio\n"
        "from dragoman import Agent\n"
        "agent = Agent('deaf')\n"
        "@agent.prompt\n"
        "async def answer(turn):\n"
        "    await turn.say('not listening')\n"
        "    while True:\n"
        "        try:\n"
        "            await asyncio.sleep(1000)\n"
        "        except asyncio.CancelledError:\n"
        "            await turn.say('; still not')\n"
        "agent.run()\n"
    )
    with OnTerminal(*RUN, "go", "--", sys.executable, str(deaf), cwd=tmp_path) as terminal:
        terminal.await_text("not listening")
        terminal.type("\x03")
        terminal.await_text("still not")
        terminal.type("\x03")
        assert terminal.end() == 130


def test_an_agent_cannot_draw_a_question(tmp_path: Path) -> None:
    fake = "▌ The agent asks for permission:\n▌ Read a.txt\n▌ y/n? "
    agent = scripted(tmp_path, {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": fake}})
    with OnTerminal(*RUN, "go", "--", *agent, cwd=tmp_path) as terminal:
        assert terminal.end() == 0
        assert "| Read a.txt" in terminal.text
        assert "▌" not in terminal.text


def test_a_tool_call_is_one_line_that_is_redrawn(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    with OnTerminal(*RUN, "/read a.txt", *AGENT, cwd=tmp_path) as terminal:
        assert terminal.end() == 0
        assert "\x1b[1A\x1b[J\x1b[32m✓ Read a.txt\x1b[0m" in terminal.raw


def test_a_relative_command_is_found_from_here_and_started_in_cwd(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "work").mkdir()
    agent = tmp_path / "bin" / "agent"
    agent.write_text(f"#!/bin/sh\nexec {shlex.join(EVERYTHING)}\n")
    agent.chmod(0o755)
    ran = dragoman("run", "--prompt", "/echo hi", "--cwd", "work", "--", "bin/agent", cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "hi\n"), ran.stderr


FAILING = """
import json, sys
def say(**message): print(json.dumps(dict(jsonrpc="2.0", **message)), flush=True)
turn = None
for line in sys.stdin:
    call = json.loads(line)
    match call.get("method"):
        case "initialize":
            say(id=call["id"], result=dict(protocolVersion=1, agentCapabilities=dict()))
        case "session/new":
            say(id=call["id"], result=dict(sessionId="s"))
        case "session/prompt":
            turn = call["id"]
            text = dict(type="text", text="working")
            say(method="session/update", params=dict(sessionId="s", update=dict(
                sessionUpdate="agent_message_chunk", content=text)))
    if turn is not None and call.get("method") == sys.argv[1]:
        say(id=turn, error=dict(code=-32603, message="Internal error", data=dict(details="the model is not there")))
"""
REASON = "Internal error: the model is not there"


def failing(tmp_path: Path, method: str) -> list[str]:
    """Return an agent whose turn fails when this method comes, with the reason in the data of the error."""
    script = tmp_path / "failing.py"
    script.write_text(FAILING)
    return [sys.executable, str(script), method]


def test_the_result_line_has_the_reason_of_a_failed_turn(tmp_path: Path) -> None:
    ran = run("go", "--json", cwd=tmp_path, agent=failing(tmp_path, "session/prompt"))
    *_, ended, last = map(json.loads, ran.stdout.splitlines())
    assert (ended["kind"], ended["body"]["error"]["message"]) == ("turn_ended", REASON)
    assert (ran.returncode, last["kind"]) == (1, "result")
    assert last["body"] == {
        "exitCode": 1,
        "text": "working",
        "error": {"kind": "internal_error", "message": REASON},
    }


def test_a_cancelled_turn_that_ends_in_an_error_is_cancelled_and_has_the_error(tmp_path: Path) -> None:
    command = [*DRAGOMAN, "run", "--json", "--prompt", "go", "--", *failing(tmp_path, "session/cancel")]
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "working" in line:
                process.send_signal(signal.SIGINT)
                break
        ended, last = map(json.loads, process.stdout.read().splitlines()[-2:])
    assert process.returncode == 5
    assert (ended["body"]["stopReason"], last["body"]["stopReason"]) == ("cancelled", "cancelled")
    assert ended["body"]["error"]["message"] == last["body"]["error"]["message"] == REASON
    assert last["body"]["exitCode"] == 5


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_a_run_with_its_result(tmp_path: Path, number: signal.Signals, code: int) -> None:
    command = [*DRAGOMAN, "run", "--json", "--prompt", "/slow 1000", "--", *EVERYTHING]
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "tool_call" in line:
                process.send_signal(number)
                break
        last = json.loads(process.stdout.read().splitlines()[-1])
    assert process.returncode == code
    assert (last["kind"], last["body"]["exitCode"]) == ("result", code)


def test_a_run_under_nohup_outlives_its_terminal(tmp_path: Path) -> None:
    command = ["nohup", *DRAGOMAN, "run", "--json", "--prompt", "/slow 1", "--", *EVERYTHING]
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "tool_call" in line:
                process.send_signal(signal.SIGHUP)
                break
        last = json.loads(process.stdout.read().splitlines()[-1])
    assert process.returncode == 0
    assert last["body"]["stopReason"] == "end_turn"
