"""Shell completion: generated from the parsers of the commands, and tried in a real bash."""

from __future__ import annotations

import os
import pty
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.cli.commands.completion import _LISTING, argument_table
from dragoman.cli.main import COMMANDS
from tests.cli.process import EVERYTHING, TIMEOUT, dragoman

BASH = shutil.which("bash")


def test_every_command_is_completed_with_its_own_options() -> None:
    known = argument_table()
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
        subprocess.run([checker, "-n"], input=ran.stdout, text=True, timeout=TIMEOUT, check=True)


def test_zsh_gets_one_first_argument_and_one_rest() -> None:
    cases = [line for line in dragoman("completion", "zsh").stdout.splitlines() if "_arguments" in line]
    assert len(cases) == len(COMMANDS)
    for case in cases:
        assert case.count(" '*:") <= 1, case
        assert case.count(" '1:") <= 1, case


@pytest.fixture(scope="module")
def script() -> str:
    """Return the script for bash."""
    return dragoman("completion", "bash").stdout


def completed(script: str, line: str, folder: Path) -> set[str]:
    """Return what bash offers at the end of a line."""
    assert BASH is not None
    arguments = line.split(" ")
    (folder / "dragoman").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m dragoman "$@"\n')
    (folder / "dragoman").chmod(0o755)
    asking = (
        f"{script}\nCOMP_WORDS=({shlex.join(arguments)}); COMP_CWORD={len(arguments) - 1}\n"
        'compopt() { :; }; _dragoman; printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    ran = subprocess.run(
        [BASH, "--norc"],
        input=asking,
        cwd=folder,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
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
def test_bash_completes_session_arguments(script: str, tmp_path: Path) -> None:
    for name in ("roof", "loft"):
        dragoman("run", "--session", name, "--prompt", "/echo hi", "--", *EVERYTHING, cwd=tmp_path)
    assert completed(script, "dragoman sessions sho", tmp_path) == {"show"}
    assert completed(script, "dragoman sessions show ro", tmp_path) == {"roof"}
    assert completed(script, "dragoman run --session ", tmp_path) == {"roof", "loft"}
    assert "--thoughts" in completed(script, "dragoman sessions show --th", tmp_path)
    actions = completed(script, "dragoman sessions ", tmp_path)
    assert {"show", "export"} <= actions
    assert not any(word.startswith("-") for word in actions)


@pytest.mark.skipif(BASH is None, reason="there is no bash here")
@pytest.mark.parametrize("line", ["dragoman grants revoke ", "dragoman policy explain ", "dragoman tokens revoke "])
def test_bash_offers_no_second_action(script: str, tmp_path: Path, line: str) -> None:
    assert all(word.startswith("-") for word in completed(script, line, tmp_path))


# --- names that others gave -----------------------------------------------------------------------------------

# Names as older stores may have them; each begins with x. One that a shell evaluates creates a file PWNED.
NAMES = [
    "x$(touch PWNED)",
    "x`touch PWNED`",
    "x;touch PWNED",
    "x&touch PWNED",
    "x|touch PWNED",
    "x>PWNED",
    "x blank and  blanks",
    "x'touch PWNED'",
    'x"$(touch PWNED)"',
    "x\\$(touch PWNED)",
    "x*",
    "x?[a-z]",
    "x{a,b}",
    "x$HOME",
    "x!touch",
    "x#y",
    "x=y",
    "x(touch PWNED)",
    "xé ü",
    "x-plain",
]
# Names with : and @, at which readline splits words.
USERS = ["ann@x.org/plan", "ann:x/roof work"]

QUOTED: dict[str, Callable[[str], str]] = {"": str, "'": lambda reply: f"'{reply}'", '"': lambda reply: f'"{reply}"'}


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    """A folder with a fake dragoman that prints names and logs its arguments."""
    (tmp_path / "names").write_text("".join(f"{name}\n" for name in [*NAMES, *USERS, "other"]))
    (tmp_path / "dragoman").write_text(
        '#!/bin/sh\ncase "$*" in *--names*) cat names ;; *) printf "%s\\n" "$@" >> called ;; esac\n'
    )
    (tmp_path / "dragoman").chmod(0o755)
    return tmp_path


def in_bash(script: str, folder: Path, *args: str) -> str:
    """Return what bash prints; it must create no file."""
    assert BASH is not None
    environ = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    ran = subprocess.run(
        [BASH, "--norc", "-s", *args],
        input=script,
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )
    assert ran.stderr == ""
    assert not (folder / "PWNED").exists()
    return ran.stdout


def replies(script: str, folder: Path, *arguments: str) -> list[str]:
    """Return what is offered for the last word."""
    asking = (
        'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); compopt() { :; }; _dragoman; printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    return in_bash(f"{script}\n{asking}", folder, *arguments).splitlines()


@pytest.mark.skipif(BASH is None, reason="there is no bash here")
@pytest.mark.parametrize("quote", QUOTED)
@pytest.mark.parametrize(
    "arguments",
    [("sessions", "show"), ("run", "--session"), ("run", "--agent"), ("chat", "--host"), ("attach",)],
)
def test_bash_quotes_every_name_and_evaluates_none(
    script: str, listed: Path, arguments: tuple[str, ...], quote: str
) -> None:
    offered = replies(script, listed, "dragoman", *arguments, f"{quote}x")
    unsayable = {"'": ["x'touch PWNED'"], '"': ["x!touch"]}.get(quote, [])  # cannot be quoted with such quotes
    line = "printf '%s\\n' " + " ".join(map(QUOTED[quote], offered))
    assert in_bash(line, listed).splitlines() == [name for name in NAMES if name not in unsayable]


@pytest.mark.skipif(BASH is None, reason="there is no bash here")
def test_bash_continues_typed_and_quoted_text(script: str, listed: Path) -> None:
    for typed, expected in (
        ("x\\ bl", ["x\\ blank\\ and\\ \\ blanks"]),
        ("x\\", replies(script, listed, "dragoman", "sessions", "show", "x")),
        ('"x bl', ["x blank and  blanks"]),
        ("'x bl", ["x blank and  blanks"]),
        ('"x\\$H', ["x\\$HOME"]),
        ("x\\$H", ["x\\$HOME"]),
        ("$(touch PWNED)", []),
        ("nothing", []),
    ):
        offered = replies(script, listed, "dragoman", "sessions", "show", typed)
        assert [reply for reply in offered if reply] == expected, typed
    assert replies(script, listed, "dragoman", "sessions", "show", "ann", "@", "x") == ["x.org/plan"]
    assert replies(script, listed, "dragoman", "sessions", "show", "ann", ":") == ["x/roof\\ work"]
    assert replies(script, listed, "dragoman", "run", "--session", "ann", ":", "x/r") == ["x/roof\\ work"]


@pytest.mark.skipif(BASH is None, reason="there is no bash here")
@pytest.mark.parametrize("quote", QUOTED)
@pytest.mark.parametrize("name", ["x$(touch PWNED)", "x`touch PWNED`;touch PWNED", "x blank 'n\" quote", "ann@x:y/z w"])
def test_tab_on_a_terminal_passes_the_name_and_runs_nothing(script: str, listed: Path, name: str, quote: str) -> None:
    assert BASH is not None
    if quote == "'" and quote in name:
        return
    (listed / "names").write_text(f"{name}\nother\n")
    (listed / "script").write_text(script)
    ours, theirs = pty.openpty()
    environ = {"PATH": f"{listed}:{os.environ['PATH']}", "HOME": str(listed), "LC_ALL": "C.UTF-8", "TERM": "dumb"}
    bash = subprocess.Popen(
        [BASH, "--norc", "--noprofile", "-i"],
        cwd=listed,
        env=environ,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    reader = threading.Thread(target=_read_all, args=(ours,))
    reader.start()
    try:
        os.write(ours, f". ./script\ndragoman sessions show {quote}{name[:1]}\t\nexit\n".encode())
        bash.wait(TIMEOUT)
    finally:
        bash.kill()
        bash.wait()
        reader.join()
        os.close(ours)
    assert (listed / "called").read_text() == f"sessions\nshow\n{name}\n"
    assert not (listed / "PWNED").exists()


def _read_all(fd: int) -> None:
    """Read a terminal until it is closed."""
    try:
        while os.read(fd, 4096):
            pass
    except OSError:
        return


def test_zsh_and_fish_do_not_evaluate_names() -> None:
    zsh, fish = (dragoman("completion", shell).stdout for shell in ("zsh", "fish"))
    for what, command in _LISTING.items():
        assert f'_dragoman_{what}() {{\n  local -a names=(${{(f)"$({command} 2>/dev/null)"}})\n' in zsh
        assert zsh.count(command) == 1  # in no action, which zsh would evaluate
        assert f"-a '({command} 2>/dev/null)'" in fish
