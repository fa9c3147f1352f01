"""A sandboxed process has its user's id; authentication by user id alone must not accept it."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.transport.remote.server import origin
from dragoman.transport.remote.server.auth import AuthRequest, Refused
from dragoman.transport.remote.server.origin import authenticate_local
from dragoman.transport.sandbox import bubblewrap, landlock
from dragoman.transport.sandbox.plan import ActiveSandbox
from dragoman.transport.sandbox.spec import Sandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who owns a socket")

# Longer than an interpreter takes to start on a busy machine. Seconds.
BOUND = 60.0

# Connects, prints a line, and waits; first hides its open files, if asked for.
CLIENT = """
import ctypes, socket, sys
if sys.argv[2] == "hidden":
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
plug = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
sys.stdin.read()
"""


@pytest.fixture(params=["landlock", "bubblewrap"])
def mechanism(request: pytest.FixtureRequest) -> str:
    if request.param == "landlock" and landlock.abi_version() < landlock.FILES_MIN_ABI:
        pytest.skip(f"Landlock of this kernel has version {landlock.abi_version()}")
    if request.param == "bubblewrap" and bubblewrap.find_bubblewrap()[0] is None:
        pytest.skip(bubblewrap.find_bubblewrap()[1])
    return str(request.param)


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(BOUND)
        yield listening


@contextmanager
def connected(listening: socket.socket, box: ActiveSandbox | None = None, how: str = "plain") -> Iterator[AuthRequest]:
    """The AuthRequest of another process, in a sandbox if there is one."""
    words = [sys.executable, "-I", "-S", "-c", CLIENT, str(listening.getsockname()[1]), how]
    environ: dict[str, str] = {}
    handed: list[int] = []
    if box is not None:
        words, environ, fd = box.wrap(words, {}, "/", by_user=True)
        handed.append(fd)
    process = subprocess.Popen(words, env=environ, stdin=subprocess.PIPE, pass_fds=handed, cwd="/")
    for fd in handed:
        os.close(fd)
    try:
        accepted, (address, port) = listening.accept()
        with accepted:
            yield AuthRequest(address=address, port=port, server_address=listening.getsockname())
    finally:
        process.communicate(timeout=BOUND)


@contextmanager
def boxed(mechanism: str, folder: Path) -> Iterator[ActiveSandbox]:
    """A sandbox that reaches every port."""
    box = ActiveSandbox(Sandbox(mechanism=mechanism, net="all"), [str(folder)])
    try:
        yield box
    finally:
        box.close()


@pytest.mark.parametrize("how", ["plain", "hidden"])
def test_a_process_in_a_sandbox_is_not_the_owner(
    listening: socket.socket, tmp_path: Path, mechanism: str, how: str
) -> None:
    with boxed(mechanism, tmp_path) as box, connected(listening, box, how) as knock:
        for _ in range(2):
            with pytest.raises(Refused, match="this may be a sandboxed program") as refused:
                asyncio.run(authenticate_local(knock))
            assert refused.value.status == 403


def test_the_owner_is_accepted_while_a_sandbox_is_in_use(
    listening: socket.socket, tmp_path: Path, mechanism: str
) -> None:
    with boxed(mechanism, tmp_path) as box, connected(listening, box), connected(listening) as knock:
        assert asyncio.run(authenticate_local(knock)).is_local


async def test_requests_of_one_socket_look_at_the_processes_once(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    monkeypatch.setattr(origin, "may_be_confined", lambda inode, uid: looks.append(inode))
    with connected(listening) as knock:
        await asyncio.gather(*(authenticate_local(knock) for _ in range(50)))
    assert len(looks) == 1


def test_a_socket_without_a_visible_process_is_refused_only_while_a_sandbox_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(origin, "_PROCESSES", str(tmp_path))

    def write(pid: str, confined: int, uid: int = 7, inode: str = "") -> None:
        (tmp_path / pid / "fd").mkdir(parents=True, exist_ok=True)
        (tmp_path / pid / "status").write_text(f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nNoNewPrivs:\t{confined}\n")
        if inode:
            (tmp_path / pid / "fd" / "3").symlink_to(f"socket:[{inode}]")

    write("self", 0)
    write("10", 0, inode="55")
    write("11", 1, uid=8)
    assert not origin.may_be_confined("66", 7)
    write("12", 1)
    assert origin.may_be_confined("66", 7)
    assert not origin.may_be_confined("55", 7)
    write("10", 1)
    assert origin.may_be_confined("55", 7)
    write("self", 1)
    assert not origin.may_be_confined("55", 7), "nothing can be told apart by it here"


def test_a_process_that_exited_meanwhile_may_have_held_the_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(origin, "_PROCESSES", str(tmp_path))
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "status").write_text("Uid:\t7\t7\t7\t7\nNoNewPrivs:\t0\n")
    (tmp_path / "13").mkdir()
    assert origin.may_be_confined("55", 7)
