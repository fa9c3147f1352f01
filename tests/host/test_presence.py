"""Who is seen as what: a connection outlives its sockets, and the others see that."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from dragoman import connect
from dragoman.transport.memory import pair
from dragoman.transport.remote.limits import Limits
from dragoman.transport.remote.sockets import SocketTransport
from dragoman.transport.remote.visitor import Visitor
from tests.host.houses import hosting, opened


def test_whoever_has_lost_the_socket_is_away_until_it_is_back(tmp_path: Path) -> None:
    async def scene() -> None:
        async with hosting() as hosted:
            ours, theirs = pair()
            door: Any = theirs
            door.on_presence = lambda _: None  # as the transport of a WebSocket has it
            hosted.tasks.append(asyncio.ensure_future(hosted.house.receive(theirs, Visitor(user="ann", local=True))))
            async with connect(ours) as remote:
                await opened(remote, tmp_path)
                states = []
                for is_there in (False, True):
                    door.on_presence(is_there)
                    states += [member.state for member in hosted.room.members.values()]
                assert states == ["away", "here"]

    asyncio.run(scene())


class Wire:
    """A socket that takes everything."""

    buffered = 0

    def send(self, frames: list[bytes]) -> None:
        pass

    def ready(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def test_a_transport_says_when_its_socket_parts_and_when_another_comes() -> None:
    async def scene() -> None:
        transport = SocketTransport("ann", Limits(), resumable=True)
        heard: list[bool] = []
        transport.on_presence = heard.append
        wire: Any = Wire()
        transport.attach(wire)
        transport.part(wire, "the network is gone")
        transport.attach(wire)
        assert heard == [True, False, True]
        transport.part(wire, "", is_goodbye=True)
        assert heard == [True, False, True]

    asyncio.run(scene())
