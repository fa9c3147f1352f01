"""The sandbox: real processes try every known way to escape; the same attempts succeed without a sandbox."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import dragoman
from dragoman import connect
from dragoman.config.paths import protect_user_files
from dragoman.errors import Kind, ProtocolError
from dragoman.transport.process.transport import spawn
from dragoman.transport.sandbox import bubblewrap, landlock
from dragoman.transport.sandbox.plan import FOLDER_PREFIX, ActiveSandbox, SandboxSupport, detect_support
from dragoman.transport.sandbox.spec import Limits, Sandbox
from dragoman.workspace.terminals import Terminals
from tests.workspace import escape_attempts

# A handful of interpreters on a busy machine. Seconds.
BOUND = 60.0

CANARY = "canary"
TOO_LARGE = 1 << 21

MECHANISMS = ("landlock", "bubblewrap")

# Where this interpreter is installed: a command of a terminal brings nothing along.
PYTHON = (sys.prefix, sys.base_prefix)

WAYS_OUT = [name for name in escape_attempts.ATTEMPTS if name != "connect_to_granted_port"]

# Without a sandbox too these need root, or a kernel that has what they use.
PRIVILEGED = {"change_kernel_settings", "make_device_inside", "make_disk_inside", "open_kernel_log"}
RAISING = {name for name in escape_attempts.ATTEMPTS if name.startswith("raise_")}
SIGNALS = {"signal_parent", "signal_parent_by_descriptor"}


def need(mechanism: str) -> None:
    """Skip the test if this machine does not have it."""
    if mechanism == "landlock" and landlock.abi_version() < landlock.TCP_MIN_ABI:
        pytest.skip(f"Landlock of this kernel has version {landlock.abi_version()}; this takes {landlock.TCP_MIN_ABI}")
    if mechanism == "bubblewrap" and bubblewrap.find_bubblewrap()[0] is None:
        pytest.skip(bubblewrap.find_bubblewrap()[1])


def sandbox(mechanism: str, **more: Any) -> Sandbox:
    """A sandbox without a network."""
    return Sandbox(mechanism=mechanism, **{"net": "none", **more})


@pytest.fixture(params=MECHANISMS)
def mechanism(request: pytest.FixtureRequest) -> str:
    need(request.param)
    return str(request.param)


@pytest.fixture(scope="module")
def ground() -> Iterator[Path]:
    """Return a folder with a short path, because the length of socket paths is limited."""
    with tempfile.TemporaryDirectory(prefix="ground-") as folder:
        yield Path(os.path.realpath(folder))


class Run(NamedTuple):
    """The results of the attempts of one run, and the state afterwards."""

    got: dict[str, dict[str, Any]]
    outside: Path
    home: Path

    def escape(self, name: str) -> str:
        """Return how an attempt escaped; empty if it did not."""
        gave = json.dumps(self.got[name].get("gave"))
        if CANARY in gave:
            return f"it got {gave}"
        left = {path.name: path.read_text() if path.is_file() else "?" for path in (self.outside / name).iterdir()}
        if left != {"file": CANARY}:
            return f"it left {left}"
        for attempt, path in (
            ("write_policy", ".config/dragoman/policy.toml"),
            ("write_grants", ".local/state/dragoman/grants.json"),
        ):
            if name == attempt and (self.home / path).read_text() != "ours":
                return f"it changed {path}"
        return ""


def probe(top: Path, mechanism: str | None) -> Run:
    """Make all attempts, in a sandbox or without one."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        prepared = prepare(top, stack)
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
            patch.delenv(name, raising=False)
        patch.setenv("HOME", prepared["home"])
        patch.setenv("MY_CANARY_TOKEN", CANARY)
        shutil.copy(escape_attempts.__file__, top / "inside" / "prober.py")
        confined = None
        if mechanism is not None:
            net = str(prepared["granted"]) if mechanism == "landlock" else "none"
            limits = Limits(file_size=TOO_LARGE // 2)
            confined = protect_user_files(Sandbox(net=net, mechanism=mechanism, read=PYTHON, limits=limits))

        async def main() -> str:
            terminals = Terminals([prepared["inside"]], sandbox=confined)
            words = ["-I", "-S", str(top / "inside" / "prober.py"), json.dumps(prepared)]
            async with asyncio.timeout(BOUND):
                terminal = await terminals.create(sys.executable, words)
                await terminal.wait()
                await terminals.close()
            return terminal.output().text

        output = asyncio.run(main())
        try:
            return Run(json.loads(output), top / "outside", top / "home")
        except ValueError:
            raise AssertionError(output) from None


def prepare(top: Path, stack: ExitStack) -> dict[str, Any]:
    """Create everything that the attempts look for."""
    home, outside, inside = top / "home", top / "outside", top / "inside"
    for folder in (inside, home / ".ssh", home / ".config/dragoman", home / ".local/state/dragoman"):
        folder.mkdir(parents=True)
    for name in escape_attempts.ATTEMPTS:
        (outside / name).mkdir(parents=True)
        (outside / name / "file").write_text(CANARY)
    (home / ".ssh" / "id").write_text(CANARY)
    (home / ".config/dragoman/policy.toml").write_text("ours")
    (home / ".local/state/dragoman/grants.json").write_text("ours")
    (top / "secret").write_text(CANARY)
    shutil.copy(shutil.which("true") or "/bin/true", top / "program")
    os.mkfifo(top / "pipe")
    held = os.open(top / "secret", os.O_RDONLY)
    ours, theirs = os.openpty()
    for fd in (ours, theirs, held):
        stack.callback(os.close, fd)
    listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
    for address in (str(top / "s"), f"\0dragoman-{top.name}-{os.getpid()}"):
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(address)
        listener.listen()
    return {
        "inside": str(inside),
        "outside": str(outside),
        "home": str(home),
        "config": str(home / ".config/dragoman"),
        "state": str(home / ".local/state/dragoman"),
        "program": str(top / "program"),
        "pipe": str(top / "pipe"),
        "terminal": os.ttyname(theirs),
        "parent": os.getpid(),
        "parent_fd": held,
        "parent_folder": os.getcwd(),
        "granted": listeners[0].getsockname()[1],
        "refused": listeners[1].getsockname()[1],
        "socket": str(top / "s"),
        "abstract": address,
        "too_large": TOO_LARGE,
    }


RUNS: dict[str, Run] = {}


def run_of(ground: Path, mechanism: str | None) -> Run:
    """Return the run of a mechanism, which is cached because it has all attempts."""
    name = mechanism or "open"
    if mechanism is not None:
        need(mechanism)
    if name not in RUNS:
        RUNS[name] = probe(ground / name[:1], mechanism)
    return RUNS[name]


@pytest.mark.parametrize("name", WAYS_OUT)
@pytest.mark.parametrize("how", MECHANISMS)
def test_no_attempt_escapes_a_sandbox(ground: Path, how: str, name: str) -> None:
    if how == "landlock" and name in SIGNALS and landlock.abi_version() < 6:
        pytest.skip("signals to others are refused by Landlock from version 6 on")
    assert run_of(ground, how).escape(name) == ""


@pytest.mark.parametrize("name", escape_attempts.ATTEMPTS)
def test_without_a_sandbox_the_same_attempts_succeed(ground: Path, name: str) -> None:
    if os.geteuid() != 0 and name in PRIVILEGED | RAISING:
        pytest.skip("takes root")
    run = run_of(ground, None)
    if name in {"connect_by_several_paths", "connect_while_sending"} | RAISING and "failed" in run.got[name]:
        pytest.skip(f"this machine does not have it: {run.got[name]}")
    assert run.escape(name) != "", run.got[name]


def test_a_port_that_is_granted_can_be_reached(ground: Path) -> None:
    assert run_of(ground, "landlock").got["connect_to_granted_port"] == {"gave": CANARY}


@pytest.mark.parametrize("how", MECHANISMS)
def test_the_races_were_run(ground: Path, how: str) -> None:
    got = run_of(ground, how).got
    races = [name for name in escape_attempts.ATTEMPTS if name.endswith("_while_swapping")]
    assert [name for name in races if "gave" not in got[name]] == []
    assert got["read_while_swapping"] == {"gave": ["written from inside"]}


@pytest.mark.parametrize("how", MECHANISMS)
def test_the_private_home_is_removed_afterwards(ground: Path, how: str) -> None:
    home = run_of(ground, how).got["find_home"]["gave"]
    assert os.path.basename(os.path.dirname(home)).startswith(FOLDER_PREFIX)
    assert not os.path.exists(os.path.dirname(home))


# --- commands -------------------------------------------------------------------------------------------------


def output_of(folder: Path, confined: Sandbox, command: str, **more: Any) -> tuple[str, int | None]:
    """Return the output and exit code of a command."""

    async def main() -> tuple[str, int | None]:
        terminals = Terminals([str(folder)], sandbox=confined)
        try:
            async with asyncio.timeout(BOUND):
                terminal = await terminals.create(command, **more)
                ended = await terminal.wait()
                return terminal.output().text, ended.code
        finally:
            await terminals.close()

    return asyncio.run(main())


def test_a_command_can_use_its_folder_and_its_private_folders(tmp_path: Path, mechanism: str) -> None:
    line = "mkdir a b && echo hello > a/x && mv a/x b/y && cat b/y && echo t > $TMPDIR/t && echo h > ~/h && cat ~/h"
    text, code = output_of(tmp_path, sandbox(mechanism), line)
    assert (text, code) == ("hello\nh\n", 0)
    assert (tmp_path / "b" / "y").read_text() == "hello\n"


def test_a_command_in_a_real_terminal_is_confined_too(tmp_path: Path, mechanism: str) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret").write_text(CANARY)
    line = "tty; echo to-the-terminal > /dev/tty; cat ../secret"
    text, code = output_of(inside, sandbox(mechanism), line, pty=True)
    assert "not a tty" not in text
    assert "to-the-terminal" in text
    assert CANARY not in text
    assert code == 1


def test_paths_that_the_user_allows_are_available_in_the_home(
    tmp_path: Path, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    for folder in (home / ".tool", home / ".cache" / "tool", work):
        folder.mkdir(parents=True)
    (home / ".tool" / "settings").write_text("settings")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TOOL_KEY", "key")
    confined = sandbox(mechanism, read=("~/.tool",), write=("~/.cache/tool",), env=("TOOL_KEY",))
    line = "cat ~/.tool/settings; echo $TOOL_KEY; echo kept > ~/.cache/tool/x; echo no > ~/.tool/settings"
    text, code = output_of(work, confined, line)
    assert text.startswith("settingskey\n")
    assert code != 0
    assert (home / ".cache" / "tool" / "x").read_text() == "kept\n"
    assert (home / ".tool" / "settings").read_text() == "settings"


def test_variables_that_the_agent_sets_are_seen_by_the_command_and_by_nothing_before_it(
    tmp_path: Path, mechanism: str
) -> None:
    assert output_of(tmp_path, sandbox(mechanism), "echo $MINE", env={"MINE": "mine"})[0] == "mine\n"
    box = ActiveSandbox(sandbox(mechanism), [str(tmp_path)])
    try:
        wrapped = box.wrap(["/bin/sh"], {"LD_PRELOAD": "/tmp/evil.so", "PATH": "/bin"}, str(tmp_path))
        os.close(wrapped.plan_fd)
        assert "LD_PRELOAD" not in wrapped.environ
        assert "evil" not in " ".join(wrapped.argv)
    finally:
        box.close()


def test_a_missing_command_gives_the_same_error_as_without_a_sandbox(tmp_path: Path, mechanism: str) -> None:
    with pytest.raises(ProtocolError) as raised:
        output_of(tmp_path, sandbox(mechanism), "no-such-command-at-all")
    assert raised.value.kind == Kind.RESOURCE_NOT_FOUND


def test_a_sandbox_can_be_used_inside_another(tmp_path: Path) -> None:
    need("landlock")
    inner = str(_create_folder(tmp_path / "inner"))
    code = (
        "import sys; sys.path.extend(sys.argv[1].split(':'))\n"
        "from dragoman.transport.sandbox.plan import ActiveSandbox\n"
        "from dragoman.transport.sandbox.spec import Sandbox\n"
        "import subprocess\n"
        "box = ActiveSandbox(Sandbox(net='none', mechanism='landlock'), [sys.argv[2]])\n"
        "line = ['/bin/sh', '-c', 'echo x > y; echo x > ../z']\n"
        "words, environ, fd = box.wrap(line, box.environment({}), sys.argv[2])\n"
        "print(subprocess.run(words, env=environ, pass_fds=(fd,), cwd=sys.argv[2]).returncode)\n"
        "box.close()\n"
    )
    import msgspec

    import dragoman

    sources = str(Path(dragoman.__file__).parents[1])
    packages = str(Path(msgspec.__file__).parents[1])
    confined = sandbox("landlock", read=(sources, packages, *PYTHON))
    text, _ = output_of(tmp_path, confined, sys.executable, args=["-c", code, f"{sources}:{packages}", inner])
    assert text.splitlines()[-1] == "2", text
    assert (tmp_path / "inner" / "y").exists()
    assert not (tmp_path / "z").exists()


def test_without_an_available_sandbox_no_command_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = SandboxSupport(0, lambda _: (None, "bubblewrap (bwrap) is not installed"), "x86_64")
    monkeypatch.setattr("dragoman.transport.sandbox.plan.detect_support", lambda: nothing)
    with pytest.raises(ProtocolError, match="no Landlock") as raised:
        output_of(tmp_path, Sandbox(), "touch here")
    assert raised.value.kind == Kind.CAPABILITY_UNSUPPORTED
    assert list(tmp_path.iterdir()) == []


def test_the_configured_limits_apply(tmp_path: Path, mechanism: str) -> None:
    confined = sandbox(mechanism, limits=Limits(open_files=321, cpu_seconds=1234, memory=1 << 31))
    line = "ulimit -Hn; ulimit -Hc; ulimit -Ht; ulimit -Hv; ulimit -Sn"
    assert output_of(tmp_path, confined, line)[0].split() == ["321", "0", "1234", str(1 << 21), "321"]


# --- links in the place of folders ----------------------------------------------------------------------------


def test_no_command_is_started_where_a_folder_of_its_sandbox_became_a_link(tmp_path: Path, mechanism: str) -> None:
    work, private = _create_folder(tmp_path / "work"), _create_folder(tmp_path / "private")
    box = ActiveSandbox(sandbox(mechanism), [str(work)])
    try:
        work.rename(tmp_path / "aside")
        work.symlink_to(private)
        with pytest.raises(OSError, match="is a link now"):
            box.wrap(["/bin/sh"], {"PATH": "/bin"}, str(work))
    finally:
        box.close()


def test_a_folder_that_becomes_a_link_while_a_command_is_started_opens_nothing(tmp_path: Path) -> None:
    need("landlock")
    work, private = _create_folder(tmp_path / "work"), _create_folder(tmp_path / "private")
    (private / "secret").write_text(CANARY)
    box = ActiveSandbox(sandbox("landlock"), [str(work)])
    try:
        line = f"cat {private}/secret; echo x > {private}/left; echo done"
        wrapped = box.wrap(["/bin/sh", "-c", line], {"PATH": "/bin:/usr/bin"}, str(work))
        work.rename(tmp_path / "aside")
        work.symlink_to(private)
        ended = subprocess.run(
            wrapped.argv,
            env=wrapped.environ,
            pass_fds=(wrapped.plan_fd,),
            capture_output=True,
            timeout=BOUND,
            check=False,
        )
        os.close(wrapped.plan_fd)
        assert (ended.returncode, ended.stdout) == (125, b"")
        assert not (private / "left").exists()
    finally:
        box.close()


def test_a_link_as_the_folder_of_a_sandboxed_agent_is_resolved(tmp_path: Path) -> None:
    need("landlock")
    work = _create_folder(tmp_path / "work")
    (tmp_path / "link").symlink_to(work)

    async def main() -> str:
        command, folder = [sys.executable, "-m", "dragoman", "agent", "everything"], str(tmp_path / "link")
        confined = sandbox("landlock", read=(os.path.dirname(os.path.dirname(dragoman.__file__)),))
        async with asyncio.timeout(BOUND), connect(command, cwd=folder, sandbox=confined) as agent:
            return await (await agent.open_session(folder)).ask("/echo here")

    assert asyncio.run(main()) == "here"


# --- the private folder ---------------------------------------------------------------------------------------


def test_folders_of_dead_processes_are_removed_and_those_in_use_stay(
    tmp_path: Path, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead, alive, work = tmp_path / f"{FOLDER_PREFIX}dead", tmp_path / f"{FOLDER_PREFIX}alive", tmp_path / "work"
    for folder in (dead / "home", alive, work):
        folder.mkdir(parents=True)
    fd = os.open(alive, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        box = ActiveSandbox(sandbox(mechanism), [str(work)])
        assert not dead.exists()
        assert alive.exists()
        box.close()
        box.close()
        assert sorted(path.name for path in tmp_path.iterdir()) == [alive.name, "work"]
    finally:
        os.close(fd)


def test_a_folder_that_another_process_took_for_a_stale_one_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def remove_the_first(*arguments: Any, **options: Any) -> str:
        made.append(make(*arguments, **options))
        if len(made) == 1:
            os.rmdir(made[0])
        return made[-1]

    make = tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "mkdtemp", remove_the_first)
    support = SandboxSupport(landlock.TCP_MIN_ABI, lambda _: (None, ""), "x86_64")
    active = ActiveSandbox(Sandbox(), [os.path.realpath(tmp_path)], support)
    assert active.folder == os.path.realpath(made[1])
    active.close()


def test_the_private_folder_is_removed_even_without_permissions(tmp_path: Path, mechanism: str) -> None:
    line = "mkdir -p ~/a/b && touch ~/a/b/c && chmod 000 ~/a/b ~/a && echo $HOME"
    text, code = output_of(tmp_path, sandbox(mechanism), line)
    assert code == 0
    assert not os.path.exists(os.path.dirname(text.strip()))


# --- agents ---------------------------------------------------------------------------------------------------

_AGENT = """
import json, os, subprocess, sys
try:
    got = open(sys.argv[1]).read()
except OSError as error:
    got = error.strerror
subprocess.Popen(["sleep", "600"], start_new_session=True)
print(json.dumps({"got": got, "token": os.environ.get("MY_CANARY_TOKEN"), "home": os.environ["HOME"]}), flush=True)
sys.stdin.read()
"""


def test_a_sandboxed_agent_is_confined_and_leaves_nothing(
    tmp_path: Path, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_CANARY_TOKEN", CANARY)
    work, secrets = tmp_path / "work", tmp_path / "secrets"
    for folder in (work, secrets):
        folder.mkdir()
    (secrets / "secret").write_text(CANARY)

    async def main() -> dict[str, Any]:
        script = work / "agent.py"
        script.write_text(_AGENT)
        command = [sys.executable, "-I", "-S", "agent.py", "../secrets/secret"]
        async with asyncio.timeout(BOUND):
            transport = await spawn(command, cwd=work, sandbox=sandbox(mechanism))
            frames = await transport.receive()
            await transport.close()
        assert isinstance(frames[0], bytes)
        output: dict[str, Any] = json.loads(frames[0])
        return output

    output = asyncio.run(main())
    assert output["got"] in ("Permission denied", "No such file or directory")
    assert output["token"] is None
    assert not os.path.exists(os.path.dirname(output["home"]))
    private = output["home"].encode()
    left = [path for path in Path("/proc").glob("[0-9]*/environ") if private in _bytes(path)]
    assert left == []


def test_a_missing_interpreter_is_reported(tmp_path: Path) -> None:
    need("landlock")
    tool = tmp_path / "agent"
    tool.write_text(f"#!{tmp_path}/wrapper\n")
    (tmp_path / "wrapper").symlink_to(tmp_path / "missing")
    tool.chmod(0o755)
    text, code = output_of(tmp_path, sandbox("landlock"), str(tool))
    assert code == 127
    assert text.startswith("dragoman: ")
    assert "interpreter" in text


def test_the_sandbox_of_this_machine_is_shown() -> None:
    found = detect_support()
    assert found.landlock_abi == landlock.abi_version() >= 0
    where, why = found.find_bubblewrap(())
    assert bool(where) is not bool(why)


def _create_folder(path: Path) -> Path:
    path.mkdir()
    return path


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
