"""`run --session NAME` without an agent starts the one that the session used last."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from dragoman import Sandbox
from dragoman.cli.connect.options import SessionOptions
from dragoman.cli.connect.session_agent import note_session_agent
from dragoman.config.config_file import NamedAgent
from tests.cli.process import EVERYTHING, in_process

NAMED = """\
version = 1

[agents.mine]
command = {python!r}
args = ["-m", "dragoman", "agent", "everything"]
"""


def remembered(tmp_path: Path) -> str:
    return (tmp_path / "state" / "dragoman" / "session-agents.json").read_text()


def test_the_command_of_a_session_is_started_again(tmp_path: Path) -> None:
    first = in_process("run", "-s", "notes", "/echo one", "--", *EVERYTHING, cwd=tmp_path)
    assert (first.returncode, first.stdout) == (0, "one\n")
    again = in_process("run", "-s", "notes", "/echo two", cwd=tmp_path)
    assert (again.returncode, again.stdout) == (0, "two\n"), again.stderr
    third = in_process("run", "-s", "notes", "/echo three", cwd=tmp_path)
    assert third.stdout == "three\n", "the command is still known after a run without it"
    assert "which agent" not in again.stderr
    assert in_process("sessions", "delete", "notes", cwd=tmp_path).returncode == 0
    assert "everything" not in remembered(tmp_path)


def test_a_configured_agent_is_remembered_by_its_name(tmp_path: Path) -> None:
    config = tmp_path / "config" / "dragoman"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(NAMED.format(python=sys.executable).replace("'", '"'))
    assert in_process("run", "-s", "notes", "-a", "mine", "/echo one", cwd=tmp_path).returncode == 0
    assert '"name": "mine"' in remembered(tmp_path)
    assert sys.executable not in remembered(tmp_path)
    assert in_process("run", "-s", "notes", "/echo two", cwd=tmp_path).stdout == "two\n"


def test_an_agent_in_a_sandbox_is_not_started_again_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    options = SessionOptions(agent=NamedAgent(name="mine", command="mine"), is_agent_command=True)
    note_session_agent(options, "s1")
    assert "mine" in remembered(tmp_path)
    note_session_agent(msgspec.structs.replace(options, sandbox=Sandbox()), "s1")
    assert "mine" not in remembered(tmp_path)
