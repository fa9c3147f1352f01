"""Probes of how a client meets its agent."""

from __future__ import annotations

import asyncio

from dragoman.conformance.harness.client import INTRODUCTION, ClientStage
from dragoman.conformance.harness.peer import Heard, Json
from dragoman.conformance.probe import probe

# Longer than an impatient client waits, shorter than anybody at a terminal notices. Seconds.
SLOW = 1.2

# Methods of an agent that ours, which offers nothing, does not have.
UNOFFERED = frozenset(
    {
        f"session/{name}"
        for name in ("load", "list", "resume", "delete", "close", "fork", "set_mode", "set_config_option")
    }
    | {"logout", "providers/list", "session/set_model"}
)


def introduction(**members: Json) -> Json:
    """An agent's answer to initialize, with these members."""
    return {**INTRODUCTION, **members}


async def met(stage: ClientStage, answer: Json, what: str) -> None:
    """A client must go on to a prompt after this answer to initialize."""
    stage.answers["initialize"] = answer
    prompt = await stage.until(lambda heard: heard.method == "session/prompt", stage.pace.start)
    ending = stage.grounds.ending()
    stage.require(prompt is not None, f"the client gave up an agent {what}: {ending.words()}")
    assert prompt is not None
    await stage.survived(prompt, f"an agent {what}")


@probe("client.life.01")
async def initialize_comes_first(stage: ClientStage) -> None:
    """Whatever the client wants."""
    heard = await stage.next(stage.pace.start)
    if heard is None:
        stage.unsure("the client said nothing")
    assert heard is not None
    stage.require(heard.method == "initialize", f"the first message is {heard.method or 'no call'}", heard)


@probe("client.life.02")
async def the_version_is_an_integer(stage: ClientStage) -> None:
    """As it stands on the wire."""
    heard = await stage.introduced()
    name = "protocol_version" if stage.dialect == "crow" else "protocolVersion"
    version = heard.message.get("params", {}).get(name)
    stage.require(type(version) is int, f"{name} is {version!r}, not an integer", heard)


@probe("client.life.03")
async def the_client_has_a_name(stage: ClientStage) -> None:
    """Agents log it, and some adapt to it."""
    heard = await stage.introduced()
    info = heard.params.get("clientInfo") if isinstance(heard.params, dict) else None
    told = isinstance(info, dict) and isinstance(info.get("name"), str) and isinstance(info.get("version"), str)
    stage.require(told, "the client does not tell its name and version", heard)


@probe("client.life.04")
async def capabilities_are_booleans(stage: ClientStage) -> None:
    """Those that are there."""
    heard = await stage.introduced()
    offered = heard.message.get("params", {}).get("clientCapabilities", {})
    stage.require(isinstance(offered, dict), "clientCapabilities is not an object", heard)
    files = offered.get("fs") or {}
    told = [files.get(name, False) for name in ("readTextFile", "writeTextFile")] + [offered.get("terminal", False)]
    stage.require(all(isinstance(each, bool) for each in told), "a capability is not a boolean", heard)


@probe("client.life.05")
async def the_answer_is_waited_for(stage: ClientStage) -> None:
    """Nothing comes while initialize is open."""
    stage.held.add("initialize")
    first = await stage.introduced()
    early = await stage.silence()
    stage.require(not early, "the client went on before initialize was answered", *early)
    stage.answer_as(first, INTRODUCTION)


@probe("client.life.06")
async def an_unknown_version_is_left(stage: ClientStage) -> None:
    """No session with an agent whose words it cannot know."""
    stage.answers["initialize"] = introduction(protocolVersion=999)
    heard = await stage.until(lambda heard: heard.method == "session/new", stage.pace.answer)
    stage.require(heard is None, "the client opens a session with an agent of version 999", heard)
    if not stage.heard:
        stage.unsure("the client said nothing")


@probe("client.life.07")
async def a_bare_introduction_is_enough(stage: ClientStage) -> None:
    """As that of the echo agent of the Python SDK."""
    await met(stage, {"protocolVersion": 1}, "that tells neither name nor capabilities")


@probe("client.life.08")
async def unknown_capabilities_are_ignored(stage: ClientStage) -> None:
    """As codex and others have them."""
    more = {"sessionCapabilities": {"subagents": {}}, "vendorThing": {"a": [1]}, "_meta": {"x": {}}}
    methods = [{"id": "env", "name": "Key", "type": "env_var", "vars": [{"name": "KEY"}]}]
    await met(stage, introduction(agentCapabilities=more, authMethods=methods, extra=1), "with unknown capabilities")


@probe("client.life.09")
async def nulls_are_absences(stage: ClientStage) -> None:
    """Some encoders write them all."""
    nothing = {"sessionCapabilities": {"list": None, "resume": None}, "auth": None, "_meta": None}
    await met(stage, introduction(agentInfo=None, agentCapabilities=nothing), "with nulls in its introduction")


async def _turn(stage: ClientStage) -> list[Heard]:
    prompt = await stage.begun()
    await stage.fence()
    stage.end(prompt)
    await stage.over()
    return stage.heard


@probe("client.life.10")
async def initialize_comes_once(stage: ClientStage) -> None:
    """In a whole turn."""
    found = [each for each in await _turn(stage) if each.method == "initialize"]
    stage.require(len(found) == 1, f"initialize came {len(found)} times", *found)


@probe("client.life.11")
async def only_what_is_offered_is_asked_for(stage: ClientStage) -> None:
    """Our agent offers nothing but sessions and prompts."""
    found = [each for each in await _turn(stage) if each.method in UNOFFERED]
    stage.require(not found, f"the client asks for {found[0].method if found else ''}, which is not offered", *found)


def _locked(stage: ClientStage) -> None:
    methods = [
        {"id": "in-terminal", "name": "Sign in here", "type": "terminal", "args": ["login"]},
        {"id": "by-agent", "name": "Sign in in a browser"},
    ]
    stage.answers["initialize"] = introduction(authMethods=methods)
    stage.held.add("session/new")


async def _refused(stage: ClientStage) -> None:
    """Refuse sessions for a while; whatever else is asked is answered."""

    def refuse(heard: Heard) -> bool:
        if heard.method == "session/new" and heard.is_request:
            stage.refuse(heard, stage.spelling.error_codes["auth_required"], "Authentication required")
        return heard.method == "authenticate"

    await stage.until(refuse, stage.pace.answer)
    if not any(each.method == "session/new" for each in stage.heard):
        stage.unsure("the client opened no session")


@probe("client.life.12")
async def only_an_offered_method_is_used(stage: ClientStage) -> None:
    """Not one for a terminal, and not one of its own; to give up is fine."""
    _locked(stage)
    await _refused(stage)
    for heard in stage.heard:
        if heard.method == "authenticate":
            chosen = heard.message.get("params", {}).get("methodId")
            stage.require(chosen == "by-agent", f"the client authenticates with {chosen!r}", heard)


@probe("client.life.13")
async def refusals_are_taken(stage: ClientStage) -> None:
    """Once more is a try, three times is a loop."""
    _locked(stage)
    await _refused(stage)
    found = [each for each in stage.heard if each.method == "session/new"]
    stage.require(len(found) <= 2, f"the client asked for a session {len(found)} times without authenticating", *found)


@probe("client.life.14")
async def no_prompt_without_a_session(stage: ClientStage) -> None:
    """session/new fails."""
    stage.held.add("session/new")
    opening = await stage.wanted("session/new", stage.pace.start)
    stage.refuse(opening, -32603, "Internal error")
    heard = await stage.until(lambda heard: heard.method == "session/prompt", stage.pace.answer)
    stage.require(heard is None, "the client prompts though no session was opened", heard)


@probe("client.life.15")
async def a_slow_agent_is_waited_for(stage: ClientStage) -> None:
    """As one that first installs itself."""
    stage.held.add("initialize")
    first = await stage.introduced()
    await asyncio.sleep(SLOW)
    stage.answer_as(first, INTRODUCTION)
    prompt = await stage.until(lambda heard: heard.method == "session/prompt", stage.pace.start)
    stage.require(prompt is not None, f"the client gave up an agent that took {SLOW:g} seconds to introduce itself")
    assert prompt is not None
    stage.end(prompt)
