"""What a host costs: `hosting SPECIFICATION` prints figures of fan-out, of idle sessions, or of added latency.

A host in a process of its own, the measured agent behind it, and clients here. Latency is held against the same agent
on stdio, message by message in turns of the same length.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

from bench.peers.ours_client import Editor
from bench.peers.served import TIMEOUT
from bench.peers.texts import CHUNK_BYTES, Reader
from bench.peers.watchers import Watcher, watcher
from dragoman import connect
from dragoman.store.contract import Draft
from dragoman.store.sqlite import SqliteStore

Figures = dict[str, float]

WARM = 200
KIB = 1024

# Clients that come at once; more would wait for each other, not for the host.
TOGETHER = 50

# What one of the idle sessions has in its log: a short conversation.
SAID = 20


class Host:
    """A host that runs."""

    def __init__(self, url: str, pid: int) -> None:
        self.url = url
        self.port = urlsplit(url).port or 0
        self.pid = pid

    @property
    def socket_url(self) -> str:
        """Its address for WebSocket."""
        return self.url.replace("http", "ws", 1)

    @property
    def resident(self) -> int:
        """Bytes of memory that it has."""
        with open(f"/proc/{self.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    @property
    def cpu(self) -> float:
        """Seconds of CPU time that it used."""
        with open(f"/proc/{self.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def hosted(durability: str, path: str) -> Iterator[Host]:
    """A host over a file of sessions."""
    command = [sys.executable, "-m", "bench.peers.host_server", durability, path]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Host(process.stdout.readline().strip(), process.pid)
    finally:
        process.stdin.close()
        try:
            process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


async def _watching(host: Host, count: int, session: str) -> list[Watcher]:
    gate = asyncio.Semaphore(TOGETHER)

    async def one() -> Watcher:
        async with gate:
            came = await watcher(host.port)
            await came.attach(session)
            return came

    return list(await asyncio.gather(*(one() for _ in range(count))))


async def fan_out(specification: dict[str, Any]) -> Figures:
    """One prompt, whose updates go to so many clients: one of them the prompter, the others only count."""
    clients = int(specification["clients"])
    count = int(specification["count"]) // clients
    with hosted("full", os.path.join(specification["cwd"], "host.db")) as host:
        async with connect(host.socket_url) as agent:
            editor = Editor(agent, specification["cwd"])
            session = await editor.open()
            await editor.prompt(session, f"/stream {WARM} {CHUNK_BYTES}", lambda _: None)
            before = host.resident
            watchers = await _watching(host, clients - 1, session.id)
            # What a first client makes the host import is no part of what each costs.
            memory = (host.resident - before) / max(clients - 1, 1)
            reader, cpu = Reader(), host.cpu
            reached = [each.expect(count) for each in watchers]
            started = perf_counter()
            await editor.prompt(session, f"/stream {count} {CHUNK_BYTES}", reader.take)
            await asyncio.gather(*reached)
            elapsed = perf_counter() - started
            reader.expect(count)
            used = host.cpu - cpu
            for each in watchers:
                each.transport.abort()
    delivered = count * clients
    return {
        "delivered_per_second": delivered / elapsed,
        "host_cpu_us": used / delivered * 1e6,
        "client_kb": memory / KIB if clients > 1 else 0.0,
    }


async def idle(specification: dict[str, Any]) -> Figures:
    """So many sessions from the store, a client in each, none of them with an agent."""
    count, path = int(specification["count"]), os.path.join(specification["cwd"], "host.db")
    store = await SqliteStore.open(path, durability="off")
    for number in range(count):
        await store.append(f"session-{number:05}", [*_conversation(specification["cwd"])])
    await store.close()
    with hosted("full", path) as host:
        first = await watcher(host.port)
        await first.attach("session-00000")
        before = host.resident
        for number in range(1, count):
            await first.attach(f"session-{number:05}")
        after = host.resident
        first.transport.abort()
    return {"session_kb": (after - before) / (count - 1) / KIB}


def _conversation(cwd: str) -> Iterator[Draft]:
    opened = {"sessionId": "s", "cwd": cwd, "agent": {"name": "bench", "version": "1.0"}}
    yield Draft(kind="opened", actor="user", time="2026-01-01T00:00:00.000Z", body=opened)
    for number in range(SAID):
        body = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": f"piece {number}"}}
        yield Draft(kind="update", actor="agent", time="2026-01-01T00:00:00.000Z", body=body, turn="t")


async def latency(specification: dict[str, Any]) -> Figures:
    """What a short turn takes longer through the host than on stdio: prompt, one update, answer."""
    count, cwd = int(specification["count"]), specification["cwd"]
    figures: Figures = {}
    async with connect([sys.executable, "-m", "bench.peers.ours_agent"]) as near:
        direct = await _turns(Editor(near, cwd), count)
        for name in ("full", "memory"):
            with hosted(name, os.path.join(cwd, "host.db")) as host:
                async with connect(host.socket_url) as agent:
                    through = await _turns(Editor(agent, cwd), count)
            for part in (50, 99):
                figures[f"{name}_p{part}_us"] = (_at(through, part) - _at(direct, part)) * 1e6
    figures |= {f"direct_p{part}_us": _at(direct, part) * 1e6 for part in (50, 99)}
    return figures


async def _turns(editor: Editor, count: int) -> list[float]:
    session = await editor.open()
    took = []
    for number in range(WARM + count):
        started = perf_counter()
        await editor.prompt(session, f"/stream 1 {CHUNK_BYTES}", lambda _: None)
        if number >= WARM:
            took.append(perf_counter() - started)
    return sorted(took)


def _at(took: Sequence[float], part: int) -> float:
    return took[min(len(took) * part // 100, len(took) - 1)]


WORKS: dict[str, Callable[[dict[str, Any]], Awaitable[Figures]]] = {
    "fan-out": fan_out,
    "idle": idle,
    "latency": latency,
}


async def main() -> None:
    """Do the work, print the figures."""
    specification = json.loads(sys.argv[1])
    print(json.dumps(await WORKS[specification["work"]](specification)))


if __name__ == "__main__":
    asyncio.run(main())
