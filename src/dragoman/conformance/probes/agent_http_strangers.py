"""Probes of what an HTTP server is exposed to: web pages, other names, bodies without end, garbage, and HTTP/2."""

from __future__ import annotations

import asyncio

from dragoman.conformance.harness.http_client import JSON, Answer
from dragoman.conformance.harness.remote_agent import HttpStage
from dragoman.conformance.probe import probe
from dragoman.conformance.probes.agent_http import UNKNOWN

EVIL = "https://evil.example"


@probe("agent.http.36")
async def pages_of_other_places_are_refused(stage: HttpStage) -> None:
    """A page that is open in a browser of this machine reaches every port of it."""
    answer = await stage.line.post(stage.first(), {"Origin": EVIL})
    stage.line.connection = answer.headers.get("acp-connection-id", "")
    stage.require(answer.status >= 400, f"initialize from a page of {EVIL} was answered with {answer.status}")


@probe("agent.http.37")
async def other_names_are_refused(stage: HttpStage) -> None:
    """A name of the page's own that leads here makes the page the same place."""
    if not stage.line.address.is_loopback:
        stage.skip("only what is on this machine has no name of its own")
    answer = await stage.line.post(stage.first(), {"Host": "rebound.evil.example"})
    stage.line.connection = answer.headers.get("acp-connection-id", "")
    stage.require(answer.status >= 400, f"initialize to rebound.evil.example was answered with {answer.status}")


# More than any server of ours or of others takes, and sent only until it is refused. Bytes.
ENDLESS = 128 * 1024 * 1024
PIECE = 1024 * 1024
# A server that goes by the length that is announced refuses it by then. Seconds.
DECLARED = 1.0


async def _poured(stage: HttpStage) -> Answer | None:
    """A body that goes on until it is refused; None when it never was."""
    address = stage.line.address
    if address.is_secure:
        stage.skip("a body without end is sent without TLS only")
    reader, writer = await asyncio.open_connection(address.host, address.port)
    headers = {**dict(address.headers), **JSON, "Host": address.netloc, "Content-Length": str(ENDLESS)}
    stage.note(f"a POST of {ENDLESS} bytes")
    lines = [f"POST {address.target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    writer.write("\r\n".join(lines).encode())
    heard = asyncio.ensure_future(reader.readuntil(b"\r\n\r\n"))
    sent = 0
    try:
        await asyncio.wait([heard], timeout=DECLARED)
        while not heard.done() and sent + PIECE < ENDLESS:
            writer.write(b" " * PIECE)
            async with asyncio.timeout(stage.pace.answer):
                await writer.drain()
            sent += PIECE
        await asyncio.wait([heard], timeout=stage.pace.answer)
    except (OSError, TimeoutError):
        await asyncio.wait([heard], timeout=stage.pace.quiet)
    try:
        if not heard.done():
            return None
        try:
            head = heard.result()
        except (OSError, asyncio.IncompleteReadError):
            stage.note(f"the server closed the socket after {sent} bytes")
            return Answer(0, {})
        length = next((line.split(b":")[1] for line in head.lower().split(b"\r\n") if b"content-length:" in line), b"")
        body = b""
        try:
            async with asyncio.timeout(stage.pace.answer):
                body = await (reader.readexactly(int(length)) if length else reader.read(4096))
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass
        stage.note(f"after {sent} bytes: {head.decode('latin-1')}{body.decode('utf-8', 'replace')}")
        return Answer(int(head.split()[1]), {}, body)
    finally:
        heard.cancel()
        await asyncio.gather(heard, return_exceptions=True)
        writer.transport.abort()


@probe("agent.http.38")
async def bodies_end(stage: HttpStage) -> None:
    """Nobody else has memory left."""
    answer = await _poured(stage)
    stage.require(answer is not None, f"a body of {ENDLESS} bytes is taken without a limit")
    assert answer is not None
    if answer.status:
        stage.answered_with(answer, "a body without end", 413)


@probe("agent.http.39")
async def limits_are_told(stage: HttpStage) -> None:
    """Whoever sent too much can send less."""
    answer = await _poured(stage)
    if answer is None or answer.status != 413:
        stage.skip("a body without end is not refused with 413")
    assert answer is not None
    said = answer.body.decode("utf-8", "replace")
    stage.require(any(mark.isdigit() for mark in said.replace(str(ENDLESS), "")), "a 413 does not say what is allowed")


@probe("agent.http.40")
async def strangers_disturb_nobody(stage: HttpStage) -> None:
    """A turn under way, and garbage at the same address."""
    await stage.opened()
    turn = stage.begin(stage.words("stream"))
    host = stage.line.address.netloc.encode()
    await stage.garbage(
        b"\x00\xff\x16\x03\x01 no protocol at all\r\n\r\n",
        b"POST /acp HTTP/1.1\r\nHost: " + host + b"\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n{",
        b"GET /acp HTTP/1.1\r\nHost: " + host + b"\r\nAcp-Connection-Id: " + b"x" * 20000 + b"\r\n\r\n",
    )
    for body in (b"\xff\xfe", b"null", b'{"id":{}}', b'{"jsonrpc":"2.0","method":5}'):
        await stage.line.post(body, UNKNOWN)
    turn = await stage.ended(turn)
    stage.require(turn.answer is not None, "a turn was not ended after another client sent garbage")
    again = await stage.ended(stage.begin(stage.words("plain")))
    stage.require(again.answer is not None, "a prompt is not answered after another client sent garbage")


@probe("agent.http.41")
async def http2_is_spoken(stage: HttpStage) -> None:
    """By what TLS agrees on, or by its first bytes."""
    import ssl

    address = stage.line.address
    context: ssl.SSLContext | None = None
    if address.is_secure:
        from dragoman.transport.remote.address import tls_context

        found = tls_context(stage.tls, address.display_url)
        context = found if isinstance(found, ssl.SSLContext) else ssl.create_default_context()
        context.set_alpn_protocols(["h2"])
    try:
        async with asyncio.timeout(stage.pace.answer):
            reader, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
            first = await reader.readexactly(9)
            writer.transport.abort()
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        first = b""
    stage.note(f"the first bytes of the answer: {first!r}")
    is_settings = len(first) == 9 and first[3] == 4 and not first.startswith(b"HTTP/")
    stage.require(is_settings, "the address does not speak HTTP/2")


@probe("agent.http.45")
async def tokens_are_asked_for(stage: HttpStage) -> None:
    """Only where we were given one."""
    if not stage.token:
        stage.skip("no token was given with --token-file")
    answer = await stage.line.post(stage.first(), {"Authorization": ""})
    stage.line.connection = answer.headers.get("acp-connection-id", "")
    stage.answered_with(answer, "initialize without the token", 401)
