"""A tool call passes its states in order (docs/protocol/draft.md#tool-call-order, #status-machine and
#tool-execution).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dragoman import Agent, Kind, ProtocolError, Tool, Turn
from dragoman.session.toolcall import TRANSITIONS, next_status
from tests.roles.raw_client import CWD, Raw, new_session, raw_connection

Work = Callable[[Tool], Awaitable[Any]]


def tool_agent(work: Work, faults: list[ProtocolError] | None = None) -> Agent:
    """Return an agent with one tool."""
    agent = Agent("doing")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        try:
            async with turn.tool("Write a", name="write_file", kind="edit", input={"path": "/a"}, paths=["/a"]) as call:
                await work(call)
        except ProtocolError as error:
            if faults is not None:
                faults.append(error)
        except OSError:
            pass  # the call tells of it

    return agent


async def run_and_get_statuses(
    work: Work, granted: bool | None = True, faults: list[ProtocolError] | None = None
) -> list[Any]:
    """Return what a draft client gets: the start of the call, permission requests, and each change."""
    async with raw_connection(tool_agent(work, faults), "draft", {"fs": {"read": True, "write": True}}) as client:

        def answer(params: Any) -> Any:
            return {"granted": granted}

        client.answers["session/request_permission"] = answer
        session = (await client.result("session/new", {"workingDirectory": CWD}))["sessionId"]
        await client.result("session/prompt", {"sessionId": session, "content": [{"type": "text", "text": "go"}]})
    return sent_statuses(client)


def sent_statuses(client: Raw) -> list[Any]:
    """Return the statuses of the only tool call."""
    story: list[Any] = []
    for message in client.received:
        params = message.get("params", {})
        if message.get("method") == "session/request_permission":
            story.append("asked")
        elif message.get("method") == "session/update" and params["type"].startswith("tool_call"):
            story.append(params["data"]["status"])
    return story


async def ask_and_write(call: Tool) -> None:
    """Ask for permission, work, and report."""
    if await call.ask_permission("it is out of date"):
        await call.add_text("written")


async def just_write(call: Tool) -> None:
    """Work without permission."""
    await call.add_text("written")


async def break_down(call: Tool) -> None:
    """Fail."""
    await call.start()
    raise OSError("the disk is full")


@pytest.mark.item("004-33", "004-34", "004-68")
@pytest.mark.parametrize(
    ("work", "granted", "story"),
    [
        (ask_and_write, True, ["pending", "awaiting_permission", "asked", "in_progress", "in_progress", "completed"]),
        (ask_and_write, False, ["pending", "awaiting_permission", "asked", "denied"]),
        (just_write, None, ["pending", "in_progress", "completed"]),
        (break_down, None, ["pending", "in_progress", "failed"]),
    ],
)
async def test_a_call_is_announced_allowed_worked_on_and_ended_in_that_order(
    work: Work, granted: Any, story: Any
) -> None:
    assert await run_and_get_statuses(work, granted) == story


@pytest.mark.item("004-33", "004-68")
async def test_a_draft_client_is_told_what_the_call_is_for_and_how_it_failed() -> None:
    agent = Agent("doing")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        tool = turn.tool("Write a", name="write_file", kind="edit", paths=["/a"], requires_permission=True)
        try:
            async with tool as call:
                await call.ask_permission("it is out of date")
                raise OSError("the disk is full")
        except OSError:
            await turn.say("sorry")

    async with raw_connection(agent, "draft", {}) as client:
        client.answers["session/request_permission"] = lambda _: {"granted": True, "scope": "once"}
        session = (await client.result("session/new", {"workingDirectory": CWD}))["sessionId"]
        await client.result("session/prompt", {"sessionId": session, "content": [{"type": "text", "text": "go"}]})
    [start] = client.updates("tool_call")
    assert (start["tool"], start["status"], start["requiresPermission"]) == ("write_file", "pending", True)
    [question] = client.params_of("session/request_permission")
    values = {"operation": "file_write", "resource": "/a", "reason": "it is out of date", "toolCallId": start["id"]}
    assert values.items() <= question.items()
    last = client.updates("tool_call_update")[-1]
    assert (last["status"], last["error"]) == ("failed", "the disk is full")


@pytest.mark.item("004-34")
@pytest.mark.parametrize(
    "work",
    [
        pytest.param(lambda call: call.ask_permission(), id="asking again after the work began"),
        pytest.param(lambda call: call.finish("denied"), id="denied without a question"),
        pytest.param(lambda call: call.finish("pending"), id="back to the start"),
    ],
)
async def test_an_invalid_status_transition_is_rejected(work: Work) -> None:

    async def wrongly(call: Tool) -> None:
        await call.start()
        await work(call)

    faults: list[ProtocolError] = []
    assert await run_and_get_statuses(wrongly, faults=faults) == ["pending", "in_progress", "failed"]
    assert [fault.kind for fault in faults] == [Kind.INVALID_STATE]


async def test_a_call_is_announced_once() -> None:

    async def again(call: Tool) -> None:
        with pytest.raises(ProtocolError) as inside:
            await call.__aenter__()
        assert inside.value.kind == Kind.INVALID_STATE
        await call.finish()
        with pytest.raises(ProtocolError) as afterwards:
            await call.__aenter__()
        assert afterwards.value.kind == Kind.INVALID_STATE
        with pytest.raises(ProtocolError):
            async with call.turn.tool("Another", id=call.id), call.turn.tool("A third", id=call.id):
                pass

    assert (await run_and_get_statuses(again))[:3] == ["pending", "in_progress", "completed"]


# docs/protocol/draft.md#status-machine as drawn, and what section 4.5 asks of every open call.
DRAWN = {
    ("pending", "awaiting_permission"),
    ("pending", "in_progress"),
    ("pending", "cancelled"),
    ("awaiting_permission", "in_progress"),
    ("awaiting_permission", "denied"),
    ("awaiting_permission", "cancelled"),
    ("in_progress", "completed"),
    ("in_progress", "failed"),
    ("in_progress", "cancelled"),
}


@pytest.mark.item("004-34")
@pytest.mark.parametrize("start", sorted(TRANSITIONS))
@pytest.mark.parametrize("end", sorted(TRANSITIONS))
def test_the_status_table_has_exactly_the_documented_transitions(start: str, end: str) -> None:
    if (start, end) in DRAWN:
        assert next_status(start, end) == end
    else:
        with pytest.raises(ProtocolError, match=f"{start} cannot become {end}"):
            next_status(start, end)


@pytest.mark.item("004-34")
@pytest.mark.parametrize("where", ["pending", "awaiting_permission", "in_progress"])
async def test_a_call_that_is_open_when_the_turn_is_cancelled_becomes_cancelled(where: str) -> None:

    async def hang(call: Tool) -> None:
        if where == "in_progress":
            await call.start()
        if where == "awaiting_permission":
            await call.ask_permission()
        await asyncio.Event().wait()

    async with raw_connection(tool_agent(hang), "draft", {}) as client:
        session = (await client.result("session/new", {"workingDirectory": CWD}))["sessionId"]
        asked = {"sessionId": session, "content": [{"type": "text", "text": "go"}]}
        prompt = client.ask("session/prompt", asked)
        await client.until(lambda message: message.get("params", {}).get("data", {}).get("status") == where)
        if where == "awaiting_permission":
            await client.wait_for_call("session/request_permission")
        client.notify("session/cancel", {"sessionId": session})
        assert (await client.answer(prompt))["result"]["stopReason"] == "cancelled"
        assert sent_statuses(client)[-1] == "cancelled"


async def test_an_official_client_gets_the_same_in_its_four_states() -> None:
    async with raw_connection(tool_agent(ask_and_write)) as client:
        chosen = {"outcome": {"outcome": "selected", "optionId": "reject_once"}}
        client.answers["session/request_permission"] = lambda _: chosen
        session = await new_session(client)
        await client.result("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]})
        updates = [params["update"]["status"] for params in client.params_of("session/update")]
        assert updates == ["pending", "pending", "failed"]


@pytest.mark.parametrize(
    "hurry", [Tool.start, Tool.finish, lambda call: call.finish("failed")], ids=["start", "finish", "finish as failed"]
)
@pytest.mark.parametrize(
    ("granted", "story"),
    [
        (True, ["pending", "awaiting_permission", "asked", "in_progress", "completed"]),
        (False, ["pending", "awaiting_permission", "asked", "denied"]),
    ],
)
async def test_another_task_cannot_change_a_call_that_awaits_permission(
    hurry: Work, granted: bool, story: list[str]
) -> None:
    """Starting or ending the call before the answer is rejected."""

    refused: list[ProtocolError] = []

    async def work(call: Tool) -> None:
        asking = asyncio.create_task(call.ask_permission())
        await asyncio.sleep(0)  # the question begins to be asked
        assert call.status == "awaiting_permission"
        try:
            await hurry(call)
        except ProtocolError as error:
            refused.append(error)
        await asking

    assert await run_and_get_statuses(work, granted) == story
    assert [error.kind for error in refused] == [Kind.INVALID_STATE]
    assert "awaits permission" in refused[0].message


async def test_a_call_that_fails_while_it_awaits_permission_is_denied() -> None:

    async def work(call: Tool) -> None:
        asking = asyncio.create_task(call.ask_permission())
        await asyncio.sleep(0)  # the question begins to be asked
        assert call.status == "awaiting_permission"
        await call.fail("the disk is gone")
        await asking

    story = await run_and_get_statuses(work)
    assert [state for state in story if state != "asked"] == ["pending", "awaiting_permission", "denied"]


async def test_a_call_whose_block_ends_while_it_awaits_permission_is_cancelled() -> None:
    waiting: list[asyncio.Task[Any]] = []

    async def work(call: Tool) -> None:
        waiting.append(asyncio.create_task(call.ask_permission()))
        await asyncio.sleep(0)  # the question begins to be asked
        assert call.status == "awaiting_permission"

    story = await run_and_get_statuses(work)
    assert [state for state in story if state != "asked"] == ["pending", "awaiting_permission", "cancelled"]
    for task in waiting:
        task.cancel()
