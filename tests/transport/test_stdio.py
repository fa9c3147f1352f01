"""Standard input and output of an agent: used by the protocol alone."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from dragoman.errors import TransportClosed
from dragoman.transport.burst_writer import COALESCE_SIZE
from dragoman.transport.process.transport import spawn
from dragoman.transport.stream import StreamTransport
from dragoman.wire.frames import Frame

AGENT = """
import asyncio, os, sys
from dragoman.errors import TransportClosed
from dragoman.transport.stdio import stdio
async def main():
    transport = stdio()
    print("a stray print")
    os.system("echo a stray child; cat")
    try:
        while True:
            for frame in await transport.receive():
                transport.send(frame)
    except TransportClosed as closed:
        print(closed)
    await transport.close()
asyncio.run(main())
"""


def run(**options: object) -> subprocess.CompletedProcess[bytes]:
    given: Mapping[str, object] = {"timeout": 20, "stderr": subprocess.PIPE, **options}
    return subprocess.run([sys.executable, "-c", AGENT], **given)  # type: ignore[call-overload,no-any-return]


def test_prints_and_child_output_never_reach_the_protocol() -> None:
    done = run(input=b'{"a":1}\n{"b":2}', stdout=subprocess.PIPE)
    assert done.stdout == b'{"a":1}\n{"b":2}\n'
    assert b"a stray print\na stray child\nthe client closed the connection\n" in done.stderr


def test_files_work_as_input_and_output(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    lines = b"".join(b'{"n":%d}\n' % n for n in range(50_000))
    source.write_bytes(lines)
    with source.open("rb") as stdin, target.open("wb") as stdout:
        assert run(stdin=stdin, stdout=stdout).returncode == 0
    assert target.read_bytes() == lines


def test_the_null_device_works_too() -> None:
    done = run(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    assert done.returncode == 0
    assert b"the client closed the connection" in done.stderr


def test_a_closed_input_is_reported() -> None:
    done = subprocess.run(["sh", "-c", '"$0" -c "$1" <&-', sys.executable, AGENT], stderr=subprocess.PIPE, timeout=20)
    assert b"StartFailed: standard input or output is closed" in done.stderr


def test_a_shared_pipe_keeps_its_blocking_mode() -> None:
    async def main() -> list[Frame]:
        wrapper = f"{sys.executable} -c \"$0\"; {sys.executable} -c 'import os; print(os.get_blocking(1))'"
        transport = await spawn(["sh", "-c", wrapper, AGENT])
        transport.send(b"x")
        assert await transport.receive() == [b"x"]
        await transport._close_writing(TransportClosed("end of input"))
        frames = await transport.receive()
        await transport.close()
        return frames

    assert asyncio.run(asyncio.wait_for(main(), 20)) == [b"True"]


async def test_a_socket_works_in_both_directions() -> None:
    import socket

    a, b = socket.socketpair()
    fds = a.detach(), b.detach()
    left, right = (StreamTransport(fd, fd, peer=f"socket {fd}") for fd in fds)
    big = b"x" * 3_000_000
    left.send(big)
    right.send(b"small")
    assert await left.receive() == [b"small"]
    assert await right.receive() == [big]
    await left.close()
    with pytest.raises(TransportClosed):
        await right.receive()
    await right.close()


async def test_a_burst_is_one_write_and_a_single_frame_is_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[int] = []
    write = os.write

    def counting(fd: int, data: bytes) -> int:
        writes.append(len(data))
        return write(fd, data)

    a, b = os.pipe()
    null = os.open(os.devnull, os.O_RDONLY)
    transport = StreamTransport(null, b)
    monkeypatch.setattr(os, "write", counting)
    transport.send(b"12345")
    assert writes == [6], "before the loop went on"
    for _ in range(9):
        transport.send(b"12345")
    assert writes == [6]
    await asyncio.sleep(0)
    assert writes == [6, 54], "when the pass ended"
    for _ in range(3):
        transport.send(b"12345")
    assert writes == [6, 54], "after a burst the first frame waits for the next ones"
    await asyncio.sleep(0)
    assert writes == [6, 54, 18]
    transport.send(b"12345")
    await asyncio.sleep(0)
    transport.send(b"12345")
    assert writes == [6, 54, 18, 6, 6], "one frame a pass is no burst any more"
    monkeypatch.undo()
    await transport.close()
    os.close(a)
    assert COALESCE_SIZE == 64 * 1024


def test_the_modules_import_nothing_heavy_beyond_asyncio() -> None:
    code = (
        "import asyncio, msgspec, sys; before = set(sys.modules)\n"
        "import dragoman.transport.stream, dragoman.transport.stdio, dragoman.transport.memory\n"
        "import dragoman.transport.process.transport\n"
        "print(*set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=20, check=True)
    loaded = set(done.stdout.decode().split())
    assert "dragoman.transport.process.transport" in loaded
    heavy = {"ctypes", "email", "http", "json", "multiprocessing", "pydantic", "secrets", "shutil", "sqlite3", "ssl"}
    assert not loaded & (heavy | {"subprocess", "tempfile", "urllib", "uuid"})


def test_no_module_names_a_heavy_import_at_its_top() -> None:
    # Some versions of asyncio load subprocess and ssl themselves, so the loaded modules alone prove nothing.
    import dragoman.transport

    heavy = ("import subprocess", "import ssl", "import socket", "import shutil", "import tempfile")
    for path in Path(next(iter(dragoman.transport.__path__))).glob("*.py"):
        top = [line for line in path.read_text().splitlines() if line.startswith(("import ", "from "))]
        assert not [line for line in top if line.startswith(heavy)], path
