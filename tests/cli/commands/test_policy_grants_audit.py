"""policy, grants and audit: output and exit codes."""

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
from tests.cli.process import dragoman, run

RULES = '[[rule]]\ndecision = "deny"\npath = "secret"\n[[rule]]\ndecision = "allow"\ncommand = ["git", "status"]\n'
PROJECT = '[[rule]]\ndecision = "allow"\noperation = "file_write"\n'


class Home:
    """The folders of a user."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "config" / "dragoman"
        self.state = folder / "state" / "dragoman"
        self.work = folder / "work"
        self.project = self.work / ".dragoman" / "policy.toml"
        for folder in (self.config, self.state, self.project.parent):
            folder.mkdir(parents=True)
        self.grants = GrantsFile(str(self.state / "grants.json"))
        self.audit = AuditLog(str(self.state / "audit" / "audit.jsonl"), durable=False)

    def write(self, text: str) -> None:
        """Write the user's own policy."""
        (self.config / "policy.toml").write_text(text)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command in the project."""
        return dragoman(*arguments, cwd=self.work)

    def json(self, *arguments: str) -> Any:
        """Return the JSON output of the command."""
        return json.loads(self.run(*arguments, "--json").stdout)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A user with a project."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Home(tmp_path.resolve())


# --- policy -------------------------------------------------------------------------------------------------


def test_check_prints_mode_files_and_rules(home: Home) -> None:
    home.write('mode = "code"\n' + RULES)
    home.project.write_text(PROJECT)
    ran = home.run("policy", "check")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == [
        "mode: code",
        f"{home.config}/policy.toml: 2 rules",
        ".dragoman/policy.toml: 1 rules; not trusted, so it can only ask and deny",
    ]
    result = home.json("policy", "check")
    assert result["faults"] == []
    assert [(file["trusted"], len(file["rules"])) for file in result["files"]] == [(True, 2), (False, 1)]


def test_check_warns_of_a_server_that_is_allowed_by_name_only(home: Home) -> None:
    home.write('[[rule]]\ndecision = "allow"\noperation = "mcp_start"\nserver = "docs"\n')
    ran = home.run("policy", "check")
    assert ran.returncode == 0
    assert f"  warning: rule 1 of {home.config}/policy.toml, line 1: " in ran.stdout
    assert "any program could start as docs" in ran.stdout
    assert len(home.json("policy", "check")["warnings"]) == 1


def test_explain_considers_folder_variables_and_server_url(home: Home) -> None:
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


def test_explain_considers_the_shell_around_a_command(home: Home) -> None:
    home.write('[[rule]]\ndecision = "deny"\ncommand = ["bash"]\n')
    assert home.run("policy", "explain", "terminal_execute", "bash -c ls").returncode == 4
    assert home.run("policy", "explain", "terminal_execute", "sh -c ls").returncode == 3


def test_check_prints_every_error_with_its_line(home: Home) -> None:
    home.write("x = 1\n")
    home.project.write_text('\n[[rule]]\ndecision = "no"\n')
    ran = home.run("policy", "check")
    assert (ran.returncode, ran.stdout) == (1, "")
    first, second = ran.stderr.splitlines()
    assert first.startswith(f"{home.config}/policy.toml: line 1: x: unknown setting")
    assert second.startswith(".dragoman/policy.toml: line 3: rule[1].decision:")
    assert len(home.json("policy", "check")["faults"]) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["terminal_execute", "git status --short"], 0, "allow: rule 2 of"),
        (["terminal_execute", "git status; rm x"], 3, "ask: mode default: ask terminal_execute"),
        (["file_write", "secret"], 4, "deny: rule 1 of"),
        (["file_write", "link"], 4, "deny: rule 1 of"),
        (["file_read", "README"], 0, "allow: mode default"),
        (["file_read", "/etc/passwd"], 3, "ask: /etc/passwd is outside"),
        (["file_write", "a", "--mode", "plan"], 4, "deny: mode plan"),
        (["file_write", ".dragoman/policy.toml", "--mode", "bypassPermissions"], 4, "belongs to Dragoman"),
        (["mcp_tool", "--server", "x", "--tool", "y"], 3, "ask: mode default: ask mcp_tool"),
    ],
)
def test_explain_prints_the_decision_and_its_reason(home: Home, arguments: list[str], code: int, expected: str) -> None:
    home.write(RULES)
    (home.work / "link").symlink_to("secret")
    ran = home.run("policy", "explain", *arguments)
    assert (ran.returncode, ran.stderr) == (code, "")
    assert expected in ran.stdout.splitlines()[0]


def test_explain_json_lists_everything_considered(home: Home) -> None:
    home.write('[[rule]]\ndecision = "allow"\n')
    home.project.write_text('[[rule]]\ndecision = "deny"\nreason = "not here"\n')
    result = home.json("policy", "explain", "file_write", "a")
    assert (result["decision"], result["source"]) == ("deny", "rule")
    assert result["reason"] == "rule 1 of .dragoman/policy.toml, line 1: not here"
    assert [each["decision"] for each in result["considered"]] == ["allow", "deny", "ask"]


def test_a_project_is_trusted_until_its_file_changes(home: Home) -> None:
    home.project.write_text(PROJECT)
    explain = ["policy", "explain", "file_write", "a"]
    assert home.run(*explain).returncode == 3
    ran = home.run("policy", "trust", ".")
    assert ran.returncode == 0
    assert "is trusted with its current content: 1 rules, 1 of them allow" in ran.stdout
    assert home.run(*explain).returncode == 0
    home.project.write_text(PROJECT + "\n")
    assert home.run(*explain).returncode == 3
    assert home.json("policy", "trust")["trusted"] is True
    assert home.run(*explain).returncode == 0
    assert home.run("policy", "trust", "--remove").returncode == 0
    assert home.run(*explain).returncode == 3


def test_a_file_with_errors_is_not_trusted(home: Home) -> None:
    home.project.write_text("[[rule]]\n")
    ran = home.run("policy", "trust")
    assert ran.returncode == 1
    assert ran.stderr.count("\n") == 1
    assert "line 1: rule[1]: decision must be" in ran.stderr


# --- grants -------------------------------------------------------------------------------------------------


def grant(id: str, **more: Any) -> Grant:
    """Return a grant for a command."""
    fields = {"verdict": "allow", "scope": "workspace", "operation": "terminal_execute", "resource": "make", **more}
    return Grant(id=id, created=1.0, agent="coder", workspace="/w", **fields)


def test_grants_are_listed_and_revoked(home: Home) -> None:
    assert home.run("grants", "list").stdout == "there are no grants\n"
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


def test_an_unknown_grant_cannot_be_revoked(home: Home) -> None:
    ran = home.run("grants", "revoke", "nosuch")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "dragoman grants: there is no grant nosuch; see dragoman grants list\n"


def test_all_grants_are_revoked_at_once(home: Home) -> None:
    home.grants.add([grant("aaa"), grant("bbb")], now=time.time())
    assert home.json("grants", "revoke", "--all") == {"revoked": ["aaa", "bbb"], "unknown": []}
    assert home.grants.current() == ()


def test_a_damaged_file_is_one_error_line(home: Home) -> None:
    (home.state / "grants.json").write_text("{")
    ran = home.run("grants", "list")
    assert ran.returncode == 1
    assert ran.stderr.count("\n") == 1
    assert "move the file away" in ran.stderr


# --- audit --------------------------------------------------------------------------------------------------


@pytest.fixture
def audited_home(home: Home) -> Home:
    """A home with audit entries."""
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


def test_the_audit_log_is_shown_one_line_per_entry(audited_home: Home) -> None:
    lines = audited_home.run("audit", "show").stdout.splitlines()
    assert lines[0] == "1  2026-01-01T00:00:00Z  coder  decided  allow  file_write  /w/a  (because)"
    assert len(lines) == 4
    assert "\x1b" not in lines[2]
    assert len(audited_home.run("audit", "show", "--last", "1").stdout.splitlines()) == 1
    assert [each["resource"] for each in audited_home.json("audit", "show", "--session", "s1")] == ["=cmd()", "/w/d"]


def test_the_audit_log_names_the_member_of_a_host_who_decided(home: Home) -> None:
    entry = AuditEntry(who="a", what="decided", time="2026", reason="the user said allow", detail={"user": "ben"})
    home.audit.append([entry])
    assert home.run("audit", "show").stdout.rstrip().endswith("(the user said allow; user ben)")


def test_an_intact_log_gives_a_mark_for_later_verification(audited_home: Home) -> None:
    checked = audited_home.json("audit", "verify")
    assert (checked["whole"], checked["entries"]) == (True, 4)
    ran = audited_home.run("audit", "verify", "--expect", checked["mark"])
    assert (ran.returncode, ran.stdout) == (0, f"4 entries, intact; mark {checked['mark']}\n")
    os.unlink(audited_home.audit.path)
    os.unlink(audited_home.audit.path + ".head")
    assert audited_home.run("audit", "verify").returncode == 0
    assert audited_home.run("audit", "verify", "--expect", checked["mark"]).returncode == 1


def test_a_log_given_with_file_must_exist(home: Home) -> None:
    assert home.run("audit", "show").returncode == 0  # there was no permission request yet
    for action in ("show", "verify", "export"):
        ran = home.run("audit", action, "--file", "elsewhere.jsonl")
        assert (ran.returncode, ran.stdout) == (1, "")
        assert ran.stderr == "dragoman audit: elsewhere.jsonl: No such file or directory\n"


def test_a_changed_entry_is_reported_with_its_line(audited_home: Home) -> None:
    path = Path(audited_home.audit.path)
    path.write_text(path.read_text().replace("/w/d", "/w/x"))
    ran = audited_home.run("audit", "verify")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == f"{path}: line 4: entry 4 was changed\n"
    assert audited_home.json("audit", "verify")["faults"] == [{"line": 4, "what": "entry 4 was changed"}]


def test_the_audit_log_is_exported(audited_home: Home) -> None:
    exported = [json.loads(line) for line in audited_home.run("audit", "export").stdout.splitlines()]
    assert exported == list(audited_home.audit.entries())
    rows = list(csv.DictReader(io.StringIO(audited_home.run("audit", "export", "--format", "csv").stdout, newline="")))
    assert [row["resource"] for row in rows] == ["/w/a", "'=cmd()", "\x1b[2J", "/w/d"]
    assert rows[0]["hash"] == exported[0]["hash"]


def test_an_unreadable_log_is_one_error_line(home: Home) -> None:
    ran = home.run("audit", "show", "--file", str(home.state))
    assert ran.returncode == 1
    assert ran.stderr == f"dragoman audit: {home.state}: Is a directory\n"


def test_a_truncated_log_is_reported_and_stays_reported(audited_home: Home) -> None:
    path = Path(audited_home.audit.path)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    ran = audited_home.run("audit", "verify")
    assert (ran.returncode, ran.stderr) == (1, f"{path}: line 2: entry 4 was written and is missing\n")
    audited_home.grants.add([grant("aaa")], now=2.0)
    audited_home.run("grants", "revoke", "aaa")  # adds to the log
    assert audited_home.run("audit", "verify").returncode == 1
    assert audited_home.json("audit", "verify")["faults"][0]["line"] == 3
    assert "gap" in audited_home.run("audit", "show").stdout


def test_a_missing_log_is_empty(home: Home) -> None:
    assert home.run("audit", "show").stdout == "nothing was decided yet\n"
    assert home.json("audit", "show") == []
    assert home.json("audit", "verify")["entries"] == 0
    assert home.run("audit", "export").stdout == ""
    assert home.run("audit", "export", "--format", "csv").stdout.startswith("seq,time,who,what,operation,")


def test_a_session_is_found_by_the_beginning_of_its_id_and_a_wrong_one_is_named(audited_home: Home) -> None:
    session = "469a1220-705a-41b5-afa5-f59d1eebfc21"
    log = Path(audited_home.audit.path)
    log.write_text(log.read_text().replace('"session":"s1"', f'"session":"{session}"'))
    assert audited_home.json("audit", "show", "--session", "469a1220") == audited_home.json(
        "audit", "show", "--session", session
    )
    assert audited_home.json("audit", "show", "--session", "469a1220")
    assert audited_home.json("audit", "show", "--session", "469a") == []  # could be many
    shown = audited_home.run("audit", "show", "--session", "nosuch").stdout
    assert shown == "nothing was decided in session nosuch; `dragoman sessions` lists all sessions\n"


def test_a_session_is_found_by_its_name_and_has_one_id_whatever_its_agents_call_it(home: Home) -> None:
    for file in ("a.txt", "b.txt"):  # the agent has forgotten the session the second time, and gives it another id
        assert run(f"/write {file} hi", "--session", "roof", "--yes", cwd=home.work).returncode == 0
    assert run("/write c.txt hi", "--yes", cwd=home.work).returncode == 0
    written = [each for each in home.json("audit", "--session", "roof") if each["operation"] == "fs/write_text_file"]
    assert [os.path.basename(each["resource"]) for each in written] == ["a.txt", "b.txt"]
    assert written[0]["session"] == written[1]["session"]
    assert written[1]["detail"]["agentSession"] != written[1]["session"]
    by_id = home.json("audit", "--session", written[0]["session"][:8])
    assert by_id == home.json("audit", "--session", "roof")


def test_an_export_can_be_verified(audited_home: Home) -> None:
    """The export has everything that the hashes cover."""
    exported = audited_home.work / "exported.jsonl"
    exported.write_text(audited_home.run("audit", "export").stdout)
    lines = [json.loads(line) for line in exported.read_text().splitlines()]
    assert [line["before"] for line in lines][1:] == [line["hash"] for line in lines][:-1]
    assert [
        json.loads(line) for line in audited_home.run("audit", "export", "--session", "s1").stdout.splitlines()
    ] == [line for line in lines if line["session"] == "s1"]


# --- files that cannot be written -----------------------------------------------------------------------------


def test_an_unwritable_file_is_one_error_line(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.project.write_text(PROJECT)
    (tmp_path / "no-folder").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "no-folder"))
    ran = home.run("policy", "trust")
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert "no-folder" in ran.stderr


def test_a_grant_is_revoked_even_if_the_audit_log_fails(home: Home) -> None:
    home.grants.add([grant("aaa")], now=2.0)
    (home.state / "audit").write_text("no folder")
    ran = home.run("grants", "revoke", "aaa")
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
    assert ran.stdout.startswith("revoked aaa")
    assert home.grants.current() == ()


@pytest.mark.parametrize("command", ["policy", "grants", "audit"])
def test_the_help_has_examples_and_exit_codes(home: Home, command: str) -> None:
    ran = home.run(command, "--help")
    assert (ran.returncode, ran.stderr) == (0, "")
    examples = ran.stdout.split("examples:\n")[1].splitlines()
    assert len(examples) >= 3
    assert all(line.strip().startswith(f"dragoman {command} ") for line in examples if line.strip())
    assert "exit codes:" in ran.stdout


def test_a_file_is_checked_and_used_before_it_is_the_own_policy(home: Home) -> None:
    home.write('[[rule]]\ndecision = "deny"\noperation = "file_write"\n')
    home.project.write_text("nonsense")
    draft, faulty = home.work / "draft.toml", home.work / "faulty.toml"
    draft.write_text(RULES)
    faulty.write_text('[[rule]]\ndecision = "maybe"\n')
    checked = home.json("policy", "check", "draft.toml")
    assert [(file["name"], len(file["rules"])) for file in checked["files"]] == [(str(draft), 2)]
    wrong = home.run("policy", "check", "faulty.toml")
    assert (wrong.returncode, "faulty.toml" in wrong.stderr) == (1, True)
    missing = home.run("policy", "check", "nosuch.toml")
    assert (missing.returncode, "nosuch.toml: No such file" in missing.stderr) == (1, True)
    home.project.unlink()
    command = ("policy", "explain", "terminal_execute", "git status")
    assert home.run(*command).returncode == 3
    assert home.run(*command, "--policy", "draft.toml").returncode == 0


# --- wrong usage ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["policy", "dance"], "invalid choice: 'dance'"),
        (["policy", "check", "x", "y"], "check takes one file"),
        (["policy", "check", "--cwd", "/no/such"], "there is no folder /no/such"),
        (["policy", "explain"], "give an operation and an object"),
        (["policy", "explain", "dance", "x"], "there is no operation 'dance'; choose one of: file_read"),
        (["policy", "explain", "file_read", "x", "--mode", "yolo"], "invalid choice: 'yolo'"),
        (["policy", "trust"], "there is no "),
        (["policy", "trust", "a", "b"], "trust takes one project"),
        (["grants", "list", "x"], "list takes no ids"),
        (["grants", "revoke"], "give the ids to revoke, or --all"),
        (["grants", "revoke", "x", "--all"], "give the ids to revoke, or --all"),
        (["audit", "show", "--last", "0"], "--last: must be at least 1"),
        (["audit", "verify", "--expect", "5"], "a mark is a number, a colon and 64 digits"),
        (["audit", "export", "--format", "xml"], "invalid choice: 'xml'"),
    ],
)
def test_wrong_usage_is_one_line(home: Home, arguments: list[str], expected: str) -> None:
    ran = home.run(*arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert expected in ran.stderr
    assert ran.stderr.count("\n") == 1
