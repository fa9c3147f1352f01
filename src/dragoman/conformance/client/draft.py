"""What only the draft asks of a client."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dragoman.conformance.client.files import file_content
from dragoman.conformance.harness.client import READ, REFUSES_COMMANDS, TERMINALS, WRITE, ClientUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.requirement import must, should

LINES = "one\ntwo\nthree\nfour\n"
FOREVER = "sleep 300"


def _update(client: ClientUnderTest, kind: str, data: Json, **more: Json) -> None:
    client.notify("session/update", {"sessionId": client.session, "type": kind, "data": data, **more})


@asynccontextmanager
async def terminal(client: ClientUnderTest, line: str, **more: Json) -> AsyncIterator[str]:
    """Run a line in a shell around the block, and release its terminal."""
    frame = await client.require_answer("terminal/create", {"command": "/bin/sh", "args": ["-c", line], **more})
    client.assume("error" not in frame.message, REFUSES_COMMANDS, frame)
    id = frame.result.get("terminalId")
    client.require(isinstance(id, str), "terminal/create was answered without a terminalId", frame)
    yield id
    client.call("terminal/release", {"terminalId": id})


async def read_file(client: ClientUnderTest, path: str, **more: Json) -> ReceivedFrame:
    """Return the answer to a read, which the client must grant."""
    return await client.require_result("fs/read_text_file", {"path": path, **more})


@must("client.draft.01", "draft.md#initialize")
async def initialize_has_its_shape(client: ClientUnderTest) -> None:
    """initialize states who the client is and what it offers."""
    frame = await client.wait_initialize()
    client.require_params(frame, {"clientInfo": dict, "capabilities": dict})


@must("client.draft.02", "draft.md#client-capabilities")
async def its_capabilities_are_the_drafts(client: ClientUnderTest) -> None:
    """The capabilities for files and terminals are those of the draft."""
    frame = await client.wait_initialize()
    offered = frame.wire_params.get("capabilities") or {}
    files, terminals = offered.get("fs", {}), offered.get("terminal", {})
    client.require(isinstance(files, dict) and isinstance(terminals, dict), "fs or terminal is not an object", frame)
    each = [files.get("read", False), files.get("write", False), terminals.get("create", False)]
    client.require(all(isinstance(value, bool) for value in each), "a capability is not a boolean", frame)
    client.require(not {"readTextFile", "writeTextFile"} & set(files), "the capabilities are those of v1", frame)


async def _ask_permission(client: ClientUnderTest) -> ReceivedFrame:
    _update(client, "tool_call", {"id": "t", "tool": "fetch", "input": {}, "status": "pending"})
    question = {"operation": "network_access", "resource": "https://docs.example", "reason": "To look it up"}
    params = {"sessionId": client.session, **question, "toolCallId": "t"}
    return await client.require_result("session/request_permission", params)


@must("client.draft.03", "draft.md#request-permission")
async def permission_is_granted_or_denied(client: ClientUnderTest) -> None:
    """A permission request is answered with granted, true or false."""
    async with client.turn():
        frame = await _ask_permission(client)
        client.require_shape(frame.result, {"granted": bool}, frame)


@must("client.draft.04", "draft.md#permission-scopes")
async def permission_has_a_scope(client: ClientUnderTest) -> None:
    """The scope of a permission is one of the four that are defined."""
    async with client.turn():
        frame = await _ask_permission(client)
        scope = frame.result.get("scope", "once")
        client.require(scope in ("once", "session", "workspace", "always"), f"the scope is {scope!r}", frame)


@must("client.draft.05", "draft.md#read-file", needs=READ)
async def texts_have_an_encoding(client: ClientUnderTest) -> None:
    """A text is returned with its encoding."""
    async with client.turn():
        frame = await read_file(client, client.create_file(LINES))
        good = frame.result.get("content") == LINES and isinstance(frame.result.get("encoding"), str)
        client.require(good, "the text or its encoding is missing", frame)


@must("client.draft.06", "draft.md#read-file", needs=READ)
async def ranges_are_inclusive(client: ClientUnderTest) -> None:
    """A range of lines includes both its ends."""
    async with client.turn():
        frame = await read_file(client, client.create_file(LINES), startLine=2, endLine=3)
        lines = str(frame.result.get("content")).split()
        client.require(lines == ["two", "three"], f"lines 2 to 3 are {lines}", frame)


@must("client.draft.07", "draft.md#boundaries", needs=READ)
async def relative_paths_are_resolved(client: ClientUnderTest) -> None:
    """A relative path is resolved from the working directory."""
    async with client.turn():
        frame = await read_file(client, os.path.basename(client.create_file(LINES)))
        client.require(frame.result.get("content") == LINES, "a relative path did not lead to its file", frame)


@must("client.draft.08", "draft.md#write-file", needs=WRITE)
async def writes_are_counted(client: ClientUnderTest) -> None:
    """The result of a write has the number of bytes, and whether the file was created."""
    async with client.turn():
        params = {"path": client.absent_path(), "content": "hé"}
        frame = await client.require_result("fs/write_text_file", params)
        size = frame.result.get("bytesWritten")
        client.require(size == 3, f"bytesWritten is {size!r}, not 3", frame)
        client.require(frame.result.get("created") is True, "a new file is not reported as created", frame)


@must("client.draft.09", "draft.md#write-file", needs=WRITE)
async def overwriting_can_be_forbidden(client: ClientUnderTest) -> None:
    """A write with overwrite false does not change an existing file."""
    async with client.turn():
        path = client.create_file("precious")
        params = {"path": path, "content": "lost", "overwrite": False}
        frame = await client.require_answer("fs/write_text_file", params)
        client.require(file_content(path) == b"precious", "a file was overwritten that must not be", frame)


@must("client.draft.10", "draft.md#terminal-create", needs=TERMINALS)
async def environments_are_maps(client: ClientUnderTest) -> None:
    """The environment of a command is a map."""
    async with client.turn():
        path = client.absent_path()
        async with terminal(client, f'printf "%s" "$CHECK" > {path}', env={"CHECK": "a value"}) as id:
            await client.require_result("terminal/wait_for_exit", {"terminalId": id})
            arrived = os.path.exists(path) and file_content(path) == b"a value"
            client.require(arrived, "the environment did not reach the command")


@must("client.draft.11", "draft.md#terminal-output", needs=TERMINALS)
async def output_is_pushed(client: ClientUnderTest) -> None:
    """What a command prints is pushed to the agent."""

    def is_push(frame: ReceivedFrame) -> bool:
        return frame.method == "terminal/output" and "pushed" in str(frame.wire_params.get("data"))

    client.answers["terminal/output"] = {"received": True}
    async with client.turn(), terminal(client, f"printf pushed; {FOREVER}"):
        frame = await client.wait_for(is_push) or next(filter(is_push, client.received), None)
        client.require(frame, "what a command printed was never pushed")


@must("client.draft.12", "draft.md#terminal-wait", needs=TERMINALS)
async def signals_have_a_code(client: ClientUnderTest) -> None:
    """The end of a command has an exit code, also after a signal."""
    async with client.turn(), terminal(client, "kill -9 $$") as id:
        frame = await client.require_result("terminal/wait_for_exit", {"terminalId": id})
        client.require_shape(frame.result, {"exitCode": int}, frame)


@must("client.draft.13", "draft.md#terminal-wait", needs=TERMINALS)
async def waiting_has_an_end(client: ClientUnderTest) -> None:
    """Waiting for a command ends with its timeout."""
    async with client.turn(), terminal(client, FOREVER) as id:
        frame = await client.request("terminal/wait_for_exit", {"terminalId": id, "timeout": 100})
        frame = client.require(frame, "waiting for a command did not end with its timeout")
        is_late = frame.result.get("timedOut") is True
        client.require(is_late or "error" in frame.message, "a wait that timed out does not say so", frame)


@must("client.draft.14", "draft.md#terminal-kill", needs=TERMINALS)
async def ends_are_reported(client: ClientUnderTest) -> None:
    """The results of kill and release state whether they succeeded."""
    async with client.turn(), terminal(client, FOREVER) as id:
        frame = await client.require_result("terminal/kill", {"terminalId": id})
        client.require(frame.result.get("killed") is True, "kill does not report that it killed", frame)
        frame = await client.require_result("terminal/release", {"terminalId": id})
        client.require(frame.result.get("released") is True, "release does not report that it released", frame)


@should("client.draft.15", "draft.md#required-capabilities")
async def requirements_are_read(client: ClientUnderTest) -> None:
    """The client does not continue with an agent that requires what the client lacks."""
    first = await client.hold_initialize()
    result = {"protocolVersion": 1, "agentInfo": {"name": "demanding", "version": "1"}, "capabilities": {}}
    client.reply(first, {**result, "requiredClientCapabilities": {"ui": {"holograms": True}}})
    frame = await client.wait_method("session/new", client.timeouts.answer)
    client.require(frame is None, "the client continues with an agent that requires what it lacks", frame)


@must("client.draft.16", "draft.md#status-machine")
async def statuses_are_tolerated(client: ClientUnderTest) -> None:
    """The client tolerates the draft's seven statuses of a tool call."""
    async with client.turn(survives="the draft's statuses"):
        for number, last in enumerate(("denied", "cancelled", "failed", "completed")):
            _update(client, "tool_call", {"id": f"t{number}", "tool": "run", "input": {}, "status": "pending"})
            _update(client, "tool_call_update", {"id": f"t{number}", "status": "awaiting_permission"})
            if last != "denied":
                _update(client, "tool_call_update", {"id": f"t{number}", "status": "in_progress"})
            _update(client, "tool_call_update", {"id": f"t{number}", "status": last})


@must("client.draft.17", "draft.md#tool-output")
async def outputs_are_tolerated(client: ClientUnderTest) -> None:
    """The client tolerates the draft's outputs of a tool call."""
    async with client.turn(survives="the draft's outputs"):
        hunk = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "content": "-a\n+b\n"}
        ran = {"command": "ls", "exitCode": 0, "stdout": "a\n", "stderr": ""}
        outputs = (
            {"type": "text", "text": "done"},
            {"type": "diff", "path": "/a.txt", "hunks": [hunk]},
            {"type": "terminal", "terminalId": "t9", **ran},
        )
        for number, output in enumerate(outputs):
            id = f"o{number}"
            _update(client, "tool_call", {"id": id, "tool": "run", "input": {}, "status": "in_progress"})
            done = {"id": id, "status": "completed", "output": output, "duration": 12}
            _update(client, "tool_call_update", done)


@must("client.draft.18", "draft.md#mode-update, draft.md#option-update")
async def changes_are_tolerated(client: ClientUnderTest) -> None:
    """The client tolerates changes of mode and options as the draft writes them."""
    async with client.turn(survives="changes in the draft's terms"):
        _update(client, "current_mode_update", {"previousMode": "default", "currentMode": "plan", "reason": "asked"})
        option = {"key": "t", "previousValue": 1, "currentValue": {"a": 2}, "source": "agent"}
        _update(client, "config_option_update", option)
        _update(client, "available_commands", {"commands": [{"name": "help", "description": "Helps"}]})


@must("client.draft.19", "draft.md#update-frame")
async def times_are_tolerated(client: ClientUnderTest) -> None:
    """An update may have a timestamp."""
    async with client.turn(survives="an update with a timestamp"):
        data = {"content": "x\n", "index": 0, "final": False}
        _update(client, "agent_message_chunk", data, timestamp="2026-01-01T00:00:00Z")
