"""Faults in an agent's updates."""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.faults.edits import edit_calls, edit_incoming, edit_params, edit_updates, with_, without
from tests.conformance.faults.fault import Fault, FaultContext, Json, seed


def block(kind: str, *lacking: str, **members: Json) -> Fault:
    """Edit blocks of one type in messages."""

    def edit(update: Json) -> None:
        held = update["content"]
        if held["type"] == kind:
            update["content"] = {name: value for name, value in {**held, **members}.items() if name not in lacking}

    return edit_updates("agent_message_chunk", edit)


def entries(update: Json) -> None:
    """The first entry of a plan has an unknown priority."""
    update["entries"][0]["priority"] = "urgent"


def _commands(**members: Json) -> Fault:
    def edit(update: Json) -> None:
        update["availableCommands"][0].update(members)

    return edit_updates("available_commands_update", edit)


def also_update(words: str, update: Json) -> Fault:
    """A prompt with this text gets this update, whatever the client announced."""

    def edit_message(context: FaultContext, message: Json) -> Iterable[Json]:
        if words in str(message.get("params")):
            params = {"sessionId": message["params"]["sessionId"], "update": update}
            context.send({"jsonrpc": "2.0", "method": "session/update", "params": params})
        yield message

    return edit_incoming("session/prompt", edit_message)


def _text_and_blob(update: Json) -> None:
    held = update["content"]
    if held["type"] == "resource":
        held["resource"] |= {"text": "both", "blob": "Ym90aA=="}


def _update_with_id(_: FaultContext, message: Json) -> Iterable[Json]:
    is_chunk = "agent_message_chunk" in str(message["params"])
    yield {**message, "id": 77} if is_chunk else message


def _new_kind(_: FaultContext, message: Json) -> Iterable[Json]:
    params = message["params"]
    if params["update"]["sessionUpdate"] == "plan":
        message = {**message, "params": {**params, "update": {**params["update"], "sessionUpdate": "agent_plan"}}}
    yield message


seed(
    "agent.update.01",
    edit_params(
        "session/update", lambda params: {**params, "sessionId": "another"} if "chunk" in str(params) else params
    ),
)
seed("agent.update.02", edit_updates("available_commands_update", without("sessionUpdate")))
seed("agent.update.03", edit_calls("session/update", _new_kind))
seed("agent.update.04", edit_updates("agent_message_chunk", with_(content="text")))
seed("agent.update.05", edit_updates("agent_thought_chunk", with_(content="text")))
seed("agent.update.06", edit_updates("agent_message_chunk", with_(messageId=5)))
seed("agent.update.07", edit_updates("plan", entries))
seed("agent.update.08", _commands(description=None))
seed("agent.update.09", _commands(name="/echo"))
seed("agent.update.10", edit_updates("current_mode_update", with_(currentModeId="nowhere")))
seed(
    "agent.update.11",
    edit_updates("config_option_update", lambda update: {**update, "configOptions": update["configOptions"][:1]}),
)
seed("agent.update.12", edit_updates("usage_update", with_(used=None)))
seed("agent.update.13", edit_updates("session_info_update", with_(title=["A", "title"])))
seed("agent.update.14", also_update("/notice", {"sessionUpdate": "notice", "severity": "info", "title": "Well"}))
seed(
    "agent.update.15",
    also_update("/compact", {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed"}),
)
seed("agent.update.16", block("image", "mimeType"))
seed("agent.update.17", block("audio", data="not base64!"))
seed("agent.update.18", edit_updates("agent_message_chunk", _text_and_blob))
seed("agent.update.19", block("resource_link", "name"))
seed("agent.update.20", edit_calls("session/update", _update_with_id))
seed("agent.update.21", edit_updates("plan", with_(_meta="none")))
seed("agent.update.22", edit_updates("notice", with_(title="")))
seed("agent.update.23", edit_updates("compaction_update", without("status")))
seed(
    "agent.update.24",
    also_update("hello there", {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": ""}}),
)
