"""A transcript of the updates that only v2 agents send: whole messages, patches, added contents, terminals."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from dragoman.schema import update as updates
from dragoman.schema.base import encode
from dragoman.schema.content import TextContent
from dragoman.schema.terminal import TerminalExitStatus
from dragoman.schema.toolcall import AgentTerminalEmbed, ToolCallBlock
from dragoman.session.history import History
from dragoman.session.transcript import MAX_TERMINALS, Transcript
from dragoman.store.contract import Entry, RawEntry
from dragoman.store.replay import build_transcript, render_markdown
from dragoman.store.session_state import SessionState


def text(words: str) -> TextContent:
    return TextContent(text=words)


def chunk(words: str, id: str = "m") -> Any:
    return updates.AgentMessageChunk(content=text(words), message_id=id)


def whole(*words: str, id: str = "m") -> Any:
    return updates.AgentMessage(message_id=id, content=[text(each) for each in words])


def transcript_of(*told: Any) -> Transcript:
    transcript = Transcript()
    for update in told:
        transcript.add(update)
    return transcript


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([whole("all")], ["all"]),
        ([chunk("a"), chunk("b"), whole("ab", "c")], ["abc"]),
        ([chunk("draft"), whole("final")], ["final"]),
        ([whole("a"), chunk("b")], ["ab"]),
        ([chunk("draft"), whole(), chunk("final")], ["final"]),
        ([chunk("kept"), updates.AgentMessage(message_id="m")], ["kept"]),
        ([whole("one"), whole("two", id="n"), whole("ONE")], ["ONE", "two"]),
        ([updates.AgentMessage(message_id="m")], []),
        ([chunk("x"), updates.AgentMessage(message_id="m", content=None)], [""]),
    ],
)
def test_a_whole_message_replaces_what_was_said(told: list[Any], expected: list[str]) -> None:
    assert [message.text for message in transcript_of(*told).messages] == expected


def test_the_echo_of_a_prompt_as_a_whole_message_is_one_message() -> None:
    transcript = Transcript()
    transcript.add_prompt([text("hello")])
    transcript.add(updates.UserMessage(message_id="u", content=[text("hello")]))
    transcript.add(whole("hi"))
    assert [(each.role, each.message_id, each.text) for each in transcript.messages] == [
        ("user", "u", "hello"),
        ("agent", "m", "hi"),
    ]


def test_a_tool_call_starts_with_any_update_and_gathers_its_content() -> None:
    first, second = ToolCallBlock(content=text("one")), AgentTerminalEmbed(terminal_id="t")
    given: list[Any] = [first]
    transcript = transcript_of(
        updates.ToolCallProgress(tool_call_id="c", title="Run", raw_input={"x": 1}, content=given),
        updates.ToolCallContentChunk(tool_call_id="c", content=second),
        updates.ToolCallContentChunk(tool_call_id="d", content=first),
        updates.ToolCallProgress(tool_call_id="c", status="completed", clear=["rawInput", "title", "future"]),
    )
    call = transcript.tool_calls["c"]
    assert (call.content, call.status, call.raw_input, call.title) == ([first, second], "completed", None, "")
    assert transcript.tool_calls["d"].content == [first]
    assert transcript.started_calls == 2
    assert given == [first]
    transcript.add(updates.ToolCallProgress(tool_call_id="c", clear=["content"]))
    assert call.content == []


def test_terminals_of_the_agent_keep_command_output_and_exit() -> None:
    def output(data: bytes, id: str = "t") -> Any:
        return updates.TerminalOutputChunk(terminal_id=id, data=base64.b64encode(data).decode())

    transcript = transcript_of(
        output(b"early "),
        updates.TerminalUpdate(terminal_id="t", command="ls"),
        output(b"\xe2"),
        output(b"\x82\xac"),
        updates.TerminalOutputChunk(terminal_id="t", data="abc"),
        updates.TerminalUpdate(terminal_id="t", exit_status=TerminalExitStatus(exit_code=0)),
    )
    terminal = transcript.terminals["t"]
    assert (terminal.command, terminal.text) == ("ls", "early €")
    assert terminal.exit_status is not None
    snapshot = updates.TerminalOutput(data=base64.b64encode(b"all").decode())
    transcript.add(updates.TerminalUpdate(terminal_id="t", output=snapshot))
    assert (terminal.command, terminal.text) == ("ls", "all")
    assert transcript.entries == []
    for number in range(MAX_TERMINALS):
        transcript.add(output(b"x", str(number)))
    assert len(transcript.terminals) == MAX_TERMINALS


def test_states_are_in_no_transcript_and_no_history() -> None:
    state = updates.SessionStateUpdate(state="running")
    history = History()
    history.add(state)
    assert transcript_of(state).entries == list(history) == []


def test_a_log_with_these_updates_is_exported_and_known_as_wide() -> None:
    told = [
        updates.SessionStateUpdate(state="running"),
        chunk("dra"),
        whole("final"),
        updates.ToolCallProgress(tool_call_id="c", title="Run"),
        updates.ToolCallProgress(tool_call_id="c", status="completed"),
    ]
    lines = [
        encode(Entry(seq=seq, time="", kind="update", actor="agent", body=update)) for seq, update in enumerate(told, 1)
    ]
    assert render_markdown(build_transcript(lines)) == "## Agent\n\nfinal\n\n- tool: Run (completed)\n"
    for update, is_wide in ((told[0], True), (told[1], False), (told[2], True)):
        state = SessionState()
        state.apply(RawEntry(1, "update", msgspec.Raw(encode(update)), "agent"))
        assert state.is_wide is is_wide
