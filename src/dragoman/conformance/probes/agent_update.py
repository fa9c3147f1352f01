"""Probes of an agent's updates: a table from requirement to what to look at, and those that need more."""

from __future__ import annotations

import re
from typing import Any

from dragoman.conformance import json_shape
from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import AgentStage
from dragoman.conformance.harness.peer import Heard, Json
from dragoman.conformance.json_shape import Drawing, fault
from dragoman.conformance.probe import probe

KINDS = frozenset(
    {"user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"}
    | {"available_commands_update", "current_mode_update", "config_option_update", "session_info_update"}
    | {"usage_update", "notice", "compaction_update", "compaction_summary_chunk", "plan_update", "plan_removed"}
    | {"subagent_update", "session_message", "session_message_chunk"}
)
_WORD = re.compile(r"[^\s/]+")
ENTRY = {
    "content": str,
    "priority": json_shape.text("high", "medium", "low"),
    "status": json_shape.text("pending", "in_progress", "completed"),
}


def told(heard: Heard) -> Json:
    """The update as it stands on the wire: `update`, or `data` where that is its place."""
    params = heard.message.get("params")
    if not isinstance(params, dict):
        return None
    return params.get("update", params.get("data"))


async def seen(stage: AgentStage, purpose: str, kind: str, **members: Any) -> list[Heard]:
    """The updates of a kind that a turn for some purpose brought; none makes the probe inconclusive."""
    await stage.did(purpose)
    await stage.silence()
    found = stage.updates(kind)
    found = [heard for heard in found if all(_has(told(heard), name, value) for name, value in members.items())]
    if not found:
        stage.unsure(f"the agent told no {kind}" + (f" with {members}" if members else ""))
    return found


def _has(update: Json, name: str, value: Json) -> bool:
    held = update.get("content") if isinstance(update, dict) else None
    return isinstance(held, dict) and held.get(name) == value


def drawn(id: str, purpose: str, kind: str, drawing: Drawing, **members: Any) -> None:
    """Register a probe: every update of a kind looks like this."""

    async def looks_right(stage: AgentStage) -> None:
        for heard in await seen(stage, purpose, kind, **members):
            words = fault(told(heard), drawing)
            stage.require(not words, f"{kind}: {words}", heard)

    probe(id)(looks_right)


drawn("agent.update.04", "plain", "agent_message_chunk", {"content": json_shape.block})
drawn("agent.update.05", "think", "agent_thought_chunk", {"content": json_shape.block})
drawn("agent.update.06", "plain", "agent_message_chunk", {"messageId?": str})
drawn("agent.update.07", "plan", "plan", {"entries": [ENTRY]})
drawn(
    "agent.update.08",
    "plain",
    "available_commands_update",
    {"availableCommands": [{"name": json_shape.some, "description": str, "input?": dict}]},
)
drawn("agent.update.12", "usage", "usage_update", {"used": json_shape.count, "size": json_shape.count})
drawn("agent.update.13", "title", "session_info_update", {"title?": str, "updatedAt?": str})
drawn("agent.update.22", "notice", "notice", {"severity": str, "title": json_shape.some, "description?": str})
drawn("agent.update.23", "compact", "compaction_update", {"compactionId": json_shape.some, "status": str})

PICTURE = {"content": {"data": json_shape.base64, "mimeType": re.compile("image/.+").fullmatch}}
SOUND = {"content": {"data": json_shape.base64, "mimeType": re.compile("audio/.+").fullmatch}}
drawn("agent.update.16", "image", "agent_message_chunk", PICTURE, type="image")
drawn("agent.update.17", "audio", "agent_message_chunk", SOUND, type="audio")
drawn(
    "agent.update.19",
    "resource",
    "agent_message_chunk",
    {"content": json_shape.BLOCKS["resource_link"]},
    type="resource_link",
)


@probe("agent.update.01")
async def sessions_are_named(stage: AgentStage) -> None:
    """By the id that was given."""
    await stage.did("plain")
    for heard in stage.heard:
        if heard.method == "session/update":
            params = heard.message.get("params")
            found = params.get(hello.UPDATED[stage.dialect]) if isinstance(params, dict) else None
            stage.require(found == stage.session, f"an update names the session {found!r}, which was not opened", heard)


@probe("agent.update.02")
async def updates_say_their_kind(stage: AgentStage) -> None:
    """In the member that tells them apart."""
    await stage.did("plain")
    for heard in stage.heard:
        if heard.method == "session/update":
            words = fault(heard.message.get("params"), {"update": {"sessionUpdate": json_shape.some}})
            stage.require(not words, words, heard)


@probe("agent.update.03")
async def kinds_are_known(stage: AgentStage) -> None:
    """In v1 the kinds are a closed list (peers.md 32)."""
    await stage.did("tour")
    for heard in stage.updates():
        words = fault(heard.kind, KINDS, "the kind of an update")
        stage.require(not words, words, heard)


@probe("agent.update.09")
async def commands_are_words(stage: AgentStage) -> None:
    """The client writes the slash."""
    for heard in await seen(stage, "plain", "available_commands_update"):
        for command in told(heard).get("availableCommands") or []:
            name = str(command.get("name"))
            stage.require(_WORD.fullmatch(name), f"the command {name!r} is no word", heard)


@probe("agent.update.10")
async def modes_told_are_available(stage: AgentStage) -> None:
    """The agent changes its own mode."""
    found = await seen(stage, "mode", "current_mode_update")
    known = [mode.get("id") for mode in (stage.setup.get("modes") or {}).get("availableModes") or []]
    if not known:
        stage.unsure("the session told no modes, so it cannot be said whether this one is available", *found)
    for heard in found:
        mode = told(heard).get("currentModeId")
        stage.require(mode in known, f"the mode is now {mode!r}, none of {known}", heard)


@probe("agent.update.11")
async def all_options_are_told(stage: AgentStage) -> None:
    """The agent changes one of them."""
    found = await seen(stage, "option", "config_option_update")
    names = {option.get("id") for option in stage.setup.get("configOptions") or []}
    for heard in found:
        now = {option.get("id") for option in told(heard).get("configOptions") or []}
        stage.require(names <= now, f"the options {sorted(names - now)} are not told", heard)


async def _unannounced(stage: AgentStage, purpose: str, *kinds: str) -> None:
    await stage.opened(capabilities=hello.NOTHING[stage.dialect])
    await stage.prompted(stage.words(purpose))
    await stage.silence()
    found = [heard for heard in stage.updates() if heard.kind in kinds]
    stage.require(not found, f"a client that did not announce it was told {kinds[0]}", *found)


@probe("agent.update.14")
async def notices_are_announced(stage: AgentStage) -> None:
    """Older clients fail at what they do not know."""
    await _unannounced(stage, "notice", "notice")


@probe("agent.update.15")
async def compactions_are_announced(stage: AgentStage) -> None:
    """Likewise."""
    await _unannounced(stage, "compact", "compaction_update", "compaction_summary_chunk")


@probe("agent.update.18")
async def resources_are_whole(stage: AgentStage) -> None:
    """Text or bytes, not both and not neither."""
    for heard in await seen(stage, "resource", "agent_message_chunk", type="resource"):
        held = told(heard)["content"].get("resource")
        words = fault(held, {"uri": json_shape.some}, "resource")
        stage.require(not words, words, heard)
        both = ("text" in held) + ("blob" in held)
        stage.require(both == 1, f"a resource has {'both text and bytes' if both else 'neither text nor bytes'}", heard)


@probe("agent.update.20")
async def updates_want_no_answer(stage: AgentStage) -> None:
    """A client would owe one."""
    await stage.did("plain")
    for heard in stage.heard:
        if heard.method == "session/update":
            stage.require("id" not in heard.message, "an update has an id", heard)


def metas(value: Json) -> list[Json]:
    """Everything called _meta in a message, but not in what a tool said or took."""
    if isinstance(value, list):
        return [found for item in value for found in metas(item)]
    if not isinstance(value, dict):
        return []
    here = [value["_meta"]] if "_meta" in value else []
    return here + [found for name, item in value.items() if not name.startswith(("raw", "_")) for found in metas(item)]


@probe("agent.update.21")
async def meta_is_an_object(stage: AgentStage) -> None:
    """Or null."""
    await stage.did("tour")
    for heard in stage.heard:
        for found in metas(heard.message):
            stage.require(found is None or isinstance(found, dict), f"_meta is {found!r}, not an object", heard)


@probe("agent.update.24")
async def pieces_are_not_empty(stage: AgentStage) -> None:
    """A piece of nothing says nothing."""
    for heard in await seen(stage, "plain", "agent_message_chunk"):
        held = heard.update.get("content")
        stage.require(not isinstance(held, dict) or held.get("text") != "", "a piece of a message is empty", heard)
