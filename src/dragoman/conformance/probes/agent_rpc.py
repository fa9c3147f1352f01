"""Probes of JSON-RPC at an agent."""

from __future__ import annotations

from dragoman.conformance import spoken
from dragoman.conformance.agent_stage import AgentStage
from dragoman.conformance.probe import probe


@probe("agent.rpc.01")
async def a_string_id_comes_back(stage: AgentStage) -> None:
    """Any string may be an id, one of digits too."""
    await stage.initialized()
    id = stage.call("session/new", spoken.new_session(stage.dialect, stage.cwd, "one"), id="17")
    heard = await stage.until(lambda heard: heard.is_reply)
    stage.require(heard is not None, "a request with a string id was not answered")
    assert heard is not None
    stage.require(heard.message.get("id") == id, f"the answer's id is {heard.message.get('id')!r}, not '17'", heard)


@probe("agent.rpc.02")
async def notifications_get_no_answer(stage: AgentStage) -> None:
    """Known and unknown notifications; an answer would come before that to the request behind them."""
    await stage.initialized()
    stage.tell("no/such_notification", {})
    stage.tell("_vendor/notification", {})
    heard = [each for each in await stage.silence() if each.is_reply]
    stage.require(not heard, "a notification was answered", *heard)


@probe("agent.rpc.03")
async def unknown_methods_are_refused(stage: AgentStage) -> None:
    """A method nobody knows."""
    await stage.initialized()
    heard = await stage.asked("no/such_method", {})
    stage.require(heard is not None, "a request of an unknown method was not answered")
    assert heard is not None
    error = heard.message.get("error")
    stage.require(isinstance(error, dict), "a request of an unknown method was answered with a result", heard)
    stage.require(error.get("code") == -32601, f"the code is {error.get('code')}, not -32601", heard)
