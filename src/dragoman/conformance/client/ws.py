"""A client over WebSocket."""

from __future__ import annotations

import json

from dragoman.conformance.client.http import MANY, require_shown
from dragoman.conformance.harness.remote_client import RemoteClientUnderTest
from dragoman.conformance.requirement import must, should

# Above the default limit of libraries. Bytes.
LARGE = 2 * 1024 * 1024


@must("client.ws.01", "http.md#websocket")
async def initialize_comes_first(client: RemoteClientUnderTest) -> None:
    """The first frame is initialize."""
    await client.wait_prompt()
    first = json.loads(client.recorder.frames[0][1])
    is_first = isinstance(first, dict) and first.get("method") == "initialize"
    client.require(is_first, f"the first frame is {str(first)[:80]}")


@must("client.ws.02", "http.md#websocket")
async def frames_are_text(client: RemoteClientUnderTest) -> None:
    """Every frame is text, with one message."""
    await client.run_turn()
    await client.wait_exit()
    binary = [data for kind, data in client.recorder.frames if kind == "binary"]
    client.require(not binary, "a message was sent as a binary frame")
    for _, text in client.recorder.frames:
        try:
            message = json.loads(text)
        except ValueError:
            message = None
        client.require(isinstance(message, dict), f"a frame is not one message: {text[:80]}")


@must("client.ws.03", "http.md#websocket")
async def binary_frames_are_ignored(client: RemoteClientUnderTest) -> None:
    """A binary frame is ignored."""
    async with client.turn(survives="a binary frame"):
        await client.recorder.binary(b"\x00\x01\x02 no message")


@should("client.ws.04", "RFC 6455 section 7.1.2")
async def close_frames_are_sent(client: RemoteClientUnderTest) -> None:
    """The socket is closed with a close frame."""
    await client.run_turn()
    await client.wait_exit()
    client.assume(client.exits_after_turn, "the client stays, so it is unknown how it exits")
    code = client.recorder.close_code
    client.require(code in (1000, 1001, 1005), f"the socket was closed without a close frame ({code})")


@must("client.ws.05", "peers.md#reports-ordering")
async def floods_are_complete(client: RemoteClientUnderTest) -> None:
    """A thousand updates are shown without a gap and in order."""
    await require_shown(client, "a flood of updates", MANY)


@should("client.ws.06", "peers.md#reports-size, json-rpc.md#size-limits")
async def large_messages_are_accepted(client: RemoteClientUnderTest) -> None:
    """A message of two mebibytes is accepted."""
    async with client.turn(survives="a message of two mebibytes"):
        client.chunk("x" * LARGE)
        await client.flush()


@should("client.ws.07", "http.md#python-sdk")
async def garbage_ends_nothing(client: RemoteClientUnderTest) -> None:
    """A text frame that is not JSON does not end the connection."""
    async with client.turn(survives="a text frame that is not JSON"):
        await client.recorder.text('{"jsonrpc":"2.0",')
