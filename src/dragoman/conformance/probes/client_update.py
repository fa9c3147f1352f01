"""Probes of updates at a client: a table of what is said, and one way to see that the client lives on."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.conformance.harness.client import ClientStage
from dragoman.conformance.harness.peer import Json
from dragoman.conformance.probe import Probe, probe

TEXT = {"type": "text", "text": ""}
ENTRY = {"content": "Tidy up", "status": "pending"}


def call(id: str, /, **members: Json) -> Json:
    """A tool call."""
    return {"sessionUpdate": "tool_call", "toolCallId": id, "title": "Do something", **members}


def chunk(content: Json, /, kind: str = "agent_message_chunk", **members: Json) -> Json:
    """A piece of a message."""
    return {"sessionUpdate": kind, "content": content, **members}


def content(*parts: Json) -> Json:
    """A complete tool call that shows these."""
    return call("shown", kind="edit", status="completed", content=list(parts))


OPTION = {
    "id": "model",
    "name": "Model",
    "type": "select",
    "currentValue": "a",
    "options": [{"value": "a", "name": "A", "description": None}],
}

# The number of the requirement: what it is, and the updates.
BORNE: dict[str, tuple[str, list[Json]]] = {
    "01": ("an update of an unknown kind", [{"sessionUpdate": "vendor_weather", "degrees": 21}]),
    "03": ("a tool call without kind and status", [call("bare")]),
    "04": (
        "news of a tool call nobody announced",
        [{"sessionUpdate": "tool_call_update", "toolCallId": "never-announced", "status": "completed"}],
    ),
    "05": ("a tool call that is complete at once", [call("done", kind="read", status="completed", content=[])]),
    "06": (
        "a tool call announced twice",
        [call("twice", kind="read", status="completed"), call("twice", kind="edit", status="completed")],
    ),
    "07": ("a diff of a new file", [content({"type": "diff", "path": "/new.txt", "oldText": None, "newText": "x"})]),
    "08": (
        "a location without a line",
        [
            call(
                "where",
                kind="read",
                status="completed",
                locations=[{"path": "/a", "line": None}, {"path": "/b", "line": 0}],
            ),
        ],
    ),
    "09": ("a terminal it never made", [content({"type": "terminal", "terminalId": "call_abc"})]),
    "10": ("a usage_update with a null", [{"sessionUpdate": "usage_update", "used": None, "size": 200000}]),
    "11": (
        "a session_info_update with nothing but _meta",
        [{"sessionUpdate": "session_info_update", "_meta": {"codex": {"threadStatus": "active"}}}],
    ),
    "12": ("an empty chunk", [chunk(TEXT, _meta={"usage": {"tokens": 1}})]),
    "13": (
        "a _meta in every place",
        [chunk({**TEXT, "text": "x\n", "_meta": {"field_meta": {"a": [1]}}}, _meta={"field_meta": {"b": None}})],
    ),
    "14": ("a plan without priorities", [{"sessionUpdate": "plan", "entries": [ENTRY, {**ENTRY, "id": "2"}]}]),
    "15": (
        "a command whose input is null",
        [
            {
                "sessionUpdate": "available_commands_update",
                "availableCommands": [{"name": "help", "description": "Helps", "input": None}],
            }
        ],
    ),
    "16": (
        "mode and options told anew",
        [
            {"sessionUpdate": "current_mode_update", "currentModeId": "code"},
            {"sessionUpdate": "config_option_update", "configOptions": [OPTION]},
        ],
    ),
    "17": ("an echo of the prompt", [chunk({**TEXT, "text": "Hello"}, "user_message_chunk")]),
    "18": ("a block of an unknown type", [chunk({"type": "hologram", "data": "aGk="})]),
    "19": ("a tool call of an unknown kind", [call("odd", kind="teleport", status="paused")]),
    "20": (
        "pictures and sounds",
        [
            chunk({"type": "image", "data": "aGk=", "mimeType": "image/png"}),
            chunk({"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}),
        ],
    ),
    "21": (
        "a tool call whose input comes later",
        [
            call("late", kind="read", status="pending", rawInput={}),
            {"sessionUpdate": "tool_call_update", "toolCallId": "late", "rawInput": None},
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": "late",
                "status": "completed",
                "rawInput": {"path": "/a"},
            },
        ],
    ),
    "25": ("a bare block among a tool call's content", [content({"type": "text", "text": "bare"})]),
    "26": (
        "members nobody knows",
        [chunk({**TEXT, "text": "x\n", "mood": "good"}, timestamp="2026-01-01T00:00:00Z", extra=[1])],
    ),
    "27": (
        "names, thoughts and message ids",
        [
            chunk({**TEXT, "text": "hm\n"}, "agent_thought_chunk", messageId="m1"),
            call("named", name="read_file", kind="read", status="completed"),
        ],
    ),
}


def bearing(what: str, updates: list[Json]) -> Probe:
    """A probe: the client lives on after these updates."""

    async def borne(stage: ClientStage) -> None:
        prompt = await stage.begun()
        for update in updates:
            stage.tell("session/update", {"sessionId": stage.session, "update": update})
        await stage.survived(prompt, what)

    return borne


for _number, (_what, _updates) in BORNE.items():
    probe(f"client.update.{_number}")(bearing(_what, _updates))


@probe("client.update.02")
async def unknown_kinds_leave_no_trace(stage: ClientStage) -> None:
    """The Python SDK drops them with a traceback."""
    if not stage.grounds.is_watched:
        stage.skip("an editor's stderr cannot be seen")
    prompt = await stage.begun()
    stage.tell("session/update", {"sessionId": stage.session, "update": {"sessionUpdate": "vendor_tides", "level": 2}})
    await stage.fence()
    await stage.silence()
    ending = stage.grounds.ending()  # before the end: whatever is printed then has other reasons
    stage.require(not ending.traced, f"an unknown kind of update left a stack trace: {ending.words()}")
    stage.end(prompt)


@probe("client.update.22")
async def other_sessions_are_borne(stage: ClientStage) -> None:
    """A session that was closed, or a subagent's."""
    prompt = await stage.begun()
    update = chunk({**TEXT, "text": "not for you"})
    stage.tell("session/update", {"sessionId": "another-session", "update": update})
    await stage.survived(prompt, "an update of another session")


@probe("client.update.23")
async def empty_updates_are_borne(stage: ClientStage) -> None:
    """It says nothing."""
    prompt = await stage.begun()
    stage.tell("session/update", {"sessionId": stage.session})
    await stage.survived(prompt, "a session/update without an update")


@probe("client.update.24")
async def unreadable_updates_get_no_answer(stage: ClientStage) -> None:
    """As toad gives one."""
    prompt = await stage.begun()
    start = len(stage.heard)
    update = {"sessionUpdate": "session_info_update", "title": 5, "updatedAt": ["never"]}
    stage.tell("session/update", {"sessionId": stage.session, "update": update})
    await stage.fence()
    await stage.silence()
    is_fence: Callable[[Json], bool] = lambda id: str(id).startswith("fence-")  # noqa: E731
    wrong = [each for each in stage.heard[start:] if each.is_reply and not is_fence(each.message.get("id"))]
    stage.require(not wrong, "a notification was answered", *wrong)
    await stage.survived(prompt, "an update that cannot be read")
