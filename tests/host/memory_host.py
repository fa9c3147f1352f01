"""A house with agents in memory, and clients that come to it: what the tests of rooms share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dragoman import Agent, Turn, connect
from dragoman.config.config_file import NamedAgent
from dragoman.engine.connection import Connection
from dragoman.host.auth.roles import MemorySessionRoles
from dragoman.host.host import Host
from dragoman.host.limits import HostLimits
from dragoman.roles.client.remote_agent import RemoteAgent
from dragoman.roles.client.session import ClientSession
from dragoman.schema.initialize import ClientCapabilities, FileSystemCapabilities
from dragoman.store.contract import Store
from dragoman.store.memory import MemoryStore
from dragoman.transport.base import Transport
from dragoman.transport.memory import MemoryTransport, memory_pair
from dragoman.transport.remote.server.auth import Principal

PATIENCE = 60.0

TALKER = NamedAgent(name="talker", command="talker")

ANNOUNCING = ClientCapabilities(
    fs=FileSystemCapabilities(read_text_file=False, write_text_file=False),
    terminal=False,
    meta={"dragoman": {"host": {"presence": True, "queue": True, "turns": True, "permissions": True}}},
)


def talker(**options: Any) -> Agent:
    """An agent that says what it is told to do: say, ask, wait for a gate, read, or speak much."""
    agent = Agent("talker", **options)
    agent.gates = {}  # type: ignore[attr-defined]

    @agent.prompt
    async def answer(turn: Turn) -> None:
        text = getattr(turn.prompt[-1], "text", "")  # before it, an agent may be told what was said before
        word, _, rest = text.partition(" ")
        if word == "many":
            for number in range(int(rest)):
                await turn.say(f"{number} ")
        elif word == "ask":
            async with turn.tool("Paint", kind="edit"):
                await turn.say("yes" if await turn.ask_permission("May I?") else "no")
        elif word == "wait":
            await turn.say(f"waiting for {rest}")
            await agent.gates.setdefault(rest, asyncio.Event()).wait()  # type: ignore[attr-defined]
            await turn.say(f"; {rest} came")
        elif word == "read":
            await turn.say(await turn.files.read(rest))
        elif word == "write":
            path, _, text = rest.partition(" ")
            await turn.files.write(path, text)
            await turn.say("written")
        elif word == "die":
            await turn.session.connection.transport.close("dying")
            await asyncio.Event().wait()
        else:
            await turn.say(f"heard {text}")

    return agent


class Hosted:
    """A house for one test, and what is reached through it."""

    def __init__(self, house: Host, agents: list[Agent], started: list[Connection]) -> None:
        self.house = house
        self.agents = agents
        self.started = started  # the agent's end of each that was started
        self.tasks: list[asyncio.Task[None]] = []

    def visit(self, user: str = "ann", *, limit: int | None = None, **more: Any) -> MemoryTransport:
        """Knock as this user; gives the client's end."""
        ours, theirs = memory_pair(limit)
        visitor = Principal(user=user, **({"local": True} | more))
        self.tasks.append(asyncio.ensure_future(self.house.serve_client(theirs, visitor)))
        return ours

    @asynccontextmanager
    async def client(self, user: str = "ann", *, visitor: dict[str, Any] | None = None, **options: Any) -> Any:
        """A client of ours, connected as this user."""
        async with connect(self.visit(user, **(visitor or {})), **options) as remote:
            yield remote

    @property
    def room(self) -> Any:
        """The only room there is."""
        (room,) = self.house.rooms.values()
        return room


@asynccontextmanager
async def hosting(
    make: Callable[[], Agent] = talker,
    *,
    store: Store | None = None,
    agents: Sequence[NamedAgent] = (TALKER,),
    **options: Any,
) -> AsyncIterator[Hosted]:
    """A house whose agents run in memory, a fresh one for each process there would be."""
    made: list[Agent] = []
    started: list[Connection] = []

    def reach(_: NamedAgent) -> Transport:
        ours, theirs = memory_pair()
        agent = make()
        made.append(agent)
        started.append(agent.start_connection(theirs))
        return ours

    options.setdefault("directory", MemorySessionRoles())
    options.setdefault("bounds", HostLimits())
    house = Host(agents, store=store or MemoryStore(), target_of=reach, **options)
    hosted = Hosted(house, made, started)
    try:
        async with asyncio.timeout(PATIENCE):
            yield hosted
    finally:
        await house.close()
        await asyncio.wait_for(asyncio.gather(*hosted.tasks, return_exceptions=True), PATIENCE)
        for connection in started:
            await connection.close()


def said(session: ClientSession) -> list[tuple[str, str]]:
    """Who said what, as a client took it down."""
    return [(message.role, message.text) for message in session.transcript.messages]


async def until(condition: Callable[[], Any]) -> None:
    """Wait until something is so; the test's own limit ends it."""
    while not condition():  # noqa: ASYNC110  (what is waited for is another client's doing)
        await asyncio.sleep(0.001)


async def opened(remote: RemoteAgent, cwd: Path | str = "/tmp", **more: Any) -> ClientSession:
    """A session in this folder."""
    return await remote.open_session(str(cwd), **more)
