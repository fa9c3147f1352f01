"""A client that joins mid-stream misses nothing and gets nothing twice; one that does not read is disconnected."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConnectionFailed, Kind
from dragoman.host.limits import HostLimits
from dragoman.store.contract import Draft
from dragoman.store.memory import MemoryStore
from dragoman.store.sqlite import SqliteStore
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import MemoryTransport
from tests.host.auth.test_roles import denied
from tests.host.memory_host import Hosted, messages_of, open_session, running_host, until


class Raw:
    """A client that sends frames and records those it gets."""

    def __init__(self, transport: MemoryTransport) -> None:
        self.transport = transport
        self.frames: list[dict[str, Any]] = []
        self._last = 0
        self.reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        with suppress(ConnectionFailed):
            while True:
                self.frames.extend(json.loads(bytes(frame)) for frame in await self.transport.receive())  # type: ignore[arg-type]

    def call(self, method: str, params: Any) -> int:
        self._last += 1
        frame = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}
        self.transport.send(json.dumps(frame).encode())
        return self._last

    async def answer(self, id: int) -> dict[str, Any]:
        await until(lambda: any(frame.get("id") == id and "method" not in frame for frame in self.frames))
        return next(frame for frame in self.frames if frame.get("id") == id and "method" not in frame)

    async def ask(self, method: str, params: Any) -> dict[str, Any]:
        return await self.answer(self.call(method, params))

    @property
    def numbers(self) -> list[int]:
        updates = [frame["params"] for frame in self.frames if frame.get("method") == "session/update"]
        return [params["_meta"]["dragoman"]["seq"] for params in updates if "_meta" in params]


async def raw(hosted: Hosted, user: str = "ann", **more: Any) -> Raw:
    """Return a raw client that has sent initialize."""
    client = Raw(hosted.connect_as(user, **more))
    await client.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    return client


async def numbers(hosted: Hosted, id: str) -> list[int]:
    """Return the entry numbers of the messages."""
    return [entry.seq for entry in await hosted.host.store.read(id) if entry.kind in ("update", "prompt")]


@pytest.mark.parametrize("stored", ["memory", "sqlite"])
async def test_a_client_that_joins_mid_stream_gets_each_entry_once_in_order(stored: str, tmp_path: Path) -> None:
    store = await SqliteStore.open(str(tmp_path / "log.db"), durability="off") if stored == "sqlite" else None
    try:
        async with running_host(store=store) as hosted, hosted.client() as ann:
            session = await open_session(ann, tmp_path)
            clients = [await raw(hosted) for _ in range(6)]
            turn = asyncio.ensure_future(session.ask("many 3000"))
            for place, client in enumerate(clients):
                await until(lambda place=place: hosted.room.state.seq > 400 * place)  # type: ignore[misc]
                client.call("session/load", {"sessionId": session.id, "cwd": "/", "mcpServers": []})
            await turn
            expected = await numbers(hosted, session.id)
            for client in clients:
                await until(lambda client=client: client.numbers and client.numbers[-1] == expected[-1])  # type: ignore[misc]
                assert client.numbers == expected
                client.reading.cancel()
    finally:
        if store is not None:
            await store.close()


async def test_a_cursor_replays_only_later_entries(tmp_path: Path) -> None:
    async with running_host() as hosted, hosted.client() as ann:
        session = await open_session(ann, tmp_path)
        for word in ("one", "two", "three"):
            await session.ask(word)
        known = await numbers(hosted, session.id)
        cursor = known[2]
        where = {"sessionId": session.id, "cwd": "/", "mcpServers": []}
        for method, params, expected in (
            ("session/attach", {"sessionId": session.id, "cursor": cursor}, known[3:]),
            ("_dragoman/attach", {"sessionId": session.id, "cursor": cursor}, known[3:]),
            ("session/resume", where | {"_meta": {"dragoman": {"cursor": cursor}}}, known[3:]),
            ("session/load", where | {"_meta": {"dragoman": {"cursor": cursor}}}, known[3:]),
            ("session/attach", {"sessionId": session.id}, known),
            ("session/attach", {"sessionId": session.id, "historyPolicy": "pending_only"}, []),
            ("session/attach", {"sessionId": session.id, "historyPolicy": "none"}, []),
            ("session/attach", {"sessionId": session.id, "cursor": 10**6}, []),
            ("session/resume", where, []),
            ("session/load", where, known),
        ):
            client = await raw(hosted)
            answer = await client.ask(method, params)
            assert "error" not in answer, answer
            assert client.numbers == expected, (method, params)
            place = [frame.get("id") for frame in client.frames].index(answer["id"])
            assert all("method" not in frame for frame in client.frames[place:]), "history comes before the answer"
            client.reading.cancel()


@pytest.mark.parametrize("cursor", [-1, "x", 1.5, True])
async def test_an_invalid_cursor_is_refused(cursor: Any, tmp_path: Path) -> None:
    async with running_host() as hosted, hosted.client() as ann:
        session = await open_session(ann, tmp_path)
        client = await raw(hosted)
        answer = await client.ask("session/attach", {"sessionId": session.id, "cursor": cursor})
        assert answer["error"]["data"]["kind"] == "invalid_params"
        client.reading.cancel()


async def test_a_client_that_does_not_read_is_disconnected_and_delays_nobody(tmp_path: Path) -> None:
    async with (
        running_host(limits=HostLimits(max_unread_bytes=200_000)) as hosted,
        hosted.client() as ann,
        hosted.client() as ben,
    ):
        session = await open_session(ann, tmp_path)
        other = await ben.resume_session(session.id, "/")
        stalled = await raw(hosted, limit=10_000)
        await stalled.ask("session/resume", {"sessionId": session.id, "cwd": "/"})
        stalled.reading.cancel()
        assert len(hosted.room.members) == 3
        await session.ask("many 6000")
        await until(lambda: len(hosted.room.members) == 2)
        await until(lambda: messages_of(other)[-1][1].endswith("5999 "))
        await until(lambda: len(hosted.host.clients) == 2)


async def test_entries_written_by_another_program_are_sent_in_order(tmp_path: Path) -> None:
    async with running_host() as hosted, hosted.client() as ann:
        session = await open_session(ann, tmp_path)
        client = await raw(hosted)
        await client.ask("session/load", {"sessionId": session.id, "cwd": "/", "mcpServers": []})
        await session.ask("one")
        chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "from elsewhere"}}
        strange = Draft(kind="update", actor="agent", time="t", body=chunk)
        await hosted.host.store.append(session.id, [strange, strange])
        await session.ask("two")
        await session.ask("three")
        expected = await numbers(hosted, session.id)
        await until(lambda: client.numbers and client.numbers[-1] == expected[-1])
        assert client.numbers == expected
        client.reading.cancel()


async def test_a_detached_client_gets_nothing_more(tmp_path: Path) -> None:
    async with running_host() as hosted, hosted.client() as ann, hosted.client() as ben:
        session = await open_session(ann, tmp_path)
        other = await ben.resume_session(session.id, "/")
        await ben.request("session/detach", {"sessionId": session.id})
        await session.ask("x")
        assert messages_of(other) == []
        assert "load, resume or attach" in (await denied(other.ask("y"))).message


async def test_a_client_with_malformed_frames_does_not_affect_others(tmp_path: Path) -> None:
    async with running_host() as hosted, hosted.client() as ann:
        session = await open_session(ann, tmp_path)
        client = await raw(hosted)
        await client.ask("session/resume", {"sessionId": session.id, "cwd": "/"})
        for frame in (b"garbage", b"[]", b'{"jsonrpc":"2.0","method":7}', b'{"jsonrpc":"2.0","id":1,"result":{}}'):
            client.transport.send(frame)
        odd: list[Any] = [None, [], {"sessionId": 7}, {"sessionId": session.id, "prompt": 3}]
        for params in odd:
            assert "error" in await client.ask("session/prompt", params)
        client.transport.send(b'{"jsonrpc":"2.0","method":"_dragoman/presence","params":["x"]}')
        client.transport.send(b'{"jsonrpc":"2.0","method":"_dragoman/presence","params":{"sessionId":{}}}')
        assert await session.ask("x") == "heard x"
        client.reading.cancel()


async def test_a_client_that_closes_a_session_during_replay_is_not_a_member(tmp_path: Path) -> None:
    async with running_host() as hosted:
        peer = ScriptedPeer(hosted.connect_as())
        await peer.request(1, "initialize", {"protocolVersion": 1})
        opening = await peer.request(2, "session/new", {"cwd": str(tmp_path), "mcpServers": []})
        session = opening["result"]["sessionId"]
        assert "result" in await peer.request(3, "session/close", {"sessionId": session})
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "x"}]}
        answer = await peer.request(4, "session/prompt", prompt)
        assert answer["error"]["data"]["kind"] == Kind.SESSION_NOT_FOUND


async def test_the_answer_to_a_prompt_waits_for_the_history_of_its_client(tmp_path: Path) -> None:
    """A client is answered session/new first and may prompt while it is still sent the history."""

    class SlowStore(MemoryStore):
        """A store whose pages come late."""

        async def lines(self, *arguments: Any, **options: Any) -> Any:
            await asyncio.sleep(0.05)
            return await super().lines(*arguments, **options)

    async with running_host(store=SlowStore()) as hosted, hosted.client("ann") as ann:
        for number in range(5):
            session = await open_session(ann, tmp_path)
            assert await session.ask(f"{number}") == f"heard {number}"
