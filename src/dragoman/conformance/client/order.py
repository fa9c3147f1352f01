"""The order of a client's messages: early, late, cancelled."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dragoman.conformance.harness.client import SESSION, ClientUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.requirement import may, must, should

# More than the buffer of a slow reader holds.
FLOOD = 3000

# Long enough that a client which draws it is still busy when the next one comes. Characters.
LONG = 60_000

OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


def _ask_permission(client: ClientUnderTest, call: str) -> Json:
    """Ask for permission and do not wait; return the id of the request."""
    tool = {"toolCallId": call, "title": "Write a file", "kind": "edit", "locations": [{"path": f"{client.cwd}/a.txt"}]}
    params = {"sessionId": client.session, "toolCall": tool, "options": OPTIONS}
    return client.call(*client.in_dialect("session/request_permission", params))


async def _require_prompt(client: ClientUnderTest, what: str) -> None:
    """Require that the client sends its prompt after `what`, and still works."""
    prompt = await client.require_prompt(f"the client gave up after {what}")
    client.chunk("check-begin\n")
    await client.require_alive(prompt, what)


@must("client.order.01", "peers.md#early-updates", "v1 banjo draft")
async def updates_may_come_before_the_session(client: ClientUnderTest) -> None:
    """The client tolerates an update before the answer to session/new."""
    frame = await client.hold_new_session()
    commands = [{"name": "help", "description": "Helps"}]
    client.update("available_commands_update", availableCommands=commands)
    client.reply_in_dialect(frame, {"sessionId": SESSION})
    await _require_prompt(client, "an update before the answer to session/new")


@must("client.order.02", "peers.md#updates-outside-turns")
async def text_may_come_before_the_prompt(client: ClientUnderTest) -> None:
    """The client tolerates text before the first prompt."""
    frame = await client.hold_new_session()
    session = client.session if client.dialect == "2025.1" else SESSION
    client.reply_in_dialect(frame, {"sessionId": session})
    client.chunk("before the prompt\n")
    await _require_prompt(client, "text before the first prompt")


@must("client.order.03", "peers.md#updates-outside-turns", "v1 banjo")
async def updates_may_come_after_the_turn(client: ClientUnderTest) -> None:
    """The client tolerates an update after the answer to the prompt."""
    await client.run_turn()
    client.update("usage_update", used=10, size=1000)
    client.update("session_info_update", title="A session")
    await client.require_no_crash("an update after the turn broke the client")


async def _shown_numbers(client: ClientUnderTest, mark: str) -> list[int]:
    """Return the numbers after a mark in the client's output; inconclusive if it shows nothing."""
    end = await client.wait_exit()
    client.assume("check-begin" in end.stdout, "the client does not show the agent's text on its standard output")
    return [int(number) for number in re.findall(rf"{mark}-(\d+)\.", end.stdout)]


@must("client.order.04", "peers.md#sdk-order")
async def text_is_shown_in_order(client: ClientUnderTest) -> None:
    """Text is shown in the order in which it came."""
    # Send a long chunk, then short ones: concurrent handlers would overtake each other.
    async with client.turn():
        client.chunk(f"piece-0. {'long ' * (LONG // 5)}\n")
        for number in range(1, 20):
            client.chunk(f"piece-{number}.\n")
    numbers = await _shown_numbers(client, "piece")
    client.require(numbers == sorted(numbers), f"twenty pieces of text were shown in the order {numbers}")
    client.require(numbers, "of twenty pieces of text none was shown")


@must("client.order.05", "peers.md#sdk-order")
async def all_text_is_shown(client: ClientUnderTest) -> None:
    """Everything that came before the answer to the prompt is shown."""
    async with client.turn():
        for number in range(50):
            client.chunk(f"tail-{number}. {'word ' * 40}\n")
    numbers = await _shown_numbers(client, "tail")
    missing = sorted(set(range(50)) - set(numbers))
    client.require(not missing, f"the pieces {missing} of fifty were never shown")


@must("client.order.06", "peers.md#slow-consumer")
async def floods_are_tolerated(client: ClientUnderTest) -> None:
    """The client tolerates thousands of updates in one turn, and shows the last one."""
    async with client.turn(survives=f"{FLOOD} updates"):
        for number in range(FLOOD):
            client.chunk(f"flood-{number}.\n")
        await client.flush()


@must("client.order.07", "peers.md#tool-call-order", "v1 banjo draft")
async def unannounced_calls_may_be_asked_for(client: ClientUnderTest) -> None:
    """Permission may be requested for a tool call that was not announced."""
    async with client.turn():
        frame = await client.wait_reply(_ask_permission(client, "unannounced"))
        frame = client.require(frame, "a permission request for an unannounced tool call was never answered")
        client.require(
            "result" in frame.message, "a permission request for an unannounced tool call got an error", frame
        )


@must("client.order.08", "peers.md#late-permission-answers", "v1 banjo")
async def a_turn_may_end_with_a_question_open(client: ClientUnderTest) -> None:
    """A turn may end while a permission request is still open."""
    async with client.turn():
        client.update("tool_call", toolCallId="open", title="Write", kind="edit", status="pending")
        _ask_permission(client, "open")
    await client.require_end("a turn that ended with a permission request open")


async def _cancel_turn(client: ClientUnderTest) -> tuple[ReceivedFrame, ReceivedFrame]:
    """Send Ctrl-C in a turn; return prompt and cancel, or end as inconclusive."""
    prompt = await client.begin_turn()
    if not await client.sync():
        await client.collect()
    client.environment.interrupt()
    wait = client.timeouts.answer if client.environment.is_watched else client.timeouts.turn
    frame = await client.wait_method("session/cancel", wait)
    return prompt, client.assume(frame, "the client sent no cancel on Ctrl-C")


@asynccontextmanager
async def _cancelled_turn(client: ClientUnderTest) -> AsyncIterator[ReceivedFrame]:
    """Cancel a turn by Ctrl-C, give the cancel, and end the turn as cancelled after the block."""
    prompt, frame = await _cancel_turn(client)
    yield frame
    client.end_turn(prompt, "cancelled")


@must("client.order.09", "prompt-turns.md#cancel", "v1 banjo 2025.1 draft")
async def a_cancel_is_a_notification(client: ClientUnderTest) -> None:
    """session/cancel is a notification that names the session."""
    async with _cancelled_turn(client) as frame:
        client.require("id" not in frame.message, "session/cancel came as a request", frame)
        session = frame.params.get("sessionId") if isinstance(frame.params, dict) else None
        client.require(session == client.session, f"session/cancel names the session {session!r}", frame)


@must("client.order.10", "prompt-turns.md#cancel", "v1 banjo")
async def questions_after_a_cancel_are_answered_with_it(client: ClientUnderTest) -> None:
    """After a cancel every permission request is answered with cancelled."""
    async with _cancelled_turn(client):
        client.update("tool_call", toolCallId="crossed", title="Write", kind="edit", status="pending")
        frame = await client.wait_reply(_ask_permission(client, "crossed"))
        frame = client.require(frame, "a permission request after a cancel was never answered")
        outcome = frame.result.get("outcome")
        is_cancelled = isinstance(outcome, dict) and outcome.get("outcome") == "cancelled"
        client.require(
            is_cancelled, f"a permission request after a cancel was answered with {outcome or 'an error'}", frame
        )


@should("client.order.11", "peers.md#after-cancel")
async def updates_after_a_cancel_are_accepted(client: ClientUnderTest) -> None:
    """After a cancel updates are still accepted, until the prompt is answered."""
    async with _cancelled_turn(client):
        client.chunk("still here\n")
        await client.sync()
        client.require(client.closed is None, "the client left before its cancelled prompt was answered")
    await client.require_end("an update after a cancel")


@must("client.order.12", "peers.md#after-cancel", "v1 banjo crow draft")
async def a_cancelled_turn_may_end_like_any_other(client: ClientUnderTest) -> None:
    """A cancelled turn may end with end_turn all the same."""
    prompt, _ = await _cancel_turn(client)
    client.end_turn(prompt, "end_turn")
    await client.require_end("a cancelled turn that ended with end_turn")


@must("client.order.13", "peers.md#after-cancel")
async def a_cancelled_turn_may_fail(client: ClientUnderTest) -> None:
    """A cancelled turn may end with an error all the same."""
    prompt, _ = await _cancel_turn(client)
    client.refuse(prompt, -32099, "'NoneType' object has no attribute 'startswith'")
    await client.require_end("a cancelled turn that ended with an error")


@must("client.order.14", "peers.md#tool-call-order", "v1 banjo draft")
async def tool_calls_may_stay_open(client: ClientUnderTest) -> None:
    """A turn may end while a tool call is still in progress."""
    # copilot, kimi, fast-agent, hermes and deepagents do this.
    async with client.turn():
        client.update("tool_call", toolCallId="unfinished", title="Run", kind="execute", status="in_progress")
    await client.require_end("a turn that ended with a tool call in progress")


@must("client.order.15", "peers.md#updates-outside-turns", "v1 banjo")
async def text_may_come_after_a_cancelled_answer(client: ClientUnderTest) -> None:
    """The client tolerates text after a cancelled answer."""
    prompt = await client.begin_turn()
    client.end_turn(prompt, "cancelled")
    client.chunk("one more thing\n")
    await client.require_no_crash("text after a cancelled answer broke the client")


@must("client.order.16", "json-rpc.md#concurrency")
async def requests_are_answered_in_a_turn(client: ClientUnderTest) -> None:
    """A request of the agent is answered while a prompt is open."""
    # Otherwise agent and client wait for each other.
    async with client.turn():
        frame = await client.request("_vendor/in_turn", {})
        client.require(frame, "a request was not answered while the prompt was open")


@should("client.order.17", "peers.md#second-prompt")
async def no_prompt_follows_before_the_answer(client: ClientUnderTest) -> None:
    """After a cancel the client waits for the answer to its prompt before it sends another."""
    async with _cancelled_turn(client):
        again = [each for each in await client.collect(5 * client.timeouts.quiet) if each.method == "session/prompt"]
        client.require_none(again, "the client prompts again before its cancelled prompt was answered")


@must("client.order.18", "peers.md#early-updates", "v1 banjo")
async def history_may_come_before_the_session(client: ClientUnderTest) -> None:
    """The client tolerates a replayed history before the answer to session/new."""
    frame = await client.hold_new_session()
    client.session = SESSION
    client.update("user_message_chunk", content={"type": "text", "text": "an older question"})
    client.update("agent_message_chunk", content={"type": "text", "text": "an older answer"})
    client.reply_in_dialect(frame, {"sessionId": SESSION})
    await _require_prompt(client, "a history before the answer to session/new")


@may("client.order.19", "prompt-turns.md#cancel-request", "v1 banjo")
async def open_requests_are_cancelled_by_id(client: ClientUnderTest) -> None:
    """A cancelled prompt may also be cancelled with $/cancel_request, which names an open request."""
    prompt, _ = await _cancel_turn(client)
    await client.collect()
    client.end_turn(prompt, "cancelled")
    cancels = client.skip_unless(client.calls("$/cancel_request"), "the client cancels by session/cancel alone")
    wrong = [frame for frame in cancels if frame.wire_params.get("requestId") != prompt.message["id"]]
    client.require_none(wrong, "a request was cancelled that is not open")
