"""Names and forms of what is in the streams: subjects of sessions, and messages with a head in JSON and lines after it.

Every message of a log says who owns it and where it ends, so that the last one is the whole truth about both.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from zlib import crc32

import msgspec

from dragoman.store.blocks import Block
from dragoman.store.contract import Claim
from dragoman.store.nats.client import StreamMessage

META = "DGM-META"

_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")

# How much of an id is a token of its own, so that sessions are found by the beginning of their ids. Characters.
PREFIX = 8

# Subjects that are remembered: an append needs one.
CACHED_SUBJECTS = 20_000


def token(text: str) -> str:
    """Return a text as one token of a subject: as it is, or `x` and base32."""
    if _PLAIN.fullmatch(text) is not None and not text.startswith("x"):
        return text
    return "x" + base64.b32encode(text.encode()).decode().rstrip("=").lower()


def untoken(part: str) -> str:
    """Return the text of a token."""
    if not part.startswith("x"):
        return part
    padded = part[1:].upper() + "=" * (-(len(part) - 1) % 8)
    return base64.b32decode(padded).decode()


class Shards(msgspec.Struct, frozen=True):
    """The streams of logs: a session is always in the same one."""

    count: int

    def stream(self, session_id: str) -> str:
        """Return the stream of a session."""
        return stream_name(self._shard(session_id))

    def log(self, session_id: str) -> str:
        """Return the subject of the newest entries of a session, and of its claims."""
        return _log_subject(self._shard(session_id), session_id)

    def pages(self, session_id: str) -> str:
        """Return the subject of the older entries of a session."""
        return f"dgm.page.{self._shard(session_id)}.{token(session_id)}"

    def _shard(self, session_id: str) -> int:
        return crc32(session_id.encode()) % self.count


@lru_cache(CACHED_SUBJECTS)
def _log_subject(shard: int, session_id: str) -> str:
    return f"dgm.log.{shard}.{token(session_id)}"


def stream_name(shard: int) -> str:
    """Return the name of a stream of logs."""
    return f"DGM-LOG-{shard:02}"


def head_subject(session_id: str) -> str:
    """Return the subject of the summary of a session."""
    return f"dgm.meta.head.{token(session_id[:PREFIX])}.{token(session_id)}"


class MessageHead(msgspec.Struct, frozen=True, omit_defaults=True):
    """The head of a message: the owner and the end of the log after it."""

    epoch: int
    node: str
    entries: int
    size: int
    updated_at: str
    first: int = 0  # the first entry in it; 0 if it has none
    count: int = 0
    sum: int = 0
    part: int = 0  # of a message that is too long for one: its part, from 1
    parts: int = 0
    write: str = ""  # random, by which its writer knows it again; the same for all parts


class LogMessage(msgspec.Struct, frozen=True):
    """A message of a log."""

    head: MessageHead
    body: bytes
    seq: int

    def claim(self, session_id: str) -> Claim:
        """Return the claim that holds after this message."""
        return Claim(session_id=session_id, node=self.head.node, epoch=self.head.epoch, seq=self.head.entries)


def encode_message(head: MessageHead, body: bytes = b"") -> bytes:
    """Return a message as it is stored."""
    return msgspec.json.encode(head) + b"\n" + body


def decode_message(message: StreamMessage) -> LogMessage | None:
    """Return a stored message; None if it cannot be read."""
    head, newline, body = message.data.partition(b"\n")
    try:
        return LogMessage(msgspec.json.decode(head, type=MessageHead), body, message.seq) if newline else None
    except msgspec.MsgspecError:
        return None


def split_message(before: MessageHead, head: MessageHead, body: bytes, limit: int) -> list[bytes]:
    """Return what is stored for a block: one message, or several parts of which only the last one counts.

    The others have the head from before, so that a write that ends in the middle changes nothing.
    """
    whole = encode_message(head, body)
    if len(whole) <= limit:
        return [whole]
    room = limit - 1024
    slices = [body[start : start + room] for start in range(0, len(body), room)]
    count = len(slices)
    replace = msgspec.structs.replace
    messages = []
    for part, data in enumerate(slices, 1):
        of = head if part == count else replace(before, first=0, count=0, sum=0)
        messages.append(encode_message(replace(of, part=part, parts=count, write=head.write), data))
    return messages


def to_blocks(messages: Iterable[LogMessage]) -> list[Block]:
    """Return the blocks in messages of one subject; parts that are not complete are none."""
    blocks: list[Block] = []
    parts: list[LogMessage] = []
    for message in messages:
        head = message.head
        if not head.parts:
            parts = []
            if head.count:
                blocks.append(Block(head.first, head.count, head.epoch, head.sum, message.body))
            continue
        is_next = head.part == len(parts) + 1 and (not parts or parts[0].head.write == head.write)
        parts = [*parts, message] if is_next else ([message] if head.part == 1 else [])
        if parts and head.part == head.parts == len(parts):
            body = b"".join(part.body for part in parts)
            blocks.append(Block(head.first, head.count, head.epoch, head.sum, body))
            parts = []
    return blocks


def to_head(before: MessageHead, block: Block, *, size: int, updated_at: str, entries: int, write: str) -> MessageHead:
    """Return the head of a message with a block."""
    return MessageHead(
        epoch=before.epoch,
        node=before.node,
        entries=entries,
        size=size,
        updated_at=updated_at,
        first=block.first,
        count=block.count,
        sum=block.sum,
        write=write,
    )


def decode_all(messages: Sequence[StreamMessage]) -> list[LogMessage]:
    """Return the messages that can be read."""
    return [found for message in messages if (found := decode_message(message)) is not None]
