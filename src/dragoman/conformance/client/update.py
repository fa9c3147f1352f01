"""Updates at a client."""

from __future__ import annotations

from dragoman.conformance.harness.client import ClientUnderTest, is_sync_reply
from dragoman.conformance.harness.peer import Json
from dragoman.conformance.requirement import Probe, must, should

TEXT = {"type": "text", "text": ""}
ENTRY = {"content": "Tidy up", "status": "pending"}


def call(id: str, /, **members: Json) -> Json:
    """Return a tool call."""
    return {"sessionUpdate": "tool_call", "toolCallId": id, "title": "Do something", **members}


def chunk(content: Json, /, kind: str = "agent_message_chunk", **members: Json) -> Json:
    """Return a piece of a message."""
    return {"sessionUpdate": kind, "content": content, **members}


def content(*parts: Json) -> Json:
    """Return a complete tool call with this content."""
    return call("shown", kind="edit", status="completed", content=list(parts))


OPTION = {
    "id": "model",
    "name": "Model",
    "type": "select",
    "currentValue": "a",
    "options": [{"value": "a", "name": "A", "description": None}],
}


def tolerates(what: str, updates: list[Json]) -> Probe:
    """Return a probe: the client still works after these updates."""

    async def survives(client: ClientUnderTest) -> None:
        prompt = await client.begin_turn()
        for update in updates:
            client.notify("session/update", {"sessionId": client.session, "update": update})
        await client.require_alive(prompt, what)

    return survives


must(
    "client.update.01", "An update of an unknown kind does not end the turn.", "docs/protocol/peers.md#unknown-updates"
)(tolerates("an update of an unknown kind", [{"sessionUpdate": "vendor_weather", "degrees": 21}]))
must("client.update.03", "A tool call may have neither kind nor status.", "docs/protocol/peers.md#tool-call-order")(
    tolerates("a tool call without kind and status", [call("bare")])
)
must("client.update.04", "News of a tool call nobody announced is borne.", "docs/protocol/peers.md#tool-call-order")(
    tolerates(
        "an update of an unannounced tool call",
        [{"sessionUpdate": "tool_call_update", "toolCallId": "never-announced", "status": "completed"}],
    )
)
must("client.update.05", "A tool call may be complete from the start.", "docs/protocol/peers.md#tool-call-order")(
    tolerates("a tool call that is complete at once", [call("done", kind="read", status="completed", content=[])])
)
must("client.update.06", "The id of a tool call may be announced twice.", "docs/protocol/peers.md#tool-call-order")(
    tolerates(
        "a tool call announced twice",
        [call("twice", kind="read", status="completed"), call("twice", kind="edit", status="completed")],
    )
)
must("client.update.07", "A diff of a new file has null for its old text.", "docs/protocol/peers.md#nulls")(
    tolerates("a diff of a new file", [content({"type": "diff", "path": "/new.txt", "oldText": None, "newText": "x"})])
)
must("client.update.08", "The line of a location may be null or 0.", "docs/protocol/peers.md#nulls")(
    tolerates(
        "a location without a line",
        [
            call(
                "where",
                kind="read",
                status="completed",
                locations=[{"path": "/a", "line": None}, {"path": "/b", "line": 0}],
            ),
        ],
    )
)
must(
    "client.update.09",
    "A terminal the client never made may stand in a tool call.",
    "docs/protocol/peers.md#foreign-terminals",
)(tolerates("a terminal it never made", [content({"type": "terminal", "terminalId": "call_abc"})]))
must("client.update.10", "A usage_update with null for a number is borne.", "docs/protocol/peers.md#null-usage")(
    tolerates("a usage_update with a null", [{"sessionUpdate": "usage_update", "used": None, "size": 200000}])
)
must(
    "client.update.11",
    "A session_info_update may have nothing but _meta.",
    "docs/protocol/peers.md#info-with-only-meta",
)(
    tolerates(
        "a session_info_update with nothing but _meta",
        [{"sessionUpdate": "session_info_update", "_meta": {"codex": {"threadStatus": "active"}}}],
    )
)
must("client.update.12", "A chunk may be empty but for its _meta.", "docs/protocol/peers.md#empty-chunks")(
    tolerates("an empty chunk", [chunk(TEXT, _meta={"usage": {"tokens": 1}})])
)
must("client.update.13", "_meta may stand anywhere and hold anything.", "docs/protocol/peers.md#meta-shapes")(
    tolerates(
        "a _meta in every place",
        [chunk({**TEXT, "text": "x\n", "_meta": {"field_meta": {"a": [1]}}}, _meta={"field_meta": {"b": None}})],
    )
)
must("client.update.14", "A plan without priorities is borne.", "docs/protocol/dialect-matrix.md#plan-entries", "v1")(
    tolerates("a plan without priorities", [{"sessionUpdate": "plan", "entries": [ENTRY, {**ENTRY, "id": "2"}]}])
)
must("client.update.15", "A command's input may be null.", "docs/protocol/peers.md#nulls")(
    tolerates(
        "a command whose input is null",
        [
            {
                "sessionUpdate": "available_commands_update",
                "availableCommands": [{"name": "help", "description": "Helps", "input": None}],
            }
        ],
    )
)
must(
    "client.update.16",
    "Mode and options may be told anew in every turn.",
    "docs/protocol/peers.md#repeated-mode-updates",
)(
    tolerates(
        "mode and options sent again",
        [
            {"sessionUpdate": "current_mode_update", "currentModeId": "code"},
            {"sessionUpdate": "config_option_update", "configOptions": [OPTION]},
        ],
    )
)
must("client.update.17", "An echo of the user's own prompt is borne.", "docs/protocol/peers.md#prompt-echo")(
    tolerates("an echo of the prompt", [chunk({**TEXT, "text": "Hello"}, "user_message_chunk")])
)
must("client.update.18", "A block of an unknown type is borne.", "docs/protocol/extensions.md#lenient-reading")(
    tolerates("a block of an unknown type", [chunk({"type": "hologram", "data": "aGk="})])
)
must(
    "client.update.19",
    "A tool call's kind and status may be words nobody knows.",
    "docs/protocol/peers.md#unknown-option-kinds",
)(tolerates("a tool call of an unknown kind", [call("odd", kind="teleport", status="paused")]))
must("client.update.20", "Pictures and sounds may stand in an answer.", "docs/protocol/updates.md#chunks")(
    tolerates(
        "images and audio",
        [
            chunk({"type": "image", "data": "aGk=", "mimeType": "image/png"}),
            chunk({"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}),
        ],
    )
)
must(
    "client.update.21",
    "A tool call's input may be empty first, null, and filled later.",
    "docs/protocol/peers.md#tool-call-order",
)(
    tolerates(
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
    )
)
must(
    "client.update.25",
    "A block that stands bare among a tool call's content is borne.",
    "docs/protocol/tool-calls.md#content",
)(tolerates("a bare block among a tool call's content", [content({"type": "text", "text": "bare"})]))
must("client.update.26", "Members nobody knows in an update are ignored.", "docs/protocol/peers.md#unknown-fields")(
    tolerates(
        "unknown members",
        [chunk({**TEXT, "text": "x\n", "mood": "good"}, timestamp="2026-01-01T00:00:00Z", extra=[1])],
    )
)
must(
    "client.update.27", "A tool call's name, thoughts and message ids are borne.", "docs/protocol/tool-calls.md#fields"
)(
    tolerates(
        "names, thoughts and message ids",
        [
            chunk({**TEXT, "text": "hm\n"}, "agent_thought_chunk", messageId="m1"),
            call("named", name="read_file", kind="read", status="completed"),
        ],
    )
)


@should(
    "client.update.02",
    "An update of an unknown kind is no failure: no stack trace is printed for it.",
    "docs/protocol/peers.md#sdk-unknown-update",
)
async def unknown_kinds_print_no_stack_trace(client: ClientUnderTest) -> None:
    if not client.environment.is_watched:
        client.skip("an editor's stderr cannot be seen")
    async with client.turn():
        client.notify(
            "session/update", {"sessionId": client.session, "update": {"sessionUpdate": "vendor_tides", "level": 2}}
        )
        await client.sync()
        await client.collect()
        end = client.environment.exit_state()  # before the end: whatever is printed then has other reasons
        client.require(not end.has_traceback, f"an unknown kind of update left a stack trace: {end.stderr_excerpt()}")


@must(
    "client.update.22",
    "An update of a session the client does not know is borne.",
    "docs/protocol/peers.md#updates-outside-turns",
)
async def other_sessions_are_tolerated(client: ClientUnderTest) -> None:
    prompt = await client.begin_turn()
    update = chunk({**TEXT, "text": "not for you"})
    client.notify("session/update", {"sessionId": "another-session", "update": update})
    await client.require_alive(prompt, "an update of another session")


@must("client.update.23", "A session/update without an update is borne.", "docs/protocol/updates.md#frame")
async def empty_updates_are_tolerated(client: ClientUnderTest) -> None:
    prompt = await client.begin_turn()
    client.notify("session/update", {"sessionId": client.session})
    await client.require_alive(prompt, "a session/update without an update")


@must(
    "client.update.24",
    "An update that cannot be read is not answered: it is a notification.",
    "docs/protocol/peers.md#errors-without-id",
)
async def unreadable_updates_get_no_answer(client: ClientUnderTest) -> None:
    prompt = await client.begin_turn()
    start = len(client.received)
    update = {"sessionUpdate": "session_info_update", "title": 5, "updatedAt": ["never"]}
    client.notify("session/update", {"sessionId": client.session, "update": update})
    await client.sync()
    await client.collect()
    wrong = [each for each in client.received[start:] if each.is_reply and not is_sync_reply(each)]
    client.require(not wrong, "a notification was answered", *wrong)
    await client.require_alive(prompt, "an update that cannot be read")
