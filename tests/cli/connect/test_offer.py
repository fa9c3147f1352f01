"""One word for an agent that is not installed: an offer on a terminal, the command elsewhere, --yes in scripts."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.cli.connect.which_agent import resolve_agent
from dragoman.cli.main import main
from dragoman.cli.parser import Parser
from dragoman.cli.registry.installer import question_lines
from tests.registry.home import User, set_environment
from tests.registry.packages import binary_entry
from tests.registry.stand_in import Site, serve


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as running:
        yield running


@pytest.fixture
def user(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> User:
    set_environment(tmp_path, site, monkeypatch)
    made = User(tmp_path, site, capsys)
    made.publish(binary_entry(site))
    config = tmp_path / "config" / "dragoman" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'version = 1\n\n[registry]\nurls = ["{made.index}"]\n')
    made.run("search", "--json")  # the index is kept
    return made


@pytest.mark.item("004-77")
def test_without_a_terminal_the_command_is_told(user: User, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "Hello", "-a", "small"])
    assert ended.value.code == 2
    assert "small is not installed; install it with: dragoman agents install small --yes" in capsys.readouterr().err
    assert not user.agents.exists()


@pytest.mark.item("004-77")
def test_yes_installs_and_returns_the_agent(user: User) -> None:
    agent = resolve_agent(Parser("run", "", "", ""), "small", [], yes=True)
    assert agent.command.startswith(str(user.agents))
    assert resolve_agent(Parser("run", "", "", ""), "small", []) == agent


def test_an_unknown_word_is_refused_as_before(user: User, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "Hello", "-a", "nosuch", "--yes"])
    assert ended.value.code == 2
    assert "there is no agent 'nosuch'" in capsys.readouterr().err


@pytest.mark.item("RG-03")
def test_on_a_terminal_one_key_installs_what_was_told(user: User) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "dragoman", "run", "Hello", "-a", "small", "--timeout", "5"]
    child = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"})
    os.close(theirs)
    shown = b""
    asked = False
    try:
        while True:
            try:
                data = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            shown += data
            if b"y/n?" in shown and not asked:
                os.write(ours, b"y")
                asked = True
        child.wait(60)
    finally:
        child.kill()
        os.close(ours)
    text = shown.decode()
    assert "by the registry" in text
    assert "small-1.0.0.tar.gz" in text
    assert "✓" in text
    assert len(user.listed()) == 1


def test_a_line_of_the_offer_that_is_too_long_goes_on_below_its_text() -> None:
    lines = [
        ("package", "@google/gemini-cli@0.61.0 from npm: 12 packages, npm does not say how large", ""),
        ("", f"{'':12}sha512", "dim"),
        ("hash", "f" * 100, ""),
        ("note", f"two{' ' * 20}blanks are counted where the question is shown", ""),
    ]
    shown = [line.text for line in question_lines(lines, 80)]
    assert shown[:3] == [
        "package     @google/gemini-cli@0.61.0 from npm: 12 packages, npm does not say",
        "            how large",
        "            sha512",
    ]
    assert shown[3:5] == ["hash        " + "f" * 65, "            " + "f" * 35]
    assert shown[5] == f"note        {lines[3][1]}"
