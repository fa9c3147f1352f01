"""Faults in an agent's updates."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.conformance.seeding import calls, hears, params, updates, with_, without
from dragoman.conformance.twin import Fault, Json, Tape, seeded


def block(kind: str, *lacking: str, **members: Json) -> Fault:
    """Blocks of one type in messages are otherwise."""

    def edit(update: Json) -> None:
        held = update["content"]
        if held["type"] == kind:
            update["content"] = {name: value for name, value in {**held, **members}.items() if name not in lacking}

    return updates("agent_message_chunk", edit)


def entries(update: Json) -> None:
    """The first entry of a plan has a priority nobody knows."""
    update["entries"][0]["priority"] = "urgent"


def _commands(**members: Json) -> Fault:
    def edit(update: Json) -> None:
        update["availableCommands"][0].update(members)

    return updates("available_commands_update", edit)


def also_telling(words: str, update: Json) -> Fault:
    """A prompt with these words is told this update, whatever the client announced."""

    def whole(tape: Tape, message: Json) -> Iterable[Json]:
        if words in str(message.get("params")):
            told = {"sessionId": message["params"]["sessionId"], "update": update}
            tape.say({"jsonrpc": "2.0", "method": "session/update", "params": told})
        yield message

    return hears("session/prompt", whole)


def _both(update: Json) -> None:
    held = update["content"]
    if held["type"] == "resource":
        held["resource"] |= {"text": "both", "blob": "Ym90aA=="}


def _numbered(_: Tape, message: Json) -> Iterable[Json]:
    is_chunk = "agent_message_chunk" in str(message["params"])
    yield {**message, "id": 77} if is_chunk else message


def _new_kind(_: Tape, message: Json) -> Iterable[Json]:
    told = message["params"]
    if told["update"]["sessionUpdate"] == "plan":
        message = {**message, "params": {**told, "update": {**told["update"], "sessionUpdate": "agent_plan"}}}
    yield message


seeded(
    "agent.update.01",
    params("session/update", lambda told: {**told, "sessionId": "another"} if "chunk" in str(told) else told),
)
seeded("agent.update.02", updates("available_commands_update", without("sessionUpdate")))
seeded("agent.update.03", calls("session/update", _new_kind))
seeded("agent.update.04", updates("agent_message_chunk", with_(content="text")))
seeded("agent.update.05", updates("agent_thought_chunk", with_(content="text")))
seeded("agent.update.06", updates("agent_message_chunk", with_(messageId=5)))
seeded("agent.update.07", updates("plan", entries))
seeded("agent.update.08", _commands(description=None))
seeded("agent.update.09", _commands(name="/echo"))
seeded("agent.update.10", updates("current_mode_update", with_(currentModeId="nowhere")))
seeded(
    "agent.update.11",
    updates("config_option_update", lambda update: {**update, "configOptions": update["configOptions"][:1]}),
)
seeded("agent.update.12", updates("usage_update", with_(used=None)))
seeded("agent.update.13", updates("session_info_update", with_(title=["A", "title"])))
seeded("agent.update.14", also_telling("/notice", {"sessionUpdate": "notice", "severity": "info", "title": "Well"}))
seeded(
    "agent.update.15",
    also_telling("/compact", {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed"}),
)
seeded("agent.update.16", block("image", "mimeType"))
seeded("agent.update.17", block("audio", data="not base64!"))
seeded("agent.update.18", updates("agent_message_chunk", _both))
seeded("agent.update.19", block("resource_link", "name"))
seeded("agent.update.20", calls("session/update", _numbered))
seeded("agent.update.21", updates("plan", with_(_meta="none")))
seeded("agent.update.22", updates("notice", with_(title="")))
seeded("agent.update.23", updates("compaction_update", without("status")))
seeded(
    "agent.update.24",
    also_telling("hello there", {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": ""}}),
)
