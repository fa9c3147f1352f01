"""Nodes of a fleet run: behind proxies on this machine, or each on a machine of its own, with TLS and tokens."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tests.cli.process import DRAGOMAN
from tests.host.fleet.node_process import ECHO, NodeProcess
from tests.host.fleet.run.disk import Disk
from tests.host.fleet.run.network import Network
from tests.host.fleet.run.proxy import CuttableProxy
from tests.host.operations.proxies import free_port
from tests.store.postgres import server
from tests.transport.remote.certificate import certificate

# The port of every node on its own machine.
PORT = 7437

# The disk of a node on its own machine: its state and its log.
NODE_DISK_SIZE = "32m"

# How long turns may go on when a node drains. Seconds.
GRACE = "20"


class RunNode(Protocol):
    """A node that can be cut off from the engine and from the other nodes."""

    name: str
    process: NodeProcess | None
    is_faulty: bool

    async def start(self) -> None:
        """Start it."""

    async def restart(self) -> None:
        """Start it again, after it was killed."""

    async def stop(self) -> None:
        """End it."""

    def cut_engine(self) -> None:
        """Cut it off from the engine."""

    def cut_links(self, *, is_one_way: bool) -> None:
        """Cut it off from the other nodes; one way: what they send does not arrive, or is not answered."""

    def mend(self) -> None:
        """Mend all cuts."""

    def fill_disk(self, *, is_full: bool) -> None:
        """Fill the disk with its state and its log, or free it again."""


class ProxiedNode:
    """A node on this machine behind proxies: one to the database, one from the other nodes (contract: `RunNode`)."""

    def __init__(self, name: str, folder: Path, database: Path, program: Sequence[str] = DRAGOMAN) -> None:
        self.name = name
        self._program = program
        self._folder = folder
        self._port = free_port()
        self.engine_proxy = CuttableProxy(str(database / ".s.PGSQL.5432"))
        self.link_proxy = CuttableProxy(("127.0.0.1", self._port))
        self.process: NodeProcess | None = None
        self.is_faulty = False

    async def start(self) -> None:
        await self.engine_proxy.start()
        await self.link_proxy.start()
        store = f"postgresql://127.0.0.1:{self.engine_proxy.port}/postgres?user={server.SUPERUSER}&schema=fleet_run"
        advertise = f"http://127.0.0.1:{self.link_proxy.port}"
        bind = ("--bind", f"127.0.0.1:{self._port}", "--advertise", advertise)
        arguments = ("--labels", "shared:all=/", "--grace", GRACE, *bind)
        self.process = await asyncio.to_thread(
            lambda: NodeProcess(self._folder, self.name, store, *arguments, agent=ECHO, program=self._program)
        )

    async def restart(self) -> None:
        assert self.process is not None
        await start_again(self.process)

    async def stop(self) -> None:
        if self.process is not None:
            await asyncio.to_thread(self.process.end)
        await self.engine_proxy.stop()
        await self.link_proxy.stop()

    def cut_engine(self) -> None:
        self.engine_proxy.cut()

    def cut_links(self, *, is_one_way: bool) -> None:
        self.link_proxy.cut(*(("from",) if is_one_way else ()))

    def mend(self) -> None:
        self.engine_proxy.mend()
        self.link_proxy.mend()

    def fill_disk(self, *, is_full: bool) -> None:
        raise AssertionError("nodes of one machine have one disk")


class Access:
    """What nodes and clients on several machines need: a certificate for all addresses, and a token."""

    def __init__(self, folder: Path, addresses: list[str], store: str) -> None:
        (folder / "tls").mkdir()
        self.certificate, self.key = certificate(folder / "tls", *addresses)
        command = [*DRAGOMAN, "tokens", "create", "ann", "--role", "admin", "--store", store]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        self.token = done.stdout.strip()


class SpacedNode:
    """A node on a machine of its own (contract: `RunNode`)."""

    def __init__(self, name: str, folder: Path, network: Network, store: str, servers: tuple[str, ...]) -> None:
        self.name = name
        self._folder = folder
        self._network = network
        self._store = store
        self._servers = servers
        self._address = network.add(name)
        self.access: Access | None = None  # set when all addresses are known
        self.peers: list[str] = []
        self.process: NodeProcess | None = None
        self.is_faulty = False
        (folder / name).mkdir()
        self._disk = Disk(folder / name, NODE_DISK_SIZE)

    async def start(self) -> None:
        access = self.access
        assert access is not None
        arguments = (
            "--labels", "shared:all=/", "--bind", f"{self._address}:{PORT}", "--root", str(self._folder),
            "--grace", GRACE, "--tls", str(access.certificate), str(access.key), "--node-ca", str(access.certificate),
        )  # fmt: skip
        self.process = await asyncio.to_thread(
            lambda: NodeProcess(
                self._folder,
                self.name,
                self._store,
                *arguments,
                agent=ECHO,
                prefix=self._network.prefix(self.name),
                connect_options={"token": access.token, "tls": str(access.certificate)},
            )
        )

    async def restart(self) -> None:
        assert self.process is not None
        await start_again(self.process)

    async def stop(self) -> None:
        try:
            if self.process is not None:
                await asyncio.to_thread(self.process.end)
                shutil.copy(self.process.log, self._folder / f"{self.name}.log")
        finally:
            await asyncio.to_thread(self._disk.remove)

    def cut_engine(self) -> None:
        for server_name in self._servers:
            self._network.cut(self.name, server_name)
            self._network.cut(server_name, self.name)

    def cut_links(self, *, is_one_way: bool) -> None:
        for peer in self.peers:
            self._network.cut(self.name, peer)
            if not is_one_way:
                self._network.cut(peer, self.name)

    def mend(self) -> None:
        self._network.mend(self.name)

    def fill_disk(self, *, is_full: bool) -> None:
        (self._disk.fill if is_full else self._disk.free)()


async def start_again(process: NodeProcess) -> None:
    """Start a node that was killed. It may fail while the engine is away, so it is tried again."""
    for _ in range(60):
        try:
            await asyncio.to_thread(process.start)
            return
        except AssertionError:
            await asyncio.sleep(1)
    raise AssertionError(f"node {process.name} did not start again: {process.log.read_text()[-2000:]}")
