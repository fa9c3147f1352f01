"""Lines and bytes at an agent."""

from __future__ import annotations

import asyncio
import json

from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.requirement import must

MEGABYTE = 1_000_000
DEEP = 20_000  # levels: more than any sound reader follows

# The pause between two pieces of one message, so that each is read by itself. Seconds.
PAUSE = 0.02


def _request(id: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": "no/such_method", "params": {}}).encode() + b"\n"


@must("agent.frame.01", "json-rpc.md#stdio, peers.md#reports-stdout")
async def output_is_messages(agent: AgentUnderTest) -> None:
    """Every line on standard output is a message; nothing else is written there."""
    try:
        await agent.try_turn("plain")
    finally:  # an agent that wants a login first has written something until then, too
        for frame in agent.received:
            is_message = isinstance(frame.message, dict) and bool({"method", "result", "error"} & frame.message.keys())
            agent.require(is_message, "a line on standard output is not a message", frame)


@must("agent.frame.02", "json-rpc.md#stdio")
async def pieces_are_joined(agent: AgentUnderTest) -> None:
    """A message that arrives in pieces is read as one."""
    await agent.initialize()
    line = '{"jsonrpc":"2.0","id":"in pieces é","method":"no/such_method","params":{}}\n'.encode()
    cut = line.index(b"\xc3") + 1
    for piece in (line[:9], line[9:cut], line[cut:]):
        agent.write_raw(piece)
        await asyncio.sleep(PAUSE)
    agent.require(await agent.wait_reply("in pieces é"), "a request that arrived in three pieces was not answered")


@must("agent.frame.03", "json-rpc.md#stdio")
async def messages_may_come_together(agent: AgentUnderTest) -> None:
    """Several messages that arrive at once are all read."""
    await agent.initialize()
    ids = ["together 1", "together 2", "together 3"]
    agent.write_raw(b"".join(map(_request, ids)))
    missing = await agent.wait_replies(ids)
    agent.require(not missing, f"of three requests in one write {len(missing)} were not answered")


@must("agent.frame.04", "json-rpc.md#robust-reading")
async def lines_may_end_with_crlf(agent: AgentUnderTest) -> None:
    """A line may end with CR LF."""
    await agent.initialize()
    agent.write_raw(_request("with CR")[:-1] + b"\r\n")
    agent.require(await agent.wait_reply("with CR"), "a request whose line ends with CR LF was not answered")


@must("agent.frame.05", "json-rpc.md#robust-reading")
async def empty_lines_are_nothing(agent: AgentUnderTest) -> None:
    """Empty lines are ignored."""
    await agent.initialize()
    agent.write_raw(b"\n\r\n  \n" + _request("after empty lines"))
    frame = agent.require(
        await agent.wait_for(lambda frame: frame.is_reply), "after empty lines a request was not answered"
    )
    agent.require(frame.message.get("id") == "after empty lines", "an empty line was answered", frame)


@must("agent.frame.06", "peers.md#long-lines")
async def a_megabyte_is_read(agent: AgentUnderTest) -> None:
    """A message of a megabyte is read and answered."""
    await agent.initialize()
    frame = await agent.request("no/such_method", {"text": "x" * MEGABYTE}, agent.timeouts.turn)
    agent.require(frame, "a request of a megabyte was not answered")


@must("agent.frame.07", "json-rpc.md#robust-reading")
async def depth_is_survived(agent: AgentUnderTest) -> None:
    """A message nested thousands deep does not end the connection."""
    nested = b"[" * DEEP + b"]" * DEEP
    line = b'{"jsonrpc":"2.0","id":911,"method":"no/such_method","params":{"deep":' + nested + b"}}"
    await agent.require_survival(line, "a deeply nested message")


@must("agent.frame.08", "json-rpc.md#robust-reading")
async def broken_text_is_survived(agent: AgentUnderTest) -> None:
    """Bytes that are not UTF-8 do not end the connection."""
    line = b'{"jsonrpc":"2.0","method":"no/such_notification","params":{"text":"\xff\xfe\xc3"}}'
    await agent.require_survival(line, "bytes that are not UTF-8")


@must("agent.frame.09", "json-rpc.md#robust-reading")
async def half_an_emoji_is_answered(agent: AgentUnderTest) -> None:
    """A request with half an emoji in it, escaped, is answered."""
    # Editors that cut a text send it. Any answer is fine.
    await agent.initialize()
    agent.send(b'{"jsonrpc":"2.0","id":912,"method":"no/such_method","params":{"text":"half \\ud83e"}}')
    agent.require(await agent.wait_reply(912), "a request with half an emoji in it was not answered")


@must("agent.frame.10", "json-rpc.md#stdio")
async def output_is_utf8(agent: AgentUnderTest) -> None:
    """The output is UTF-8, also after a prompt with emoji."""
    await agent.try_prompt("Say this again: \U0001f99c Dragomán żółw 通訳")
    for frame in agent.received:
        try:
            frame.raw.decode("utf-8")
        except UnicodeDecodeError as error:
            agent.require(False, f"a line is not UTF-8: {error.reason} at byte {error.start}", frame)


@must("agent.frame.11", "json-rpc.md#stdio, peers.md#end-of-input")
async def the_end_of_input_is_noticed(agent: AgentUnderTest) -> None:
    """The agent exits when its input ends."""
    await agent.open_session()
    agent.require(await agent.close_and_wait(), "the agent is still there after the end of its input")


@must("agent.frame.12", "peers.md#ignored-end-of-input")
async def the_end_of_input_is_noticed_in_a_turn(agent: AgentUnderTest) -> None:
    """The agent exits when its input ends during a turn."""
    await agent.start_slow_turn()
    is_gone = await agent.close_and_wait()
    agent.require(is_gone, "the agent is still there after the end of its input in the middle of a turn")


@must("agent.frame.13", "initialize.md#order")
async def nothing_is_sent_before_the_client(agent: AgentUnderTest) -> None:
    """The agent writes nothing before the client has sent something."""
    agent.require_none(
        await agent.collect(agent.timeouts.quiet * 3), "something was written before the client sent anything"
    )


@must("agent.frame.14", "peers.md#slow-consumer")
async def slow_readers_get_everything(agent: AgentUnderTest) -> None:
    """A client that reads nothing for a while still gets the end of the turn."""
    await agent.open_session()
    turn = agent.start_turn("flood")
    await asyncio.sleep(agent.timeouts.quiet)
    await agent.wait_turn(turn)
    agent.require(turn.answer, "a client that did not read for a while never got the end of the turn")


@must("agent.frame.15", "json-rpc.md#stdio")
async def single_bytes_are_read(agent: AgentUnderTest) -> None:
    """A message that arrives byte by byte is read."""
    await agent.initialize()
    for byte in _request("trickle"):
        agent.write_raw(bytes([byte]))
        await asyncio.sleep(0)
    agent.require(await agent.wait_reply("trickle"), "a request that came byte by byte was not answered")
