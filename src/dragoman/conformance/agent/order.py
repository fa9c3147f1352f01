"""The order of an agent's messages."""

from __future__ import annotations

import re

from dragoman.conformance.agent.cancel import SAID
from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.requirement import must, should

_NUMBER = re.compile(r"chunk (\d+)")


@should("agent.order.01", "peers.md#early-updates, peers.md#updates-before-new", "v1 banjo crow draft")
async def sessions_are_named_first(agent: AgentUnderTest) -> None:
    """No update comes before the answer that names its session."""
    await agent.initialize()
    answer = agent.assume(await agent.request_session(), "session/new was not answered")
    agent.require_none(agent.updates(), "an update came before the answer to session/new", answer)


@should("agent.order.02", "peers.md#updates-outside-turns, peers.md#lost-tail")
async def turns_end_last(agent: AgentUnderTest) -> None:
    """All updates of a turn come before its answer."""
    turn = await agent.run_turn("plain")
    late = [frame for frame in await agent.collect() if frame.kind in SAID]
    agent.require_none(late, "an update of a turn came after its answer", turn.answer)


@should("agent.order.03", "peers.md#updates-outside-turns")
async def nothing_is_sent_outside(agent: AgentUnderTest) -> None:
    """Nothing is sent to the user outside of a turn."""
    await agent.open_session()
    found = [frame for frame in await agent.collect() if frame.kind in SAID]
    agent.require_none(found, "a message to the user came outside of a turn")


@must("agent.order.04", "updates.md#frame, peers.md#sdk-order")
async def pieces_keep_their_order(agent: AgentUnderTest) -> None:
    """Pieces of a message come in the order in which they were produced."""
    turn = await agent.run_turn("stream")
    text = agent.turn_text(turn)
    numbers = [int(found) for found in _NUMBER.findall(text)] or [int(found) for found in re.findall(r"\d+", text)]
    agent.assume(len(numbers) >= 5, "the agent did not count")
    agent.require(numbers == sorted(numbers), f"the pieces came as {numbers[:60]}")


@must("agent.order.05", "json-rpc.md#concurrency")
async def turns_do_not_block(agent: AgentUnderTest) -> None:
    """Requests are answered while a turn runs."""
    async with agent.slow_turn():
        frame = await agent.request("no/such_method", {})
        agent.require(frame, "a request was not answered while a turn ran")


@should("agent.order.06", "peers.md#prompt-echo", "v1 banjo")
async def the_user_is_not_echoed(agent: AgentUnderTest) -> None:
    """The user's prompt is not echoed during its turn."""
    turn = await agent.run_turn("plain")
    found = agent.updates("user_message_chunk", start=turn.start)
    agent.require_none(found, "the user's prompt was echoed in the turn")


@should("agent.order.07", "peers.md#early-updates", "v1", needs="agent.sessionCapabilities.fork")
async def forks_are_named_first(agent: AgentUnderTest) -> None:
    """The history of a fork is not sent before the answer that names it."""
    await agent.run_turn("plain")
    params = {"sessionId": agent.session, "cwd": agent.cwd, "mcpServers": []}
    answer = await agent.request("session/fork", params, agent.timeouts.turn)
    answer = agent.assume_result(answer, "the session could not be forked")
    fork = answer.result.get("sessionId")
    why = "the fork has the id of its original, so the updates cannot be distinguished"
    agent.assume(fork != agent.session, why, answer)
    found = [frame for frame in agent.updates() if frame.params.get("sessionId") == fork]
    agent.require(not found, "updates of a fork came before the answer that names it", *found[:5], answer)


@must("agent.order.08", "json-rpc.md#concurrency", "v1 banjo draft")
async def questions_do_not_block(agent: AgentUnderTest) -> None:
    """Requests are answered while the agent waits for the client."""
    turn, question = await agent.wait_question("ask")
    frame = await agent.request("no/such_method", {})
    agent.require(frame, "a request was not answered while the agent waited for permission", question)
    await agent.cancel_question(turn, question)


@must("agent.order.09", "sessions.md#modes", "v1 banjo")
async def modes_change_in_a_turn(agent: AgentUnderTest) -> None:
    """A mode can be chosen while a turn runs."""
    await agent.open_session()
    modes = agent.skip_unless(agent.available_modes(), "the agent has no modes")
    async with agent.slow_turn():
        frame = await agent.request_in_dialect("session/set_mode", {"sessionId": agent.session, "modeId": modes[-1]})
        agent.require_result(frame, "a mode chosen while a turn runs")


@must("agent.order.10", "sessions.md#many-at-once")
async def sessions_open_in_a_turn(agent: AgentUnderTest) -> None:
    """A session can be opened while a turn runs."""
    async with agent.slow_turn():
        agent.require_result(await agent.request_session("two"), "a session opened while a turn runs")
