"""Clients as real processes: what happens to their agent, and `dragoman check client` as users run it."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest

from dragoman.conformance.harness.client_process import CommandClient
from dragoman.conformance.harness.editor import open_stub_listener
from dragoman.conformance.harness.peer import PROCESS
from dragoman.conformance.requirement import requirements
from dragoman.conformance.runner import try_one
from dragoman.conformance.verdict import Outcome
from dragoman.testing.fake_agents import client_command
from tests.process_start import started

DRAGOMAN = [sys.executable, "-m", "dragoman"]
RUN = [*DRAGOMAN, "run", "--prompt", "hello", "--yes", "--", "{agent}"]
TIMEOUT = 100  # seconds; a check of three requirements takes three on an idle machine


# Wait less than for an unknown client.
FAST = msgspec.structs.replace(PROCESS, answer=4.0)


def faulty_client(fault: str = "") -> list[str]:
    """Return the command of a client with this fault, or with none."""
    broken = ["--fault", fault] if fault else []
    return [sys.executable, "-m", "tests.conformance.faults.faulty_client", *broken, "--", "{agent}"]


def outcome(command: list[str], id: str) -> tuple[Outcome, str]:
    """Return the verdict on one requirement."""
    client = CommandClient(command, requirements()[id].first_dialect, timeouts=FAST)
    client.exits_after_turn = True
    verdict = asyncio.run(try_one(client, requirements()[id]))
    return verdict.outcome, verdict.why


def check(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    line = [*DRAGOMAN, "check", "client", *words]
    return subprocess.run(line, capture_output=True, text=True, timeout=TIMEOUT, check=False)


@pytest.mark.parametrize("id", ["client.process.01", "client.process.03", "client.process.04", "client.process.10"])
def test_process_faults_are_found_on_real_processes(id: str) -> None:
    found, why = outcome(faulty_client(id), id)
    assert found is Outcome.FAIL, why


@pytest.mark.parametrize("id", ["client.process.01", "client.process.04", "client.process.05", "client.process.09"])
def test_our_command_handles_its_agent_process_correctly(id: str) -> None:
    found, why = outcome(RUN, id)
    assert found is Outcome.PASS, why


def test_an_agent_left_running_by_a_client_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder:  # the stand-in's command line names it
        monkeypatch.setattr("tempfile.tempdir", folder)
        assert outcome(faulty_client("client.process.02"), "client.process.02")[0] is Outcome.FAIL
        assert not os.listdir(folder)
        assert not [line for line in command_lines() if folder.encode() in line]


def command_lines() -> list[bytes]:
    """Return the command lines of all running processes."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes())
        except OSError:
            continue  # gone meanwhile
    return found


def test_the_agent_placeholder_is_replaced_in_the_command() -> None:
    agent = ["python", "a b.py"]
    assert client_command(["client", "--", "{agent}"], agent, "/w") == ["client", "--", "python", "a b.py"]
    assert client_command(["client", "--agent", "{agent}"], agent, "/w") == ["client", "--agent", shlex.join(agent)]
    assert client_command(["client", "--agent={agent}"], agent, "/w") == ["client", f"--agent={shlex.join(agent)}"]
    assert client_command(["client", "{cwd}"], agent, "/w") == ["client", "/w", "python", "a b.py"]


def test_our_command_passes_and_the_report_says_so(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    only = ["client.rpc.04", "client.files.07", "client.order.09"]
    ran = check("--only", *only, "--json", str(report), "--", *RUN)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = {row["id"]: row["outcome"] for row in json.loads(report.read_text())["rows"]}
    assert rows == dict.fromkeys(only, "pass")


def test_a_client_with_mode_and_option_flags_is_offered_both(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    words = ["--agent-mode", "check-code", "--option", "check-model=large"]
    only = ["client.choice.01", "client.choice.03"]
    ran = check("--only", *only, "--json", str(report), "--", *DRAGOMAN, "run", *words, *RUN[4:])
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = {row["id"]: row["outcome"] for row in json.loads(report.read_text())["rows"]}
    assert rows == dict.fromkeys(only, "pass")


def test_a_faulty_client_fails_with_evidence(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    ran = check(
        "--only", "client.rpc.04", "client.rpc.05", "--json", str(report), "--", *faulty_client("client.rpc.05")
    )
    assert ran.returncode == 1
    rows = {row["id"]: row for row in json.loads(report.read_text())["rows"]}
    assert rows["client.rpc.04"]["outcome"] == "pass"
    assert rows["client.rpc.05"]["outcome"] == "fail"
    assert any(each["marked"] and '"result": null' in each["text"] for each in rows["client.rpc.05"]["evidence"])


def test_the_dialect_of_a_client_is_detected() -> None:
    dialect = "draft"
    client = [*DRAGOMAN, "run", "--prompt", "hello", "--yes", "--dialect", dialect, "--", "{agent}"]
    ran = check("--only", "client.files.01", "client.life.01", "--", *client)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"({dialect}, " in ran.stdout


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--", "false"], 7, "without starting its agent"),
        (["--", "no-such-client"], 7, "cannot start 'no-such-client'"),
        ([], 2, "give the command of the client after --"),
        (["--serve", "--", "x"], 2, "--serve waits for an editor"),
        (["--serve", "--baseline", "x"], 2, "--baseline compares complete checks"),
        (["--only", "client.nothing", "--", "x"], 2, "there is no requirement"),
    ],
)
def test_a_check_that_cannot_start_prints_one_line(words: list[str], code: int, message: str) -> None:
    ran = check(*words)
    assert ran.returncode == code
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr


def test_the_requirements_of_clients_are_listed() -> None:
    ran = check("--list")
    assert ran.returncode == 0
    assert len(ran.stdout.splitlines()) >= 80


def test_an_editor_check_prints_verdicts_as_they_come() -> None:
    only = ["client.life.01", "client.update.01", "client.process.01"]
    line = [*DRAGOMAN, "check", "client", "--serve", "--only", *only]
    with started(line, stdout=subprocess.PIPE, text=True, env={**os.environ, "NO_COLOR": "1"}) as serving:
        assert serving.stdout is not None
        lines = iter(serving.stdout.readline, "")
        agent = next(line.split() for line in lines if "stub_agent.py" in line)
        assert "client.life.01: open a new thread" in next(line for line in lines if "new thread" in line)
        editor = [*DRAGOMAN, "run", "--prompt", "hello", "--", *agent]
        subprocess.run(editor, capture_output=True, timeout=TIMEOUT, check=False)
        assert next(line for line in lines if "client.life.01" in line).startswith("pass")
        assert "type a prompt in the same thread" in next(lines)
        assert next(lines).startswith("pass            client.update.01")
        assert "client.process.01: open a new thread" in next(lines)
        serving.send_signal(signal.SIGINT)
        rest = serving.stdout.read()
        assert "2 passed" in rest
        assert "ended by Ctrl-C: 1 of 3 were not tried" in rest
        assert serving.wait(TIMEOUT) == 0


def test_the_socket_for_an_editor_keeps_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An editor is configured once; two checks at a time do not collide."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with open_stub_listener() as first, open_stub_listener() as second:
        assert first.path != second.path
    assert not Path(first.path).exists()
    with open_stub_listener() as again:
        assert again.path == first.path
