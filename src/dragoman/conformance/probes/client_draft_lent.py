"""Probes of what a client lends in the draft and v1 has not: folders, bytes, watching, limits of terminals."""

from __future__ import annotations

import base64
import os
import shutil
import time

from dragoman.conformance.harness.client import ClientStage
from dragoman.conformance.harness.peer import Heard, Json
from dragoman.conformance.probe import probe
from dragoman.conformance.probes.client_draft import FOREVER, asked, terminal
from dragoman.conformance.probes.client_files import on_disk, outside

BYTES = b"\x00\xff\x10check"
LINES = "one\ntwo\nthree\n"

# Commands that are started at the same time to find a limit; one that is higher is not tried.
FEW = 8


class folder:
    """A folder of the probe's own in that of the session, gone afterwards."""

    def __init__(self, stage: ClientStage) -> None:
        self._path = stage.absent()

    def __enter__(self) -> str:
        os.mkdir(self._path)
        return self._path

    def __exit__(self, *reason: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)


async def _lending(stage: ClientStage, name: str) -> Heard:
    """A turn under way with a client that lends this of files; others are in their right."""
    prompt = await stage.begun()
    told = next(heard.message.get("params") for heard in stage.heard if heard.method == "initialize")
    files = ((told or {}).get("capabilities") or {}).get("fs")
    if not isinstance(files, dict) or files.get(name) is not True:
        stage.skip(f"the client does not offer fs.{name}")
    return prompt


@probe("client.draft.20")
async def folders_are_made_for_files(stage: ClientStage) -> None:
    """Two of them."""
    prompt = await stage.begun()
    with folder(stage) as top:
        path = os.path.join(top, "a", "b", "new.txt")
        params = {"path": path, "content": "x", "createDirectories": True}
        heard, _ = await asked(stage, "fs/write_text_file", params)
        stage.require(os.path.isfile(path), "no folders were made for a file, though that was asked for", heard)
    stage.end(prompt)


@probe("client.draft.26")
async def bytes_are_base64(stage: ClientStage) -> None:
    """Some that no text has."""
    prompt = await _lending(stage, "binary")
    path = stage.absent()
    data = base64.b64encode(BYTES).decode()
    await asked(stage, "fs/write_binary_file", {"path": path, "data": data})
    stage.require(on_disk(path) == BYTES, "the bytes that were written are others")
    heard, result = await asked(stage, "fs/read_binary_file", {"path": path})
    stage.require(result.get("data") == data, "the bytes that were read are others", heard)
    stage.end(prompt)


@probe("client.draft.27")
async def folders_are_listed(stage: ClientStage) -> None:
    """A file and a folder."""
    prompt = await _lending(stage, "list")
    with folder(stage) as top:
        stage.file("x", "a.txt", top)
        os.mkdir(os.path.join(top, "b"))
        heard, result = await asked(stage, "fs/list_directory", {"path": top})
    entries = [each for each in result.get("entries") or [] if isinstance(each, dict)]
    found = {each.get("name"): each.get("type") for each in entries}
    stage.require(found == {"a.txt": "file", "b": "directory"}, f"the folder was listed as {found}", heard)
    stage.end(prompt)


@probe("client.draft.28")
async def folders_are_made(stage: ClientStage) -> None:
    """One in another."""
    prompt = await _lending(stage, "createDirectory")
    with folder(stage) as top:
        path = os.path.join(top, "new")
        heard, result = await asked(stage, "fs/create_directory", {"path": path})
        stage.require(os.path.isdir(path), "the folder that was made is not there", heard)
        stage.require(result.get("created") is True, "a new folder is not told as created", heard)
    stage.end(prompt)


@probe("client.draft.29")
async def changes_are_told(stage: ClientStage) -> None:
    """A file that comes."""
    prompt = await _lending(stage, "watch")
    with folder(stage) as top:
        heard, result = await asked(stage, "fs/watch", {"path": top})
        watch = result.get("watchId")
        stage.require(isinstance(watch, str), "fs/watch was answered without a watchId", heard)
        path = stage.file("x", "came.txt", top)

        def is_told(heard: Heard) -> bool:
            params = heard.message.get("params") if isinstance(heard.message, dict) else None
            is_ours = isinstance(params, dict) and params.get("watchId") == watch
            return heard.method == "fs/changed" and is_ours and path in str(params)

        told = await stage.until(is_told, stage.pace.turn)
        stage.require(told is not None, "a file came into a folder that is watched, and nothing was told")
        stage.call("fs/unwatch", {"watchId": watch})
    stage.end(prompt)


@probe("client.draft.30")
async def several_files_or_none(stage: ClientStage) -> None:
    """Of two, one is elsewhere."""
    prompt = await _lending(stage, "atomic")
    first, second = stage.absent(), stage.absent()
    await asked(stage, "fs/write_files", {"files": [_new(first), _new(second)]})
    stage.require(os.path.exists(first) and os.path.exists(second), "of two files one was not written")
    third = stage.absent()
    with outside() as path:
        refused = os.path.join(os.path.dirname(path), "no-such-folder", "new.txt")
        heard = await stage.answered(stage.call("fs/write_files", {"files": [_new(third), _new(refused)]}))
    stage.require(heard is not None, "fs/write_files was never answered")
    stage.require(not os.path.exists(third), "of two files one was written, and the other could not be", heard)
    stage.end(prompt)


def _new(path: str) -> Json:
    return {"path": path, "content": "x"}


@probe("client.draft.31")
async def cuts_are_told(stage: ClientStage) -> None:
    """One line of three."""
    prompt = await stage.begun()
    heard, result = await asked(stage, "fs/read_text_file", {"path": stage.file(LINES), "startLine": 1, "endLine": 1})
    if "totalLines" not in result and "truncated" not in result:
        stage.skip("the client tells neither how many lines there are nor that it was cut")
    total, cut = result.get("totalLines", 3), result.get("truncated", True)
    stage.require(total == 3, f"totalLines is {total!r}, not 3", heard)
    stage.require(cut is True, "one line of three is not told as cut", heard)
    stage.end(prompt)


# --- terminals ----------------------------------------------------------------------------------------------------


@probe("client.draft.21")
async def commands_time_out(stage: ClientStage) -> None:
    """A tenth of a second."""
    prompt = await stage.begun()
    id = await terminal(stage, FOREVER, timeout=100)
    heard = await stage.answered(stage.call("terminal/wait_for_exit", {"terminalId": id}), stage.pace.turn)
    stage.require(heard is not None, "a command did not end with the timeout it was given")
    stage.call("terminal/release", {"terminalId": id})
    stage.end(prompt)


@probe("client.draft.22")
async def force_is_force(stage: ClientStage) -> None:
    """The shell ignores TERM, and so does what it starts."""
    prompt = await stage.begun()
    path = stage.absent()
    id = await terminal(stage, f"trap '' TERM; touch {path}; {FOREVER}")
    end = time.monotonic() + stage.pace.turn
    while not os.path.exists(path):
        if time.monotonic() > end:
            stage.unsure("the command did not begin in time")
        await stage.silence()
    await asked(stage, "terminal/kill", {"terminalId": id, "force": True})
    ended = await stage.answered(stage.call("terminal/wait_for_exit", {"terminalId": id}), stage.pace.turn)
    stage.require(ended is not None, "a command that ignores TERM was not ended by force")
    stage.call("terminal/release", {"terminalId": id})
    stage.end(prompt)


@probe("client.draft.23")
async def terminals_are_counted(stage: ClientStage) -> None:
    """One more than was announced."""
    prompt = await stage.begun()
    told = next(heard.message.get("params") for heard in stage.heard if heard.method == "initialize")
    limit = (told["capabilities"].get("terminal") or {}).get("maxConcurrent")
    if not isinstance(limit, int) or limit > FEW:
        stage.skip(f"the client announces {limit if isinstance(limit, int) else 'no limit'}; more is not tried")
    params = {"command": "/bin/sh", "args": ["-c", FOREVER]}
    answers = [await stage.answered(stage.call("terminal/create", params)) for _ in range(limit + 1)]
    made = [heard for heard in answers if heard is not None and "result" in heard.message]
    for heard in made:
        stage.call("terminal/release", {"terminalId": heard.message["result"].get("terminalId")})
    stage.require(len(made) <= limit, f"{len(made)} terminals were made, and {limit} announced", *made[-1:])
    stage.end(prompt)


@probe("client.draft.32")
async def streams_are_named(stage: ClientStage) -> None:
    """Something on each of them."""
    prompt = await stage.begun()
    stage.answers["terminal/output"] = {"received": True}
    id = await terminal(stage, "printf said; printf wrong >&2")
    await stage.answered(stage.call("terminal/wait_for_exit", {"terminalId": id}), stage.pace.turn)
    await stage.silence()
    pushed = [heard for heard in stage.heard if heard.method == "terminal/output" and heard.is_request]
    named = [heard for heard in pushed if heard.message["params"].get("stream")]
    if not named:
        stage.skip("the client does not say on which stream something came")
    for heard in named:
        data, stream = heard.message["params"].get("data"), heard.message["params"]["stream"]
        right = {"said": "stdout", "wrong": "stderr"}.get(str(data), stream)
        stage.require(stream == right, f"{data!r} was printed on {right} and pushed as {stream!r}", heard)
    stage.call("terminal/release", {"terminalId": id})
    stage.end(prompt)


# --- the agent ----------------------------------------------------------------------------------------------------


@probe("client.draft.24")
async def inventions_are_no_hindrance(stage: ClientStage) -> None:
    """Of any shape."""
    stage.held.add("initialize")
    first = await stage.introduced()
    can = {"loadSession": False, "_custom": {"org.example": {"tides": ["high", 1]}}}
    stage.reply(first, {"protocolVersion": 1, "agentInfo": {"name": "own", "version": "1"}, "capabilities": can})
    prompt = await stage.until(lambda heard: heard.method == "session/prompt", stage.pace.start)
    stage.require(prompt is not None, "the client gave up an agent that can do something of its own")
    assert prompt is not None
    stage.end(prompt)


@probe("client.draft.25")
async def haste_makes_waste(stage: ClientStage) -> None:
    """Another prompt may come, but not in the same moment."""
    prompt = await stage.begun()
    stage.refuse(prompt, -32008, "Rate limited")
    again = [heard for heard in await stage.silence() if heard.method == "session/prompt"]
    stage.require(not again, "a prompt that came too soon is said again at once", *again)


@probe("client.draft.33")
async def servers_have_a_transport(stage: ClientStage) -> None:
    """Where any are told."""
    heard = await stage.wanted("session/new", stage.pace.start)
    servers = heard.message.get("params", {}).get("mcpServers")
    if not servers:
        stage.skip("the client tells of no MCP servers")
    stage.require(isinstance(servers, list), "mcpServers is no list", heard)
    for each in servers:
        carrier = each.get("transport") if isinstance(each, dict) else None
        good = isinstance(carrier, dict) and isinstance(carrier.get("type"), str) and isinstance(each.get("name"), str)
        stage.require(good, "an MCP server has no name, or a transport without a type", heard)
