"""Probes of lines and bytes at an agent."""

from __future__ import annotations

import asyncio
import json

from dragoman.conformance.harness.agent import AgentStage
from dragoman.conformance.harness.peer import Heard
from dragoman.conformance.probe import probe
from dragoman.conformance.probes.agent_cancel import running

MEGABYTE = 1_000_000
DEEP = 20_000  # levels: more than any sound reader follows

# Between two pieces of one message: longer than a loop needs to read the first by itself. Seconds.
PAUSE = 0.02


def _request(id: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": "no/such_method", "params": {}}).encode() + b"\n"


@probe("agent.frame.01")
async def output_is_messages(stage: AgentStage) -> None:
    """Through the opening and a plain turn, as far as the agent comes."""
    try:
        await stage.opened()
        await stage.ended(stage.begin(stage.words("plain")))
    finally:  # an agent that wants a login first has written something until then, too
        for heard in stage.heard:
            is_message = isinstance(heard.message, dict) and bool({"method", "result", "error"} & heard.message.keys())
            stage.require(is_message, "a line on standard output is no message", heard)


@probe("agent.frame.02")
async def pieces_are_joined(stage: AgentStage) -> None:
    """Cut in the middle of a word and of a character."""
    await stage.initialized()
    line = '{"jsonrpc":"2.0","id":"in pieces é","method":"no/such_method","params":{}}\n'.encode()
    cut = line.index(b"\xc3") + 1
    for piece in (line[:9], line[9:cut], line[cut:]):
        stage.write_raw(piece)
        await asyncio.sleep(PAUSE)
    stage.require(await stage.answered("in pieces é"), "a request that arrived in three pieces was not answered")


@probe("agent.frame.03")
async def messages_may_come_together(stage: AgentStage) -> None:
    """Three requests in one write."""
    await stage.initialized()
    ids = ["together 1", "together 2", "together 3"]
    stage.write_raw(b"".join(map(_request, ids)))
    missing = set(ids)

    def rest(heard: Heard) -> bool:
        if heard.is_reply:
            missing.discard(heard.message.get("id"))
        return not missing

    await stage.until(rest)
    stage.require(not missing, f"of three requests in one write {len(missing)} were not answered")


@probe("agent.frame.04")
async def lines_may_end_with_crlf(stage: AgentStage) -> None:
    """As clients on Windows write them."""
    await stage.initialized()
    stage.write_raw(_request("with CR")[:-1] + b"\r\n")
    stage.require(await stage.answered("with CR"), "a request whose line ends with CR LF was not answered")


@probe("agent.frame.05")
async def empty_lines_are_nothing(stage: AgentStage) -> None:
    """They get no error either."""
    await stage.initialized()
    stage.write_raw(b"\n\r\n  \n" + _request("after empty lines"))
    heard = await stage.until(lambda heard: heard.is_reply)
    stage.require(heard is not None, "after empty lines a request was not answered")
    assert heard is not None
    stage.require(heard.message.get("id") == "after empty lines", "an empty line was answered", heard)


@probe("agent.frame.06")
async def a_megabyte_is_read(stage: AgentStage) -> None:
    """In a request that needs no model."""
    await stage.initialized()
    heard = await stage.asked("no/such_method", {"text": "x" * MEGABYTE}, stage.pace.turn)
    stage.require(heard, "a request of a megabyte was not answered")


@probe("agent.frame.07")
async def depth_is_survived(stage: AgentStage) -> None:
    """Readers that call themselves for each level have an end."""
    await stage.initialized()
    nested = b"[" * DEEP + b"]" * DEEP
    stage.send(b'{"jsonrpc":"2.0","id":911,"method":"no/such_method","params":{"deep":' + nested + b"}}")
    await stage.silence()
    await stage.alive("a deeply nested message")


@probe("agent.frame.08")
async def broken_text_is_survived(stage: AgentStage) -> None:
    """Bytes that no text has."""
    await stage.initialized()
    stage.send(b'{"jsonrpc":"2.0","method":"no/such_notification","params":{"text":"\xff\xfe\xc3"}}')
    await stage.silence()
    await stage.alive("bytes that are no UTF-8")


@probe("agent.frame.09")
async def half_an_emoji_is_survived(stage: AgentStage) -> None:
    """Editors that cut a text send it; the request must be answered in some way."""
    await stage.initialized()
    stage.send(b'{"jsonrpc":"2.0","id":912,"method":"no/such_method","params":{"text":"half \\ud83e"}}')
    stage.require(await stage.answered(912), "a request with half an emoji in it was not answered")


@probe("agent.frame.10")
async def output_is_utf8(stage: AgentStage) -> None:
    """Many an agent says some of the prompt again."""
    await stage.opened()
    await stage.ended(stage.begin("Say this again: \U0001f99c Dragomán żółw 通訳"))
    for heard in stage.heard:
        try:
            heard.raw.decode("utf-8")
        except UnicodeDecodeError as error:
            stage.require(False, f"a line is no UTF-8: {error.reason} at byte {error.start}", heard)


@probe("agent.frame.11")
async def the_end_is_heard(stage: AgentStage) -> None:
    """Nothing is under way."""
    await stage.opened()
    stage.require(await stage.left(), "the agent is still there after the end of its input")


@probe("agent.frame.12")
async def the_end_is_heard_in_a_turn(stage: AgentStage) -> None:
    """A turn that would take a minute is under way."""
    await running(stage)
    stage.require(await stage.left(), "the agent is still there after the end of its input in the middle of a turn")


@probe("agent.frame.13")
async def the_client_speaks_first(stage: AgentStage) -> None:
    """Banners and greetings belong to stderr."""
    heard = await stage.silence(stage.pace.quiet * 3)
    stage.require(not heard, "something was written before the client spoke", *heard)


@probe("agent.frame.14")
async def slow_readers_get_everything(stage: AgentStage) -> None:
    """A long answer while nobody reads."""
    await stage.opened()
    turn = stage.begin(stage.words("flood"))
    await asyncio.sleep(stage.pace.quiet)
    await stage.ended(turn)
    stage.require(turn.answer, "a client that did not read for a while never got the end of the turn")


@probe("agent.frame.15")
async def a_trickle_is_read(stage: AgentStage) -> None:
    """One byte a write."""
    await stage.initialized()
    for byte in _request("trickle"):
        stage.write_raw(bytes([byte]))
        await asyncio.sleep(0)
    stage.require(await stage.answered("trickle"), "a request that came byte by byte was not answered")
