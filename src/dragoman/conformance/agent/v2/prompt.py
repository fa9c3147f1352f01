"""Prompts of a v2 agent: insertion, receipts, held prompts, errors."""

from __future__ import annotations

from dragoman.conformance.agent.prompt import PICTURE
from dragoman.conformance.agent.v2.rpc import INVALID_PARAMS
from dragoman.conformance.agent.v2.work import (
    Work,
    ends,
    run_work,
    start_slow_work,
    start_work,
    state,
    states,
    try_work,
    updates,
    wait_end,
    wait_receipt,
    wait_update,
    wire,
)
from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.json_shape import non_empty
from dragoman.conformance.requirement import may, must, should

STOPS = frozenset({"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error"})
IMAGE = {"type": "image", "data": PICTURE, "mimeType": "image/png"}
CONTENT = ("agent_message_chunk", "agent_message", "agent_thought_chunk", "tool_call_update")


async def _prompt(agent: AgentUnderTest, blocks: Json) -> ReceivedFrame | None:
    if not agent.session:
        await agent.open_session()
    return await agent.request("session/prompt", {"sessionId": agent.session, "prompt": blocks}, agent.timeouts.turn)


def _own_message(agent: AgentUnderTest, work: Work) -> list[ReceivedFrame]:
    found = updates(agent, "user_message", "user_message_chunk", start=work.start, session=work.session)
    return [frame for frame in found if wire(frame).get("messageId") == work.message_id]


@must("agent.v2prompt.01", "v2.md#insertion")
async def prompts_have_a_receipt(agent: AgentUnderTest) -> None:
    """A prompt is answered with the id of the user's message."""
    work = await start_work(agent, "plain")
    agent.require_result(await wait_receipt(agent, work), "a prompt", {"messageId": non_empty})


@must("agent.v2prompt.02", "v2.md#insertion")
async def the_users_message_is_sent(agent: AgentUnderTest) -> None:
    """The agent sends the user's message with the id of the receipt."""
    work = await run_work(agent, "plain")
    agent.assume(work.message_id, "the receipt has no id", work.receipt)
    others = updates(agent, "user_message", "user_message_chunk", start=work.start)
    agent.require(_own_message(agent, work), "no user message has the id of the receipt", work.receipt, *others[:1])


@must("agent.v2prompt.03", "v2.md#insertion")
async def the_users_message_is_complete(agent: AgentUnderTest) -> None:
    """The user's message has the text of the prompt."""
    work = await run_work(agent, "plain")
    own = agent.assume(_own_message(agent, work), "the user's message was not sent")
    text = ""
    for frame in own:
        content = wire(frame).get("content")
        blocks = content if isinstance(content, list) else [content]
        text += "".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))
    agent.require(text == agent.prompt_for("plain"), "the user's message has another text than the prompt", *own)


@must("agent.v2prompt.04", "v2.md#insertion")
async def a_receipt_has_no_stop_reason(agent: AgentUnderTest) -> None:
    """The answer to a prompt has no stop reason: the state tells the end."""
    work = await start_work(agent, "plain")
    frame = agent.assume_result(await wait_receipt(agent, work), "the prompt was not answered")
    agent.require("stopReason" not in frame.result, "the answer to a prompt has a stop reason", frame)


@must("agent.v2prompt.05", "v2.md#insertion")
async def prompts_are_answered_at_once(agent: AgentUnderTest) -> None:
    """A prompt is answered while its work still goes on."""
    work = await start_work(agent, "slow")
    frame = agent.require(await wait_receipt(agent, work), "a prompt was not answered while its work went on")
    agent.assume("result" in frame.message, "the prompt was refused", frame)


@must("agent.v2prompt.06", "v2.md#states")
async def work_begins_with_running(agent: AgentUnderTest) -> None:
    """The beginning of work is told by the state running."""
    work = await run_work(agent, "plain")
    told = [state(frame) for frame in states(agent, work.start)]
    agent.require("running" in told, "the agent worked and did not tell running", work.idle)


@must("agent.v2prompt.07", "v2.md#states")
async def work_ends_with_idle(agent: AgentUnderTest) -> None:
    """The end of work is told by the state idle."""
    work = await try_work(agent, "plain")
    agent.assume_result(work.receipt, "the prompt was not answered")
    agent.require(work.idle, "the agent did not tell idle at the end of its work", work.receipt)


@should("agent.v2prompt.08", "v2.md#states")
async def idle_has_a_stop_reason(agent: AgentUnderTest) -> None:
    """The idle that ends work has a stop reason."""
    work = await run_work(agent, "plain")
    assert work.idle is not None
    agent.require(wire(work.idle).get("stopReason"), "idle has no stop reason", work.idle)


@must("agent.v2prompt.09", "v2.md#states")
async def stop_reasons_are_known(agent: AgentUnderTest) -> None:
    """A stop reason is one of the protocol's, or begins with an underscore."""
    work = await run_work(agent, "plain")
    assert work.idle is not None
    reason = agent.assume(wire(work.idle).get("stopReason"), "idle has no stop reason", work.idle)
    agent.require(reason in STOPS or str(reason).startswith("_"), f"the stop reason {reason!r} is unknown", work.idle)


@must("agent.v2prompt.10", "v2.md#states")
async def content_comes_before_idle(agent: AgentUnderTest) -> None:
    """No content of the work comes after its idle."""
    work = await run_work(agent, "tour")
    late = [frame for frame in await agent.collect() if wire(frame).get("sessionUpdate") in CONTENT]
    agent.require_none(late, "content came after idle", work.idle)


@must("agent.v2prompt.11", "v2.md#states")
async def work_ends_once(agent: AgentUnderTest) -> None:
    """The end of work is told once."""
    work = await run_work(agent, "plain")
    await agent.collect()
    told = [frame for frame in states(agent, work.start) if wire(frame).get("stopReason")]
    agent.require(len(told) < 2, "the end of one work was told twice", *told)


@should("agent.v2prompt.12", "v2.md#insertion")
async def empty_prompts_are_refused(agent: AgentUnderTest) -> None:
    """A prompt without content is refused with -32602."""
    agent.require_error(await _prompt(agent, []), "a prompt without content", INVALID_PARAMS)


@must("agent.v2prompt.13", "v2.md#insertion")
async def unknown_blocks_are_refused(agent: AgentUnderTest) -> None:
    """A prompt with an unknown kind of content is refused with -32602."""
    frame = await _prompt(agent, [{"type": "scent", "data": "rose"}])
    agent.require_error(frame, "a prompt with an unknown kind of content", INVALID_PARAMS)


@must("agent.v2prompt.14", "v2.md#insertion")
async def links_are_accepted(agent: AgentUnderTest) -> None:
    """A prompt with a link is accepted."""
    await agent.open_session()
    agent.require_result(await _prompt(agent, [agent.file_link()]), "a prompt with a link")


@must("agent.v2prompt.15", "v2.md#insertion", needs="agent.promptCapabilities.image")
async def announced_images_are_accepted(agent: AgentUnderTest) -> None:
    """An agent that announces images accepts a prompt with one."""
    await agent.open_session()
    agent.require_result(await _prompt(agent, [IMAGE]), "a prompt with an image")


@must("agent.v2prompt.16", "v2.md#states")
async def failures_are_states(agent: AgentUnderTest) -> None:
    """A failure after the insertion is idle with the stop reason error, or the prompt is refused."""
    await agent.open_session()
    work = await try_work(agent, "failure" if agent.has_prompt("failure") else "error")
    receipt = agent.require(work.receipt, "a prompt that fails was not answered")
    if "error" in receipt.message:
        agent.require_none(_own_message(agent, work), "a prompt was inserted and then refused", receipt)
        return
    idle = agent.require(work.idle, "work that failed did not end with idle", receipt)
    agent.require(wire(idle).get("stopReason") == "error", "work that failed has another stop reason than error", idle)


@must("agent.v2prompt.17", "v2.md#held-prompts")
async def busy_is_no_reason_to_refuse(agent: AgentUnderTest) -> None:
    """A prompt that comes during work is not refused."""
    work = await start_slow_work(agent)
    second = await start_work(agent, "plain")
    await agent.collect()
    refused = [frame for frame in agent.replies(second.id) if "error" in frame.message]
    agent.require_none(refused, "a prompt was refused because another one is worked on")
    agent.cancel()
    await wait_end(agent, work)


@must("agent.v2prompt.18", "v2.md#held-prompts")
async def a_held_prompt_is_worked_on(agent: AgentUnderTest) -> None:
    """A prompt that comes during work is inserted, and worked on to its end."""
    first = await start_work(agent, "stream")
    second = await start_work(agent, "plain")
    await wait_end(agent, first)
    receipt = agent.require(await wait_receipt(agent, second), "a prompt that came during work was never answered")
    agent.assume("result" in receipt.message, "the second prompt was refused", receipt)
    if not _ends_after(agent, receipt):
        await agent.wait_for(lambda _: _ends_after(agent, receipt), agent.timeouts.turn)
    agent.require(_ends_after(agent, receipt), "the work of a held prompt did not end", receipt)


def _ends_after(agent: AgentUnderTest, receipt: ReceivedFrame) -> bool:
    """Return whether an idle came after this receipt."""
    later = agent.received[agent.received.index(receipt) :]
    return any(state(frame) == "idle" for frame in later)


@must("agent.v2prompt.19", "v2.md#held-prompts")
async def prompts_are_inserted_in_order(agent: AgentUnderTest) -> None:
    """Prompts are inserted in the order in which they came."""
    works = [await start_work(agent, purpose) for purpose in ("stream", "plain", "think")]
    for work in works:
        await wait_receipt(agent, work)
    answered = [frame.message["id"] for frame in agent.received if frame.is_reply]
    ids = [work.id for work in works]
    agent.assume(all(id in answered for id in ids), "not every prompt was answered")
    in_order = [id for id in answered if id in ids]
    agent.require(in_order == ids, "prompts were inserted in another order than they came", agent.received[-1])


@must("agent.v2prompt.20", "v2.md#insertion")
async def each_prompt_has_its_own_id(agent: AgentUnderTest) -> None:
    """Two prompts get different message ids."""
    first, second = await run_work(agent, "plain"), await run_work(agent, "plain")
    is_new = first.message_id != second.message_id or not first.message_id
    agent.require(is_new, "two prompts have the same message id", first.receipt, second.receipt)


@must("agent.v2prompt.21", "v2.md#held-prompts")
async def sessions_work_at_the_same_time(agent: AgentUnderTest) -> None:
    """Work in one session does not hold a prompt of another."""
    first, second = await agent.open_two_sessions()
    await start_slow_work(agent, "slow", first)
    work = await try_work(agent, "plain", second)
    agent.require(work.idle, "a prompt waits for the work of another session", work.receipt)


@must("agent.v2prompt.22", "v2.md#insertion")
async def answers_are_not_the_users(agent: AgentUnderTest) -> None:
    """The agent's message has another id than the user's."""
    work = await run_work(agent, "plain")
    ids = {wire(each).get("messageId") for each in updates(agent, "agent_message_chunk", "agent_message")}
    agent.assume(ids, "the agent said nothing")
    agent.require(work.message_id not in ids, "the agent's message has the id of the user's", work.receipt)


@may("agent.v2prompt.23", "v2.md#held-prompts")
async def a_joined_prompt_is_part_of_the_work(agent: AgentUnderTest) -> None:
    """A prompt that joins running work is answered during it, and the work ends once."""
    await agent.open_session()
    agent.skip_unless(agent.has_prompt("steer"), "no prompt makes this agent take others")
    work = await start_work(agent, "steer")
    agent.assume(await wait_update(agent, "agent_message_chunk"), "the agent said nothing")
    second = await start_work(agent, "plain")
    receipt = agent.assume_result(await wait_receipt(agent, second), "the second prompt was not answered")
    agent.assume(second.message_id, "the receipt has no id", receipt)
    agent.skip_unless(not ends(agent, work), "the agent holds prompts until its work is over")
    await wait_end(agent, work)
    await agent.collect()
    agent.require(_own_message(agent, second), "a prompt that joined the work has no message", receipt)
    agent.require(len(ends(agent, work)) == 1, "work with a joined prompt ended more than once", *ends(agent, work))
