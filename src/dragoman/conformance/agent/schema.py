"""Everything an agent sends in a long exchange, by the letter of the official schema."""

from __future__ import annotations

import time
from collections.abc import Iterator

from dragoman.conformance import official_schema
from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.official_schema import ERROR, Schema
from dragoman.conformance.requirement import must, should
from dragoman.engine.peer_info import offers

# The turns of the exchange, as far as there are prompts for them and time.
PURPOSES = (
    *("plain", "read", "write", "run", "edit", "ask", "plan", "think", "image", "audio", "resource", "usage", "title"),
    *("mode", "option", "form", "link", "notice", "compact", "error", "refuse"),
)


async def _exchange(agent: AgentUnderTest) -> None:
    """Use everything that the agent offers."""
    await agent.open_session()
    end = time.monotonic() + agent.timeouts.probe / 2
    for purpose in filter(agent.has_prompt, PURPOSES):
        if time.monotonic() < end:
            await agent.try_turn(purpose)
    for mode in agent.available_modes()[:1]:
        await agent.request("session/set_mode", {"sessionId": agent.session, "modeId": mode})
    await agent.request("no/such_method", {})
    same = {"sessionId": agent.session, "cwd": agent.cwd, "mcpServers": []}
    if offers("agent.sessionCapabilities.list", agent.capabilities):
        await agent.request("session/list", {})
    for gate, method in (
        ("sessionCapabilities.fork", "session/fork"),
        ("sessionCapabilities.resume", "session/resume"),
        ("loadSession", "session/load"),
        ("sessionCapabilities.close", "session/close"),
        ("sessionCapabilities.delete", "session/delete"),
    ):
        if offers(f"agent.{gate}", agent.capabilities):
            with_folder = method not in ("session/close", "session/delete")
            await agent.request(method, same if with_folder else {"sessionId": agent.session}, agent.timeouts.turn)
    await agent.collect()


def _parts(agent: AgentUnderTest) -> Iterator[tuple[ReceivedFrame, str, Json, Schema]]:
    """Return params, results and errors with their schemas; methods that the schema does not know have none."""
    for frame in agent.received:
        if not isinstance(frame.message, dict):
            continue
        method = frame.message.get("method")
        if isinstance(method, str):
            found = [("params", method, official_schema.definition("params", method))]
        elif "error" in frame.message:
            found = [("error", agent.method_answered(frame), ERROR)]
        else:
            answered = agent.method_answered(frame)
            found = [("result", answered, official_schema.definition("result", answered))]
        for part, name, schema in found:
            if schema is not None:
                yield frame, f"the {part} of {name or 'an answer'}", frame.message.get(part), schema


@must("agent.schema.01", "README.md#official-sources")
async def messages_follow_the_schema(agent: AgentUnderTest) -> None:
    """Every message of a long exchange is valid by the official schema."""
    await _exchange(agent)
    for frame, name, value, schema in _parts(agent):
        if problem := official_schema.problem(value, schema, name):
            agent.require(False, problem, frame)


@should("agent.schema.02", "extensions.md#meta, extensions.md#unknown-members")
async def own_data_is_in_meta(agent: AgentUnderTest) -> None:
    """Params and results have no members of the agent's own; those belong under _meta."""
    await _exchange(agent)
    for frame, name, value, schema in _parts(agent):
        if unknown := official_schema.unknown_members(value, schema):
            agent.require(False, f"{name} has {', '.join(unknown)}, which the schema does not name", frame)
