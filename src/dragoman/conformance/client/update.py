"""Updates at a client."""

from __future__ import annotations

from dragoman.conformance.harness.client import ClientUnderTest
from dragoman.conformance.harness.peer import Json
from dragoman.conformance.requirement import Probe, must, should

ENTRY = {"content": "Tidy up", "status": "pending"}
COMMAND = {"name": "help", "description": "Helps", "input": None}
CHOICE = {"value": "a", "name": "A", "description": None}
OPTION = {"id": "model", "name": "Model", "type": "select", "currentValue": "a", "options": [CHOICE]}


def _update(kind: str, /, **members: Json) -> Json:
    return {"sessionUpdate": kind, **members}


def _call(id: str, /, **members: Json) -> Json:
    return _update("tool_call", toolCallId=id, title="Do something", **members)


def _call_update(id: str, /, **members: Json) -> Json:
    return _update("tool_call_update", toolCallId=id, **members)


def _chunk(content: Json, kind: str = "agent_message_chunk", /, **members: Json) -> Json:
    return _update(kind, content=content, **members)


def _text(text: str, /, **members: Json) -> Json:
    return {"type": "text", "text": text, **members}


def _content(part: Json) -> Json:
    """Return a complete tool call with this content."""
    return _call("shown", kind="edit", status="completed", content=[part])


def tolerates(sentence: str, what: str, *updates: Json) -> Probe:
    """Return a probe: the client still works after these updates."""

    async def probe(client: ClientUnderTest) -> None:
        async with client.turn(survives=what):
            for update in updates:
                client.notify("session/update", {"sessionId": client.session, "update": update})

    probe.__doc__ = sentence
    return probe


must("client.update.01", "peers.md#unknown-updates")(
    tolerates(
        "An update of an unknown kind does not end the turn.",
        "an update of an unknown kind",
        _update("vendor_weather", degrees=21),
    )
)
must("client.update.03", "peers.md#tool-call-order")(
    tolerates("A tool call may have neither kind nor status.", "a tool call without kind and status", _call("bare"))
)
must("client.update.04", "peers.md#tool-call-order")(
    tolerates(
        "The client tolerates an update of a tool call that was not announced.",
        "an update of an unannounced tool call",
        _call_update("never-announced", status="completed"),
    )
)
must("client.update.05", "peers.md#tool-call-order")(
    tolerates(
        "A tool call may be complete from the start.",
        "a tool call that is complete at once",
        _call("done", kind="read", status="completed", content=[]),
    )
)
must("client.update.06", "peers.md#tool-call-order")(
    tolerates(
        "The id of a tool call may be announced twice.",
        "a tool call announced twice",
        _call("twice", kind="read", status="completed"),
        _call("twice", kind="edit", status="completed"),
    )
)
must("client.update.07", "peers.md#nulls")(
    tolerates(
        "A diff of a new file has null as its old text.",
        "a diff of a new file",
        _content({"type": "diff", "path": "/new.txt", "oldText": None, "newText": "x"}),
    )
)
must("client.update.08", "peers.md#nulls")(
    tolerates(
        "The line of a location may be null or 0.",
        "a location without a line",
        _call("where", status="completed", locations=[{"path": "/a", "line": None}, {"path": "/b", "line": 0}]),
    )
)
must("client.update.09", "peers.md#foreign-terminals")(
    tolerates(
        "A tool call may show a terminal that the client did not create.",
        "a terminal it never made",
        _content({"type": "terminal", "terminalId": "call_abc"}),
    )
)
must("client.update.10", "peers.md#null-usage")(
    tolerates(
        "The client tolerates a usage_update with null for a number.",
        "a usage_update with a null",
        _update("usage_update", used=None, size=200000),
    )
)
must("client.update.11", "peers.md#info-with-only-meta")(
    tolerates(
        "A session_info_update may have nothing but _meta.",
        "a session_info_update with nothing but _meta",
        _update("session_info_update", _meta={"codex": {"threadStatus": "active"}}),
    )
)
must("client.update.12", "peers.md#empty-chunks")(
    tolerates(
        "A chunk may be empty except for its _meta.",
        "an empty chunk",
        _chunk(_text(""), _meta={"usage": {"tokens": 1}}),
    )
)
must("client.update.13", "peers.md#meta-shapes")(
    tolerates(
        "_meta may occur anywhere and hold anything.",
        "a _meta in every place",
        _chunk(_text("x\n", _meta={"field_meta": {"a": [1]}}), _meta={"field_meta": {"b": None}}),
    )
)
must("client.update.14", "dialect-matrix.md#plan-entries", "v1")(
    tolerates(
        "The client tolerates a plan without priorities.",
        "a plan without priorities",
        _update("plan", entries=[ENTRY, {**ENTRY, "id": "2"}]),
    )
)
must("client.update.15", "peers.md#nulls")(
    tolerates(
        "A command's input may be null.",
        "a command whose input is null",
        _update("available_commands_update", availableCommands=[COMMAND]),
    )
)
must("client.update.16", "peers.md#repeated-mode-updates")(
    tolerates(
        "Mode and options may be sent again in every turn.",
        "mode and options sent again",
        _update("current_mode_update", currentModeId="code"),
        _update("config_option_update", configOptions=[OPTION]),
    )
)
must("client.update.17", "peers.md#prompt-echo")(
    tolerates(
        "The client tolerates an echo of the user's prompt.",
        "an echo of the prompt",
        _chunk(_text("Hello"), "user_message_chunk"),
    )
)
must("client.update.18", "extensions.md#lenient-reading")(
    tolerates(
        "The client tolerates a content block of an unknown type.",
        "a block of an unknown type",
        _chunk({"type": "hologram", "data": "aGk="}),
    )
)
must("client.update.19", "peers.md#unknown-option-kinds")(
    tolerates(
        "A tool call's kind and status may be unknown words.",
        "a tool call of an unknown kind",
        _call("odd", kind="teleport", status="paused"),
    )
)
must("client.update.20", "updates.md#chunks")(
    tolerates(
        "An answer may have images and audio in it.",
        "images and audio",
        _chunk({"type": "image", "data": "aGk=", "mimeType": "image/png"}),
        _chunk({"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}),
    )
)
must("client.update.21", "peers.md#tool-call-order")(
    tolerates(
        "A tool call's input may be empty first, then null, and be filled in later.",
        "a tool call whose input comes later",
        _call("late", kind="read", status="pending", rawInput={}),
        _call_update("late", rawInput=None),
        _call_update("late", status="completed", rawInput={"path": "/a"}),
    )
)
must("client.update.25", "tool-calls.md#content")(
    tolerates(
        "The client tolerates a bare content block in the content of a tool call.",
        "a bare block among a tool call's content",
        _content(_text("bare")),
    )
)
must("client.update.26", "peers.md#unknown-fields")(
    tolerates(
        "Unknown members in an update are ignored.",
        "unknown members",
        _chunk(_text("x\n", mood="good"), timestamp="2026-01-01T00:00:00Z", extra=[1]),
    )
)
must("client.update.27", "tool-calls.md#fields")(
    tolerates(
        "The client tolerates names of tool calls, thoughts and message ids.",
        "names, thoughts and message ids",
        _chunk(_text("hm\n"), "agent_thought_chunk", messageId="m1"),
        _call("named", name="read_file", kind="read", status="completed"),
    )
)


@should("client.update.02", "peers.md#sdk-unknown-update")
async def unknown_kinds_print_no_stack_trace(client: ClientUnderTest) -> None:
    """No stack trace is printed for an update of an unknown kind."""
    client.skip_unless(client.environment.is_watched, "an editor's stderr cannot be seen")
    async with client.turn():
        client.notify("session/update", {"sessionId": client.session, "update": _update("vendor_tides", level=2)})
        await client.sync()
        await client.collect()
        end = client.environment.exit_state()  # before the end: whatever is printed then has other reasons
        client.require(not end.has_traceback, f"an unknown kind of update left a stack trace: {end.stderr_excerpt()}")


@must("client.update.22", "peers.md#updates-outside-turns")
async def other_sessions_are_tolerated(client: ClientUnderTest) -> None:
    """The client tolerates an update of an unknown session."""
    async with client.turn(survives="an update of another session"):
        update = _chunk(_text("not for you"))
        client.notify("session/update", {"sessionId": "another-session", "update": update})


@must("client.update.23", "updates.md#frame")
async def empty_updates_are_tolerated(client: ClientUnderTest) -> None:
    """The client tolerates a session/update without an update."""
    async with client.turn(survives="a session/update without an update"):
        client.notify("session/update", {"sessionId": client.session})


@must("client.update.24", "peers.md#errors-without-id")
async def unreadable_updates_get_no_answer(client: ClientUnderTest) -> None:
    """An update that cannot be read is not answered, because it is a notification."""
    async with client.turn(survives="an update that cannot be read"):
        start = len(client.received)
        update = _update("session_info_update", title=5, updatedAt=["never"])
        client.notify("session/update", {"sessionId": client.session, "update": update})
        await client.sync()
        await client.collect()
        client.require_none(client.own_replies(start), "a notification was answered")
