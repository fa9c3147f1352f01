"""`--sandbox` on the command line."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import dragoman as door
from dragoman.transport.sandbox import bubblewrap, landlock
from tests.cli.process import DRAGOMAN, EVERYTHING, TIMEOUT, dragoman, run

SOURCES = str(Path(door.__file__).parents[1])

needs_landlock = pytest.mark.skipif(
    landlock.abi_version() < landlock.TCP_MIN_ABI,
    reason=f"Landlock of this kernel has version {landlock.abi_version()}",
)
needs_bubblewrap = pytest.mark.skipif(
    bubblewrap.find_bubblewrap()[0] is None, reason=bubblewrap.find_bubblewrap()[1] or "-"
)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A working directory next to those of the user."""
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "outside.txt").write_text("canary")
    return folder


def environment(folder: Path) -> str:
    """Create a virtual environment with Dragoman; return its interpreter."""
    venv.create(folder, symlinks=True)
    packages = sysconfig.get_path("purelib", "venv", vars={"base": str(folder), "platbase": str(folder)})
    Path(packages, "dragoman.pth").write_text(f"{SOURCES}\n{sysconfig.get_path('purelib')}\n")
    return str(folder / "bin" / "python")


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(("--sandbox",), marks=needs_landlock, id="landlock"),
        pytest.param(("--sandbox", "bubblewrap", "--sandbox-net", "none"), marks=needs_bubblewrap, id="bubblewrap"),
    ],
)
@pytest.mark.item("000-21")
def test_an_agent_and_its_commands_see_the_folder_and_no_secrets(
    work: Path, how: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIDDEN", "canary")
    monkeypatch.setenv("SHOWN", "seen")
    options = (*how, "--sandbox-read", SOURCES, "--sandbox-env", "SHOWN", "--yes")
    ran = run("/run sh -c 'cat ../outside.txt; echo $HIDDEN $SHOWN; echo x > made'", *options, cwd=work)
    assert ran.returncode == 0, ran.stderr
    assert "seen" in ran.stderr
    assert "canary" not in ran.stderr + ran.stdout
    assert (work / "made").exists()


def test_without_a_sandbox_nothing_starts_and_the_exit_code_is_8(tmp_path: Path) -> None:
    agent = ["touch", "started"]
    for ran in (
        run("hi", "--sandbox", cwd=tmp_path, agent=agent),
        dragoman("translate", "--sandbox", "--", *agent, cwd=tmp_path),
    ):
        assert ran.returncode == 8
        assert "is Dragoman's own; work in a folder that has nothing to do with it" in ran.stderr
        assert len(ran.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "started").exists()


def test_dragoman_inside_the_project_environment_is_an_error_with_advice(tmp_path: Path) -> None:
    project, other = tmp_path / "project", tmp_path / "other"
    other.mkdir()
    python = environment(project / ".venv")
    for arguments in (["run", "--prompt", "hi"], ["translate"]):
        line = [python, "-m", "dragoman", *arguments, "--sandbox", "--", "touch", "started"]
        ran = subprocess.run(line, cwd=project, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        assert ran.returncode == 8, ran.stderr
        assert f"for Dragoman itself runs from {project}/.venv" in ran.stderr
        assert "install it outside of that folder (pipx install dragoman, or uv tool install dragoman)" in ran.stderr
        assert len(ran.stderr.strip().splitlines()) == 1
        assert not (project / "started").exists()


@needs_landlock
def test_dragoman_in_another_projects_environment_works(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    python = environment(tmp_path / "project" / ".venv")
    line = [python, "-m", "dragoman", "run", "--prompt", "hello", "--sandbox", "--sandbox-read", SOURCES]
    ran = subprocess.run(
        [*line, "--", *EVERYTHING], cwd=other, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert ran.returncode == 0, ran.stderr


@needs_landlock
def test_modules_in_the_working_directory_are_not_imported(work: Path) -> None:
    for name in ("argparse", "json", "shutil", "tempfile"):
        (work / f"{name}.py").write_text(f"open({str(work.parent / 'imported')!r}, 'w')\n")
    agent = [sys.executable, "-P", "-m", "dragoman", "agent", "everything"]
    ran = run("hello", "--sandbox", "--sandbox-read", SOURCES, cwd=work, agent=agent)
    assert ran.returncode == 0, ran.stderr
    assert not (work.parent / "imported").exists()


def test_unsupported_bubblewrap_options_are_an_error(work: Path) -> None:
    ran = run("hi", "--sandbox", "bubblewrap", "--sandbox-net", "443", cwd=work)
    assert ran.returncode == 8
    assert "bubblewrap cannot limit TCP to ports; use all or none" in ran.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--sandbox-net", "none"), "--sandbox-net needs --sandbox"),
        (("--sandbox", "--sandbox-net", "http"), "'http' is not a network; use none, all"),
        (("--sandbox", "--sandbox-read", "/no/such"), "--sandbox-read: there is no file or folder /no/such"),
        (("--sandbox", "--sandbox-limit", "files=3"), "give NAME=N, where NAME is one of processes, open_files"),
        (("--sandbox", "docker"), "invalid choice"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_two(work: Path, options: tuple[str, ...], says: str) -> None:
    ran = run("hi", *options, cwd=work)
    assert ran.returncode == 2
    assert says in ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 1


@needs_landlock
def test_translate_confines_the_agent_behind_it(work: Path) -> None:
    prying = ["sh", "-c", 'cat ../outside.txt >&2; exec "$@"', "sh", *EVERYTHING]
    places = [word for path in (SOURCES, sys.prefix, sys.base_prefix) for word in ("--sandbox-read", path)]
    ran = run("hello", "--verbose", cwd=work, agent=[*DRAGOMAN, "translate", "--sandbox", *places, "--", *prying])
    assert ran.returncode == 0, ran.stderr
    assert "outside.txt: Permission denied" in ran.stderr
    assert "canary" not in ran.stdout + ran.stderr


@pytest.mark.parametrize("command", ["run", "translate"])
def test_help_says_what_is_confined(command: str, tmp_path: Path) -> None:
    text = dragoman(command, "--help", cwd=tmp_path).stdout
    assert "--sandbox-net" in text
    assert "exit code 8" in text
    assert "443 (for the model)" in text
