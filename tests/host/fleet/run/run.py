"""Nodes of a fleet as processes, clients in sessions, and random faults; then the checker reads what everybody saw.

python -m tests.host.fleet.run.run --engine nats --seconds 600 --nodes 3 --clients 50 --sessions 20 --seed 1

As root, with `ip`, every node and every server of the engine has a network namespace, TLS and a disk of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path

import msgspec
from asyncpg import PostgresError
from nats.errors import Error as NatsError

from dragoman.errors import DragomanError
from dragoman.store.contract import Entry
from dragoman.store.fleet import EngineOptions
from dragoman.store.urls import open_engine
from tests.host.fleet.node_process import LEASE
from tests.host.fleet.run.clients import CONNECT_TIMEOUT, PROMPT_TIMEOUT, RunClient, split_author
from tests.host.fleet.run.engines import ENGINES, POSTGRES, PostgresEngine
from tests.host.fleet.run.history import ANSWERED, History, LogEntry, check_history
from tests.host.fleet.run.network import Network, can_use_namespaces
from tests.host.fleet.run.nodes import Access, ProxiedNode, RunNode, SpacedNode

# Between two faults, and how long they last: some are shorter than a lease, some longer. Seconds.
FAULT_INTERVAL, FAULT_LENGTHS = (0.3, 2.5), (0.5, LEASE * 0.7, LEASE * 1.6)

# How long what was killed stays away. Seconds; a node waits for the end of its lease besides.
KILL_LENGTHS = (0.1, 0.5, 3.0)

# How long the logs may take to be readable after the last fault. Seconds.
READ_TIMEOUT = 120.0

# Faults, and how often each is chosen.
NODE_FAULTS = {"kill": 16, "pause": 1, "cut engine": 1, "cut links": 1, "cut links one way": 1, "drain": 1}
ENGINE_FAULTS = {"engine kill": 10, "engine pause": 1}
SPACED_NODE_FAULTS = {"disk full": 1}  # for nodes and servers with machines of their own
SPACED_ENGINE_FAULTS = {"engine disk full": 1, "engine cut": 1}


class FleetRun:
    """One run."""

    def __init__(self, folder: Path, seed: str, options: argparse.Namespace) -> None:
        self.folder, self.seed, self.options = folder, seed, options
        self.history = History()
        self.counts: Counter[str] = Counter()
        self.nodes: list[RunNode] = []
        self.sessions: list[str] = []
        self.is_over = False
        self._random = random.Random(seed)
        self._mending: set[asyncio.Task[None]] = set()
        self._faulty_servers: set[str] = set()
        self._network = Network() if options.network == "namespaces" else None

    async def run(self) -> list[str]:
        """Run, then return the faults that the checker found."""
        self._engine = await asyncio.to_thread(ENGINES[self.options.engine], self._network)
        try:
            await self._start_nodes()
            await self._engine.begin_record()
            await self._open_sessions()
            clients = [RunClient(number, self) for number in range(self.options.clients)]
            working = [asyncio.ensure_future(client.work()) for client in clients]
            await (self._make_each_fault() if self.options.short else self._make_faults())
            self.is_over = True
            await asyncio.wait(working, timeout=PROMPT_TIMEOUT + CONNECT_TIMEOUT)
            for task in working:
                task.cancel()
            await asyncio.gather(*working, return_exceptions=True)
            await self._read_logs()
        finally:
            await asyncio.gather(*(node.stop() for node in self.nodes), return_exceptions=True)
            await asyncio.to_thread(self._engine.end)
            if self._network is not None:
                self._network.remove()
        return check_history(self.history)

    async def _start_nodes(self) -> None:
        names = [f"n{number + 1}" for number in range(self.options.nodes)]
        if self._network is None:
            assert isinstance(self._engine, PostgresEngine), "NATS needs network namespaces: run this as root, with ip"
            self.nodes += [ProxiedNode(name, self.folder, self._engine.folder) for name in names]
        else:
            engine, network = self._engine, self._network
            spaced = [SpacedNode(name, self.folder, network, engine.url, engine.servers) for name in names]
            access = await asyncio.to_thread(Access, self.folder, list(network.addresses.values()), engine.url)
            for node in spaced:
                node.access, node.peers = access, [name for name in names if name != node.name]
            self.nodes += spaced
        await asyncio.gather(*(node.start() for node in self.nodes))

    async def _open_sessions(self) -> None:
        for number in range(self.options.sessions):
            node = self.nodes[number % len(self.nodes)]
            assert node.process is not None
            async with node.process.connect() as remote:
                self.sessions.append((await remote.open_session(str(self.folder))).id)

    async def _read_logs(self) -> None:
        deadline = time.monotonic() + READ_TIMEOUT
        while True:
            try:
                engine = await open_engine(self._engine.url, EngineOptions(trusts_engine=True))
                try:
                    record = await self._engine.read_record(self.sessions)
                    self.history.claims = record.claims
                    for session in self.sessions:
                        entries, epochs = await engine.store.read(session), record.epochs.get(session, {})
                        self.history.logs[session] = [log_entry(each, epochs.get(each.seq, 0)) for each in entries]
                    return
                finally:
                    await engine.close()
            except (DragomanError, OSError, TimeoutError, PostgresError, NatsError):
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(1)  # the engine may still be electing, or recovering

    # --- faults ---------------------------------------------------------------------------------------------------

    async def _make_faults(self) -> None:
        deadline = time.monotonic() + self.options.seconds
        is_spaced = self._network is not None
        engine_kinds = {**ENGINE_FAULTS, **(SPACED_ENGINE_FAULTS if is_spaced else {})}
        node_kinds = {**NODE_FAULTS, **(SPACED_NODE_FAULTS if is_spaced else {})}
        while time.monotonic() < deadline:
            await asyncio.sleep(self._random.uniform(*FAULT_INTERVAL))
            healthy = [node for node in self.nodes if not node.is_faulty]
            kinds = dict(node_kinds) if len(healthy) >= 2 else {}
            # One server at a time: with two of three away nothing is acknowledged, and the run would only wait.
            if not self._faulty_servers:
                kinds |= engine_kinds
            if not kinds:
                continue
            (kind,) = self._random.choices(list(kinds), list(kinds.values()))
            length = self._random.choice(KILL_LENGTHS if kind.endswith("kill") else FAULT_LENGTHS)
            if kind in engine_kinds:
                self._begin(kind, self._disturb_server(self._random.choice(self._engine.servers), kind, length))
            else:
                self._begin(kind, self._disturb_node(self._random.choice(healthy), kind, length))
        for result in await asyncio.gather(*self._mending, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def _make_each_fault(self) -> None:
        """Make a few faults of each kind, at several places at a time; then wait until clients go on."""

        async def disturb(node: RunNode, *kinds: str) -> None:
            for kind in kinds:
                self.counts[f"fault: {kind}"] += 1
                await self._disturb_node(node, kind, FAULT_LENGTHS[0])

        await self._wait_answered()
        kinds = [kind for kind in NODE_FAULTS if kind.startswith("cut")]
        self.counts["fault: engine kill"] += 1
        await self._disturb_server(self._engine.servers[0], "engine kill", KILL_LENGTHS[0])
        await asyncio.gather(disturb(self.nodes[0], "kill"), *(disturb(node, *kinds) for node in self.nodes[1:]))
        await self._wait_answered()

    async def _wait_answered(self) -> None:
        """Wait until some more prompts are answered."""
        wanted, deadline = self.counts[f"prompts {ANSWERED}"] + 5, time.monotonic() + READ_TIMEOUT
        while self.counts[f"prompts {ANSWERED}"] < wanted:
            assert time.monotonic() < deadline, f"no prompt is answered any more: {self.counts}"
            await asyncio.sleep(0.05)

    def _begin(self, kind: str, work: Coroutine[None, None, None]) -> None:
        self.counts[f"fault: {kind}"] += 1
        self._mending.add(asyncio.ensure_future(work))

    async def _disturb_node(self, node: RunNode, kind: str, length: float) -> None:
        assert node.process is not None
        node.is_faulty = True
        try:
            if kind == "kill":
                node.process.kill(signal.SIGKILL)
                await asyncio.to_thread(node.process.process.wait)
                await asyncio.sleep(length)
                await node.restart()
                return
            if kind == "drain":
                node.process.kill(signal.SIGTERM)
                await asyncio.to_thread(node.process.process.wait)
                await node.restart()
                return
            if kind == "disk full":
                await asyncio.to_thread(node.fill_disk, is_full=True)
                await asyncio.sleep(length)
                await asyncio.to_thread(node.fill_disk, is_full=False)
                return
            if kind == "pause":
                node.process.kill(signal.SIGSTOP)
            elif kind == "cut engine":
                node.cut_engine()
            else:
                node.cut_links(is_one_way=kind.endswith("one way"))
            await asyncio.sleep(length)
            node.process.kill(signal.SIGCONT)
            node.mend()
        finally:
            node.is_faulty = False

    async def _disturb_server(self, server: str, kind: str, length: float) -> None:
        self._faulty_servers.add(server)
        engine = self._engine
        try:
            if kind == "engine kill":
                await asyncio.to_thread(engine.kill, server)
                await asyncio.sleep(length)
                await asyncio.to_thread(engine.restart, server)
            elif kind == "engine pause":
                engine.pause(server, is_paused=True)
                await asyncio.sleep(length)
                engine.pause(server, is_paused=False)
            elif kind == "engine disk full":
                await asyncio.to_thread(engine.fill_disk, server, is_full=True)
                await asyncio.sleep(length)
                await asyncio.to_thread(engine.fill_disk, server, is_full=False)
            else:  # from the other servers; nodes still reach it. A lone server is cut off from all nodes
                assert self._network is not None
                others = [each for each in engine.servers if each != server] or [node.name for node in self.nodes]
                for other in others:
                    self._network.cut(server, other)
                    self._network.cut(other, server)
                await asyncio.sleep(length)
                self._network.mend(server)
        finally:
            self._faulty_servers.discard(server)


def log_entry(entry: Entry, epoch: int = 0) -> LogEntry:
    """Return what matters of an entry, with the epoch under which it was stored."""
    body, text = entry.body if isinstance(entry.body, dict) else {}, ""
    if entry.kind == "prompt":
        text = str(body["prompt"][0].get("text", ""))
    elif entry.kind == "update" and str(body.get("sessionUpdate", "")).endswith("message_chunk"):
        text = str(body.get("content", {}).get("text", ""))
    said, author = split_author(text)
    return LogEntry(entry.seq, entry.kind, said, entry.turn, "error" in body, author, epoch)


def main(arguments: list[str]) -> int:
    """Run, print the counts, and return 1 if the checker found anything."""
    parser = argparse.ArgumentParser(prog="fleet-run")
    for name, default in {"seconds": 600.0, "nodes": 3, "clients": 50, "sessions": 20}.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    parser.add_argument("--engine", choices=tuple(ENGINES), default=POSTGRES)
    parser.add_argument("--short", action="store_true", help="a few faults of each kind instead of random ones")
    parser.add_argument("--network", choices=("namespaces", "proxies"))
    parser.add_argument("--seed", default=str(random.randrange(10**9)))
    options = parser.parse_args(arguments)
    options.network = options.network or ("namespaces" if can_use_namespaces() else "proxies")
    folder = Path(tempfile.mkdtemp(prefix="fleet-run-"))
    started = time.monotonic()
    run = FleetRun(folder, options.seed, options)
    faults = asyncio.run(run.run())
    entries = sum(map(len, run.history.logs.values()))
    delivered = sum(len(reading.received) for reading in run.history.readings)
    where = f"{options.engine}, {options.network}, seed {options.seed}"
    print(f"{where}: {time.monotonic() - started:.0f} s, {entries} entries, {delivered} deliveries")
    logs = [entry for log in run.history.logs.values() for entry in log]
    run.counts["claims"] = sum(map(len, run.history.claims.values()))
    run.counts["entries with a known epoch"] = sum(1 for entry in logs if entry.epoch)
    run.counts["entries with a known author"] = sum(1 for entry in logs if entry.author)
    for name, count in sorted(run.counts.items()):
        print(f"  {count:6} {name}")
    for fault in faults[:50]:
        print(f"FAULT {fault}")
    print(f"{len(faults)} faults")
    if faults:
        (folder / "history.json").write_bytes(msgspec.json.encode(run.history))
        print(f"logs of the nodes, and history.json with what clients saw, are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if faults else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nodes and database are ended
    sys.exit(main(sys.argv[1:]))
