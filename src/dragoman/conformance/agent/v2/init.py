"""Initialize of a v2 agent: versions, names, capabilities, auth methods."""

from __future__ import annotations

from dragoman.conformance.agent.v2.rpc import INVALID_PARAMS, INVALID_REQUEST
from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.harness.hello import INFO
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.json_shape import non_empty
from dragoman.conformance.requirement import must, should

UNSUPPORTED = -32022


async def _initialize(agent: AgentUnderTest, **members: Json) -> ReceivedFrame | None:
    return await agent.request_initialize(None, **members)


@must("agent.v2init.01", "v2.md#initialize")
async def version_two_is_answered(agent: AgentUnderTest) -> None:
    """An initialize of version 2 is answered with version 2."""
    found = agent.require_result(await _initialize(agent), "initialize")
    agent.require(isinstance(found, dict) and found.get("protocolVersion") == 2, "the answer is not of version 2")


@must("agent.v2init.02", "v2.md#initialize")
async def the_agent_has_a_name(agent: AgentUnderTest) -> None:
    """The result of initialize has info with a name and a version."""
    await agent.require_initialize_shape({"info": {"name": non_empty, "version": str, "title?": str}})


@must("agent.v2init.03", "v2.md#capabilities")
async def capabilities_are_objects(agent: AgentUnderTest) -> None:
    """Capabilities are objects, not true or false."""
    await agent.initialize()
    wrong = list(_booleans(agent.result.get("capabilities"), "capabilities"))
    agent.require(not wrong, f"{', '.join(wrong)} is true or false, not an object", agent.initialize_reply)


def _booleans(value: Json, path: str) -> list[str]:
    if isinstance(value, bool):
        return [path]
    found = value.items() if isinstance(value, dict) else ()
    return [each for name, item in found if name != "_meta" for each in _booleans(item, f"{path}.{name}")]


@must("agent.v2init.04", "v2.md#versions")
async def a_higher_version_gets_ours(agent: AgentUnderTest) -> None:
    """An initialize of version 3 is answered with version 2."""
    found = agent.require_result(await _initialize(agent, protocolVersion=3), "an initialize of version 3")
    agent.require(found.get("protocolVersion") == 2, f"version 3 got {found.get('protocolVersion')!r}, not 2")


@must("agent.v2init.05", "v2.md#versions")
async def version_one_is_served_or_refused(agent: AgentUnderTest) -> None:
    """An initialize of version 1 is answered in the form of version 1, or refused with -32022."""
    params = {"protocolVersion": 1, "clientInfo": INFO, "clientCapabilities": {}}
    frame = agent.require(await agent.request("initialize", params, agent.timeouts.start), "version 1 was not answered")
    if "error" in frame.message:
        agent.require_error(frame, "an initialize of version 1", UNSUPPORTED)
        return
    agent.require(frame.result.get("protocolVersion") == 1, "version 1 was answered with another version", frame)


@must("agent.v2init.06", "v2.md#initialize")
async def info_is_required(agent: AgentUnderTest) -> None:
    """An initialize of version 2 without info is refused with -32602."""
    params = {"protocolVersion": 2, "capabilities": {}}
    agent.require_error(await agent.request("initialize", params), "an initialize without info", INVALID_PARAMS)


@must("agent.v2init.07", "v2.md#versions")
async def a_version_is_an_integer(agent: AgentUnderTest) -> None:
    """An initialize whose version is a text is refused with -32602."""
    frame = await _initialize(agent, protocolVersion="two")
    agent.require_error(frame, "an initialize of the version 'two'", INVALID_PARAMS)


@must("agent.v2init.08", "v2.md#versions")
async def version_zero_is_refused(agent: AgentUnderTest) -> None:
    """An initialize of version 0 is refused with -32022 and the supported versions."""
    error = agent.require_error(await _initialize(agent, protocolVersion=0), "version 0", UNSUPPORTED)
    data = error.get("data")
    supported = data.get("supported") if isinstance(data, dict) else None
    has_two = isinstance(supported, list) and 2 in supported
    agent.require(has_two, "the error does not list the supported versions", agent.received[-1])


@must("agent.v2init.09", "v2.md#before-and-after")
async def initialize_comes_first(agent: AgentUnderTest) -> None:
    """A request before initialize is refused with -32600."""
    agent.require_error(await agent.request("session/list", {}), "a request before initialize", INVALID_REQUEST)


@must("agent.v2init.10", "v2.md#before-and-after")
async def a_failed_initialize_can_be_tried_again(agent: AgentUnderTest) -> None:
    """After a refused initialize the next one is answered."""
    refused = await agent.request("initialize", {"protocolVersion": 2, "capabilities": {}})
    agent.assume_error(refused, "an initialize without info was not refused")
    agent.require_result(await _initialize(agent), "an initialize after a refused one")


@must("agent.v2init.11", "v2.md#before-and-after")
async def initialize_comes_once(agent: AgentUnderTest) -> None:
    """An initialize after another request is refused with -32600."""
    await agent.open_session()
    agent.require_error(await _initialize(agent), "a second initialize", INVALID_REQUEST)


@must("agent.v2init.12", "v2.md#auth-methods")
async def auth_methods_have_their_members(agent: AgentUnderTest) -> None:
    """Auth methods have methodId, name and type."""
    await agent.initialize()
    methods = agent.skip_unless(agent.result.get("authMethods"), "the agent has no auth methods")
    shape = [{"methodId": non_empty, "name": str, "type": non_empty}]
    agent.require_shape(methods, shape, agent.initialize_reply, "authMethods")


@must("agent.v2init.13", "v2.md#initialize")
async def names_of_version_one_are_gone(agent: AgentUnderTest) -> None:
    """The result of initialize has no agentCapabilities and no agentInfo."""
    await agent.initialize()
    old = sorted({"agentCapabilities", "agentInfo"} & agent.result.keys())
    agent.require(not old, f"the result has {', '.join(old)}, which is of version 1", agent.initialize_reply)


@must("agent.v2init.14", "v2.md#capabilities")
async def unknown_members_are_ignored(agent: AgentUnderTest) -> None:
    """Unknown members and capabilities of the client are ignored."""
    capabilities: Json = {"_example.org": {"tides": {}}, "moon": {}}
    frame = await agent.request_initialize(capabilities, weather="fine")
    agent.require_result(frame, "an initialize with unknown members")


@should("agent.v2init.15", "v2.md#auth-methods")
async def logins_are_refused_by_name(agent: AgentUnderTest) -> None:
    """auth/login with an unknown method is refused with -32602, or with -32601 by an agent without auth methods."""
    await agent.initialize()
    frame = await agent.request("auth/login", {"methodId": "no-such-method"})
    agent.require_error(frame, "an unknown login", INVALID_PARAMS, -32601)
