"""The hottest paths, each alone in one process without sockets: `hot_paths NAME COUNT` does its work so many times.

Counted by bench/instructions.py under callgrind. The transports are in memory, so that only our own code counts.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable

from bench.peers.guarding import decisions
from bench.peers.ours_client import Editor, constant
from dragoman import Agent, Turn, connect
from dragoman.config.config_file import NamedAgent
from dragoman.host.auth.roles import MemorySessionRoles
from dragoman.host.host import Host
from dragoman.roles.client.dial import Dialer
from dragoman.roles.proxy.relay import Relay
from dragoman.store.memory import MemoryStore
from dragoman.transport.base import Transport
from dragoman.transport.memory import memory_pair
from dragoman.transport.remote.server.auth import Principal

TEXT = "chunk of an answer, forty characters long"


def talker(dialect: str = "v1") -> Agent:
    """An agent that answers COUNT chunks, or asks for so many files."""
    agent = Agent("talker", dialect=dialect)

    @agent.prompt
    async def answer(turn: Turn) -> None:
        what, count = turn.text.split()
        for _ in range(int(count)):
            if what == "say":
                await turn.say(TEXT)
            else:
                await turn.files.read("/tmp/a")

    return agent


async def converse(transport: Transport, prompt: str) -> None:
    """One prompt, whose updates are read and dropped."""
    async with connect(transport, on={"fs/read_text_file": constant}) as remote:
        await Editor(remote, "/tmp").prompt(await remote.open_session("/tmp"), prompt, lambda _: None)


async def stream(count: int) -> None:
    """Updates from `turn.say` to the client's loop."""
    ours, theirs = memory_pair()
    async with asyncio.TaskGroup() as group:
        group.create_task(talker().serve(theirs))
        await converse(ours, f"say {count}")


async def requests(count: int) -> None:
    """Requests of the agent that the client answers, one by one."""
    ours, theirs = memory_pair()
    async with asyncio.TaskGroup() as group:
        group.create_task(talker().serve(theirs))
        await converse(ours, f"read {count}")


async def interpret(count: int) -> None:
    """Updates of an agent that speaks the draft, for a client of v1."""
    ours, front = memory_pair()
    back, theirs = memory_pair()
    async with asyncio.TaskGroup() as group:
        group.create_task(talker("draft").serve(theirs))
        dialer = Dialer(back, dialect="draft", cwd="/tmp", report=lambda _: None)
        group.create_task(Relay(front, dialer, client_dialect="v1", report=lambda _: None).run())
        await converse(ours, f"say {count}")


async def room(count: int) -> None:
    """Updates that a host logs in memory and sends to one member."""

    def start(_: NamedAgent) -> Transport:
        ours, theirs = memory_pair()
        talker().start_connection(theirs)
        return ours

    agents = [NamedAgent(name="talker", command="talker")]
    async with Host(
        agents, store=MemoryStore(), session_roles=MemorySessionRoles("me"), target_of=start, report=lambda _: None
    ) as host:
        ours, theirs = memory_pair()
        serving = asyncio.ensure_future(host.serve_client(theirs, Principal(user="me", is_local=True)))
        await converse(ours, f"say {count}")
        await serving


async def policy(count: int) -> None:
    """Decisions of the policy."""
    decisions(count)


PATHS: dict[str, Callable[[int], Awaitable[None]]] = {
    "stream": stream,
    "requests": requests,
    "interpret": interpret,
    "room": room,
    "policy": policy,
}

if __name__ == "__main__":

    async def run() -> None:
        """Do the work."""
        await PATHS[sys.argv[1]](int(sys.argv[2]))

    asyncio.run(run())
