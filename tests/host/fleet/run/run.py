"""Nodes of a fleet as processes, clients in sessions, and random faults; then the checker reads what everybody saw.

python -m tests.host.fleet.run.run --seconds 600 --nodes 3 --clients 50 --sessions 20 --seed 1
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
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from dragoman import connect
from dragoman.errors import ConnectionFailed, DragomanError, ProtocolError
from dragoman.store.contract import Entry
from dragoman.store.urls import open_engine
from tests.host.fleet.node_process import LEASE, NodeProcess
from tests.host.fleet.run.history import ANSWERED, FAILED, UNKNOWN, History, LogEntry, Prompt, Reading, check_history
from tests.host.fleet.run.proxy import CuttableProxy
from tests.host.operations.proxies import free_port
from tests.store.postgres import server

# How long a client waits for the answer to a prompt, and for a connection. Seconds.
PROMPT_TIMEOUT, CONNECT_TIMEOUT = 4 * LEASE + 20, 15.0

# Between two faults, and how long a paused or cut node stays so: some are shorter than a lease, some longer. Seconds.
FAULT_INTERVAL, FAULT_LENGTHS = (1.0, 4.0), (0.5, LEASE * 0.7, LEASE * 1.6)


class RunNode:
    """A node behind proxies: one to the database, one from the other nodes."""

    def __init__(self, name: str, folder: Path, database: Path) -> None:
        self.name = name
        self._folder = folder
        self._port = free_port()
        self.engine_proxy = CuttableProxy(str(database / ".s.PGSQL.5432"))
        self.link_proxy = CuttableProxy(("127.0.0.1", self._port))
        self.process: NodeProcess | None = None
        self.is_faulty = False
        self.is_engine_cut = False

    async def start(self) -> None:
        await self.engine_proxy.start()
        await self.link_proxy.start()
        store = f"postgresql://127.0.0.1:{self.engine_proxy.port}/postgres?user={server.SUPERUSER}&schema=fleet_run"
        advertise = f"http://127.0.0.1:{self.link_proxy.port}"
        arguments = ("--labels", "shared:all=/", "--advertise", advertise, "--bind", f"127.0.0.1:{self._port}")
        self.process = await asyncio.to_thread(NodeProcess, self._folder, self.name, store, *arguments)

    async def restart(self) -> None:
        assert self.process is not None
        for _ in range(40):  # its old lease may still count
            try:
                await asyncio.to_thread(self.process.start)
                return
            except AssertionError:
                await asyncio.sleep(0.5)

    async def stop(self) -> None:
        if self.process is not None:
            await asyncio.to_thread(self.process.end)
        await self.engine_proxy.stop()
        await self.link_proxy.stop()


class RunClient:
    """A client that connects to any node, prompts, reads, and connects again when it is cut off."""

    def __init__(self, number: int, run: FleetRun) -> None:
        self._number = number
        self._run = run
        self._random = random.Random(f"{run.seed} {number}")
        self._count = 0
        self._cursors: dict[str, int] = {}

    async def work(self) -> None:
        while not self._run.is_over:
            node = self._random.choice(self._run.nodes)
            session = self._random.choice(self._run.sessions)
            try:
                await self._visit(node, session)
            except (DragomanError, TimeoutError, OSError) as error:
                self._run.counts[f"client: {type(error).__name__}"] += 1
                await asyncio.sleep(0.2)

    async def _visit(self, node: RunNode, session: str) -> None:
        assert node.process is not None
        url = node.process.url.replace("http://", "ws://")
        reading = Reading(session, self._cursors.get(session, 0))
        async with asyncio.timeout(CONNECT_TIMEOUT):
            remote = await connect(url, reconnect_timeout=0).__aenter__()
        try:
            remote.connection.tap = lambda _, frame: self._on_frame(reading, frame)
            params = {"sessionId": session, "cwd": str(self._run.folder), "mcpServers": []}
            async with asyncio.timeout(CONNECT_TIMEOUT):
                self._run.history.readings.append(reading)
                await remote.request("session/load", {**params, "_meta": {"dragoman": {"cursor": reading.after}}})
            for _ in range(self._random.randint(1, 4)):
                if not self._run.is_over:
                    await self._prompt(remote, reading)
        finally:
            self._cursors[session] = reading.received[-1][0] if reading.received else reading.after
            with suppress(Exception):
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    await remote.close()

    async def _prompt(self, remote: Any, reading: Reading) -> None:
        self._count += 1
        text = f"/echo c{self._number}-{self._count}"
        prompt = Prompt(reading.session, text.removeprefix("/echo "), time.monotonic())
        self._run.history.prompts.append(prompt)
        reading.own_prompts.append(prompt.text)
        params = {"sessionId": reading.session, "prompt": [{"type": "text", "text": text}]}
        try:
            async with asyncio.timeout(PROMPT_TIMEOUT):
                await remote.request("session/prompt", params)
            prompt.answered, prompt.outcome = time.monotonic(), ANSWERED
        except ProtocolError as error:
            prompt.answered, prompt.outcome = time.monotonic(), FAILED
            self._run.counts[f"prompt: {error.message.split(':')[0][:50]}"] += 1
        except (ConnectionFailed, TimeoutError):
            prompt.outcome = UNKNOWN
            raise
        finally:
            self._run.counts[f"prompts {prompt.outcome}"] += 1

    def _on_frame(self, reading: Reading, frame: bytes) -> tuple[bool, None]:
        if b'"session/update"' in frame:
            params = msgspec.json.decode(frame)["params"]
            seq = params.get("_meta", {}).get("dragoman", {}).get("seq")
            update = params["update"]
            text = update.get("content", {}).get("text") if isinstance(update.get("content"), dict) else None
            if isinstance(seq, int) and isinstance(text, str) and update["sessionUpdate"].endswith("message_chunk"):
                reading.received.append((seq, text.removeprefix("/echo ")))
        return False, None


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
        self._database = server.create_folder()

    async def run(self) -> list[str]:
        """Run, then return the faults that the checker found."""
        await asyncio.to_thread(server.init, self._database)
        self._postgres = await asyncio.to_thread(server.start, self._database)
        try:
            for number in range(self.options.nodes):
                node = RunNode(f"n{number + 1}", self.folder, self._database)
                self.nodes.append(node)
                await node.start()
            await self._open_sessions()
            clients = [RunClient(number, self) for number in range(self.options.clients)]
            working = [asyncio.ensure_future(client.work()) for client in clients]
            await self._make_faults()
            self.is_over = True
            await asyncio.wait(working, timeout=PROMPT_TIMEOUT + CONNECT_TIMEOUT)
            for task in working:
                task.cancel()
            await asyncio.gather(*working, return_exceptions=True)
            await self._read_logs()
        finally:
            await asyncio.gather(*(node.stop() for node in self.nodes), return_exceptions=True)
            self._postgres.kill()
            self._postgres.wait()
            shutil.rmtree(self._database, ignore_errors=True)
        return check_history(self.history)

    async def _open_sessions(self) -> None:
        for number in range(self.options.sessions):
            node = self.nodes[number % len(self.nodes)]
            assert node.process is not None
            async with node.process.connect() as remote:
                self.sessions.append((await remote.open_session(str(self.folder))).id)

    async def _read_logs(self) -> None:
        url = f"postgresql:///postgres?host={self._database}&user={server.SUPERUSER}&schema=fleet_run"
        engine = await open_engine(url)
        try:
            for session in self.sessions:
                self.history.logs[session] = [_log_entry(each) for each in await engine.store.read(session)]
        finally:
            await engine.close()

    # --- faults ---------------------------------------------------------------------------------------------------

    async def _make_faults(self) -> None:
        deadline = time.monotonic() + self.options.seconds
        mending: set[asyncio.Task[None]] = set()
        kinds = ("kill", "pause", "cut engine", "cut links", "cut links one way", "engine restart", "engine pause")
        while time.monotonic() < deadline:
            await asyncio.sleep(self._random.uniform(*FAULT_INTERVAL))
            kind = self._random.choice(kinds)
            healthy = [node for node in self.nodes if not node.is_faulty]
            if len(healthy) < 2 and not kind.startswith("engine"):
                continue
            self.counts[f"fault: {kind}"] += 1
            node = self._random.choice(healthy or self.nodes)
            length = self._random.choice(FAULT_LENGTHS)
            if kind.startswith("engine"):
                await self._disturb_engine(kind, length)
            else:
                node.is_faulty = True
                task = asyncio.ensure_future(self._disturb(node, kind, length))
                mending.add(task)
                task.add_done_callback(mending.discard)
        await asyncio.gather(*mending, return_exceptions=True)

    async def _disturb(self, node: RunNode, kind: str, length: float) -> None:
        assert node.process is not None
        try:
            if kind == "kill":
                node.process.kill(signal.SIGKILL)
                await asyncio.to_thread(node.process.process.wait)
                await asyncio.sleep(length)
                await node.restart()
            elif kind == "pause":
                node.process.kill(signal.SIGSTOP)
                await asyncio.sleep(length)
                node.process.kill(signal.SIGCONT)
            else:
                proxy = node.engine_proxy if kind == "cut engine" else node.link_proxy
                node.is_engine_cut = kind == "cut engine"
                proxy.cut(*(("from",) if kind.endswith("one way") else ()))
                await asyncio.sleep(length)
                node.is_engine_cut = False
                proxy.mend()
        finally:
            node.is_faulty = node.is_engine_cut = False

    async def _disturb_engine(self, kind: str, length: float) -> None:
        if kind == "engine pause":
            for node in self.nodes:
                node.engine_proxy.cut()
            await asyncio.sleep(length)
            for node in self.nodes:
                if not node.is_engine_cut:
                    node.engine_proxy.mend()
            return
        self._postgres.send_signal(signal.SIGQUIT)  # an immediate stop: it recovers from its log
        await asyncio.to_thread(self._postgres.wait)
        self._postgres = await asyncio.to_thread(server.start, self._database)


def _log_entry(entry: Entry) -> LogEntry:
    body, text = entry.body if isinstance(entry.body, dict) else {}, ""
    if entry.kind == "prompt":
        text = str(body["prompt"][0].get("text", "")).removeprefix("/echo ")
    elif entry.kind == "update" and str(body.get("sessionUpdate", "")).endswith("message_chunk"):
        text = str(body.get("content", {}).get("text", ""))
    return LogEntry(entry.seq, entry.kind, text, entry.turn, "error" in body)


def main(arguments: list[str]) -> int:
    """Run, print the counts, and return 1 if the checker found anything."""
    parser = argparse.ArgumentParser(prog="fleet-run")
    for name, default in {"seconds": 600.0, "nodes": 3, "clients": 50, "sessions": 20}.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    parser.add_argument("--seed", default=str(random.randrange(10**9)))
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="fleet-run-"))
    started = time.monotonic()
    run = FleetRun(folder, options.seed, options)
    faults = asyncio.run(run.run())
    entries = sum(map(len, run.history.logs.values()))
    delivered = sum(len(reading.received) for reading in run.history.readings)
    print(f"seed {options.seed}: {time.monotonic() - started:.0f} s, {entries} entries, {delivered} deliveries")
    for name, count in sorted(run.counts.items()):
        print(f"  {count:6} {name}")
    for fault in faults[:50]:
        print(f"FAULT {fault}")
    print(f"{len(faults)} faults")
    if faults:
        print(f"logs of the nodes are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if faults else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nodes and database are ended
    sys.exit(main(sys.argv[1:]))
