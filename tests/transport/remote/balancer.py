"""A small load balancer in front of several servers, in a thread with its own loop, like HAProxy or nginx.

It terminates TLS, adds forwarding headers, and passes bytes on as they come. It chooses the server by a cookie, by the
connection id it saw in a response, or round robin. A server can be taken out while it runs, as for an update.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

# Nothing here takes longer unless it hangs. Seconds.
WITHIN = 90.0

TOKEN = "the-token-of-all-replicas"

COOKIE, ID, NOTHING = "cookie", "id", "nothing"


class Balancer:
    """The balancer's thread and address."""

    def __init__(self, servers: Sequence[str], affinity: str, tls: tuple[Path, Path] | None = None) -> None:
        self.port = 0
        self.asked: list[tuple[int, str]] = []  # which server got which request
        self._servers = [urlsplit(server).port or 0 for server in servers]
        self._affinity = affinity
        self._tls = tls
        self._out: set[int] = set()
        self._turn = 0
        self._known: dict[str, int] = {}  # connections: their server
        self._lines: dict[asyncio.StreamWriter, int] = {}
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)
        self._thread.start()
        assert self._ready.wait(WITHIN)

    def url(self, scheme: str) -> str:
        """Its address for http, ws, https or wss."""
        return f"{scheme}://127.0.0.1:{self.port}/acp"

    def take_out(self, server: int) -> None:
        """Send no more clients to this server, and disconnect those it has."""
        self._do(lambda: self._take_out(server))

    def put_back(self) -> None:
        """Use all of them again."""
        self._do(self._out.clear)

    def close(self) -> None:
        """Stop."""
        self._do(self._over.set)
        self._thread.join(WITHIN)
        self._loop.close()

    def _do(self, work: Callable[[], object]) -> None:
        done = threading.Event()

        def do() -> None:
            work()
            done.set()

        self._loop.call_soon_threadsafe(do)
        assert done.wait(WITHIN)

    def _take_out(self, server: int) -> None:
        self._out.add(server)
        for line, where in list(self._lines.items()):
            if where == server:
                line.transport.abort()

    async def _serve(self) -> None:
        self._over = asyncio.Event()
        context = None
        self._upstream = None
        if self._tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self._tls)
            self._upstream = ssl.create_default_context(cafile=self._tls[0])
        self._tasks: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._accepted, "127.0.0.1", 0, ssl=context)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._over.wait()
        server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._carry(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # somebody disconnected
        finally:
            self._tasks.discard(task)
            writer.close()

    def _choose(self, head: str) -> int:
        """Return the server for a request."""
        there = [number for number in range(len(self._servers)) if number not in self._out]
        shown = -1
        if self._affinity == COOKIE and (found := re.search(r"(?im)^cookie:.*\bnode=(\d+)", head)):
            shown = int(found[1])
        elif self._affinity == ID and (found := re.search(r"(?im)^acp-connection-id: *(\S+)", head)):
            shown = self._known.get(found[1], -1)
        if shown in there:
            return shown
        self._turn += 1
        return there[self._turn % len(there)]

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        server = self._choose(head)
        self.asked.append((server, head.split(" ")[0]))
        is_socket = re.search(r"(?im)^upgrade: *websocket", head) is not None
        there, back = await asyncio.open_connection("127.0.0.1", self._servers[server], ssl=self._upstream)
        self._lines[back] = server
        try:
            back.write(_passed_on(head, is_socket=is_socket).encode("latin-1"))
            upstream = asyncio.create_task(_pump(reader, back))
            try:
                answer = (await there.readuntil(b"\r\n\r\n")).decode("latin-1")
                writer.write(self._noted(answer, server, head, is_socket=is_socket).encode("latin-1"))
                await _pump(there, writer)
            finally:
                upstream.cancel()
        finally:
            del self._lines[back]
            back.transport.abort()

    def _noted(self, answer: str, server: int, head: str, *, is_socket: bool) -> str:
        """Return a response as the client gets it."""
        if found := re.search(r"(?im)^acp-connection-id: *(\S+)", answer):
            self._known.setdefault(found[1], server)
        lines = [] if is_socket else ["Connection: close"]
        if self._affinity == COOKIE and f"node={server}" not in head:
            lines.append(f"Set-Cookie: node={server}; Path=/; HttpOnly")
        first, _, rest = answer.partition("\r\n")
        return "\r\n".join([first, *lines, rest])


def _passed_on(head: str, *, is_socket: bool) -> str:
    """Return a request as the server gets it; one per socket, which keeps this balancer small."""
    if not is_socket:
        head = re.sub(r"(?im)^connection:.*\r\n", "", head)
    first, _, rest = head.partition("\r\n")
    return "\r\n".join([first, "X-Forwarded-For: 127.0.0.1", *([] if is_socket else ["Connection: close"]), rest])


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


@contextmanager
def replicas(folder: Path, names: Sequence[str], tls: tuple[Path, Path] | None = None) -> Iterator[list[str]]:
    """Processes that serve the same agent from the same store; yields their addresses."""
    with ExitStack() as stack:
        started = []
        for name in names:
            words = [name, str(folder / "sessions.db"), TOKEN, *map(str, tls or ())]
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.transport.remote.replica", *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=Path(__file__).parents[3],
            )
            stack.callback(_end, process)
            started.append(process)
        yield [process.stdout.readline().strip() for process in started if process.stdout is not None]


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    try:
        assert process.wait(WITHIN) == 0
    finally:
        process.kill()
        process.stdout.close()


@contextmanager
def balancing(servers: Sequence[str], affinity: str, tls: tuple[Path, Path] | None = None) -> Iterator[Balancer]:
    """A balancer until the block ends."""
    balancer = Balancer(servers, affinity, tls)
    try:
        yield balancer
    finally:
        balancer.close()
