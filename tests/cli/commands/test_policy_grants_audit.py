"""policy, grants and audit from the command line: what they tell, and the exit codes by which machines know."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from dragoman.config.grants import GrantsFile
from dragoman.policy.grants import Grant
from dragoman.store.audit import AuditEntry, AuditLog
from tests.cli.process import dragoman

RULES = '[[rule]]\ndecision = "deny"\npath = "secret"\n[[rule]]\ndecision = "allow"\ncommand = ["git", "status"]\n'
PROJECT = '[[rule]]\ndecision = "allow"\noperation = "file_write"\n'


class Home:
    """Where the command finds its files."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "config" / "dragoman"
        self.state = folder / "state" / "dragoman"
        self.work = folder / "work"
        self.project = self.work / ".dragoman" / "policy.toml"
        for place in (self.config, self.state, self.project.parent):
            place.mkdir(parents=True)
        self.grants = GrantsFile(str(self.state / "grants.json"))
        self.audit = AuditLog(str(self.state / "audit" / "audit.jsonl"), durable=False)

    def write(self, text: str) -> None:
        """The user's own policy."""
        (self.config / "policy.toml").write_text(text)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the command in the project."""
        return dragoman(*words, cwd=self.work)

    def json(self, *words: str) -> Any:
        """What the command tells machines."""
        return json.loads(self.run(*words, "--json").stdout)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A user with a project."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Home(tmp_path.resolve())


# --- policy -------------------------------------------------------------------------------------------------


def test_check_tells_what_there_is(home: Home) -> None:
    home.write('mode = "code"\n' + RULES)
    home.project.write_text(PROJECT)
    ran = home.run("policy", "check")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == [
        "mode: code",
        f"{home.config}/policy.toml: 2 rules",
        ".dragoman/policy.toml: 1 rules; not trusted, so it can only ask and deny",
    ]
    told = home.json("policy", "check")
    assert told["faults"] == []
    assert [(file["trusted"], len(file["rules"])) for file in told["files"]] == [(True, 2), (False, 1)]


def test_check_warns_of_a_server_that_is_allowed_by_its_name_alone(home: Home) -> None:
    home.write('[[rule]]\ndecision = "allow"\noperation = "mcp_start"\nserver = "docs"\n')
    ran = home.run("policy", "check")
    assert ran.returncode == 0
    assert f"  warning: rule 1 of {home.config}/policy.toml, line 1: " in ran.stdout
    assert "any program start as docs" in ran.stdout
    assert len(home.json("policy", "check")["warnings"]) == 1


def test_explain_knows_the_folder_and_the_variables_of_a_command_and_the_address_of_a_server(home: Home) -> None:
    home.write(
        '[[rule]]\ndecision = "allow"\ncommand = ["make"]\ncwd = "sub"\nenv = "CC"\n'
        '[[rule]]\ndecision = "allow"\nserver = "docs"\nurl = "https://docs.example.org"\n'
    )
    (home.work / "sub").mkdir()
    command, server = ("policy", "explain", "terminal_execute", "make"), ("policy", "explain", "mcp_start")
    assert home.run(*command).returncode == 3
    assert home.run(*command, "--folder", "sub").returncode == 0
    assert home.run(*command, "--folder", "sub", "--env", "CC").returncode == 0
    assert home.run(*command, "--folder", "sub", "--env", "LD_PRELOAD").returncode == 3
    assert home.run(*server, "https://docs.example.org/mcp", "--server", "docs").returncode == 0
    assert home.run(*server, "docs-server", "--server", "docs").returncode == 3


def test_check_tells_every_fault_with_its_line(home: Home) -> None:
    home.write("x = 1\n")
    home.project.write_text('\n[[rule]]\ndecision = "no"\n')
    ran = home.run("policy", "check")
    assert (ran.returncode, ran.stdout) == (1, "")
    first, second = ran.stderr.splitlines()
    assert first.startswith(f"{home.config}/policy.toml: line 1: x: there is no such setting")
    assert second.startswith(".dragoman/policy.toml: line 3: rule[1].decision:")
    assert len(home.json("policy", "check")["faults"]) == 2


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["terminal_execute", "git status --short"], 0, "allow: rule 2 of"),
        (["terminal_execute", "git status; rm x"], 3, "ask: mode default: ask terminal_execute"),
        (["file_write", "secret"], 4, "deny: rule 1 of"),
        (["file_write", "link"], 4, "deny: rule 1 of"),
        (["file_read", "README"], 0, "allow: mode default"),
        (["file_read", "/etc/passwd"], 3, "ask: /etc/passwd is outside"),
        (["file_write", "a", "--mode", "plan"], 4, "deny: mode plan"),
        (["file_write", ".dragoman/policy.toml", "--mode", "bypassPermissions"], 4, "belongs to Dragoman itself"),
        (["mcp_tool", "--server", "x", "--tool", "y"], 3, "ask: mode default: ask mcp_tool"),
    ],
)
def test_explain_says_what_would_be_decided_and_why(home: Home, words: list[str], code: int, says: str) -> None:
    home.write(RULES)
    (home.work / "link").symlink_to("secret")
    ran = home.run("policy", "explain", *words)
    assert (ran.returncode, ran.stderr) == (code, "")
    assert says in ran.stdout.splitlines()[0]


def test_explain_tells_machines_what_everybody_said(home: Home) -> None:
    home.write('[[rule]]\ndecision = "allow"\n')
    home.project.write_text('[[rule]]\ndecision = "deny"\nreason = "not here"\n')
    told = home.json("policy", "explain", "file_write", "a")
    assert (told["decision"], told["source"]) == ("deny", "rule")
    assert told["reason"] == "rule 1 of .dragoman/policy.toml, line 1: not here"
    assert [each["decision"] for each in told["considered"]] == ["allow", "deny", "ask"]


def test_a_project_is_trusted_until_its_file_changes(home: Home) -> None:
    home.project.write_text(PROJECT)
    explain = ["policy", "explain", "file_write", "a"]
    assert home.run(*explain).returncode == 3
    ran = home.run("policy", "trust", ".")
    assert ran.returncode == 0
    assert "is trusted as it is now: 1 rules, 1 of them allow" in ran.stdout
    assert home.run(*explain).returncode == 0
    home.project.write_text(PROJECT + "\n")
    assert home.run(*explain).returncode == 3
    assert home.json("policy", "trust")["trusted"] is True
    assert home.run(*explain).returncode == 0
    assert home.run("policy", "trust", "--remove").returncode == 0
    assert home.run(*explain).returncode == 3


def test_a_faulty_file_is_not_trusted(home: Home) -> None:
    home.project.write_text("[[rule]]\n")
    ran = home.run("policy", "trust")
    assert ran.returncode == 1
    assert ran.stderr.count("\n") == 1
    assert "line 1: rule[1]: decision must be" in ran.stderr


# --- grants -------------------------------------------------------------------------------------------------


def grant(id: str, **more: Any) -> Grant:
    """A grant for a command."""
    told = {"verdict": "allow", "scope": "workspace", "operation": "terminal_execute", "resource": "make", **more}
    return Grant(id=id, created=1.0, agent="coder", workspace="/w", **told)


def test_grants_are_listed_and_taken_back(home: Home) -> None:
    assert home.run("grants", "list").stdout == "nothing is remembered\n"
    home.grants.add([grant("aaa"), grant("bbb", resource="evil\x1b[31m"), grant("ccc", expires=5.0)], now=2.0)
    lines = home.run("grants", "list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["aaa", "bbb"]
    assert "make  by coder  in /w" in lines[0]
    assert "\x1b" not in lines[1]
    ran = home.run("grants", "revoke", "aaa")
    assert (ran.returncode, ran.stdout.split(":")[0]) == (0, "revoked aaa")
    assert [each["id"] for each in home.json("grants", "list")] == ["bbb"]
    (entry,) = home.audit.entries()
    assert (entry["who"], entry["what"], entry["detail"]["grant"]) == ("user", "revoked", "aaa")


def test_a_grant_that_is_not_there_cannot_be_revoked(home: Home) -> None:
    ran = home.run("grants", "revoke", "nosuch")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "dragoman grants: there is no grant nosuch; see dragoman grants list\n"


def test_all_grants_are_revoked_at_once(home: Home) -> None:
    home.grants.add([grant("aaa"), grant("bbb")], now=time.time())
    assert home.json("grants", "revoke", "--all") == {"revoked": ["aaa", "bbb"], "unknown": []}
    assert home.grants.current() == ()


def test_a_damaged_file_is_one_line(home: Home) -> None:
    (home.state / "grants.json").write_text("{")
    ran = home.run("grants", "list")
    assert ran.returncode == 1
    assert ran.stderr.count("\n") == 1
    assert "move the file away" in ran.stderr


# --- audit --------------------------------------------------------------------------------------------------


@pytest.fixture
def told(home: Home) -> Home:
    """A home in which something happened."""
    entries = [
        AuditEntry(
            who="coder",
            what="decided",
            time=f"2026-01-01T00:00:0{number}Z",
            operation="file_write",
            resource=resource,
            decision="allow",
            reason="because",
            session=f"s{number % 2}",
        )
        for number, resource in enumerate(["/w/a", "=cmd()", "\x1b[2J", "/w/d"])
    ]
    home.audit.append(entries)
    return home


def test_the_audit_is_shown_one_line_an_entry(told: Home) -> None:
    lines = told.run("audit", "show").stdout.splitlines()
    assert lines[0] == "1  2026-01-01T00:00:00Z  coder  decided  allow  file_write  /w/a  (because)"
    assert len(lines) == 4
    assert "\x1b" not in lines[2]
    assert len(told.run("audit", "show", "--last", "1").stdout.splitlines()) == 1
    assert [each["resource"] for each in told.json("audit", "show", "--session", "s1")] == ["=cmd()", "/w/d"]


def test_a_whole_log_gives_a_mark_that_proves_it_later(told: Home) -> None:
    checked = told.json("audit", "verify")
    assert (checked["whole"], checked["entries"]) == (True, 4)
    ran = told.run("audit", "verify", "--expect", checked["mark"])
    assert (ran.returncode, ran.stdout) == (0, f"4 entries, whole; mark {checked['mark']}\n")
    os.unlink(told.audit.path)
    os.unlink(told.audit.path + ".head")
    assert told.run("audit", "verify").returncode == 0
    assert told.run("audit", "verify", "--expect", checked["mark"]).returncode == 1


def test_a_log_that_is_named_has_to_be_there(home: Home) -> None:
    assert home.run("audit", "show").returncode == 0  # nothing was asked for yet
    for action in ("show", "verify", "export"):
        ran = home.run("audit", action, "--file", "elsewhere.jsonl")
        assert (ran.returncode, ran.stdout) == (1, "")
        assert ran.stderr == "dragoman audit: elsewhere.jsonl: No such file or directory\n"


def test_a_changed_entry_is_told_with_its_line(told: Home) -> None:
    path = Path(told.audit.path)
    path.write_text(path.read_text().replace("/w/d", "/w/x"))
    ran = told.run("audit", "verify")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == f"{path}: line 4: entry 4 was changed\n"
    assert told.json("audit", "verify")["faults"] == [{"line": 4, "what": "entry 4 was changed"}]


def test_the_audit_is_exported_for_other_programs(told: Home) -> None:
    exported = [json.loads(line) for line in told.run("audit", "export").stdout.splitlines()]
    assert exported == list(told.audit.entries())
    rows = list(csv.DictReader(io.StringIO(told.run("audit", "export", "--format", "csv").stdout, newline="")))
    assert [row["resource"] for row in rows] == ["/w/a", "'=cmd()", "\x1b[2J", "/w/d"]
    assert rows[0]["hash"] == exported[0]["hash"]


def test_a_log_that_cannot_be_read_is_one_line(home: Home) -> None:
    ran = home.run("audit", "show", "--file", str(home.state))
    assert ran.returncode == 1
    assert ran.stderr == f"dragoman audit: {home.state}: Is a directory\n"


def test_a_cut_log_is_found_with_its_line_and_stays_found(told: Home) -> None:
    path = Path(told.audit.path)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    ran = told.run("audit", "verify")
    assert (ran.returncode, ran.stderr) == (1, f"{path}: line 2: entry 4 was written and is not here any more\n")
    told.grants.add([grant("aaa")], now=2.0)
    told.run("grants", "revoke", "aaa")  # which adds to the log
    assert told.run("audit", "verify").returncode == 1
    assert told.json("audit", "verify")["faults"][0]["line"] == 3
    assert "gap" in told.run("audit", "show").stdout


def test_a_log_that_is_not_there_is_empty(home: Home) -> None:
    assert home.run("audit", "show").stdout == ""
    assert home.json("audit", "show") == []
    assert home.json("audit", "verify")["entries"] == 0
    assert home.run("audit", "export").stdout == ""
    assert home.run("audit", "export", "--format", "csv").stdout.startswith("seq,time,who,what,operation,")


def test_what_is_exported_can_be_checked_by_others(told: Home) -> None:
    """The export has all that the seals are made of."""
    exported = told.work / "exported.jsonl"
    exported.write_text(told.run("audit", "export").stdout)
    lines = [json.loads(line) for line in exported.read_text().splitlines()]
    assert [line["before"] for line in lines][1:] == [line["hash"] for line in lines][:-1]
    assert [json.loads(line) for line in told.run("audit", "export", "--session", "s1").stdout.splitlines()] == [
        line for line in lines if line["session"] == "s1"
    ]


# --- files that cannot be written -----------------------------------------------------------------------------


def test_what_cannot_be_written_is_one_line(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.project.write_text(PROJECT)
    (tmp_path / "no-folder").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "no-folder"))
    ran = home.run("policy", "trust")
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert "no-folder" in ran.stderr


def test_a_grant_is_taken_back_though_that_cannot_be_written_down(home: Home) -> None:
    home.grants.add([grant("aaa")], now=2.0)
    (home.state / "audit").write_text("no folder")
    ran = home.run("grants", "revoke", "aaa")
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
    assert ran.stdout.startswith("revoked aaa")
    assert home.grants.current() == ()


@pytest.mark.parametrize("command", ["policy", "grants", "audit"])
def test_the_help_teaches_by_example_and_tells_the_exit_codes(home: Home, command: str) -> None:
    ran = home.run(command, "--help")
    assert (ran.returncode, ran.stderr) == (0, "")
    examples = ran.stdout.split("examples:\n")[1].splitlines()
    assert len(examples) >= 3
    assert all(line.strip().startswith(f"dragoman {command} ") for line in examples if line.strip())
    assert "exit codes:" in ran.stdout


# --- wrong usage ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["policy"], "the following arguments are required: action"),
        (["policy", "dance"], "invalid choice: 'dance'"),
        (["policy", "check", "x"], "check takes no words"),
        (["policy", "check", "--cwd", "/no/such"], "there is no folder /no/such"),
        (["policy", "explain"], "say what and to what"),
        (["policy", "explain", "dance", "x"], "say what and to what"),
        (["policy", "explain", "file_read", "x", "--mode", "yolo"], "invalid choice: 'yolo'"),
        (["policy", "trust"], "there is no "),
        (["policy", "trust", "a", "b"], "trust one project at a time"),
        (["grants"], "the following arguments are required: action"),
        (["grants", "list", "x"], "list takes no ids"),
        (["grants", "revoke"], "name the ids to revoke, or --all"),
        (["grants", "revoke", "x", "--all"], "name the ids to revoke, or --all"),
        (["audit"], "the following arguments are required: action"),
        (["audit", "show", "--last", "0"], "--last: at least 1"),
        (["audit", "verify", "--expect", "5"], "a mark is a number, a colon and 64 digits"),
        (["audit", "export", "--format", "xml"], "invalid choice: 'xml'"),
    ],
)
def test_wrong_usage_is_one_line(home: Home, words: list[str], says: str) -> None:
    ran = home.run(*words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert says in ran.stderr
    assert ran.stderr.count("\n") == 1
