"""Presence: a connection outlives its sockets, and the others see that."""

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
from tests.host.memory_host import messages_of, open_session, running_host, until


async def test_a_client_without_a_socket_is_away_until_it_reconnects(tmp_path: Path) -> None:
    async with running_host() as hosted:
        ours, theirs = memory_pair()
        target: Any = theirs
        target.on_attached = lambda _: None  # as the transport of a WebSocket has it
        hosted.tasks.append(
            asyncio.ensure_future(hosted.host.serve_client(theirs, Principal(user="ann", is_local=True)))
        )
        async with connect(ours) as remote:
            await open_session(remote, tmp_path)
            states = []
            for is_there in (False, True):
                target.on_attached(is_there)
                states += [member.state for member in hosted.room.members.values()]
            assert states == ["away", "here"]


class Wire:
    """A socket that takes everything."""

    buffered_bytes = 0

    def send(self, frames: list[bytes]) -> None:
        pass

    def is_ready(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


async def test_a_transport_reports_when_its_socket_detaches_and_attaches() -> None:
    transport = WebSocketServerTransport("ann", ServerLimits(), is_resumable=True)
    received: list[bool] = []
    transport.on_attached = received.append
    wire: Any = Wire()
    transport.attach(wire)
    transport.detach(wire, "the network is gone")
    transport.attach(wire)
    assert received == [True, False, True]
    transport.detach(wire, "", is_final=True)
    assert received == [True, False, True]


class Stuck(Wire):
    """A socket whose client reads nothing, and its close code."""

    def __init__(self) -> None:
        self.buffered_bytes = 0
        self.frames: list[bytes] = []
        self.closed: list[tuple[int, str]] = []

    @property
    def is_ready(self) -> bool:  # type: ignore[override]
        return self.buffered_bytes < 1000

    def write(self, frames: list[bytes]) -> None:
        self.frames += frames
        self.buffered_bytes += sum(map(len, frames))

    def close(self, code: int, reason: str) -> None:
        self.closed.append((code, reason))


async def test_a_slow_consumer_gets_a_close_code(tmp_path: Path) -> None:
    async with running_host(limits=HostLimits(max_unread_bytes=100_000)) as hosted, hosted.client("ann") as ann:
        session = await open_session(ann, tmp_path)
        transport, wire = WebSocketServerTransport("ann", ServerLimits()), Stuck()
        transport.attach(wire)
        hosted.tasks.append(
            asyncio.ensure_future(hosted.host.serve_client(transport, Principal(user="ann", is_local=True)))
        )
        loading = {"sessionId": session.id, "cwd": str(tmp_path), "mcpServers": []}
        for id, (method, params) in enumerate([("initialize", {"protocolVersion": 1}), ("session/resume", loading)], 1):
            call = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
            transport.deliver_frames([msgspec.json.encode(call)])
            await until(lambda id=id: any(b'"id":%d' % id in frame for frame in wire.frames))  # type: ignore[misc]
            wire.buffered_bytes = 0
        assert len(hosted.room.members) == 2
        await session.ask("many 3000")
        await until(lambda: wire.closed)
        assert wire.closed[0][0] == CLOSE_SLOW
        assert "slow_consumer" in wire.closed[0][1]
        await until(lambda: len(hosted.host.clients) == 1)


async def test_the_log_names_the_members_of_each_turn(tmp_path: Path) -> None:
    async with running_host() as hosted, hosted.client("ann") as ann:
        session = await open_session(ann, tmp_path)
        host, store = hosted.host, hosted.host.store
        before = (await store.sessions())[0].updated_at
        for user in ("ben", "cem"):
            await host.session_roles.set_role(session.id, user, "viewer")

        async def noted() -> list[dict[str, Any]]:
            await hosted.room.log.flush()
            return [entry.body for entry in await store.read(session.id) if entry.kind == "member"]

        def who(user: str, role: str) -> dict[str, str]:
            return {"user": user, "role": role, "client": "dragoman"}

        async with hosted.client("cem") as cem:
            await cem.load_session(session.id, str(tmp_path))
        assert await noted() == []  # a client that only reads changes nothing
        assert (await store.sessions())[0].updated_at == before
        running = asyncio.ensure_future(session.ask("wait gate"))
        await until(lambda: "gate" in hosted.agents[-1].gates)  # type: ignore[attr-defined]
        assert await noted() == [{"came": [who("ann", "admin")]}]
        async with hosted.client("ben") as ben:
            received = await ben.load_session(session.id, str(tmp_path))
            await until(lambda: hosted.room.state.people >= {("ben", "viewer", "dragoman")})
        await until(lambda: not hosted.room.state.people & {("ben", "viewer", "dragoman")})
        hosted.agents[-1].gates["gate"].set()  # type: ignore[attr-defined]
        await running
        expected = [
            {"came": [who("ann", "admin")]},
            {"came": [who("ben", "viewer")]},
            {"went": [who("ben", "viewer")]},
        ]
        assert await noted() == expected
        await session.ask("again")
        assert await noted() == expected  # nobody joined or left since
        kinds = [entry.kind for entry in await store.read(session.id)]
        assert kinds.index("member") < kinds.index("turn_started")
        assert [text for _, text in messages_of(received)] == ["wait gate", "waiting for gate"]
        await hosted.room.close("for a while")
        host.forget_room(session.id)
        room = await host.acquire_room(session.id)  # from the store
        assert room.state.people == {("ann", "admin", "dragoman")}
        host.release_room(room)


def test_a_log_is_shown_with_its_members() -> None:
    people = [{"user": user, "role": role, "client": "x"} for user, role in (("ann", "admin"), ("ben", "viewer"))]
    bodies: list[dict[str, Any]] = [{"came": people}, {"went": people[1:]}, {"came": people[1:]}, {"owner": "ben"}]
    lines = [
        encode(Entry(seq=seq, kind="member", actor="dragoman", time="2026-01-01T00:00:00Z", body=body))
        for seq, body in enumerate(bodies, 1)
    ]
    output = io.StringIO()
    TranscriptView(OutputStream(output)).show_session(Summary(session_id="one", entries=4, updated_at=""), lines)
    assert "members: ann (admin), ben (viewer)\n" in output.getvalue()
