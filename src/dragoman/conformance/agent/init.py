"""The answer of an agent to initialize."""

from __future__ import annotations

from typing import Any

from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.harness.peer import Json
from dragoman.conformance.json_shape import non_empty
from dragoman.conformance.requirement import must, should
from dragoman.engine.peer_info import offers

UNHEARD_OF = 65535  # the largest version that can be said

# Optional methods with their capability, and params that name an unknown session.
OPTIONAL: dict[str, tuple[str, dict[str, Any]]] = {
    "session/load": ("agent.loadSession", {"sessionId": "none", "cwd": "/", "mcpServers": []}),
    "session/resume": ("agent.sessionCapabilities.resume", {"sessionId": "none", "cwd": "/", "mcpServers": []}),
    "session/list": ("agent.sessionCapabilities.list", {}),
    "session/delete": ("agent.sessionCapabilities.delete", {"sessionId": "none"}),
    "session/close": ("agent.sessionCapabilities.close", {"sessionId": "none"}),
    "session/fork": ("agent.sessionCapabilities.fork", {"sessionId": "none", "cwd": "/", "mcpServers": []}),
}


@must("agent.init.01", "initialize.md#result")
async def initialize_is_answered(agent: AgentUnderTest) -> None:
    """initialize is answered with an object."""
    agent.require_result(await agent.request_initialize(), "initialize", dict)


async def _version(agent: AgentUnderTest) -> Json:
    result = await agent.initialize()
    return result.get("protocol_version" if agent.dialect == "crow" else "protocolVersion")


@must("agent.init.02", "initialize.md#version", "v1 banjo crow draft")
async def the_version_is_a_number(agent: AgentUnderTest) -> None:
    """The version in the answer is an integer."""
    agent.require_shape(await _version(agent), int, agent.initialize_reply, "the version")


@must("agent.init.03", "initialize.md#version", "v1 banjo crow draft")
async def the_known_version_is_agreed_on(agent: AgentUnderTest) -> None:
    """The agent agrees to a version that both sides know."""
    found = await _version(agent)
    agent.assume(isinstance(found, int), "the agent names no version")
    agent.require(found == 1, f"asked for version 1, the agent answered {found}", agent.initialize_reply)


@must("agent.init.04", "initialize.md#version, peers.md#sdk-version-echo", "v1")
async def unknown_versions_are_not_accepted(agent: AgentUnderTest) -> None:
    """An unknown version is answered with success and a version that the agent supports."""
    # An agent that echoes the requested version may not support it; an error ends what version 1 could do.
    frame = await agent.request_initialize({}, protocolVersion=UNHEARD_OF)
    result = agent.require_result(frame, "an initialize of another version", dict)
    found = result.get("protocolVersion")
    agent.require(type(found) is int and found >= 1, f"the agent names the version {found!r}, not one from 1 on", frame)
    agent.require(found != UNHEARD_OF, f"the agent agrees to version {UNHEARD_OF}, which does not exist", frame)


@must("agent.init.05", "initialize.md#agent-capabilities", "v1 banjo")
async def load_session_is_a_switch(agent: AgentUnderTest) -> None:
    """loadSession is true or false, if present."""
    await agent.require_initialize_shape({"agentCapabilities?": {"loadSession?": bool}})


@must("agent.init.06", "initialize.md#agent-capabilities", "v1 banjo")
async def prompt_capabilities_are_switches(agent: AgentUnderTest) -> None:
    """The members of promptCapabilities and mcpCapabilities are true or false."""
    prompt = {"image?": bool, "audio?": bool, "embeddedContext?": bool}
    mcp = {"http?": bool, "sse?": bool}
    await agent.require_initialize_shape(
        {"agentCapabilities?": {"promptCapabilities?": prompt, "mcpCapabilities?": mcp}}
    )


@must("agent.init.07", "initialize.md#agent-capabilities", "v1")
async def session_capabilities_are_objects(agent: AgentUnderTest) -> None:
    """Session capabilities are objects, or absent."""
    names = ("list", "delete", "additionalDirectories", "resume", "close", "fork")
    await agent.require_initialize_shape(
        {"agentCapabilities?": {"sessionCapabilities?": {f"{name}?": dict for name in names}}}
    )


@should("agent.init.08", "initialize.md#result, peers.md#absent-members", "v1")
@must("agent.init.09", "dialect-matrix.md#opening", "banjo 2025.1 crow draft")
async def the_agent_has_name_and_version(agent: AgentUnderTest) -> None:
    """The agent states its name and version."""
    info = "agent_info" if agent.dialect in ("crow", "2025.1") else "agentInfo"
    await agent.require_initialize_shape({info: {"name": non_empty, "version": str}})


@must("agent.init.10", "auth.md#methods", "v1 banjo")
async def logins_can_be_named(agent: AgentUnderTest) -> None:
    """Every login offered has an id and a name."""
    await agent.require_initialize_shape({"authMethods?": [{"id": non_empty, "name": non_empty}]})


@must("agent.init.11", "errors.md#wrong-state", "2025.1 draft")
async def sessions_before_initialize_are_a_wrong_state(agent: AgentUnderTest) -> None:
    """No session is opened before initialize: the error is the one for a wrong state."""
    frame = await agent.request_session(seconds=agent.timeouts.start)
    agent.require_error(frame, "session/new before initialize", agent.error_code("invalid_state"))


@should("agent.init.12", "initialize.md#order", "v1 banjo crow")
async def sessions_before_initialize_are_refused(agent: AgentUnderTest) -> None:
    """No session is opened before initialize."""
    frame = await agent.request_session(seconds=agent.timeouts.start)
    agent.require_error(frame, "session/new before initialize")


@must("agent.init.13", "initialize.md#order")
async def a_second_initialize_is_answered(agent: AgentUnderTest) -> None:
    """A second initialize is answered, with a result or an error."""
    await agent.initialize()
    frame = await agent.request("initialize", agent.initialize_params({}))
    agent.require(frame, "a second initialize was not answered")


@must("agent.init.14", "initialize.md#omitted-capabilities")
async def unknown_capabilities_are_ignored(agent: AgentUnderTest) -> None:
    """Capabilities that the agent does not know are ignored."""
    frame = await agent.request_initialize({**hello.ALL[agent.dialect], "skillOfTheFuture": {"a": 1}})
    agent.require_result(frame, "initialize with an unknown capability")


@must("agent.init.15", "initialize.md#params", "v1")
async def a_minimal_initialize_is_enough(agent: AgentUnderTest) -> None:
    """A client need not state its name or its capabilities."""
    frame = await agent.request("initialize", {"protocolVersion": 1}, agent.timeouts.start)
    agent.require_result(frame, "initialize with nothing but a version")


@must("agent.init.16", "initialize.md#gates, peers.md#offered-but-missing", "v1 banjo")
async def what_is_offered_is_there(agent: AgentUnderTest) -> None:
    """Every method whose capability is offered exists."""
    await agent.initialize()
    for method, (gate, params) in OPTIONAL.items():
        if offers(gate, agent.capabilities):
            frame = await agent.request(method, {**params, "cwd": agent.cwd} if "cwd" in params else params)
            found = frame.error.get("code") if frame else None
            agent.require(found != -32601, f"{method} is offered and not there", frame)
            if frame is None or (frame.error and type(found) is not int):
                outcome = f"was refused with {found!r}" if frame else "was not answered"
                agent.inconclusive(f"{method} {outcome}: that does not say whether it is there", frame)


@should("agent.init.17", "initialize.md#gates", "v1")
async def what_is_not_offered_is_refused(agent: AgentUnderTest) -> None:
    """A method whose capability is not offered is refused."""
    await agent.initialize()
    closed = [method for method, (gate, _) in OPTIONAL.items() if not offers(gate, agent.capabilities)]
    agent.skip_unless(closed, "the agent offers every optional method")
    for method in closed:
        await agent.require_refused(method, OPTIONAL[method][1], f"{method}, which is not offered,")


@should("agent.init.18", "initialize.md#order")
async def a_refused_initialize_may_be_repeated(agent: AgentUnderTest) -> None:
    """After an initialize that was refused, a valid one is accepted."""
    first = await agent.request("initialize", "hello", agent.timeouts.start)
    agent.skip_unless(first is None or "error" in first.message, "the agent accepts any initialize")
    agent.require_result(await agent.request_initialize(), "initialize after one that was refused")


@should("agent.init.19", "initialize.md#omitted-capabilities", "v1")
async def null_capabilities_are_none(agent: AgentUnderTest) -> None:
    """A capability that is null counts as absent."""
    capabilities = {"fs": None, "terminal": None, "elicitation": None, "session": None}
    agent.require_result(await agent.request_initialize(capabilities), "initialize with null for capabilities")
