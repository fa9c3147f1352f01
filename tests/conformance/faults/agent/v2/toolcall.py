"""Faults in the tool calls of a v2 agent."""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.faults.edits import Edit, with_, without
from tests.conformance.faults.fault import Fault, FaultContext, Json, seed
from tests.conformance.faults.v2_edits import add_after, change_updates, drop_update, during, edit_update, with_update

CALL, TOUR, WRITE, CLEAR = "tool_call_update", during("/tour"), during("/write"), during("/clear")


def _is_completed(update: Json) -> bool:
    return bool(update.get("status") == "completed")


def _resume(_: FaultContext, message: Json, update: Json) -> Iterable[Json]:
    yield message
    if _is_completed(update):
        for status in ("in_progress", "completed"):
            call = {"sessionUpdate": CALL, "toolCallId": update["toolCallId"], "status": status}
            yield with_update(message, call)


def _diffs(edit: Edit) -> Fault:
    """Edit the diffs of /write."""

    def change(update: Json) -> Json:
        items = [edit(item) if item.get("type") == "diff" else item for item in update["content"]]
        return {**update, "content": items}

    return edit_update(CALL, change, WRITE, lambda update: bool(update.get("content")))


def _changes(**members: Json) -> Edit:
    return lambda diff: {**diff, "changes": [{**each, **members} for each in diff["changes"]]}


NAMELESS = {"sessionUpdate": CALL, "title": "Nobody's call"}

seed("agent.v2toolcall.01", add_after(CALL, NAMELESS, TOUR, lambda update: update.get("title") is not None))
seed("agent.v2toolcall.02", edit_update(CALL, without("title"), TOUR))
seed(
    "agent.v2toolcall.03",
    edit_update(CALL, with_(status="sleeping"), TOUR, lambda update: update.get("status") == "in_progress"),
)
seed("agent.v2toolcall.04", edit_update(CALL, with_(kind="dance"), TOUR, lambda update: "kind" in update))
seed("agent.v2toolcall.05", drop_update(CALL, TOUR, _is_completed))
seed("agent.v2toolcall.06", change_updates(CALL, _resume, TOUR))
seed(
    "agent.v2toolcall.07", edit_update(CALL, with_(content=[{"type": "smell"}]), TOUR, lambda u: bool(u.get("content")))
)
seed("agent.v2toolcall.08", _diffs(without("changes")))
seed("agent.v2toolcall.09", _diffs(_changes(operation="paint")))
seed("agent.v2toolcall.10", _diffs(_changes(path="made.txt")))
seed("agent.v2toolcall.11", _diffs(with_(patch={"format": "git_patch", "text": "hello"})))
seed(
    "agent.v2toolcall.12",
    edit_update(CALL, with_(locations=[{"path": "notes.txt"}]), TOUR, lambda update: bool(update.get("locations"))),
)
seed("agent.v2toolcall.13", edit_update("tool_call_content_chunk", with_(content={}), CLEAR))
seed(
    "agent.v2toolcall.14",
    edit_update(CALL, with_(content=[]), CLEAR, lambda update: "content" in update and update["content"] is None),
)
seed(
    "agent.v2toolcall.15",
    edit_update(
        "terminal_update",
        with_(capabilities={"cancel": True}),
        during("/terminal printf"),
        lambda update: bool(update.get("capabilities")),
    ),
)
seed(
    "agent.v2toolcall.16",
    edit_update(CALL, with_(status="completed"), WRITE, lambda update: update.get("status") == "failed"),
)
seed("agent.v2toolcall.17", _diffs(with_(oldText="", newText="x")))
