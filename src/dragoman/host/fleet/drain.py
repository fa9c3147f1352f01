"""Drain a node: its sessions go on elsewhere, turns may end, and clients connect again when that leads elsewhere."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from dragoman.errors import TransportClosed
from dragoman.transport.remote.server.transport import SERVICE_RESTART

if TYPE_CHECKING:
    from dragoman.host.fleet.fleet import Fleet
    from dragoman.host.host_client import HostClient

# How often a draining node looks whether turns have ended. Seconds.
DRAIN_INTERVAL = 0.1

# Who asked /readyz within this time is a balancer that sends clients here. Seconds; they ask at least every 30.
PROBE_MEMORY = 60.0

# A balancer sends no more clients here after so many refusals: the default of HAProxy and of Kubernetes.
ENOUGH_REFUSALS = 3

# How long clients are kept for balancers that have not heard often enough: Kubernetes asks every 10 s. Seconds.
NOTICE_TIMEOUT = 45.0


class BalancerProbes:
    """Who asks this node whether it is ready, and how often each was told that it is not."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked: dict[str, tuple[float, int]] = {}  # address: when it asked last, and refusals in a row

    def note(self, address: str, *, is_ready: bool) -> None:
        """Note an answer to a balancer."""
        now = self._clock()
        self._asked = self._recent(now)
        _, refusals = self._asked.get(address, (now, 0))
        self._asked[address] = (now, 0 if is_ready else refusals + 1)

    @property
    def all_know(self) -> bool:
        """Whether everybody who asks was refused often enough to send clients elsewhere."""
        return all(refusals >= ENOUGH_REFUSALS for _, refusals in self._recent(self._clock()).values())

    def _recent(self, now: float) -> dict[str, tuple[float, int]]:
        return {address: found for address, found in self._asked.items() if now - found[0] < PROBE_MEMORY}


async def drain(fleet: Fleet, grace: float) -> None:
    """Let sessions go, idle ones at once, others when their turn or the grace ends; then let clients connect again.

    A client with an unanswered request keeps its connection, and so does everybody until balancers send clients
    elsewhere: its sessions are relayed meanwhile. A client that comes back here nevertheless is not sent away again.
    """
    host, loop = fleet.host, asyncio.get_running_loop()
    began = loop.time()
    reason = f"node {fleet.node} is drained; connect again"
    sent_away: set[str] = set()
    expected: set[str] | None = None  # the clients to send away; None until balancers know
    while True:
        is_over = loop.time() - began >= grace
        for room in host.rooms.values():
            room.queue.is_paused = True
        ready = [room for room in host.rooms.values() if is_over or room.queue.running is None]
        await asyncio.gather(*(fleet.ownership.let_go(room, reason, is_told=False) for room in ready))
        if expected is None and (fleet.probes.all_know or loop.time() - began >= min(NOTICE_TIMEOUT, grace)):
            expected = {client.id for client in host.clients}
        waiting = [client for client in host.clients if expected is None or client.id in expected - sent_away]
        for client in waiting:
            if expected is not None and fleet.has_successor and (is_over or not is_busy(client)):
                sent_away.add(client.id)
                send_away(client, reason)
        is_waited_for = any(client.id not in sent_away for client in waiting) and fleet.has_successor
        if is_over or not (host.rooms or is_waited_for):
            return
        await asyncio.sleep(DRAIN_INTERVAL)


def is_busy(client: HostClient) -> bool:
    """Tell whether a client waits for an answer, or is in a session that still runs here."""
    is_served = any(room.is_owner for room in client.rooms.values())
    return is_served or bool(client.prompts) or client.connection.running_requests.is_busy


def send_away(client: HostClient, reason: str) -> None:
    """Let a client connect again: it continues at another node from its last entry."""
    transport, error = client.connection.transport, TransportClosed(reason)
    if hasattr(transport, "fail"):
        transport.fail(error, SERVICE_RESTART, reason)
    else:
        client.connection.close_soon(error)
