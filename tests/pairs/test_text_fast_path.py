"""Bare text chunks take a fast path between two dialects: the output and the state are the same as without it.

Two translators get the same updates, one of them without the fast path; some updates are bare chunks, some have more
members than the fast path accepts.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import Agent
from dragoman.dialect.dialects import DIALECT_NAMES, load_dialect
from dragoman.dialect.text_chunk import parse_chunk
from dragoman.engine.connection import Connection
from dragoman.engine.incoming import DoneCallback, Incoming
from dragoman.roles.emulator_settings import emulator_settings as ledger_settings
from dragoman.roles.proxy.relay import Relay
from dragoman.schema.content import TextContent
from dragoman.schema.side import Side
from dragoman.schema.update import AgentMessageChunk, AgentThoughtChunk, UpdateParams, UserMessageChunk
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import memory_pair
from dragoman.wire.envelope import Envelope
from tests.pairs.peers import BOUND
from tests.pairs.test_cancel import Between, between
from tests.pairs.words import ALL_WORDS, WORDS, Json

PAIRS = [(client, agent) for client in WORDS for agent in WORDS if client != agent]

# Session ids: the open one, and one that nobody opened.
OPENED = ("s", "elsewhere", "")
SESSIONS = st.sampled_from(["s", "s", *OPENED])
KINDS = st.sampled_from(["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"])

# A little more than a bare piece of text, where the vocabulary has a place for it.
MORE: list[Json] = [
    {},
    {},
    {},
    {"messageId": "m1"},
    {"_meta": {"trace": "t"}},
    {"_meta": {"dragoman": {"status": "denied"}}},
    {"_unknown": [1, None]},
]
BLOCKS = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, st.text()),
    st.builds(lambda text: {"type": "text", "text": text}, st.text()),
    st.builds(lambda text: {"type": "text", "text": text, "annotations": {"priority": 1}}, st.text(max_size=3)),
    st.just({"type": "image", "mimeType": "image/png", "data": "AA=="}),
)
CHUNKS = st.builds(
    lambda session, kind, block, more: {
        "sessionId": session,
        "update": {"sessionUpdate": kind, "content": block, **more},
    },
    SESSIONS,
    KINDS,
    BLOCKS,
    st.sampled_from(MORE),
)
TYPED = (AgentMessageChunk, AgentThoughtChunk, UserMessageChunk)
PLANS = st.just({"sessionId": "s", "update": {"sessionUpdate": "plan", "entries": []}})


async def frames_to_client(met: Between, frames: list[bytes], last: Json) -> list[Json]:
    """What the client receives of these frames of the agent; `last` marks the end."""
    for frame in [*frames, msgspec.json.encode(last)]:
        met.agent.send(frame)
    received: list[Json] = []
    while True:
        message = await met.client.receive()
        if message.get("method") == last["method"]:
            return received
        received.append(message)


def memory(relay: Relay) -> Any:
    """What the draft counts."""
    ledger = None if relay.client.sender.emulation is None else relay.client.sender.emulation.emulator
    book = getattr(ledger, "sessions", None)
    pages = [] if book is None else book.rows.values()
    return {page.session_id: (page.message_count, page.last_speaker) for page in pages if page.session_id in OPENED}


@pytest.mark.parametrize(("client", "agent"), PAIRS)
@settings(max_examples=8, deadline=None)
@given(chunks=st.lists(st.one_of(CHUNKS, CHUNKS, CHUNKS, PLANS), min_size=1, max_size=12))
def test_both_paths_give_the_same_result(client: str, agent: str, chunks: list[Json]) -> None:
    def spelled(params: Json) -> bytes:
        _, wire = load_dialect(agent).lower_call(Side.CLIENT, "session/update", params)
        return msgspec.json.encode({"jsonrpc": "2.0", "method": "session/update", "params": wire})

    frames = [spelled(params) for params in chunks]

    async def main() -> None:
        async with AsyncExitStack() as stack:
            short = await stack.enter_async_context(between(client, agent))
            long = await stack.enter_async_context(between(client, agent))
            long.relay.connection_to(Side.AGENT).tap = None
            last = {"jsonrpc": "2.0", "method": "_last", "params": {}}
            assert await frames_to_client(short, frames, last) == await frames_to_client(long, frames, last)
            assert memory(short.relay) == memory(long.relay)

    asyncio.run(main())


@pytest.mark.parametrize(("client", "agent"), PAIRS)
async def test_a_bare_text_chunk_takes_the_fast_path(client: str, agent: str) -> None:
    async with between(client, agent) as met:
        wire = met.relay.connection_to(Side.AGENT)
        assert wire.tap is not None
        said = WORDS[agent].say("elsewhere", "word")
        said.get("data", {}).pop("index", None)  # the draft may number its pieces: that is more than a text
        frame = msgspec.json.encode({"jsonrpc": "2.0", "method": "session/update", "params": said})
        envelope = msgspec.json.decode(frame, type=Envelope)
        assert wire.tap(envelope, frame) == (True, None)
        answer = await met.client.expect(method="session/update")
        assert WORDS[client].event(answer["params"]) == ("says", "word")


@pytest.mark.parametrize("name", DIALECT_NAMES)
@pytest.mark.parametrize("junk", [b"null", b"[]", b"{}", b"7", b'"\xff"', b'{"sessionId":"\\ud800"}', b"[" * 2000])
def test_everything_but_bare_text_takes_the_normal_path(name: str, junk: bytes) -> None:
    assert parse_chunk(load_dialect(name).chunk_forms, msgspec.Raw(junk)) is None


def wide_text() -> st.SearchStrategy[str]:
    """Text with lone surrogates too, which a stream that cuts an emoji in two may hold."""
    return st.text(st.characters(codec=None), max_size=8)


@pytest.mark.parametrize("name", DIALECT_NAMES)
@settings(max_examples=8, deadline=None)
@given(texts=st.lists(st.tuples(st.sampled_from(TYPED), wide_text()), min_size=1, max_size=6))
def test_sending_gives_the_same_result_on_both_paths(name: str, texts: list[tuple[Any, str]]) -> None:
    async def sent_frames(is_short: bool) -> list[Json]:
        ours, theirs = memory_pair()
        connection = Agent("says", version="1", dialect=name).start_connection(ours, report=lambda _: None)
        peer = ScriptedPeer(theirs)
        await peer.request(1, "initialize", ALL_WORDS[name].initialize(True, True, "/"))
        if not is_short:
            connection.sender._send_chunk = lambda params: False  # type: ignore[method-assign]
        for kind, text in texts:
            update = kind(content=TextContent(text=text))
            connection.notify("session/update", UpdateParams(session_id="s", update=update))
        received = [await peer.receive() for _ in texts]
        await connection.close()
        return received

    async def main() -> None:
        assert await sent_frames(True) == await sent_frames(False)

    asyncio.run(main())


@pytest.mark.parametrize("name", DIALECT_NAMES)
@settings(max_examples=8, deadline=None)
@given(texts=st.lists(st.tuples(KINDS, st.text(max_size=8)), min_size=1, max_size=6))
def test_receiving_gives_the_same_result_on_both_paths(name: str, texts: list[tuple[str, str]]) -> None:
    async def received_updates(is_short: bool) -> list[Any]:
        ours, theirs = memory_pair()
        got: list[Any] = []
        over = asyncio.Event()

        def take(incoming: Incoming, _: DoneCallback) -> None:
            got.append(incoming.params)

        connection = Connection(
            ours,
            Side.CLIENT,
            {"session/update": take, "_last": lambda *_: over.set()},
            fallback=take,
            settings=ledger_settings(),
            peer_dialect=load_dialect(name),
        )
        if is_short:
            connection.on_update = lambda session, update: got.append(UpdateParams(session_id=session, update=update))
        connection.start()
        for kind, text in texts:
            update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
            _, wire = load_dialect(name).lower_call(Side.CLIENT, "session/update", {"sessionId": "s", "update": update})
            theirs.send(msgspec.json.encode({"jsonrpc": "2.0", "method": "session/update", "params": wire}))
        theirs.send(b'{"jsonrpc":"2.0","method":"_last"}')
        async with asyncio.timeout(BOUND):
            await over.wait()
        await connection.close()
        return got

    async def main() -> None:
        short = await received_updates(True)
        assert len(short) == len(texts)
        assert short == await received_updates(False)

    asyncio.run(main())
