"""Faults in the updates of a v2 agent."""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.faults.edits import Edit, with_, without
from tests.conformance.faults.fault import FaultContext, Json, seed
from tests.conformance.faults.v2_edits import When, change_updates, during, edit_update, with_update

CHUNK, PLAN, TOUR = "agent_message_chunk", "plan_update", during("/tour")


def _homeless(_: FaultContext, message: Json, __: Json) -> Iterable[Json]:
    yield {**message, "params": without("sessionId")(message["params"])}


def _elsewhere(_: FaultContext, message: Json, __: Json) -> Iterable[Json]:
    yield message
    yield {**message, "params": {**message["params"], "sessionId": "elsewhere"}}


def _first(edit: Edit) -> object:
    """Edit the first chunk of the connection only."""

    def change(context: FaultContext, message: Json, update: Json) -> Iterable[Json]:
        is_first = not context.notes.get("seen")
        context.notes["seen"] = True
        yield with_update(message, edit(update)) if is_first else message

    return change


def _number(context: FaultContext, message: Json, update: Json) -> Iterable[Json]:
    context.notes["count"] = context.notes.get("count", 0) + 1
    yield with_update(message, {**update, "messageId": f"m{context.notes['count']}"})


def _block(kind: str, edit: Edit) -> object:
    def change(update: Json) -> Json:
        content = update["content"]
        return {**update, "content": edit(content)} if content.get("type") == kind else update

    return change


def _no_id(update: Json) -> Json:
    return {**update, "plan": without("planId")(update["plan"])}


def _live_hello(context: FaultContext, message: Json) -> bool:
    return during("hello")(context, message) and not context.is_running("session/resume")


_LIVE: When = _live_hello

seed("agent.v2update.01", change_updates(PLAN, _homeless, TOUR))
seed("agent.v2update.02", edit_update(PLAN, with_(sessionUpdate="plan"), TOUR))
seed("agent.v2update.03", change_updates(CHUNK, _first(without("messageId")), during("hello")))  # type: ignore[arg-type]
seed("agent.v2update.04", change_updates(CHUNK, _first(with_(content={"text": "no type"})), during("hello")))  # type: ignore[arg-type]
seed("agent.v2update.05", edit_update("agent_thought_chunk", without("content"), during("/think")))
seed("agent.v2update.06", change_updates(CHUNK, _number, during("/stream")))
seed("agent.v2update.07", edit_update(CHUNK, with_(messageId="the-answer"), _LIVE))
seed(
    "agent.v2update.08", edit_update("agent_message", with_(content={"type": "text", "text": "x"}), during("/rewrite"))
)
seed("agent.v2update.09", edit_update("agent_message", with_(messageId="another"), during("/rewrite")))
seed("agent.v2update.10", edit_update(PLAN, _no_id, during("/plan")))
seed("agent.v2update.11", edit_update("usage_update", with_(used="many")))
seed("agent.v2update.12", edit_update("session_info_update", with_(title=5)))
seed("agent.v2update.13", edit_update("notice", with_(title="")))
seed("agent.v2update.14", edit_update("compaction_update", with_(status="squeezing")))
seed("agent.v2update.15", edit_update("compaction_summary_chunk", without("compactionId")))
seed("agent.v2update.16", edit_update(CHUNK, _block("image", without("mimeType"))))  # type: ignore[arg-type]
seed("agent.v2update.17", edit_update(CHUNK, _block("audio", without("mimeType"))))  # type: ignore[arg-type]
seed("agent.v2update.18", edit_update(CHUNK, _block("resource_link", without("name"))))  # type: ignore[arg-type]
seed("agent.v2update.19", edit_update(CHUNK, _block("resource", with_(resource={"text": "homeless"}))))  # type: ignore[arg-type]
seed("agent.v2update.20", change_updates(PLAN, _elsewhere, TOUR))
