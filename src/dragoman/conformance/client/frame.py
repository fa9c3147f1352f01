"""Bytes that a client reads."""

from __future__ import annotations

import asyncio
import json

from dragoman.conformance.harness.client import ClientUnderTest
from dragoman.conformance.requirement import must, should

LONG = 100_000
HUGE = 5 * 1024 * 1024
DEPTH = 1000

# The pause between two pieces, so that they are read apart. Seconds.
PAUSE = 0.005


def update_line(client: ClientUnderTest, text: str) -> bytes:
    """Return an update with this text, as bytes with their line end."""
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    method, params = client.in_dialect("session/update", {"sessionId": client.session, "update": update})
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(message, ensure_ascii=False).encode() + b"\n"


async def write_pieces(client: ClientUnderTest, *pieces: bytes) -> None:
    """Write pieces that are read one by one."""
    await client.flush()
    await asyncio.sleep(PAUSE)
    for piece in pieces:
        client.write_raw(piece)
        await client.flush()
        await asyncio.sleep(PAUSE)


async def require_read(client: ClientUnderTest, what: str, *pieces: bytes, mark: str) -> None:
    """Require that the client still works after these pieces and shows the mark, if it shows text."""
    prompt = next(frame for frame in reversed(client.received) if frame.method == "session/prompt")
    client.chunk("check-begin\n")
    await write_pieces(client, *pieces)
    end = await client.require_alive(prompt, what)
    is_text_shown = "check-begin" in end.stdout
    client.require(not is_text_shown or mark in end.stdout, f"{what} was not read as it was written")


@must("client.frame.01", "json-rpc.md#stdio")
async def messages_come_in_pieces(client: ClientUnderTest) -> None:
    """A message may arrive in pieces."""
    await client.wait_prompt()
    raw = update_line(client, "split-up\n")
    await require_read(client, "a message in three pieces", raw[:20], raw[20:50], raw[50:], mark="split-up")


@must("client.frame.02", "json-rpc.md#stdio")
async def messages_come_together(client: ClientUnderTest) -> None:
    """Several messages may arrive at once."""
    await client.wait_prompt()
    together = b"".join(update_line(client, f"together-{number}\n") for number in range(3))
    await require_read(client, "several messages at once", together, mark="together-2")


@must("client.frame.03", "peers.md#long-lines")
async def lines_are_long(client: ClientUnderTest) -> None:
    """A line may be longer than 64 KiB."""
    await client.wait_prompt()
    raw = update_line(client, "x" * LONG + "\nlong-end\n")
    await require_read(client, f"a line of {LONG} bytes", raw, mark="long-end")


@must("client.frame.04", "json-rpc.md#stdio")
async def letters_are_split(client: ClientUnderTest) -> None:
    """A letter may be split between two pieces."""
    await client.wait_prompt()
    raw = update_line(client, "split-🙂-letter\n")
    at = raw.index("🙂".encode()) + 2
    await require_read(client, "a letter in two pieces", raw[:at], raw[at:], mark="split-🙂-letter")


@must("client.frame.05", "peers.md#logs-on-stdout")
async def logs_are_passed_over(client: ClientUnderTest) -> None:
    """Log lines between the messages are passed over."""
    await client.wait_prompt()
    noise = b"> my-agent@1.0 start\n\x1b[32mMigrating database...\x1b[0m\n"
    await require_read(
        client, "log lines between the messages", noise, update_line(client, "logs-over\n"), mark="logs-over"
    )


@must("client.frame.06", "peers.md#launcher-noise")
async def lines_end_with_cr(client: ClientUnderTest) -> None:
    """A line may end with CR and LF."""
    await client.wait_prompt()
    raw = update_line(client, "crlf-end\n")[:-1] + b"\r\n"
    await require_read(client, "a line that ends with CR LF", raw, mark="crlf-end")


@must("client.frame.07", "json-rpc.md#robust-reading")
async def blank_lines_are_passed_over(client: ClientUnderTest) -> None:
    """Blank lines are passed over."""
    await client.wait_prompt()
    await require_read(client, "blank lines", b"\n\n  \n", update_line(client, "blank-over\n"), mark="blank-over")


@must("client.frame.08", "json-rpc.md#robust-reading")
async def bytes_that_are_no_text_are_tolerated(client: ClientUnderTest) -> None:
    """A line that is not UTF-8 does not end the conversation."""
    await client.wait_prompt()
    wrong = b'{"jsonrpc":"2.0","method":"_vendor/note","params":{"name":"caf\xe9"}}\n'
    await require_read(
        client, "a line that is not UTF-8", wrong, update_line(client, "latin-over\n"), mark="latin-over"
    )


@should("client.frame.09", "json-rpc.md#robust-reading")
async def depth_is_tolerated(client: ClientUnderTest) -> None:
    """A message nested a thousand deep does not end the conversation."""
    await client.wait_prompt()
    deep = b'{"jsonrpc":"2.0","method":"_vendor/note","params":{"a":' + b"[" * DEPTH + b"]" * DEPTH + b"}}\n"
    await require_read(
        client, "a message nested a thousand deep", deep, update_line(client, "deep-over\n"), mark="deep-over"
    )


@should("client.frame.10", "peers.md#sdk-large-message")
async def huge_lines_are_read(client: ClientUnderTest) -> None:
    """A line of five megabytes is read."""
    await client.wait_prompt()
    note = {"jsonrpc": "2.0", "method": "_vendor/note", "params": {"data": "y" * HUGE}}
    huge = json.dumps(note).encode() + b"\n"
    await require_read(client, "a line of five megabytes", huge, update_line(client, "huge-over\n"), mark="huge-over")
