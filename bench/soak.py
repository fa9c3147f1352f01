"""A long run of a host: `python -m bench.soak [--minutes N] [--sessions N] [--clients N]`, 30 minutes by default.

Clients prompt in all sessions, again and again, while the others watch. The host's memory and its open descriptors are
noted every few seconds; at the end the last fifth of the run must be level with the second fifth.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from statistics import median
from time import monotonic
from typing import NamedTuple

from bench.peers.hosting import Host, hosted
from bench.peers.ours_client import Editor
from bench.peers.texts import CHUNK_BYTES
from bench.peers.watchers import Watcher, watcher
from dragoman import ClientSession, connect

SESSIONS_PER_CLIENT = 10  # of a client that prompts
CHUNKS = 20  # in one turn
SAMPLE_SECONDS = 5.0
# Python's allocator keeps what a busy moment needed; a leak grows with the turns, of which there are thousands.
MAX_GROWTH = 1.05


class Sample(NamedTuple):
    """The host at one moment."""

    seconds: float
    memory_mb: float
    descriptors: int
    turns: int


class Run:
    """One host, its sessions and its clients."""

    def __init__(self, host: Host, folder: str, sessions: int, clients: int) -> None:
        self._host = host
        self._folder = folder
        self._sessions = sessions
        self._clients = clients
        self._turns = 0
        self._watchers: list[Watcher] = []

    async def go(self, seconds: float) -> list[Sample]:
        """Work for so long; return the samples."""
        async with asyncio.TaskGroup() as group:
            stop = asyncio.Event()
            ready = [asyncio.Event() for _ in range(0, self._sessions, SESSIONS_PER_CLIENT)]
            workers = [group.create_task(self._prompt(is_ready, stop)) for is_ready in ready]
            for is_ready in ready:
                await is_ready.wait()
            samples = await self._sample(seconds)
            stop.set()
            await asyncio.gather(*workers)
        for each in self._watchers:
            each.transport.abort()
        return samples

    async def _prompt(self, ready: asyncio.Event, stop: asyncio.Event) -> None:
        """One client that prompts in its sessions in turns, and the clients that watch them."""
        async with connect(self._host.socket_url) as agent:
            editor = Editor(agent, self._folder)
            sessions = [await editor.open() for _ in range(SESSIONS_PER_CLIENT)]
            for session in sessions:
                await self._turn(editor, session)
                for _ in range(self._clients // self._sessions - 1):
                    came = await watcher(self._host.port)
                    await came.attach(session.id)
                    self._watchers.append(came)
            ready.set()
            while not stop.is_set():
                for session in sessions:
                    await self._turn(editor, session)

    async def _turn(self, editor: Editor, session: ClientSession) -> None:
        await editor.prompt(session, f"/stream {CHUNKS} {CHUNK_BYTES}", lambda _: None)
        self._turns += 1

    async def _sample(self, seconds: float) -> list[Sample]:
        started = monotonic()
        samples: list[Sample] = []
        while (passed := monotonic() - started) < seconds:
            descriptors = len(os.listdir(f"/proc/{self._host.pid}/fd"))
            samples.append(Sample(passed, self._host.resident / 1024**2, descriptors, self._turns))
            print("{:7.0f} s  {:8.1f} MiB  {:6} descriptors  {:8} turns".format(*samples[-1]), flush=True)
            await asyncio.sleep(SAMPLE_SECONDS)
        return samples


def growth(samples: list[Sample]) -> tuple[float, float]:
    """How the last fifth compares with the second one: memory, and descriptors."""
    fifth = max(len(samples) // 5, 1)
    early, late = samples[fifth : 2 * fifth] or samples[:1], samples[-fifth:]
    memory = median(sample.memory_mb for sample in late) / median(sample.memory_mb for sample in early)
    descriptors = median(sample.descriptors for sample in late) / median(sample.descriptors for sample in early)
    return memory, descriptors


def main() -> int:
    """Run and judge: 0 if memory and descriptors stayed level."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description="Run a host under load for long.")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--clients", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, hosted("normal", f"{folder}/host.db") as host:
        run = Run(host, folder, options.sessions, options.clients)
        samples = asyncio.run(run.go(options.minutes * 60))
    memory, descriptors = growth(samples)
    turns = samples[-1].turns
    print(f"{turns:,} turns, {turns * CHUNKS:,} updates; memory {memory:.3f}x, descriptors {descriptors:.3f}x")
    return 0 if memory <= MAX_GROWTH and descriptors <= 1.0 else 1


if __name__ == "__main__":
    sys.exit(main())
