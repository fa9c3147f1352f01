"""A rolling update over two formats, back, and to the end, while clients work; then the checker reads what they saw.

python -m tests.host.fleet.run.rolling --engine nats --nodes 3 --clients 20 --sessions 8

Other clients are behind HAProxy, and measure how long each request took: the longest time without a connection.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from dragoman import connect
from dragoman.errors import DragomanError
from dragoman.roles.client.remote_agent import RemoteAgent
from dragoman.store.fleet import EngineOptions
from dragoman.store.formats import FORMATS
from dragoman.store.urls import open_engine
from dragoman.transport.base import Transport
from tests.cli.process import DRAGOMAN
from tests.host.fleet.node_process import ECHO, NodeProcess
from tests.host.fleet.run.clients import CONNECT_TIMEOUT, PROMPT_TIMEOUT, RunClient
from tests.host.fleet.run.engines import ENGINES, POSTGRES
from tests.host.fleet.run.history import ANSWERED, History, check_history
from tests.host.fleet.run.next_version import SECOND
from tests.host.fleet.run.run import log_entry
from tests.host.operations.proxies import free_port, start_haproxy
from tests.transport.remote.certificate import certificate

NEXT = [sys.executable, "-m", "tests.host.fleet.run.next_version"]

# How long turns may go on at a node that drains, and a lease that no busy machine ends. Seconds.
GRACE, LEASE = "60", 30.0

# How often a client looks whether it has a connection. Seconds.
SAMPLE_INTERVAL = 0.02

# How long an engine may take to be ready on a busy machine. Seconds.
START_TIMEOUT = 60.0

# Prompts that clients have answered before the next step: so much happens in each state of the fleet.
PROMPTS_PER_STEP = 10


class RollingNode:
    """A node that is drained and started again, perhaps as another version (for `RunClient`)."""

    def __init__(self, process: NodeProcess) -> None:
        self.process: NodeProcess | None = process

    async def replace(self, program: Sequence[str]) -> None:
        """Drain it, and start it as another version."""
        assert self.process is not None
        self.process.kill(signal.SIGTERM)
        await asyncio.to_thread(self.process.process.wait)
        self.process.program = program
        await asyncio.to_thread(self.process.start)


class RollingRun:
    """Nodes, clients that prompt, and steps of an update (for `RunClient`)."""

    def __init__(self, folder: Path, store: str, stack: ExitStack, *, seed: str = "1") -> None:
        self.folder, self.store, self.seed = folder, store, seed
        self.history = History()
        self.counts: Counter[str] = Counter()
        self.nodes: list[RollingNode] = []
        self.sessions: list[str] = []
        self.is_over = False
        self._stack = stack
        self._working: list[asyncio.Task[None]] = []

    async def start(self, nodes: int, sessions: int, clients: int, ports: Sequence[int] = ()) -> None:
        """Start everything, as this version."""
        binds = [f"127.0.0.1:{port}" for port in ports or [free_port() for _ in range(nodes)]]
        started = [self._start_node(f"n{number}", bind) for number, bind in enumerate(binds, 1)]
        self.nodes += await asyncio.gather(*started)
        for number in range(sessions):
            process = self.nodes[number % nodes].process
            assert process is not None
            async with process.connect() as remote:
                self.sessions.append((await remote.open_session(str(self.folder))).id)
        self._working = [asyncio.ensure_future(RunClient(number, self).work()) for number in range(clients)]

    async def _start_node(self, name: str, bind: str) -> RollingNode:
        arguments = ("--bind", bind, "--labels", "shared:all=/", "--grace", GRACE, "--trust-engine", "--allow-drift")

        def start() -> NodeProcess:
            return NodeProcess(self.folder, name, self.store, *arguments, agent=ECHO, lease=LEASE)

        process = await asyncio.to_thread(start)
        self._stack.callback(process.end)
        return RollingNode(process)

    async def work(self, prompts: int = PROMPTS_PER_STEP) -> None:
        """Let the clients work until so many more prompts are answered."""
        wanted = self.counts[f"prompts {ANSWERED}"] + prompts
        while self.counts[f"prompts {ANSWERED}"] < wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    async def replace_all(self, program: Sequence[str]) -> None:
        """Update, or take back, one node after the other."""
        for node in self.nodes:
            await node.replace(program)
            await self.work()

    async def written_formats(self) -> set[int]:
        """Return the formats in which entries are stored."""
        engine = await open_engine(self.store, EngineOptions(trusts_engine=True))
        try:
            lines = [line for session in self.sessions for line in await engine.store.lines(session)]
        finally:
            await engine.close()
        return {2 if b',"format":2,' in line[:40] else 1 for line in lines}

    async def finish(self) -> list[str]:
        """End the clients; return the faults that the checker finds."""
        self.is_over = True
        await asyncio.wait(self._working, timeout=PROMPT_TIMEOUT + CONNECT_TIMEOUT)
        for task in self._working:
            task.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)
        FORMATS.append(SECOND)  # what the last nodes wrote is read as they do
        engine = await open_engine(self.store, EngineOptions(trusts_engine=True))
        try:
            for session in self.sessions:
                self.history.logs[session] = [log_entry(each) for each in await engine.store.read(session)]
        finally:
            await engine.close()
            FORMATS.remove(SECOND)
        return check_history(self.history)

    def interrupted(self) -> int:
        """Return how many turns were interrupted."""
        return sum(1 for log in self.history.logs.values() for entry in log if entry.is_interrupted)


def fleet_command(store: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `dragoman fleet` as the next version."""
    command = [*NEXT, "fleet", *arguments, "--store", store]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


async def wait_ready(store: str) -> None:
    """Wait until the engine can be used: servers that were just started elect a leader first."""
    deadline = time.monotonic() + START_TIMEOUT
    while True:
        try:
            await (await open_engine(store, EngineOptions(trusts_engine=True))).close()
            return
        except DragomanError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.5)


class WaitMeter:
    """A client behind the balancer that asks all the time, and measures gaps in its connection, and waits."""

    def __init__(self) -> None:
        self.connections = 0
        self.gaps: list[float] = []  # seconds
        self.longest_wait = 0.0

    def _on_report(self, text: str) -> None:
        self.connections += "a new connection" in text

    async def run(self, url: str, ca: str, token: str) -> None:
        """Ask until it is cancelled. A request that was cut off is asked again, and counts from its first try."""
        async with connect(url, tls=ca, token=token, report=self._on_report) as remote:
            watching = asyncio.ensure_future(self._watch(remote.connection.transport))
            try:
                while True:
                    await self._ask(remote)
            finally:
                watching.cancel()

    async def _ask(self, remote: RemoteAgent) -> None:
        started, is_answered = time.monotonic(), False
        while not is_answered:
            try:
                await remote.request("session/list", {})
                is_answered = True
            except DragomanError:
                await asyncio.sleep(0.01)
        self.longest_wait = max(self.longest_wait, time.monotonic() - started)
        await asyncio.sleep(0.05)

    async def _watch(self, transport: Transport) -> None:
        """Measure how long there is no connection."""
        connected = time.monotonic()
        while True:
            if getattr(transport, "_inner", None) is not None:  # of the transport that connects again
                gap, connected = time.monotonic() - connected, time.monotonic()
                if gap > 3 * SAMPLE_INTERVAL:
                    self.gaps.append(gap)
                await asyncio.sleep(SAMPLE_INTERVAL)
            else:
                await asyncio.sleep(SAMPLE_INTERVAL / 10)


async def measure(options: argparse.Namespace, folder: Path, store: str) -> int:
    """Update, go back, update and finish, under load and behind HAProxy; print what was seen."""
    with ExitStack() as stack:
        run = RollingRun(folder, store, stack, seed=options.seed)
        ports = [free_port() for _ in range(options.nodes)]
        await run.start(options.nodes, options.sessions, options.clients, ports)
        command = [*DRAGOMAN, "tokens", "create", "ann", "--role", "admin", "--store", store]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
        ca, key = certificate(folder)
        proxy = await asyncio.to_thread(start_haproxy, folder, ca, key, ports)
        stack.callback(proxy.stop)
        meters = [WaitMeter() for _ in range(options.clients)]
        url = f"wss://localhost:{proxy.port}/acp"
        asking = [asyncio.ensure_future(each.run(url, str(ca), done.stdout.strip())) for each in meters]
        await run.work()
        quiet = max(each.longest_wait for each in meters)
        for each in meters:
            each.longest_wait = 0.0
        for program in (NEXT, DRAGOMAN, NEXT):
            await run.replace_all(program)
        before = await run.written_formats()
        finished = await asyncio.to_thread(fleet_command, store, "finish-upgrade")
        await run.work()
        for task in asking:
            task.cancel()
        results = await asyncio.gather(*asking, return_exceptions=True)
        failed = [result for result in results if not isinstance(result, asyncio.CancelledError)]
        faults = await run.finish()
        faults += [] if before == {1} else [f"formats {before} were written before the update was finished"]
        faults += [] if finished.returncode == 0 else [f"finish-upgrade: {finished.stderr}"]
        faults += [f"a client behind the balancer ended: {result!r}" for result in failed]
    entries, count = sum(map(len, run.history.logs.values())), run.counts[f"prompts {ANSWERED}"]
    print(f"rolling update on {options.engine}: {3 * options.nodes} nodes drained and started as another version")
    print(f"  {entries} entries, {count} prompts answered, {run.interrupted()} turns interrupted")
    print(
        f"  {sum(each.connections for each in meters)} connections made again by {len(meters)} clients behind HAProxy"
    )
    gaps, wait = [gap for each in meters for gap in each.gaps], max(each.longest_wait for each in meters)
    print(f"  without a connection: {max(gaps, default=0):.2f} s at most, {median(gaps or [0]):.2f} s at the median")
    print(f"  longest wait for an answer: {wait:.2f} s; before the update: {quiet:.2f} s")
    for fault in faults:
        print(f"FAULT {fault}")
    print(f"{len(faults)} faults")
    return 1 if faults else 0


def main(arguments: list[str]) -> int:
    """Run, and return 1 if the checker found anything."""
    parser = argparse.ArgumentParser(prog="rolling")
    for name, default in {"nodes": 3, "clients": 20, "sessions": 8}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--engine", choices=tuple(ENGINES), default=POSTGRES)
    parser.add_argument("--seed", default=str(random.randrange(10**9)))
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="fleet-rolling-"))
    engine = ENGINES[options.engine](None)
    try:
        asyncio.run(wait_ready(engine.url))
        code = asyncio.run(measure(options, folder, engine.url))
    finally:
        engine.end()
    if code:
        print(f"logs of the nodes are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
