"""Whether an update costs the same among many sessions and in a long one: CPU time of one process, without sockets.

    python -m bench.peers.scaling '{"work": "sessions", "count": 1000, "cwd": "/tmp/x"}'

Prints ratios as JSON: how many times as much an update costs in `count` turns of as many sessions at once as in the
same turns one after the other, directly and through a host; or in a session of `count` entries as in a new one. Few and
many take turns, and medians are compared.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from statistics import median
from time import process_time

from dragoman import Agent, ClientSession, RemoteAgent, Turn, connect
from dragoman.config.config_file import NamedAgent
from dragoman.host.auth.roles import MemorySessionRoles
from dragoman.host.host import Host
from dragoman.host.limits import HostLimits
from dragoman.store.memory import MemoryStore
from dragoman.transport.base import Transport
from dragoman.transport.memory import memory_pair
from dragoman.transport.remote.server.auth import Principal

TEXT = "chunk of an answer, forty characters long"
UPDATES = 20  # of one turn where sessions are many
BLOCK = 1_000  # updates of one turn where the length of a session is measured
BLOCKS = 5


class Gate:
    """Lets all turns begin to speak together, so that only updates are measured."""

    def __init__(self) -> None:
        self.count = 0  # updates of each turn
        self.waiting = 0
        self.all_wait = asyncio.Event()
        self.opened = asyncio.Event()

    def agent(self) -> Agent:
        """An agent whose turns wait at this gate, then say `count` chunks."""
        agent = Agent("talker")

        @agent.prompt
        async def answer(turn: Turn) -> None:
            self.waiting -= 1
            if not self.waiting:
                self.all_wait.set()
            await self.opened.wait()
            for _ in range(self.count):
                await turn.say(TEXT)

        return agent


@asynccontextmanager
async def direct(gate: Gate) -> AsyncIterator[RemoteAgent]:
    """A client and its agent."""
    ours, theirs = memory_pair()
    serving = asyncio.ensure_future(gate.agent().serve(theirs))
    async with connect(ours) as remote:
        yield remote
    await serving


@asynccontextmanager
async def hosted(gate: Gate) -> AsyncIterator[RemoteAgent]:
    """A client of a host that logs in memory; each session has an agent of its own."""

    def start(_: NamedAgent) -> Transport:
        ours, theirs = memory_pair()
        gate.agent().start_connection(theirs)
        return ours

    agents = [NamedAgent(name="talker", command="talker")]
    roles = MemorySessionRoles("me")
    limits = HostLimits(max_sessions=100_000)
    async with Host(
        agents, store=MemoryStore(), session_roles=roles, target_of=start, report=lambda _: None, limits=limits
    ) as host:
        ours, theirs = memory_pair()
        serving = asyncio.ensure_future(host.serve_client(theirs, Principal(user="me", is_local=True)))
        async with connect(ours) as remote:
            yield remote
        await serving


async def turn_cost(gate: Gate, sessions: list[ClientSession], updates: int) -> float:
    """Seconds of CPU for each update of a turn in each session."""
    gate.count, gate.waiting = updates, len(sessions)
    gate.all_wait.clear()
    gate.opened.clear()
    received, expected, done = 0, gate.count * len(sessions), asyncio.Event()

    async def read(session: ClientSession) -> None:
        nonlocal received
        async with session.prompt("go") as turn:
            async for _ in turn:
                received += 1
                if received == expected:
                    done.set()

    readers = asyncio.gather(*(read(session) for session in sessions))
    await gate.all_wait.wait()
    started = process_time()
    gate.opened.set()
    await done.wait()
    taken = process_time() - started
    await readers
    return taken / expected


async def among(count: int, open_agent: Callable[[Gate], AbstractAsyncContextManager[RemoteAgent]]) -> float:
    """How many times as much an update costs among `count` sessions as in one."""
    async with AsyncExitStack() as stack:
        crowds: list[tuple[Gate, list[ClientSession]]] = []
        for size in (1, count):
            gate = Gate()
            remote = await stack.enter_async_context(open_agent(gate))
            crowds.append((gate, [await remote.open_session("/tmp") for _ in range(size)]))
        costs: list[tuple[float, float]] = []
        for block in range(BLOCKS + 1):
            turns = crowds if block % 2 else crowds[::-1]
            cost = {
                len(sessions): median([await turn_cost(gate, sessions, UPDATES) for _ in range(count // len(sessions))])
                for gate, sessions in turns
            }
            costs.append((cost[1], cost[count]))
    return median(many / few for few, many in costs[1:])  # the first warms up


async def sessions(count: int) -> dict[str, float]:
    """Among many sessions of one connection, and of a host."""
    return {"direct_growth": await among(count, direct), "host_growth": await among(count, hosted)}


async def entries(count: int) -> dict[str, float]:
    """In a long session of a host."""
    gate = Gate()
    async with hosted(gate) as remote:
        long_session = await remote.open_session("/tmp")
        await turn_cost(gate, [long_session], count)
        costs: list[tuple[float, float]] = []
        for block in range(4 * BLOCKS):
            new_session = await remote.open_session("/tmp")
            pair = [new_session, long_session]
            cost = {each.id: await turn_cost(gate, [each], BLOCK) for each in (pair if block % 2 else pair[::-1])}
            costs.append((cost[new_session.id], cost[long_session.id]))
    return {"entry_growth": median(late / early for early, late in costs[1:])}


WORKS: dict[str, Callable[[int], Awaitable[dict[str, float]]]] = {"sessions": sessions, "entries": entries}

if __name__ == "__main__":
    work = json.loads(sys.argv[1])

    async def run() -> dict[str, float]:
        """Do the work."""
        return await WORKS[work["work"]](work["count"])

    print(json.dumps(asyncio.run(run())))
