"""Updates of an agent."""

from __future__ import annotations

import re
from typing import Any

from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.json_shape import BLOCKS, Shape, base64_text, content_block, natural, non_empty, one_of
from dragoman.conformance.requirement import Probe, must, should

KINDS = frozenset(
    {"user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"}
    | {"available_commands_update", "current_mode_update", "config_option_update", "session_info_update"}
    | {"usage_update", "notice", "compaction_update", "compaction_summary_chunk", "plan_update", "plan_removed"}
    | {"subagent_update", "session_message", "session_message_chunk"}
)
_WORD = re.compile(r"[^\s/]+")
ENTRY = {
    "content": str,
    "priority": one_of("high", "medium", "low"),
    "status": one_of("pending", "in_progress", "completed"),
}


def wire_update(frame: ReceivedFrame) -> Json:
    """Return the update on the wire: `update`, or `data` in dialects that call it so."""
    return frame.wire_params.get("update", frame.wire_params.get("data"))


async def require_update_frames(agent: AgentUnderTest, purpose: str, shape: Shape) -> None:
    """Require that the params of every session/update on the wire have this shape."""
    await agent.run_turn(purpose)
    for frame in agent.received:
        if frame.message.get("method") == "session/update":
            agent.require_params(frame, shape)


async def collect_updates(agent: AgentUnderTest, purpose: str, kind: str, **members: Any) -> list[ReceivedFrame]:
    """Run a turn; return its updates of a kind, inconclusive if there are none."""
    await agent.run_turn(purpose)
    await agent.collect()
    found = [frame for frame in agent.updates(kind) if not members or members.items() <= _content(frame).items()]
    return agent.assume(found, f"the agent sent no {kind}" + (f" with {members}" if members else ""))


def _content(frame: ReceivedFrame) -> dict[str, Json]:
    update = wire_update(frame)
    content = update.get("content") if isinstance(update, dict) else None
    return content if isinstance(content, dict) else {}


def updates_match(sentence: str, purpose: str, kind: str, shape: Shape, **members: Any) -> Probe:
    """Return a probe: every update of a kind has this shape."""

    async def probe(agent: AgentUnderTest) -> None:
        for frame in await collect_updates(agent, purpose, kind, **members):
            agent.require_shape(wire_update(frame), shape, frame, kind)

    probe.__doc__ = sentence
    return probe


must("agent.update.04", "updates.md#chunks", "v1 banjo")(
    updates_match(
        "A piece of a message holds a content block.", "plain", "agent_message_chunk", {"content": content_block}
    )
)
must("agent.update.05", "updates.md#chunks", "v1 banjo")(
    updates_match(
        "A piece of a thought holds a content block.", "think", "agent_thought_chunk", {"content": content_block}
    )
)
must("agent.update.06", "updates.md#message-ids", "v1")(
    updates_match("The id of a message is a string, if present.", "plain", "agent_message_chunk", {"messageId?": str})
)
must("agent.update.07", "updates.md#plan", "v1")(
    updates_match("Every entry of a plan has content, priority and status.", "plan", "plan", {"entries": [ENTRY]})
)
must("agent.update.08", "updates.md#commands", "v1 banjo")(
    updates_match(
        "Every command has a name and a description.",
        "plain",
        "available_commands_update",
        {"availableCommands": [{"name": non_empty, "description": str, "input?": dict}]},
    )
)
must("agent.update.12", "updates.md#context-usage, peers.md#null-usage", "v1")(
    updates_match(
        "The numbers of a usage_update are integers.",
        "usage",
        "usage_update",
        {"used": natural, "size": natural},
    )
)
must("agent.update.13", "updates.md#session-info", "v1")(
    updates_match(
        "A title is a string, or null to remove it.",
        "title",
        "session_info_update",
        {"title?": str, "updatedAt?": str},
    )
)
must("agent.update.22", "updates.md#notice", "v1")(
    updates_match(
        "A notice has a severity and a non-empty title.",
        "notice",
        "notice",
        {"severity": str, "title": non_empty, "description?": str},
    )
)
must("agent.update.23", "updates.md#compaction", "v1")(
    updates_match(
        "A compaction has an id and a status.",
        "compact",
        "compaction_update",
        {"compactionId": non_empty, "status": str},
    )
)

PICTURE = {"content": {"data": base64_text, "mimeType": re.compile("image/.+").fullmatch}}
SOUND = {"content": {"data": base64_text, "mimeType": re.compile("audio/.+").fullmatch}}
must("agent.update.16", "content.md#image", "v1 banjo")(
    updates_match(
        "An image has bytes in base64 and a media type.", "image", "agent_message_chunk", PICTURE, type="image"
    )
)
must("agent.update.17", "content.md#audio", "v1 banjo")(
    updates_match("Audio has bytes in base64 and a media type.", "audio", "agent_message_chunk", SOUND, type="audio")
)
must("agent.update.19", "content.md#resource-link", "v1 banjo")(
    updates_match(
        "A link to a resource has a URI and a name.",
        "resource",
        "agent_message_chunk",
        {"content": BLOCKS["resource_link"]},
        type="resource_link",
    )
)


@must("agent.update.01", "updates.md#frame", "v1 banjo crow draft")
async def sessions_are_named(agent: AgentUnderTest) -> None:
    """An update names a session that was opened."""
    await agent.run_turn("plain")
    for frame in agent.calls("session/update"):
        found = frame.wire_params.get(hello.UPDATED[agent.dialect])
        agent.require(found == agent.session, f"an update names the session {found!r}, which was not opened", frame)


@must("agent.update.02", "updates.md#frame", "v1 banjo")
async def updates_state_their_kind(agent: AgentUnderTest) -> None:
    """An update is an object that states its kind."""
    await require_update_frames(agent, "plain", {"update": {"sessionUpdate": non_empty}})


@must("agent.update.03", "updates.md#frame", "v1")
async def kinds_are_known(agent: AgentUnderTest) -> None:
    """The kind of an update is known, or begins with an underscore."""
    # In v1 the kinds are a closed list (docs/protocol/peers.md#unknown-updates).
    await agent.run_turn("tour")
    for frame in agent.updates():
        agent.require_shape(frame.kind, KINDS, frame, "the kind of an update")


@should("agent.update.09", "updates.md#commands", "v1 banjo")
async def command_names_are_words(agent: AgentUnderTest) -> None:
    """The name of a command is a word, without the slash."""
    for frame in await collect_updates(agent, "plain", "available_commands_update"):
        for command in wire_update(frame).get("availableCommands") or []:
            name = str(command.get("name"))
            agent.require(_WORD.fullmatch(name), f"the command {name!r} is not a word", frame)


@must("agent.update.10", "updates.md#mode-and-options, sessions.md#modes", "v1 banjo")
async def reported_modes_are_available(agent: AgentUnderTest) -> None:
    """A change of mode names a mode that is available."""
    found = await collect_updates(agent, "mode", "current_mode_update")
    known = agent.assume(
        agent.available_modes(), "the session has no modes, so it is unknown whether this one is available", *found
    )
    for frame in found:
        mode = wire_update(frame).get("currentModeId")
        agent.require(mode in known, f"the mode is now {mode!r}, none of {known}", frame)


@must("agent.update.11", "updates.md#mode-and-options", "v1")
async def all_options_are_reported(agent: AgentUnderTest) -> None:
    """An update of options has all options."""
    found = await collect_updates(agent, "option", "config_option_update")
    names = {option.get("id") for option in agent.setup.get("configOptions") or []}
    for frame in found:
        update = wire_update(frame)
        if update.get("sessionUpdate") != "config_option_update":
            continue  # current_model_update, which is read as an update of one option
        now = {option.get("id") for option in update.get("configOptions") or []}
        agent.require(names <= now, f"the options {sorted(names - now)} are not sent", frame)


async def _require_not_sent(agent: AgentUnderTest, purpose: str, *kinds: str) -> None:
    await agent.open_session(capabilities=hello.NOTHING[agent.dialect])
    await agent.run_turn(purpose)
    await agent.collect()
    agent.require_none(agent.updates(*kinds), f"a client that did not announce it got {kinds[0]}")


@must("agent.update.14", "updates.md#gates", "v1")
async def notices_are_announced(agent: AgentUnderTest) -> None:
    """Notices are sent only to clients that announced support for them."""
    await _require_not_sent(agent, "notice", "notice")


@must("agent.update.15", "updates.md#gates", "v1")
async def compactions_are_announced(agent: AgentUnderTest) -> None:
    """Compactions are sent only to clients that announced support for them."""
    await _require_not_sent(agent, "compact", "compaction_update", "compaction_summary_chunk")


@must("agent.update.18", "content.md#resource", "v1 banjo")
async def resources_are_complete(agent: AgentUnderTest) -> None:
    """An embedded resource has a URI, and either text or bytes."""
    for frame in await collect_updates(agent, "resource", "agent_message_chunk", type="resource"):
        content = wire_update(frame)["content"].get("resource")
        agent.require_shape(content, {"uri": non_empty}, frame, "resource")
        both = ("text" in content) + ("blob" in content)
        agent.require(both == 1, f"a resource has {'both text and bytes' if both else 'neither text nor bytes'}", frame)


@must("agent.update.20", "updates.md#frame")
async def updates_want_no_answer(agent: AgentUnderTest) -> None:
    """An update is a notification: it has no id."""
    await agent.run_turn("plain")
    wrong = [frame for frame in agent.calls("session/update") if "id" in frame.message]
    agent.require_none(wrong, "an update has an id")


def meta_members(value: Json) -> list[Json]:
    """Return every _meta in a message, except in the input and output of tools."""
    if isinstance(value, list):
        return [found for item in value for found in meta_members(item)]
    if not isinstance(value, dict):
        return []
    here = [value["_meta"]] if "_meta" in value else []
    return here + [
        found for name, item in value.items() if not name.startswith(("raw", "_")) for found in meta_members(item)
    ]


@must("agent.update.21", "extensions.md#meta")
async def meta_is_an_object(agent: AgentUnderTest) -> None:
    """_meta is an object wherever it occurs."""
    await agent.run_turn("tour")
    for frame in agent.received:
        for found in meta_members(frame.message):
            agent.require(found is None or isinstance(found, dict), f"_meta is {found!r}, not an object", frame)


@should("agent.update.24", "peers.md#empty-chunks")
async def pieces_are_not_empty(agent: AgentUnderTest) -> None:
    """Pieces of a message are not empty."""
    for frame in await collect_updates(agent, "plain", "agent_message_chunk"):
        content = frame.update.get("content")
        is_empty = isinstance(content, dict) and content.get("text") == ""
        agent.require(not is_empty, "a piece of a message is empty", frame)
