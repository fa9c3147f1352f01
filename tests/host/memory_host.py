"""A host with agents in memory, and clients that connect to it: shared by the tests of rooms."""

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
from dragoman.host.room.room import Room
from dragoman.roles.client.remote_agent import RemoteAgent
from dragoman.roles.client.session import ClientSession
from dragoman.schema.initialize import ClientCapabilities, FileSystemCapabilities
from dragoman.store.contract import Store
from dragoman.store.memory import MemoryStore
from dragoman.transport.base import Transport
from dragoman.transport.memory import MemoryTransport, memory_pair
from dragoman.transport.remote.server.auth import Principal

TIMEOUT = 60.0

TALKER = NamedAgent(name="talker", command="talker")

ANNOUNCING = ClientCapabilities(
    fs=FileSystemCapabilities(read_text_file=False, write_text_file=False),
    terminal=False,
    meta={"dragoman": {"host": {"presence": True, "queue": True, "turns": True, "permissions": True}}},
)


def talker(**options: Any) -> Agent:
    """Return an agent that does what the prompt says: say, ask, wait for a gate, read, or say much."""
    agent = Agent("talker", **options)
    agent.gates = {}  # type: ignore[attr-defined]

    @agent.prompt
    async def answer(turn: Turn) -> None:
        text = getattr(turn.prompt[-1], "text", "")  # earlier blocks may contain the history
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
    """A host for one test, with its agents and clients."""

    def __init__(self, host: Host, agents: list[Agent], started: list[Connection]) -> None:
        self.host = host
        self.agents = agents
        self.started = started  # the agent's end of each started connection
        self.tasks: list[asyncio.Task[None]] = []

    def connect_as(self, user: str = "ann", *, limit: int | None = None, **more: Any) -> MemoryTransport:
        """Connect as this user. Return the client's end."""
        ours, theirs = memory_pair(limit)
        principal = Principal(user=user, **({"is_local": True} | more))
        self.tasks.append(asyncio.ensure_future(self.host.serve_client(theirs, principal)))
        return ours

    @asynccontextmanager
    async def client(
        self, user: str = "ann", *, principal: dict[str, Any] | None = None, **options: Any
    ) -> AsyncIterator[RemoteAgent]:
        """Yield a client connected as this user."""
        async with connect(self.connect_as(user, **(principal or {})), **options) as remote:
            yield remote

    @property
    def room(self) -> Room:
        """The only room there is."""
        (room,) = self.host.rooms.values()
        return room


@asynccontextmanager
async def running_host(
    make: Callable[[], Agent] = talker,
    *,
    store: Store | None = None,
    agents: Sequence[NamedAgent] = (TALKER,),
    **options: Any,
) -> AsyncIterator[Hosted]:
    """Yield a host whose agents run in memory, a new one for each process it would start."""
    created: list[Agent] = []
    started: list[Connection] = []

    def target_of(_: NamedAgent) -> Transport:
        ours, theirs = memory_pair()
        agent = make()
        created.append(agent)
        started.append(agent.start_connection(theirs))
        return ours

    options.setdefault("session_roles", MemorySessionRoles())
    options.setdefault("limits", HostLimits())
    host = Host(agents, store=store or MemoryStore(), target_of=target_of, **options)
    hosted = Hosted(host, created, started)
    try:
        async with asyncio.timeout(TIMEOUT):
            yield hosted
    finally:
        await host.close()
        await asyncio.wait_for(asyncio.gather(*hosted.tasks, return_exceptions=True), TIMEOUT)
        for connection in started:
            await connection.close()


def messages_of(session: ClientSession) -> list[tuple[str, str]]:
    """Return role and text of each message in the transcript."""
    return [(message.role, message.text) for message in session.transcript.messages]


async def until(condition: Callable[[], Any]) -> None:
    """Poll until a condition is true; the timeout of the test ends it."""
    while not condition():  # noqa: ASYNC110  (what is waited for is another client's doing)
        await asyncio.sleep(0.001)


async def open_session(remote: RemoteAgent, cwd: Path | str = "/tmp", **more: Any) -> ClientSession:
    """Open a session in this folder."""
    return await remote.open_session(str(cwd), **more)
