"""A connection that narrows what only v2 has, on a real connection with a real clock."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialect.narrow.emulator import NarrowingEmulator
from dragoman.schema.content import TextContent
from dragoman.schema.prompt import PromptResult
from dragoman.schema.toolcall import ToolCallBlock
from dragoman.schema.update import AgentMessage, ToolCallContentChunk, ToolCallProgress, UpdateParams
from tests.engine.raw_peer import Talk, talking

PROMPT: dict[str, dict[str, Any]] = {
    "v1": {"sessionId": "s", "prompt": [{"type": "text", "text": "hi"}]},
    "2025.1": {"session_id": "s", "content": [{"type": "text", "text": "hi"}]},
}


def notify(talk: Talk, update: Any) -> None:
    talk.connection.notify("session/update", UpdateParams(session_id="s", update=update))


@pytest.mark.parametrize("dialect", PROMPT)
async def test_the_client_gets_what_is_collected_before_the_answer_of_its_prompt(dialect: str) -> None:
    def answer(_: Any) -> PromptResult:
        notify(talk, AgentMessage(message_id="m", content=[TextContent(text="hello")]))
        notify(talk, ToolCallProgress(tool_call_id="c", title="Read"))
        for word in ("one", "two"):
            item = ToolCallBlock(content=TextContent(text=word))
            notify(talk, ToolCallContentChunk(tool_call_id="c", content=item))
        return PromptResult(stop_reason="end_turn")

    async with talking({"session/prompt": answer}, dialect=dialect) as talk:
        talk.connection.narrow_updates()
        await talk.peer.request(1, "session/prompt", PROMPT[dialect])
        *updates, last = talk.peer.received
        assert len(updates) == 3
        assert "hello" in str(updates[0])
        assert "one" in str(updates[-1])
        assert "two" in str(updates[-1])
        assert last["id"] == 1


async def test_what_is_collected_outside_of_a_turn_comes_by_itself() -> None:
    async with talking() as talk:
        talk.connection.narrow_updates()
        notify(talk, ToolCallProgress(tool_call_id="c", title="Read"))
        notify(talk, ToolCallContentChunk(tool_call_id="c", content=ToolCallBlock(content=TextContent(text="one"))))
        assert (await talk.peer.receive())["params"]["update"]["sessionUpdate"] == "tool_call"
        later = (await talk.peer.receive())["params"]["update"]
        assert later["content"] == [{"type": "content", "content": {"type": "text", "text": "one"}}]


async def test_capabilities_that_are_known_already_count() -> None:
    capabilities = {"plan": {}, "_meta": {"terminal_output": True}}
    async with talking({"initialize": lambda _: {"protocolVersion": 1}}) as talk:
        await talk.peer.request(1, "initialize", {"protocolVersion": 1, "clientCapabilities": capabilities})
        talk.connection.narrow_updates()
        emulator = talk.connection.peer.emulator
        assert isinstance(emulator, NarrowingEmulator)
        assert emulator.narrowing.view.plans
        assert emulator.narrowing.view.output_key == "terminal_output"
        talk.connection.narrow_updates()
        assert talk.connection.peer.emulator is emulator
        assert talk.connection.sender.emulation is not None
        assert talk.connection.sender.emulation.emulator is emulator


async def test_other_connections_have_no_emulator_for_it() -> None:
    async with talking() as talk:
        assert talk.connection.sender.emulation is None
        assert talk.connection.peer.emulator is None
