"""Probes of what only the draft asks of a client."""

from __future__ import annotations

import os

from dragoman.conformance.harness.client import ClientStage
from dragoman.conformance.harness.peer import Heard, Json
from dragoman.conformance.probe import probe

LINES = "one\ntwo\nthree\nfour\n"
FOREVER = "sleep 300"


async def asked(stage: ClientStage, method: str, params: Json) -> tuple[Heard, Json]:
    """The result of a request that the client has to answer, as it stands on the wire."""
    heard = await stage.answered(stage.call(method, params), stage.pace.turn)
    stage.require(heard is not None, f"{method} was never answered")
    assert heard is not None
    stage.require("result" in heard.message, f"{method} was answered with an error", heard)
    result = heard.message["result"]
    stage.require(isinstance(result, dict), f"the result of {method} is not an object", heard)
    return heard, result


def told(stage: ClientStage, kind: str, data: Json, **more: Json) -> None:
    """One update."""
    stage.tell("session/update", {"sessionId": stage.session, "type": kind, "data": data, **more})


async def terminal(stage: ClientStage, line: str, **more: Json) -> str:
    """A terminal that runs this line."""
    heard = await stage.answered(stage.call("terminal/create", {"command": "/bin/sh", "args": ["-c", line], **more}))
    stage.require(heard is not None, "terminal/create was never answered")
    assert heard is not None
    if "error" in heard.message:
        stage.unsure("the client refuses to run commands; let it allow that (as with --yes)", heard)
    id = heard.message["result"].get("terminalId")
    stage.require(isinstance(id, str), "terminal/create was answered without a terminalId", heard)
    return str(id)


@probe("client.draft.01")
async def it_introduces_itself(stage: ClientStage) -> None:
    """Both members are required."""
    heard = await stage.introduced()
    params = heard.message.get("params", {})
    for name in ("clientInfo", "capabilities"):
        stage.require(isinstance(params.get(name), dict), f"initialize has no {name}", heard)


@probe("client.draft.02")
async def its_capabilities_are_the_drafts(stage: ClientStage) -> None:
    """fs.read, fs.write, terminal.create: booleans where they are there."""
    heard = await stage.introduced()
    offered = heard.message.get("params", {}).get("capabilities") or {}
    files, terminals = offered.get("fs", {}), offered.get("terminal", {})
    stage.require(isinstance(files, dict) and isinstance(terminals, dict), "fs or terminal is no object", heard)
    each = [files.get("read", False), files.get("write", False), terminals.get("create", False)]
    stage.require(all(isinstance(value, bool) for value in each), "a capability is not a boolean", heard)
    stage.require(not {"readTextFile", "writeTextFile"} & set(files), "the capabilities are those of v1", heard)


async def _leave(stage: ClientStage) -> tuple[Heard, Json]:
    params = {"sessionId": stage.session, "operation": "network_access", "resource": "https://docs.example"}
    return await asked(stage, "session/request_permission", {**params, "reason": "To look it up", "toolCallId": "t"})


@probe("client.draft.03")
async def leave_is_yes_or_no(stage: ClientStage) -> None:
    """granted."""
    prompt = await stage.begun()
    told(stage, "tool_call", {"id": "t", "tool": "fetch", "input": {}, "status": "pending"})
    heard, result = await _leave(stage)
    stage.require(isinstance(result.get("granted"), bool), "the answer has no granted", heard)
    stage.end(prompt)


@probe("client.draft.04")
async def leave_has_a_scope(stage: ClientStage) -> None:
    """Where one is told."""
    prompt = await stage.begun()
    told(stage, "tool_call", {"id": "t", "tool": "fetch", "input": {}, "status": "pending"})
    heard, result = await _leave(stage)
    scope = result.get("scope", "once")
    stage.require(scope in ("once", "session", "workspace", "always"), f"the scope is {scope!r}", heard)
    stage.end(prompt)


@probe("client.draft.05")
async def texts_have_an_encoding(stage: ClientStage) -> None:
    """content and encoding."""
    prompt = await stage.begun()
    heard, result = await asked(stage, "fs/read_text_file", {"path": stage.file(LINES)})
    good = result.get("content") == LINES and isinstance(result.get("encoding"), str)
    stage.require(good, "the text or its encoding is missing", heard)
    stage.end(prompt)


@probe("client.draft.06")
async def ranges_are_inclusive(stage: ClientStage) -> None:
    """Two to three."""
    prompt = await stage.begun()
    heard, result = await asked(stage, "fs/read_text_file", {"path": stage.file(LINES), "startLine": 2, "endLine": 3})
    lines = str(result.get("content")).split()
    stage.require(lines == ["two", "three"], f"lines 2 to 3 are {lines}", heard)
    stage.end(prompt)


@probe("client.draft.07")
async def relative_paths_are_resolved(stage: ClientStage) -> None:
    """A file in the working directory."""
    prompt = await stage.begun()
    heard, result = await asked(stage, "fs/read_text_file", {"path": os.path.basename(stage.file(LINES))})
    stage.require(result.get("content") == LINES, "a relative path did not lead to its file", heard)
    stage.end(prompt)


@probe("client.draft.08")
async def writes_are_counted(stage: ClientStage) -> None:
    """Three bytes of two letters, in a new file."""
    prompt = await stage.begun()
    heard, result = await asked(stage, "fs/write_text_file", {"path": stage.absent(), "content": "hé"})
    stage.require(result.get("bytesWritten") == 3, f"bytesWritten is {result.get('bytesWritten')!r}, not 3", heard)
    stage.require(result.get("created") is True, "a new file is not told as created", heard)
    stage.end(prompt)


@probe("client.draft.09")
async def overwriting_can_be_forbidden(stage: ClientStage) -> None:
    """The file stays as it is."""
    prompt = await stage.begun()
    path = stage.file("precious")
    params = {"path": path, "content": "lost", "overwrite": False}
    heard = await stage.answered(stage.call("fs/write_text_file", params))
    stage.require(heard is not None, "a write was never answered")
    stage.require(_disk(path) == "precious", "a file was overwritten that must not be", heard)
    stage.end(prompt)


def _disk(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


@probe("client.draft.10")
async def environments_are_maps(stage: ClientStage) -> None:
    """A variable with a space in it."""
    prompt = await stage.begun()
    path = stage.absent()
    id = await terminal(stage, f'printf "%s" "$CHECK" > {path}', env={"CHECK": "a value"})
    await asked(stage, "terminal/wait_for_exit", {"terminalId": id})
    stage.require(os.path.exists(path) and _disk(path) == "a value", "the environment did not reach the command")
    stage.call("terminal/release", {"terminalId": id})
    stage.end(prompt)


@probe("client.draft.11")
async def output_is_pushed(stage: ClientStage) -> None:
    """A request of the client, with data."""
    prompt = await stage.begun()
    stage.answers["terminal/output"] = {"received": True}
    id = await terminal(stage, f"printf pushed; {FOREVER}")

    def is_push(heard: Heard) -> bool:
        params = heard.message.get("params") if isinstance(heard.message, dict) else None
        return heard.method == "terminal/output" and isinstance(params, dict) and "pushed" in str(params.get("data"))

    heard = await stage.until(is_push) or next((each for each in stage.heard if is_push(each)), None)
    stage.require(heard is not None, "what a command printed was never pushed")
    stage.call("terminal/release", {"terminalId": id})
    stage.end(prompt)


@probe("client.draft.12")
async def signals_have_a_code(stage: ClientStage) -> None:
    """An integer in any case."""
    prompt = await stage.begun()
    id = await terminal(stage, "kill -9 $$")
    heard, result = await asked(stage, "terminal/wait_for_exit", {"terminalId": id})
    stage.require(isinstance(result.get("exitCode"), int), f"exitCode is {result.get('exitCode')!r}", heard)
    stage.call("terminal/release", {"terminalId": id})
    stage.end(prompt)


@probe("client.draft.13")
async def waiting_has_an_end(stage: ClientStage) -> None:
    """A tenth of a second."""
    prompt = await stage.begun()
    id = await terminal(stage, FOREVER)
    heard = await stage.answered(stage.call("terminal/wait_for_exit", {"terminalId": id, "timeout": 100}))
    stage.require(heard is not None, "waiting for a command did not end with its timeout")
    assert heard is not None
    result = heard.message.get("result")
    is_late = isinstance(result, dict) and result.get("timedOut") is True
    stage.require(is_late or "error" in heard.message, "a wait that timed out does not say so", heard)
    stage.call("terminal/release", {"terminalId": id})
    stage.end(prompt)


@probe("client.draft.14")
async def ends_are_told(stage: ClientStage) -> None:
    """killed and released."""
    prompt = await stage.begun()
    id = await terminal(stage, FOREVER)
    heard, result = await asked(stage, "terminal/kill", {"terminalId": id})
    stage.require(result.get("killed") is True, "kill does not tell that it killed", heard)
    heard, result = await asked(stage, "terminal/release", {"terminalId": id})
    stage.require(result.get("released") is True, "release does not tell that it released", heard)
    stage.end(prompt)


@probe("client.draft.15")
async def requirements_are_read(stage: ClientStage) -> None:
    """Something no client has."""
    stage.held.add("initialize")
    first = await stage.introduced()
    info = {"name": "demanding", "version": "1"}
    needs = {"ui": {"holograms": True}}
    stage.reply(
        first,
        {"protocolVersion": 1, "agentInfo": info, "capabilities": {}, "requiredClientCapabilities": needs},
    )
    heard = await stage.until(lambda heard: heard.method == "session/new", stage.pace.answer)
    stage.require(heard is None, "the client goes on with an agent that requires what it lacks", heard)


@probe("client.draft.16")
async def statuses_are_borne(stage: ClientStage) -> None:
    """Three of them are the draft's own."""
    prompt = await stage.begun()
    for number, last in enumerate(("denied", "cancelled", "failed", "completed")):
        told(stage, "tool_call", {"id": f"t{number}", "tool": "run", "input": {}, "status": "pending"})
        told(stage, "tool_call_update", {"id": f"t{number}", "status": "awaiting_permission"})
        if last != "denied":
            told(stage, "tool_call_update", {"id": f"t{number}", "status": "in_progress"})
        told(stage, "tool_call_update", {"id": f"t{number}", "status": last})
    await stage.survived(prompt, "the draft's statuses")


@probe("client.draft.17")
async def outputs_are_borne(stage: ClientStage) -> None:
    """Text, hunks and a terminal."""
    prompt = await stage.begun()
    hunk = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "content": "-a\n+b\n"}
    ran = {"command": "ls", "exitCode": 0, "stdout": "a\n", "stderr": ""}
    for number, output in enumerate(
        (
            {"type": "text", "text": "done"},
            {"type": "diff", "path": "/a.txt", "hunks": [hunk]},
            {"type": "terminal", "terminalId": "t9", **ran},
        )
    ):
        told(stage, "tool_call", {"id": f"o{number}", "tool": "run", "input": {}, "status": "in_progress"})
        told(stage, "tool_call_update", {"id": f"o{number}", "status": "completed", "output": output, "duration": 12})
    await stage.survived(prompt, "the draft's outputs")


@probe("client.draft.18")
async def changes_are_borne(stage: ClientStage) -> None:
    """One member at a time."""
    prompt = await stage.begun()
    told(stage, "current_mode_update", {"previousMode": "default", "currentMode": "plan", "reason": "asked"})
    told(stage, "config_option_update", {"key": "t", "previousValue": 1, "currentValue": {"a": 2}, "source": "agent"})
    told(stage, "available_commands", {"commands": [{"name": "help", "description": "Helps"}]})
    await stage.survived(prompt, "changes in the draft's words")


@probe("client.draft.19")
async def times_are_borne(stage: ClientStage) -> None:
    """Beside type and data."""
    prompt = await stage.begun()
    told(stage, "agent_message_chunk", {"content": "x\n", "index": 0, "final": False}, timestamp="2026-01-01T00:00:00Z")
    await stage.survived(prompt, "an update with a timestamp")
