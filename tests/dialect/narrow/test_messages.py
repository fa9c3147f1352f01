"""Messages that an agent changes, for clients that only append."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dialect.narrow.client import NarrowClient, text

IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}


def chunk(id: str, words: str, kind: str = "agent_message_chunk") -> dict[str, Any]:
    return {"sessionUpdate": kind, "content": text(words), "messageId": id}


def test_chunks_pass_with_their_ids() -> None:
    client = NarrowClient()
    assert client.update("agent_message_chunk", messageId="m", content=text("hello")) == [chunk("m", "hello")]
    assert client.update("agent_thought_chunk", content=text("hm")) == [
        {"sessionUpdate": "agent_thought_chunk", "content": text("hm")}
    ]


def test_a_new_whole_message_is_one_chunk_for_each_block() -> None:
    client = NarrowClient()
    assert client.update("user_message", messageId="u", content=[text("look"), IMAGE]) == [
        chunk("u", "look", "user_message_chunk"),
        {"sessionUpdate": "user_message_chunk", "messageId": "u", "content": IMAGE},
    ]


def test_a_message_without_content_says_nothing() -> None:
    client = NarrowClient()
    assert client.update("agent_message", messageId="m") == []
    assert client.update("agent_message", messageId="m", content=None) == []
    assert client.update("agent_message", messageId="m", content=[]) == []
    assert client.update("agent_message_chunk", messageId="m", content=text("hello")) == [chunk("m", "hello")]
    assert client.losses() == []


@pytest.mark.item("V2-20")
def test_chunks_followed_by_the_whole_message_are_said_once() -> None:
    client = NarrowClient()
    client.update("agent_message_chunk", messageId="m", content=text("hé"))
    client.update("agent_message_chunk", messageId="m", content=text("llo"))
    assert client.update("agent_message", messageId="m", content=[text("héllo")]) == []
    assert client.update("agent_message", messageId="m", content=[text("héll"), text("o")]) == []
    assert client.losses() == []


def test_of_a_longer_message_only_the_rest_is_said() -> None:
    client = NarrowClient()
    client.update("agent_message_chunk", messageId="m", content=text("one "))
    assert client.update("agent_message", messageId="m", content=[text("one two"), IMAGE, text("!")]) == [
        chunk("m", "two"),
        {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": IMAGE},
        chunk("m", "!"),
    ]
    assert client.update("agent_message", messageId="m", content=[text("one two"), IMAGE, text("!?")]) == [
        chunk("m", "?")
    ]
    assert client.losses() == []


@pytest.mark.item("V2-20")
def test_a_changed_message_is_said_anew_under_an_id_of_its_own() -> None:
    client = NarrowClient()
    client.update("agent_message_chunk", messageId="m", content=text("four"))
    replaced = {**chunk("m~2", "five"), "_meta": {"dragoman": {"replaces": "m"}}}
    assert client.update("agent_message", messageId="m", content=[text("five")]) == [replaced]
    assert client.losses() == ["replaced_message"]
    assert client.update("agent_message_chunk", messageId="m", content=text("!")) == [chunk("m~2", "!")]
    assert client.update("agent_message", messageId="m", content=[text("five!")]) == []
    assert client.update("agent_message", messageId="m", content=[text("six")])[0]["messageId"] == "m~3"
    assert client.losses() == []  # once


def test_a_cleared_message_begins_anew_with_its_next_chunk() -> None:
    client = NarrowClient()
    client.update("agent_thought_chunk", messageId="t", content=text("hm"))
    assert client.update("agent_thought", messageId="t", content=None) == []
    assert client.losses() == ["replaced_message"]
    again = {**chunk("t~2", "ah", "agent_thought_chunk"), "_meta": {"dragoman": {"replaces": "t"}}}
    assert client.update("agent_thought_chunk", messageId="t", content=text("ah")) == [again]


def test_a_cleared_message_that_comes_back_is_not_said_again() -> None:
    client = NarrowClient()
    client.update("agent_message_chunk", messageId="m", content=text("one"))
    client.update("agent_message", messageId="m", content=[])
    assert client.update("agent_message", messageId="m", content=[text("one two")]) == [chunk("m", " two")]


def test_in_a_replay_a_cleared_message_is_said_again_under_its_own_id() -> None:
    client = NarrowClient()
    client.update("agent_message_chunk", messageId="m", content=text("live"))
    client.narrowing.begin_replay("s")
    assert client.update("agent_message", messageId="m", content=[]) == []
    assert client.update("agent_message_chunk", messageId="m", content=text("live")) == [chunk("m", "live")]
    assert client.update("agent_message", messageId="m", content=[]) == []
    assert client.update("agent_message_chunk", messageId="m", content=text("live")) == [chunk("m", "live")]
    client.narrowing.end_replay("s")
    assert client.update("agent_message", messageId="m", content=[text("live")]) == []
    assert client.losses() == []


def test_messages_and_kinds_do_not_mix() -> None:
    client = NarrowClient()
    client.update("agent_message_chunk", messageId="a", content=text("a1"))
    client.update("agent_thought_chunk", messageId="a", content=text("t1"))
    client.update("agent_message_chunk", messageId="b", content=text("b1"))
    assert client.update("agent_message", messageId="a", content=[text("a1a2")]) == [chunk("a", "a2")]
    assert client.update("agent_message", messageId="b", content=[text("b1")]) == []
    assert client.update("agent_thought", messageId="a", content=[text("t1")]) == []


def test_blocks_lose_what_only_v2_has() -> None:
    client = NarrowClient()
    link = {"type": "resource_link", "name": "n", "uri": "file:///n"}
    wide = {**link, "icons": [{"src": "data:,"}], "annotations": {"audience": ["user", "_robots"], "priority": 0.5}}
    [update] = client.update("agent_message_chunk", messageId="m", content=wide)
    assert update["content"] == {**link, "annotations": {"audience": ["user"], "priority": 0.5}}
    [update] = client.update("agent_message_chunk", messageId="m", content={"type": "_chart", "points": []})
    assert update["content"] == text("[_chart]")
    only = {**text("x"), "annotations": {"audience": ["_robots"]}}
    [update] = client.update("agent_message_chunk", messageId="m", content=only)
    assert update["content"] == {**text("x"), "annotations": {}}
    assert client.losses() == ["icons", "unknown_content _chart"]


WORDS = st.text("ab ", max_size=4)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["m", "n"]),
        st.one_of(
            st.tuples(st.just("chunk"), WORDS),
            st.tuples(st.just("whole"), st.lists(WORDS, max_size=3)),
            st.tuples(st.just("extend"), WORDS),
        ),
    ),
    max_size=12,
)


@given(STEPS)
def test_the_client_has_each_message_in_the_end_and_no_word_twice(steps: list[Any]) -> None:
    client = NarrowClient()
    agent: dict[str, str] = {}
    seen: dict[str, str] = {}  # by the client's ids
    latest: dict[str, str] = {}  # the client's id of each message
    for id, (what, words) in steps:
        if what == "chunk":
            agent[id] = agent.get(id, "") + words
            updates = client.update("agent_message_chunk", messageId=id, content=text(words))
        else:
            whole = "".join(words) if what == "whole" else agent.get(id, "") + words
            agent[id] = whole
            blocks = [text(each) for each in words] if what == "whole" else [text(whole)]
            updates = client.update("agent_message", messageId=id, content=blocks)
            mine = latest.get(id, id)
            if blocks and whole.startswith(seen.get(mine, "")):  # only the rest is said
                assert {update["messageId"] for update in updates} <= {mine}
                assert "".join(update["content"]["text"] for update in updates) == whole.removeprefix(
                    seen.get(mine, "")
                )
        for update in updates:
            mine = update["messageId"]
            seen[mine] = seen.get(mine, "") + update["content"]["text"]
            latest[mine.partition("~")[0]] = mine
    for id, whole in agent.items():
        if whole:
            assert seen[latest[id]] == whole
    assert all(id.partition("~")[0] in agent for id in seen)
