"""File descriptors: sockets leave some for agents and files, and a lack of them is logged once in a while."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.transport.remote.server.descriptors import descriptor_limit, quiet_accept_errors, raise_descriptor_limit
from dragoman.transport.remote.server.limits import ServerLimits
from dragoman.transport.remote.server.listener import Listener
from tests.cli.process import DRAGOMAN, EVERYTHING, TIMEOUT

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


@contextlib.contextmanager
def host(folder: Path, limit: str) -> Iterator[tuple[int, int]]:
    """Run a host with this limit of descriptors. Yield its port and its process id."""
    arguments = ["serve", "--json", "--bind", "127.0.0.1:0", "--store", "memory:", "--", *EVERYTHING]
    environ = {**os.environ, "XDG_CONFIG_HOME": str(folder / "config"), "XDG_STATE_HOME": str(folder / "state")}
    command = ["/bin/sh", "-c", f'ulimit {limit} && exec "$@"', "sh", *DRAGOMAN, *arguments]
    with open(folder / "stderr", "wb") as stderr:
        process = subprocess.Popen(command, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=stderr)
        try:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"]
            yield int(url.rpartition(":")[2].removesuffix("/acp")), process.pid
        finally:
            process.terminate()
            process.wait(TIMEOUT)


@linux_only
def test_idle_sockets_cannot_take_the_descriptors_of_a_host(tmp_path: Path) -> None:
    with host(tmp_path, "-n 200") as (port, pid), contextlib.ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(("127.0.0.1", port), TIMEOUT)) for _ in range(300)]
        # The last one is refused as soon as all before it were accepted or refused.
        with contextlib.suppress(ConnectionResetError):
            assert idle[-1].recv(1) == b""
        assert len(os.listdir(f"/proc/{pid}/fd")) < 200 - 60
        for each in idle[:50]:
            each.close()
        with socket.create_connection(("127.0.0.1", port), TIMEOUT) as end:
            end.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert end.recv(15) == b"HTTP/1.1 200 OK"
    lines = (tmp_path / "stderr").read_text().splitlines()
    assert len(lines) <= 3, lines[:20]


@linux_only
def test_a_host_raises_its_soft_limit(tmp_path: Path) -> None:
    with host(tmp_path, "-S -n 128") as (_, pid):
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    assert soft == (min(2 * ServerLimits().sockets, hard) if hard != resource.RLIM_INFINITY else 8192)


async def test_a_listener_takes_at_most_half_of_the_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (10, 10))
    served = Listener(None, ServerLimits(), is_secure=False)  # type: ignore[arg-type]
    for number in range(5):
        assert not served.is_full("127.0.0.1")
        served.sockets[number] = 0.0  # type: ignore[index]
    assert served.is_full("127.0.0.1")


def test_a_limit_that_cannot_be_raised_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = []

    def refuse(*limits: object) -> None:
        attempts.append(limits)
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr("resource.getrlimit", lambda _: (10, resource.RLIM_INFINITY))
    monkeypatch.setattr("resource.setrlimit", refuse)
    raise_descriptor_limit(100)
    assert len(attempts) == 1
    assert descriptor_limit() == 10


async def test_accept_errors_are_logged_once_and_other_errors_always(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    with caplog.at_level(logging.WARNING), quiet_accept_errors(loop):
        for _ in range(1000):
            error = OSError(24, "Too many open files")
            loop.call_exception_handler({"message": "socket.accept() out of system resource", "exception": error})
        loop.call_exception_handler({"message": "something else"})
    assert [record.message for record in caplog.records] == [
        "no socket can be accepted: [Errno 24] Too many open files; raise the limit (ulimit -n)",
        "something else",
    ]
    assert loop.get_exception_handler() is before
