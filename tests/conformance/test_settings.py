"""What the user says about an agent is done before each probe: a login, a mode, a model, options."""

from __future__ import annotations

import json

from dragoman import Agent, Turn
from dragoman.conformance.harness.settings import AgentSettings
from dragoman.conformance.requirement import requirements
from dragoman.conformance.verdict import Outcome, Verdict
from dragoman.transport.base import Transport
from tests.conformance.checked_agents import check_all, our_agent
from tests.conformance.memory_agent import MemoryAgent


def _check(target: MemoryAgent, id: str) -> Verdict:
    return check_all(target, [requirements()[id]])[id]


def _sent(verdict: Verdict) -> list[tuple[str, dict[str, object]]]:
    """The calls that were sent, without their session ids."""
    sent = [json.loads(each.text) for each in verdict.evidence if each.dir == "out"]
    calls = [(each["method"], dict(each["params"])) for each in sent if "method" in each]
    return [(method, {name: item for name, item in params.items() if name != "sessionId"}) for method, params in calls]


def test_mode_model_and_options_are_set_in_each_session() -> None:
    target = our_agent("v1")
    target.settings = AgentSettings(mode="code", model="loud", options=[("verbose", "true")])
    verdict = _check(target, "agent.prompt.01")
    assert [params for method, params in _sent(verdict) if method.startswith("session/set")] == [
        {"modeId": "code"},
        {"configId": "model", "value": "loud"},
        {"configId": "verbose", "type": "boolean", "value": True},
    ]
    assert verdict.outcome is Outcome.PASS


def test_a_mode_that_the_agent_refuses_is_inconclusive() -> None:
    target = our_agent("v1")
    target.settings = AgentSettings(mode="no-such-mode")
    verdict = _check(target, "agent.prompt.01")
    assert (verdict.outcome, verdict.why) == (Outcome.INCONCLUSIVE, "the agent refused the mode 'no-such-mode'")


def _agent_with_login(settings: AgentSettings | None) -> MemoryAgent:
    agent = Agent("locked", version="1", auth_required=True)

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.say("hello")

    @agent.authenticate("key")
    async def log_in(credentials: dict[str, str]) -> None:
        """Accept everybody."""

    async def serve(transport: Transport) -> None:
        await agent.serve(transport, report=lambda _: None)

    return MemoryAgent(serve, "v1", settings=settings)


def test_an_agent_that_needs_a_login_is_checked_after_it() -> None:
    assert _check(_agent_with_login(None), "agent.prompt.01").outcome is Outcome.INCONCLUSIVE
    target = _agent_with_login(AgentSettings(auth_method="key"))
    assert _check(target, "agent.prompt.01").outcome is Outcome.PASS
    assert _check(target, "agent.auth.09").outcome is Outcome.PASS


def test_an_input_that_is_only_in_the_permission_request_counts() -> None:
    agent = Agent("asks", version="1")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        async with turn.tool("Read", kind="read") as call:
            call.input = {"path": "notes"}
            await call.ask_permission()

    async def serve(transport: Transport) -> None:
        await agent.serve(transport, report=lambda _: None)

    assert _check(MemoryAgent(serve, "v1"), "agent.toolcall.15").outcome is Outcome.PASS
