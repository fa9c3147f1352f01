"""One server, all protocols: HTTP/1.1, HTTP/2 and WebSocket at one port, TLS, other ASGI servers and apps."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from websockets.protocol import State
from websockets.sync.client import connect

from dragoman.errors import ConnectionFailed, StartFailed, WriteStalled
from dragoman.transport.base import Transport
from dragoman.transport.remote.server.endpoint import Endpoint
from dragoman.transport.remote.server.limits import ServerLimits
from dragoman.transport.remote.server.listener import open_listener
from dragoman.transport.remote.server.protocol_switch import client_address
from dragoman.transport.remote.server.uvicorn_ws import UvicornWebSocket
from tests.transport.remote.certificate import certificate
from tests.transport.remote.client_and_server import anybody, meeting
from tests.transport.remote.module_server import INITIALIZE, NEW, WITHIN, Standing, accept, agent, prompt, standing

EVENTS = {"accept": "text/event-stream"}


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A certificate for this machine, and its key."""
    made, key = certificate(tmp_path_factory.mktemp("tls"))
    return str(made), str(key)


@pytest.fixture(scope="module")
def secure(tls: tuple[str, str]) -> Iterator[Standing]:
    with standing(tls=tls) as there:
        yield there


def turn_over_http(url: str, verify: Any = True, version: int = 1) -> tuple[str, list[dict[str, Any]]]:
    """The HTTP version and what a whole turn gave on its streams; each stream has its own socket."""
    options: dict[str, Any] = {"verify": verify, "timeout": WITHIN, "http1": version == 1, "http2": version == 2}
    with httpx.Client(**options) as main, httpx.Client(**options) as one, httpx.Client(**options) as other:
        answer = main.post(url, json=INITIALIZE)
        mine = {"acp-connection-id": answer.headers["acp-connection-id"]}
        with one.stream("GET", url, headers={**EVENTS, **mine}) as stream:
            assert main.post(url, json=NEW, headers=mine).status_code == 202
            session = next(events(stream))["result"]["sessionId"]
        mine["acp-session-id"] = session
        said: list[dict[str, Any]] = []
        with other.stream("GET", url, headers={**EVENTS, **mine}) as stream:
            assert main.post(url, json=prompt(session, "one two"), headers=mine).status_code == 202
            for event in events(stream):
                said.append(event)
                if event.get("id") == 2:
                    break
        return answer.http_version, said


def events(stream: httpx.Response) -> Iterator[dict[str, Any]]:
    """The messages of an event stream."""
    for line in stream.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line[6:])


def text_of(said: list[dict[str, Any]]) -> str:
    """What the agent said in these messages."""
    chunks = [message["params"]["update"] for message in said if message.get("method") == "session/update"]
    return " ".join(chunk["content"]["text"] for chunk in chunks if chunk["sessionUpdate"] == "agent_message_chunk")


def turn_over_websocket(url: str, context: ssl.SSLContext | None = None) -> list[dict[str, Any]]:
    """What a whole turn gave over one WebSocket."""
    with connect(url.replace("http", "ws", 1), ssl=context, open_timeout=WITHIN) as opened:

        def ask(message: dict[str, Any]) -> list[dict[str, Any]]:
            opened.send(json.dumps(message))
            said: list[dict[str, Any]] = []
            while not said or said[-1].get("id") != message["id"]:
                said.append(json.loads(opened.recv(timeout=WITHIN)))
            return said

        ask(INITIALIZE)
        session = ask(NEW)[-1]["result"]["sessionId"]
        return ask(prompt(session, "one two"))


def test_one_port_serves_every_protocol_without_tls() -> None:
    with standing() as there:
        for version in (1, 2):
            spoken, text = turn_over_http(there.url, version=version)
            assert (spoken, text_of(text)) == (f"HTTP/{version}.1" if version == 1 else "HTTP/2", "one two")
        assert text_of(turn_over_websocket(there.url)) == "one two"


def test_one_port_serves_every_protocol_with_tls(secure: Standing, tls: tuple[str, str]) -> None:
    def trusted() -> ssl.SSLContext:  # a new one each time: httpx writes its protocols into the one it gets
        return ssl.create_default_context(cafile=tls[0])

    assert secure.url.startswith("https://")
    assert turn_over_http(secure.url, trusted())[0] == "HTTP/1.1"
    spoken, text = turn_over_http(secure.url, trusted(), version=2)
    assert (spoken, text_of(text)) == ("HTTP/2", "one two")
    assert text_of(turn_over_websocket(secure.url, trusted())) == "one two"


async def test_an_address_that_others_can_reach_needs_tls_and_auth(tls: tuple[str, str]) -> None:
    for lock, missing in ((None, "TLS"), (tls, "tokens")):
        with pytest.raises(StartFailed, match=missing):
            async with agent.serve_http("0.0.0.0:0", tls=lock):
                pytest.fail("it opened a door without a lock")
    with pytest.raises(StartFailed, match="cannot be used"):
        async with agent.serve_http(tls=(__file__, __file__)):
            pytest.fail("that is no certificate")


async def test_a_port_that_is_in_use_is_reported() -> None:
    async with open_listener(Endpoint(accept)) as first:
        with pytest.raises(StartFailed, match="choose another"):
            async with open_listener(Endpoint(accept), f"127.0.0.1:{first.port}"):
                pytest.fail("two servers at one port")


@pytest.fixture(scope="module")
def mounted() -> Iterator[str]:
    """The address of our app below a path of another Starlette app, under a plain server."""
    app = agent.asgi()
    theirs = Starlette(
        routes=[Route("/", lambda request: PlainTextResponse("theirs")), Mount("/deep/agents", app=app)],
    )
    with running(theirs) as port:
        yield f"http://127.0.0.1:{port}/deep/agents/acp"


@contextmanager
def running(app: Any) -> Iterator[int]:
    """A plain uvicorn in a thread; yields its port."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
    listening = socket.create_server(("127.0.0.1", 0))  # early clients wait in its queue
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        thread.join(WITHIN)


def test_the_app_can_be_mounted_at_any_path(mounted: str) -> None:
    assert httpx.get(mounted.removesuffix("/deep/agents/acp")).text == "theirs"
    assert text_of(turn_over_http(mounted)[1]) == "one two"
    assert text_of(turn_over_websocket(mounted)) == "one two"
    assert httpx.post(f"{mounted}/unknown", json=INITIALIZE).status_code == 404


async def test_serve_prints_its_address_and_runs_until_cancelled() -> None:
    received: asyncio.Queue[str] = asyncio.Queue()
    task = asyncio.create_task(agent.serve("127.0.0.1:0", report=received.put_nowait))
    async with asyncio.timeout(WITHIN):
        line = await received.get()
        url = line.split()[-1]
        assert text_of(await asyncio.to_thread(turn_over_websocket, url)) == "one two"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    with pytest.raises(httpx.ConnectError):
        await asyncio.to_thread(httpx.get, url)


@pytest.mark.parametrize("over", ["ws", "http"])
async def test_a_sender_waits_for_a_client_that_reads_slowly(over: str) -> None:
    async with meeting() as there:
        ours, theirs = await there.meet(over)
        sent = 0
        while not theirs.congested():
            theirs.send(b'{"jsonrpc":"2.0","method":"x","params":"%b"}' % (b"x" * 10_000))
            sent += 1
            await asyncio.sleep(0)
        draining = asyncio.create_task(theirs.drain())
        got = 0
        while got < sent:
            got += len(await ours.receive())
        await draining
        assert not theirs.congested()
        await ours.close()


async def test_a_client_that_reads_nothing_for_too_long_is_disconnected() -> None:
    ended: asyncio.Future[ConnectionFailed] = asyncio.get_running_loop().create_future()

    async def talk(transport: Transport, _: object) -> None:
        try:
            while True:
                transport.send(b"x" * 100_000)
                if transport.congested():
                    await transport.drain()
        except ConnectionFailed as error:
            ended.set_result(error)

    async with open_listener(Endpoint(talk, limits=ServerLimits(stall=0.2))) as served, dialled(served.port):
        assert isinstance(await ended, WriteStalled)


@asynccontextmanager
async def dialled(port: int) -> AsyncIterator[None]:
    """A WebSocket that is opened and never read."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
    writer.write(
        b"GET /acp HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eHh4eHh4eHh4eHh4eHh4eA==\r\n\r\n"
    )
    yield
    writer.transport.abort()


async def test_a_server_ends_while_a_client_closes_its_websocket(tls: tuple[str, str]) -> None:
    context = ssl.create_default_context(cafile=tls[0])
    async with open_listener(Endpoint(accept, authenticate=anybody), tls=tls) as listener:
        reader, writer = await asyncio.open_connection("localhost", listener.port, ssl=context)
        writer.write(
            b"GET /acp HTTP/1.1\r\nHost: localhost:%d\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n" % listener.port
        )
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        (server_side,) = [each for each in listener.server_state.connections if isinstance(each, UvicornWebSocket)]
        assert isinstance(writer.transport, asyncio.Transport)
        writer.transport.pause_reading()  # the end of TLS, which the server waits for, does not come
        writer.write(b"\x88\x80\x00\x00\x00\x00")  # an empty close frame
        async with asyncio.timeout(WITHIN):
            while server_side.conn.state is State.OPEN:  # noqa: ASYNC110 (the server does not call us)
                await asyncio.sleep(0)
        server_side.transport.close()
        assert client_address(server_side.transport) == "127.0.0.1"  # after it was closed twice
        await listener.close()
        async with asyncio.timeout(WITHIN):
            while server_side in listener.server_state.connections:  # noqa: ASYNC110 (as above)
                await asyncio.sleep(0)
    writer.transport.abort()
