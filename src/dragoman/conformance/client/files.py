"""Files of a client."""

from __future__ import annotations

import os
import tempfile

from dragoman.conformance.harness.client import ClientUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.requirement import must, should

READ = "client.fs.readTextFile"
WRITE = "client.fs.writeTextFile"


LINES = "line one\nline two\nline three\nline four\n"
LETTERS = "Grüße, 世界, 🙂\r\nsecond\tline\r\nno end"
MEGABYTE = 1024 * 1024


async def read(client: ClientUnderTest, path: str, **more: Json) -> str:
    """Return the text that the client must give."""
    result = await client.request_result("fs/read_text_file", {"sessionId": client.session, "path": path, **more})
    client.require(isinstance(result.get("content"), str), "the answer to a read has no text", client.received[-1])
    return str(result["content"])


async def write(client: ClientUnderTest, path: str, content: str) -> ReceivedFrame:
    """Require that the client writes; return its answer."""
    method, params = client.in_dialect(
        "fs/write_text_file", {"sessionId": client.session, "path": path, "content": content}
    )
    frame = client.require(
        await client.wait_reply(client.call(method, params), client.timeouts.turn), "a write was never answered"
    )
    client.assume("error" not in frame.message, "the client refuses to write; let it allow that (as with --yes)", frame)
    return frame


async def attempt(client: ClientUnderTest, method: str, params: Json) -> ReceivedFrame:
    """Return the answer to a request that the client should refuse."""
    return client.require(
        await client.request(method, {"sessionId": client.session, **params}), f"{method} was never answered"
    )


async def require_withheld(client: ClientUnderTest, path: str, what: str) -> None:
    """Require that the text of this file is not given."""
    frame = await attempt(client, "fs/read_text_file", {"path": path})
    client.require("error" in frame.message or "secret" not in str(frame.message), f"the client gives {what}", frame)


def file_content(path: str) -> bytes:
    """Return the content of a file."""
    with open(path, "rb") as file:
        return file.read()


class outside_file:
    """A file with a secret in a folder outside of the session."""

    def __enter__(self) -> str:
        self._folder = os.path.realpath(tempfile.mkdtemp(prefix="dragoman-outside-"))
        self.path = os.path.join(self._folder, "secret.txt")
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("a secret\n")
        return self.path

    def __exit__(self, *reason: object) -> None:
        for name in os.listdir(self._folder):
            os.unlink(os.path.join(self._folder, name))
        os.rmdir(self._folder)


@must("client.files.01", "files-terminals.md#read", "v1 banjo 2025.1 draft", needs=READ)
async def a_file_is_given(client: ClientUnderTest) -> None:
    """A file is given as it is on the disk."""
    async with client.turn():
        text = await read(client, client.create_file(LINES))
        client.require(text == LINES, f"the file was given as {text[:80]!r}")


@must("client.files.02", "files-terminals.md#read", needs=READ)
async def lines_begin_with_one(client: ClientUnderTest) -> None:
    """Lines are counted from 1."""
    async with client.turn():
        text = await read(client, client.create_file(LINES), line=2)
        client.require(text.startswith("line two"), f"from line 2 on, {text[:40]!r} was given")


@must("client.files.03", "files-terminals.md#read", needs=READ)
async def a_limit_is_kept(client: ClientUnderTest) -> None:
    """No more lines are given than were asked for."""
    async with client.turn():
        text = await read(client, client.create_file(LINES), line=2, limit=1)
        count = len(text.splitlines())
        client.require(count == 1, f"{count} lines were given where one was asked for")


@must("client.files.04", "peers.md#missing-files", needs=READ)
async def a_limit_is_enough(client: ClientUnderTest) -> None:
    """A limit may stand without a first line."""
    async with client.turn():
        text = await read(client, client.create_file(LINES), limit=2)
        client.require(text.startswith("line one") and "line two" in text, f"the first two lines are {text[:40]!r}")


@should("client.files.05", "peers.md#missing-files", needs=READ)
async def a_missing_file_is_an_error(client: ClientUnderTest) -> None:
    """A file that is not there is an error, not an empty one."""
    async with client.turn():
        frame = await attempt(client, "fs/read_text_file", {"path": client.absent_path()})
        client.require("error" in frame.message, "a file that is not there was given", frame)


@must("client.files.06", "json-rpc.md#paths-and-lines", "v1 banjo 2025.1", needs=READ)
async def relative_paths_are_refused(client: ClientUnderTest) -> None:
    """A relative path is refused."""
    async with client.turn():
        path = os.path.basename(client.create_file("here"))
        frame = await attempt(client, "fs/read_text_file", {"path": path})
        client.require("error" in frame.message, "a file was given by a relative path", frame)


@must("client.files.07", "peers.md#null-results", "v1 banjo 2025.1 draft", needs=WRITE)
async def a_write_is_done(client: ClientUnderTest) -> None:
    """What is written is in the file when the answer comes."""
    async with client.turn():
        path = client.create_file("before")
        frame = await write(client, path, "after")
        client.require(file_content(path) == b"after", "the client reported a write that did not happen", frame)


@must("client.files.08", "files-terminals.md#write", "v1 banjo 2025.1 draft", needs=WRITE)
async def a_file_is_made(client: ClientUnderTest) -> None:
    """A file that is not there is made."""
    async with client.turn():
        path = client.absent_path()
        frame = await client.request(
            "fs/write_text_file", {"sessionId": client.session, "path": path, "content": "fresh"}
        )
        client.require(frame is not None, "a write was never answered")
        client.require(os.path.exists(path), "a file that was not there was not made", frame)


@must("client.files.09", "json-rpc.md#results", needs=WRITE)
async def a_write_has_an_empty_answer(client: ClientUnderTest) -> None:
    """The answer to a write is an object, or null."""
    async with client.turn():
        frame = await write(client, client.create_file("before"), "after")
        result = frame.message.get("result")
        client.require(result is None or isinstance(result, dict), f"a write was answered with {result!r}", frame)


@should("client.files.10", "sessions.md#roots", "v1 banjo 2025.1 draft", needs=READ)
async def files_outside_are_kept(client: ClientUnderTest) -> None:
    """A file outside the session's folder is not given."""
    async with client.turn():
        with outside_file() as path:
            await require_withheld(client, path, "a file outside the session's folder")


@should("client.files.11", "sessions.md#roots", "v1 banjo 2025.1 draft", needs=READ)
async def links_do_not_lead_out(client: ClientUnderTest) -> None:
    """A link inside the folder that leads out of it is not followed."""
    async with client.turn():
        with outside_file() as path:
            link = client.absent_path()
            os.symlink(path, link)
            await require_withheld(client, link, "what a link leads to")


@should("client.files.12", "sessions.md#roots", "v1 banjo 2025.1 draft", needs=WRITE)
async def nothing_is_written_outside(client: ClientUnderTest) -> None:
    """A file outside the session's folder is not written."""
    async with client.turn():
        with outside_file() as path:
            fresh = os.path.join(os.path.dirname(path), "planted.txt")
            frame = await attempt(client, "fs/write_text_file", {"path": fresh, "content": "planted"})
            client.require(not os.path.exists(fresh), "the client writes outside the session's folder", frame)


@must("client.files.13", "files-terminals.md#read", "v1 banjo 2025.1 draft", needs=WRITE)
async def texts_are_kept(client: ClientUnderTest) -> None:
    """Line ends and letters of every script are kept."""
    async with client.turn():
        path = client.create_file("")
        frame = await write(client, path, LETTERS)
        client.require(file_content(path) == LETTERS.encode(), "the file is not what was written", frame)
        given = await read(client, path)
        client.require(given == LETTERS, f"the text came back as {given!r}")


@must("client.files.14", "files-terminals.md#read", "v1 banjo 2025.1 draft", needs=READ)
async def folders_are_no_files(client: ClientUnderTest) -> None:
    """A folder is not a file: reading one is an error."""
    prompt = await client.begin_turn()
    frame = await attempt(client, "fs/read_text_file", {"path": client.cwd})
    client.require("error" in frame.message, "a folder was given as a text", frame)
    await client.require_alive(prompt, "a read of a folder")


@must("client.files.15", "peers.md#long-lines", "v1 banjo 2025.1 draft", needs=WRITE)
async def a_megabyte_is_whole(client: ClientUnderTest) -> None:
    """A megabyte is written and given whole."""
    async with client.turn():
        path, text = client.create_file(""), "0123456789abcdef" * (MEGABYTE // 16)
        frame = await write(client, path, text)
        client.require(os.path.getsize(path) == MEGABYTE, "a megabyte was not written whole", frame)
        client.require(await read(client, path) == text, "a megabyte was not given whole")


@must("client.files.16", "initialize.md#gates", needs=f"!{READ}")
async def what_is_not_offered_is_not_given(client: ClientUnderTest) -> None:
    """Without the capability files are not given."""
    async with client.turn():
        init_params = next(frame.params for frame in client.received if frame.method == "initialize")
        if client.dialect == "banjo" and "clientCapabilities" not in init_params:  # where it has to be said
            client.inconclusive("the client did not say what it offers")
        frame = await attempt(client, "fs/read_text_file", {"path": client.create_file("a secret")})
        given = frame.message.get("result")
        client.require(
            not (isinstance(given, dict) and given.get("content")), "files are given that are not offered", frame
        )


@must("client.files.17", "files-terminals.md#read", "v1 banjo 2025.1 draft", needs=READ)
async def an_empty_file_is_a_text(client: ClientUnderTest) -> None:
    """An empty file is given as an empty text."""
    async with client.turn():
        client.require(await read(client, client.create_file("")) == "", "an empty file was not given as an empty text")


@should("client.files.18", "sessions.md#roots", "v1 banjo 2025.1 draft", needs=READ)
async def detours_lead_nowhere(client: ClientUnderTest) -> None:
    """The way up and down again does not lead out of the folder."""
    async with client.turn():
        with outside_file() as path:
            up = os.path.join(client.cwd, *[".."] * len(client.cwd.strip("/").split("/")))
            detour = os.path.join(up, path.lstrip("/"))
            client.note(f"the same file as {path}, by a detour")
            await require_withheld(client, detour, "a file outside the session's folder by a detour")


@must("client.files.19", "initialize.md#gates", needs=f"!{WRITE}")
async def what_is_not_offered_is_not_written(client: ClientUnderTest) -> None:
    """Without the capability files are not written."""
    async with client.turn():
        init_params = next(frame.params for frame in client.received if frame.method == "initialize")
        if client.dialect == "banjo" and "clientCapabilities" not in init_params:  # where it has to be said
            client.inconclusive("the client did not say what it offers")
        path = client.absent_path()
        frame = await attempt(client, "fs/write_text_file", {"path": path, "content": "x"})
        client.require(not os.path.exists(path), "files are written that are not offered for that", frame)


@should("client.files.20", "json-rpc.md#paths-and-lines", needs=READ)
async def lines_are_not_negative(client: ClientUnderTest) -> None:
    """A line below zero is refused."""
    async with client.turn():
        frame = await attempt(client, "fs/read_text_file", {"path": client.create_file(LINES), "line": -1})
        client.require("error" in frame.message, "a line below zero was given", frame)
