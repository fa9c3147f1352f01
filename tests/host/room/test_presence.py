"""Who is seen as what: a connection outlives its sockets, and the others see that."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import msgspec

from dragoman import connect
from dragoman.cli.ui.terminal import OutputStream
from dragoman.cli.ui.transcript_view import TranscriptView
from dragoman.host.limits import HostLimits
from dragoman.schema.base import encode
from dragoman.store.contract import Entry, Summary
from dragoman.transport.memory import memory_pair
from dragoman.transport.remote.headers import CLOSE_SLOW
from dragoman.transport.remote.server.auth import Principal
from dragoman.transport.remote.server.limits import ServerLimits
from dragoman.transport.remote.server.ws_transport import WebSocketServerTransport
from tests.host.memory_host import hosting, opened, said, until


async def test_whoever_has_lost_the_socket_is_away_until_it_is_back(tmp_path: Path) -> None:

    async with hosting() as hosted:
        ours, theirs = memory_pair()
        door: Any = theirs
        door.on_presence = lambda _: None  # as the transport of a WebSocket has it
        hosted.tasks.append(
            asyncio.ensure_future(hosted.house.serve_client(theirs, Principal(user="ann", is_local=True)))
        )
        async with connect(ours) as remote:
            await opened(remote, tmp_path)
            states = []
            for is_there in (False, True):
                door.on_presence(is_there)
                states += [member.state for member in hosted.room.members.values()]
            assert states == ["away", "here"]


class Wire:
    """A socket that takes everything."""

    buffered = 0

    def send(self, frames: list[bytes]) -> None:
        pass

    def ready(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


async def test_a_transport_says_when_its_socket_parts_and_when_another_comes() -> None:

    transport = WebSocketServerTransport("ann", ServerLimits(), is_resumable=True)
    heard: list[bool] = []
    transport.on_attached = heard.append
    wire: Any = Wire()
    transport.attach(wire)
    transport.detach(wire, "the network is gone")
    transport.attach(wire)
    assert heard == [True, False, True]
    transport.detach(wire, "", is_final=True)
    assert heard == [True, False, True]


class Stuck(Wire):
    """A socket whose client reads nothing, and what it was closed with."""

    def __init__(self) -> None:
        self.buffered = 0
        self.frames: list[bytes] = []
        self.closed: list[tuple[int, str]] = []

    @property
    def ready(self) -> bool:  # type: ignore[override]
        return self.buffered < 1000

    def write(self, frames: list[bytes]) -> None:
        self.frames += frames
        self.buffered += sum(map(len, frames))

    def close(self, code: int, reason: str) -> None:
        self.closed.append((code, reason))


async def test_a_client_that_does_not_read_its_socket_is_told_so_by_the_code(tmp_path: Path) -> None:

    async with hosting(bounds=HostLimits(max_unread_bytes=100_000)) as hosted, hosted.client("ann") as ann:
        session = await opened(ann, tmp_path)
        transport, wire = WebSocketServerTransport("ann", ServerLimits()), Stuck()
        transport.attach(wire)
        hosted.tasks.append(
            asyncio.ensure_future(hosted.house.serve_client(transport, Principal(user="ann", is_local=True)))
        )
        loading = {"sessionId": session.id, "cwd": str(tmp_path), "mcpServers": []}
        for id, (method, params) in enumerate([("initialize", {"protocolVersion": 1}), ("session/resume", loading)], 1):
            call = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
            transport.deliver_frames([msgspec.json.encode(call)])
            await until(lambda id=id: any(b'"id":%d' % id in frame for frame in wire.frames))  # type: ignore[misc]
            wire.buffered = 0
        assert len(hosted.room.members) == 2
        await session.ask("many 3000")
        await until(lambda: wire.closed)
        assert wire.closed[0][0] == CLOSE_SLOW
        assert "slow_consumer" in wire.closed[0][1]
        await until(lambda: len(hosted.house.clients) == 1)


async def test_the_log_has_who_was_there_while_something_was_said(tmp_path: Path) -> None:

    async with hosting() as hosted, hosted.client("ann") as ann:
        session = await opened(ann, tmp_path)
        house, store = hosted.house, hosted.house.store
        before = (await store.sessions())[0].updated_at
        for user in ("ben", "cem"):
            await house.session_roles.set_role(session.id, user, "viewer")

        async def noted() -> list[dict[str, Any]]:
            await hosted.room.chronicle.flush()
            return [entry.body for entry in await store.read(session.id) if entry.kind == "member"]

        def who(user: str, role: str) -> dict[str, str]:
            return {"user": user, "role": role, "client": "dragoman"}

        async with hosted.client("cem") as cem:
            await cem.load(session.id, str(tmp_path))
        assert await noted() == []  # who only looks changes nothing
        assert (await store.sessions())[0].updated_at == before
        running = asyncio.ensure_future(session.ask("wait gate"))
        await until(lambda: "gate" in hosted.agents[-1].gates)  # type: ignore[attr-defined]
        assert await noted() == [{"came": [who("ann", "admin")]}]
        async with hosted.client("ben") as ben:
            heard = await ben.load(session.id, str(tmp_path))
            await until(lambda: hosted.room.standing.people >= {("ben", "viewer", "dragoman")})
        await until(lambda: not hosted.room.standing.people & {("ben", "viewer", "dragoman")})
        hosted.agents[-1].gates["gate"].set()  # type: ignore[attr-defined]
        await running
        expected = [
            {"came": [who("ann", "admin")]},
            {"came": [who("ben", "viewer")]},
            {"went": [who("ben", "viewer")]},
        ]
        assert await noted() == expected
        await session.ask("again")
        assert await noted() == expected  # nobody came or went since
        kinds = [entry.kind for entry in await store.read(session.id)]
        assert kinds.index("member") < kinds.index("turn_started")
        assert [text for _, text in said(heard)] == ["wait gate", "waiting for gate"]
        await hosted.room.close("for a while")
        house.forget_room(session.id)
        room = await house.acquire_room(session.id)  # from the store
        assert room.state.people == {("ann", "admin", "dragoman")}
        house.release_room(room)


def test_a_log_is_shown_with_everybody_who_was_there() -> None:
    people = [{"user": user, "role": role, "client": "x"} for user, role in (("ann", "admin"), ("ben", "viewer"))]
    bodies: list[dict[str, Any]] = [{"came": people}, {"went": people[1:]}, {"came": people[1:]}, {"owner": "ben"}]
    lines = [
        encode(Entry(seq=seq, kind="member", actor="dragoman", time="2026-01-01T00:00:00Z", body=body))
        for seq, body in enumerate(bodies, 1)
    ]
    shown = io.StringIO()
    TranscriptView(OutputStream(shown)).show_session(Summary(session_id="one", entries=4, updated_at=""), lines)
    assert "who was there: ann (admin), ben (viewer)\n" in shown.getvalue()
