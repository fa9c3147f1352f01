"""Files of a client."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from dragoman.conformance.harness.client import READ, REFUSES_WRITES, WRITE, ClientUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.requirement import must, should

LINES = "line one\nline two\nline three\nline four\n"
LETTERS = "Grüße, 世界, 🙂\r\nsecond\tline\r\nno end"
MEGABYTE = 1024 * 1024


async def _read(client: ClientUnderTest, path: str, **more: Json) -> str:
    """Return the text that the client must give."""
    result = await client.request_result("fs/read_text_file", {"path": path, **more})
    client.require_last(isinstance(result.get("content"), str), "the answer to a read has no text")
    return str(result["content"])


async def _write(client: ClientUnderTest, path: str, content: str) -> ReceivedFrame:
    """Require that the client writes; return its answer."""
    params = {"path": path, "content": content}
    frame = await client.request_in_dialect("fs/write_text_file", params, client.timeouts.turn)
    frame = client.require(frame, "a write was never answered")
    client.assume("error" not in frame.message, REFUSES_WRITES, frame)
    return frame


async def _try_read(client: ClientUnderTest, path: str, **more: Json) -> ReceivedFrame:
    """Return the answer to a read that the client should refuse."""
    frame = await client.request_in_dialect("fs/read_text_file", {"path": path, **more})
    return client.require(frame, "a read was never answered")


async def _require_read_refused(client: ClientUnderTest, why: str, path: str, **more: Json) -> None:
    frame = await _try_read(client, path, **more)
    client.require("error" in frame.message, why, frame)


async def _try_write(client: ClientUnderTest, path: str, content: str = "planted") -> ReceivedFrame:
    """Return the answer to a write, refused or not."""
    frame = await client.request_in_dialect("fs/write_text_file", {"path": path, "content": content})
    return client.require(frame, "a write was never answered")


async def _require_withheld(client: ClientUnderTest, path: str, what: str) -> None:
    """Require that the text of this file is not given."""
    frame = await _try_read(client, path)
    client.require("error" in frame.message or "secret" not in str(frame.message), f"the client gives {what}", frame)


def file_content(path: str) -> bytes:
    """Return the content of a file."""
    with open(path, "rb") as file:
        return file.read()


@contextmanager
def outside_file() -> Iterator[str]:
    """Give a file with a secret in a folder outside of the session."""
    with tempfile.TemporaryDirectory(prefix="dragoman-outside-") as folder:
        path = os.path.join(os.path.realpath(folder), "secret.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("a secret\n")
        yield path


@must("client.files.01", "files-terminals.md#read", "v1 banjo 2025.1 draft", needs=READ)
async def a_file_is_given(client: ClientUnderTest) -> None:
    """A file is returned as it is on the disk."""
    async with client.turn():
        text = await _read(client, client.create_file(LINES))
        client.require(text == LINES, f"the file was given as {text[:80]!r}")


@must("client.files.02", "files-terminals.md#read", needs=READ)
async def lines_begin_with_one(client: ClientUnderTest) -> None:
    """Lines are counted from 1."""
    async with client.turn():
        text = await _read(client, client.create_file(LINES), line=2)
        client.require(text.startswith("line two"), f"from line 2 on, {text[:40]!r} was given")


@must("client.files.03", "files-terminals.md#read", needs=READ)
async def a_limit_is_kept(client: ClientUnderTest) -> None:
    """No more lines are returned than were requested."""
    async with client.turn():
        text = await _read(client, client.create_file(LINES), line=2, limit=1)
        count = len(text.splitlines())
        client.require(count == 1, f"{count} lines were given where one was asked for")


@must("client.files.04", "peers.md#missing-files", needs=READ)
async def a_limit_is_enough(client: ClientUnderTest) -> None:
    """A limit may be given without a first line."""
    async with client.turn():
        text = await _read(client, client.create_file(LINES), limit=2)
        client.require(text.startswith("line one") and "line two" in text, f"the first two lines are {text[:40]!r}")


@should("client.files.05", "peers.md#missing-files", needs=READ)
async def a_missing_file_is_an_error(client: ClientUnderTest) -> None:
    """Reading a file that does not exist is an error, not an empty text."""
    async with client.turn():
        await _require_read_refused(client, "a file that is not there was given", client.absent_path())


@must("client.files.06", "json-rpc.md#paths-and-lines", "v1 banjo 2025.1", needs=READ)
async def relative_paths_are_refused(client: ClientUnderTest) -> None:
    """A relative path is refused."""
    async with client.turn():
        path = os.path.basename(client.create_file("here"))
        await _require_read_refused(client, "a file was given by a relative path", path)


@must("client.files.07", "peers.md#null-results", "v1 banjo 2025.1 draft", needs=WRITE)
async def a_write_is_done(client: ClientUnderTest) -> None:
    """When a write is answered, the text is in the file."""
    async with client.turn():
        path = client.create_file("before")
        frame = await _write(client, path, "after")
        client.require(file_content(path) == b"after", "the client reported a write that did not happen", frame)


@must("client.files.08", "files-terminals.md#write", "v1 banjo 2025.1 draft", needs=WRITE)
async def a_file_is_made(client: ClientUnderTest) -> None:
    """Writing a file that does not exist creates it."""
    async with client.turn():
        path = client.absent_path()
        frame = await _try_write(client, path, "fresh")
        client.require(os.path.exists(path), "a file that was not there was not made", frame)


@must("client.files.09", "json-rpc.md#results", needs=WRITE)
async def a_write_has_an_empty_answer(client: ClientUnderTest) -> None:
    """The answer to a write is an object, or null."""
    async with client.turn():
        frame = await _write(client, client.create_file("before"), "after")
        result = frame.message.get("result")
        client.require(result is None or isinstance(result, dict), f"a write was answered with {result!r}", frame)


@should("client.files.10", "sessions.md#roots", "v1 banjo 2025.1 draft", needs=READ)
async def files_outside_are_kept(client: ClientUnderTest) -> None:
    """A file outside the session's folder is not returned."""
    async with client.turn():
        with outside_file() as path:
            await _require_withheld(client, path, "a file outside the session's folder")


@should("client.files.11", "sessions.md#roots", "v1 banjo 2025.1 draft", needs=READ)
async def links_do_not_lead_outside(client: ClientUnderTest) -> None:
    """A link inside the folder that leads outside is not followed."""
    async with client.turn():
        with outside_file() as path:
            link = client.absent_path()
            os.symlink(path, link)
            await _require_withheld(client, link, "what a link leads to")


@should("client.files.12", "sessions.md#roots", "v1 banjo 2025.1 draft", needs=WRITE)
async def nothing_is_written_outside(client: ClientUnderTest) -> None:
    """A file outside the session's folder is not written."""
    async with client.turn():
        with outside_file() as path:
            fresh = os.path.join(os.path.dirname(path), "planted.txt")
            frame = await _try_write(client, fresh)
            client.require(not os.path.exists(fresh), "the client writes outside the session's folder", frame)


@must("client.files.13", "files-terminals.md#read", "v1 banjo 2025.1 draft", needs=WRITE)
async def texts_are_kept(client: ClientUnderTest) -> None:
    """Line ends and characters of every script are kept."""
    async with client.turn():
        path = client.create_file("")
        frame = await _write(client, path, LETTERS)
        client.require(file_content(path) == LETTERS.encode(), "the file is not what was written", frame)
        given = await _read(client, path)
        client.require(given == LETTERS, f"the text came back as {given!r}")


@must("client.files.14", "files-terminals.md#read", "v1 banjo 2025.1 draft", needs=READ)
async def folders_are_no_files(client: ClientUnderTest) -> None:
    """A folder is not a file: reading one is an error."""
    async with client.turn(survives="a read of a folder"):
        await _require_read_refused(client, "a folder was given as a text", client.cwd)


@must("client.files.15", "peers.md#long-lines", "v1 banjo 2025.1 draft", needs=WRITE)
async def a_megabyte_is_complete(client: ClientUnderTest) -> None:
    """A megabyte is written and returned whole."""
    async with client.turn():
        path, text = client.create_file(""), "0123456789abcdef" * (MEGABYTE // 16)
        frame = await _write(client, path, text)
        client.require(os.path.getsize(path) == MEGABYTE, "a megabyte was not written whole", frame)
        client.require(await _read(client, path) == text, "a megabyte was not given whole")


@must("client.files.16", "initialize.md#gates", needs=f"!{READ}")
async def what_is_not_offered_is_not_given(client: ClientUnderTest) -> None:
    """Without the capability files are not returned."""
    async with client.turn():
        client.assume_capabilities_stated()
        frame = await _try_read(client, client.create_file("a secret"))
        client.require(not frame.result.get("content"), "files are given that are not offered", frame)


@must("client.files.17", "files-terminals.md#read", "v1 banjo 2025.1 draft", needs=READ)
async def an_empty_file_is_a_text(client: ClientUnderTest) -> None:
    """An empty file is returned as an empty text."""
    async with client.turn():
        client.require(
            await _read(client, client.create_file("")) == "", "an empty file was not given as an empty text"
        )


@should("client.files.18", "sessions.md#roots", "v1 banjo 2025.1 draft", needs=READ)
async def parent_folders_do_not_lead_outside(client: ClientUnderTest) -> None:
    """A path with .. in it does not lead outside the folder."""
    async with client.turn():
        with outside_file() as path:
            up = os.path.join(client.cwd, *[".."] * len(client.cwd.strip("/").split("/")))
            detour = os.path.join(up, path.lstrip("/"))
            client.note(f"the same file as {path}, by a detour")
            await _require_withheld(client, detour, "a file outside the session's folder by a detour")


@must("client.files.19", "initialize.md#gates", needs=f"!{WRITE}")
async def what_is_not_offered_is_not_written(client: ClientUnderTest) -> None:
    """Without the capability files are not written."""
    async with client.turn():
        client.assume_capabilities_stated()
        path = client.absent_path()
        frame = await _try_write(client, path)
        client.require(not os.path.exists(path), "files are written that are not offered for that", frame)


@should("client.files.20", "json-rpc.md#paths-and-lines", needs=READ)
async def lines_are_not_negative(client: ClientUnderTest) -> None:
    """A negative line number is refused."""
    async with client.turn():
        await _require_read_refused(client, "a line below zero was given", client.create_file(LINES), line=-1)
