"""Connections that are cut at any byte resume: every frame arrives, once and in order, both ways."""

from __future__ import annotations

import asyncio
import json
import random

import msgspec
import pytest
from websockets.frames import Frame, Opcode
from websockets.utils import accept_key

from dragoman.errors import ConnectionFailed, TransportClosed
from dragoman.transport.base import Transport
from dragoman.transport.remote import retry
from dragoman.transport.remote.client import event_stream, ws_socket
from dragoman.transport.remote.client.dial import dial_remote
from dragoman.transport.remote.retry import Backoff
from dragoman.transport.remote.server.limits import ServerLimits
from tests.transport.remote.client_and_server import EAGER, ending, meeting, take
from tests.transport.remote.relay import relaying

WITHIN = 90.0


def frames(seed: int, who: str, count: int) -> list[bytes]:
    chance = random.Random(f"{seed}{who}")
    return [
        b'{"jsonrpc":"2.0","method":"_%b","params":{"n":%d,"x":"%b"}}' % (who.encode(), n, b"x" * chance.randrange(400))
        for n in range(count)
    ]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("over", ["ws", "http"])
def test_frames_arrive_once_and_in_order_after_any_number_of_disconnects(over: str, seed: int) -> None:
    said: list[str] = []
    count = 400 if over == "ws" else 60

    async def main() -> int:
        async with meeting() as there, relaying(there.port, seed=seed, cuts=12, most=12000) as relay:
            cuts, relay.left = relay.left, 0  # not before both are connected
            ours, theirs = await there.meet(over, relay.port, said.append)
            relay.left = cuts
            relay.drop()
            up, down = frames(seed, "up", count), frames(seed, "down", count)

            async def speak(transport: Transport, sent: list[bytes]) -> None:
                for number, frame in enumerate(sent):
                    transport.send(frame)
                    if transport.congested():
                        await transport.drain()
                    if number % 20 == 0:
                        await asyncio.sleep(0.002)

            async with asyncio.TaskGroup() as group:
                group.create_task(speak(ours, up))
                group.create_task(speak(theirs, down))
                got_up = group.create_task(take(theirs, count))
                got_down = group.create_task(take(ours, count))
            assert got_up.result() == up
            assert got_down.result() == down
            await ours.close()
            await theirs.close()
            return relay.cut

    assert asyncio.run(asyncio.wait_for(main(), WITHIN)) > 3


@pytest.mark.parametrize("over", ["ws", "http"])
async def test_a_longer_disconnect_is_reported_at_its_beginning_and_end(over: str) -> None:
    said: list[str] = []

    async with meeting() as there, relaying(there.port) as relay:
        reported = asyncio.Event()

        def report(line: str) -> None:
            said.append(line)
            reported.set()

        ours, theirs = await there.meet(over, relay.port, report)
        relay.is_down = True
        relay.drop()
        receiver = asyncio.create_task(take(ours, 1))
        ours.send(b'{"jsonrpc":"2.0","method":"_up"}')
        await reported.wait()
        relay.is_down = False
        theirs.send(b'{"jsonrpc":"2.0","method":"_down"}')
        assert await receiver == [b'{"jsonrpc":"2.0","method":"_down"}']
        assert await take(theirs, 1) == [b'{"jsonrpc":"2.0","method":"_up"}']
        await ours.close()
    assert "trying again" in said[0]
    assert "connected again" in said[1]


@pytest.mark.parametrize("over", ["ws", "http"])
async def test_each_disconnect_is_reported_even_if_the_reconnect_is_fast(
    over: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "MERGE_WINDOW", 0.0)  # one stream is cut here, and may be cut again at once
    said: list[str] = []

    async with meeting() as there, relaying(there.port) as relay:
        well = asyncio.Event()

        def report(line: str) -> None:
            said.append(line)
            if "restored" in line or "connected again" in line:
                well.set()

        ours, theirs = await there.meet(over, relay.port, report)
        for _ in range(2):
            well.clear()
            relay.drop()
            await well.wait()
            ours.send(b'{"jsonrpc":"2.0","method":"_up"}')
            assert await take(theirs, 1) == [b'{"jsonrpc":"2.0","method":"_up"}']
        await ours.close()
    if over == "ws":  # over HTTP the first try may use a socket that was cut at the same moment: then it takes two
        assert len(said) == 2
        assert all("the connection was cut and is restored (0." in line for line in said), said


@pytest.mark.parametrize("over", ["ws", "http"])
def test_reconnecting_ends_when_the_backoff_is_over(over: str) -> None:
    async def main() -> str:
        async with meeting() as there, relaying(there.port) as relay:
            remote = msgspec.structs.replace(
                EAGER, backoff=Backoff(initial_delay=0.01, max_delay=0.05, give_up_after=0.3)
            )
            ours, _ = await there.meet(over, relay.port, remote=remote)
            relay.is_down = True
            relay.drop()
            why = await ending(ours)
            with pytest.raises(ConnectionFailed):
                ours.send(b"{}")
            await ours.close()
            return why

    assert "127.0.0.1" in asyncio.run(asyncio.wait_for(main(), WITHIN))


@pytest.mark.parametrize("over", ["ws", "http"])
async def test_a_connection_that_the_server_has_forgotten_ends(over: str) -> None:
    async with meeting() as there, relaying(there.port) as relay:
        ours, theirs = await there.meet(over, relay.port)
        relay.is_down = True
        relay.drop()
        await theirs.close("the host was restarted")
        relay.is_down = False
        with pytest.raises(TransportClosed):
            await take(ours, 1)
        await ours.close()


async def test_a_client_that_closes_frees_its_connection_at_once() -> None:
    async with meeting() as there:
        for over in ("ws", "http"):
            ours, theirs = await there.meet(over)
            await ours.close("done")
            assert await ending(theirs)


@pytest.mark.parametrize("seed", range(2))
async def test_every_session_has_its_own_order_over_http(seed: int) -> None:
    """Each session has a stream, and each stream is cut by itself."""
    places = [None, "one", "two"]
    chance = random.Random(seed)

    def frame(number: int) -> tuple[str | None, bytes]:
        session = chance.choice(places)
        params = {"n": number, "x": "x" * chance.randrange(300)} | ({"sessionId": session} if session else {})
        return session, json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}).encode()

    async with meeting() as there, relaying(there.port, seed=seed, cuts=0, most=9000) as relay:
        ours, theirs = await there.meet("http", relay.port)
        for session in ("one", "two"):
            ours.send(json.dumps({"jsonrpc": "2.0", "method": "_x", "params": {"sessionId": session}}).encode())
        await take(theirs, 2)
        relay.left = 9
        relay.drop()
        sent = [frame(number) for number in range(300)]
        for number, (_, data) in enumerate(sent):
            theirs.send(data)
            if number % 20 == 0:
                await asyncio.sleep(0.005)
        got = await take(ours, len(sent))
        for place in places:
            mine = [data for data in got if json.loads(data)["params"].get("sessionId") == place]
            assert mine == [data for where, data in sent if where == place]
        assert relay.cut > 3
        await ours.close()


@pytest.mark.parametrize("over", ["ws", "http"])
async def test_a_frozen_connection_is_replaced(over: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ws_socket, "PING_INTERVAL", 0.1)
    monkeypatch.setattr(ws_socket, "PONG_TIMEOUT", 0.1)
    monkeypatch.setattr(event_stream, "SILENCE_TIMEOUT", 0.3)

    async with meeting(ServerLimits(keepalive=0.1)) as there, relaying(there.port) as relay:
        ours, theirs = await there.meet(over, relay.port)
        theirs.send(b'{"jsonrpc":"2.0","method":"_before"}')
        await take(ours, 1)
        if over == "http":
            await asyncio.sleep(0.25)  # a server that keeps its streams alive has sent a comment by now
        relay.is_frozen = True
        theirs.send(b'{"jsonrpc":"2.0","method":"_lost"}')
        await asyncio.sleep(0.05)
        relay.is_frozen = False  # for new connections: frozen ones stay frozen
        assert await take(ours, 1) == [b'{"jsonrpc":"2.0","method":"_lost"}']
        await ours.close()


async def test_a_websocket_sends_its_cookies_when_it_reconnects() -> None:
    asked: list[bytes] = []

    async def upgrade(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A server behind a balancer, whose sockets live for a moment."""
        asked.append(request := await reader.readuntil(b"\r\n\r\n"))
        key = request.partition(b"Sec-WebSocket-Key: ")[2].partition(b"\r\n")[0].decode()
        lines = [
            "HTTP/1.1 101 Switching Protocols",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Accept: {accept_key(key)}",
            "Acp-Connection-Id: c1",
            "Dragoman-Cursor: 0",
            "Set-Cookie: node=a7; Path=/; HttpOnly",
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        if len(asked) < 3:
            writer.transport.abort() if len(asked) == 2 else writer.close()
        else:
            writer.write(Frame(Opcode.TEXT, b"{}").serialize(mask=False))
            await reader.read(100)  # the close frame
            writer.close()

    server = await asyncio.start_server(upgrade, "127.0.0.1", 0)
    with_cookie = msgspec.structs.replace(EAGER, headers={"Cookie": "own=1"})
    ours = await dial_remote(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/acp", with_cookie)
    assert await take(ours, 1) == [b"{}"]
    await ours.close()
    server.close()
    assert b"Dragoman-Resume: 1" in asked[0]
    assert b"Cookie: own=1\r\n" in asked[0]
    for request in asked[1:]:
        assert b"Cookie: own=1; node=a7\r\n" in request
        assert request.count(b"Cookie:") == 1
        assert b"Acp-Connection-Id: c1\r\n" in request
        assert b"Dragoman-Cursor: 0\r\n" in request
