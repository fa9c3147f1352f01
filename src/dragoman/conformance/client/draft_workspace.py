"""Files and terminals in the draft that v1 lacks: folders, bytes, watching, limits."""

from __future__ import annotations

import base64
import os
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from dragoman.conformance.client.draft import FOREVER, read_file, terminal
from dragoman.conformance.client.files import file_content, outside_file
from dragoman.conformance.harness.client import READ, TERMINALS, WRITE, ClientUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.requirement import may, must, should

BYTES = b"\x00\xff\x10check"
LINES = "one\ntwo\nthree\n"

# How many commands are started at once to find a limit.
FEW = 8


@contextmanager
def _temporary_folder(client: ClientUnderTest) -> Iterator[str]:
    """Give a folder in the session's folder, removed afterwards."""
    path = client.absent_path()
    os.mkdir(path)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _offered(client: ClientUnderTest, name: str) -> Json:
    """Return the members of one capability of the draft, `fs` or `terminal`."""
    capabilities = client.calls("initialize")[0].wire_params.get("capabilities") or {}
    found = capabilities.get(name)
    return found if isinstance(found, dict) else {}


@asynccontextmanager
async def _turn_with(client: ClientUnderTest, name: str) -> AsyncIterator[None]:
    """Run a turn around the block; skip if the client does not offer this for files."""
    async with client.turn():
        client.skip_unless(_offered(client, "fs").get(name) is True, f"the client does not offer fs.{name}")
        yield


@must("client.draft.20", "draft.md#write-file", needs=WRITE)
async def folders_are_made_for_files(client: ClientUnderTest) -> None:
    """Folders are created for a file where that is requested."""
    async with client.turn():
        with _temporary_folder(client) as top:
            path = os.path.join(top, "a", "b", "new.txt")
            params = {"path": path, "content": "x", "createDirectories": True}
            frame = await client.require_result("fs/write_text_file", params)
            client.require(os.path.isfile(path), "no folders were made for a file, though that was asked for", frame)


@may("client.draft.26", "draft.md#planned-features, extensions.md#file-calls")
async def bytes_are_base64(client: ClientUnderTest) -> None:
    """Bytes are read and written as base64."""
    async with _turn_with(client, "binary"):
        path = client.absent_path()
        data = base64.b64encode(BYTES).decode()
        await client.require_result("fs/write_binary_file", {"path": path, "data": data})
        client.require(file_content(path) == BYTES, "the bytes that were written are others")
        frame = await client.require_result("fs/read_binary_file", {"path": path})
        client.require(frame.result.get("data") == data, "the bytes that were read are others", frame)


@may("client.draft.27", "draft.md#planned-features, extensions.md#file-calls")
async def folders_are_listed(client: ClientUnderTest) -> None:
    """A folder is listed with the names and types in it."""
    async with _turn_with(client, "list"):
        with _temporary_folder(client) as top:
            client.create_file("x", "a.txt", top)
            os.mkdir(os.path.join(top, "b"))
            frame = await client.require_result("fs/list_directory", {"path": top})
        entries = [each for each in frame.result.get("entries") or [] if isinstance(each, dict)]
        found = {each.get("name"): each.get("type") for each in entries}
        client.require(found == {"a.txt": "file", "b": "directory"}, f"the folder was listed as {found}", frame)


@may("client.draft.28", "draft.md#planned-features, extensions.md#file-calls")
async def folders_are_made(client: ClientUnderTest) -> None:
    """A folder can be created."""
    async with _turn_with(client, "createDirectory"):
        with _temporary_folder(client) as top:
            path = os.path.join(top, "new")
            frame = await client.require_result("fs/create_directory", {"path": path})
            client.require(os.path.isdir(path), "the folder that was made is not there", frame)
            client.require(frame.result.get("created") is True, "a new folder is not reported as created", frame)


@may("client.draft.29", "draft.md#planned-features, extensions.md#file-calls")
async def changes_are_reported(client: ClientUnderTest) -> None:
    """Changes in a watched folder are reported."""
    async with _turn_with(client, "watch"):
        with _temporary_folder(client) as top:
            frame = await client.require_result("fs/watch", {"path": top})
            watch = frame.result.get("watchId")
            client.require(isinstance(watch, str), "fs/watch was answered without a watchId", frame)
            path = client.create_file("x", "came.txt", top)

            def is_event(frame: ReceivedFrame) -> bool:
                is_ours = frame.method == "fs/changed" and frame.wire_params.get("watchId") == watch
                return is_ours and path in str(frame.wire_params)

            event = await client.wait_for(is_event, client.timeouts.turn)
            client.require(event, "a file came into a folder that is watched, and no event was sent")
            client.call("fs/unwatch", {"watchId": watch})


@may("client.draft.30", "draft.md#planned-features, extensions.md#file-calls")
async def several_files_or_none(client: ClientUnderTest) -> None:
    """Either all of several files are written, or none."""
    async with _turn_with(client, "atomic"):
        first, second = client.absent_path(), client.absent_path()
        await client.require_result("fs/write_files", {"files": [_new(first), _new(second)]})
        client.require(os.path.exists(first) and os.path.exists(second), "of two files one was not written")
        third = client.absent_path()
        with outside_file() as path:
            refused = os.path.join(os.path.dirname(path), "no-such-folder", "new.txt")
            frame = await client.require_answer("fs/write_files", {"files": [_new(third), _new(refused)]})
        client.require(not os.path.exists(third), "of two files one was written, and the other could not be", frame)


def _new(path: str) -> Json:
    return {"path": path, "content": "x"}


@may("client.draft.31", "draft.md#read-file", needs=READ)
async def cuts_are_reported(client: ClientUnderTest) -> None:
    """The result of a read may state how many lines there are, and whether the text was truncated."""
    async with client.turn():
        frame = await read_file(client, client.create_file(LINES), startLine=1, endLine=1)
        is_reported = {"totalLines", "truncated"} & frame.result.keys()
        client.skip_unless(is_reported, "the client reports neither how many lines there are nor that it was cut")
        total, cut = frame.result.get("totalLines", 3), frame.result.get("truncated", True)
        client.require(total == 3, f"totalLines is {total!r}, not 3", frame)
        client.require(cut is True, "one line of three is not reported as cut", frame)


# --- terminals ----------------------------------------------------------------------------------------------------


@must("client.draft.21", "draft.md#terminal-create", needs=TERMINALS)
async def commands_time_out(client: ClientUnderTest) -> None:
    """A command ends after the timeout it was given."""
    async with client.turn(), terminal(client, FOREVER, timeout=100) as id:
        frame = await client.request("terminal/wait_for_exit", {"terminalId": id}, client.timeouts.turn)
        client.require(frame, "a command did not end with the timeout it was given")


@must("client.draft.22", "draft.md#terminal-kill", needs=TERMINALS)
async def kill_with_force_ends_the_command(client: ClientUnderTest) -> None:
    """kill with force ends a command that ignores TERM."""
    async with client.turn():
        path = client.absent_path()
        async with terminal(client, f"trap '' TERM; touch {path}; {FOREVER}") as id:
            end = time.monotonic() + client.timeouts.turn
            while not os.path.exists(path):
                client.assume(time.monotonic() <= end, "the command did not begin in time")
                await client.collect()
            await client.require_result("terminal/kill", {"terminalId": id, "force": True})
            frame = await client.request("terminal/wait_for_exit", {"terminalId": id}, client.timeouts.turn)
            client.require(frame, "a command that ignores TERM was not ended by force")


@may("client.draft.23", "draft.md#client-capabilities", needs=TERMINALS)
async def terminals_are_counted(client: ClientUnderTest) -> None:
    """No more terminals are created than the client announced."""
    async with client.turn():
        limit = _offered(client, "terminal").get("maxConcurrent")
        if not isinstance(limit, int) or limit > FEW:
            client.skip(f"the client announces {limit if isinstance(limit, int) else 'no limit'}; more is not tried")
        params = {"command": "/bin/sh", "args": ["-c", FOREVER]}
        answers = [await client.request("terminal/create", params) for _ in range(limit + 1)]
        made = [frame for frame in answers if frame is not None and "result" in frame.message]
        for frame in made:
            client.call("terminal/release", {"terminalId": frame.result.get("terminalId")})
        client.require(len(made) <= limit, f"{len(made)} terminals were made, and {limit} announced", *made[-1:])


@may("client.draft.32", "draft.md#terminal-output", needs=TERMINALS)
async def streams_are_named(client: ClientUnderTest) -> None:
    """Pushed output may state its stream, stdout or stderr."""
    client.answers["terminal/output"] = {"received": True}
    async with client.turn(), terminal(client, "printf said; printf wrong >&2") as id:
        await client.request("terminal/wait_for_exit", {"terminalId": id}, client.timeouts.turn)
        await client.collect()
        pushed = [frame for frame in client.calls("terminal/output") if frame.is_request]
        named = [frame for frame in pushed if frame.wire_params.get("stream")]
        for frame in client.skip_unless(named, "the client does not say on which stream something came"):
            data, stream = frame.wire_params.get("data"), frame.wire_params["stream"]
            right = {"said": "stdout", "wrong": "stderr"}.get(str(data), stream)
            client.require(stream == right, f"{data!r} was printed on {right} and pushed as {stream!r}", frame)


# --- the agent ----------------------------------------------------------------------------------------------------


@must("client.draft.24", "draft.md#custom-capabilities")
async def custom_capabilities_are_accepted(client: ClientUnderTest) -> None:
    """The client accepts an agent with capabilities of its own under _custom."""
    first = await client.hold_initialize()
    can = {"loadSession": False, "_custom": {"org.example": {"tides": ["high", 1]}}}
    client.reply(first, {"protocolVersion": 1, "agentInfo": {"name": "own", "version": "1"}, "capabilities": can})
    client.end_turn(await client.require_prompt("the client gave up an agent that can do something of its own"))


@should("client.draft.25", "draft.md#error-recovery")
async def rate_limited_prompts_are_not_repeated_at_once(client: ClientUnderTest) -> None:
    """A prompt that was refused because of a rate limit is not sent again at once."""
    prompt = await client.begin_turn()
    client.refuse(prompt, -32008, "Rate limited")
    again = [frame for frame in await client.collect() if frame.method == "session/prompt"]
    client.require_none(again, "a prompt that came too soon is sent again at once")


@may("client.draft.33", "draft.md#mcp-servers")
async def servers_have_a_transport(client: ClientUnderTest) -> None:
    """MCP servers may be given with a session, each with a name and a transport."""
    frame = await client.wait_new_session()
    servers = client.skip_unless(frame.wire_params.get("mcpServers"), "the client sends no MCP servers")
    client.require_shape(servers, [{"name": str, "transport": {"type": str}}], frame, "mcpServers")
