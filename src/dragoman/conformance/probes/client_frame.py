"""Probes of the bytes a client reads."""

from __future__ import annotations

import asyncio
import json

from dragoman.conformance.harness.client import ClientStage
from dragoman.conformance.probe import probe

LONG = 100_000
HUGE = 5 * 1024 * 1024
DEPTH = 1000

# Between two pieces, so that they are read apart. Seconds.
PAUSE = 0.005


def line(stage: ClientStage, text: str) -> bytes:
    """An update with this text, as bytes with their line end."""
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    method, params = stage.say("session/update", {"sessionId": stage.session, "update": update})
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(message, ensure_ascii=False).encode() + b"\n"


async def piecemeal(stage: ClientStage, *pieces: bytes) -> None:
    """Write pieces that are read one by one."""
    await stage.flush()
    await asyncio.sleep(PAUSE)
    for piece in pieces:
        stage.write_raw(piece)
        await stage.flush()
        await asyncio.sleep(PAUSE)


async def read(stage: ClientStage, what: str, *pieces: bytes, mark: str) -> None:
    """After these pieces a client that shows text must have shown the mark, and live on."""
    prompt = next(heard for heard in reversed(stage.heard) if heard.method == "session/prompt")
    stage.chunk("check-begin\n")
    await piecemeal(stage, *pieces)
    ending = await stage.survived(prompt, what)
    seen = "check-begin" in ending.shown
    stage.require(not seen or mark in ending.shown, f"{what} was not read as it was written")


@probe("client.frame.01")
async def messages_come_in_pieces(stage: ClientStage) -> None:
    """Three pieces, with time between them."""
    await stage.prompted()
    raw = line(stage, "split-up\n")
    await read(stage, "a message in three pieces", raw[:20], raw[20:50], raw[50:], mark="split-up")


@probe("client.frame.02")
async def messages_come_together(stage: ClientStage) -> None:
    """Three in one write."""
    await stage.prompted()
    together = b"".join(line(stage, f"together-{number}\n") for number in range(3))
    await read(stage, "several messages at once", together, mark="together-2")


@probe("client.frame.03")
async def lines_are_long(stage: ClientStage) -> None:
    """A file in one message, say."""
    await stage.prompted()
    raw = line(stage, "x" * LONG + "\nlong-end\n")
    await read(stage, f"a line of {LONG} bytes", raw, mark="long-end")


@probe("client.frame.04")
async def letters_are_split(stage: ClientStage) -> None:
    """In the middle of a smiling face."""
    await stage.prompted()
    raw = line(stage, "split-🙂-letter\n")
    at = raw.index("🙂".encode()) + 2
    await read(stage, "a letter in two pieces", raw[:at], raw[at:], mark="split-🙂-letter")


@probe("client.frame.05")
async def logs_are_passed_over(stage: ClientStage) -> None:
    """As npm, migrations and Windows launchers print them."""
    await stage.prompted()
    noise = b"> my-agent@1.0 start\n\x1b[32mMigrating database...\x1b[0m\n"
    await read(stage, "log lines between the messages", noise, line(stage, "logs-over\n"), mark="logs-over")


@probe("client.frame.06")
async def lines_end_with_cr(stage: ClientStage) -> None:
    """As on Windows."""
    await stage.prompted()
    raw = line(stage, "crlf-end\n")[:-1] + b"\r\n"
    await read(stage, "a line that ends with CR LF", raw, mark="crlf-end")


@probe("client.frame.07")
async def blank_lines_are_passed_over(stage: ClientStage) -> None:
    """Empty, and of spaces."""
    await stage.prompted()
    await read(stage, "blank lines", b"\n\n  \n", line(stage, "blank-over\n"), mark="blank-over")


@probe("client.frame.08")
async def bytes_that_are_no_text_are_borne(stage: ClientStage) -> None:
    """A name of a file in Latin-1, say."""
    await stage.prompted()
    wrong = b'{"jsonrpc":"2.0","method":"_vendor/note","params":{"name":"caf\xe9"}}\n'
    await read(stage, "a line that is not UTF-8", wrong, line(stage, "latin-over\n"), mark="latin-over")


@probe("client.frame.09")
async def depth_is_borne(stage: ClientStage) -> None:
    """In a place nobody looks at."""
    await stage.prompted()
    deep = b'{"jsonrpc":"2.0","method":"_vendor/note","params":{"a":' + b"[" * DEPTH + b"]" * DEPTH + b"}}\n"
    await read(stage, "a message nested a thousand deep", deep, line(stage, "deep-over\n"), mark="deep-over")


@probe("client.frame.10")
async def huge_lines_are_read(stage: ClientStage) -> None:
    """A picture, or the output of a build."""
    await stage.prompted()
    note = {"jsonrpc": "2.0", "method": "_vendor/note", "params": {"data": "y" * HUGE}}
    huge = json.dumps(note).encode() + b"\n"
    await read(stage, "a line of five megabytes", huge, line(stage, "huge-over\n"), mark="huge-over")
