"""Probes of an agent's introduction."""

from __future__ import annotations

from typing import Any

from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import AgentStage
from dragoman.conformance.harness.peer import Json
from dragoman.conformance.json_shape import fault, some
from dragoman.conformance.probe import probe
from dragoman.engine.peer_info import offers

VERSION = {"crow": "protocol_version"}
INFO = {"crow": "agent_info", "2025.1": "agent_info"}
UNHEARD_OF = 65535  # the largest version that can be said

# Optional methods, the gate of each, and params that name no session there is.
OPTIONAL: dict[str, tuple[str, dict[str, Any]]] = {
    "session/load": ("agent.loadSession", {"sessionId": "none", "cwd": "/", "mcpServers": []}),
    "session/resume": ("agent.sessionCapabilities.resume", {"sessionId": "none", "cwd": "/", "mcpServers": []}),
    "session/list": ("agent.sessionCapabilities.list", {}),
    "session/delete": ("agent.sessionCapabilities.delete", {"sessionId": "none"}),
    "session/close": ("agent.sessionCapabilities.close", {"sessionId": "none"}),
    "session/fork": ("agent.sessionCapabilities.fork", {"sessionId": "none", "cwd": "/", "mcpServers": []}),
}


@probe("agent.init.01")
async def the_introduction_is_answered(stage: AgentStage) -> None:
    """With an object, whatever is in it."""
    params = hello.initialize(stage.dialect, stage.cwd, hello.ALL[stage.dialect])
    result = stage.granted(await stage.asked("initialize", params, stage.pace.start), "initialize")
    stage.require(isinstance(result, dict), "initialize was not answered with an object", stage.heard[-1])


async def _version(stage: AgentStage) -> Json:
    result = await stage.initialized()
    return result.get(VERSION.get(stage.dialect, "protocolVersion"))


@probe("agent.init.02")
async def the_version_is_a_number(stage: AgentStage) -> None:
    """Not a text, not absent."""
    words = fault(await _version(stage), int, "the version")
    stage.require(not words, words, stage.introduction)


@probe("agent.init.03")
async def the_known_version_is_agreed_on(stage: AgentStage) -> None:
    """We ask for 1, which every agent of these dialects has."""
    found = await _version(stage)
    if not isinstance(found, int):
        stage.unsure("the agent names no version")
    stage.require(found == 1, f"asked for version 1, the agent answered {found}", stage.introduction)


@probe("agent.init.04")
async def unheard_of_versions_are_not_agreed_to(stage: AgentStage) -> None:
    """An agent that echoes what it was asked for promises what it cannot keep."""
    params = hello.initialize(stage.dialect, stage.cwd, {}) | {"protocolVersion": UNHEARD_OF}
    heard = await stage.asked("initialize", params, stage.pace.start)
    if heard is None:
        stage.unsure("an initialize of another version was not answered")
    assert heard is not None
    result = heard.message.get("result")
    found = result.get("protocolVersion") if isinstance(result, dict) else None
    stage.require(found != UNHEARD_OF, f"the agent agrees to version {UNHEARD_OF}, which nobody has", heard)


async def _drawn(stage: AgentStage, drawing: Json) -> None:
    result = await stage.initialized()
    words = fault(result, drawing)
    stage.require(not words, words, stage.introduction)


@probe("agent.init.05")
async def load_session_is_a_switch(stage: AgentStage) -> None:
    """A text would be true for one client and an error for another."""
    await _drawn(stage, {"agentCapabilities?": {"loadSession?": bool}})


@probe("agent.init.06")
async def prompt_capabilities_are_switches(stage: AgentStage) -> None:
    """Those of MCP too."""
    prompt = {"image?": bool, "audio?": bool, "embeddedContext?": bool}
    mcp = {"http?": bool, "sse?": bool}
    await _drawn(stage, {"agentCapabilities?": {"promptCapabilities?": prompt, "mcpCapabilities?": mcp}})


@probe("agent.init.07")
async def session_capabilities_are_objects(stage: AgentStage) -> None:
    """`{}` says yes."""
    names = ("list", "delete", "additionalDirectories", "resume", "close", "fork")
    await _drawn(stage, {"agentCapabilities?": {"sessionCapabilities?": {f"{name}?": dict for name in names}}})


@probe("agent.init.08")
@probe("agent.init.09")
async def the_agent_says_who_it_is(stage: AgentStage) -> None:
    """Reports of faults need a name."""
    await _drawn(stage, {INFO.get(stage.dialect, "agentInfo"): {"name": some, "version": str}})


@probe("agent.init.10")
async def logins_can_be_named(stage: AgentStage) -> None:
    """A client shows the name and sends the id."""
    await _drawn(stage, {"authMethods?": [{"id": some, "name": some}]})


@probe("agent.init.11")
async def sessions_before_the_introduction_are_a_wrong_state(stage: AgentStage) -> None:
    """With the number that the dialect has for it."""
    heard = await stage.asked("session/new", hello.new_session(stage.dialect, stage.cwd, "one"), stage.pace.start)
    stage.refused(heard, "session/new before initialize", stage.code("invalid_state"))


@probe("agent.init.12")
async def sessions_before_the_introduction_are_refused(stage: AgentStage) -> None:
    """With any error."""
    heard = await stage.asked("session/new", hello.new_session(stage.dialect, stage.cwd, "one"), stage.pace.start)
    stage.refused(heard, "session/new before initialize")


@probe("agent.init.13")
async def a_second_introduction_is_answered(stage: AgentStage) -> None:
    """Refused or taken, but not left without a word."""
    await stage.initialized()
    params = hello.initialize(stage.dialect, stage.cwd, {})
    stage.require(await stage.asked("initialize", params), "a second initialize was not answered")


@probe("agent.init.14")
async def unknown_capabilities_are_ignored(stage: AgentStage) -> None:
    """New ones are no new version."""
    params = hello.initialize(stage.dialect, stage.cwd, {**hello.ALL[stage.dialect], "skillOfTheFuture": {"a": 1}})
    heard = await stage.asked("initialize", params, stage.pace.start)
    stage.granted(heard, "initialize with a capability nobody knows")


@probe("agent.init.15")
async def the_shortest_introduction_is_enough(stage: AgentStage) -> None:
    """A version, and nothing else."""
    heard = await stage.asked("initialize", {"protocolVersion": 1}, stage.pace.start)
    stage.granted(heard, "initialize with nothing but a version")


@probe("agent.init.16")
async def what_is_offered_is_there(stage: AgentStage) -> None:
    """Any answer but "method not found" will do."""
    await stage.initialized()
    for method, (gate, params) in OPTIONAL.items():
        if offers(gate, stage.capabilities):
            heard = await stage.asked(method, {**params, "cwd": stage.cwd} if "cwd" in params else params)
            error = heard.message.get("error") if heard else None
            found = error.get("code") if isinstance(error, dict) else None
            stage.require(found != -32601, f"{method} is offered and not there", heard)
            if heard is None or (isinstance(error, dict) and type(found) is not int):
                told = f"was refused with {found!r}" if heard else "was not answered"
                stage.unsure(f"{method} {told}: that does not say whether it is there", heard)


@probe("agent.init.17")
async def what_is_not_offered_is_refused(stage: AgentStage) -> None:
    """A client that trusts the capabilities would never know of it."""
    await stage.initialized()
    closed = [method for method, (gate, _) in OPTIONAL.items() if not offers(gate, stage.capabilities)]
    if not closed:
        stage.skip("the agent offers every optional method")
    for method in closed:
        params = OPTIONAL[method][1]
        stage.refused(await stage.asked(method, params), f"{method}, which is not offered,")


@probe("agent.init.18")
async def a_refused_introduction_may_be_repeated(stage: AgentStage) -> None:
    """First one whose params are a text."""
    first = await stage.asked("initialize", "hello", stage.pace.start)
    if first is not None and "error" not in first.message:
        stage.skip("the agent takes anything for an introduction")
    params = hello.initialize(stage.dialect, stage.cwd, hello.ALL[stage.dialect])
    stage.granted(await stage.asked("initialize", params, stage.pace.start), "initialize after one that was refused")


@probe("agent.init.19")
async def null_capabilities_are_none(stage: AgentStage) -> None:
    """As some clients write what they have not got."""
    lent = {"fs": None, "terminal": None, "elicitation": None, "session": None}
    heard = await stage.asked("initialize", hello.initialize(stage.dialect, stage.cwd, lent), stage.pace.start)
    stage.granted(heard, "initialize with null for capabilities")
