"""The order in which real peers say things, docs/protocol/peers.md#ordering, and what becomes of it here."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman import Agent, Kind, ProtocolError
from dragoman.schema.update import AvailableCommandsUpdate, UserMessageChunk
from dragoman.testing import ScriptedPeer
from tests.quirks.scripted import (
    SESSION,
    agent_served,
    chunk,
    client,
    error,
    in_session,
    open_session,
    prompting,
    result,
    run,
    serve,
    update,
    whole,
)

COMMANDS = [{"name": "plan", "description": "make a plan", "input": None}]
OPTION = {"optionId": "yes", "name": "Yes", "kind": "allow_once"}


def texts(updates: Any) -> list[str]:
    return [one.content.text for one in updates if hasattr(one, "content")]


async def test_updates_before_the_answer_that_names_their_session_are_kept() -> None:
    """docs/protocol/peers.md#early-updates: commands before session/new is answered, a whole history before
    session/fork is.
    """

    async def part(peer: ScriptedPeer) -> None:
        asked = await peer.expect(method="session/new")
        peer.send(update("available_commands_update", availableCommands=COMMANDS))
        peer.send(update("usage_update", used=1, size=10))
        peer.send(result(asked, {"sessionId": SESSION}))
        asked = await peer.expect(method="session/fork")
        peer.send(update("user_message_chunk", "s2", content={"type": "text", "text": "before"}))
        peer.send(chunk("history", "s2"))
        peer.send(result(asked, {"sessionId": "s2"}))

    introduction: dict[str, Any] = {"agentCapabilities": {"sessionCapabilities": {"fork": {}}}}
    async with client(part, introduction) as agent:
        session = await agent.open_session("/")
        assert [command.name for command in session.commands] == ["plan"]
        assert len(session.updates_outside_turns) == 2
        fork = await agent.fork_session(session.id, "/")
        assert texts(fork.updates_outside_turns) == ["before", "history"]


async def test_updates_outside_turns_are_delivered_as_such() -> None:
    """docs/protocol/peers.md#updates-outside-turns: after the answer, with no prompt at all (codex's goals), after
    `cancelled` (claude 0.49).
    """
    seen: list[Any] = []

    async def part(peer: ScriptedPeer) -> None:
        await peer.expect(method="_end")
        for text in ("unasked ", "work"):
            peer.send(chunk(text))
        peer.send(result(peer.received[-1], {}))
        asked = await peer.expect(method="session/prompt")
        await peer.expect(method="session/cancel")
        peer.send(chunk("in the turn"))
        peer.send(result(asked, {"stopReason": "cancelled"}))
        peer.send(chunk("after it"))
        peer.send(update("session_info_update", title="a title"))
        peer.send(result(await peer.expect(method="_end"), {}))

    async with in_session(part) as session:
        session.on_update = seen.append
        await session.remote.request("_end", {})
        assert texts(session.updates_outside_turns) == ["unasked ", "work"]
        async with session.prompt("go") as turn:
            turn.cancel()
            assert texts([one async for one in turn]) == ["in the turn"]
        await session.remote.request("_end", {})
        assert texts(session.updates_outside_turns) == ["unasked ", "work", "after it"]
        assert session.title == "a title"
    assert len(seen) == 5


async def test_a_cancelled_turn_may_end_with_any_stop_reason() -> None:
    """docs/protocol/peers.md#after-cancel: with last words, as end_turn, and every later prompt may be `cancelled`
    (gptme).
    """

    async def part(peer: ScriptedPeer) -> None:
        asked = await peer.expect(method="session/prompt")
        await peer.expect(method="session/cancel")
        peer.send(chunk("User stopped the run."))
        peer.send(result(asked, {"stopReason": "end_turn"}))
        await serve(peer, "session/prompt", {"stopReason": "cancelled"})

    async with in_session(part) as session:
        async with session.prompt("go") as turn:
            turn.cancel()
            assert texts([one async for one in turn]) == ["User stopped the run."]
        assert turn.stop_reason == "end_turn"
        async with session.prompt("again") as turn:
            pass
        assert (turn.stop_reason, turn.cancelled) == ("cancelled", False)


async def test_an_error_answer_ends_a_cancelled_turn_and_is_reported() -> None:
    """docs/protocol/peers.md#after-cancel: hermes breaks when it is cancelled with a question open."""
    reports: list[str] = []

    async def part(peer: ScriptedPeer) -> None:
        asked = await peer.expect(method="session/prompt")
        await peer.expect(method="session/cancel")
        peer.send(error(asked, {"code": -32603, "message": "no attribute startswith"}))

    async with in_session(part, report=reports.append) as session:
        async with session.prompt("go") as turn:
            turn.cancel()
        assert turn.stop_reason == "cancelled"
    assert any("startswith" in report for report in reports)


@pytest.mark.item("001-05", "003-08")
@pytest.mark.parametrize("dialect", ["v1", "banjo"])
async def test_our_agent_ends_a_cancelled_turn_as_cancelled_and_the_next_is_not(dialect: str) -> None:
    """docs/protocol/peers.md#after-cancel: whatever the author's code does when it is stopped; the cancel itself is not
    answered.
    """
    agent = Agent("sleeper", version="1", dialect=dialect)

    @agent.prompt
    async def answer(turn: Any) -> None:
        if turn.text == "wait":
            try:
                await turn.say("waiting")
                await asyncio.Event().wait()
            finally:
                raise ValueError("stopped")
        await turn.say("done")

    async with agent_served(agent) as peer:
        session = await open_session(peer)
        peer.send(prompting(session, 1, "wait"))
        await peer.expect(method="session/update")
        peer.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})
        await peer.expect(id=1, result={"stopReason": "cancelled"})
        peer.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})
        peer.send(prompting(session, 2))
        await peer.expect(method="session/update")
        await peer.expect(id=2, result={"stopReason": "end_turn"})


async def test_our_agent_refuses_a_second_prompt_at_once_and_continues_the_first() -> None:
    """docs/protocol/peers.md#second-prompt"""
    agent = Agent("slow", version="1")
    go_on = asyncio.Event()

    @agent.prompt
    async def answer(turn: Any) -> None:
        await turn.say("one")
        await go_on.wait()
        await turn.say("two")

    async with agent_served(agent) as peer:
        session = await open_session(peer)
        peer.send(prompting(session, 1))
        await peer.expect(method="session/update")
        peer.send(prompting(session, 2))
        await peer.expect(id=2, error={"code": -32600, "data": {"kind": "invalid_state"}})
        go_on.set()
        await peer.expect(params={"update": {"content": {"text": "two"}}})
        await peer.expect(id=1, result={"stopReason": "end_turn"})


async def test_our_client_runs_one_turn_at_a_time() -> None:
    """docs/protocol/peers.md#second-prompt: no two agents do the same with a second prompt, so none is sent."""

    async def part(peer: ScriptedPeer) -> None:
        asked = await peer.expect(method="session/prompt")
        peer.send(result(asked, {"stopReason": "end_turn"}))

    async with in_session(part) as session, session.prompt("one"):
        with pytest.raises(ProtocolError, match="a turn is already running") as refused:
            await session.ask("two")
    assert refused.value.kind == Kind.INVALID_STATE


@pytest.mark.parametrize(
    "answers",
    [
        [(2, {"error": {"code": -32603, "message": "A turn is already running"}}), (1, "end_turn")],
        [(1, "cancelled"), (2, "end_turn")],
        [(1, {"error": {"code": -32603, "message": "aborted"}}), (2, "end_turn")],
        [(2, "end_turn"), (1, "end_turn")],
    ],
    ids=["second refused", "first cancelled", "first fails", "parallel"],
)
def test_prompts_during_a_turn_are_answered_in_any_order(answers: list[Any]) -> None:
    """docs/protocol/peers.md#second-prompt: whoever sends a second prompt by hand gets what the agent makes of both."""

    async def part(peer: ScriptedPeer) -> None:
        asked = {1: await peer.expect(method="session/prompt"), 2: await peer.expect(method="session/prompt")}
        for which, answer in answers:
            reply = {"result": {"stopReason": answer}} if isinstance(answer, str) else answer
            peer.send({"jsonrpc": "2.0", "id": asked[which]["id"], **reply})

    async def main() -> dict[int, Any]:
        async with in_session(part) as session:
            params = {"sessionId": session.id, "prompt": []}
            both = [session.remote.request("session/prompt", params) for _ in range(2)]
            ends = await asyncio.gather(*both, return_exceptions=True)
            return dict(enumerate(ends, 1))

    ended = run(main())
    for which, answer in answers:
        if isinstance(answer, str):
            assert ended[which].stop_reason == answer
        else:
            assert isinstance(ended[which], ProtocolError)


async def test_echoed_user_messages_are_not_part_of_the_answer() -> None:
    """docs/protocol/peers.md#prompt-echo: vibe repeats the prompt as user_message_chunk."""

    async def part(peer: ScriptedPeer) -> None:
        asked = await peer.expect(method="session/prompt")
        peer.send(update("user_message_chunk", content={"type": "text", "text": "hello?"}))
        peer.send(chunk("hi"))
        peer.send(result(asked, {"stopReason": "end_turn"}))
        asked = await peer.expect(method="session/prompt")
        peer.send(update("user_message_chunk", content={"type": "text", "text": "hello?"}))
        peer.send(result(asked, {"stopReason": "end_turn"}))

    async with in_session(part) as session:
        assert await session.ask("hello?") == "hi"
        async with session.prompt("hello?") as turn:
            assert [type(one) for one in [one async for one in turn]] == [UserMessageChunk]


def asking(call: dict[str, Any]) -> dict[str, Any]:
    params = {"sessionId": SESSION, "toolCall": call, "options": [OPTION]}
    return {"jsonrpc": "2.0", "id": "q", "method": "session/request_permission", "params": params}


TOOL_CALLS: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "asked before it is announced": (
        [
            asking({"toolCallId": "c", "title": "Write", "rawInput": {"a": 1}}),
            update("tool_call", toolCallId="c", title="Write out.txt", status="in_progress"),
            update("tool_call_update", toolCallId="c", status="completed"),
        ],
        {"title": "Write out.txt", "status": "completed", "raw_input": {"a": 1}},
    ),
    "asked and never announced": (
        [asking({"toolCallId": "c", "title": "Write", "content": []})],
        {"title": "Write", "status": "pending"},
    ),
    "no status and no kind": (
        [update("tool_call", toolCallId="c", title="Read")],
        {"status": "pending", "kind": "other"},
    ),
    "completed at once": (
        [
            update("tool_call", toolCallId="c", title="Read", status="completed"),
            update("tool_call_update", toolCallId="c", status="completed", rawOutput="text"),
        ],
        {"status": "completed", "raw_output": "text"},
    ),
    "an update for an unknown id": (
        [update("tool_call_update", toolCallId="c", status="completed")],
        {"title": "", "status": "completed"},
    ),
    "input filled in later": (
        [
            update("tool_call", toolCallId="c", title="Bash", rawInput={}),
            update("tool_call_update", toolCallId="c", rawInput={"command": "ls"}),
            update("tool_call_update", toolCallId="c", rawInput=None, status="completed"),
        ],
        {"raw_input": {"command": "ls"}, "status": "completed"},
    ),
    "an id used again": (
        [
            update("tool_call", toolCallId="c", title="First", status="completed", rawOutput="old"),
            update("tool_call", toolCallId="c", title="Second"),
        ],
        {"title": "Second", "status": "pending", "raw_output": None},
    ),
}


@pytest.mark.parametrize("case", TOOL_CALLS)
async def test_tool_calls_with_missing_members_are_merged(case: str) -> None:
    """docs/protocol/peers.md#tool-call-order"""
    frames, expected = TOOL_CALLS[case]

    async def part(peer: ScriptedPeer) -> None:
        for frame in frames:
            peer.send(frame)
            if "id" in frame:
                await peer.expect(id="q", result={"outcome": {"outcome": "selected", "optionId": "yes"}})

    async with in_session(whole(part), permission="allow") as session:
        await session.remote.request("_end", {})
        call = session.tool_calls["c"]
        assert {name: getattr(call, name) for name in expected} == expected


async def test_tool_calls_that_a_cancelled_turn_leaves_open_are_cancelled() -> None:
    """docs/protocol/peers.md#tool-call-order: copilot, kimi and others never finish them; one that still ends is
    believed.
    """
    announced = asyncio.Event()

    async def part(peer: ScriptedPeer) -> None:
        asked = await peer.expect(method="session/prompt")
        for name, status in (("open", "pending"), ("done", "completed"), ("late", "in_progress")):
            peer.send(update("tool_call", toolCallId=name, title=name, status=status))
        await peer.expect(method="session/cancel")
        peer.send(update("tool_call_update", toolCallId="late", status="completed"))
        peer.send(result(asked, {"stopReason": "cancelled"}))

    async with in_session(part) as session:
        session.on_update = lambda one: announced.set() if one.tool_call_id == "late" else None
        async with session.prompt("go") as turn:
            await announced.wait()
            turn.cancel()
            assert session.tool_calls["late"].status == "cancelled"
        states = {name: call.status for name, call in session.tool_calls.items()}
        assert states == {"open": "cancelled", "done": "completed", "late": "completed"}


async def test_modes_and_options_sent_in_every_turn_replace_earlier_ones() -> None:
    """docs/protocol/peers.md#repeated-mode-updates: droid repeats both at each turn."""
    modes = {"currentModeId": "off", "availableModes": [{"id": "off", "name": "Off"}, {"id": "low", "name": "Low"}]}
    option = {"id": "model", "name": "Model", "type": "select", "currentValue": "a", "options": []}

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "session/new", {"sessionId": SESSION, "modes": modes, "configOptions": [option]})
        for value in ("b", "c"):
            asked = await peer.expect(method="session/prompt")
            peer.send(update("current_mode_update", currentModeId="low"))
            peer.send(update("config_option_update", configOptions=[{**option, "currentValue": value}]))
            peer.send(update("available_commands_update", availableCommands=COMMANDS))
            peer.send(result(asked, {"stopReason": "end_turn"}))

    async with client(part) as agent:
        session = await agent.open_session("/")
        for value in ("b", "c"):
            async with session.prompt("go") as turn:
                assert [type(one) for one in [one async for one in turn]][-1] is AvailableCommandsUpdate
            assert session.modes is not None
            assert session.modes.current_mode_id == "low"
            assert [one.current_value for one in session.options] == [value]
