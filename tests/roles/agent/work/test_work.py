"""What only v2 has, in the library: the agent's functions, the client's functions, and what a v1 client sees of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dragoman import Agent, ClientSession, Kind, ProtocolError, RemoteAgent, Tool, Turn
from dragoman.schema.content import TextContent
from dragoman.schema.update import (
    AgentMessage,
    AgentMessageChunk,
    SessionStateUpdate,
    TerminalOutputChunk,
    TerminalUpdate,
    ToolCallContentChunk,
    ToolCallProgress,
)
from dragoman.testing import connect_in_memory

V1, V2 = {"version": 1}, {"version": 2}


def agent_of(work: Any) -> Agent:
    """Return an agent that answers prompts with this function."""
    agent = Agent("worker")
    agent.prompt(work)
    return agent


@asynccontextmanager
async def connected(agent: Agent, tmp_path: Any, version: int = 2) -> AsyncIterator[tuple[RemoteAgent, ClientSession]]:
    async with connect_in_memory(agent, version=version, cwd=str(tmp_path), permission="allow") as remote:
        yield remote, await remote.open_session(cwd=str(tmp_path))


async def updates_of(session: ClientSession, prompt: str = "go") -> list[Any]:
    async with session.prompt(prompt) as turn:
        return [update async for update in turn]


async def wait_for(session: ClientSession, matches: Any) -> Any:
    """Wait for an update outside turns."""
    async with asyncio.timeout(60):
        while True:
            for update in session.updates_outside_turns:
                if matches(update):
                    return update
            await asyncio.sleep(0.001)


def states(updates: Any) -> list[str]:
    return [update.state for update in updates if isinstance(update, SessionStateUpdate)]


# --- messages and tool calls ------------------------------------------------------------------------------------------


async def rewrite(turn: Turn) -> None:
    async with turn.message() as message:
        await message.say("wrong")
        await message.replace("right")
    async with turn.message() as message:
        await message.say("gone")
        await message.clear()


async def test_a_message_is_replaced_and_taken_back(tmp_path: Any) -> None:
    async with connected(agent_of(rewrite), tmp_path) as (_, session):
        updates = await updates_of(session)
        wholes = [update for update in updates if isinstance(update, AgentMessage)]
        assert [[getattr(block, "text", "") for block in update.content or ()] for update in wholes] == [["right"], []]
        assert [message.text for message in session.transcript.messages if message.role == "agent"] == ["right", ""]


async def test_a_v1_client_gets_the_new_text_as_another_message(tmp_path: Any) -> None:
    async with connected(agent_of(rewrite), tmp_path, 1) as (_, session):
        chunks = [each for each in await updates_of(session) if isinstance(each, AgentMessageChunk)]
        assert [chunk.content.text for chunk in chunks if isinstance(chunk.content, TextContent)] == [
            "wrong",
            "right",
            "gone",
        ]
        assert chunks[0].message_id != chunks[1].message_id


async def clear(turn: Turn) -> None:
    async with turn.tool("Look", paths=["/tmp"]) as call:
        await call.add_text("wrong")
        await call.clear("content", "locations")
        await call.append_text("right")


@pytest.mark.parametrize("version", [1, 2])
async def test_a_cleared_tool_call_shows_only_what_came_after(tmp_path: Any, version: int) -> None:
    async with connected(agent_of(clear), tmp_path, version) as (_, session):
        updates = await updates_of(session)
        [call] = session.tool_calls.values()
        assert [item.content.text for item in call.content] == ["right"]
        assert not call.locations
        assert call.status == "completed"
        assert any(isinstance(update, ToolCallContentChunk) for update in updates) == (version == 2)
        assert any(isinstance(update, ToolCallProgress) and update.clear for update in updates) == (version == 2)


# --- terminals --------------------------------------------------------------------------------------------------------


async def run_command(turn: Turn) -> None:
    async with turn.tool("Run", kind="execute") as call:
        async with turn.terminal("printf", size=(80, 24)) as terminal:
            await call.add_terminal(terminal)
            code = await terminal.run("printf", "\x1b[1mbold\x1b[0m")
    await turn.say(f"exit {code}")


async def test_a_terminal_of_the_agent_is_shown_as_bytes(tmp_path: Any) -> None:
    async with connected(agent_of(run_command), tmp_path) as (_, session):
        updates = await updates_of(session)
        [terminal] = session.transcript.terminals.values()
        assert bytes(terminal.data) == b"\x1b[1mbold\x1b[0m"
        assert terminal.exit_status is not None
        assert terminal.exit_status.exit_code == 0
        assert terminal.cwd == str(tmp_path)
        first = next(update for update in updates if isinstance(update, TerminalUpdate))
        assert first.size is not None
        assert (first.size.cols, first.size.rows) == (80, 24)  # type: ignore[union-attr]
        assert any(isinstance(update, TerminalOutputChunk) for update in updates)


async def test_a_v1_client_gets_the_output_as_text_before_the_turn_ends(tmp_path: Any) -> None:
    async with connected(agent_of(run_command), tmp_path, 1) as (_, session):
        await updates_of(session)
        [call] = session.tool_calls.values()
        assert "bold" in call.content[0].content.text
        assert call.status == "completed"


async def test_a_command_that_does_not_exist_is_an_error_with_advice(tmp_path: Any) -> None:
    async def work(turn: Turn) -> None:
        async with turn.terminal("nothing") as terminal:
            await terminal.run("/no/such/program")

    async with connected(agent_of(work), tmp_path) as (_, session):
        with pytest.raises(ProtocolError, match="is it installed"):
            await updates_of(session)
        assert session.transcript.terminals["terminal_1_1"].exit_status is not None


async def test_one_terminal_is_cancelled_and_the_turn_goes_on(tmp_path: Any) -> None:
    async def work(turn: Turn) -> None:
        async with turn.terminal("sleep") as terminal:
            await terminal.run("sleep 60", shell=True)
        await turn.say(f"cancelled: {terminal.cancelled}")

    async with connected(agent_of(work), tmp_path) as (_, session):
        async with session.prompt("go") as turn:
            async for update in turn:
                if isinstance(update, TerminalUpdate) and update.capabilities:
                    await session.cancel_terminal(update.terminal_id)
        assert turn.stop_reason == "end_turn"
        assert session.transcript.messages[-1].text == "cancelled: True"
        assert session.transcript.terminals["terminal_1_1"].exit_status is not None


# --- the cancel of one tool call --------------------------------------------------------------------------------------


async def wait_long(turn: Turn) -> None:
    async with turn.tool("Wait", cancellable=True) as call:
        await asyncio.sleep(60)
    await turn.say(f"cancelled: {call.cancelled}")


async def test_one_tool_call_is_cancelled_and_the_turn_goes_on(tmp_path: Any) -> None:
    async with connected(agent_of(wait_long), tmp_path) as (_, session):
        async with session.prompt("go") as turn:
            async for update in turn:
                if isinstance(update, ToolCallProgress) and update.capabilities:
                    await session.cancel_tool_call(update.tool_call_id)
        assert turn.stop_reason == "end_turn"
        assert session.tool_calls["call_1_1"].status == "cancelled"
        assert session.transcript.messages[-1].text == "cancelled: True"
        with pytest.raises(ProtocolError) as error:
            await session.cancel_tool_call("call_1_1")
        assert error.value.kind == Kind.INVALID_PARAMS


async def test_a_cancelled_turn_is_cancelled_although_its_tool_call_was_too(tmp_path: Any) -> None:
    async with connected(agent_of(wait_long), tmp_path) as (_, session):
        async with session.prompt("go") as turn:
            async for update in turn:
                if isinstance(update, ToolCallProgress) and update.capabilities:
                    request = asyncio.ensure_future(session.cancel_tool_call(update.tool_call_id))
                    turn.cancel()
        await request
        assert turn.stop_reason == "cancelled"


async def test_a_v1_agent_cannot_cancel_one_tool_call(tmp_path: Any) -> None:
    async with connected(agent_of(wait_long), tmp_path, 1) as (_, session):
        with pytest.raises(ProtocolError, match="cancel the turn"):
            await session.cancel_tool_call("call_1_1")


# --- steering ---------------------------------------------------------------------------------------------------------


def steerable_agent() -> Agent:
    agent = Agent("steered")
    added: asyncio.Queue[str] = asyncio.Queue()

    @agent.prompt
    async def work(turn: Turn) -> None:
        await turn.say("begun")
        if turn.text == "wait":
            await turn.say(f", then {await added.get()}")

    @agent.steer
    async def take(turn: Turn, prompt: list[Any]) -> bool:
        if prompt[0].text == "refuse":
            raise ProtocolError(Kind.INVALID_PARAMS, "not that")
        if prompt[0].text == "later":
            asyncio.get_running_loop().call_later(0.05, added.put_nowait, "nothing")
            return False
        added.put_nowait(prompt[0].text)
        return True

    return agent


async def test_a_prompt_joins_the_running_turn_and_ends_with_it(tmp_path: Any) -> None:
    async with connected(steerable_agent(), tmp_path) as (_, session):
        updates, steered = [], None
        async with session.prompt("wait") as turn:
            async for update in turn:
                updates.append(update)
                if isinstance(update, AgentMessageChunk) and steered is None:
                    steered = turn.steer("hurry")
        assert steered is not None
        assert (await steered).stop_reason == turn.stop_reason == "end_turn"
        assert [m.text for m in session.transcript.messages] == ["wait", "begun", "hurry", ", then hurry"]
        assert states(updates) == ["running", "idle"]


async def test_a_prompt_that_the_agent_does_not_take_waits_for_the_end_of_the_turn(tmp_path: Any) -> None:
    async with connected(steerable_agent(), tmp_path) as (_, session):
        updates, steered = [], None
        async with session.prompt("wait") as turn:
            async for update in turn:
                updates.append(update)
                if isinstance(update, AgentMessageChunk) and steered is None:
                    steered = turn.steer("later")
        texts = [message.text for message in session.transcript.messages if message.role == "agent"]
        assert texts == ["begun, then nothing", "begun"]
        assert states(updates) == ["running", "idle", "running", "idle"]


async def test_a_refused_prompt_does_not_end_the_turn(tmp_path: Any) -> None:
    async with connected(steerable_agent(), tmp_path) as (_, session):
        async with session.prompt("wait") as turn:
            refused = turn.steer("refuse")
            turn.steer("hurry")
        with pytest.raises(ProtocolError, match="not that"):
            await refused
        assert turn.stop_reason == "end_turn"


async def test_a_v1_agent_takes_no_prompt_during_a_turn(tmp_path: Any) -> None:
    async with connected(steerable_agent(), tmp_path, 1) as (_, session):
        async with session.prompt("go") as turn:
            with pytest.raises(ProtocolError, match="wait for the end"):
                turn.steer("hurry")


# --- background work, and work without a prompt -----------------------------------------------------------------------


async def start_background(turn: Turn) -> None:
    gate: asyncio.Event = turn.session.data.setdefault("gate", asyncio.Event())

    async def watch(call: Tool) -> None:
        await call.append_text("watching")
        await gate.wait()

    call = await turn.run_in_background("Watch", watch)
    await turn.say(call.id)


async def test_background_work_is_listed_until_it_ends(tmp_path: Any) -> None:
    agent = agent_of(start_background)
    async with connected(agent, tmp_path) as (_, session):
        updates = await updates_of(session)
        idle = [each for each in updates if isinstance(each, SessionStateUpdate)][-1]
        assert (idle.state, idle.background) == ("idle", [{"type": "tool_call", "toolCallId": "call_1_1"}])
        assert session.transcript.background == idle.background
        assert session.tool_calls["call_1_1"].status == "in_progress"
        agent.sessions[session.id].data["gate"].set()
        ended = await wait_for(session, lambda each: isinstance(each, SessionStateUpdate) and each.background == [])
        assert ended.state == "idle"
        assert session.tool_calls["call_1_1"].status == "completed"


async def test_cancelling_the_turn_leaves_background_work_alone_and_its_own_cancel_ends_it(tmp_path: Any) -> None:
    async def work(turn: Turn) -> None:
        await start_background(turn)
        await asyncio.sleep(60)

    async with connected(agent_of(work), tmp_path) as (_, session):
        async with session.prompt("go") as turn:
            async for update in turn:
                if isinstance(update, AgentMessageChunk):
                    turn.cancel()
        assert turn.stop_reason == "cancelled"
        assert not [each for each in session.updates_outside_turns if isinstance(each, ToolCallProgress)]
        await session.cancel_tool_call("call_1_1")
        await wait_for(session, lambda each: isinstance(each, SessionStateUpdate) and each.background == [])
        assert session.tool_calls["call_1_1"].status == "cancelled"


async def test_closing_a_session_ends_its_background_work(tmp_path: Any) -> None:
    agent = agent_of(start_background)
    async with connected(agent, tmp_path) as (_, session):
        await updates_of(session)
        background = agent.sessions[session.id].background
        await session.close()
        assert background.items == []


async def test_work_without_a_prompt_is_told_by_states_and_prompts_wait_for_it(tmp_path: Any) -> None:
    agent = agent_of(lambda turn: turn.say("answered"))
    async with connected(agent, tmp_path) as (_, session):
        own, begun, gate = agent.sessions[session.id], asyncio.Event(), asyncio.Event()

        async def work() -> None:
            async with own.work() as turn:
                await turn.say("unasked")
                begun.set()
                await gate.wait()

        task = asyncio.ensure_future(work())
        await begun.wait()
        assert own.state == "running"
        await wait_for(session, lambda each: isinstance(each, AgentMessageChunk))
        assert session.state == "running"
        prompt = asyncio.ensure_future(updates_of(session))
        await asyncio.sleep(0.15)  # longer than the time after which a prompt without a sign of work is inserted
        assert not prompt.done()
        gate.set()
        await task
        updates = await prompt
        assert own.state == session.state == "idle"
        assert states(updates)[-2:] == ["running", "idle"]
        assert [m.text for m in session.transcript.messages if m.role == "agent"] == ["unasked", "answered"]


async def test_an_error_in_work_without_a_prompt_is_told_with_its_reason(tmp_path: Any) -> None:
    agent = agent_of(lambda turn: turn.say("answered"))
    async with connected(agent, tmp_path) as (_, session):
        with pytest.raises(ValueError, match="broken"):
            async with agent.sessions[session.id].work():
                raise ValueError("broken")
        idle = await wait_for(session, lambda each: isinstance(each, SessionStateUpdate) and each.state == "idle")
        assert idle.stop_reason == "error"
        assert "broken" in idle.error["message"]


async def test_a_question_makes_the_session_require_action(tmp_path: Any) -> None:
    seen: list[str] = []

    async def work(turn: Turn) -> None:
        asyncio.get_running_loop().call_soon(lambda: seen.append(turn.session.state))
        await turn.ask_permission("May I?")
        seen.append(turn.session.state)

    async with connected(agent_of(work), tmp_path) as (_, session):
        assert states(await updates_of(session)) == ["running", "requires_action", "running", "idle"]
        assert seen == ["requires_action", "running"]
