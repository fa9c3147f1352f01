"""Drain a node behind a balancer: no turn that ends in time is interrupted, and clients go where they are served."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dragoman import connect
from dragoman.host.fleet.drain import ENOUGH_REFUSALS, PROBE_MEMORY, BalancerProbes
from tests.cli.process import DRAGOMAN
from tests.host.fleet.node_process import ECHO, NodeProcess
from tests.host.fleet.test_processes import ask
from tests.host.memory_host import until
from tests.host.operations.proxies import free_port, start_haproxy
from tests.store.nats.servers import Servers
from tests.transport.remote.certificate import certificate

RESTORED, RETRIED = "a new connection; 1 session attached again", "trying again"


@pytest.fixture(params=("postgres", "nats"))
def engine_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of each engine."""
    if request.param == "postgres":
        yield request.getfixturevalue("postgres_url")()
        return
    pytest.importorskip("nats")
    servers = Servers(1)
    yield servers.url()
    servers.end()


class Balanced:
    """Two nodes behind HAProxy. The second starts later, so that clients which are there before are at the first."""

    def __init__(self, folder: Path, store: str, stack: ExitStack) -> None:
        self.folder, self._store, self._stack = folder, store, stack
        self._ports = {"n1": free_port(), "n2": free_port()}
        self.certificate, key = certificate(folder)
        self.start("n1")
        command = [*DRAGOMAN, "tokens", "create", "ann", "--role", "admin", "--store", store]
        self._token = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout.strip()
        proxy = start_haproxy(folder, self.certificate, key, list(self._ports.values()), interval="200ms")
        stack.callback(proxy.stop)
        self._url = f"wss://localhost:{proxy.port}/acp"

    def start(self, name: str) -> NodeProcess:
        bind = ("--bind", f"127.0.0.1:{self._ports[name]}", "--access-log", str(self._access_log(name)))
        arguments = (*bind, "--no-local", "--name", "localhost", "--root", str(self.folder), "--trust-engine")
        node = NodeProcess(
            self.folder, name, self._store, *arguments, "--labels", "shared:all=/", agent=ECHO, lease=15.0
        )
        self._stack.callback(node.end)
        return node

    def client(self, reports: list[str]) -> connect:
        return connect(self._url, token=self._token, tls=str(self.certificate), report=reports.append)

    def requests(self, name: str) -> list[str]:
        """Return the access log of a node: probes when they are answered, WebSockets when they end."""
        log = self._access_log(name)
        return log.read_text().splitlines() if log.exists() else []

    def drain(self, name: str) -> subprocess.Popen[str]:
        command = [*DRAGOMAN, "fleet", "drain", name, "--for", "5m", "--store", self._store]
        draining = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._stack.callback(draining.kill)
        return draining

    def _access_log(self, name: str) -> Path:
        return self.folder / f"{name}.access"


@pytest.mark.item("FL-20")
async def test_drain_interrupts_no_turn_and_clients_come_back_at_the_first_try(tmp_path: Path, engine_url: str) -> None:
    with ExitStack() as stack:
        fleet = Balanced(tmp_path, engine_url, stack)
        gate, of_worker, of_idler = tmp_path / "gate", list[str](), list[str]()
        async with fleet.client(of_worker) as worker, fleet.client(of_idler) as idler:
            working = await worker.open_session(str(tmp_path))
            idle = await idler.open_session(str(tmp_path))
            assert await ask(idle, "/echo one") == "one@n1"
            turn = asyncio.ensure_future(working.ask(f"/until {gate}"))
            await until(lambda: bool(working.turn))
            fleet.start("n2")
            await until(lambda: any("/readyz 200" in line for line in fleet.requests("n2")))
            draining = fleet.drain("n1")
            await until(lambda: any(RESTORED in text for text in of_idler))
            before = fleet.requests("n1")
            refusals = [at for at, line in enumerate(before) if "/readyz 503" in line]
            cut = next(at for at, line in enumerate(before) if "/acp 101" in line)
            assert len([at for at in refusals if at < cut]) >= ENOUGH_REFUSALS, "the balancer knew before the client"
            assert await ask(idle, "/echo two") == "two@n2"
            assert not of_worker, "the client with a turn keeps its connection"
            assert not turn.done()
            gate.touch()
            assert await turn == f"{gate}@n1", "the turn ended where it began"
            await until(lambda: any(RESTORED in text for text in of_worker))
            assert await ask(working, "/echo three") == "three@n2"
            assert "n1 is drained" in (await asyncio.to_thread(draining.communicate))[0]
            assert draining.returncode == 0
        for reports in (of_worker, of_idler):
            assert len([text for text in reports if RESTORED in text]) == 1, "one new connection"
            assert not any(RETRIED in text for text in reports), "the first try leads to a node that serves"


def test_a_balancer_knows_after_it_was_refused_often_enough() -> None:
    now = [0.0]
    probes = BalancerProbes(lambda: now[0])
    assert probes.all_know, "nobody asks"
    probes.note("10.0.0.1", is_ready=True)
    probes.note("10.0.0.2", is_ready=True)
    for _ in range(ENOUGH_REFUSALS):
        assert not probes.all_know
        probes.note("10.0.0.1", is_ready=False)
    assert not probes.all_know, "the other was not told"
    now[0] += PROBE_MEMORY + 1
    assert probes.all_know, "who has not asked for long is no balancer of this node"
    probes.note("10.0.0.1", is_ready=False)
    assert not probes.all_know, "what it was told before is forgotten"
