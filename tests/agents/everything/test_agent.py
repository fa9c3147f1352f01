"""The everything agent does what its table of commands says, on both sides of a pair in memory."""

from __future__ import annotations

import asyncio
import base64
import io
import wave
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman import ClientSession, Kind, ProtocolError, RemoteAgent, WorkspaceAccess, WorkspaceUse
from dragoman.agents.everything.agent import COMMANDS, everything
from dragoman.agents.everything.samples import chunk
from dragoman.errors import KINDS
from dragoman.schema.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
)
from dragoman.schema.elicitation import CreateElicitationParams
from dragoman.schema.initialize import ClientCapabilities
from dragoman.schema.permission import RequestPermissionParams
from dragoman.schema.toolcall import Diff, TerminalEmbed, ToolCallBlock
from dragoman.schema.update import (
    AgentMessageChunk,
    AgentThoughtChunk,
    AvailableCommandsUpdate,
    CompactionUpdate,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    Notice,
    Plan,
    SessionInfoUpdate,
    ToolCallProgress,
    ToolCallStart,
    UsageUpdate,
)
from dragoman.testing import ScriptedPeer, connect_in_memory
from dragoman.transport.memory import memory_pair

TIMEOUT = 90.0  # a test that waits longer than this for one turn has failed


class Said:
    """Everything an agent said in one turn."""

    def __init__(self, updates: list[Any], stop_reason: str | None, usage: Any) -> None:
        self.updates = updates
        self.stop_reason = stop_reason
        self.usage = usage

    @property
    def text(self) -> str:
        return "".join(
            update.content.text
            for update in self.updates
            if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContent)
        )

    def kinds(self) -> list[str]:
        return [type(update).__name__ for update in self.updates]

    def only(self, kind: type) -> list[Any]:
        return [update for update in self.updates if isinstance(update, kind)]


async def prompt(session: ClientSession, text: str | list[ContentBlock]) -> Said:
    async with asyncio.timeout(TIMEOUT):
        async with session.prompt(text) as turn:
            # The commands are sent right after the session is opened, which may be during the first turn.
            updates = [update async for update in turn if not isinstance(update, AvailableCommandsUpdate)]
    return Said(updates, turn.stop_reason, turn.usage)


@asynccontextmanager
async def talking(cwd: Path, **options: Any) -> AsyncIterator[tuple[RemoteAgent, ClientSession]]:
    options = {"permission": "allow", "workspace": WorkspaceAccess(), **options}
    async with connect_in_memory(everything(), **options) as agent:
        yield agent, await agent.open_session(str(cwd))


async def say(cwd: Path, text: str, **options: Any) -> Said:
    async with talking(cwd, **options) as (_, session):
        return await prompt(session, text)


async def test_it_announces_its_table_and_help_lists_it(tmp_path: Path) -> None:
    async with talking(tmp_path) as (_, session):
        answer = await prompt(session, "/help")
        announced = {command.name: command for command in session.commands}
        for command in COMMANDS:
            assert announced[command.name].description == command.description
            assert (announced[command.name].input or None) is None or announced[command.name].input.hint == command.hint  # type: ignore[union-attr]
            assert f"/{command.name}" in answer.text
        assert len(announced) == len(COMMANDS)


async def test_plain_text_is_echoed_as_markdown_in_several_chunks(tmp_path: Path) -> None:
    answer = await say(tmp_path, "a prompt of more than four words\n\nand a second line")
    assert "> a prompt of more than four words\n> \n> and a second line\n" in answer.text
    assert answer.text.startswith("**You said:**")
    assert not [update for update in answer.updates if getattr(update, "content", None) == TextContent(text="")]
    assert len(answer.updates) > 5


async def test_a_path_is_no_command_and_an_unknown_command_is_explained(tmp_path: Path) -> None:
    assert "> /usr/bin is a folder" in (await say(tmp_path, "/usr/bin is a folder")).text
    assert "`/help` lists" in (await say(tmp_path, "/nosuch")).text


async def test_a_command_is_one_also_with_a_file_before_it(tmp_path: Path) -> None:
    file = EmbeddedResource(resource=ResourceContents(uri="file:///a.md", text="what was said before"))
    async with talking(tmp_path) as (_, session):
        answer = await prompt(session, [file, TextContent(text="/echo hello")])
    assert answer.text == "hello"


@pytest.mark.parametrize(
    "text", ["/write", "/edit a b", "/run", "/stream", "/stream x", "/slow -1", "/option a", "/mode"]
)
async def test_a_command_called_wrongly_says_how_it_is_called(tmp_path: Path, text: str) -> None:
    answer = await say(tmp_path, text)
    assert answer.text.startswith("Call it like this: `/")
    assert answer.stop_reason == "end_turn"


async def test_echo_gives_the_text_back_exactly(tmp_path: Path) -> None:
    assert (await say(tmp_path, "/echo  two  spaces\nand a line ")).text == " two  spaces\nand a line "


async def test_think_sends_a_thought_before_the_answer(tmp_path: Path) -> None:
    answer = await say(tmp_path, "/think hard")
    assert answer.kinds() == ["AgentThoughtChunk", "AgentMessageChunk"]
    assert answer.updates[0].content.text == "hard"


async def test_the_plan_walks_through_its_statuses(tmp_path: Path) -> None:
    plans = (await say(tmp_path, "/plan")).only(Plan)
    assert [[entry.status[0] for entry in plan.entries] for plan in plans] == [
        ["i", "p", "p"],
        ["c", "i", "p"],
        ["c", "c", "i"],
        ["c", "c", "c"],
    ]


# --- files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workspace", [WorkspaceAccess(), None], ids=["the client's files", "its own files"])
async def test_read_shows_the_file_in_a_tool_call(tmp_path: Path, workspace: WorkspaceAccess | None) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    answer = await say(tmp_path, "/read a.txt", workspace=workspace)
    start, end = answer.only(ToolCallStart)[0], answer.only(ToolCallProgress)[-1]
    assert (start.kind, start.status, start.locations[0].path) == ("read", "pending", str(tmp_path / "a.txt"))
    assert end.status == "completed"
    assert [block.content.text for block in answer.only(ToolCallProgress)[0].content] == ["one\ntwo\n"]
    assert "2 lines" in answer.text


async def test_a_file_that_is_not_there_fails_the_tool_call_but_not_the_turn(tmp_path: Path) -> None:
    answer = await say(tmp_path, "/read nothing.txt")
    assert answer.only(ToolCallProgress)[-1].status == "failed"
    assert "does not exist" in answer.text
    assert answer.stop_reason == "end_turn"


async def test_its_own_files_are_confined_to_the_session(tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("secret")
    inside = tmp_path / "inside"
    inside.mkdir()
    answer = await say(inside, "/read ../outside.txt", workspace=None)
    assert "That did not work" in answer.text
    assert "secret" not in repr(answer.updates)


class Asked:
    """Answers permission questions, and remembers them."""

    def __init__(self, answer: str | None) -> None:
        self.questions: list[RequestPermissionParams] = []
        self._answer = answer

    def __call__(self, params: RequestPermissionParams) -> str | None:
        self.questions.append(params)
        return self._answer


@pytest.mark.parametrize("workspace", [WorkspaceAccess(), None], ids=["the client's files", "its own files"])
async def test_write_asks_with_the_change_and_then_writes(tmp_path: Path, workspace: WorkspaceAccess | None) -> None:
    asked = Asked("allow_once")
    answer = await say(tmp_path, "/write new.txt some text", permission=asked, workspace=workspace)
    assert (tmp_path / "new.txt").read_text() == "some text"
    (question,) = asked.questions
    assert question.tool_call.kind == "edit"
    assert question.tool_call.content == [Diff(path=str(tmp_path / "new.txt"), old_text=None, new_text="some text")]
    assert answer.only(ToolCallProgress)[-1].status == "completed"
    assert "Created" in answer.text


async def test_a_refused_write_writes_nothing(tmp_path: Path) -> None:
    answer = await say(tmp_path, "/write new.txt text", permission="deny")
    assert not (tmp_path / "new.txt").exists()
    assert answer.only(ToolCallProgress)[-1].status == "failed"  # v1 has no word for denied
    assert answer.stop_reason == "end_turn"


async def test_edit_reads_asks_and_writes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old words, old ways")
    asked = Asked("allow_once")
    await say(tmp_path, "/edit a.txt 'old words' 'new words'", permission=asked)
    assert (tmp_path / "a.txt").read_text() == "new words, old ways"
    (change,) = asked.questions[0].tool_call.content or []
    assert isinstance(change, Diff)
    assert (change.old_text, change.new_text) == ("old words, old ways", "new words, old ways")


async def test_edit_says_when_the_old_text_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    assert "does not contain 'other'" in (await say(tmp_path, "/edit a.txt other new")).text


async def test_in_the_mode_code_it_does_not_ask(tmp_path: Path) -> None:
    asked = Asked("allow_once")
    async with talking(tmp_path, permission=asked) as (_, session):
        await session.set_mode("code")
        await prompt(session, "/write a.txt text")
    assert asked.questions == []
    assert (tmp_path / "a.txt").read_text() == "text"


# --- terminals ------------------------------------------------------------------------------------------------


async def test_run_shows_the_clients_terminal(tmp_path: Path) -> None:
    wanted: list[WorkspaceUse] = []

    def approve(question: WorkspaceUse) -> bool:
        wanted.append(question)
        return True

    lending = WorkspaceAccess(approve=approve)
    answer = await say(tmp_path, "/run echo hello", workspace=lending)
    (shown,) = [
        block
        for update in answer.only(ToolCallProgress)
        for block in update.content or ()
        if isinstance(block, TerminalEmbed)
    ]
    terminal = lending.find_terminal(shown.terminal_id)
    assert terminal is not None
    assert terminal.output().text == "hello\n"
    assert [(question.operation, question.resource) for question in wanted] == [("execute", "echo hello")]
    assert "exit code 0" in answer.text
    assert answer.only(ToolCallStart)[0].kind == "execute"


async def test_run_uses_its_own_terminal_if_the_client_offers_none(tmp_path: Path) -> None:
    answer = await say(tmp_path, "/run echo one; exit 3", workspace=None)
    texts = [
        block.content.text  # type: ignore[union-attr]
        for update in answer.only(ToolCallProgress)
        for block in update.content or ()
        if isinstance(block, ToolCallBlock)
    ]
    assert texts == ["one\n"]
    assert "exit code 3" in answer.text
    assert answer.only(ToolCallProgress)[-1].status == "failed"


async def test_a_refused_command_is_not_run(tmp_path: Path) -> None:
    answer = await say(tmp_path, "/run touch made", permission="deny")
    assert not (tmp_path / "made").exists()
    assert "did not run" in answer.text


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("allow_always", "`allow_always`, which allows"),
        ("reject_once", "`reject_once`, which refuses"),
        (None, "without an answer"),
    ],
)
async def test_ask_says_what_was_answered(tmp_path: Path, answer: str | None, words: str) -> None:
    assert words in (await say(tmp_path, "/ask", permission=Asked(answer))).text


# --- streams and time -----------------------------------------------------------------------------------------


async def test_stream_sends_different_chunks_of_the_wanted_size(tmp_path: Path) -> None:
    answer = await say(tmp_path, "/stream 30 50")
    texts = [update.content.text for update in answer.only(AgentMessageChunk)]
    assert texts == [chunk(number, 50) for number in range(30)]
    assert {len(text) for text in texts} == {50}
    assert len(set(texts)) == 30
    assert texts[17].startswith("chunk 00017 ")


async def test_a_slow_turn_is_cancelled_at_once(tmp_path: Path) -> None:
    async with talking(tmp_path) as (_, session), asyncio.timeout(TIMEOUT):
        async with session.prompt("/slow 1000") as turn:
            updates: list[Any] = []
            async for update in turn:
                updates.append(update)
                if isinstance(update, ToolCallProgress) and update.status == "in_progress":
                    turn.cancel()
    assert turn.stop_reason == "cancelled"
    assert updates[-1].status == "failed"  # v1 has no word for a cancelled call
    assert len([update for update in updates if not isinstance(update, AvailableCommandsUpdate)]) == 3


async def test_slow_waits(tmp_path: Path) -> None:
    assert (await say(tmp_path, "/slow 0.01")).text == "I waited 0.01 seconds."


# --- content --------------------------------------------------------------------------------------------------


async def test_the_picture_is_a_png(tmp_path: Path) -> None:
    block = (await say(tmp_path, "/image")).only(AgentMessageChunk)[-1].content
    assert isinstance(block, ImageContent)
    data = base64.b64decode(block.data)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert data.endswith(b"IEND\xaeB`\x82")
    body = data[data.index(b"IDAT") + 4 : data.index(b"IEND") - 8]
    assert len(zlib.decompress(body)) == 16 * (1 + 16 * 3)


async def test_the_sound_is_a_wav(tmp_path: Path) -> None:
    block = (await say(tmp_path, "/audio")).only(AgentMessageChunk)[-1].content
    assert isinstance(block, AudioContent)
    with wave.open(io.BytesIO(base64.b64decode(block.data))) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getnframes()) == (8000, 1, 2000)


async def test_resources_come_as_text_bytes_and_link(tmp_path: Path) -> None:
    answer = await say(tmp_path, "/resource")
    _, text, blob, link = (update.content for update in answer.only(AgentMessageChunk))
    assert isinstance(text, EmbeddedResource)
    assert text.resource.form == "text"
    assert isinstance(blob, EmbeddedResource)
    assert blob.resource.form == "blob"
    assert isinstance(link, ResourceLink)
    assert link.uri == f"file://{tmp_path}"


# --- beside the conversation ----------------------------------------------------------------------------------


async def test_a_form_is_asked_for_and_its_values_are_said(tmp_path: Path) -> None:
    values = {"name": "Ada", "age": 36, "height": 1.6, "awake": True, "color": "green"}
    answer = await say(tmp_path, "/form", elicit={"form": lambda _: values})
    assert answer.text == "".join(f"- {name}: `{value}`\n" for name, value in values.items())
    assert (await say(tmp_path, "/form", elicit={"form": lambda _: False})).text == "You declined."
    assert "does not support elicitation" in (await say(tmp_path, "/form")).text


async def test_a_link_is_shown_and_done_with(tmp_path: Path) -> None:
    shown: list[str] = []

    def agree(question: CreateElicitationParams) -> bool:
        shown.append(str(question.url))
        return True

    answer = await say(tmp_path, "/link", elicit={"url": agree})
    assert answer.text == "You were there, I take it."
    assert shown[0].startswith("https://example.org/everything?session=")


async def test_a_notice_and_a_compaction_are_told_to_clients_that_show_them(tmp_path: Path) -> None:
    (notice,) = (await say(tmp_path, "/notice mind the step")).only(Notice)
    assert (notice.title, notice.severity) == ("mind the step", "info")
    answer = await say(tmp_path, "/compact")
    assert [update.status for update in answer.only(CompactionUpdate)] == ["in_progress", "completed"]
    assert not (await say(tmp_path, "/compact", capabilities=ClientCapabilities())).only(CompactionUpdate)


async def test_the_merged_prompt_has_what_it_links_to(tmp_path: Path) -> None:
    (tmp_path / "poem.txt").write_text("one\ntwo\n")
    async with talking(tmp_path) as (_, session):
        link = ResourceLink(uri=f"file://{tmp_path}/poem.txt#L2", name="poem.txt")
        text = await session.ask([TextContent(text="/merge"), link])
        assert text == f"/merge\n\n[context: {link.uri}]\ntwo\n[end of context]"


# --- the session ----------------------------------------------------------------------------------------------


async def test_title_names_the_session_and_the_list_shows_it(tmp_path: Path) -> None:
    async with talking(tmp_path) as (agent, session):
        answer = await prompt(session, "/title A better name")
        assert answer.only(SessionInfoUpdate)[0].title == "A better name"
        assert session.title == "A better name"
        assert (await agent.list_sessions()).sessions[0].title == "A better name"


async def test_usage_is_told_during_and_after_the_turn(tmp_path: Path) -> None:
    answer = await say(tmp_path, "/usage")
    (update,) = answer.only(UsageUpdate)
    assert (update.used, update.size, update.cost.currency) == (1500, 8000, "USD")
    assert answer.usage.total_tokens == 15


async def test_mode_changes_the_mode_and_tells_it(tmp_path: Path) -> None:
    async with talking(tmp_path) as (_, session):
        assert session.modes is not None
        assert session.modes.current_mode_id == "ask"
        answer = await prompt(session, "/mode code")
        assert answer.only(CurrentModeUpdate)[0].current_mode_id == "code"
        assert session.modes.current_mode_id == "code"
        assert "unknown mode 'x'" in (await prompt(session, "/mode x")).text


async def test_options_change_what_it_does(tmp_path: Path) -> None:
    async with talking(tmp_path) as (_, session):
        answer = await prompt(session, "/option model loud")
        assert [option.current_value for option in answer.only(ConfigOptionUpdate)[0].config_options] == ["loud", False]
        assert "> HELLO" in (await prompt(session, "hello")).text
        await session.set_option("verbose", True)
        assert (await prompt(session, "hello")).only(AgentThoughtChunk)
        await prompt(session, "/option verbose false")
        assert not (await prompt(session, "hello")).only(AgentThoughtChunk)
        assert "Call it like this" in (await prompt(session, "/option verbose maybe")).text


# --- faults ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_error_fails_with_the_wanted_kind(tmp_path: Path, kind: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        await say(tmp_path, f"/error {kind}")
    assert caught.value.kind == kind


@pytest.mark.parametrize("reason", ["refusal", "max_tokens", "max_turn_requests"])
async def test_error_stops_for_the_wanted_reason(tmp_path: Path, reason: str) -> None:
    assert (await say(tmp_path, f"/error {reason}")).stop_reason == reason


async def test_the_stop_reason_error_is_an_error_in_v1(tmp_path: Path) -> None:
    with pytest.raises(ProtocolError) as caught:
        await say(tmp_path, "/error error")
    assert caught.value.kind == Kind.INTERNAL_ERROR


async def test_an_unknown_error_lists_those_there_are(tmp_path: Path) -> None:
    assert "max_tokens" in (await say(tmp_path, "/error nonsense")).text


async def test_noise_is_reported_and_survived(tmp_path: Path) -> None:
    reports: list[str] = []
    answer = await say(tmp_path, "/noise", report=reports.append)
    assert "noise" in answer.text
    assert any("not a message" in report for report in reports)


# --- on the wire ----------------------------------------------------------------------------------------------


@asynccontextmanager
async def by_hand(cwd: Path, dialect: str = "v1") -> AsyncIterator[tuple[ScriptedPeer, str]]:
    """A client that is only frames, with an open session."""
    ours, theirs = memory_pair()
    connection = everything(dialect).start_connection(theirs)
    peer = ScriptedPeer(ours)
    try:
        info = {"name": "hand", "version": "1"}
        hello = {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": info}
        await peer.request(1, "initialize", hello)
        opened = await peer.request(2, "session/new", {"cwd": str(cwd), "mcpServers": []})
        await peer.expect(method="session/update")  # the commands
        yield peer, opened["result"]["sessionId"]
    finally:
        await connection.close()


def ask(session: str, text: str) -> dict[str, Any]:
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}


async def test_late_updates_come_after_the_answer(tmp_path: Path) -> None:
    async with by_hand(tmp_path) as (peer, session):
        peer.send({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": ask(session, "/late")})
        frames = [await peer.receive() for _ in range(5)]
    kinds = [frame.get("params", {}).get("update", {}).get("sessionUpdate", "answer") for frame in frames]
    assert kinds == ["agent_message_chunk", "answer", "agent_message_chunk", "usage_update", "session_info_update"]


@pytest.mark.parametrize(
    "dialect",
    [
        pytest.param("v1", marks=pytest.mark.item("001-05")),
        pytest.param("banjo", marks=pytest.mark.item("003-08", "003-17")),
    ],
)
async def test_a_cancel_is_not_answered_but_the_prompt_is(tmp_path: Path, dialect: str) -> None:
    async with by_hand(tmp_path, dialect) as (peer, session):
        peer.send({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": ask(session, "/slow 1000")})
        await peer.expect(params={"update": {"sessionUpdate": "tool_call"}})
        await peer.expect(params={"update": {"status": "in_progress"}})
        peer.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})
        await peer.expect(params={"update": {"status": "failed"}})
        answer = await peer.expect(id=3)
        assert answer == {"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "cancelled"}}
        # Had the cancel been answered, that would come before this.
        assert (await peer.request(4, "session/list", {}))["result"]["sessions"][0]["sessionId"] == session
        assert "method" not in peer.received[-1]
        assert [frame.get("id") for frame in peer.received if "method" not in frame] == [1, 2, 3, 4]


async def test_early_updates_come_before_the_next_session_is_answered(tmp_path: Path) -> None:
    async with by_hand(tmp_path) as (peer, session):
        peer.send({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": ask(session, "/early")})
        await peer.expect(method="session/update")
        await peer.expect(id=3)
        peer.send(
            {"jsonrpc": "2.0", "id": 4, "method": "session/new", "params": {"cwd": str(tmp_path), "mcpServers": []}}
        )
        early = await peer.expect(method="session/update")
        answer = await peer.expect(id=4)
        assert early["params"]["sessionId"] == answer["result"]["sessionId"] != session


async def test_a_client_keeps_early_updates(tmp_path: Path) -> None:
    async with talking(tmp_path) as (agent, session):
        await prompt(session, "/early")
        other = await agent.open_session(str(tmp_path))
        assert other.updates_outside_turns[0].content.text == "This came before the session was opened."


async def test_load_tells_the_history_again(tmp_path: Path) -> None:
    async with talking(tmp_path) as (agent, session):
        await prompt(session, "/think about it")
        again = await agent.load_session(session.id, str(tmp_path))
        kinds = [
            type(update).__name__
            for update in again.updates_outside_turns
            if not isinstance(update, AvailableCommandsUpdate)
        ]
        assert kinds == ["UserMessageChunk", "AgentThoughtChunk", "AgentMessageChunk"]
