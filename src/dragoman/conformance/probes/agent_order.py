"""Probes of order at an agent."""

from __future__ import annotations

import re

from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import AgentStage
from dragoman.conformance.harness.peer import Heard
from dragoman.conformance.probe import probe
from dragoman.conformance.probes.agent_cancel import SAID, asked, running

_NUMBER = re.compile(r"chunk (\d+)")


@probe("agent.order.01")
async def sessions_are_named_first(stage: AgentStage) -> None:
    """A client cannot know whom an earlier update is about."""
    await stage.initialized()
    answer = await stage.asked("session/new", hello.new_session(stage.dialect, stage.cwd, "one"))
    if answer is None:
        stage.unsure("session/new was not answered")
    early = stage.updates()
    stage.require(not early, "an update came before the answer to session/new", *early, answer)


@probe("agent.order.02")
async def turns_end_last(stage: AgentStage) -> None:
    """Clients that stop listening at the answer lose the rest."""
    turn = await stage.did("plain")
    late = [heard for heard in await stage.silence() if heard.kind in SAID]
    stage.require(not late, "something was said in a turn after its answer", turn.answer, *late)


@probe("agent.order.03")
async def nothing_is_said_outside(stage: AgentStage) -> None:
    """A session is open, and nobody prompted."""
    await stage.opened()
    found = [heard for heard in await stage.silence() if heard.kind in SAID]
    stage.require(not found, "something was said to the user outside of a turn", *found)


@probe("agent.order.04")
async def pieces_keep_their_order(stage: AgentStage) -> None:
    """Where the words are known, so is their order."""
    turn = await stage.did("stream")
    text = stage.text(turn)
    numbers = [int(found) for found in _NUMBER.findall(text)] or [int(found) for found in re.findall(r"\d+", text)]
    if len(numbers) < 5:
        stage.unsure("the agent did not count")
    stage.require(numbers == sorted(numbers), f"the pieces came as {numbers[:60]}")


@probe("agent.order.05")
async def turns_do_not_block(stage: AgentStage) -> None:
    """Something that needs no model."""
    turn = await running(stage)
    heard = await stage.asked("no/such_method", {})
    stage.require(heard, "a request was not answered while a turn ran")
    stage.cancel()
    await stage.ended(turn)


@probe("agent.order.06")
async def the_user_is_not_echoed(stage: AgentStage) -> None:
    """The client shows the prompt already."""
    turn = await stage.did("plain")
    found = stage.updates("user_message_chunk", turn.start)
    stage.require(not found, "the user's words were told back in the turn", *found)


@probe("agent.order.07")
async def forks_are_named_first(stage: AgentStage) -> None:
    """Whatever is told of the fork."""
    await stage.did("plain")
    params = {"sessionId": stage.session, "cwd": stage.cwd, "mcpServers": []}
    answer = await stage.asked("session/fork", params, stage.pace.turn)
    if answer is None or not isinstance(answer.message.get("result"), dict):
        stage.unsure("the session could not be forked", answer)
    assert answer is not None
    fork = answer.message["result"].get("sessionId")
    if fork == stage.session:
        stage.unsure("the fork has the id of its original, so it cannot be told what is about which", answer)

    def early(heard: Heard) -> bool:
        return bool(heard.kind) and isinstance(heard.params, dict) and heard.params.get("sessionId") == fork

    found = [heard for heard in stage.heard if early(heard)]
    stage.require(not found, "updates of a fork came before the answer that names it", *found[:5], answer)


@probe("agent.order.08")
async def questions_do_not_block(stage: AgentStage) -> None:
    """A question for leave is open."""
    turn, question = await asked(stage)
    heard = await stage.asked("no/such_method", {})
    stage.require(heard, "a request was not answered while the agent waited for leave", question)
    stage.cancel()
    stage.answer_question(question, {"outcome": {"outcome": "cancelled"}})
    await stage.ended(turn)


@probe("agent.order.09")
async def modes_change_in_a_turn(stage: AgentStage) -> None:
    """People change their mind while the agent works."""
    await stage.opened()
    modes = stage.setup.get("modes")
    if not isinstance(modes, dict) or not modes.get("availableModes"):
        stage.skip("the agent has no modes")
    turn = await running(stage)
    mode = modes["availableModes"][-1]["id"]
    heard = await stage.requested("session/set_mode", {"sessionId": stage.session, "modeId": mode})
    stage.granted(heard, "a mode chosen while a turn runs")
    stage.cancel()
    await stage.ended(turn)


@probe("agent.order.10")
async def sessions_open_in_a_turn(stage: AgentStage) -> None:
    """Another window of the same editor."""
    turn = await running(stage)
    heard = await stage.asked("session/new", hello.new_session(stage.dialect, stage.cwd, "two"))
    stage.granted(heard, "a session opened while a turn runs")
    stage.cancel(turn.session)
    await stage.ended(turn)
