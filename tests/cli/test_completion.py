"""Shell completion: made from the commands' own parsers, and tried in a real bash where there is one."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.cli.completion import table
from dragoman.cli.main import COMMANDS
from tests.cli.command import EVERYTHING, PATIENCE, dragoman

BASH = shutil.which("bash")


def test_every_command_is_completed_with_its_own_options() -> None:
    known = table()
    assert set(known) == set(COMMANDS)
    assert {"--prompt", "--cwd", "--dialect", "--help"} <= {taken.flag for taken in known["run"]}
    assert any(taken.choices and "explain" in taken.choices for taken in known["policy"])


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_names_every_command(shell: str) -> None:
    ran = dragoman("completion", shell)
    assert ran.returncode == 0
    assert all(name in ran.stdout for name in COMMANDS)
    checker = shutil.which(shell)
    if checker is not None:
        subprocess.run([checker, "-n"], input=ran.stdout, text=True, timeout=PATIENCE, check=True)


def test_zsh_is_told_of_one_first_word_and_one_rest() -> None:
    cases = [line for line in dragoman("completion", "zsh").stdout.splitlines() if "_arguments" in line]
    assert len(cases) == len(COMMANDS)
    for case in cases:
        assert case.count(" '*:") <= 1, case
        assert case.count(" '1:") <= 1, case


@pytest.fixture(scope="module")
def script() -> str:
    """The script for bash."""
    return dragoman("completion", "bash").stdout


def completed(script: str, line: str, folder: Path) -> set[str]:
    """What bash offers at the end of a line."""
    assert BASH is not None
    words = line.split(" ")
    (folder / "dragoman").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m dragoman "$@"\n')
    (folder / "dragoman").chmod(0o755)
    asking = (
        f"{script}\nCOMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}\n"
        'compopt() { :; }; _dragoman; printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    ran = subprocess.run(
        [BASH, "--norc"],
        input=asking,
        cwd=folder,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert ran.stderr == ""
    return set(ran.stdout.split())


@pytest.mark.skipif(BASH is None, reason="there is no bash here")
def test_bash_completes_commands_options_values_and_agents(script: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    dragoman("agents", "add", "mine", "--", "my-agent")
    assert completed(script, "dragoman ru", tmp_path) == {"run"}
    assert "--prompt" in completed(script, "dragoman run --p", tmp_path)
    assert {"draft", "crow"} <= completed(script, "dragoman run --dialect ", tmp_path)
    assert completed(script, "dragoman run --cwd f", tmp_path) == {"folder"}
    assert "mine" in completed(script, "dragoman run --agent mi", tmp_path)
    assert completed(script, "dragoman policy ex", tmp_path) == {"explain"}
    assert completed(script, "dragoman agent ev", tmp_path) == {"everything"}
    assert "dragoman" in completed(script, "dragoman run -- dragom", tmp_path)
    assert completed(script, "dragoman run -- cat fi", tmp_path) == {"file"}


@pytest.mark.skipif(BASH is None, reason="there is no bash here")
def test_bash_completes_sessions_where_one_is_wanted(script: str, tmp_path: Path) -> None:
    for name in ("roof", "loft"):
        dragoman("run", "--session", name, "--prompt", "/echo hi", "--", *EVERYTHING, cwd=tmp_path)
    assert completed(script, "dragoman sessions sho", tmp_path) == {"show"}
    assert completed(script, "dragoman sessions show ro", tmp_path) == {"roof"}
    assert completed(script, "dragoman run --session ", tmp_path) == {"roof", "loft"}
    assert "--thoughts" in completed(script, "dragoman sessions show --th", tmp_path)
