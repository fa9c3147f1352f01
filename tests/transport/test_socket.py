"""Connect to a running agent by its address: a local socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman import Agent, StartFailed, Turn, connect
from dragoman.testing import check_transport
from dragoman.transport.address import parse_local_address
from dragoman.transport.base import Transport
from dragoman.transport.socket import dial_local
from dragoman.transport.stream import StreamTransport

WITHIN = 90.0


@asynccontextmanager
async def listening(family: socket.AddressFamily, place: str | tuple[str, int]) -> AsyncIterator[socket.socket]:
    """A listening socket."""
    with socket.socket(family, socket.SOCK_STREAM) as door:
        door.bind(place)
        door.listen()
        door.setblocking(False)
        yield door


async def accept(door: socket.socket) -> StreamTransport:
    end, _ = await asyncio.get_running_loop().sock_accept(door)
    fd = end.detach()
    return StreamTransport(fd, fd, peer="whoever dialled")


@pytest.fixture(params=["unix", "tcp"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[socket.AddressFamily, str | tuple[str, int]]:
    if request.param == "unix":
        return socket.AF_UNIX, str(tmp_path / "agent.sock")
    return socket.AF_INET, ("127.0.0.1", 0)


def address(door: socket.socket) -> str:
    name = door.getsockname()
    return f"unix:{name}" if isinstance(name, str) else f"tcp://127.0.0.1:{name[1]}"


async def test_a_client_talks_to_an_agent_at_an_address(
    place: tuple[socket.AddressFamily, str | tuple[str, int]],
) -> None:
    agent = Agent("echo")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.say(f"You said: {turn.text}")

    async with listening(*place) as door:

        async def serve() -> None:
            await agent.serve(await accept(door))

        async with asyncio.TaskGroup() as group:
            group.create_task(serve())
            async with connect(address(door)) as remote:
                session = await remote.open_session("/")
                assert await session.ask("hello") == "You said: hello"


async def test_a_socket_passes_the_transport_contract_checks(tmp_path: Path) -> None:
    async def joined() -> tuple[Transport, Transport]:
        path = tmp_path / "contract.sock"
        path.unlink(missing_ok=True)
        async with listening(socket.AF_UNIX, str(path)) as door:
            ours, theirs = await asyncio.gather(dial_local(f"unix://{path}"), accept(door))
        return ours, theirs

    await check_transport(joined)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("tcp://192.0.2.1:9000", "this machine alone"),
        ("tcp://example.org:9000", "tcp://127.0.0.1:9000"),
        ("tcp://127.0.0.1", "the port is missing"),
        ("tcp://127.0.0.1:99999", "tcp://127.0.0.1:9000"),
        ("unix:agent.sock", "full path"),
    ],
)
def test_the_error_for_an_invalid_address_lists_valid_ones(wrong: str, says: str) -> None:
    with pytest.raises(StartFailed, match=says):
        parse_local_address(wrong)


async def test_an_unreachable_address_fails_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match="is the agent running there"):
        async with connect(f"unix:{tmp_path}/nobody.sock"):
            pass
