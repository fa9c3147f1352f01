"""The command itself: help, usage errors, and a start that imports little."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman import __version__
from dragoman.cli.main import COMMAND_SYNONYMS, COMMANDS, overview
from tests.cli.process import DRAGOMAN, EVERYTHING, TIMEOUT, dragoman, in_process


def test_help_shows_examples() -> None:
    ran = dragoman("--help")
    assert ran.returncode == 0
    assert ran.stdout.strip() == overview().strip()
    assert "dragoman run --prompt" in ran.stdout
    assert all(f"\n  {name} " in ran.stdout for name in COMMANDS)


def test_without_a_command_help_is_shown_with_exit_code_2() -> None:
    ran = dragoman()
    assert ran.returncode == 2
    assert "examples:" in ran.stdout


def test_version_is_printed() -> None:
    assert dragoman("--version").stdout == f"dragoman {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    ran = dragoman(name, "--help")
    assert ran.returncode == 0
    assert ran.stdout.startswith(f"usage: dragoman {name}")
    assert ran.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nosuch"], "there is no command 'nosuch'; choose one of: demo"),
        (["run"], "give its command after --"),
        (["run", "--prompt", "x"], "give its command after --"),
        (["run", "--prompt", "x", "y", "--", "x"], "give the prompt once"),
        (["run", "x", "--file", "/no/such/file", "--", "x"], "there is no file /no/such/file"),
        (["run", "x", "--timeout", "-1", "--", "x"], "--timeout must be a number of seconds"),
        (["run", "x", "--option", "y", "--", "x"], "--option takes ID=VALUE"),
        (["run", "x", "--quiet", "--verbose", "--", "x"], "--quiet and --verbose cannot be used together"),
        (["run", "--nosuch", "--", "x"], "unrecognized arguments: --nosuch"),
        (["run", "--dialect", "x", "--", "x"], "invalid choice: 'x'"),
        (["run", "--prompt", "x", "--cwd", "/no/such/folder", "--", "x"], "there is no folder /no/such/folder"),
        (["run", "x", "--", "http://localhost:7437"], "is an address, not a command; use: -- dragoman attach http://"),
        (["run", "--prompt", " ", "--", "x"], "the prompt is empty"),
        (["translate"], "give its command after --"),
        (["translate", "--permission", "perhaps", "--", "x"], "invalid choice: 'perhaps'"),
        (["agent"], "give the name of an agent"),
        (["agent", "nosuch"], "there is no agent 'nosuch'"),
        (["agent", "everything", "--dialect", "x"], "there is no dialect 'x'"),
        (["demo", "--", "x"], "takes no command"),
    ],
)
def test_wrong_usage_is_one_line_that_says_what_to_do(
    arguments: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no agent is found there
    ran = dragoman(*arguments)
    assert ran.returncode == 2
    assert expected in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert ran.stderr.startswith("dragoman")
    assert ran.stdout == ""


def test_a_missing_agent_command_is_one_error_line() -> None:
    ran = dragoman("translate", "--", "no-such-agent-anywhere", text='{"jsonrpc":"2.0","id":1,"method":"initialize"}\n')
    assert "Traceback" not in ran.stderr
    ran = dragoman("run", "--prompt", "x", "--", "no-such-agent-anywhere")
    assert ran.returncode == 7
    assert "no such command" in ran.stderr
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("sessions", "list", "--json", "--nosuch"),
        ("compare", "x", "--json"),
        ("policy", "explain", "--json"),
        ("agents", "add", "--json"),
    ],
)
def test_wrong_usage_with_json_is_json_too(tmp_path: Path, words: tuple[str, ...]) -> None:
    ran = in_process(*words, cwd=tmp_path)
    assert ran.returncode == 2
    error = json.loads(ran.stdout)["error"]
    assert error["kind"] == "usage"
    assert error["message"] in ran.stderr


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("sessions", "shwo", "--json"), "usage"),
        (("team", "lgo", "--json"), "usage"),
        (("compare", "x", "--agents", "a=nosuch", "--json"), "usage"),
        (("inspect", "show", "nosuch.ndjson", "--json"), "usage"),
        (("mcp", "test", "nosuch", "--json"), "failed"),
        (("agents", "default", "nosuch", "--json"), "failed"),
        (("agents", "install", "nosuch", "--json", "--offline"), "unknown"),
        (("team", "log", "--json"), "failed"),
        (("sessions", "show", "nosuch", "--json"), "session_not_found"),
        (("fleet", "--json"), "usage"),
        (("editors", "undo", "zed", "--json"), "failed"),
        (("audit", "--file", "/no/such/file", "--json"), "usage"),
    ],
)
def test_an_error_with_json_is_one_json_document_too(tmp_path: Path, words: tuple[str, ...], kind: str) -> None:
    ran = in_process(*words, cwd=tmp_path)
    assert ran.returncode in (1, 2)
    error = json.loads(ran.stdout)["error"]
    assert error["kind"] == kind
    assert error["message"] in ran.stderr


def test_a_report_that_goes_to_a_file_with_json_leaves_stdout_alone(tmp_path: Path) -> None:
    ran = in_process("check", "agent", "--json", "report.json", "--nosuch", "--", "true", cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")


def test_wrong_usage_of_run_with_json_is_a_result_line(tmp_path: Path) -> None:
    ran = in_process("run", "--json", "--prompt", " ", "--", *EVERYTHING, cwd=tmp_path, text="")
    assert ran.returncode == 2
    (result,) = map(json.loads, ran.stdout.splitlines())
    assert (result["kind"], result["body"]["exitCode"]) == ("result", 2)
    assert result["body"]["error"] == {"kind": "usage", "message": "the prompt is empty"}
    assert in_process("agents", "add", "one", "--", *EVERYTHING, cwd=tmp_path).returncode == 0
    ran = in_process("run", "--json", "--agent", "nosuch", "hi", cwd=tmp_path)
    assert "there is no agent 'nosuch'; choose one" in json.loads(ran.stdout)["body"]["error"]["message"]
    ran = in_process("run", "--json", "--agent", "gemini", "hi", cwd=tmp_path)
    assert json.loads(ran.stdout)["body"]["error"]["message"].startswith("gemini is not installed; install it with: ")


@pytest.mark.parametrize("words", [("run", "hi", "--session"), ("sessions", "show")])
def test_an_argument_that_is_not_utf_8_is_one_error_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    end = ["--", *EVERYTHING] if words[0] == "run" else []
    command = [os.fsencode(each) for each in [*DRAGOMAN, *words]] + [b"na\xffme", *map(os.fsencode, end)]
    made = dragoman("run", "--session", "roof", "hi", "--", *EVERYTHING, cwd=tmp_path)  # so that there is a store
    assert made.returncode == 0, made.stderr
    ran = subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert ran.returncode == 2
    assert f"dragoman {words[0]}: the argument 'na\\udcffme' is not UTF-8" in ran.stderr
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [("sessions",), ("policy", "show"), ("run", "hi", "--", *EVERYTHING)])
def test_a_folder_that_was_removed_is_named_as_the_reason(tmp_path: Path, words: tuple[str, ...]) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = 'rmdir "$0"; exec "$@"'
    ran = subprocess.run(
        ["sh", "-c", script, str(gone), *DRAGOMAN, *words],
        cwd=gone, stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 1
    assert ran.stderr == f"dragoman {words[0]}: the current folder was removed; change to another one\n"


def frames(*arguments: str, text: str) -> tuple[list[dict[str, object]], str]:
    """Return the answers of an agent to these lines, and its stderr."""
    ran = subprocess.run([*EVERYTHING, *arguments], input=text, capture_output=True, text=True, timeout=TIMEOUT)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.endswith("\n")
    return [json.loads(line) for line in ran.stdout.splitlines()], ran.stderr


@pytest.mark.item("001-12")
def test_the_agent_uses_stdin_and_stdout_and_exits_at_eof() -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": 1, "clientCapabilities": {}},
    }
    (answer,), stderr = frames(text=json.dumps(hello) + "\n")
    assert answer["id"] == 1
    assert answer["result"]["agentInfo"]["name"] == "everything"  # type: ignore[index]
    assert stderr == ""


@pytest.mark.item("002-10")
def test_stdout_has_json_lines_and_nothing_else(tmp_path: Path) -> None:
    lines = [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {"protocol_version": 1, "client_capabilities": {}},
        },
        {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": str(tmp_path), "mcpServers": []}},
        "this line is no JSON",
    ]
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    answers, stderr = frames("--dialect", "crow", text=text)
    assert [answer["id"] for answer in answers if "id" in answer] == [1, 2, None]
    assert "not a message" in stderr  # the log


def test_an_agent_starts_without_unneeded_imports() -> None:
    script = "import sys; from dragoman.cli.main import main; main(['agent', 'everything']); print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", script], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT
    )
    loaded = set(ran.stderr.split())  # file descriptor 1 is for the protocol; prints go to stderr
    assert "dragoman.agents.everything.agent" in loaded
    assert not loaded & {
        "argparse",
        "difflib",
        "tempfile",
        "dragoman.cli.commands.run",
        "dragoman.workspace",
    }


def test_dragoman_runs_as_a_module() -> None:
    assert DRAGOMAN[1:] == ["-m", "dragoman"]
    assert dragoman("--version").returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [[], ["help"], ["--version"], ["sessions"], ["agents"], ["check", "--help"], ["chat", "--help"], ["demo"]],
    ids=" ".join,
)
def test_a_closed_or_full_output_ends_in_one_line(arguments: list[str], tmp_path: Path) -> None:
    command = " ".join([*DRAGOMAN, *arguments])
    full = _shell(f"{command} > /dev/full", tmp_path)
    assert full.returncode == 1
    assert full.stderr.endswith("cannot write the output: No space left on device\n")
    assert full.stderr.count("\n") == 1
    closed = _shell(f"{command} >&-", tmp_path)
    assert "Traceback" not in closed.stderr
    gone = _shell(f"{command} | true; exit ${{PIPESTATUS[0]}}", tmp_path)
    assert gone.returncode in (0, 2, 141)
    assert gone.stderr == ""


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_run_ends_when_its_output_is_full_or_closed(form: list[str], tmp_path: Path) -> None:
    command = " ".join([*DRAGOMAN, "run", *form, "--no-store", "--prompt", "hi", "--", *EVERYTHING])
    full = _shell(f"{command} > /dev/full", tmp_path)
    assert (full.returncode, full.stderr) == (1, "dragoman run: cannot write the output: No space left on device\n")
    closed = _shell(f"{command} >&-", tmp_path)
    assert (closed.returncode, closed.stderr) == (0, "")


def _shell(line: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line], cwd=home, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT
    )


@pytest.mark.parametrize(
    ("arguments", "variable"),
    [
        (["agents", "add", "x", "--", "cat"], "XDG_CONFIG_HOME"),
        (["hosts", "add", "x", "https://example.org"], "XDG_CONFIG_HOME"),
        (["inspect", "run", "--", "cat"], "XDG_STATE_HOME"),
        (["run", "--no-store", "--prompt", "hi", "--", "cat"], "XDG_STATE_HOME"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_home_that_cannot_be_written_is_named(
    arguments: list[str], variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "/dev/null")  # not even root can make a folder there
    ran = in_process(*arguments, cwd=tmp_path)
    assert ran.returncode in (1, 2)
    assert ran.stderr.endswith(f"; set {variable} to a folder that can be written\n")
    assert "/dev/null/dragoman" in ran.stderr


@pytest.mark.parametrize(
    "arguments", [["agents", "add", "x", "--", "cat"], ["inspect", "run", "--", "cat"]], ids=" ".join
)
def test_a_home_in_which_nothing_can_be_made_is_named_itself(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", "/proc/nobody")
    ran = in_process(*arguments, cwd=tmp_path)
    assert ran.returncode == 1
    assert ran.stderr.endswith("; set HOME to a folder that can be written\n")


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["sesions"], "there is no command 'sesions'; did you mean sessions?"),
        (["sessions", "lst"], "there is no action 'lst'; did you mean list?"),
        (
            ["sessions", "roof"],
            "choose one of: list, show, search, fork, rename, export, import, share, delete, expire, "
            "repair; or to show one: dragoman sessions show roof",
        ),
        (["inspect", "talk.ndjson"], "; or to show one: dragoman inspect show talk.ndjson"),
        (["editors", "zed"], "; or to show one: dragoman editors show zed"),
        (["grants", "revok", "x"], "did you mean revoke?"),
        (["run", "--sesion", "x", "--", "y"], "did you mean --session?"),
        (["share", "roof"], "there is no command 'share'; did you mean dragoman sessions share?"),
        (["agents", "rm", "claude"], "did you mean remove?"),
        (["tokens", "rm", "x"], "did you mean revoke?"),
        (["sessions", "rm", "x"], "did you mean delete?"),
        (["run", "--continue", "x"], "did you mean --session?"),
        (["run", "--resume=x", "hi"], "did you mean --session?"),
        (["run", "fix", "the", "tests"], "put a prompt of several words in quotes"),
        (["chat", "claude"], "claude is not installed; install it with"),
    ],
    ids=" ".join,
)
def test_a_word_that_is_almost_right_is_answered_with_the_right_one(arguments: list[str], advice: str) -> None:
    ran = in_process(*arguments)
    assert ran.returncode == 2
    assert advice in ran.stderr


def test_help_with_a_command_shows_its_help() -> None:
    assert in_process("help", "chat").stdout == in_process("chat", "--help").stdout
    assert in_process("help", "sessions", "export").stdout.startswith("usage: dragoman sessions export")
    assert in_process("version").stdout == f"dragoman {__version__}\n"


def test_grants_audit_and_policy_list_without_an_action(tmp_path: Path) -> None:
    assert in_process("grants", cwd=tmp_path).stdout == "there are no grants\n"
    assert in_process("audit", cwd=tmp_path).stdout == "nothing was decided yet\n"
    (tmp_path / ".dragoman").mkdir()
    rule = 'version = 1\n[[rule]]\ndecision = "deny"\ncommand = "git push *"\nreason = "by hand only"\n'
    (tmp_path / ".dragoman" / "policy.toml").write_text(rule)
    output = in_process("policy", cwd=tmp_path).stdout
    assert "mode default, where no rule and no grant decides: allow file read; ask everything else" in output
    assert "(not trusted, so it can only ask and deny):" in output
    assert '  command = "git push *"' in output
    assert json.loads(in_process("policy", "show", "--json", cwd=tmp_path).stdout)["verdicts"]["file_read"] == "allow"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_into_80_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = in_process(name, "--help").stdout
    _, _, listed = text.partition("\nactions:\n")
    for action in re.findall(r"^  ([a-z-]+)", listed.partition("\n\n")[0], re.MULTILINE):
        text += in_process(name, action, "--help").stdout
    assert [line for line in text.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["store"], "required: ACTION, ADDRESS; choose one of: copy, backup, verify"),
        (["completion"], "required: shell; choose one of: bash, zsh, fish"),
    ],
)
def test_a_missing_argument_is_answered_with_what_it_can_be(arguments: list[str], advice: str) -> None:
    assert advice in in_process(*arguments).stderr


@pytest.mark.parametrize(
    ("arguments", "option", "advice"),
    [
        (["audit", "--limit", "2"], "--limit", "did you mean --last?"),
        (["grants", "--foo", "bar"], "--foo", ""),
        (["grants", "--jsn", "bar"], "--jsn", "did you mean --json?"),
    ],
)
def test_an_unknown_option_is_named_instead_of_its_value(arguments: list[str], option: str, advice: str) -> None:
    ran = in_process(*arguments)
    assert ran.returncode == 2
    assert f"dragoman {arguments[0]}: unrecognized arguments: {option}; {advice}" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_every_command_that_a_synonym_names_exists() -> None:
    assert not COMMAND_SYNONYMS.keys() & COMMANDS.keys()
    for meant in COMMAND_SYNONYMS.values():
        assert in_process(*meant.split(" -")[0].split(), "--help").returncode == 0, meant


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run", "--agent", "wrok", "hi"], "there is no agent 'wrok'; did you mean work? choose one with --agent"),
        (["run", "--agent", "gemni", "hi"], "there is no agent 'gemni'; did you mean gemini?"),
        (["agents", "default", "wrok"], "there is no agent 'wrok'; did you mean work?"),
        (["agents", "remove", "wrok"], "there is no agent 'wrok'; did you mean work?"),
        (["compare", "hi", "--agents", "a=wrok"], "there is no agent or program 'wrok' for a; did you mean work?"),
        (["compare", "hi", "--agents", "work", "--apply", "wrok"], "there is no agent 'wrok'; did you mean work?"),
        (["policy", "explain", "file_wirte", "x"], "there is no operation 'file_wirte'; did you mean file_write?"),
        (["mcp", "lst"], "(choose from 'list', 'test', 'add', 'remove', 'path'); did you mean list?"),
        (["mcp", "--agent", "work", "list"], "the action comes first, as in: dragoman mcp list"),
        (["mcp", "test", "dmo"], "there is no MCP server 'dmo'; did you mean demo?"),
        (["mcp", "remove", "time"], "there is no MCP server 'time'; configured MCP servers: demo"),
    ],
)
def test_a_mistyped_name_is_answered_with_the_closest_one(tmp_path: Path, words: list[str], expected: str) -> None:
    assert in_process("agents", "add", "work", "--", *EVERYTHING, cwd=tmp_path).returncode == 0
    assert in_process("mcp", "add", "demo", "--", "true", cwd=tmp_path).returncode == 0
    ran = in_process(*words, cwd=tmp_path)
    assert ran.returncode in (1, 2)
    assert expected.replace("'", "") in ran.stderr.replace("'", "")
