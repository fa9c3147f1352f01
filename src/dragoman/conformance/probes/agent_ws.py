"""Probes of WebSocket: the upgrade, frames of every kind, and what a web page or a stranger may not do."""

from __future__ import annotations

import asyncio
import json
import os

from dragoman.conformance.harness.http_client import HttpLine, parsed
from dragoman.conformance.harness.remote_agent import WsStage
from dragoman.conformance.probe import probe
from dragoman.errors import ConnectionFailed

EVIL = "https://evil.example"


@probe("agent.ws.01")
async def sockets_have_names(stage: WsStage) -> None:
    """At the upgrade."""
    stage.answered_with(stage.line.answer, "the upgrade", 101)
    stage.require(stage.line.connection, "the answer to the upgrade has no Acp-Connection-Id")


@probe("agent.ws.02")
async def sockets_differ(stage: WsStage) -> None:
    """Two at a time."""
    other = stage.other()
    try:
        await other.dial()
        if not other.connection:
            stage.unsure("a socket has no id")
        stage.require(other.connection != stage.line.connection, "two sockets have the same connection id")
    finally:
        await other.close()


@probe("agent.ws.03")
async def messages_are_text_frames(stage: WsStage) -> None:
    """Of a whole turn."""
    await stage.did("tour")
    stage.require(not stage.line.binaries, "a message came as a binary frame")
    wrong = [text[:200] for text in stage.line.texts if not isinstance(parsed(text.encode()), dict)]
    stage.require(not wrong, f"a text frame is not one message: {wrong[:1]}")


@probe("agent.ws.04")
async def binary_frames_are_ignored(stage: WsStage) -> None:
    """Not even answered; what comes after is."""
    await stage.initialized()
    stage.note("a binary frame with a request in it")
    stage.line.put(json.dumps({"jsonrpc": "2.0", "id": "binary", "method": "no/such_method"}).encode())
    await stage.alive("a binary frame")
    answers = [heard for heard in stage.heard if heard.is_reply and heard.message.get("id") == "binary"]
    stage.require(not answers, "a request in a binary frame was answered", *answers)


@probe("agent.ws.05")
async def initialize_comes_first(stage: WsStage) -> None:
    """As on any other line."""
    stage.send(stage.opening())
    heard = await stage.answered("new", stage.pace.answer)
    stage.require(heard is None or "error" in heard.message, "session/new was served before initialize", heard)


@probe("agent.ws.06")
async def garbage_ends_nothing(stage: WsStage) -> None:
    """One bad frame of many good ones."""
    await stage.initialized()
    stage.send(b'{"jsonrpc":"2.0",')
    await stage.alive("a text frame that is no JSON")


@probe("agent.ws.07")
async def fragments_are_joined(stage: WsStage) -> None:
    """A proxy may cut a message anywhere."""
    await stage.initialized()
    text = json.dumps({"jsonrpc": "2.0", "id": "cut", "method": "no/such_method", "params": {}})
    stage.note(f"in three fragments: {text}")
    stage.line.put([text[:10], text[10:30], text[30:]])
    stage.require(await stage.answered("cut") is not None, "a message in three fragments was not answered")


@probe("agent.ws.08")
async def pings_are_answered(stage: WsStage) -> None:
    """Or whoever listens for life gives up."""
    stage.require(await stage.line.ping(stage.pace.answer), "a ping was not answered")


@probe("agent.ws.09")
async def floods_are_whole(stage: WsStage) -> None:
    """Numbers that go up by one."""
    await stage.did("flood")
    stage.count()


@probe("agent.ws.10")
async def sockets_free_their_connection(stage: WsStage) -> None:
    """In the middle of a turn, without a goodbye; then its id is worth nothing."""
    await stage.opened()
    stage.begin(stage.words("slow"))
    await stage.silence()
    id = stage.line.connection
    stage.line.cut()
    plain = HttpLine(stage.url.replace("ws", "http", 1), token=stage.token, tls=stage.tls, note=stage._note)
    try:
        end = asyncio.get_running_loop().time() + stage.pace.answer
        while True:
            answer = await plain.post(stage.opening(), {"Acp-Connection-Id": id})
            if answer.status >= 400 or asyncio.get_running_loop().time() > end:
                break
            await asyncio.sleep(stage.pace.quiet)
    finally:
        await plain.close()
    stage.require(answer.status >= 400, f"a message for a socket that is gone was answered with {answer.status}")
    other = stage.other()
    try:
        await other.dial()
        stage.require(other.is_open, "after a socket was cut no other is let in")
    finally:
        await other.close()


@probe("agent.ws.11")
async def sessions_outlive_sockets(stage: WsStage) -> None:
    """Loaded over another one."""
    await stage.did("plain")
    session = stage.session
    await stage.line.send_eof()
    other = stage.other()
    await other.dial()
    stage.transport, stage.gone, stage._unread = other, None, []
    try:
        await stage.initialized()
        heard = await stage.requested("session/load", {"sessionId": session, "cwd": stage.cwd, "mcpServers": []})
        stage.granted(heard, "loading the session over another socket")
    finally:
        await other.close()


@probe("agent.ws.12")
async def goodbyes_are_answered(stage: WsStage) -> None:
    """So that both know that all was said."""
    await stage.initialized()
    await stage.line.send_eof()
    stage.require(stage.line.farewell is not None, "a goodbye was not answered")


@probe("agent.ws.13")
async def frames_end(stage: WsStage) -> None:
    """Only its head is sent, which says how long it will be: a gibibyte."""
    await stage.initialized()
    stage.note("the head of a text frame of 1073741824 bytes")
    head = b"\x81\xff" + (1 << 30).to_bytes(8, "big") + os.urandom(4)
    stage.line._socket.transport.write(head + b" " * 1024)
    await stage.until(lambda _: False, stage.pace.answer)
    stage.require(stage.gone is not None, "a frame of a gibibyte is waited for")


@probe("agent.ws.14")
async def strangers_disturb_nobody(stage: WsStage) -> None:
    """A turn under way, and garbage at the same address."""
    await stage.opened()
    turn = stage.begin(stage.words("stream"))
    host = stage.line.address.netloc.encode()
    upgrade = b"GET /acp HTTP/1.1\r\nHost: " + host + b"\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    await stage.garbage(
        b"\x81\xff\xff no protocol at all\r\n\r\n",
        upgrade + b"Sec-WebSocket-Key: ***\r\nSec-WebSocket-Version: 99\r\n\r\n",
        upgrade + b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n\xff\xff\xff\xff",
    )
    turn = await stage.ended(turn)
    stage.require(turn.answer is not None, "a turn was not ended after another client sent garbage")
    await stage.alive("another client sent garbage")


@probe("agent.ws.15")
async def pages_of_other_places_are_refused(stage: WsStage) -> None:
    """Browsers ask nobody before they open a socket: only the server can refuse."""
    await _refused(stage, {"Origin": EVIL}, f"a page of {EVIL}")


@probe("agent.ws.16")
async def other_names_are_refused(stage: WsStage) -> None:
    """A name of the page's own that leads here."""
    if not stage.line.address.is_loopback:
        stage.skip("only what is on this machine has no name of its own")
    await _refused(stage, {"Host": "rebound.evil.example"}, "rebound.evil.example")


@probe("agent.ws.17")
async def tokens_are_asked_for(stage: WsStage) -> None:
    """Only where we were given one."""
    if not stage.token:
        stage.skip("no token was given with --token-file")
    await _refused(stage, {"Authorization": ""}, "a client without the token", 401)


async def _refused(stage: WsStage, headers: dict[str, str], who: str, status: int = 0) -> None:
    other = stage.other()
    try:
        answer = await other.dial(headers)
        if answer.status == 101 and other.is_open:  # some servers can only close what they have let in
            other.put(json.dumps(stage.first()))
            try:
                async with asyncio.timeout(stage.pace.answer):
                    await other.receive()
            except (ConnectionFailed, TimeoutError):
                return
        stage.require(answer.status != 101, f"{who} was let in")
        stage.require(not status or answer.status == status, f"{who} was refused with {answer.status}, not {status}")
    finally:
        await other.close()
