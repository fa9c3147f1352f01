"""The lease of this node: renewed every few seconds, measured with the monotonic clock from before each renewal.

A node that cannot renew stops starting turns, then ends its agents, before others may claim its sessions.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import msgspec

from dragoman.errors import ProtocolError, StoreFault
from dragoman.store.fleet import Lease, NodeInfo, Nodes, NodeStatus


class LeaseTimes(msgspec.Struct, frozen=True, kw_only=True):
    """What happens how long after the last renewal. Seconds. Tests use shorter ones, in the same order."""

    renew: float = 5.0  # between two renewals: two may fail before anything happens
    stop_turns: float = 8.0  # no turn starts: its end could not be stored
    end_agents: float = 10.0  # agents are asked to end
    kill_agents: float = 12.0  # agents are killed, by a process of its own that needs nobody's help
    counts: float = 15.0  # others may claim

    @classmethod
    def of(cls, counts: float) -> LeaseTimes:
        """Return the times of a lease that counts this long, in the same proportions."""
        part = counts / cls().counts
        return cls(**{name: value * part for name, value in msgspec.to_builtins(cls()).items()})


# How often a failed renewal is tried again, and how often the age of the lease is looked at. Seconds.
RETRY_INTERVAL, CHECK_INTERVAL = 1.0, 0.25


# How often the name of this node is tried again while a former lease of it counts. Seconds.
JOIN_INTERVAL = 0.5


def _is_renewed(before: NodeStatus, after: NodeStatus) -> bool:
    """Tell whether somebody renewed a lease between two looks: its age fell."""
    return after.age < before.age


class NodeLease:
    """Renews the lease of one node and tells when it is lost."""

    def __init__(
        self,
        nodes: Nodes,
        describe: Callable[[], NodeInfo],
        *,
        times: LeaseTimes = LeaseTimes(),  # noqa: B008  (immutable)
        on_renewed: Callable[[float], None] = lambda _: None,
        on_lost: Callable[[str], None] = lambda _: None,
        on_regained: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_renewed` gets the time of the clock at which agents have to be dead unless it is called again."""
        self.times = times
        self.fault = ""  # why the last renewal failed; "" if it did not
        self._nodes = nodes
        self._describe = describe
        self._on_renewed = on_renewed
        self._on_lost = on_lost
        self._on_regained = on_regained
        self._clock = clock
        self._lease: Lease | None = None
        self._renewed_at = float("-inf")
        self._is_lost = True
        self._tasks: list[asyncio.Task[None]] = []
        self._wake = asyncio.Event()

    @property
    def age(self) -> float:
        """Seconds since the last renewal was sent."""
        return self._clock() - self._renewed_at

    @property
    def is_held(self) -> bool:
        """Whether this node may own sessions."""
        return not self._is_lost and self.age < self.times.end_agents

    @property
    def may_start_turns(self) -> bool:
        """Whether a turn that starts now can be expected to be stored."""
        return not self._is_lost and self.age < self.times.stop_turns

    async def join(self, report: Callable[[str], None] = lambda _: None) -> None:
        """Take the name of this node, and keep it until `leave`. Raise StoreFault("taken") if another node has it.

        A lease of this name that nobody renews is of a node that was killed: `report` is told, and it is waited out.
        """
        node, first = self._describe().node, None
        while True:
            try:
                await self._join()
                break
            except StoreFault as error:
                status = await self._nodes.node(node) if error.why == "taken" else None
                if error.why != "taken" or (status is not None and first is not None and _is_renewed(first, status)):
                    raise
                if first is None and status is not None:
                    left = max(0.0, status.seconds - status.age)
                    report(f"a node {node} was here {status.age:.0f} s ago; waiting {left:.0f} s until its lease ends")
                first = first or status
            await asyncio.sleep(min(JOIN_INTERVAL, self.times.renew))
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._renew_forever()), loop.create_task(self._watch_age())]

    async def leave(self) -> None:
        """Stop renewing, and give the name up."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self._lease is not None:
            try:
                async with asyncio.timeout(RETRY_INTERVAL):
                    await self._nodes.leave(self._lease)
            except (ProtocolError, TimeoutError):
                pass  # the lease ends by itself

    def freeze(self) -> None:
        """Stop renewing without giving the name up, as a killed node does. For tests."""
        for task in self._tasks:
            task.cancel()

    def renew_soon(self) -> None:
        """Renew now, because what this node says of itself changed."""
        self._wake.set()

    async def _join(self) -> None:
        sent = self._clock()
        self._lease = await self._nodes.join(self._describe(), seconds=self.times.counts)
        self._note_renewed(sent)

    def _note_renewed(self, sent: float) -> None:
        self._renewed_at = sent
        self.fault = ""
        self._on_renewed(sent + self.times.kill_agents)
        if self._is_lost and self.age < self.times.stop_turns:
            self._is_lost = False
            self._on_regained()

    async def _renew_forever(self) -> None:
        while True:
            pause = self.times.renew if not self.fault else min(RETRY_INTERVAL, self.times.renew)
            self._wake.clear()
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                pass
            await self._renew_once()

    async def _renew_once(self) -> None:
        self._check_age()  # the process may have been paused
        sent = self._clock()
        try:
            # A renewal that takes longer than this is late; the next may be faster.
            async with asyncio.timeout(self.times.renew):
                if self._lease is None:
                    await self._join()
                    return
                await self._nodes.renew(self._lease, self._describe())
            self._note_renewed(sent)
        except StoreFault as error:
            self.fault = error.message
            if error.why in ("fenced", "taken"):  # somebody else has the name, or the engine forgot this node
                self._lease = None
                self._lose(error.message)
        except ProtocolError as error:
            self.fault = error.message
        except TimeoutError:
            self.fault = f"the store did not answer within {self.times.renew:g} s"

    async def _watch_age(self) -> None:
        while True:
            await asyncio.sleep(min(CHECK_INTERVAL, self.times.renew / 10))
            self._check_age()

    def _check_age(self) -> None:
        if not self._is_lost and self.age >= self.times.end_agents:
            self._lose(self.fault or f"the lease was not renewed for {self.age:.0f} s")

    def _lose(self, reason: str) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._on_lost(reason)
