"""What a sandbox grants because of a command: what the user's own command needs, and nothing for an agent's."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from dragoman import Sandbox, SandboxUnavailable
from dragoman.errors import TransportClosed
from dragoman.transport.process.transport import spawn
from dragoman.transport.sandbox import bubblewrap, landlock, system_paths
from dragoman.transport.sandbox.plan import FOLDER_PREFIX, ActiveSandbox, SandboxSupport, plan_sandbox
from dragoman.workspace.terminals import Terminals

# An interpreter or two on a busy machine. Seconds.
BOUND = 60.0

CANARY = "canary"

# A machine with everything, for what is decided before anything starts.
MACHINE = SandboxSupport(6, lambda _: ("/usr/bin/bwrap", ""), "x86_64")


@pytest.fixture(params=["landlock", "bubblewrap"])
def mechanism(request: pytest.FixtureRequest) -> str:
    if request.param == "landlock" and landlock.abi_version() < landlock.FILES_MIN_ABI:
        pytest.skip(f"Landlock of this kernel has version {landlock.abi_version()}")
    if request.param == "bubblewrap" and bubblewrap.find_bubblewrap()[0] is None:
        pytest.skip(bubblewrap.find_bubblewrap()[1])
    return str(request.param)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder to work in, next to a folder with a secret, a tool and a script."""
    outside, work = tmp_path / "outside", tmp_path / "work"
    for folder in (outside, work):
        folder.mkdir()
    (outside / "secret").write_text(f"{CANARY}\n")
    _program(outside / "tool", "#!/bin/sh\necho the tool\n")
    return work


def sandbox(mechanism: str, **more: Any) -> Sandbox:
    """A sandbox without a network."""
    return Sandbox(mechanism=mechanism, **{"net": "none", **more})


Ended = tuple[str, int | None]


def output_of(confined: Sandbox, roots: list[Path], *lines: tuple[str, ...], **more: Any) -> list[Ended]:
    """What commands of one workspace print, one after the other, and their exit codes."""

    async def main() -> list[Ended]:
        terminals = Terminals([str(root) for root in roots], sandbox=confined)
        try:
            async with asyncio.timeout(BOUND):
                return [await one(terminals, *line) for line in lines]
        finally:
            await terminals.close()

    async def one(terminals: Terminals, command: str, *args: str) -> Ended:
        terminal = await terminals.create(command, args, **more)
        ended = await terminal.wait()
        return terminal.output().text, ended.code

    return asyncio.run(main())


def first_words_of(command: list[str], cwd: Path, confined: Sandbox) -> str:
    """The first line that an agent prints; empty if it ends without one."""

    async def main() -> str:
        async with asyncio.timeout(BOUND):
            transport = await spawn(command, cwd=cwd, sandbox=confined)
            try:
                frames = await transport.receive()
            except TransportClosed:
                return ""
            finally:
                await transport.close()
        return b"".join(frame for frame in frames if isinstance(frame, bytes)).decode()

    return asyncio.run(main())


@pytest.mark.parametrize("line", [("cat", "{}"), ("sh", "-c", 'cat "$0"', "{}"), ("head", "-n1", "{}")])
def test_a_file_in_an_agents_command_is_not_made_readable(work: Path, mechanism: str, line: tuple[str, ...]) -> None:
    secret = str(work.parent / "outside" / "secret")
    ((text, code),) = output_of(sandbox(mechanism), [work], tuple(word.format(secret) for word in line))
    assert CANARY not in text
    assert code != 0


def test_an_agents_command_can_use_a_file_that_the_user_granted(work: Path, mechanism: str) -> None:
    secret = str(work.parent / "outside" / "secret")
    assert output_of(sandbox(mechanism, read=(secret,)), [work], ("cat", secret)) == [(f"{CANARY}\n", 0)]


def test_an_agents_command_cannot_run_a_program_outside_and_the_output_says_what_to_do(
    work: Path, mechanism: str
) -> None:
    outside = work.parent / "outside"
    ((text, code),) = output_of(sandbox(mechanism), [work], (str(outside / "tool"),))
    assert code == 126
    assert "tool cannot be executed: it is outside of the sandbox; if it is installed" in text
    assert "--sandbox-read DIR" in text
    granted = sandbox(mechanism, read=(str(outside),))
    assert output_of(granted, [work], (str(outside / "tool"),)) == [("the tool\n", 0)]


def test_a_link_in_the_folder_gives_no_access_to_a_program_outside(work: Path, mechanism: str) -> None:
    (work / "link").symlink_to(work.parent / "outside" / "tool")
    ((text, code),) = output_of(sandbox(mechanism), [work], (str(work / "link"),))
    assert code == 126
    assert "the tool" not in text


def test_a_script_in_the_folder_gives_no_access_to_an_interpreter_outside(work: Path, mechanism: str) -> None:
    _program(work / "script", f"#!{work.parent}/outside/tool\n")
    ((text, code),) = output_of(sandbox(mechanism), [work], (str(work / "script"),))
    assert code != 0
    assert "the tool" not in text


def test_a_program_is_found_later_on_the_path_if_an_earlier_one_is_outside(work: Path, mechanism: str) -> None:
    _program(work.parent / "outside" / "cat", "#!/bin/sh\necho the wrong one\n")
    (work / "file").write_text("from the folder")
    path = {"PATH": f"{work.parent}/outside:/usr/bin:/bin"}
    assert output_of(sandbox(mechanism), [work], ("cat", str(work / "file")), env=path) == [("from the folder", 0)]


def test_a_program_in_the_folder_is_executed(work: Path, mechanism: str) -> None:
    _program(work / "mine", "#!/bin/sh\necho mine\n")
    assert output_of(sandbox(mechanism), [work], (str(work / "mine"),)) == [("mine\n", 0)]


_AGENT = """
import json
try:
    got = open({secret!r}).read()
except OSError as error:
    got = "refused"
print(json.dumps({{"got": got}}), flush=True)
"""


def test_the_users_command_adds_its_script_and_nothing_next_to_it(work: Path, mechanism: str) -> None:
    outside = work.parent / "outside"
    (outside / "agent.py").write_text(_AGENT.format(secret=str(outside / "secret")))
    words = first_words_of([sys.executable, "-I", "-S", str(outside / "agent.py")], work, sandbox(mechanism))
    assert json.loads(words) == {"got": "refused"}


def test_a_link_in_the_folder_gives_the_users_command_no_access_outside_either(work: Path, mechanism: str) -> None:
    (work / "agent.py").symlink_to(work.parent / "outside" / "secret")
    assert first_words_of(["cat", str(work / "agent.py")], work, sandbox(mechanism)) == ""


def test_a_virtual_environment_in_the_folder_finds_its_python(work: Path, mechanism: str) -> None:
    venv.create(work / "venv", symlinks=True)
    _program(work / "agent", f"#!{work}/venv/bin/python -I\nprint('[1]', flush=True)\n")
    assert first_words_of(["./agent"], work, sandbox(mechanism)) == "[1]"


def test_a_folder_with_two_names_is_accessible_by_both(work: Path, mechanism: str) -> None:
    other = work.parent / "other"
    other.symlink_to(work.parent)
    _program(work / "agent", "#!/bin/sh\necho '[1]'\n")
    assert first_words_of([str(other / "work" / "agent")], work, sandbox(mechanism)) == "[1]"


def test_links_and_scripts_in_a_writable_folder_add_nothing_but_an_installed_python(tmp_path: Path) -> None:
    work, home, python = tmp_path / "work", tmp_path / "home", tmp_path / "python"
    for folder in (work / "bin", home, python / "bin", python / "lib" / "python3.11"):
        folder.mkdir(parents=True)
    (home / "key").write_text(CANARY)
    (python / "lib" / "python3.11" / "os.py").write_text("")
    _program(python / "bin" / "python3.11", "")
    _program(work / "by-line", f"#!{home}/key\n")
    (work / "by-link").symlink_to(home / "key")
    (work / "by-folder").symlink_to(home)
    (work / "bin" / "python").symlink_to(python / "bin" / "python3.11")
    _program(work / "by-python", f"#!{work}/bin/python\n")
    for name in ("by-line", "by-link", "by-folder/key"):
        assert system_paths.required_paths(str(work / name), [str(work / name)], [str(work)]) == []
    assert system_paths.required_paths(str(work / "by-python"), [], [str(work)]) == [str(python)]
    outside = tmp_path / "agent"
    outside.symlink_to(work / "by-line")
    assert system_paths.required_paths(str(outside), [str(outside)], [str(work)]) == []


def test_a_subfolder_that_becomes_a_link_gives_no_access(work: Path, mechanism: str) -> None:
    outside = work.parent / "outside"
    (work / "inner").mkdir()
    (work / "read").mkdir()
    confined = sandbox(mechanism, read=(str(work / "read"),))
    swap = f"rmdir inner read && ln -s {outside} inner && ln -s {outside} read"
    done, *others = output_of(
        confined,
        [work, work / "inner"],
        ("sh", "-c", swap),
        ("sh", "-c", "echo x > inner/made"),
        ("cat", "read/secret"),
    )
    assert done[1] == 0, done
    assert 0 not in [code for _, code in others]
    assert CANARY not in others[1][0]
    assert not (outside / "made").exists()


def test_a_writable_folder_that_is_replaced_by_a_link_is_no_longer_writable(work: Path, mechanism: str) -> None:
    outside = work.parent / "outside"
    box = ActiveSandbox(sandbox(mechanism), [str(work)])
    try:
        wrapped = box.wrap(["/bin/sh", "-c", f"echo x > {outside}/made; cat {outside}/secret"], {}, str(work))
        work.rename(work.parent / "moved")
        work.symlink_to(outside)
        with pytest.raises(OSError, match="is a link now"):
            box.wrap(["/bin/sh", "-c", "true"], {}, str(work))
        text, code = _ran(wrapped.argv, wrapped.environ, wrapped.plan_fd)
    finally:
        box.close()
    assert "the sandbox for /bin/sh could not be made" in text
    assert code == 125
    assert not (outside / "made").exists()


@pytest.mark.parametrize("how", ["read", "write"])
def test_a_grant_through_a_link_in_a_writable_folder_is_refused_with_its_real_name(work: Path, how: str) -> None:
    (work / "link").symlink_to(work.parent / "outside")
    with pytest.raises(SandboxUnavailable, match=f"name {work.parent}/outside itself"):
        plan_sandbox(sandbox("auto", **{how: (str(work / "link"),)}), [str(work)], MACHINE)
    assert plan_sandbox(Sandbox(net="none", read=(str(work),)), [str(work)], MACHINE).write_paths == (str(work),)


def test_the_private_folder_is_not_in_a_writable_one(
    work: Path, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(work))
    monkeypatch.setattr("dragoman.transport.sandbox.plan._FALLBACK_FOLDERS", (str(work.parent / "outside"),))
    box = ActiveSandbox(sandbox(mechanism), [str(work)])
    try:
        assert os.path.dirname(box.folder) == str(work.parent / "outside")
    finally:
        box.close()
    monkeypatch.setattr("dragoman.transport.sandbox.plan._FALLBACK_FOLDERS", ())
    with pytest.raises(SandboxUnavailable, match="set TMPDIR to a folder that is not"):
        ActiveSandbox(sandbox(mechanism), [str(work)])
    assert not [path for path in work.iterdir() if path.name.startswith(FOLDER_PREFIX)]


@pytest.mark.parametrize("name", ["prefix", "exec_prefix", "base_prefix", "base_exec_prefix"])
def test_a_folder_that_python_is_installed_in_is_not_writable(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, name, str(tmp_path / "project" / ".venv"))
    with pytest.raises(SandboxUnavailable) as raised:
        plan_sandbox(Sandbox(net="none"), [str(tmp_path / "project")], MACHINE)
    assert f"Dragoman itself runs from {tmp_path}/project/.venv" in str(raised.value)
    assert "pipx install dragoman, or uv tool install dragoman" in str(raised.value)
    assert plan_sandbox(Sandbox(net="none"), [str(tmp_path / "project" / ".venv" / "project")], MACHINE)
    assert plan_sandbox(Sandbox(net="none"), [str(tmp_path / "other")], MACHINE)


def test_a_folder_that_the_interpreter_is_reached_through_is_not_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "python").symlink_to(sys.executable)
    (tmp_path / "python").symlink_to(project / "python")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(SandboxUnavailable, match="Dragoman itself runs from"):
        plan_sandbox(Sandbox(net="none"), [str(project)], MACHINE)


def test_folders_around_and_in_dragoman_are_not_writable() -> None:
    package = os.path.dirname(os.path.dirname(os.path.abspath(system_paths.__file__)))
    for folder in (os.path.dirname(package), package, os.path.join(package, "transport"), os.path.dirname(os.__file__)):
        with pytest.raises(SandboxUnavailable, match="Dragoman itself runs from"):
            plan_sandbox(Sandbox(net="none"), [folder], MACHINE)


@pytest.mark.parametrize("entry", ["", "{}/src"])
def test_a_folder_that_modules_are_imported_from_is_not_writable(
    tmp_path: Path, entry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry.format(tmp_path), *(path for path in sys.path if path)])
    with pytest.raises(SandboxUnavailable, match=r"imports modules from .*; take that folder out of PYTHONPATH"):
        plan_sandbox(Sandbox(net="none"), [str(tmp_path)], MACHINE)


def test_a_marker_of_an_importer_in_the_module_path_is_not_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["__editable__.tool-1.finder.__path_hook__", *filter(None, sys.path)])
    assert plan_sandbox(Sandbox(net="none"), [str(tmp_path)], MACHINE)


def test_the_launcher_imports_nothing_that_an_agent_can_write(work: Path, mechanism: str) -> None:
    evil = f"open({str(work.parent / 'outside' / 'made')!r}, 'w')\n"
    for name in ("base64", "ctypes", "json", "os", "sitecustomize", "usercustomize"):
        (work / f"{name}.py").write_text(evil)
    (work / "dragoman").mkdir()
    (work / "dragoman" / "__init__.py").write_text(evil)
    env = {"PYTHONPATH": str(work), "PYTHONHOME": str(work), "PYTHONSTARTUP": str(work / "json.py")}
    assert output_of(sandbox(mechanism), [work], ("echo", "ran"), env=env) == [("ran\n", 0)]
    assert not (work.parent / "outside" / "made").exists()


def test_the_launcher_finds_libraries_only_where_no_agent_writes(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work.parent / "link").symlink_to(work / "lib")
    given = [str(work / "lib"), "", "lib", "/usr/lib", str(work.parent / "link")]
    monkeypatch.setenv("LD_LIBRARY_PATH", ":".join(given))
    box = ActiveSandbox(Sandbox(net="none"), [str(work)], MACHINE)
    try:
        wrapped = box.wrap(["/bin/sh"], {}, str(work))
        os.close(wrapped.plan_fd)
    finally:
        box.close()
    assert wrapped.environ == {"LD_LIBRARY_PATH": "/usr/lib"}


def test_bubblewrap_is_not_taken_from_a_folder_that_agents_write(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = f"#!/bin/sh\ntouch {work.parent}/outside/made\n"
    _program(work / "bwrap", evil)
    (work.parent / "bin").mkdir()
    (work.parent / "bin" / "bwrap").symlink_to(work / "bwrap")
    monkeypatch.chdir(work)
    monkeypatch.setenv("PATH", f"{work}:{work.parent}/bin:.:")
    assert bubblewrap.find_bubblewrap([str(work)]) == (None, "bubblewrap (bwrap) is not installed")
    assert not (work.parent / "outside" / "made").exists()


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _ran(words: list[str], environ: dict[str, str], fd: int) -> tuple[str, int]:
    import subprocess

    try:
        ended = subprocess.run(words, env=environ, pass_fds=(fd,), capture_output=True, timeout=BOUND, check=False)
    finally:
        os.close(fd)
    return (ended.stdout + ended.stderr).decode(), ended.returncode
