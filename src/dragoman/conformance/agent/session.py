"""Sessions of an agent: opening, modes, options, MCP servers, two at once."""

from __future__ import annotations

import sys

from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.json_shape import non_empty
from dragoman.conformance.requirement import must, should


@must("agent.session.01", "sessions.md#new", "v1 banjo crow draft")
async def sessions_have_ids(agent: AgentUnderTest) -> None:
    """session/new returns the id of the session, a non-empty string."""
    await agent.initialize()
    frame = await agent.request_session("")
    agent.require_result(frame, "session/new", {"sessionId": non_empty})


@must("agent.session.02", "sessions.md#new", "v1 banjo crow draft")
async def ids_differ(agent: AgentUnderTest) -> None:
    """Two sessions have different ids."""
    first = await agent.open_session()
    agent.require(await agent.open_session() != first, "two sessions have the same id")


@must("agent.session.03", "sessions.md#cwd, dialects.md#banjo-new-session", "v1 banjo")
async def relative_folders_are_refused(agent: AgentUnderTest) -> None:
    """A working directory that is not an absolute path is refused."""
    params = hello.new_session(agent.dialect, "some/folder", "one")
    await agent.require_refused("session/new", params, "a session in a relative folder")


@must("agent.session.04", "sessions.md#new", "v1 banjo crow draft")
async def a_folder_is_needed(agent: AgentUnderTest) -> None:
    """A session without a working directory is refused with -32602."""
    params = agent.new_session_params()
    del params["workingDirectory" if agent.dialect == "draft" else "cwd"]
    await agent.require_refused("session/new", params, "a session without a folder", -32602)


@should("agent.session.05", "sessions.md#new", "v1")
async def servers_are_a_list(agent: AgentUnderTest) -> None:
    """MCP servers that are not a list are refused."""
    # A server that is dropped silently is missed later (docs/protocol/peers.md#ignored-mcp-servers).
    params = {"cwd": agent.cwd, "mcpServers": "none"}
    await agent.require_refused("session/new", params, "a session whose MCP servers are a text")


@must("agent.session.06", "sessions.md#unknown-session, peers.md#unknown-session")
async def unknown_sessions_are_refused(agent: AgentUnderTest) -> None:
    """A prompt in a session that does not exist is refused."""
    turn = await agent.try_prompt("hello", "no-such-session")
    agent.require_error(turn.answer, "a prompt in a session that is not there")


@should("agent.session.07", "errors.md#kinds, peers.md#unknown-session")
async def unknown_sessions_have_their_error_code(agent: AgentUnderTest) -> None:
    """The refusal has the error code for an unknown session."""
    turn = await agent.try_prompt("hello", "no-such-session")
    agent.assume_error(turn.answer, "a prompt in a session that is not there was not refused")
    agent.require_error(turn.answer, "a prompt in a session that is not there", agent.error_code("session_not_found"))


# --- modes and options ------------------------------------------------------------------------------------------


async def _modes(agent: AgentUnderTest) -> list[str]:
    await agent.open_session()
    agent.skip_unless(isinstance(agent.setup.get("modes"), dict), "the agent has no modes")
    return agent.available_modes()


@must("agent.session.08", "sessions.md#modes", "v1 banjo")
async def the_mode_is_available(agent: AgentUnderTest) -> None:
    """The current mode is one of the available modes."""
    known = await _modes(agent)
    current = agent.setup["modes"].get("currentModeId")
    agent.require(current in known, f"the current mode {current!r} is none of {', '.join(known)}")


@must("agent.session.09", "sessions.md#modes", "v1 banjo")
async def modes_can_be_chosen(agent: AgentUnderTest) -> None:
    """An available mode can be chosen."""
    mode = agent.assume(await _modes(agent), "the agent offers no mode")[-1]
    frame = await agent.request_in_dialect("session/set_mode", {"sessionId": agent.session, "modeId": mode})
    agent.require_result(frame, f"the mode {mode!r}")


@must("agent.session.10", "sessions.md#modes", "v1 banjo")
async def unknown_modes_are_refused(agent: AgentUnderTest) -> None:
    """A mode that is not available is refused."""
    await _modes(agent)
    frame = await agent.request_in_dialect("session/set_mode", {"sessionId": agent.session, "modeId": "no-such-mode"})
    agent.require_error(frame, "a mode that is not available")


async def _options(agent: AgentUnderTest) -> list[Json]:
    await agent.open_session()
    options = agent.skip_unless(agent.setup.get("configOptions"), "the agent has no options")
    return [option for option in options if isinstance(option, dict)]


def _select(agent: AgentUnderTest, options: list[Json]) -> Json:
    found = (each for each in options if each.get("type") == "select" and _values(each))
    return agent.assume(next(found, None), "the agent has no choice to set")


async def _set_option(agent: AgentUnderTest, option: str, value: Json, **members: Json) -> ReceivedFrame | None:
    params = {"sessionId": agent.session, "configId": option, **members, "value": value}
    return await agent.request_in_dialect("session/set_config_option", params)


def _values_now(agent: AgentUnderTest, frame: ReceivedFrame | None, what: str) -> dict[str, Json]:
    """Return the values by the ids of the options, from the answer to set_config_option."""
    options: Json = (agent.require_result(frame, what) or {}).get("configOptions")
    agent.require_shape(options, [{"id": non_empty}], frame, "configOptions")
    return {option["id"]: option.get("currentValue") for option in options}


def _values(option: Json) -> list[Json]:
    """Return the values of a select option, also those of its groups."""
    flat: list[Json] = []
    for entry in option.get("options") or []:
        flat += entry.get("options") or [] if "group" in entry else [entry]
    return [entry.get("value") for entry in flat if isinstance(entry, dict)]


@must("agent.session.11", "sessions.md#config-options", "v1 banjo")
async def options_are_complete(agent: AgentUnderTest) -> None:
    """Every option has an id, a name, a type and a value."""
    for option in await _options(agent):
        shape = {"id": non_empty, "name": str, "type": non_empty, "currentValue": object}
        agent.require_shape(option, shape, where=f"option {option.get('id')!r}")


@must("agent.session.12", "sessions.md#config-options", "v1 banjo")
async def values_are_choices(agent: AgentUnderTest) -> None:
    """The value of a select option is one of its values."""
    for option in await _options(agent):
        if option.get("type") == "select":
            current, known = option.get("currentValue"), _values(option)
            agent.require(current in known, f"{option.get('id')}: the value {current!r} is none of {known}")


@must("agent.session.13", "sessions.md#config-options", "v1 banjo")
async def setting_gives_all_options(agent: AgentUnderTest) -> None:
    """Setting an option is answered with all options and their values."""
    options = await _options(agent)
    choice = _select(agent, options)
    value = _values(choice)[-1]
    frame = agent.assume_result(await _set_option(agent, choice["id"], value), "the option could not be set")
    now = _values_now(agent, frame, "an option")
    missing = [option["id"] for option in options if option["id"] not in now]
    agent.require(not missing, f"the answer lacks the options {', '.join(missing)}", frame)
    found = now[choice["id"]]
    agent.require(found == value, f"{choice['id']} was set to {value!r} and is {found!r}", frame)


@must("agent.session.14", "sessions.md#config-options", "v1 banjo")
async def unknown_options_are_refused(agent: AgentUnderTest) -> None:
    """An option that does not exist cannot be set."""
    await _options(agent)
    agent.require_error(await _set_option(agent, "no-such-option", "x"), "an option that is not there")


@should("agent.session.38", "sessions.md#config-options", "v1 banjo")
async def unknown_values_are_refused(agent: AgentUnderTest) -> None:
    """A select option cannot be set to a value that it does not have."""
    choice = _select(agent, await _options(agent))
    agent.require_error(await _set_option(agent, choice["id"], "no-such-value"), "a value that a choice has not")


@must("agent.session.39", "sessions.md#config-options", "v1")
async def switches_can_be_set(agent: AgentUnderTest) -> None:
    """A boolean option can be set, and the answer has its new value."""
    switches = (each for each in await _options(agent) if each.get("type") == "boolean")
    switch = agent.skip_unless(next(switches, None), "the agent has no switches")
    value = not switch.get("currentValue")
    frame = await _set_option(agent, switch["id"], value, type="boolean")
    now = _values_now(agent, frame, "a switch").get(switch["id"])
    agent.require(now is value, f"{switch['id']} was set to {value} and is {now!r}", frame)


@must("agent.session.15", "initialize.md#client-capabilities", "v1")
async def switches_are_announced(agent: AgentUnderTest) -> None:
    """Boolean options are sent only to clients that announced support for them."""
    await agent.open_session(capabilities=hello.NOTHING[agent.dialect])
    options = agent.setup.get("configOptions") or []
    switches = [option.get("id") for option in options if isinstance(option, dict) and option.get("type") == "boolean"]
    agent.require(not switches, f"a client that did not announce it was shown the switches {switches}")


# --- MCP servers --------------------------------------------------------------------------------------------------

MCP_SECRET = "check-secret-5f3a"

# A minimal MCP server: it answers initialize and has no tools.
MCP_SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        info = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "check", "version": "1"}}
        result = info if asked["method"] == "initialize" else {"tools": []}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def _servers(agent: AgentUnderTest) -> Json:
    """Return one stdio MCP server with a secret in its environment, as the dialect writes it."""
    started = {"command": sys.executable, "args": ["-c", MCP_SERVER]}
    if agent.dialect == "draft":
        return [{"name": "check", "transport": {"type": "stdio", **started, "env": {"CHECK_KEY": MCP_SECRET}}}]
    return [{"name": "check", **started, "env": [{"name": "CHECK_KEY", "value": MCP_SECRET}]}]


@must("agent.session.36", "initialize.md#agent-capabilities, sessions.md#mcp-servers", "v1 banjo crow draft")
async def servers_are_accepted(agent: AgentUnderTest) -> None:
    """A session may be opened with an MCP server that is a command."""
    await agent.initialize()
    params = {**agent.new_session_params(), "mcpServers": _servers(agent)}
    frame = await agent.request("session/new", params, agent.timeouts.start)
    agent.require_result(frame, "a session with an MCP server")


@must("agent.session.37", "draft.md#mcp-trust", "v1 banjo crow draft")
async def secrets_are_not_shown(agent: AgentUnderTest) -> None:
    """The secrets of an MCP server are not shown to the user."""
    await agent.open_session(mcpServers=_servers(agent))
    await agent.run_turn("tour")
    found = [frame for frame in agent.received if MCP_SECRET.encode() in frame.raw]
    agent.require_none(found, "a secret of an MCP server was shown")


# --- two at once ------------------------------------------------------------------------------------------------


@must("agent.session.31", "updates.md#frame")
async def updates_name_their_session(agent: AgentUnderTest) -> None:
    """Updates of two running sessions name the session they belong to."""
    first, second = await agent.open_two_sessions()
    turn = await agent.run_turn("plain", second)
    updates = agent.updates("agent_message_chunk", start=turn.start)
    wrong = [frame for frame in updates if frame.params.get("sessionId") == first]
    agent.require_none(wrong, "an update of the second session names the first")


@must("agent.session.32", "sessions.md#many-at-once", "v1 banjo 2025.1 crow")
async def sessions_work_side_by_side(agent: AgentUnderTest) -> None:
    """Two sessions can run at once."""
    await run_two_turns(agent, *await agent.open_two_sessions())


async def run_two_turns(agent: AgentUnderTest, long: str, short: str) -> None:
    """Run a turn in one session while another runs in the other."""
    running = agent.start_turn("slow", long)
    await agent.collect()
    turn = await agent.try_turn("plain", short)
    agent.require(turn.answer, "while one session was at work the other did not answer a prompt")
    agent.cancel(long)
    await agent.wait_turn(running)
