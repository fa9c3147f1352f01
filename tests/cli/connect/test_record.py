"""What run and chat store: logs, names, continued sessions, JSON entries; and what they do when the store fails."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli.connect.record import find_session
from dragoman.errors import ConfigFault
from dragoman.store.contract import Draft, Summary
from dragoman.store.memory import MemoryStore
from dragoman.store.sqlite import SqliteStore
from tests.cli.connect.test_options import telling
from tests.cli.process import DRAGOMAN, EVERYTHING, TIMEOUT, OnScreen, in_process
from tests.process_start import started

ENTER = "\r"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the path of the store."""
    return tmp_path / "state" / "dragoman" / "sessions.db"


@pytest.fixture
def counter(tmp_path: Path) -> list[str]:
    """An agent that stores its own sessions, counts the turns of each, and exits on request."""
    script = tmp_path / "counter.py"
    script.write_text(
        "import os\nfrom dragoman import Agent\nfrom dragoman.store.sqlite import SqliteStore\n"
        f"agent = Agent('counter', version='1', store=SqliteStore({str(tmp_path / 'counter.db')!r}))\n"
        "@agent.prompt\nasync def answer(turn):\n"
        "    if turn.text == 'die':\n        os._exit(3)\n"
        "    await turn.say(f'{turn.session.turn_count}: {turn.text}')\nagent.run()\n"
    )
    return [sys.executable, str(script)]


def ask(text: str, agent: list[str], *options: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run `dragoman run` with this agent."""
    return in_process("run", "--prompt", text, *options, "--", *agent, cwd=cwd)


def stored_sessions(file: Path) -> list[Summary]:
    """Return the sessions in a store."""

    async def read() -> list[Summary]:
        store = await SqliteStore.open(str(file))
        try:
            return await store.sessions()
        finally:
            await store.close()

    return asyncio.run(read())


def lines(ran: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Return the JSON lines that were printed."""
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_a_single_prompt_is_stored(tmp_path: Path, file: Path) -> None:
    assert ask("/echo hi", EVERYTHING, cwd=tmp_path).returncode == 0
    (summary,) = stored_sessions(file)
    assert (summary.title, summary.agent, summary.turns, summary.cwd) == ("/echo hi", "Everything", 1, str(tmp_path))
    assert file.stat().st_mode & 0o777 == 0o600


def test_nothing_is_stored_when_storing_is_off(tmp_path: Path, file: Path) -> None:
    assert ask("/echo hi", EVERYTHING, "--no-store", cwd=tmp_path).stdout == "hi\n"
    (tmp_path / "config" / "dragoman").mkdir(parents=True)
    (tmp_path / "config" / "dragoman" / "config.toml").write_text("store = false\n")
    assert ask("/echo hi", EVERYTHING, cwd=tmp_path).stdout == "hi\n"
    assert not file.exists()
    assert ask("/echo hi", EVERYTHING, "--session", "roof", cwd=tmp_path).returncode == 0  # --session implies storing
    assert [summary.name for summary in stored_sessions(file)] == ["roof"]


def test_a_named_session_continues_if_the_agent_supports_it(tmp_path: Path, file: Path, counter: list[str]) -> None:
    assert ask("one", counter, "--session", "roof", cwd=tmp_path).stdout == "1: one\n"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    ran = ask("two", counter, "--session", "roof", cwd=elsewhere)
    assert ran.stdout == "2: two\n"
    assert f"resumed roof in {tmp_path}" in ran.stderr  # it stays in the folder where it began
    (summary,) = stored_sessions(file)
    assert (summary.name, summary.turns) == ("roof", 2)
    assert ask("three", counter, "--session", summary.session_id[:8], "--quiet", cwd=tmp_path).stderr == ""
    assert ask("other", counter, "--session", "ro", cwd=tmp_path).stdout == "1: other\n"  # a name of its own


def test_a_session_does_not_continue_in_a_folder_that_became_a_link(tmp_path: Path, counter: list[str]) -> None:
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.mkdir()
    (tmp_path / "link").symlink_to("work")
    for cwd, name in ((work, "direct"), (tmp_path / "link", "linked")):
        assert ask("one", counter, "--session", name, "--cwd", str(cwd), cwd=tmp_path).stdout == "1: one\n"
        assert ask("two", counter, "--session", name, cwd=tmp_path).stdout == "2: two\n"
    work.rename(tmp_path / "moved")
    work.symlink_to("other")
    for name in ("direct", "linked"):
        ran = ask("three", counter, "--session", name, cwd=tmp_path)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert "name the folder to continue in with --cwd" in ran.stderr
        assert ask("three", counter, "--session", name, "--cwd", str(work), cwd=tmp_path).returncode == 0
        assert ask("four", counter, "--session", name, cwd=tmp_path).returncode == 0  # it was opened there since


def test_an_imported_session_continues_in_the_given_folder_and_not_in_that_of_its_file(
    tmp_path: Path, file: Path, counter: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    private, here = tmp_path / "private", tmp_path / "here"
    private.mkdir()
    here.mkdir()
    ask("one", counter, "--session", "roof", cwd=private)
    exported = in_process("sessions", "export", "roof", cwd=tmp_path).stdout
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))  # another user
    assert in_process("sessions", "import", "-", cwd=tmp_path, text=exported).returncode == 0
    ran = ask("two", counter, "--session", "roof", cwd=here)
    assert ran.returncode == 0, ran.stderr
    assert f"continues in {here}, not in the folder that its file names ({private})" in ran.stderr
    (summary,) = stored_sessions(tmp_path / "other" / "dragoman" / "sessions.db")
    assert summary.cwd == str(here)
    ran = ask("three", counter, "--session", "roof", cwd=tmp_path)  # it was opened here since
    assert f"in {here}" in ran.stderr
    assert "its file names" not in ran.stderr


async def test_an_ambiguous_id_prefix_is_not_a_new_name() -> None:
    store = MemoryStore()
    for id in ("0f0e0d0c-roof", "0f0e0d0c-loft"):
        await store.append(id, [Draft(kind="opened", actor="user", time="", body={})])
    with pytest.raises(ConfigFault, match="2 sessions start with '0f0e0d0c'"):
        await find_session(store, "0f0e0d0c")
    assert await find_session(store, "0f0e") is None
    assert await find_session(store, "0f0e0d0c-l") == await store.find("0f0e0d0c-loft")


def test_an_agent_without_resume_gets_the_transcript_and_the_user_a_notice(tmp_path: Path, file: Path) -> None:
    agent = telling(tmp_path)
    ask("the roof leaks", agent, "--session", "roof", cwd=tmp_path)
    for _ in range(2):
        ran = ask("go on", agent, "--session", "roof", "--quiet", cwd=tmp_path)
        assert "no longer has roof" in ran.stderr
        transcript, prompt = json.loads(ran.stdout)
        assert prompt == {"type": "text", "text": "go on"}
        assert transcript["type"] == "resource"
        assert transcript["resource"]["text"].startswith("## User\n\nthe roof leaks\n")
    assert [summary.turns for summary in stored_sessions(file)] == [3]
    logged = in_process("sessions", "show", "roof", "--json", cwd=tmp_path)
    prompts = [line["body"] for line in lines(logged) if line["kind"] == "prompt"]
    assert [len(body["prompt"]) for body in prompts] == [1, 1, 1]  # the replayed transcript is not stored again
    assert [body.get("retold", False) for body in prompts] == [False, True, True]


def test_continuing_a_session_restarts_an_agent_that_exited(tmp_path: Path, counter: list[str]) -> None:
    ask("one", counter, "--session", "roof", cwd=tmp_path)
    died = ask("die", counter, "--session", "roof", cwd=tmp_path)
    assert died.returncode == 7
    assert died.stderr.endswith("the session is stored; continue with: dragoman run --session roof\n")
    ran = ask("three", counter, "--session", "roof", cwd=tmp_path)
    assert ran.stdout == "3: three\n"
    assert "the agent had exited: agent " in ran.stderr
    assert "exited with status 3" in ran.stderr


def test_a_fork_does_not_continue_the_original_session(tmp_path: Path, counter: list[str]) -> None:
    ask("one", counter, "--session", "roof", cwd=tmp_path)
    in_process("sessions", "fork", "roof", "loft", cwd=tmp_path)
    ran = ask("mine", counter, "--session", "loft", cwd=tmp_path)
    assert "no longer has loft (the agent knows only the session it was forked from)" in ran.stderr
    assert ask("two", counter, "--session", "roof", cwd=tmp_path).stdout == "2: two\n"
    assert "resumed loft" in ask("mine too", counter, "--session", "loft", cwd=tmp_path).stderr


def test_mcp_servers_from_a_log_are_not_started(tmp_path: Path) -> None:
    server = {"command": "mcp-files", "args": [], "env": {"TOKEN": "hush-hush-hush"}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"files": server}}))
    agent = telling(tmp_path, what="servers")
    with_servers = ("--session", "roof", "--yes", "--mcp", "mcp.json")
    assert len(json.loads(ask("go", agent, *with_servers, cwd=tmp_path).stdout)) == 1
    ran = ask("go", agent, "--session", "roof", "--yes", cwd=tmp_path)
    assert json.loads(ran.stdout) == []
    assert "the session had MCP servers (files); add them again with --mcp" in ran.stderr
    assert b"hush" not in b"".join(path.read_bytes() for path in (tmp_path / "state").rglob("*") if path.is_file())


# --- for machines ---------------------------------------------------------------------------------------------------


def test_json_prints_the_stored_log_and_then_the_result(tmp_path: Path) -> None:
    ran = ask("/write a.txt text", EVERYTHING, "--json", "--yes", "--session", "roof", cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    *logged, result = lines(ran)
    assert [line["seq"] for line in logged] == list(range(1, len(logged) + 1))
    kinds = [line["kind"] for line in logged]
    assert kinds[0] == "opened"
    assert kinds[-1] == "turn_ended"
    assert {"prompt", "update", "asked", "decided", "file"} <= set(kinds)
    assert all(set(line) == {"session", "seq", "kind", "actor", "time", "turn", "body"} for line in logged)
    assert result["kind"] == "result"
    assert result["body"].keys() == {"exitCode", "stopReason", "text"}
    assert (result["body"]["exitCode"], result["body"]["stopReason"]) == (0, "end_turn")
    assert "a.txt" in result["body"]["text"]
    assert lines(in_process("sessions", "show", "roof", "--json", cwd=tmp_path)) == logged


@pytest.mark.parametrize(
    ("arguments", "code", "kind"),
    [
        (("--prompt", "/error rate_limited", "--", *EVERYTHING), 1, "rate_limited"),
        (("--prompt", "/crash", "--", *EVERYTHING), 7, "connection_failed"),
        (("--prompt", "hello", "--", "no-such-agent"), 7, "connection_failed"),
        (("--prompt", "hello", "--mcp", "nosuch.json", "--", *EVERYTHING), 2, "usage"),
        (("--prompt", "hello", "--model", "nosuch", "--", *EVERYTHING), 1, "invalid_params"),
        (("--prompt", "/error refusal", "--", *EVERYTHING), 3, None),
    ],
)
def test_an_error_is_also_a_json_result(
    tmp_path: Path, arguments: tuple[str, ...], code: int, kind: str | None
) -> None:
    ran = in_process("run", "--json", "--no-store", *arguments, cwd=tmp_path)
    result = lines(ran)[-1]
    assert (ran.returncode, result["kind"], result["body"]["exitCode"]) == (code, "result", code)
    assert result["body"].get("error", {}).get("kind") == kind
    assert len(ran.stderr.splitlines()) >= 1
    assert "Traceback" not in ran.stderr


def test_a_closed_pipe_ends_the_run(tmp_path: Path) -> None:
    # It goes on writing: only a write shows that nobody reads any more.
    command = [*DRAGOMAN, "run", "--json", "--prompt", "/stream 1000000 100", "--", *EVERYTHING]
    with started(command, cwd=tmp_path, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as running:
        assert running.stdout is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.wait(TIMEOUT) == 141


# --- faults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--session", "/roof"), "is not a valid session name"),
        (("--session", ""), "is not a valid session name"),
        (("--session", "roof", "--no-store"), "--session cannot be used with --no-store"),
    ],
)
def test_contradicting_flags_are_wrong_usage(tmp_path: Path, flags: tuple[str, ...], expected: str) -> None:
    ran = ask("hello", EVERYTHING, *flags, cwd=tmp_path)
    assert ran.returncode == 2
    assert expected in ran.stderr


def test_a_newer_store_is_reported_before_the_agent_starts(tmp_path: Path, file: Path) -> None:
    ask("/echo hi", EVERYTHING, cwd=tmp_path)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = file.read_bytes()
    mark = tmp_path / "started"
    agent = ["sh", "-c", f"touch {shlex.quote(str(mark))}; exec {shlex.join(EVERYTHING)}"]
    ran = ask("/echo hi", agent, "--json", cwd=tmp_path)
    assert ran.returncode == 10
    assert lines(ran)[-1]["body"]["error"]["kind"] == "store_newer"
    assert len(ran.stderr.splitlines()) == 1
    assert "--no-store" in ran.stderr
    assert not mark.exists()
    assert file.read_bytes() == before
    assert ask("/echo hi", EVERYTHING, "--no-store", cwd=tmp_path).returncode == 0
    assert in_process("sessions", cwd=tmp_path).returncode == 10


def test_a_state_folder_that_cannot_be_written_is_not_answered_with_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder can be made here")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file" / "state"))
    ran = ask("/echo hi", EVERYTHING, cwd=tmp_path)
    assert ran.returncode == 10
    assert "set XDG_STATE_HOME to a folder that can be written" in ran.stderr
    assert "--no-store" not in ran.stderr
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    assert ask("/echo hi", EVERYTHING, cwd=tmp_path).returncode == 0


def test_a_locked_store_is_reported_and_nothing_is_lost(tmp_path: Path, file: Path) -> None:
    ask("/echo hi", EVERYTHING, cwd=tmp_path)
    holder = sqlite3.connect(file, isolation_level=None)
    try:
        holder.execute("BEGIN IMMEDIATE")
        ran = ask("/echo again", EVERYTHING, cwd=tmp_path)
    finally:
        holder.close()
    assert (ran.returncode, ran.stdout) == (10, "")
    assert "is locked by another program; try again when it has finished; use --no-store" in ran.stderr
    assert [summary.title for summary in stored_sessions(file)] == ["/echo hi"]


def test_everything_shown_before_the_disk_was_full_is_in_the_log(tmp_path: Path) -> None:
    def confine() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))  # some commits fit, not all

    command = [*DRAGOMAN, "run", "--session", "roof", "--prompt", "/stream 20000 40", "--", *EVERYTHING]
    ran = subprocess.run(
        command,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        preexec_fn=confine,
    )
    assert ran.returncode == 10
    errors = [line for line in ran.stderr.splitlines() if "is working…" not in line]  # progress on a slow machine
    assert errors.pop(0) == "new session roof"
    assert len(errors) == 1
    assert "sessions.db" in ran.stderr
    logged = in_process("sessions", "show", "roof", "--json", cwd=tmp_path)
    assert logged.returncode == 0
    bodies = [line["body"] for line in lines(logged) if line["kind"] == "update"]
    text = "".join(body["content"]["text"] for body in bodies if body["sessionUpdate"] == "agent_message_chunk")
    output = ran.stdout.removesuffix("\n")
    assert output
    assert text.startswith(output)


# --- a conversation -------------------------------------------------------------------------------------------------


def test_chat_restarts_an_agent_that_exited_and_continues(tmp_path: Path, counter: list[str]) -> None:
    with OnScreen("chat", "--session", "roof", "--", *counter, cwd=tmp_path) as terminal:
        terminal.await_last("›")
        terminal.type("one" + ENTER)
        terminal.await_line("1: one")
        terminal.await_last("›")
        terminal.type("die" + ENTER)
        terminal.await_text("exited with status 3")
        terminal.await_last("▌ y/n?")
        terminal.type("y")
        terminal.await_text("resumed roof")
        terminal.await_last("›")
        terminal.type("three" + ENTER)
        terminal.await_line("3: three")
        terminal.await_last("›")
        terminal.type("\x04")
        assert terminal.end() == 0
    with OnScreen("chat", "--session", "roof", "--", *counter, cwd=tmp_path) as terminal:
        terminal.await_line("3: three")  # the last turn
        terminal.await_last("›")
        assert "1: one" not in terminal.text
        terminal.type("\x04")
        assert terminal.end() == 0


@pytest.mark.item("004-03")
def test_the_session_script_of_the_docs_works(tmp_path: Path) -> None:
    """The script of the docs: start, continue, search, fork, export; import on another machine, and continue there."""
    script = Path(__file__).parents[3] / "examples" / "sessions.sh"
    assert len([line for line in script.read_text().splitlines() if not line.startswith("#")]) == 12
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "dragoman").write_text(f'#!/bin/sh\nexec {shlex.join(DRAGOMAN)} "$@"\n')
    (folder / "dragoman").chmod(0o755)
    ran = subprocess.run(
        ["sh", "-e", str(script), *EVERYTHING],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * TIMEOUT,  # a dozen commands, one after the other
    )
    assert ran.returncode == 0, ran.stderr
    assert "loft is a copy of roof" in ran.stdout
    assert "leaks above the window" in ran.stdout
    listed = ran.stdout.splitlines()[-1].split()
    assert (listed[0], listed[4:6]) == ("loft", ["4", "turns"]) or "4 turns" in ran.stdout.splitlines()[-1]
    assert ran.stderr.count("no longer has") == 3  # this agent stores nothing
    assert ran.stdout.count("The roof leaks above the window.") >= 4  # and gets the transcript each time


def test_an_agent_with_broken_resume_gets_the_transcript(tmp_path: Path) -> None:
    """One that offers resume and does not know the method, and fails to load what it has just sent
    (docs/protocol/peers.md#offered-but-missing).
    """
    script = tmp_path / "boasting.py"
    script.write_text(
        """
import json, sys
def say(**message): print(json.dumps(dict(jsonrpc="2.0", **message)), flush=True)
for line in sys.stdin:
    call = json.loads(line)
    match call.get("method"):
        case "initialize":
            offered = dict(loadSession=True, sessionCapabilities=dict(resume={}))
            say(id=call["id"], result=dict(protocolVersion=1, agentCapabilities=offered))
        case "session/new":
            say(id=call["id"], result=dict(sessionId="s"))
        case "session/resume":
            say(id=call["id"], error=dict(code=-32601, message="no such method"))
        case "session/load":
            say(id=call["id"], error=dict(code=-32603, message="something is wrong"))
        case "session/prompt":
            text = "|".join(block["text"] for block in call["params"]["prompt"])
            update = dict(sessionUpdate="agent_message_chunk", content=dict(type="text", text=text))
            say(method="session/update", params=dict(sessionId="s", update=update))
            say(id=call["id"], result=dict(stopReason="end_turn"))
"""
    )
    agent = [sys.executable, str(script)]
    ask("one", agent, "--session", "roof", cwd=tmp_path)
    ran = ask("two", agent, "--session", "roof", cwd=tmp_path)
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (0, "|two")
    assert "## User\n\none\n" in ran.stdout
    assert "no longer has roof (something is wrong)" in ran.stderr


def test_a_replay_at_resume_is_logged_once(tmp_path: Path) -> None:
    """Some agents do this, though only session/load should (docs/protocol/peers.md#replay)."""
    script = tmp_path / "repeating.py"
    script.write_text(
        """
import json, sys
def say(**message): print(json.dumps(dict(jsonrpc="2.0", **message)), flush=True)
def tell(text):
    update = dict(sessionUpdate="agent_message_chunk", content=dict(type="text", text=text))
    say(method="session/update", params=dict(sessionId="s", update=update))
for line in sys.stdin:
    call = json.loads(line)
    match call.get("method"):
        case "initialize":
            offered = dict(sessionCapabilities=dict(resume={}))
            say(id=call["id"], result=dict(protocolVersion=1, agentCapabilities=offered))
        case "session/new":
            say(id=call["id"], result=dict(sessionId="s"))
        case "session/resume":
            tell("first answer")
            say(id=call["id"], result={})
        case "session/prompt":
            tell(call["params"]["prompt"][0]["text"] + " answer")
            say(id=call["id"], result=dict(stopReason="end_turn"))
"""
    )
    agent = [sys.executable, str(script)]
    ask("first", agent, "--session", "roof", cwd=tmp_path)
    assert ask("second", agent, "--session", "roof", cwd=tmp_path).stdout == "second answer\n"
    logged = lines(in_process("sessions", "show", "roof", "--json", cwd=tmp_path))
    texts = [line["body"]["content"]["text"] for line in logged if line["kind"] == "update"]
    assert texts == ["first answer", "second answer"]


def test_a_session_name_with_shell_characters_is_refused_but_an_old_one_is_found(tmp_path: Path, file: Path) -> None:
    wrong = "x$(touch PWNED)"
    ran = ask("/echo hi", ["no-such-agent"], "--session", wrong, cwd=tmp_path)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert "'$' is not allowed there; use letters, digits, blanks and" in ran.stderr
    assert ask("/echo hi", EVERYTHING, "--session", "roof work", cwd=tmp_path).returncode == 0
    for action in ("rename", "fork"):
        assert in_process("sessions", action, "roof work", wrong, cwd=tmp_path).returncode == 1
    assert [each.name for each in stored_sessions(file)] == ["roof work"]
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE sessions SET name = ?", [wrong])
    assert ask("/echo again", EVERYTHING, "--session", wrong, cwd=tmp_path).returncode == 0
    (summary,) = stored_sessions(file)
    assert (summary.name, summary.turns) == (wrong, 2)
    copied = in_process("sessions", "fork", wrong, "loft work", cwd=tmp_path)
    assert "--session 'loft work' 'PROMPT'" in copied.stdout


def test_a_new_session_without_a_name_and_a_prompt_is_not_kept(tmp_path: Path, file: Path) -> None:
    for options in ([], ["--session", "notes"]):
        failed = ask("hello", EVERYTHING, *options, "--model", "nope", cwd=tmp_path)
        assert "there is no model 'nope'" in failed.stderr
        assert not stored_sessions(file), "it could not be set up"
    with OnScreen("chat", "--", *EVERYTHING, cwd=tmp_path) as terminal:
        terminal.await_last("›")
        terminal.type("\x04")
        assert terminal.end() == 0
    assert not stored_sessions(file)
    assert ask("hello", EVERYTHING, cwd=tmp_path).returncode == 0
    assert [session.turns for session in stored_sessions(file)] == [1]
