"""What only the draft asks of a client."""

from __future__ import annotations

import os

from dragoman.conformance.harness.client import ClientUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.requirement import must, should

READ = "client.fs.readTextFile"
WRITE = "client.fs.writeTextFile"
TERMINALS = "client.terminal"


LINES = "one\ntwo\nthree\nfour\n"
FOREVER = "sleep 300"


async def request_raw(client: ClientUnderTest, method: str, params: Json) -> tuple[ReceivedFrame, Json]:
    """Return the raw result of a request that the client must answer."""
    frame = client.require(
        await client.wait_reply(client.call(method, params), client.timeouts.turn), f"{method} was never answered"
    )
    client.require("result" in frame.message, f"{method} was answered with an error", frame)
    result = frame.message["result"]
    client.require(isinstance(result, dict), f"the result of {method} is not an object", frame)
    return frame, result


def send_update(client: ClientUnderTest, kind: str, data: Json, **more: Json) -> None:
    """Send one update."""
    client.notify("session/update", {"sessionId": client.session, "type": kind, "data": data, **more})


async def create_terminal(client: ClientUnderTest, line: str, **more: Json) -> str:
    """Return a terminal that runs this line."""
    frame = client.require(
        await client.wait_reply(client.call("terminal/create", {"command": "/bin/sh", "args": ["-c", line], **more})),
        "terminal/create was never answered",
    )
    client.assume(
        "error" not in frame.message, "the client refuses to run commands; let it allow that (as with --yes)", frame
    )
    id = frame.message["result"].get("terminalId")
    client.require(isinstance(id, str), "terminal/create was answered without a terminalId", frame)
    return str(id)


@must("client.draft.01", "draft.md#initialize")
async def initialize_has_its_shape(client: ClientUnderTest) -> None:
    """initialize tells who the client is and what it offers."""
    frame = await client.wait_initialize()
    params = frame.wire_params
    for name in ("clientInfo", "capabilities"):
        client.require(isinstance(params.get(name), dict), f"initialize has no {name}", frame)


@must("client.draft.02", "draft.md#client-capabilities")
async def its_capabilities_are_the_drafts(client: ClientUnderTest) -> None:
    """The capabilities for files and terminals are the draft's."""
    frame = await client.wait_initialize()
    offered = frame.wire_params.get("capabilities") or {}
    files, terminals = offered.get("fs", {}), offered.get("terminal", {})
    client.require(isinstance(files, dict) and isinstance(terminals, dict), "fs or terminal is no object", frame)
    each = [files.get("read", False), files.get("write", False), terminals.get("create", False)]
    client.require(all(isinstance(value, bool) for value in each), "a capability is not a boolean", frame)
    client.require(not {"readTextFile", "writeTextFile"} & set(files), "the capabilities are those of v1", frame)


async def _ask_permission(client: ClientUnderTest) -> tuple[ReceivedFrame, Json]:
    params = {"sessionId": client.session, "operation": "network_access", "resource": "https://docs.example"}
    return await request_raw(
        client, "session/request_permission", {**params, "reason": "To look it up", "toolCallId": "t"}
    )


@must("client.draft.03", "draft.md#request-permission")
async def permission_is_granted_or_denied(client: ClientUnderTest) -> None:
    """A question for leave is answered with granted, true or false."""
    async with client.turn():
        send_update(client, "tool_call", {"id": "t", "tool": "fetch", "input": {}, "status": "pending"})
        frame, result = await _ask_permission(client)
        client.require(isinstance(result.get("granted"), bool), "the answer has no granted", frame)


@must("client.draft.04", "draft.md#permission-scopes")
async def permission_has_a_scope(client: ClientUnderTest) -> None:
    """A scope is one of four."""
    async with client.turn():
        send_update(client, "tool_call", {"id": "t", "tool": "fetch", "input": {}, "status": "pending"})
        frame, result = await _ask_permission(client)
        scope = result.get("scope", "once")
        client.require(scope in ("once", "session", "workspace", "always"), f"the scope is {scope!r}", frame)


@must("client.draft.05", "draft.md#read-file", needs=READ)
async def texts_have_an_encoding(client: ClientUnderTest) -> None:
    """A text is given with its encoding."""
    async with client.turn():
        frame, result = await request_raw(client, "fs/read_text_file", {"path": client.create_file(LINES)})
        good = result.get("content") == LINES and isinstance(result.get("encoding"), str)
        client.require(good, "the text or its encoding is missing", frame)


@must("client.draft.06", "draft.md#read-file", needs=READ)
async def ranges_are_inclusive(client: ClientUnderTest) -> None:
    """A range of lines has both its ends in it."""
    async with client.turn():
        frame, result = await request_raw(
            client, "fs/read_text_file", {"path": client.create_file(LINES), "startLine": 2, "endLine": 3}
        )
        lines = str(result.get("content")).split()
        client.require(lines == ["two", "three"], f"lines 2 to 3 are {lines}", frame)


@must("client.draft.07", "draft.md#boundaries", needs=READ)
async def relative_paths_are_resolved(client: ClientUnderTest) -> None:
    """A relative path is meant from the working directory."""
    async with client.turn():
        frame, result = await request_raw(
            client, "fs/read_text_file", {"path": os.path.basename(client.create_file(LINES))}
        )
        client.require(result.get("content") == LINES, "a relative path did not lead to its file", frame)


@must("client.draft.08", "draft.md#write-file", needs=WRITE)
async def writes_are_counted(client: ClientUnderTest) -> None:
    """A write tells how many bytes it wrote, and whether it made the file."""
    async with client.turn():
        frame, result = await request_raw(client, "fs/write_text_file", {"path": client.absent_path(), "content": "hé"})
        client.require(result.get("bytesWritten") == 3, f"bytesWritten is {result.get('bytesWritten')!r}, not 3", frame)
        client.require(result.get("created") is True, "a new file is not reported as created", frame)


@must("client.draft.09", "draft.md#write-file", needs=WRITE)
async def overwriting_can_be_forbidden(client: ClientUnderTest) -> None:
    """A file that must not be overwritten is not."""
    async with client.turn():
        path = client.create_file("precious")
        params = {"path": path, "content": "lost", "overwrite": False}
        frame = await client.wait_reply(client.call("fs/write_text_file", params))
        client.require(frame is not None, "a write was never answered")
        client.require(_read_file(path) == "precious", "a file was overwritten that must not be", frame)


def _read_file(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


@must("client.draft.10", "draft.md#terminal-create", needs=TERMINALS)
async def environments_are_maps(client: ClientUnderTest) -> None:
    """The environment of a command is a map."""
    async with client.turn():
        path = client.absent_path()
        id = await create_terminal(client, f'printf "%s" "$CHECK" > {path}', env={"CHECK": "a value"})
        await request_raw(client, "terminal/wait_for_exit", {"terminalId": id})
        client.require(
            os.path.exists(path) and _read_file(path) == "a value", "the environment did not reach the command"
        )
        client.call("terminal/release", {"terminalId": id})


@must("client.draft.11", "draft.md#terminal-output", needs=TERMINALS)
async def output_is_pushed(client: ClientUnderTest) -> None:
    """What a command prints is pushed to the agent."""
    async with client.turn():
        client.answers["terminal/output"] = {"received": True}
        id = await create_terminal(client, f"printf pushed; {FOREVER}")

        def is_push(frame: ReceivedFrame) -> bool:
            params = frame.message.get("params") if isinstance(frame.message, dict) else None
            return (
                frame.method == "terminal/output" and isinstance(params, dict) and "pushed" in str(params.get("data"))
            )

        frame = await client.wait_for(is_push) or next((each for each in client.received if is_push(each)), None)
        client.require(frame is not None, "what a command printed was never pushed")
        client.call("terminal/release", {"terminalId": id})


@must("client.draft.12", "draft.md#terminal-wait", needs=TERMINALS)
async def signals_have_a_code(client: ClientUnderTest) -> None:
    """The end of a command has an exit code, also after a signal."""
    async with client.turn():
        id = await create_terminal(client, "kill -9 $$")
        frame, result = await request_raw(client, "terminal/wait_for_exit", {"terminalId": id})
        client.require(isinstance(result.get("exitCode"), int), f"exitCode is {result.get('exitCode')!r}", frame)
        client.call("terminal/release", {"terminalId": id})


@must("client.draft.13", "draft.md#terminal-wait", needs=TERMINALS)
async def waiting_has_an_end(client: ClientUnderTest) -> None:
    """Waiting for a command ends with its timeout."""
    async with client.turn():
        id = await create_terminal(client, FOREVER)
        frame = client.require(
            await client.wait_reply(client.call("terminal/wait_for_exit", {"terminalId": id, "timeout": 100})),
            "waiting for a command did not end with its timeout",
        )
        result = frame.message.get("result")
        is_late = isinstance(result, dict) and result.get("timedOut") is True
        client.require(is_late or "error" in frame.message, "a wait that timed out does not say so", frame)
        client.call("terminal/release", {"terminalId": id})


@must("client.draft.14", "draft.md#terminal-kill", needs=TERMINALS)
async def ends_are_reported(client: ClientUnderTest) -> None:
    """kill and release tell whether they did it."""
    async with client.turn():
        id = await create_terminal(client, FOREVER)
        frame, result = await request_raw(client, "terminal/kill", {"terminalId": id})
        client.require(result.get("killed") is True, "kill does not report that it killed", frame)
        frame, result = await request_raw(client, "terminal/release", {"terminalId": id})
        client.require(result.get("released") is True, "release does not report that it released", frame)


@should("client.draft.15", "draft.md#required-capabilities")
async def requirements_are_read(client: ClientUnderTest) -> None:
    """An agent that requires what the client lacks is left."""
    client.held.add("initialize")
    first = await client.wait_initialize()
    info = {"name": "demanding", "version": "1"}
    needs = {"ui": {"holograms": True}}
    client.reply(
        first,
        {"protocolVersion": 1, "agentInfo": info, "capabilities": {}, "requiredClientCapabilities": needs},
    )
    frame = await client.wait_method("session/new", client.timeouts.answer)
    client.require(frame is None, "the client continues with an agent that requires what it lacks", frame)


@must("client.draft.16", "draft.md#status-machine")
async def statuses_are_tolerated(client: ClientUnderTest) -> None:
    """The draft's seven statuses of a tool call are borne."""
    prompt = await client.begin_turn()
    for number, last in enumerate(("denied", "cancelled", "failed", "completed")):
        send_update(client, "tool_call", {"id": f"t{number}", "tool": "run", "input": {}, "status": "pending"})
        send_update(client, "tool_call_update", {"id": f"t{number}", "status": "awaiting_permission"})
        if last != "denied":
            send_update(client, "tool_call_update", {"id": f"t{number}", "status": "in_progress"})
        send_update(client, "tool_call_update", {"id": f"t{number}", "status": last})
    await client.require_alive(prompt, "the draft's statuses")


@must("client.draft.17", "draft.md#tool-output")
async def outputs_are_tolerated(client: ClientUnderTest) -> None:
    """The draft's outputs of a tool call are borne."""
    prompt = await client.begin_turn()
    hunk = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "content": "-a\n+b\n"}
    ran = {"command": "ls", "exitCode": 0, "stdout": "a\n", "stderr": ""}
    for number, output in enumerate(
        (
            {"type": "text", "text": "done"},
            {"type": "diff", "path": "/a.txt", "hunks": [hunk]},
            {"type": "terminal", "terminalId": "t9", **ran},
        )
    ):
        send_update(client, "tool_call", {"id": f"o{number}", "tool": "run", "input": {}, "status": "in_progress"})
        send_update(
            client, "tool_call_update", {"id": f"o{number}", "status": "completed", "output": output, "duration": 12}
        )
    await client.require_alive(prompt, "the draft's outputs")


@must("client.draft.18", "draft.md#mode-update, draft.md#option-update")
async def changes_are_tolerated(client: ClientUnderTest) -> None:
    """Changes of mode and options in the draft's words are borne."""
    prompt = await client.begin_turn()
    send_update(client, "current_mode_update", {"previousMode": "default", "currentMode": "plan", "reason": "asked"})
    send_update(
        client, "config_option_update", {"key": "t", "previousValue": 1, "currentValue": {"a": 2}, "source": "agent"}
    )
    send_update(client, "available_commands", {"commands": [{"name": "help", "description": "Helps"}]})
    await client.require_alive(prompt, "changes in the draft's terms")


@must("client.draft.19", "draft.md#update-frame")
async def times_are_tolerated(client: ClientUnderTest) -> None:
    """An update may have a timestamp."""
    prompt = await client.begin_turn()
    send_update(
        client, "agent_message_chunk", {"content": "x\n", "index": 0, "final": False}, timestamp="2026-01-01T00:00:00Z"
    )
    await client.require_alive(prompt, "an update with a timestamp")
