"""Probes of the files a client lends."""

from __future__ import annotations

import os
import tempfile

from dragoman.conformance.harness.client import ClientStage
from dragoman.conformance.harness.peer import Heard, Json
from dragoman.conformance.probe import probe

LINES = "line one\nline two\nline three\nline four\n"
LETTERS = "Grüße, 世界, 🙂\r\nsecond\tline\r\nno end"
MEGABYTE = 1024 * 1024


async def read(stage: ClientStage, path: str, **more: Json) -> str:
    """A text the client must give."""
    result = await stage.fact("fs/read_text_file", {"sessionId": stage.session, "path": path, **more})
    stage.require(isinstance(result.get("content"), str), "the answer to a read has no text", stage.heard[-1])
    return str(result["content"])


async def write(stage: ClientStage, path: str, content: str) -> Heard:
    """A write the client must do; gives its answer."""
    method, params = stage.say("fs/write_text_file", {"sessionId": stage.session, "path": path, "content": content})
    heard = await stage.answered(stage.call(method, params), stage.pace.turn)
    stage.require(heard is not None, "a write was never answered")
    assert heard is not None
    if "error" in heard.message:
        stage.unsure("the client refuses to write; let it allow that (as with --yes)", heard)
    return heard


async def attempted(stage: ClientStage, method: str, params: Json) -> Heard:
    """The answer to something the client should refuse."""
    heard = await stage.ask(method, {"sessionId": stage.session, **params})
    stage.require(heard is not None, f"{method} was never answered")
    assert heard is not None
    return heard


async def withheld(stage: ClientStage, path: str, what: str) -> None:
    """The text of this file must not be given."""
    heard = await attempted(stage, "fs/read_text_file", {"path": path})
    stage.require("error" in heard.message or "secret" not in str(heard.message), f"the client gives {what}", heard)


def on_disk(path: str) -> bytes:
    """What is in a file."""
    with open(path, "rb") as file:
        return file.read()


class outside:
    """A file with a secret in a folder that is none of the session's."""

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


@probe("client.files.01")
async def a_file_is_given(stage: ClientStage) -> None:
    """Whole."""
    prompt = await stage.begun()
    text = await read(stage, stage.file(LINES))
    stage.require(text == LINES, f"the file was given as {text[:80]!r}")
    stage.end(prompt)


@probe("client.files.02")
async def lines_begin_with_one(stage: ClientStage) -> None:
    """From the second on."""
    prompt = await stage.begun()
    text = await read(stage, stage.file(LINES), line=2)
    stage.require(text.startswith("line two"), f"from line 2 on, {text[:40]!r} was given")
    stage.end(prompt)


@probe("client.files.03")
async def a_limit_is_kept(stage: ClientStage) -> None:
    """One line, with its end or without."""
    prompt = await stage.begun()
    text = await read(stage, stage.file(LINES), line=2, limit=1)
    count = len(text.splitlines())
    stage.require(count == 1, f"{count} lines were given where one was asked for")
    stage.end(prompt)


@probe("client.files.04")
async def a_limit_is_enough(stage: ClientStage) -> None:
    """As qwen asks."""
    prompt = await stage.begun()
    text = await read(stage, stage.file(LINES), limit=2)
    stage.require(text.startswith("line one") and "line two" in text, f"the first two lines are {text[:40]!r}")
    stage.end(prompt)


@probe("client.files.05")
async def a_missing_file_is_an_error(stage: ClientStage) -> None:
    """An empty text would be a file."""
    prompt = await stage.begun()
    heard = await attempted(stage, "fs/read_text_file", {"path": stage.absent()})
    stage.require("error" in heard.message, "a file that is not there was given", heard)
    stage.end(prompt)


@probe("client.files.06")
async def relative_paths_are_refused(stage: ClientStage) -> None:
    """Of a file that is there."""
    prompt = await stage.begun()
    path = os.path.basename(stage.file("here"))
    heard = await attempted(stage, "fs/read_text_file", {"path": path})
    stage.require("error" in heard.message, "a file was given by a relative path", heard)
    stage.end(prompt)


@probe("client.files.07")
async def a_write_is_done(stage: ClientStage) -> None:
    """When the answer comes."""
    prompt = await stage.begun()
    path = stage.file("before")
    heard = await write(stage, path, "after")
    stage.require(on_disk(path) == b"after", "the client says it wrote, and did not", heard)
    stage.end(prompt)


@probe("client.files.08")
async def a_file_is_made(stage: ClientStage) -> None:
    """Where there was none."""
    prompt = await stage.begun()
    path = stage.absent()
    heard = await stage.ask("fs/write_text_file", {"sessionId": stage.session, "path": path, "content": "fresh"})
    stage.require(heard is not None, "a write was never answered")
    stage.require(os.path.exists(path), "a file that was not there was not made", heard)
    stage.end(prompt)


@probe("client.files.09")
async def a_write_has_an_empty_answer(stage: ClientStage) -> None:
    """Both forms are in use."""
    prompt = await stage.begun()
    heard = await write(stage, stage.file("before"), "after")
    result = heard.message.get("result")
    stage.require(result is None or isinstance(result, dict), f"a write was answered with {result!r}", heard)
    stage.end(prompt)


@probe("client.files.10")
async def files_outside_are_kept(stage: ClientStage) -> None:
    """By an absolute path."""
    prompt = await stage.begun()
    with outside() as path:
        await withheld(stage, path, "a file outside the session's folder")
    stage.end(prompt)


@probe("client.files.11")
async def links_do_not_lead_out(stage: ClientStage) -> None:
    """A link to a file."""
    prompt = await stage.begun()
    with outside() as path:
        link = stage.absent()
        os.symlink(path, link)
        await withheld(stage, link, "what a link leads to")
    stage.end(prompt)


@probe("client.files.12")
async def nothing_is_written_outside(stage: ClientStage) -> None:
    """Next to a file that is there."""
    prompt = await stage.begun()
    with outside() as path:
        fresh = os.path.join(os.path.dirname(path), "planted.txt")
        heard = await attempted(stage, "fs/write_text_file", {"path": fresh, "content": "planted"})
        stage.require(not os.path.exists(fresh), "the client writes outside the session's folder", heard)
    stage.end(prompt)


@probe("client.files.13")
async def texts_are_kept(stage: ClientStage) -> None:
    """Written, read from the disk, and read back."""
    prompt = await stage.begun()
    path = stage.file("")
    heard = await write(stage, path, LETTERS)
    stage.require(on_disk(path) == LETTERS.encode(), "the file is not what was written", heard)
    given = await read(stage, path)
    stage.require(given == LETTERS, f"the text came back as {given!r}")
    stage.end(prompt)


@probe("client.files.14")
async def folders_are_no_files(stage: ClientStage) -> None:
    """The session's own."""
    prompt = await stage.begun()
    heard = await attempted(stage, "fs/read_text_file", {"path": stage.cwd})
    stage.require("error" in heard.message, "a folder was given as a text", heard)
    await stage.survived(prompt, "a read of a folder")


@probe("client.files.15")
async def a_megabyte_is_whole(stage: ClientStage) -> None:
    """There and back."""
    prompt = await stage.begun()
    path, text = stage.file(""), "0123456789abcdef" * (MEGABYTE // 16)
    heard = await write(stage, path, text)
    stage.require(os.path.getsize(path) == MEGABYTE, "a megabyte was not written whole", heard)
    stage.require(await read(stage, path) == text, "a megabyte was not given whole")
    stage.end(prompt)


@probe("client.files.16")
async def what_is_not_offered_is_not_given(stage: ClientStage) -> None:
    """A client that lends no files."""
    prompt = await stage.begun()
    told = next(heard.params for heard in stage.heard if heard.method == "initialize")
    if stage.dialect == "banjo" and "clientCapabilities" not in told:  # where it has to be said
        stage.unsure("the client did not say what it lends")
    heard = await attempted(stage, "fs/read_text_file", {"path": stage.file("a secret")})
    given = heard.message.get("result")
    stage.require(not (isinstance(given, dict) and given.get("content")), "files are given that are not lent", heard)
    stage.end(prompt)


@probe("client.files.17")
async def an_empty_file_is_a_text(stage: ClientStage) -> None:
    """Not null, not an error."""
    prompt = await stage.begun()
    stage.require(await read(stage, stage.file("")) == "", "an empty file was not given as an empty text")
    stage.end(prompt)


@probe("client.files.18")
async def detours_lead_nowhere(stage: ClientStage) -> None:
    """folder/../../outside."""
    prompt = await stage.begun()
    with outside() as path:
        up = os.path.join(stage.cwd, *[".."] * len(stage.cwd.strip("/").split("/")))
        detour = os.path.join(up, path.lstrip("/"))
        stage.note(f"the same file as {path}, by a detour")
        await withheld(stage, detour, "a file outside the session's folder by a detour")
    stage.end(prompt)


@probe("client.files.19")
async def what_is_not_offered_is_not_written(stage: ClientStage) -> None:
    """A client that lends files for reading, or none."""
    prompt = await stage.begun()
    told = next(heard.params for heard in stage.heard if heard.method == "initialize")
    if stage.dialect == "banjo" and "clientCapabilities" not in told:  # where it has to be said
        stage.unsure("the client did not say what it lends")
    path = stage.absent()
    heard = await attempted(stage, "fs/write_text_file", {"path": path, "content": "x"})
    stage.require(not os.path.exists(path), "files are written that are not lent for that", heard)
    stage.end(prompt)


@probe("client.files.20")
async def lines_are_not_negative(stage: ClientStage) -> None:
    """Nor counted from the end."""
    prompt = await stage.begun()
    heard = await attempted(stage, "fs/read_text_file", {"path": stage.file(LINES), "line": -1})
    stage.require("error" in heard.message, "a line below zero was given", heard)
    stage.end(prompt)
