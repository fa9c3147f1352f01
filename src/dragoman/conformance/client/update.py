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


def tolerates(sentence: str, what: str, updates: list[Json]) -> Probe:
    """Return a probe: the client still works after these updates."""

    async def probe(client: ClientUnderTest) -> None:
        prompt = await client.begin_turn()
        for update in updates:
            client.notify("session/update", {"sessionId": client.session, "update": update})
        await client.require_alive(prompt, what)

    probe.__doc__ = sentence
    return probe


must("client.update.01", "peers.md#unknown-updates")(
    tolerates(
        "An update of an unknown kind does not end the turn.",
        "an update of an unknown kind",
        [{"sessionUpdate": "vendor_weather", "degrees": 21}],
    )
)
must("client.update.03", "peers.md#tool-call-order")(
    tolerates("A tool call may have neither kind nor status.", "a tool call without kind and status", [call("bare")])
)
must("client.update.04", "peers.md#tool-call-order")(
    tolerates(
        "News of a tool call nobody announced is borne.",
        "an update of an unannounced tool call",
        [{"sessionUpdate": "tool_call_update", "toolCallId": "never-announced", "status": "completed"}],
    )
)
must("client.update.05", "peers.md#tool-call-order")(
    tolerates(
        "A tool call may be complete from the start.",
        "a tool call that is complete at once",
        [call("done", kind="read", status="completed", content=[])],
    )
)
must("client.update.06", "peers.md#tool-call-order")(
    tolerates(
        "The id of a tool call may be announced twice.",
        "a tool call announced twice",
        [call("twice", kind="read", status="completed"), call("twice", kind="edit", status="completed")],
    )
)
must("client.update.07", "peers.md#nulls")(
    tolerates(
        "A diff of a new file has null for its old text.",
        "a diff of a new file",
        [content({"type": "diff", "path": "/new.txt", "oldText": None, "newText": "x"})],
    )
)
must("client.update.08", "peers.md#nulls")(
    tolerates(
        "The line of a location may be null or 0.",
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
must("client.update.09", "peers.md#foreign-terminals")(
    tolerates(
        "A terminal the client never made may stand in a tool call.",
        "a terminal it never made",
        [content({"type": "terminal", "terminalId": "call_abc"})],
    )
)
must("client.update.10", "peers.md#null-usage")(
    tolerates(
        "A usage_update with null for a number is borne.",
        "a usage_update with a null",
        [{"sessionUpdate": "usage_update", "used": None, "size": 200000}],
    )
)
must("client.update.11", "peers.md#info-with-only-meta")(
    tolerates(
        "A session_info_update may have nothing but _meta.",
        "a session_info_update with nothing but _meta",
        [{"sessionUpdate": "session_info_update", "_meta": {"codex": {"threadStatus": "active"}}}],
    )
)
must("client.update.12", "peers.md#empty-chunks")(
    tolerates(
        "A chunk may be empty but for its _meta.", "an empty chunk", [chunk(TEXT, _meta={"usage": {"tokens": 1}})]
    )
)
must("client.update.13", "peers.md#meta-shapes")(
    tolerates(
        "_meta may stand anywhere and hold anything.",
        "a _meta in every place",
        [chunk({**TEXT, "text": "x\n", "_meta": {"field_meta": {"a": [1]}}}, _meta={"field_meta": {"b": None}})],
    )
)
must("client.update.14", "dialect-matrix.md#plan-entries", "v1")(
    tolerates(
        "A plan without priorities is borne.",
        "a plan without priorities",
        [{"sessionUpdate": "plan", "entries": [ENTRY, {**ENTRY, "id": "2"}]}],
    )
)
must("client.update.15", "peers.md#nulls")(
    tolerates(
        "A command's input may be null.",
        "a command whose input is null",
        [
            {
                "sessionUpdate": "available_commands_update",
                "availableCommands": [{"name": "help", "description": "Helps", "input": None}],
            }
        ],
    )
)
must("client.update.16", "peers.md#repeated-mode-updates")(
    tolerates(
        "Mode and options may be told anew in every turn.",
        "mode and options sent again",
        [
            {"sessionUpdate": "current_mode_update", "currentModeId": "code"},
            {"sessionUpdate": "config_option_update", "configOptions": [OPTION]},
        ],
    )
)
must("client.update.17", "peers.md#prompt-echo")(
    tolerates(
        "An echo of the user's own prompt is borne.",
        "an echo of the prompt",
        [chunk({**TEXT, "text": "Hello"}, "user_message_chunk")],
    )
)
must("client.update.18", "extensions.md#lenient-reading")(
    tolerates(
        "A block of an unknown type is borne.",
        "a block of an unknown type",
        [chunk({"type": "hologram", "data": "aGk="})],
    )
)
must("client.update.19", "peers.md#unknown-option-kinds")(
    tolerates(
        "A tool call's kind and status may be words nobody knows.",
        "a tool call of an unknown kind",
        [call("odd", kind="teleport", status="paused")],
    )
)
must("client.update.20", "updates.md#chunks")(
    tolerates(
        "Pictures and sounds may stand in an answer.",
        "images and audio",
        [
            chunk({"type": "image", "data": "aGk=", "mimeType": "image/png"}),
            chunk({"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}),
        ],
    )
)
must("client.update.21", "peers.md#tool-call-order")(
    tolerates(
        "A tool call's input may be empty first, null, and filled later.",
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
must("client.update.25", "tool-calls.md#content")(
    tolerates(
        "A block that stands bare among a tool call's content is borne.",
        "a bare block among a tool call's content",
        [content({"type": "text", "text": "bare"})],
    )
)
must("client.update.26", "peers.md#unknown-fields")(
    tolerates(
        "Members nobody knows in an update are ignored.",
        "unknown members",
        [chunk({**TEXT, "text": "x\n", "mood": "good"}, timestamp="2026-01-01T00:00:00Z", extra=[1])],
    )
)
must("client.update.27", "tool-calls.md#fields")(
    tolerates(
        "A tool call's name, thoughts and message ids are borne.",
        "names, thoughts and message ids",
        [
            chunk({**TEXT, "text": "hm\n"}, "agent_thought_chunk", messageId="m1"),
            call("named", name="read_file", kind="read", status="completed"),
        ],
    )
)


@should("client.update.02", "peers.md#sdk-unknown-update")
async def unknown_kinds_print_no_stack_trace(client: ClientUnderTest) -> None:
    """An update of an unknown kind is no failure: no stack trace is printed for it."""
    client.skip_unless(client.environment.is_watched, "an editor's stderr cannot be seen")
    async with client.turn():
        client.notify(
            "session/update", {"sessionId": client.session, "update": {"sessionUpdate": "vendor_tides", "level": 2}}
        )
        await client.sync()
        await client.collect()
        end = client.environment.exit_state()  # before the end: whatever is printed then has other reasons
        client.require(not end.has_traceback, f"an unknown kind of update left a stack trace: {end.stderr_excerpt()}")


@must("client.update.22", "peers.md#updates-outside-turns")
async def other_sessions_are_tolerated(client: ClientUnderTest) -> None:
    """An update of a session the client does not know is borne."""
    prompt = await client.begin_turn()
    update = chunk({**TEXT, "text": "not for you"})
    client.notify("session/update", {"sessionId": "another-session", "update": update})
    await client.require_alive(prompt, "an update of another session")


@must("client.update.23", "updates.md#frame")
async def empty_updates_are_tolerated(client: ClientUnderTest) -> None:
    """A session/update without an update is borne."""
    prompt = await client.begin_turn()
    client.notify("session/update", {"sessionId": client.session})
    await client.require_alive(prompt, "a session/update without an update")


@must("client.update.24", "peers.md#errors-without-id")
async def unreadable_updates_get_no_answer(client: ClientUnderTest) -> None:
    """An update that cannot be read is not answered: it is a notification."""
    prompt = await client.begin_turn()
    start = len(client.received)
    update = {"sessionUpdate": "session_info_update", "title": 5, "updatedAt": ["never"]}
    client.notify("session/update", {"sessionId": client.session, "update": update})
    await client.sync()
    await client.collect()
    wrong = [each for each in client.received[start:] if each.is_reply and not is_sync_reply(each)]
    client.require_none(wrong, "a notification was answered")
    await client.require_alive(prompt, "an update that cannot be read")
