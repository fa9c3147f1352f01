"""Probes of clients over WebSocket."""

from __future__ import annotations

import json

from dragoman.conformance.harness.remote_client import RemoteClientStage
from dragoman.conformance.probe import probe
from dragoman.conformance.probes.client_http import MANY, shown

# Above the limit that libraries have when nobody sets one. Bytes.
LARGE = 2 * 1024 * 1024


@probe("client.ws.01")
async def initialize_comes_first(stage: RemoteClientStage) -> None:
    """As on any other line."""
    await stage.prompted()
    first = json.loads(stage.wire.frames[0][1])
    is_first = isinstance(first, dict) and first.get("method") == "initialize"
    stage.require(is_first, f"the first frame is {str(first)[:80]}")


@probe("client.ws.02")
async def frames_are_text(stage: RemoteClientStage) -> None:
    """One message each."""
    prompt = await stage.begun()
    stage.end(prompt)
    await stage.over()
    binary = [data for kind, data in stage.wire.frames if kind == "binary"]
    stage.require(not binary, "a message was sent as a binary frame")
    for _, text in stage.wire.frames:
        try:
            said = json.loads(text)
        except ValueError:
            said = None
        stage.require(isinstance(said, dict), f"a frame is not one message: {text[:80]}")


@probe("client.ws.03")
async def binary_frames_are_ignored(stage: RemoteClientStage) -> None:
    """In the middle of a turn."""
    prompt = await stage.begun()
    await stage.wire.binary(b"\x00\x01\x02 no message")
    await stage.survived(prompt, "a binary frame")


@probe("client.ws.04")
async def goodbyes_are_said(stage: RemoteClientStage) -> None:
    """So that the server knows that it is over."""
    prompt = await stage.begun()
    stage.end(prompt)
    await stage.over()
    if not stage.leaves:
        stage.unsure("the client stays, so it cannot be told how it leaves")
    code = stage.wire.farewell
    stage.require(code in (1000, 1001, 1005), f"the socket was closed without a goodbye ({code})")


@probe("client.ws.05")
async def floods_are_whole(stage: RemoteClientStage) -> None:
    """Numbers that go up by one."""
    await shown(stage, "a flood of updates", MANY)


@probe("client.ws.06")
async def large_messages_are_taken(stage: RemoteClientStage) -> None:
    """An edit of a large file is one message."""
    prompt = await stage.begun()
    stage.chunk("x" * LARGE)
    await stage.flush()
    await stage.survived(prompt, "a message of two mebibytes")


@probe("client.ws.07")
async def garbage_ends_nothing(stage: RemoteClientStage) -> None:
    """One bad frame of many good ones."""
    prompt = await stage.begun()
    await stage.wire.text('{"jsonrpc":"2.0",')
    await stage.survived(prompt, "a text frame that is no JSON")
