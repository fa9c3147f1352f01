"""WebSocket at an agent: the upgrade, frames of every kind, hostile pages."""

from __future__ import annotations

import asyncio
import json
import os

from dragoman.conformance.harness.http_client import HttpChannel, parse_json
from dragoman.conformance.harness.remote_agent import WsAgentUnderTest
from dragoman.conformance.requirement import must, should
from dragoman.errors import ConnectionFailed

EVIL = "https://evil.example"


@must("agent.ws.01", "http.md#websocket")
async def sockets_have_names(agent: WsAgentUnderTest) -> None:
    """The upgrade is answered with 101 and Acp-Connection-Id."""
    agent.require_status(agent.channel.answer, "the upgrade", 101)
    agent.require(agent.channel.connection, "the answer to the upgrade has no Acp-Connection-Id")


@must("agent.ws.02", "http.md#websocket")
async def sockets_differ(agent: WsAgentUnderTest) -> None:
    """Two sockets have different connection ids."""
    other = agent.connect_again()
    try:
        await other.connect()
        agent.assume(other.connection, "a socket has no id")
        agent.require(other.connection != agent.channel.connection, "two sockets have the same connection id")
    finally:
        await other.close()


@must("agent.ws.03", "http.md#websocket")
async def messages_are_text_frames(agent: WsAgentUnderTest) -> None:
    """Every message is one text frame."""
    await agent.run_turn("tour")
    agent.require(not agent.channel.binaries, "a message came as a binary frame")
    wrong = [text[:200] for text in agent.channel.texts if not isinstance(parse_json(text.encode()), dict)]
    agent.require(not wrong, f"a text frame is not one message: {wrong[:1]}")


@must("agent.ws.04", "http.md#websocket")
async def binary_frames_are_ignored(agent: WsAgentUnderTest) -> None:
    """A binary frame is ignored."""
    await agent.initialize()
    agent.note("a binary frame with a request in it")
    agent.channel.send_message(json.dumps({"jsonrpc": "2.0", "id": "binary", "method": "no/such_method"}).encode())
    await agent.require_alive("a binary frame")
    answers = agent.replies("binary")
    agent.require_none(answers, "a request in a binary frame was answered")


@should("agent.ws.05", "http.md#websocket, http.md#typescript-sdk")
async def initialize_comes_first(agent: WsAgentUnderTest) -> None:
    """Nothing is served before initialize."""
    agent.send(agent.new_session_message())
    frame = await agent.wait_reply("new", agent.timeouts.answer)
    agent.require(frame is None or "error" in frame.message, "session/new was served before initialize", frame)


@must("agent.ws.06", "http.md#python-sdk")
async def garbage_ends_nothing(agent: WsAgentUnderTest) -> None:
    """A text frame that is not JSON does not end the connection."""
    await agent.initialize()
    agent.send(b'{"jsonrpc":"2.0",')
    await agent.require_alive("a text frame that is not JSON")


@must("agent.ws.07", "RFC 6455 section 5.4")
async def fragments_are_joined(agent: WsAgentUnderTest) -> None:
    """A message in several fragments is one message."""
    await agent.initialize()
    text = json.dumps({"jsonrpc": "2.0", "id": "cut", "method": "no/such_method", "params": {}})
    agent.note(f"in three fragments: {text}")
    agent.channel.send_message([text[:10], text[10:30], text[30:]])
    agent.require(await agent.wait_reply("cut") is not None, "a message in three fragments was not answered")


@must("agent.ws.08", "RFC 6455 section 5.5.2")
async def pings_are_answered(agent: WsAgentUnderTest) -> None:
    """A ping is answered."""
    agent.require(await agent.channel.ping(agent.timeouts.answer), "a ping was not answered")


@must("agent.ws.09", "peers.md#reports-ordering")
async def floods_are_complete(agent: WsAgentUnderTest) -> None:
    """A thousand updates come without a gap and in order."""
    await agent.run_turn("flood")
    agent.require_counting()


@must("agent.ws.10", "http.md#websocket")
async def sockets_free_their_connection(agent: WsAgentUnderTest) -> None:
    """A socket that is gone releases its connection."""
    # Cut the socket during a turn, without a close frame, then use its id.
    await agent.open_session()
    agent.start_turn("slow")
    await agent.collect()
    id = agent.channel.connection
    agent.channel.abort()
    plain = HttpChannel(agent.url.replace("ws", "http", 1), token=agent.token, tls=agent.tls, note=agent._record)
    try:
        end = asyncio.get_running_loop().time() + agent.timeouts.answer
        while True:
            answer = await plain.post(agent.new_session_message(), {"Acp-Connection-Id": id})
            if answer.status >= 400 or asyncio.get_running_loop().time() > end:
                break
            await asyncio.sleep(agent.timeouts.quiet)
    finally:
        await plain.close()
    agent.require(answer.status >= 400, f"a message for a socket that is gone was answered with {answer.status}")
    other = agent.connect_again()
    try:
        await other.connect()
        agent.require(other.is_open, "after a socket was cut no other is let in")
    finally:
        await other.close()


@must("agent.ws.11", "http.md#reattach", "v1 v2 banjo crow", needs="agent.loadSession")
async def sessions_outlive_sockets(agent: WsAgentUnderTest) -> None:
    """A session is loaded again over another socket."""
    await agent.run_turn("plain")
    session = agent.session
    await agent.channel.send_eof()
    other = agent.connect_again()
    await other.connect()
    agent.transport, agent.closed, agent._unread = other, None, []
    try:
        await agent.initialize()
        frame = await agent.request_in_dialect(
            "session/load", {"sessionId": session, "cwd": agent.cwd, "mcpServers": []}
        )
        agent.require_result(frame, "loading the session over another socket")
    finally:
        await other.close()


@should("agent.ws.12", "RFC 6455 section 7.1.1")
async def close_frames_are_answered(agent: WsAgentUnderTest) -> None:
    """A close frame is answered with one."""
    await agent.initialize()
    await agent.channel.send_eof()
    agent.require(agent.channel.close_code is not None, "the close frame was not answered")


@should("agent.ws.13", "peers.md#sdk-origin, http.md#typescript-sdk")
async def frames_end(agent: WsAgentUnderTest) -> None:
    """A frame that announces a gibibyte is refused at once."""
    # Send only the header of a frame that announces one gibibyte.
    await agent.initialize()
    agent.note("the head of a text frame of 1073741824 bytes")
    head = b"\x81\xff" + (1 << 30).to_bytes(8, "big") + os.urandom(4)
    agent.channel._socket.transport.write(head + b" " * 1024)
    await agent.wait_for(lambda _: False, agent.timeouts.answer)
    agent.require(agent.closed is not None, "a frame of a gibibyte is waited for")


@must("agent.ws.14", "peers.md#reports-remote")
async def garbage_does_not_disturb_others(agent: WsAgentUnderTest) -> None:
    """A malformed client does not disturb others."""
    await agent.open_session()
    turn = agent.start_turn("stream")
    host = agent.channel.address.netloc.encode()
    upgrade = b"GET /acp HTTP/1.1\r\nHost: " + host + b"\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    await agent.send_garbage(
        b"\x81\xff\xff no protocol at all\r\n\r\n",
        upgrade + b"Sec-WebSocket-Key: ***\r\nSec-WebSocket-Version: 99\r\n\r\n",
        upgrade + b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n\xff\xff\xff\xff",
    )
    turn = await agent.wait_turn(turn)
    agent.require(turn.answer is not None, "a turn was not ended after another client sent garbage")
    await agent.require_alive("another client sent garbage")


@should("agent.ws.15", "peers.md#sdk-origin, http.md#security")
async def pages_of_other_places_are_refused(agent: WsAgentUnderTest) -> None:
    """A web page from another origin is refused by its Origin header."""
    # Browsers open a WebSocket without a preflight request: only the server can refuse.
    await _require_refused(agent, {"Origin": EVIL}, f"a page of {EVIL}")


@should("agent.ws.16", "peers.md#sdk-origin")
async def other_names_are_refused(agent: WsAgentUnderTest) -> None:
    """An upgrade with a host name that is not the server's is refused by its Host header."""
    agent.skip_unless(agent.channel.address.is_loopback, "only what is on this machine has no name of its own")
    await _require_refused(agent, {"Host": "rebound.evil.example"}, "rebound.evil.example")


@should("agent.ws.17", "http.md#security")
async def tokens_are_asked_for(agent: WsAgentUnderTest) -> None:
    """Where a token is required, an upgrade without it is refused with 401."""
    agent.skip_unless(agent.token, "no token was given with --token-file")
    await _require_refused(agent, {"Authorization": ""}, "a client without the token", 401)


async def _require_refused(agent: WsAgentUnderTest, headers: dict[str, str], who: str, status: int = 0) -> None:
    other = agent.connect_again()
    try:
        answer = await other.connect(headers)
        if answer.status == 101 and other.is_open:  # some servers can only close what they have let in
            other.send_message(json.dumps(agent.initialize_message()))
            try:
                async with asyncio.timeout(agent.timeouts.answer):
                    await other.receive()
            except (ConnectionFailed, TimeoutError):
                return
        agent.require(answer.status != 101, f"{who} was let in")
        agent.require(not status or answer.status == status, f"{who} was refused with {answer.status}, not {status}")
    finally:
        await other.close()
