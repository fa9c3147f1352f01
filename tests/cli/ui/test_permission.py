"""`dragoman run` with the user's policy, grants and audit log."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.config.grants import GrantsFile
from dragoman.store.audit import AuditLog
from tests.cli.process import EVERYTHING, OnTerminal, dragoman, run

RUN = ("run", "--prompt")
AGENT = ("--", *EVERYTHING)
KEYS = "y/s/w/a/n? "


class Home:
    """A user, and a working directory outside the user's own folders."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "config" / "dragoman"
        self.state = folder / "state" / "dragoman"
        self.work = folder / "work"
        for folder in (self.config, self.state, self.work):
            folder.mkdir(parents=True)
        self.policy = self.config / "policy.toml"
        self.grants = GrantsFile(str(self.state / "grants.json"))

    def entries(self) -> list[dict[str, Any]]:
        """Return the entries of the audit log, which must be intact."""
        audit = AuditLog(str(self.state / "audit" / "audit.jsonl"))
        assert audit.verify().faults == []
        return list(audit.entries())


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A user without any files yet."""
    return Home(tmp_path.resolve())


# --- without a terminal ---------------------------------------------------------------------------------------


def test_a_rule_allows_without_a_question(home: Home) -> None:
    home.policy.write_text('[[rule]]\ndecision = "allow"\noperation = "file_write"\npath = "notes/**"\n')
    (home.work / "notes").mkdir()
    run("/write notes/a.txt text", cwd=home.work)
    assert (home.work / "notes" / "a.txt").read_text() == "text"
    run("/write b.txt text", cwd=home.work)
    assert not (home.work / "b.txt").exists()


def test_yes_does_not_allow_what_policy_denies_and_the_rule_is_named(home: Home) -> None:
    home.policy.write_text('\n[[rule]]\ndecision = "deny"\npath = "*.env"\nreason = "secrets stay with me"\n')
    ran = run("/write x.env text", "--yes", cwd=home.work)
    assert not (home.work / "x.env").exists()
    reason = f"rule 1 of {home.policy}, line 2: secrets stay with me"
    assert f"refused: Write x.env ({reason})" in ran.stderr
    decided = [each for each in home.entries() if each["what"] == "decided"]
    assert (decided[0]["decision"], decided[0]["reason"], decided[0]["who"]) == ("deny", reason, "everything")


def test_the_project_policy_applies_where_it_is_stricter(home: Home) -> None:
    (home.work / ".dragoman").mkdir()
    (home.work / ".dragoman" / "policy.toml").write_text('[[rule]]\ndecision = "deny"\ncommand = ["touch"]\n')
    ran = run("/run touch made", "--yes", cwd=home.work)
    assert not (home.work / "made").exists()
    assert "rule 1 of .dragoman/policy.toml, line 1" in ran.stderr


@pytest.mark.parametrize(
    ("options", "written"), [(["--mode", "bypassPermissions"], True), (["--mode", "plan", "--yes"], False)]
)
def test_the_mode_decides_where_no_rule_matches(home: Home, options: list[str], written: bool) -> None:
    ran = run("/write a.txt text", *options, cwd=home.work)
    assert (home.work / "a.txt").exists() is written, ran.stderr
    assert ("mode plan: deny file_write" in ran.stderr) is not written
    assert {each["mode"] for each in home.entries() if each["what"] == "decided"} == {options[1]}


def test_policy_flag_replaces_the_users_policy_and_protects_the_file(home: Home) -> None:
    home.policy.write_text('[[rule]]\ndecision = "deny"\n')
    other = home.work / "ci.toml"
    other.write_text('[[rule]]\ndecision = "allow"\noperation = "file_write"\n')
    run("/write a.txt text", "--policy", "ci.toml", cwd=home.work)
    assert (home.work / "a.txt").read_text() == "text"
    run("/write ci.toml mode='bypassPermissions'", "--policy", "ci.toml", cwd=home.work)
    assert other.read_text().startswith("[[rule]]")


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (
            lambda home: home.policy.write_text("\n[[rule]]\ndecision = 'no'\n"),
            "policy.toml: line 3: rule[1].decision:",
        ),
        (lambda home: home.policy.write_text("mode = \n"), "policy.toml: line 1: invalid value"),
        (lambda home: (home.state / "grants.json").write_text("{"), "grants.json: Input data was truncated; move"),
        (lambda home: (home.state / "audit").write_text("no folder"), "the audit log cannot be used"),
    ],
    ids=["rule", "toml", "grants", "audit"],
)
def test_an_unusable_file_is_one_error_line_before_the_start(home: Home, damage: Any, expected: str) -> None:
    damage(home)
    ran = run("/write a.txt text", "--yes", cwd=home.work, agent=["no-such-agent"])
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("dragoman run: ")
    assert expected in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_invalid_arguments_are_one_error_line(home: Home) -> None:
    for arguments, expected in ((["--policy", "none.toml"], "none.toml: No such file"), (["--mode", "yolo"], "'yolo'")):
        ran = run("hi", *arguments, cwd=home.work)
        assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
        assert expected in ran.stderr


def test_a_failing_audit_log_refuses_and_says_why(home: Home) -> None:
    """The agent itself blocks the log, as a full or failing disk would."""
    (home.work / "agent.py").write_text(
        "import shutil\n"
        "from dragoman import Agent, ProtocolError\n"
        "agent = Agent('spoiler')\n"
        "@agent.prompt\n"
        "async def answer(turn):\n"
        f"    shutil.rmtree({str(home.state / 'audit')!r})\n"
        f"    open({str(home.state / 'audit')!r}, 'w').close()\n"
        "    try:\n"
        f"        await turn.files.write({str(home.work / 'a.txt')!r}, 'x')\n"
        "    except ProtocolError as error:\n"
        "        await turn.say(error.message)\n"
        "agent.run()\n"
    )
    ran = run("go", "--yes", cwd=home.work, agent=[sys.executable, "agent.py"])
    assert not (home.work / "a.txt").exists()
    assert "the decision cannot be written to the audit log" in ran.stdout
    assert "refused: write a.txt (the decision cannot be written to the audit log" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_every_decision_is_in_the_audit_log(home: Home) -> None:
    (home.work / "a.txt").write_text("old\n")
    run("/edit a.txt old new", "--yes", cwd=home.work)
    results = [(each["what"], each.get("operation", ""), each["decision"]) for each in home.entries()]
    assert ("decided", "file_write", "allow") in results
    assert ("done", "fs/write_text_file", "done") in results
    assert {each["who"] for each in home.entries()} == {"everything"}
    by_yes = [each for each in home.entries() if each.get("reason") == "--yes was given"]
    assert by_yes
    audit = dragoman("audit", "show", cwd=home.work).stdout
    assert "--yes was given" in audit
    assert json.loads(dragoman("audit", "verify", "--json", cwd=home.work).stdout)["whole"] is True


# --- on a terminal --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "scope"), [("w", "workspace"), ("a", "always")])
def test_an_answer_is_remembered_for_its_scope_and_can_be_revoked(home: Home, key: str, scope: str) -> None:
    with OnTerminal(*RUN, "/run touch made", *AGENT, cwd=home.work) as terminal:
        terminal.await_text(KEYS)
        assert (
            "▌   command: touch made\n▌   this command is not sandboxed: it can do whatever you can\n" in terminal.text
        )
        screen = terminal.text.replace("\n▌ ", " ")
        assert "w  yes, for exactly this command, always in this folder" in screen
        assert "a  yes, always for exactly this command" in screen
        terminal.type(f"{key}\n")
        assert terminal.end() == 0
    os.unlink(home.work / "made")
    (grant,) = home.grants.current()
    assert (grant.scope, grant.resource, grant.agent) == (scope, "touch made", "everything")
    run("/run touch made", cwd=home.work)  # no terminal, no question
    assert (home.work / "made").exists()
    os.unlink(home.work / "made")
    assert dragoman("grants", "revoke", grant.id, cwd=home.work).returncode == 0
    run("/run touch made", cwd=home.work)
    assert not (home.work / "made").exists()


def test_an_answer_for_the_session_ends_with_it(home: Home) -> None:
    with OnTerminal(*RUN, "/write a.txt text", *AGENT, cwd=home.work) as terminal:
        terminal.await_text(KEYS)
        terminal.type("s\n")
        assert terminal.end() == 0
    assert (home.work / "a.txt").exists()
    assert home.grants.current() == ()


def test_a_rule_that_asks_is_named_in_the_question(home: Home) -> None:
    home.policy.write_text(
        '[[rule]]\ndecision = "ask"\noperation = "file_write"\npath = "Makefile"\nreason = "it runs elsewhere"\n'
    )
    with OnTerminal(*RUN, "/write Makefile all:", "--mode", "acceptEdits", *AGENT, cwd=home.work) as terminal:
        terminal.await_text(KEYS)
        assert "it runs elsewhere" in terminal.text.replace("\n▌ ", "")
        terminal.type("n\n")
        assert terminal.end() == 0
    assert not (home.work / "Makefile").exists()


def test_a_named_pipe_does_not_block_the_question(home: Home) -> None:
    os.mkfifo(home.work / "pipe")
    agent = ("--dialect", "2025.1", "--", *EVERYTHING, "--dialect", "2025.1")  # it writes without asking first
    with OnTerminal(*RUN, "/write pipe text", *agent, cwd=home.work) as terminal:
        terminal.await_text(KEYS)
        assert "▌ The agent wants to write:\n▌ pipe\n▌ + text\n" in terminal.text
        terminal.type("y\n")
        assert terminal.end() == 0
        assert "not a regular file" in terminal.text.replace("\n", " ")


def test_closing_the_terminal_refuses(home: Home) -> None:
    """Ctrl-D is no answer; the agent gets a refusal, and its turn continues."""
    with OnTerminal(*RUN, "/write a.txt text", *AGENT, cwd=home.work) as terminal:
        terminal.await_text(KEYS)
        terminal.type("\x04")
        assert terminal.end() == 0
    assert not (home.work / "a.txt").exists()


def test_a_question_shows_the_folder_the_variables_and_the_terminal_of_a_command(home: Home) -> None:
    (home.work / "sub").mkdir()
    (home.work / "agent.py").write_text(
        "from dragoman import Agent\n"
        "agent = Agent('runner', dialect='draft')\n"
        "@agent.prompt\n"
        "async def answer(turn):\n"
        "    cwd = turn.session.cwd + '/sub'\n"
        "    await turn.terminals.run('env', cwd=cwd, env={'PAGER': 'evil'}, size=(24, 80))\n"
        "agent.run()\n"
    )
    with OnTerminal(*RUN, "go", "--", sys.executable, "agent.py", cwd=home.work) as terminal:
        terminal.await_text("y/n? ")
        screen = terminal.text.replace("\n▌ ", " ")
        assert "env   in the folder sub   with PAGER=evil   in a real terminal" in screen
        terminal.type("n\n")
        terminal.end()


def test_a_question_about_a_binary_write_shows_what_is_written(home: Home) -> None:
    (home.work / "Makefile").write_text("all:\n\ttrue\n")
    (home.work / "agent.py").write_text(
        "from dragoman import Agent\n"
        "agent = Agent('writer', dialect='draft')\n"
        "@agent.prompt\n"
        "async def answer(turn):\n"
        "    for name, data in (('Makefile', b'all:\\n\\tevil\\n'), ('x.bin', b'\\x7fELF\\0' * 100)):\n"
        "        try:\n"
        "            await turn.files.write_bytes(turn.session.cwd + '/' + name, data)\n"
        "        except Exception as error:\n"
        "            await turn.say(str(error))\n"
        "agent.run()\n"
    )
    with OnTerminal(*RUN, "go", "--", sys.executable, "agent.py", cwd=home.work) as terminal:
        terminal.await_text(KEYS)
        assert "▌ -   true\n▌ +   evil\n" in terminal.text
        terminal.type("n")
        terminal.await_text("500 bytes that are not text")
        terminal.await_count(KEYS, 2)  # keys before the question do not answer it
        assert "7f 45 4c 46 00 7f" in terminal.text
        terminal.type("n")
        assert terminal.end() == 0
