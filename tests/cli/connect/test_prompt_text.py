"""Where the prompt of `run`, `compare` and `race` comes from: an argument, an option, a file, standard input."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from tests.cli.process import DRAGOMAN, EVERYTHING, dragoman, in_process

AGENT = ["--no-store", "--", *EVERYTHING]


def test_the_prompt_can_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "task.md").write_text("﻿/echo two\nlines", encoding="utf-8")
    ran = dragoman("run", "--prompt-file", "task.md", *AGENT, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "two\nlines" in ran.stdout


@pytest.mark.parametrize("words", [["--prompt-file", "-"], ["-"]])
def test_a_dash_is_standard_input(tmp_path: Path, words: list[str]) -> None:
    ran = dragoman("run", *words, *AGENT, cwd=tmp_path, text="/echo from a pipe")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "from a pipe\n"


@pytest.mark.parametrize("command", [["run"], ["compare", "--agents", "python3"], ["race", "--agents", "python3"]])
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--prompt-file", "nosuch"], "--prompt-file: cannot read nosuch: No such file or directory"),
        (["--prompt-file", "."], "--prompt-file: cannot read .: Is a directory"),
        (["--prompt-file", "picture"], "--prompt-file: picture is not a text"),
        (["--prompt-file", "blank"], "the prompt is empty: there is no text in blank"),
        (["--prompt-file", "blank", "x"], "give the prompt once: as an argument, with --prompt, or with --prompt-file"),
    ],
)
def test_a_file_that_is_no_prompt_is_wrong_usage(
    tmp_path: Path, command: list[str], words: list[str], expected: str
) -> None:
    (tmp_path / "picture").write_bytes(b"\x89PNG\0\0")
    (tmp_path / "blank").write_text(" \n")
    rest = AGENT if command == ["run"] else []
    ran = in_process(*command, *words, *rest, cwd=tmp_path)
    assert ran.returncode == 2
    assert expected in ran.stderr


@pytest.mark.parametrize("command", ["compare", "race"])
def test_the_prompt_of_several_agents_can_be_piped_and_in_a_file(tmp_path: Path, command: str) -> None:
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@x", *words], cwd=tmp_path, check=True)
    agents = ["--agents", f"a={shlex.join(EVERYTHING)}", "--json"]
    piped = dragoman(command, "/echo look at", *agents, cwd=tmp_path, text="this diff")
    assert '"text": "look at\\n\\nthis diff"' in piped.stdout, piped.stderr
    (tmp_path / "task.md").write_text("/echo the task")
    read = dragoman(command, "--prompt-file", "task.md", *agents, cwd=tmp_path)
    assert '"text": "the task"' in read.stdout, read.stderr


def test_an_open_pipe_is_not_waited_for_in_silence(tmp_path: Path) -> None:
    command = [*DRAGOMAN, "run", "/echo hello", *AGENT]
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stderr is not None
        assert b"waiting for the end of standard input" in running.stderr.readline()
        answer, _ = running.communicate()
    assert answer == b"hello\n"
