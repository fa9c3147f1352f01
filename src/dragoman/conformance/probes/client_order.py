"""Probes of order at a client: early, late, cancelled."""

from __future__ import annotations

import re

from dragoman.conformance.harness.client import SESSION, ClientStage
from dragoman.conformance.harness.client_environment import Ending
from dragoman.conformance.harness.peer import Heard, Json
from dragoman.conformance.probe import probe

# More than fits any buffer of a reader that takes them one by one, and still a blink.
FLOOD = 3000

# Long enough that a client which draws what it gets is still at it when the next one comes. Characters.
LONG = 60_000

OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


def question(stage: ClientStage, call: str, id: Json) -> Json:
    """Ask for leave and do not wait."""
    tool = {"toolCallId": call, "title": "Write a file", "kind": "edit", "locations": [{"path": f"{stage.cwd}/a.txt"}]}
    params = {"sessionId": stage.session, "toolCall": tool, "options": OPTIONS}
    return stage.call(*stage.say("session/request_permission", params), id=id)


async def opening(stage: ClientStage) -> Heard:
    """The client's session/new, unanswered."""
    stage.held.add("session/new")
    return await stage.wanted("session/new", stage.pace.start)


async def prompted_after(stage: ClientStage, what: str) -> Heard:
    """The client's prompt, which must still come."""
    prompt = await stage.until(lambda heard: heard.method == "session/prompt", stage.pace.start)
    said = stage.grounds.ending().words()
    stage.require(prompt is not None, f"the client gave up after {what}: {said}")
    assert prompt is not None
    stage.chunk("check-begin\n")
    return prompt


@probe("client.order.01")
async def updates_may_come_before_the_session(stage: ClientStage) -> None:
    """As those of copilot, crow and vibe do."""
    heard = await opening(stage)
    commands = [{"name": "help", "description": "Helps"}]
    stage.update("available_commands_update", availableCommands=commands)
    stage.answer_as(heard, {"sessionId": SESSION})
    what = "an update before the answer to session/new"
    await stage.survived(await prompted_after(stage, what), what)


@probe("client.order.02")
async def text_may_come_before_the_prompt(stage: ClientStage) -> None:
    """As codex runs whole turns by itself."""
    heard = await opening(stage)
    session = stage.session if stage.dialect == "2025.1" else SESSION
    stage.answer_as(heard, {"sessionId": session})
    stage.chunk("before the prompt\n")
    what = "text before the first prompt"
    await stage.survived(await prompted_after(stage, what), what)


@probe("client.order.03")
async def updates_may_come_after_the_turn(stage: ClientStage) -> None:
    """In the same breath as the answer."""
    prompt = await stage.begun()
    stage.end(prompt)
    stage.update("usage_update", used=10, size=1000)
    stage.update("session_info_update", title="A session")
    ending = await stage.over()
    stage.require(not ending.crashed, f"an update after the turn broke the client: {ending.words()}")


def _seen(stage: ClientStage, ending: Ending, mark: str) -> list[int]:
    """The numbers that stand behind a mark in what the client showed; a client that shows nothing is none of this."""
    if "check-begin" not in ending.shown:
        stage.unsure("the client does not show the agent's text on its standard output")
    return [int(number) for number in re.findall(rf"{mark}-(\d+)\.", ending.shown)]


@probe("client.order.04")
async def text_is_shown_in_order(stage: ClientStage) -> None:
    """A long piece first, then short ones: handlers that run side by side overtake each other."""
    prompt = await stage.begun()
    stage.chunk(f"piece-0. {'long ' * (LONG // 5)}\n")
    for number in range(1, 20):
        stage.chunk(f"piece-{number}.\n")
    stage.end(prompt)
    seen = _seen(stage, await stage.over(), "piece")
    stage.require(seen == sorted(seen), f"twenty pieces of text were shown in the order {seen}")
    stage.require(seen, "of twenty pieces of text none was shown")


@probe("client.order.05")
async def all_text_is_shown(stage: ClientStage) -> None:
    """The answer comes in the same breath as the last pieces."""
    prompt = await stage.begun()
    for number in range(50):
        stage.chunk(f"tail-{number}. {'word ' * 40}\n")
    stage.end(prompt)
    seen = _seen(stage, await stage.over(), "tail")
    missing = sorted(set(range(50)) - set(seen))
    stage.require(not missing, f"the pieces {missing} of fifty were never shown")


@probe("client.order.06")
async def floods_are_borne(stage: ClientStage) -> None:
    """No reader may fall over, and none may stop."""
    prompt = await stage.begun()
    for number in range(FLOOD):
        stage.chunk(f"flood-{number}.\n")
    await stage.flush()
    await stage.survived(prompt, f"{FLOOD} updates")


@probe("client.order.07")
async def unannounced_calls_may_be_asked_for(stage: ClientStage) -> None:
    """As hermes, openhands, qwen and deepagents do."""
    prompt = await stage.begun()
    heard = await stage.answered(question(stage, "unannounced", "leave"))
    stage.require(heard is not None, "a question about a tool call nobody announced was never answered")
    assert heard is not None
    stage.require("result" in heard.message, "a question about a tool call nobody announced got an error", heard)
    stage.end(prompt)


@probe("client.order.08")
async def a_turn_may_end_with_a_question_open(stage: ClientStage) -> None:
    """As all agents do when they are cancelled."""
    prompt = await stage.begun()
    stage.update("tool_call", toolCallId="open", title="Write", kind="edit", status="pending")
    question(stage, "open", "leave")
    stage.end(prompt)
    await stage.concluded("a turn that ended with a question open")


async def cancelled(stage: ClientStage) -> tuple[Heard, Heard]:
    """Press Ctrl-C in a turn; gives prompt and cancel, or is inconclusive."""
    prompt = await stage.begun()
    if not await stage.fence():
        await stage.silence()
    stage.grounds.interrupt()
    wait = stage.pace.answer if stage.grounds.is_watched else stage.pace.turn
    heard = await stage.until(lambda heard: heard.method == "session/cancel", wait)
    if heard is None:
        stage.unsure("the client sent no cancel on Ctrl-C")
    assert heard is not None
    return prompt, heard


@probe("client.order.09")
async def a_cancel_is_a_notification(stage: ClientStage) -> None:
    """Agents that get a request for it answer with an error."""
    prompt, heard = await cancelled(stage)
    stage.require("id" not in heard.message, "session/cancel came as a request", heard)
    session = heard.params.get("sessionId") if isinstance(heard.params, dict) else None
    stage.require(session == stage.session, f"session/cancel names the session {session!r}", heard)
    stage.end(prompt, "cancelled")


@probe("client.order.10")
async def questions_after_a_cancel_are_answered_with_it(stage: ClientStage) -> None:
    """A question that was on its way when the user cancelled."""
    prompt, _ = await cancelled(stage)
    stage.update("tool_call", toolCallId="crossed", title="Write", kind="edit", status="pending")
    heard = await stage.answered(question(stage, "crossed", "leave"))
    stage.require(heard is not None, "a question after a cancel was never answered")
    assert heard is not None
    outcome = heard.message.get("result", {}).get("outcome") if isinstance(heard.message.get("result"), dict) else None
    chosen = outcome.get("outcome") if isinstance(outcome, dict) else None
    stage.require(chosen == "cancelled", f"a question after a cancel was answered with {outcome or 'an error'}", heard)
    stage.end(prompt, "cancelled")


@probe("client.order.11")
async def updates_after_a_cancel_are_taken(stage: ClientStage) -> None:
    """Agents flush what they have before they answer."""
    prompt, _ = await cancelled(stage)
    stage.chunk("still here\n")
    await stage.fence()
    stage.require(stage.gone is None, "the client left before its cancelled prompt was answered")
    stage.end(prompt, "cancelled")
    await stage.concluded("an update after a cancel")


@probe("client.order.12")
async def a_cancelled_turn_may_end_like_any_other(stage: ClientStage) -> None:
    """As gptme and openhands do."""
    prompt, _ = await cancelled(stage)
    stage.end(prompt, "end_turn")
    await stage.concluded("a cancelled turn that ended with end_turn")


@probe("client.order.13")
async def a_cancelled_turn_may_fail(stage: ClientStage) -> None:
    """As hermes does."""
    prompt, _ = await cancelled(stage)
    stage.refuse(prompt, -32099, "'NoneType' object has no attribute 'startswith'")
    await stage.concluded("a cancelled turn that ended with an error")


@probe("client.order.14")
async def tool_calls_may_stay_open(stage: ClientStage) -> None:
    """As those of copilot, kimi, fast-agent, hermes and deepagents do."""
    prompt = await stage.begun()
    stage.update("tool_call", toolCallId="unfinished", title="Run", kind="execute", status="in_progress")
    stage.end(prompt)
    await stage.concluded("a turn that ended with a tool call in progress")


@probe("client.order.15")
async def text_may_come_after_a_cancelled_answer(stage: ClientStage) -> None:
    """As from claude."""
    prompt = await stage.begun()
    stage.end(prompt, "cancelled")
    stage.chunk("one more thing\n")
    ending = await stage.over()
    stage.require(not ending.crashed, f"text after a cancelled answer broke the client: {ending.words()}")


@probe("client.order.16")
async def requests_are_answered_in_a_turn(stage: ClientStage) -> None:
    """Else the agent waits for the client and the client for the agent."""
    prompt = await stage.begun()
    heard = await stage.answered(stage.call("_vendor/in_turn", {}))
    stage.require(heard is not None, "a request was not answered while the prompt was open")
    stage.end(prompt)


@probe("client.order.17")
async def no_prompt_follows_before_the_answer(stage: ClientStage) -> None:
    """Agents handle a second prompt in seven different ways."""
    prompt, _ = await cancelled(stage)
    heard = await stage.silence(5 * stage.pace.quiet)
    again = [each for each in heard if each.method == "session/prompt"]
    stage.require(not again, "the client prompts again before its cancelled prompt was answered", *again)
    stage.end(prompt, "cancelled")


@probe("client.order.18")
async def history_may_come_before_the_session(stage: ClientStage) -> None:
    """As opencode replays it when it forks."""
    heard = await opening(stage)
    stage.session = SESSION
    stage.update("user_message_chunk", content={"type": "text", "text": "an older question"})
    stage.update("agent_message_chunk", content={"type": "text", "text": "an older answer"})
    stage.answer_as(heard, {"sessionId": SESSION})
    what = "a history before the answer to session/new"
    await stage.survived(await prompted_after(stage, what), what)


@probe("client.order.19")
async def open_requests_are_taken_back_by_id(stage: ClientStage) -> None:
    """Else the agent ends something else."""
    prompt, _ = await cancelled(stage)
    await stage.silence()
    taken = [heard for heard in stage.heard if heard.message.get("method") == "$/cancel_request"]
    stage.end(prompt, "cancelled")
    if not taken:
        stage.skip("the client cancels by session/cancel alone")
    wrong = [heard for heard in taken if (heard.message.get("params") or {}).get("requestId") != prompt.message["id"]]
    stage.require(not wrong, "a request was taken back that is not open", *wrong)
