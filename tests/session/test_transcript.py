"""The transcript of a session: chunks become messages, tool calls keep their position, state has its current value."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.schema.base import Unknown
from dragoman.schema.config import SessionConfigOption, SessionMode, SessionModeState
from dragoman.schema.content import ImageContent, TextContent
from dragoman.schema.plan import PlanEntry, PlanItems, PlanMarkdown
from dragoman.schema.toolcall import ToolCallUpdate
from dragoman.schema.update import (
    AgentMessageChunk,
    AgentThoughtChunk,
    CompactionSummaryChunk,
    CompactionUpdate,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    Notice,
    Plan,
    PlanRemoved,
    PlanUpdate,
    SessionInfoUpdate,
    ToolCallProgress,
    ToolCallStart,
    UsageUpdate,
    UserMessageChunk,
)
from dragoman.session.message import Message
from dragoman.session.toolcall import ToolCall
from dragoman.session.transcript import MERGE_AFTER, Compaction, Transcript


def chunk(text: str, id: str | None = None, kind: Any = AgentMessageChunk) -> Any:
    chunk = kind(content=TextContent(text=text))
    if id is not None:
        chunk.message_id = id
    return chunk


def taken_down(*updates: Any) -> Transcript:
    minutes = Transcript()
    for update in updates:
        minutes.add(update)
    return minutes


def picture(minutes: Transcript) -> list[tuple[str, str]]:
    return [
        (entry.role, entry.text) if isinstance(entry, Message) else (type(entry).__name__, entry.tool_call_id)
        for entry in minutes
    ]


def test_chunks_of_one_role_are_one_message() -> None:
    minutes = taken_down(
        chunk("so", kind=AgentThoughtChunk),
        chunk("me", kind=AgentThoughtChunk),
        chunk("He"),
        chunk("llo"),
    )
    assert picture(minutes) == [("thought", "some"), ("agent", "Hello")]


def test_a_tool_call_ends_a_message_and_its_updates_do_not() -> None:
    minutes = taken_down(
        chunk("before"),
        ToolCallStart(tool_call_id="c", title="Read"),
        chunk("after"),
        ToolCallProgress(tool_call_id="c", status="completed"),
        chunk(" it"),
    )
    assert picture(minutes) == [("agent", "before"), ("ToolCall", "c"), ("agent", "after it")]
    assert minutes.entries[1].status == "completed"
    assert minutes.entries[1] is minutes.tool_calls["c"]


def test_chunks_with_an_id_find_their_message_wherever_it_stands() -> None:
    minutes = taken_down(
        chunk("one", "a"),
        chunk("two", "b"),
        ToolCallStart(tool_call_id="c", title="t"),
        chunk(" more", "a"),
        chunk("x"),
    )
    assert picture(minutes) == [("agent", "one morex"), ("agent", "two"), ("ToolCall", "c")]
    assert [message.message_id for message in minutes.messages] == ["a", "b"]


def test_an_id_used_again_for_another_call_is_another_entry() -> None:
    minutes = taken_down(
        ToolCallStart(tool_call_id="c", title="first", status="completed"),
        ToolCallStart(tool_call_id="c", title="second"),
    )
    assert [entry.title for entry in minutes] == ["first", "second"]
    assert minutes.tool_calls["c"].title == "second"


def test_a_permission_request_adds_an_unannounced_tool_call() -> None:
    minutes = Transcript()
    minutes.add_permission_call(ToolCallUpdate(tool_call_id="c", title="Write"))
    minutes.add(ToolCallProgress(tool_call_id="c", status="completed"))
    (call,) = minutes.entries
    assert isinstance(call, ToolCall)
    assert (call.title, call.status) == ("Write", "completed")


def test_content_that_is_no_plain_text_keeps_its_place_in_the_message() -> None:
    image = AgentMessageChunk(content=ImageContent(data="AA==", mime_type="image/png"))
    (message,) = taken_down(chunk("a"), chunk("b"), image, chunk("c")).messages
    assert message.content == [TextContent(text="ab"), image.content, TextContent(text="c")]
    assert message.text == "abc"


def test_an_echoed_prompt_appears_once() -> None:
    minutes = Transcript()
    minutes.add_prompt([TextContent(text="hello there")])
    assert picture(minutes) == [("user", "hello there")]
    minutes.add(chunk("hello ", "u1", UserMessageChunk))
    minutes.add(chunk("there", "u1", UserMessageChunk))
    minutes.add(chunk("Hi"))
    assert picture(minutes) == [("user", "hello there"), ("agent", "Hi")]


def test_another_user_message_is_no_echo_of_the_prompt() -> None:
    minutes = Transcript()
    minutes.add_prompt([TextContent(text="hello there")])
    minutes.add(chunk("another thing", kind=UserMessageChunk))
    minutes.add_prompt([TextContent(text="and then")])
    assert picture(minutes) == [("user", "hello there"), ("user", "another thing"), ("user", "and then")]


def test_state_updates_replace_the_current_value() -> None:
    minutes = Transcript()
    minutes.modes = SessionModeState(current_mode_id="ask", available_modes=[SessionMode(id="ask", name="Ask")])
    option = SessionConfigOption(id="o", name="O", type="boolean", current_value=True)
    for update in (
        Plan(entries=[PlanEntry(content="old", priority="low", status="pending")]),
        Plan(entries=[PlanEntry(content="new", priority="low", status="pending")]),
        PlanUpdate(plan=PlanItems(plan_id="p", entries=[])),
        PlanUpdate(plan=PlanMarkdown(plan_id="q", content="# q")),
        PlanRemoved(plan_id="p"),
        UsageUpdate(used=1, size=10),
        SessionInfoUpdate(title="A title"),
        SessionInfoUpdate(updated_at="2026-01-01T00:00:00Z"),
        CurrentModeUpdate(current_mode_id="code"),
        ConfigOptionUpdate(config_options=[option]),
    ):
        minutes.add(update)
    assert [entry.content for entry in minutes.plan] == ["new"]
    assert list(minutes.plans) == ["q"]
    assert minutes.usage == UsageUpdate(used=1, size=10)
    assert (minutes.title, minutes.mode, minutes.options) == ("A title", "code", [option])
    assert len(minutes) == 0


def test_a_title_can_be_removed() -> None:
    assert taken_down(SessionInfoUpdate(title="A"), SessionInfoUpdate(title=None)).title is None


def test_unknown_updates_are_kept_without_ending_a_message_and_notices_are_dropped() -> None:
    odd = Unknown("heartbeat", {"sessionUpdate": "heartbeat"})
    minutes = taken_down(chunk("a"), odd, Notice(severity="info", title="n"), chunk("b"))
    message, kept = minutes.entries
    assert (message.text, kept) == ("ab", odd)


def test_a_compaction_is_an_entry_where_it_happened() -> None:
    minutes = taken_down(
        chunk("long ago"),
        CompactionUpdate(compaction_id="k", status="in_progress"),
        CompactionSummaryChunk(compaction_id="k", content=TextContent(text="short")),
        CompactionUpdate(compaction_id="k", status="completed"),
        chunk("now"),
    )
    before, compaction, after = minutes.entries
    assert (before.text, after.text) == ("long ago", "now")
    assert compaction == Compaction(compaction_id="k", status="completed", summary=[TextContent(text="short")])


@pytest.mark.parametrize("count", [1, MERGE_AFTER - 1, MERGE_AFTER, 5 * MERGE_AFTER + 3])
def test_a_long_stream_is_merged_as_it_grows(count: int) -> None:
    minutes = taken_down(*(chunk(f"{number} ") for number in range(count)))
    assert len(minutes.unmerged) < MERGE_AFTER
    (message,) = minutes.messages
    assert message.text == "".join(f"{number} " for number in range(count))
    assert len(message._parts) <= 2 * (count // MERGE_AFTER + 1)
