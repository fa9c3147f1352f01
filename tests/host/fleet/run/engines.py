"""The engine of a run: one PostgreSQL, or three NATS servers; on machines of their own, or on this one.

Each server can be killed, paused, cut off, and have its disk filled.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from tests.host.fleet.run import record
from tests.host.fleet.run.disk import Disk
from tests.host.fleet.run.network import Network
from tests.host.fleet.run.record import EngineRecord
from tests.store.nats.servers import Servers
from tests.store.postgres import server

# How long a killed database may take until its last process is gone, and it starts again. Seconds.
RESTART_TIMEOUT = 90.0

POSTGRES, NATS = "postgres", "nats"


class RunEngine(Protocol):
    """Servers by name, and the address of all of them."""

    url: str

    @property
    def servers(self) -> tuple[str, ...]:
        """The names of the servers."""

    def kill(self, name: str) -> None:
        """End a server at once, as a power cut would."""

    def restart(self, name: str) -> None:
        """Start a server that was killed."""

    def pause(self, name: str, *, is_paused: bool) -> None:
        """Stop or continue the processes of a server."""

    def fill_disk(self, name: str, *, is_full: bool) -> None:
        """Fill the disk of a server, or free it again."""

    async def begin_record(self) -> None:
        """Write down who claims what from now on, without the product."""

    async def read_record(self, sessions: Sequence[str]) -> EngineRecord:
        """Return who claimed and wrote what."""

    def end(self) -> None:
        """Kill everything and remove what it wrote."""


class PostgresEngine:
    """One server, on a machine of its own or on a socket of this one (contract: `RunEngine`)."""

    servers = ("db",)

    def __init__(self, network: Network | None) -> None:
        self.folder = server.create_folder()
        self._network = network
        self._settings: dict[str, str] = {}
        self._disk: Disk | None = None
        if network is None:
            self.url = f"postgresql:///postgres?host={self.folder}&user={server.SUPERUSER}&schema=fleet_run"
        else:
            address = network.add("db")
            self._settings = {"listen_addresses": address}
            self.url = f"postgresql://{address}/postgres?user={server.SUPERUSER}&schema=fleet_run"
            self._disk = Disk(self.folder)
        server.init(self.folder)
        if network is not None:
            with open(self.folder / "data" / "pg_hba.conf", "a") as file:
                file.write("host all all 10.201.77.0/24 trust\n")
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        prefix = () if self._network is None else self._network.prefix("db")
        return server.start(self.folder, prefix, **self._settings)

    def kill(self, name: str) -> None:
        self._process.send_signal(signal.SIGKILL if self._network is not None else signal.SIGQUIT)
        self._process.wait()

    def restart(self, name: str) -> None:
        deadline = time.monotonic() + RESTART_TIMEOUT
        while True:  # processes of the killed server may still be there
            try:
                self._process = self._start()
                return
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def pause(self, name: str, *, is_paused: bool) -> None:
        for pid in _descendants(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP if is_paused else signal.SIGCONT)

    def fill_disk(self, name: str, *, is_full: bool) -> None:
        assert self._disk is not None
        if is_full:
            self._disk.fill()
            return
        self._disk.free()
        with suppress(subprocess.TimeoutExpired):  # a full disk ends it; it recovers from its log
            self._process.wait(2)
            self.restart(name)

    async def begin_record(self) -> None:
        await record.begin_postgres(self.url)

    async def read_record(self, sessions: Sequence[str]) -> EngineRecord:
        return await record.read_postgres(self.url, sessions)

    def end(self) -> None:
        self.pause("db", is_paused=False)
        self._process.send_signal(signal.SIGQUIT)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
        self._process.kill()
        self._process.wait()
        if self._disk is not None:
            self._disk.remove()
        shutil.rmtree(self.folder, ignore_errors=True)


class NatsEngine:
    """Three servers, each on a machine of its own or all on this one (contract: `RunEngine`)."""

    servers = ("s0", "s1", "s2")

    def __init__(self, network: Network | None) -> None:
        folder = Path(tempfile.mkdtemp(prefix="dragoman-nats-"))
        self._disks: dict[str, Disk] = {}
        if network is None:
            self._servers = Servers(3, folder=folder)
        else:
            addresses = [network.add(name) for name in self.servers]
            for number, name in enumerate(self.servers):
                (folder / f"data{number}").mkdir()
                self._disks[name] = Disk(folder / f"data{number}")
            prefixes = [network.prefix(name) for name in self.servers]
            self._servers = Servers(3, folder=folder, addresses=addresses, prefixes=prefixes)
        self.url = self._servers.url()

    def kill(self, name: str) -> None:
        self._servers.stop(int(name[1:]), signal.SIGKILL)

    def restart(self, name: str) -> None:
        number = int(name[1:])
        try:
            self._servers.start(number)
        except AssertionError:
            # nats-server 2.15.1 may crash when it reads the streams that a full disk cut off. What an operator does:
            # remove its copies of the streams, but not its votes, and let it fetch them from the others.
            print(f"server {name} does not start on what a full disk left; its streams are fetched from the others")
            shutil.rmtree(self._servers.folder / f"data{number}" / "jetstream" / "$G", ignore_errors=True)
            self._servers.start(number)

    def pause(self, name: str, *, is_paused: bool) -> None:
        self._servers.processes[int(name[1:])].send_signal(signal.SIGSTOP if is_paused else signal.SIGCONT)

    def fill_disk(self, name: str, *, is_full: bool) -> None:
        if is_full:
            self._disks[name].fill()
            return
        self._disks[name].free()
        self.kill(name)  # it does not write again by itself: an operator restarts it
        self.restart(name)

    async def begin_record(self) -> None:
        await record.begin_nats(self._servers)

    async def read_record(self, sessions: Sequence[str]) -> EngineRecord:
        return await record.read_nats(self._servers, sessions)

    def end(self) -> None:
        for name in self.servers:
            with suppress(KeyError):
                self.pause(name, is_paused=False)
        for number in list(self._servers.processes):
            self._servers.stop(number, signal.SIGKILL)
        for disk in self._disks.values():
            disk.remove()
        self._servers.end()


ENGINES: dict[str, Callable[[Network | None], RunEngine]] = {POSTGRES: PostgresEngine, NATS: NatsEngine}


def _descendants(pid: int) -> list[int]:
    """Return a process and all below it."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError, ValueError), open(f"/proc/{name}/stat") as file:
                children.setdefault(int(file.read().rpartition(")")[2].split()[1]), []).append(int(name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found
