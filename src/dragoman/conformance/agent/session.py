"""Sessions of an agent: opening, modes, options, two at once."""

from __future__ import annotations

from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.harness.peer import Json
from dragoman.conformance.json_shape import mismatch, non_empty
from dragoman.conformance.requirement import must, should

CWD = {"draft": "workingDirectory"}


@must("agent.session.01", "sessions.md#new", "v1 banjo crow draft")
async def sessions_have_ids(agent: AgentUnderTest) -> None:
    """session/new gives the id of the session, a text with something in it."""
    await agent.initialize()
    frame = await agent.request("session/new", hello.new_session(agent.dialect, agent.cwd, ""))
    problem = mismatch(agent.require_result(frame, "session/new"), {"sessionId": non_empty})
    agent.require(not problem, problem, frame)


@must("agent.session.02", "sessions.md#new", "v1 banjo crow draft")
async def ids_differ(agent: AgentUnderTest) -> None:
    """Two sessions have two ids."""
    first = await agent.open_session()
    agent.require(await agent.open_session() != first, "two sessions have the same id")


@must("agent.session.03", "sessions.md#cwd, dialects.md#banjo-new-session", "v1 banjo")
async def relative_folders_are_refused(agent: AgentUnderTest) -> None:
    """A working directory that is no absolute path is refused."""
    await agent.initialize()
    params = hello.new_session(agent.dialect, "some/folder", "one")
    agent.require_error(await agent.request("session/new", params), "a session in a relative folder")


@must("agent.session.04", "sessions.md#new", "v1 banjo crow draft")
async def a_folder_is_needed(agent: AgentUnderTest) -> None:
    """A session without a working directory is refused with -32602."""
    await agent.initialize()
    params = hello.new_session(agent.dialect, agent.cwd, "one")
    del params[CWD.get(agent.dialect, "cwd")]
    agent.require_error(await agent.request("session/new", params), "a session without a folder", -32602)


@should("agent.session.05", "sessions.md#new", "v1")
async def servers_are_a_list(agent: AgentUnderTest) -> None:
    """MCP servers that are no list are refused."""
    # A server that is dropped silently is missed later (docs/protocol/peers.md#ignored-mcp-servers).
    await agent.initialize()
    frame = await agent.request("session/new", {"cwd": agent.cwd, "mcpServers": "none"})
    agent.require_error(frame, "a session whose MCP servers are a text")


@must("agent.session.06", "sessions.md#unknown-session, peers.md#unknown-session")
async def unknown_sessions_are_refused(agent: AgentUnderTest) -> None:
    """A prompt in a session that is not there is refused."""
    await agent.open_session()
    turn = await agent.wait_turn(agent.start_turn("hello", session="no-such-session"))
    agent.require_error(turn.answer, "a prompt in a session that is not there")


@should("agent.session.07", "errors.md#kinds, peers.md#unknown-session")
async def unknown_sessions_have_a_number(agent: AgentUnderTest) -> None:
    """The refusal has the number that means an unknown session."""
    await agent.open_session()
    turn = await agent.wait_turn(agent.start_turn("hello", session="no-such-session"))
    if turn.answer is None or "error" not in turn.answer.message:
        agent.inconclusive("a prompt in a session that is not there was not refused", turn.answer)
    agent.require_error(turn.answer, "a prompt in a session that is not there", agent.error_code("session_not_found"))


# --- modes and options ------------------------------------------------------------------------------------------


async def _modes(agent: AgentUnderTest) -> tuple[Json, list[Json]]:
    await agent.open_session()
    modes = agent.setup.get("modes")
    if not isinstance(modes, dict):
        agent.skip("the agent has no modes")
    known = [mode.get("id") for mode in modes.get("availableModes") or [] if isinstance(mode, dict)]
    return modes.get("currentModeId"), known


@must("agent.session.08", "sessions.md#modes", "v1 banjo")
async def the_mode_is_available(agent: AgentUnderTest) -> None:
    """The current mode is one of those available."""
    current, known = await _modes(agent)
    agent.require(current in known, f"the current mode {current!r} is none of {', '.join(map(str, known))}")


@must("agent.session.09", "sessions.md#modes", "v1 banjo")
async def modes_can_be_chosen(agent: AgentUnderTest) -> None:
    """An available mode can be chosen."""
    _, known = await _modes(agent)
    if not known:
        agent.inconclusive("the agent offers no mode")
    frame = await agent.request_in_dialect("session/set_mode", {"sessionId": agent.session, "modeId": known[-1]})
    agent.require_result(frame, f"the mode {known[-1]!r}")


@must("agent.session.10", "sessions.md#modes", "v1 banjo")
async def unknown_modes_are_refused(agent: AgentUnderTest) -> None:
    """A mode that is not available is refused."""
    await _modes(agent)
    frame = await agent.request_in_dialect("session/set_mode", {"sessionId": agent.session, "modeId": "no-such-mode"})
    agent.require_error(frame, "a mode that is not available")


async def _options(agent: AgentUnderTest) -> list[Json]:
    await agent.open_session()
    options = agent.setup.get("configOptions")
    if not options:
        agent.skip("the agent has no options")
    return [option for option in options if isinstance(option, dict)]


def _values(option: Json) -> list[Json]:
    """Return the values of a select option, also those of its groups."""
    flat: list[Json] = []
    for entry in option.get("options") or []:
        flat += entry.get("options") or [] if "group" in entry else [entry]
    return [entry.get("value") for entry in flat if isinstance(entry, dict)]


@must("agent.session.11", "sessions.md#config-options", "v1 banjo")
async def options_are_whole(agent: AgentUnderTest) -> None:
    """Every option has an id, a name, a type and a value."""
    for option in await _options(agent):
        problem = mismatch(option, {"id": non_empty, "name": str, "type": non_empty, "currentValue": object})
        agent.require(not problem, f"option {option.get('id')!r}: {problem}")


@must("agent.session.12", "sessions.md#config-options", "v1 banjo")
async def values_are_choices(agent: AgentUnderTest) -> None:
    """The value of a choice is one of its values."""
    for option in await _options(agent):
        if option.get("type") == "select":
            current, known = option.get("currentValue"), _values(option)
            agent.require(current in known, f"{option.get('id')}: the value {current!r} is none of {known}")


@must("agent.session.13", "sessions.md#config-options", "v1 banjo")
async def setting_gives_all_options(agent: AgentUnderTest) -> None:
    """Setting an option is answered with all options and their values."""
    options = await _options(agent)
    choice = next((each for each in options if each.get("type") == "select" and _values(each)), None)
    if choice is None:
        agent.inconclusive("the agent has no choice to set")
    value = _values(choice)[-1]
    params = {"sessionId": agent.session, "configId": choice["id"], "value": value}
    frame = await agent.request_in_dialect("session/set_config_option", params)
    if frame is None or "error" in frame.message:
        agent.inconclusive("the option could not be set", frame)
    options_now: Json = (frame.message["result"] or {}).get("configOptions")
    problem = mismatch(options_now, [{"id": non_empty}], "configOptions")
    agent.require(not problem, problem, frame)
    now = {option["id"]: option.get("currentValue") for option in options_now}
    missing = [option["id"] for option in options if option["id"] not in now]
    agent.require(not missing, f"the answer lacks the options {', '.join(missing)}", frame)
    agent.require(
        now[choice["id"]] == value, f"{choice['id']} was set to {value!r} and is {now[choice['id']]!r}", frame
    )


@must("agent.session.14", "sessions.md#config-options", "v1 banjo")
async def unknown_options_are_refused(agent: AgentUnderTest) -> None:
    """An option that is not there cannot be set."""
    await _options(agent)
    params = {"sessionId": agent.session, "configId": "no-such-option", "value": "x"}
    agent.require_error(
        await agent.request_in_dialect("session/set_config_option", params), "an option that is not there"
    )


@should("agent.session.38", "sessions.md#config-options", "v1 banjo")
async def unknown_values_are_refused(agent: AgentUnderTest) -> None:
    """A value that a choice has not cannot be set."""
    options = await _options(agent)
    choice = next((each for each in options if each.get("type") == "select" and _values(each)), None)
    if choice is None:
        agent.inconclusive("the agent has no choice to set")
    params = {"sessionId": agent.session, "configId": choice["id"], "value": "no-such-value"}
    agent.require_error(
        await agent.request_in_dialect("session/set_config_option", params), "a value that a choice has not"
    )


@must("agent.session.39", "sessions.md#config-options", "v1")
async def switches_can_be_set(agent: AgentUnderTest) -> None:
    """A switch can be set, and is told as it is now."""
    options = await _options(agent)
    switch = next((each for each in options if each.get("type") == "boolean"), None)
    if switch is None:
        agent.skip("the agent has no switches")
    value = not switch.get("currentValue")
    params = {"sessionId": agent.session, "configId": switch["id"], "type": "boolean", "value": value}
    frame = await agent.request("session/set_config_option", params)
    options_now: Json = (agent.require_result(frame, "a switch") or {}).get("configOptions")
    problem = mismatch(options_now, [{"id": non_empty}], "configOptions")
    agent.require(not problem, problem, frame)
    now = next((option.get("currentValue") for option in options_now if option["id"] == switch["id"]), None)
    agent.require(now is value, f"{switch['id']} was set to {value} and is {now!r}", frame)


@must("agent.session.15", "initialize.md#client-capabilities", "v1")
async def switches_are_announced(agent: AgentUnderTest) -> None:
    """Only clients that announced it are shown switches among the options."""
    await agent.open_session(capabilities=hello.NOTHING[agent.dialect])
    options = agent.setup.get("configOptions") or []
    switches = [option.get("id") for option in options if isinstance(option, dict) and option.get("type") == "boolean"]
    agent.require(not switches, f"a client that did not announce it was shown the switches {switches}")


# --- two at once ------------------------------------------------------------------------------------------------


@must("agent.session.31", "updates.md#frame")
async def updates_name_their_session(agent: AgentUnderTest) -> None:
    """Updates of two sessions at work name the session they belong to."""
    first, second = await agent.open_two_sessions()
    turn = await agent.prompt(agent.prompt_for("plain"), second)
    wrong = [
        frame
        for frame in agent.updates("agent_message_chunk", turn.start)
        if isinstance(frame.params, dict) and frame.params.get("sessionId") == first
    ]
    agent.require(not wrong, "an update of the second session names the first", *wrong)


@must("agent.session.32", "sessions.md#many-at-once", "v1 banjo 2025.1 crow")
async def sessions_work_side_by_side(agent: AgentUnderTest) -> None:
    """Two sessions can be at work at once."""
    await run_two_turns(agent, *await agent.open_two_sessions())


async def run_two_turns(agent: AgentUnderTest, long: str, short: str) -> None:
    """Run a turn in one session while another runs in the other."""
    running = agent.start_turn(agent.prompt_for("slow"), long)
    await agent.collect()
    turn = await agent.wait_turn(agent.start_turn(agent.prompt_for("plain"), short))
    agent.require(turn.answer, "while one session was at work the other did not answer a prompt")
    agent.cancel(long)
    await agent.wait_turn(running)
