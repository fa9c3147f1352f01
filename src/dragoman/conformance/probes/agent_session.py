"""Probes of an agent's sessions: opening, modes, options, two at once."""

from __future__ import annotations

from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import AgentStage
from dragoman.conformance.harness.peer import Json
from dragoman.conformance.json_shape import fault, some
from dragoman.conformance.probe import probe

CWD = {"draft": "workingDirectory"}


@probe("agent.session.01")
async def sessions_have_ids(stage: AgentStage) -> None:
    """The id is all a client has."""
    await stage.initialized()
    heard = await stage.asked("session/new", hello.new_session(stage.dialect, stage.cwd, ""))
    words = fault(stage.granted(heard, "session/new"), {"sessionId": some})
    stage.require(not words, words, heard)


@probe("agent.session.02")
async def ids_differ(stage: AgentStage) -> None:
    """Two sessions of the same folder."""
    first = await stage.opened()
    stage.require(await stage.opened() != first, "two sessions have the same id")


@probe("agent.session.03")
async def relative_folders_are_refused(stage: AgentStage) -> None:
    """Relative to what, nobody knows."""
    await stage.initialized()
    params = hello.new_session(stage.dialect, "some/folder", "one")
    stage.refused(await stage.asked("session/new", params), "a session in a relative folder")


@probe("agent.session.04")
async def a_folder_is_needed(stage: AgentStage) -> None:
    """It is the one thing a session cannot do without."""
    await stage.initialized()
    params = hello.new_session(stage.dialect, stage.cwd, "one")
    del params[CWD.get(stage.dialect, "cwd")]
    stage.refused(await stage.asked("session/new", params), "a session without a folder", -32602)


@probe("agent.session.05")
async def servers_are_a_list(stage: AgentStage) -> None:
    """What is silently dropped is missed later (peers.md C9 62)."""
    await stage.initialized()
    heard = await stage.asked("session/new", {"cwd": stage.cwd, "mcpServers": "none"})
    stage.refused(heard, "a session whose MCP servers are a text")


@probe("agent.session.06")
async def unknown_sessions_are_refused(stage: AgentStage) -> None:
    """Not answered as if something had been done."""
    await stage.opened()
    turn = await stage.ended(stage.begin("hello", session="no-such-session"))
    stage.refused(turn.answer, "a prompt in a session that is not there")


@probe("agent.session.07")
async def unknown_sessions_have_a_number(stage: AgentStage) -> None:
    """So that a client can open a new one by itself."""
    await stage.opened()
    turn = await stage.ended(stage.begin("hello", session="no-such-session"))
    if turn.answer is None or "error" not in turn.answer.message:
        stage.unsure("a prompt in a session that is not there was not refused", turn.answer)
    stage.refused(turn.answer, "a prompt in a session that is not there", stage.code("session_not_found"))


# --- modes and options ------------------------------------------------------------------------------------------


async def _modes(stage: AgentStage) -> tuple[Json, list[Json]]:
    await stage.opened()
    modes = stage.setup.get("modes")
    if not isinstance(modes, dict):
        stage.skip("the agent has no modes")
    known = [mode.get("id") for mode in modes.get("availableModes") or [] if isinstance(mode, dict)]
    return modes.get("currentModeId"), known


@probe("agent.session.08")
async def the_mode_is_available(stage: AgentStage) -> None:
    """Or a client cannot show it."""
    current, known = await _modes(stage)
    stage.require(current in known, f"the current mode {current!r} is none of {', '.join(map(str, known))}")


@probe("agent.session.09")
async def modes_can_be_chosen(stage: AgentStage) -> None:
    """The last one offered."""
    _, known = await _modes(stage)
    if not known:
        stage.unsure("the agent offers no mode")
    heard = await stage.requested("session/set_mode", {"sessionId": stage.session, "modeId": known[-1]})
    stage.granted(heard, f"the mode {known[-1]!r}")


@probe("agent.session.10")
async def unknown_modes_are_refused(stage: AgentStage) -> None:
    """A mode is a promise about permission."""
    await _modes(stage)
    heard = await stage.requested("session/set_mode", {"sessionId": stage.session, "modeId": "no-such-mode"})
    stage.refused(heard, "a mode that is not available")


async def _options(stage: AgentStage) -> list[Json]:
    await stage.opened()
    options = stage.setup.get("configOptions")
    if not options:
        stage.skip("the agent has no options")
    return [option for option in options if isinstance(option, dict)]


def _values(option: Json) -> list[Json]:
    """The values of a choice, those of its groups too."""
    flat: list[Json] = []
    for entry in option.get("options") or []:
        flat += entry.get("options") or [] if "group" in entry else [entry]
    return [entry.get("value") for entry in flat if isinstance(entry, dict)]


@probe("agent.session.11")
async def options_are_whole(stage: AgentStage) -> None:
    """A client has nothing else to draw them from."""
    for option in await _options(stage):
        words = fault(option, {"id": some, "name": str, "type": some, "currentValue": object})
        stage.require(not words, f"option {option.get('id')!r}: {words}")


@probe("agent.session.12")
async def values_are_choices(stage: AgentStage) -> None:
    """The current value has a name to show."""
    for option in await _options(stage):
        if option.get("type") == "select":
            current, known = option.get("currentValue"), _values(option)
            stage.require(current in known, f"{option.get('id')}: the value {current!r} is none of {known}")


@probe("agent.session.13")
async def setting_gives_all_options(stage: AgentStage) -> None:
    """One option may change others, so all are told."""
    options = await _options(stage)
    choice = next((each for each in options if each.get("type") == "select" and _values(each)), None)
    if choice is None:
        stage.unsure("the agent has no choice to set")
    assert choice is not None
    value = _values(choice)[-1]
    params = {"sessionId": stage.session, "configId": choice["id"], "value": value}
    heard = await stage.requested("session/set_config_option", params)
    if heard is None or "error" in heard.message:
        stage.unsure("the option could not be set", heard)
    assert heard is not None
    told: Json = (heard.message["result"] or {}).get("configOptions")
    words = fault(told, [{"id": some}], "configOptions")
    stage.require(not words, words, heard)
    now = {option["id"]: option.get("currentValue") for option in told}
    missing = [option["id"] for option in options if option["id"] not in now]
    stage.require(not missing, f"the answer lacks the options {', '.join(missing)}", heard)
    stage.require(
        now[choice["id"]] == value, f"{choice['id']} was set to {value!r} and is {now[choice['id']]!r}", heard
    )


@probe("agent.session.14")
async def unknown_options_are_refused(stage: AgentStage) -> None:
    """Not taken and forgotten."""
    await _options(stage)
    params = {"sessionId": stage.session, "configId": "no-such-option", "value": "x"}
    stage.refused(await stage.requested("session/set_config_option", params), "an option that is not there")


@probe("agent.session.38")
async def unknown_values_are_refused(stage: AgentStage) -> None:
    """The choice stays as it was."""
    options = await _options(stage)
    choice = next((each for each in options if each.get("type") == "select" and _values(each)), None)
    if choice is None:
        stage.unsure("the agent has no choice to set")
    assert choice is not None
    params = {"sessionId": stage.session, "configId": choice["id"], "value": "no-such-value"}
    stage.refused(await stage.requested("session/set_config_option", params), "a value that a choice has not")


@probe("agent.session.39")
async def switches_can_be_set(stage: AgentStage) -> None:
    """To what it is not."""
    options = await _options(stage)
    switch = next((each for each in options if each.get("type") == "boolean"), None)
    if switch is None:
        stage.skip("the agent has no switches")
    assert switch is not None
    value = not switch.get("currentValue")
    params = {"sessionId": stage.session, "configId": switch["id"], "type": "boolean", "value": value}
    heard = await stage.asked("session/set_config_option", params)
    told: Json = (stage.granted(heard, "a switch") or {}).get("configOptions")
    words = fault(told, [{"id": some}], "configOptions")
    stage.require(not words, words, heard)
    now = next((option.get("currentValue") for option in told if option["id"] == switch["id"]), None)
    stage.require(now is value, f"{switch['id']} was set to {value} and is {now!r}", heard)


@probe("agent.session.15")
async def switches_are_announced(stage: AgentStage) -> None:
    """Older clients know choices only."""
    await stage.opened(capabilities=hello.NOTHING[stage.dialect])
    options = stage.setup.get("configOptions") or []
    switches = [option.get("id") for option in options if isinstance(option, dict) and option.get("type") == "boolean"]
    stage.require(not switches, f"a client that did not announce it was shown the switches {switches}")


# --- two at once ------------------------------------------------------------------------------------------------


@probe("agent.session.31")
async def updates_name_their_session(stage: AgentStage) -> None:
    """Two turns, one after the other, in two sessions."""
    first, second = await stage.opened_two()
    turn = await stage.prompted(stage.words("plain"), second)
    wrong = [
        heard
        for heard in stage.updates("agent_message_chunk", turn.start)
        if isinstance(heard.params, dict) and heard.params.get("sessionId") == first
    ]
    stage.require(not wrong, "an update of the second session names the first", *wrong)


@probe("agent.session.32")
async def sessions_work_side_by_side(stage: AgentStage) -> None:
    """A short turn in one while a long one runs in the other."""
    await side_by_side(stage, *await stage.opened_two())


async def side_by_side(stage: AgentStage, long: str, short: str) -> None:
    """A turn in one session while another runs in the other."""
    running = stage.begin(stage.words("slow"), long)
    await stage.silence()
    turn = await stage.ended(stage.begin(stage.words("plain"), short))
    stage.require(turn.answer, "while one session was at work the other did not answer a prompt")
    stage.cancel(long)
    await stage.ended(running)
