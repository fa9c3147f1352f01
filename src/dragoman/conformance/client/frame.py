"""Bytes that a client reads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from dragoman.conformance.harness.client import ClientUnderTest
from dragoman.conformance.requirement import must, should

LONG = 100_000
HUGE = 5 * 1024 * 1024
DEPTH = 1000

# The pause between two pieces, so that they are read apart. Seconds.
PAUSE = 0.005


def _update_line(client: ClientUnderTest, text: str) -> bytes:
    """Return an update with this text, as bytes with their line end."""
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    method, params = client.in_dialect("session/update", {"sessionId": client.session, "update": update})
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(message, ensure_ascii=False).encode() + b"\n"


async def _require_read(client: ClientUnderTest, what: str, mark: str, cut: Callable[[bytes], list[bytes]]) -> None:
    """Require that the client still works after an update with this mark, and shows the mark if it shows text.

    `cut` makes the pieces that are written one by one from the line of the update.
    """
    prompt = await client.begin_turn()
    await client.flush()
    await asyncio.sleep(PAUSE)
    for piece in cut(_update_line(client, f"{mark}\n")):
        client.write_raw(piece)
        await client.flush()
        await asyncio.sleep(PAUSE)
    end = await client.require_alive(prompt, what)
    client.require(end.shows(mark.split()[-1]), f"{what} was not read as it was written")


async def _require_read_after(client: ClientUnderTest, what: str, mark: str, before: bytes) -> None:
    """Require that an update is read after these bytes."""
    await _require_read(client, what, mark, lambda line: [before, line])


@must("client.frame.01", "json-rpc.md#stdio")
async def messages_come_in_pieces(client: ClientUnderTest) -> None:
    """A message may arrive in pieces."""
    what = "a message in three pieces"
    await _require_read(client, what, "split-up", lambda line: [line[:20], line[20:50], line[50:]])


@must("client.frame.02", "json-rpc.md#stdio")
async def messages_come_together(client: ClientUnderTest) -> None:
    """Several messages may arrive at once."""

    def together(line: bytes) -> list[bytes]:
        return [b"".join(line.replace(b"together-2", b"together-%d" % number) for number in range(3))]

    await _require_read(client, "several messages at once", "together-2", together)


@must("client.frame.03", "peers.md#long-lines")
async def lines_are_long(client: ClientUnderTest) -> None:
    """A line may be longer than 64 KiB."""
    await _require_read(client, f"a line of {LONG} bytes", "x" * LONG + "\nlong-end", lambda line: [line])


@must("client.frame.04", "json-rpc.md#stdio")
async def letters_are_split(client: ClientUnderTest) -> None:
    """A character may be split between two pieces."""

    def cut(line: bytes) -> list[bytes]:
        at = line.index("🙂".encode()) + 2
        return [line[:at], line[at:]]

    await _require_read(client, "a letter in two pieces", "split-🙂-letter", cut)


@must("client.frame.05", "peers.md#logs-on-stdout")
async def logs_are_ignored(client: ClientUnderTest) -> None:
    """Log lines between the messages are ignored."""
    noise = b"> my-agent@1.0 start\n\x1b[32mMigrating database...\x1b[0m\n"
    await _require_read_after(client, "log lines between the messages", "logs-over", noise)


@must("client.frame.06", "peers.md#launcher-noise")
async def lines_end_with_cr(client: ClientUnderTest) -> None:
    """A line may end with CR and LF."""
    await _require_read(client, "a line that ends with CR LF", "crlf-end", lambda line: [line[:-1] + b"\r\n"])


@must("client.frame.07", "json-rpc.md#robust-reading")
async def blank_lines_are_ignored(client: ClientUnderTest) -> None:
    """Blank lines are ignored."""
    await _require_read_after(client, "blank lines", "blank-over", b"\n\n  \n")


@must("client.frame.08", "json-rpc.md#robust-reading")
async def bytes_that_are_no_text_are_tolerated(client: ClientUnderTest) -> None:
    """A line that is not UTF-8 does not end the conversation."""
    wrong = b'{"jsonrpc":"2.0","method":"_vendor/note","params":{"name":"caf\xe9"}}\n'
    await _require_read_after(client, "a line that is not UTF-8", "latin-over", wrong)


@should("client.frame.09", "json-rpc.md#robust-reading")
async def depth_is_tolerated(client: ClientUnderTest) -> None:
    """A message nested a thousand deep does not end the conversation."""
    deep = b'{"jsonrpc":"2.0","method":"_vendor/note","params":{"a":' + b"[" * DEPTH + b"]" * DEPTH + b"}}\n"
    await _require_read_after(client, "a message nested a thousand deep", "deep-over", deep)


@should("client.frame.10", "peers.md#sdk-large-message")
async def huge_lines_are_read(client: ClientUnderTest) -> None:
    """A line of five megabytes is read."""
    note = {"jsonrpc": "2.0", "method": "_vendor/note", "params": {"data": "y" * HUGE}}
    huge = json.dumps(note).encode() + b"\n"
    await _require_read_after(client, "a line of five megabytes", "huge-over", huge)
