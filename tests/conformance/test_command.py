"""`dragoman check agent` on real processes, as users and CI run it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.process_start import started

DRAGOMAN = [sys.executable, "-m", "dragoman"]
EVERYTHING = [*DRAGOMAN, "agent", "everything"]
TIMEOUT = 90  # seconds; a check of three requirements takes two


def check(*words: str, agent: list[str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    command = [*DRAGOMAN, "check", "agent", *words, *(["--", *agent] if agent else [])]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)


def faulty_agent(id: str) -> list[str]:
    """Return the command of an agent with one fault."""
    return [sys.executable, "-m", "tests.conformance.faults.faulty_agent", "--fault", id]


@pytest.mark.parametrize("dialect", ["v1", "draft"])
def test_our_agent_passes_as_a_process(dialect: str) -> None:
    agent = [*EVERYTHING, "--dialect", dialect]
    ran = check("--dialect", dialect, "--only", "agent.rpc.03", "agent.permission.05", "agent.frame.11", agent=agent)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "3 passed, 0 failed" in ran.stdout


def test_a_faulty_agent_fails_with_evidence(tmp_path: Path) -> None:
    files = {name: str(tmp_path / f"report.{name}") for name in ("json", "junit", "html")}
    written = [word for name, path in files.items() for word in (f"--{name}", path)]
    ran = check("--only", "agent.rpc.03", "agent.rpc.01", *written, agent=faulty_agent("agent.rpc.03"))
    assert ran.returncode == 1
    assert "was refused with -32603, not -32601" in ran.stdout
    report = json.loads(Path(files["json"]).read_text())
    rows = {row["id"]: row for row in report["rows"]}
    assert (rows["agent.rpc.01"]["outcome"], rows["agent.rpc.03"]["outcome"]) == ("pass", "fail")
    proof = [each for each in rows["agent.rpc.03"]["evidence"] if each["marked"]]
    assert "-32603" in proof[-1]["text"]
    assert "-32603" in Path(files["html"]).read_text()
    assert "<failure" in Path(files["junit"]).read_text()

    again = check("--only", "agent.rpc.03", "--baseline", files["json"], agent=faulty_agent("agent.rpc.03"))
    assert again.returncode == 0, "what was known to be broken does not fail a check against a baseline"


@pytest.mark.parametrize(("number", "name", "code"), [(signal.SIGINT, "Ctrl-C", 130), (signal.SIGTERM, "SIGTERM", 143)])
def test_an_interrupted_check_reports_what_was_tried(tmp_path: Path, number: int, name: str, code: int) -> None:
    starts, report, folder = tmp_path / "starts", tmp_path / "report.json", tmp_path / "temporary"
    folder.mkdir()
    agent = ["/bin/sh", "-c", f"echo >> {starts}; exec {shlex.join(faulty_agent('agent.prompt.08'))}"]
    words = ["--dialect", "v1", "--jobs", "1", "--only", "agent.rpc.03", "agent.prompt.08", "--json", str(report)]
    command = [*DRAGOMAN, "check", "agent", *words, "--", *agent]
    with started(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(folder)}) as running:
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end and (not starts.exists() or len(starts.read_bytes()) < 4):
            time.sleep(0.05)  # two first looks, a probe, and one that never ends, for its prompt is never answered
        running.send_signal(number)
        output, _ = running.communicate(timeout=TIMEOUT)
    assert running.returncode == code
    assert f"ended by {name}: 1 of 2 were not tried" in output
    described = json.loads(report.read_text())
    assert [(row["id"], row["outcome"]) for row in described["rows"]] == [("agent.rpc.03", "pass")]
    assert described["complete"] is False
    assert not list(folder.iterdir()), "no folder of a probe is left behind"


NO_MODEL = """
from dragoman import Agent, Kind, ProtocolError, Turn
agent = Agent("lonely", version="1")
@agent.prompt
async def answer(turn: Turn) -> None:
    raise ProtocolError(Kind.INTERNAL_ERROR, "Connection error.")
agent.run()
"""


def test_an_agent_without_its_model_is_not_said_to_break_anything() -> None:
    ran = check("--only", "agent.prompt.01", "agent.prompt.14", "agent.rpc.03", agent=[sys.executable, "-c", NO_MODEL])
    assert ran.returncode == 0, ran.stdout
    assert "the agent refuses a plain prompt (Connection error.)" in ran.stderr
    assert "1 passed, 0 failed, 2 inconclusive" in ran.stdout
    assert "the agent answers no prompt at all: Connection error." in ran.stdout


def test_progress_and_the_size_of_stderr_are_reported_in_a_file_too() -> None:
    loud = ["/bin/sh", "-c", f"echo 12345 >&2; exec {shlex.join(EVERYTHING)}"]
    ran = check("--only", "agent.rpc.03", "agent.init.01", agent=loud)
    assert "agent.rpc done: 1 of 2 tried, 0 failed" in ran.stderr
    assert "12 bytes on stderr in all, at most 6 in one probe" in ran.stdout


def test_json_on_stdout_has_no_other_output() -> None:
    ran = check("--only", "agent.init.01", "--json", "-", agent=EVERYTHING)
    assert json.loads(ran.stdout)["dialect"] == "v1"
    assert "1 passed" in ran.stderr


@pytest.mark.parametrize(
    ("words", "agent", "code", "says"),
    [
        ((), ["/no/such/agent"], 7, "cannot start '/no/such/agent'"),
        ((), [sys.executable, "-c", "raise SystemExit('no key')"], 7, "no key"),
        (("--dialect", "v1", "--only", "agent.rpc"), ["false"], 7, "exited with status 1; start it by hand"),
        ((), None, 2, "give the command of the agent after --"),
        (("--only", "agent.nothing"), EVERYTHING, 2, "there is no requirement"),
        (("--dialect", "klingon"), EVERYTHING, 2, "there is no dialect"),
        (("--baseline", "/no/such/file"), EVERYTHING, 2, "/no/such/file"),
        (("--script", "/no/such/file"), EVERYTHING, 2, "/no/such/file"),
    ],
)
def test_wrong_usage_prints_one_line(words: tuple[str, ...], agent: list[str] | None, code: int, says: str) -> None:
    ran = check(*words, agent=agent)
    assert ran.returncode == code
    assert says in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("dialect", ["v1", "2025.1", "crow", "draft"])
def test_check_dialect_prints_the_dialect_of_an_agent(dialect: str) -> None:
    command = [*DRAGOMAN, "check", "dialect", "--", *EVERYTHING, "--dialect", dialect]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    first, advice = ran.stdout.splitlines()
    assert first == f"Everything 0.1.0 speaks {dialect}."
    assert ("dragoman translate -- " in advice) == (dialect != "v1")


def test_check_dialect_of_a_program_that_is_no_agent_fails() -> None:
    ran = subprocess.run([*DRAGOMAN, "check", "dialect", "--", "cat"], capture_output=True, text=True, timeout=TIMEOUT)
    assert ran.returncode == 7
    assert "cat is not an ACP agent" in ran.stderr


def test_requirements_can_be_listed() -> None:
    ran = check("--list", "--dialect", "crow")
    assert ran.returncode == 0
    assert "agent.dialect.22" in ran.stdout
    assert "agent.draft.01" not in ran.stdout
