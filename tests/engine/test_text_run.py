"""Text runs: the fast path delivers the same as the general path does one by one."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.engine.text_run import TextRun, text_run_at
from dragoman.schema.base import to_json
from dragoman.schema.side import Side
from tests.engine.raw_peer import note, run, talking


def piece(text: Any = "hello", session: str = "s", **beside: Any) -> dict[str, Any]:
    """A text chunk, with changes."""
    content = {"type": "text", "text": text, **beside.pop("content", {})}
    update = {"sessionUpdate": "agent_message_chunk", "content": content, **beside.pop("update", {})}
    return note("session/update", {"sessionId": session, "update": update, **beside.pop("params", {})}) | beside


def line(message: Any) -> bytes:
    return msgspec.json.encode(message)


def nested(levels: int) -> Any:
    return [] if levels == 0 else [nested(levels - 1)]


# Nothing but text, as different encoders write it, with members that no type knows.
BARE = [
    line(piece()),
    line(piece(text="")),
    line(piece(text="fünf\n\u2028")),
    line(piece(update={"messageId": "m"})),
    line(piece(update={"sessionUpdate": "agent_thought_chunk"})),
    line(piece(update={"sessionUpdate": "user_message_chunk"})),
    line(piece(session="other")),
    line(piece(params={"_meta": {"dragoman": {"seq": 12}}})),  # as a host numbers it
    line(piece(extra={"a": 1}, params={"more": 1}, update={"more": 2}, content={"more": 3})),
    line(piece()).replace(b'":', b'": ').replace(b',"', b', "'),
]

# What must take the general path, whatever comes before it.
OTHER = [
    line(piece(id=7)),
    line(piece(id=None)),
    line(piece(params={"_meta": {"dragoman": {"seq": 1}, "theirs": 2}})),
    line(piece(params={"_meta": {"theirs": 2}})),
    line(piece(params={"_meta": {}})),
    line(piece(update={"_meta": {"dragoman": {"x": 1}}})),
    line(piece(content={"_meta": {"dragoman": {"x": 1}}})),
    line(piece(content={"annotations": {"priority": 1}})),
    line(piece(text=5)),
    line(piece(text="\u0000")).replace(b"\\u0000", b"\\ud83d"),
    line(piece(more=nested(250))),
    line(piece(content={"type": "image", "data": "", "mimeType": "image/png"})),
    line(piece(update={"sessionUpdate": "nobody_knows_this"})),
    line(piece(update={"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T"})),
    line(piece())[:-1] + b',"method":"_x/other"}',
    line(piece())[:-1] + b',"params":{}}',
    line(piece())[:-2],
    line(note("_x/note", {"n": 1})),
    b'{"jsonrpc":"2.0","id":3,"method":"_echo","params":{"n":2}}',
    b'{"jsonrpc":"2.0","id":99,"result":{}}',
]

Received = list[tuple[Any, ...]]


async def deliver_frames(frames: list[bytes], *, together: bool, pause: int = 0) -> Received:
    """What a client gets from a block: updates, calls, and what it answers.

    A tap that takes nothing forces the general path. Every `pause`th update has to be awaited.
    """
    received: Received = []

    def sink(session: str, update: Any) -> Any:
        received.append(("update", session, to_json(update)))
        return asyncio.sleep(0) if pause and len(received) % pause == 0 else None

    def take(run: TextRun) -> bool:
        if pause:
            return False
        received.extend(("update", run.session, to_json(update)) for update in run.updates)
        return True

    def record_call(params: Any) -> None:
        received.append(("call", params))

    functions = {"_x/note": record_call, "session/update": record_call, "_x/other": record_call}
    async with talking(functions, we=Side.CLIENT) as talk:
        talk.connection.on_update = sink
        talk.connection.on_text_run = take
        if not together:
            talk.connection.tap = lambda envelope, frame: (False, None)
        for frame in frames:
            talk.peer.transport.send(frame)
        answers = await talk.answers()
        return [
            *received,
            *(("answer", answer) for answer in answers),
            *(("report", report) for report in talk.reports),
        ]


ANOTHER = {
    "session": line(piece(session="other")),
    "message": line(piece(update={"messageId": "m"})),
    "kind": line(piece(update={"sessionUpdate": "agent_thought_chunk"})),
}


@pytest.mark.parametrize("another", ANOTHER.values(), ids=ANOTHER)
def test_chunks_of_one_message_are_one_run(another: bytes) -> None:
    frames: Any = [line(piece(text=text)) for text in "abc"]
    found = text_run_at([another, *frames, another, frames[0]], 1)
    assert found is not None
    assert found.session == "s"
    assert [update.content.text for update in found.updates] == ["a", "b", "c"]


class IndexedOnly(list[Any]):
    """Frames that nobody may walk over from the first one."""

    def __iter__(self) -> Any:
        raise AssertionError("a run at the end of a block must not cost a walk over the whole block")


def test_a_run_late_in_a_block_costs_nothing_for_the_frames_before_it() -> None:
    found = text_run_at(IndexedOnly([ANOTHER["kind"]] * 100 + [line(piece())]), 100)
    assert found is not None
    assert len(found.updates) == 1


@pytest.mark.parametrize("frame", OTHER)
def test_anything_but_bare_text_ends_a_run(frame: bytes) -> None:
    bare = line(piece())
    assert text_run_at([frame, bare], 0) is None
    found = text_run_at([bare, bare, frame, bare], 0)
    assert found is not None
    assert len(found.updates) == 2


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(BARE * 4 + OTHER), max_size=12), st.sampled_from([0, 1, 3]))
def test_a_block_is_delivered_the_same_by_both_paths(frames: list[bytes], pause: int) -> None:
    async def main() -> None:
        together = await deliver_frames(frames, together=True, pause=pause)
        assert together == await deliver_frames(frames, together=False, pause=pause)

    run(main())


async def test_a_failing_hook_loses_one_update_of_a_run() -> None:
    received: list[str] = []

    def sink(session: str, update: Any) -> None:
        if update.content.text == "b":
            raise ValueError("not this one")
        received.append(update.content.text)

    async with talking(we=Side.CLIENT) as talk:
        talk.connection.on_update = sink
        for text in "abc":
            talk.peer.transport.send(line(piece(text=text)))
        await talk.answers()
    assert received == ["a", "c"]
