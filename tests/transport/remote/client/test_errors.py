"""Every failure on the way to a remote agent is one line that says what to do, without secrets."""

from __future__ import annotations

import asyncio
import gc
import re
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest

from dragoman import Agent, StartFailed, Turn, connect
from dragoman.errors import Unreachable
from dragoman.transport.remote.address import RemoteOptions, parse_address
from dragoman.transport.remote.client.http_client import build_http_client
from dragoman.transport.remote.client.post import Poster
from dragoman.transport.remote.client.ws_handshake import Handshake
from dragoman.transport.remote.errors import network_error
from dragoman.transport.remote.retry import Backoff, Outage
from dragoman.transport.remote.server.auth import AuthRequest, Principal, bearer_token, unauthorized_error
from dragoman.transport.remote.server.endpoint import Endpoint
from dragoman.transport.remote.server.listener import open_listener
from tests.transport.remote.certificate import certificate
from tests.transport.remote.scripted_server import scripted

WITHIN = 90.0
SECRET = "s3cret-t0ken"

PAGE = b"<!DOCTYPE html><html><body>Welcome to the hotel</body></html>"


def answer(status: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


@asynccontextmanager
async def answering(said: bytes, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server that sends this to everybody; yields its port."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(said)
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def failure(url: str, **options: object) -> StartFailed:
    options.setdefault("token", SECRET)
    with pytest.raises(StartFailed) as raised:
        async with connect(url, **options):  # type: ignore[arg-type]
            pass
    text = str(raised.value)
    assert SECRET not in text
    assert "\n" not in text
    assert url.partition("?")[0] in text
    return raised.value


ways = pytest.mark.parametrize("over", ["ws", "http"])


@ways
@pytest.mark.parametrize(
    ("said", "says"),
    [
        (
            answer("401 Unauthorized", b'{"error":{"kind":"auth_required","message":"bring a token"}}'),
            "it needs a valid token",
        ),
        (answer("403 Forbidden"), "access denied"),
        (answer("404 Not Found", b"nothing here"), "no ACP server at this path.*nothing here"),
        (answer("421 Misdirected Request"), "the name it was started with"),
        (answer("429 Too Many Requests", b"", "Retry-After: 9"), "too many requests; try again in 9 s"),
        (answer("502 Bad Gateway", PAGE), "cannot reach it.*a web page"),
        (answer("503 Service Unavailable"), "try again in a moment"),
        (answer("301 Moved", b"", "Location: https://u:pass@other.example/acp"), "moved to https://other.example/acp"),
        (answer("200 OK", PAGE, "Content-Type: text/html"), "check the path"),
        (answer("418 Teapot", b"\x1b[31mshort and stout"), r"418.*short and stout"),
    ],
)
async def test_an_unexpected_http_response_says_what_to_do(over: str, said: bytes, says: str) -> None:
    async with answering(said) as port:
        error = await failure(f"{over}://127.0.0.1:{port}/acp?token={SECRET}")
        assert "\x1b" not in str(error)
        assert "pass" not in str(error)
        assert re.search(says, str(error)), str(error)


@ways
async def test_a_server_that_does_not_use_http_is_reported(over: str) -> None:
    async with answering(b"SSH-2.0-OpenSSH_9.9\r\n") as port:
        assert isinstance(await failure(f"{over}://127.0.0.1:{port}/acp"), Unreachable)


@ways
def test_a_refused_connection_is_reported(over: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        error = asyncio.run(failure(f"{over}://127.0.0.1:{unused.getsockname()[1]}/acp"))
    assert "is the server running?" in str(error)


@pytest.mark.parametrize("over", ["wss", "https"])
def test_an_unknown_host_name_is_reported(over: str) -> None:
    error = asyncio.run(failure(f"{over}://nobody.invalid/acp"))
    assert "this host name is unknown" in str(error)


@pytest.mark.parametrize("over", ["wss", "https"])
def test_tls_to_a_plain_server_is_reported(over: str) -> None:
    async def main() -> str:
        async with answering(answer("400 Bad Request")) as port:
            return str(await failure(f"{over}://127.0.0.1:{port}/acp"))

    assert "TLS does not work there" in asyncio.run(asyncio.wait_for(main(), WITHIN))


@pytest.mark.parametrize("over", ["wss", "https"])
def test_a_disconnect_during_the_tls_handshake_is_temporary(over: str) -> None:
    async def main() -> StartFailed:
        async with answering(b"") as port:
            return await failure(f"{over}://127.0.0.1:{port}/acp")

    error = asyncio.run(asyncio.wait_for(main(), WITHIN))
    assert isinstance(error, Unreachable)
    assert error.is_passing


def test_a_reset_during_a_tls_read_is_not_a_tls_error() -> None:
    try:
        try:
            raise ssl.SSLWantReadError
        except ssl.SSLWantReadError:
            raise ConnectionResetError(104, "Connection reset by peer")  # noqa: B904  (as the TLS of anyio does)
    except ConnectionResetError as reset:
        error = network_error("there", reset)
    assert error.is_passing
    assert str(error) == "there: Connection reset by peer"


async def test_a_message_is_sent_again_after_any_http_client_error() -> None:
    class Client:
        tries = 0

        async def post(self, *_: object, **__: object) -> httpx.Response:
            self.tries += 1
            if self.tries == 1:
                raise anyio.EndOfStream  # httpx passes it on when a server is gone that spoke HTTP/2 over TLS
            return httpx.Response(202)

    client = Client()
    remote = RemoteOptions(backoff=Backoff(initial_delay=0.001))
    reports: list[str] = []
    postman = Poster(client, parse_address("https://localhost/acp", remote), remote, Outage(reports.append))  # type: ignore[arg-type]
    postman.server_deduplicates = True
    assert (await postman.post_with_retry(b"{}", {"Acp-Connection-Id": "1"})).status_code == 202
    assert client.tries == 2
    assert "connected again" in reports[-1]


def test_a_refused_upgrade_has_a_reason_even_if_its_answer_is_split() -> None:
    body = b'{"error":{"kind":"auth_required","message":"show the token"}}'
    message = (
        b"HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    )
    for place in range(1, len(message)):
        handshake = Handshake(parse_address("ws://localhost/acp"), [])
        assert handshake.feed(message[:place]) is None
        with pytest.raises(Unreachable, match="show the token"):
            handshake.feed(message[place:])


async def test_a_cancelled_handshake_leaves_no_socket() -> None:
    there, left = asyncio.Event(), asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there.set()
        while await reader.read(1024):
            pass
        left.set()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/acp"
    client = build_http_client(parse_address(url), RemoteOptions())
    gc.disable()  # it would close a forgotten socket eventually
    try:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await client.open_stream({})
        assert there.is_set()
        await asyncio.wait_for(left.wait(), WITHIN)
    finally:
        gc.enable()
    await client.aclose()
    server.close()


async def test_a_connection_that_outlives_the_request_which_began_it_is_closed(keys: tuple[Path, Path]) -> None:
    """Two requests wait for one connection; the first is cancelled during the handshake, and the second connects."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*keys)
    context.set_alpn_protocols(["h2"])
    came, begun, go, left = 0, asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        go.set()
        while await reader.read(1024):
            pass
        writer.close()

    behind = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1024):
            writer.write(data)
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal came
        came += 1
        begun.set()
        if came == 1:  # its handshake is never answered
            await reader.read()
            return
        there, back = await asyncio.open_connection(*behind.sockets[0].getsockname())
        answers = asyncio.ensure_future(copy(there, writer))
        await asyncio.gather(copy(reader, back), return_exceptions=True)
        left.set()
        back.close()
        await asyncio.gather(answers, return_exceptions=True)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/acp"
    client = build_http_client(parse_address(url), RemoteOptions(tls=str(keys[0])))
    gc.disable()  # it would close a forgotten socket eventually
    try:
        first = asyncio.ensure_future(client.open_stream({}))
        await begun.wait()
        second = asyncio.ensure_future(client.open_stream({}))
        await asyncio.sleep(0.05)  # it waits for the connection of the first
        first.cancel()
        await asyncio.wait_for(go.wait(), WITHIN)
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        await client.aclose()
        await asyncio.wait_for(left.wait(), WITHIN)
    finally:
        gc.enable()
        server.close()
        behind.close()
    assert came == 2


async def test_a_message_being_sent_does_not_count_as_unsent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over another connection it would be sent twice; one that was never started is sent there."""
    first, second = (b'{"jsonrpc":"2.0","id":%d,"method":"x"}' % id for id in (1, 2))

    under_way = asyncio.Event()

    async def post(*_: object, **__: object) -> httpx.Response:
        under_way.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with scripted() as (_, ours):
        monkeypatch.setattr(ours._client, "post", post)
        ours.send(first)
        ours.send(second)
        await under_way.wait()
        assert ours.unsent() == [second]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for this machine, and its key."""
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.mark.parametrize("over", ["wss", "https"])
async def test_a_certificate_must_be_trusted_or_passed(over: str, keys: tuple[Path, Path]) -> None:
    agent = Agent("echo")

    @agent.prompt
    async def say(turn: Turn) -> None:
        await turn.say(f"You said: {turn.text}")

    async def admit(request: AuthRequest) -> Principal:
        if bearer_token(request) != SECRET:
            raise unauthorized_error("bring the token")
        return Principal(user="ann")

    async def accept(transport: object, client: Principal) -> None:
        await agent.serve(transport)  # type: ignore[arg-type]

    async with open_listener(Endpoint(accept, authenticate=admit), tls=(str(keys[0]), str(keys[1]))) as served:
        url = served.url.replace("https", over, 1)
        assert "certificate is not trusted" in str(await failure(url))
        assert "it needs a valid token" in str(await failure(url, tls=keys[0], token="wrong"))
        for tls in (keys[0], False):
            async with connect(url, token=SECRET, tls=tls) as remote:
                session = await remote.open_session("/")
                assert await session.ask("hello") == "You said: hello"


def test_url_options_are_refused_for_a_command() -> None:
    with pytest.raises(ValueError, match="an agent at a URL"):
        connect(["agent"], token=SECRET)
