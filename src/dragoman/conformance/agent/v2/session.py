"""Sessions of a v2 agent: session/new, options, commands."""

from __future__ import annotations

from dragoman.conformance.agent.v2.rpc import INVALID_PARAMS
from dragoman.conformance.agent.v2.work import run_work, updates, wait_update, wire
from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.json_shape import mismatch, non_empty
from dragoman.conformance.requirement import must, should

SERVER: Json = {"type": "stdio", "name": "none", "command": "/bin/false", "args": [], "env": []}


async def _new(agent: AgentUnderTest, **members: Json) -> ReceivedFrame | None:
    if agent.result is None:
        await agent.initialize()
    return await agent.request("session/new", {"cwd": agent.cwd, **members}, agent.timeouts.start)


@must("agent.v2session.01", "v2.md#new-session")
async def a_session_has_an_id(agent: AgentUnderTest) -> None:
    """A new session has an id that is not empty."""
    agent.require_result(await _new(agent), "session/new", {"sessionId": non_empty})


@must("agent.v2session.02", "v2.md#new-session")
async def two_sessions_have_two_ids(agent: AgentUnderTest) -> None:
    """Two sessions have different ids."""
    first = agent.assume_result(await _new(agent), "no session was opened")
    second = agent.assume_result(await _new(agent), "no second session was opened")
    ids = first.result.get("sessionId"), second.result.get("sessionId")
    agent.assume(all(ids), "a session has no id", first)
    agent.require(ids[0] != ids[1], "two sessions have the same id", first, second)


@must("agent.v2session.03", "v2.md#new-session")
async def servers_may_be_null(agent: AgentUnderTest) -> None:
    """session/new with mcpServers null is like one without."""
    agent.require_result(await _new(agent, mcpServers=None), "session/new with mcpServers null")


@must("agent.v2session.04", "v2.md#new-session")
async def the_folder_is_absolute(agent: AgentUnderTest) -> None:
    """session/new with a relative folder is refused with -32602."""
    agent.require_error(await _new(agent, cwd="work"), "session/new with a relative folder", INVALID_PARAMS)


@must("agent.v2session.05", "v2.md#new-session")
async def the_folder_is_required(agent: AgentUnderTest) -> None:
    """session/new without a folder is refused with -32602."""
    await agent.require_refused("session/new", {"mcpServers": []}, "session/new without a folder", INVALID_PARAMS)


@must("agent.v2session.06", "v2.md#new-session")
async def unknown_servers_are_refused(agent: AgentUnderTest) -> None:
    """An MCP server of an unknown type is refused with -32602."""
    server = {"type": "pigeon", "name": "post", "url": "https://example.org"}
    agent.require_error(await _new(agent, mcpServers=[server]), "a server of an unknown type", INVALID_PARAMS)


@must("agent.v2session.07", "v2.md#new-session")
async def sse_servers_are_refused(agent: AgentUnderTest) -> None:
    """An MCP server of the type sse, which v2 does not have, is refused with -32602."""
    server = {"type": "sse", "name": "old", "url": "https://example.org", "headers": []}
    agent.require_error(await _new(agent, mcpServers=[server]), "a server of the type sse", INVALID_PARAMS)


@must("agent.v2session.08", "v2.md#options")
async def options_have_their_members(agent: AgentUnderTest) -> None:
    """Options have configId, name and type."""
    shape = [{"configId": non_empty, "name": str, "type": non_empty}]
    agent.require_shape(await _options(agent), shape, agent.session_reply, "configOptions")


async def _options(agent: AgentUnderTest) -> list[Json]:
    await agent.open_session()
    found = agent.setup.get("configOptions")
    return agent.skip_unless(found if isinstance(found, list) else [], "the agent has no options")


def _of_type(options: list[Json], kind: str) -> list[Json]:
    return [option for option in options if isinstance(option, dict) and option.get("type") == kind]


def _values(option: Json) -> list[str]:
    found: list[str] = []
    for each in option.get("options") or ():
        group = each.get("options") if isinstance(each, dict) and "groupId" in each else [each]
        found += [str(choice.get("value")) for choice in group or () if isinstance(choice, dict)]
    return found


@must("agent.v2session.09", "v2.md#options")
async def the_value_of_a_select_is_offered(agent: AgentUnderTest) -> None:
    """The current value of a select option is one of its values."""
    selects = agent.skip_unless(_of_type(await _options(agent), "select"), "the agent has no select option")
    for option in selects:
        is_offered = option.get("currentValue") in _values(option)
        why = f"the option {option.get('configId')!r} has a value that it does not offer"
        agent.require(is_offered or not option.get("options"), why, agent.session_reply)


@must("agent.v2session.10", "v2.md#options")
async def a_select_has_values(agent: AgentUnderTest) -> None:
    """A select option has at least one value."""
    selects = agent.skip_unless(_of_type(await _options(agent), "select"), "the agent has no select option")
    empty = [option.get("configId") for option in selects if not _values(option)]
    agent.require(not empty, f"the option {empty[:1]} has no values", agent.session_reply)


@must("agent.v2session.11", "v2.md#options")
async def a_boolean_option_has_a_boolean(agent: AgentUnderTest) -> None:
    """The current value of a boolean option is true or false."""
    options = agent.skip_unless(_of_type(await _options(agent), "boolean"), "the agent has no boolean option")
    agent.require_shape(options, [{"currentValue": bool}], agent.session_reply, "configOptions")


@must("agent.v2session.12", "v2.md#options")
async def option_ids_are_unique(agent: AgentUnderTest) -> None:
    """Two options of a session have different ids."""
    ids = [option.get("configId") for option in await _options(agent) if isinstance(option, dict)]
    agent.require(len(set(ids)) == len(ids), "two options have the same id", agent.session_reply)


async def _set(agent: AgentUnderTest, **members: Json) -> ReceivedFrame | None:
    return await agent.request("session/set_config_option", {"sessionId": agent.session, **members})


async def _other_value(agent: AgentUnderTest) -> tuple[str, str]:
    """Return a select option and a value that it does not have now; skip without one."""
    selects = _of_type(await _options(agent), "select")
    others = [(option, value) for option in selects for value in _values(option) if value != option.get("currentValue")]
    option, value = agent.skip_unless(others, "no option of the agent has two values")[0]
    return str(option.get("configId")), value


@must("agent.v2session.13", "v2.md#options")
async def a_set_option_has_its_value(agent: AgentUnderTest) -> None:
    """session/set_config_option is answered with all options, and the new value."""
    id, value = await _other_value(agent)
    frame = await _set(agent, configId=id, type="id", value=value)
    found = agent.require_result(frame, "session/set_config_option", {"configOptions": list})["configOptions"]
    current = [option.get("currentValue") for option in found if option.get("configId") == id]
    agent.require(current == [value], f"the option {id!r} has another value than {value!r}", frame)


@must("agent.v2session.14", "v2.md#options")
async def a_boolean_option_is_set(agent: AgentUnderTest) -> None:
    """A boolean option is set with the type boolean."""
    option = agent.skip_unless(_of_type(await _options(agent), "boolean"), "the agent has no boolean option")[0]
    frame = await _set(agent, configId=option["configId"], type="boolean", value=not option.get("currentValue"))
    agent.require_result(frame, "session/set_config_option with a boolean")


@must("agent.v2session.15", "v2.md#options")
async def unknown_options_are_refused(agent: AgentUnderTest) -> None:
    """Setting an unknown option is refused with -32602."""
    await _options(agent)
    agent.require_error(
        await _set(agent, configId="no-such", type="id", value="x"), "an unknown option", INVALID_PARAMS
    )


@must("agent.v2session.16", "v2.md#options")
async def unknown_values_are_refused(agent: AgentUnderTest) -> None:
    """Setting an option to an unknown value is refused with -32602."""
    id, _ = await _other_value(agent)
    agent.require_error(await _set(agent, configId=id, type="id", value="no-such"), "an unknown value", INVALID_PARAMS)


@must("agent.v2session.17", "v2.md#options")
async def unknown_types_of_values_are_refused(agent: AgentUnderTest) -> None:
    """Setting an option with an unknown type is refused with -32602."""
    id, value = await _other_value(agent)
    agent.require_error(await _set(agent, configId=id, type="moon", value=value), "an unknown type", INVALID_PARAMS)


@must("agent.v2session.18", "v2.md#options")
async def the_agents_own_changes_are_told(agent: AgentUnderTest) -> None:
    """A change of an option by the agent itself is told by config_option_update, with all options."""
    all_ids = {option.get("configId") for option in await _options(agent)}
    await run_work(agent, "option")
    found = updates(agent, "config_option_update")
    agent.require(found, "the option was changed and no config_option_update was sent")
    told = {option.get("configId") for option in wire(found[-1]).get("configOptions") or ()}
    agent.require(told == all_ids, "config_option_update does not have all options", found[-1])


@must("agent.v2session.19", "v2.md#commands")
async def commands_are_tagged(agent: AgentUnderTest) -> None:
    """Commands have the type command, a name and a description; their input has a type and a hint."""
    await agent.open_session()
    found: Json = agent.setup.get("availableCommands")
    frame = agent.session_reply
    if not found:
        frame = next(iter(updates(agent, "available_commands_update")), None)
        frame = frame or await wait_update(agent, "available_commands_update")
        found = wire(frame).get("availableCommands") if frame is not None else None
    agent.skip_unless(found, "the agent has no commands")
    shape = [{"type": non_empty, "name": non_empty, "description": str, "input?": {"type": non_empty}}]
    agent.require_shape(found, shape, frame, "availableCommands")


@should("agent.v2session.20", "v2.md#new-session")
async def one_server_name_comes_once(agent: AgentUnderTest) -> None:
    """Two MCP servers with one name are refused with -32602."""
    session = (await agent.initialize()).get("capabilities", {}).get("session")
    agent.skip_unless(not mismatch(session, {"mcp": {"stdio": dict}}), "the agent starts no MCP servers")
    agent.require_error(await _new(agent, mcpServers=[SERVER, SERVER]), "two servers of one name", INVALID_PARAMS)
