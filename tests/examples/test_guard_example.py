"""The example client with the user's policy, run as a process, directly and through two translated dialects."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.policy.decision import ALLOW
from dragoman.roles.client.permission.questions import PermissionChoice, PermissionPrompt
from tests.examples.run_example import DRAGOMAN, EXAMPLES, MEMORY, TIMEOUT, connect_to, module_of

EVERYTHING = (*DRAGOMAN, "agent", "everything")


def behind(dialect: str) -> tuple[str, ...]:
    """The everything agent in this dialect, behind `dragoman translate`; the client uses v1."""
    return (*DRAGOMAN, "translate", "--", *EVERYTHING, "--dialect", dialect)


@pytest.mark.parametrize("command", [EVERYTHING, behind("draft"), behind("crow")], ids=["v1", "draft", "crow"])
@pytest.mark.parametrize(("typed", "is_written"), [("y\n", True), ("n\n", False), ("s\n", True)])
def test_the_user_decides_and_the_audit_log_has_the_decision(
    command: tuple[str, ...], typed: str, is_written: bool, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    environ = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "user_policy.py"), "/write note.txt hello", *command],
        cwd=work,
        env=environ,
        input=typed * 3,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    asked = next(line for line in done.stderr.splitlines() if line.startswith("file write: "))
    assert asked.endswith(("/note.txt", '"Write note.txt"'))  # crow has a title only
    assert (work / "note.txt").exists() is is_written
    log = (tmp_path / "dragoman" / "audit" / "audit.jsonl").read_text().splitlines()
    decided = [entry for entry in map(json.loads, log) if entry["what"] == "decided"]
    assert {entry["decision"] for entry in decided if entry["operation"] == "file_write"} == {
        "allow" if is_written else "deny"
    }


async def test_the_policy_applies_to_an_agent_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = module_of("user_policy")
    asked: list[PermissionPrompt] = []

    async def allow(what: PermissionPrompt) -> PermissionChoice:
        asked.append(what)
        return PermissionChoice(ALLOW, "once")

    guard.ask = allow
    guard.connect = lambda _, **options: connect_to("everything", MEMORY, tmp_path, **options)
    monkeypatch.chdir(tmp_path)
    await guard.main(["the agent"], "/write note.txt hello")
    assert [what.questions[0].operation for what in asked] == ["file_write"]
    assert (tmp_path / "note.txt").read_text() == "hello"
