"""Logs in streams: append with compare-and-set, read with every line checked, join the newest entries to pages."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Sequence

import msgspec

from dragoman.errors import StoreFault
from dragoman.store.blocks import (
    MAX_PAGE_ENTRIES,
    Block,
    LogRange,
    corrupted_error,
    join_blocks,
    make_block,
    number_texts,
    split_blocks,
)
from dragoman.store.claims import Fenced, check_append, check_epoch, no_claim
from dragoman.store.contract import Claim
from dragoman.store.nats.client import Conflict, NatsClient, StreamMessage
from dragoman.store.nats.messages import (
    MessageHead,
    Shards,
    decode_all,
    decode_message,
    encode_message,
    split_message,
    to_blocks,
    to_head,
)

# How often a write that met another one is tried again before it is refused, and how long it waits in between: a write
# in flight on a leader that is being elected takes seconds. Seconds.
MAX_TRIES = 40
RETRY_DELAY = 0.05

# How long a claim is tried: a leader that was just elected answers from the past for a while, on a busy machine for
# seconds. Seconds.
CLAIM_TIMEOUT = 10.0

# A direct get chooses a replica by chance, and one of three may be damaged: so often is a gap read again.
MAX_READS = 8

_EMPTY = MessageHead(epoch=0, node="", entries=0, size=0, updated_at="")


class LogEnd(msgspec.Struct, frozen=True):
    """The end of a log: its last message, and the sequence that the next one expects."""

    head: MessageHead
    seq: int

    def claim(self, session_id: str) -> Claim:
        """Return the last claim."""
        if not self.seq:
            return no_claim(session_id)
        return Claim(session_id=session_id, node=self.head.node, epoch=self.head.epoch, seq=self.head.entries)


class Logs:
    """The logs of one set of streams."""

    def __init__(self, client: NatsClient, shards: Shards) -> None:
        self._client = client
        self._shards = shards
        self._ends: dict[str, LogEnd] = {}  # as this node wrote them last
        self._locks: dict[str, asyncio.Lock] = {}
        self._name = secrets.token_hex(6)
        self._writes = itertools.count()

    def _new_write(self) -> str:
        """Return a name that no other message has: random for this process, then a number."""
        return f"{self._name}{next(self._writes):x}"

    async def end(self, session_id: str) -> LogEnd:
        """Return the end of a log as the leader has it.

        A leader that was cut off or has just been elected answers from the past. Where this node wrote more than the
        answer has, it asks again; what is missing then is lost.
        """
        known = self._ends.get(session_id)
        for _ in range(MAX_TRIES):
            end = await self._read_end(session_id)
            if known is None or end.seq >= known.seq or self._ends.get(session_id) is not known:
                break
            await asyncio.sleep(RETRY_DELAY)
        return end

    async def _read_end(self, session_id: str) -> LogEnd:
        message = await self._client.last(self._shards.stream(session_id), self._shards.log(session_id))
        if message is None:
            return LogEnd(_EMPTY, 0)
        found = decode_message(message)
        if found is None:
            raise corrupted_error(session_id, [])
        return LogEnd(found.head, message.seq)

    def forget(self, session_id: str) -> None:
        """Ask for the end of a log again before the next append."""
        self._ends.pop(session_id, None)

    # --- writing ------------------------------------------------------------------------------------------------

    async def append(
        self, session_id: str, texts: Sequence[bytes], updated_at: str, claim: Claim | None
    ) -> tuple[list[bytes], LogEnd]:
        """Append lines; return them and the new end. Appends of one session are one after the other."""
        lock = self._locks.setdefault(session_id, asyncio.Lock())
        async with lock:
            try:
                return await self._append(session_id, texts, updated_at, claim)
            except BaseException:
                self.forget(session_id)
                raise
            finally:
                if not lock._waiters:  # nobody waits: the next append makes a new one
                    self._locks.pop(session_id, None)

    async def _append(
        self, session_id: str, texts: Sequence[bytes], updated_at: str, claim: Claim | None
    ) -> tuple[list[bytes], LogEnd]:
        known, write = self._ends.get(session_id), self._new_write()
        for _ in range(MAX_TRIES):
            end = known or await self.end(session_id)
            self._check(session_id, end, claim, is_known=known is not None)
            if known is not None and not _may_append(end, claim, session_id):
                known = None  # perhaps an old one: ask the leader before anybody is refused
                continue
            before = end.head
            lines = number_texts(texts, before.entries + 1)
            block = make_block(before.entries + 1, before.epoch, lines)
            size = before.size + sum(map(len, lines))
            entries = before.entries + len(lines)
            head = to_head(before, block, size=size, updated_at=updated_at, entries=entries, write=write)
            try:
                seq = await self._store(session_id, end, head, block.body)
            except Conflict:
                known = None
                stored = await self._end_after_conflict(session_id)
                if stored.head.write == write:
                    self._ends[session_id] = stored  # an answer of an earlier try was lost
                    return lines, stored
                if stored.seq and stored.head.entries < end.head.entries:  # a leader whose files were damaged
                    raise corrupted_error(session_id, [(stored.head.entries + 1, end.head.entries)]) from None
                if stored.seq == end.seq:
                    await asyncio.sleep(RETRY_DELAY)  # a write is in flight that nobody acknowledged
                continue
            self._ends[session_id] = LogEnd(head, seq)
            return lines, self._ends[session_id]
        # Its owner has to find out: a leader that answers from the past hides what was stored.
        why = "locked" if claim is None else "unknown"
        raise StoreFault(why, f"other programs write to session {session_id!r} all the time; try again")

    async def _end_after_conflict(self, session_id: str) -> LogEnd:
        """Return the end of a log after a write that may have been stored; what fails now leaves that unknown."""
        try:
            return await self.end(session_id)
        except StoreFault as fault:
            raise StoreFault("unknown", fault.message) from fault

    def _check(self, session_id: str, end: LogEnd, claim: Claim | None, *, is_known: bool) -> None:
        """Raise Fenced if the leader says that somebody else owns the log, or that it was deleted."""
        if is_known:
            return
        check_append(end.claim(session_id), claim)
        if claim is not None and not end.seq:
            raise Fenced(no_claim(session_id))

    async def _store(self, session_id: str, end: LogEnd, head: MessageHead, body: bytes) -> int:
        messages = split_message(end.head, head, body, self._client.max_data)
        seq = end.seq
        for message in messages:
            seq = await self._client.publish(self._shards.log(session_id), message, expected=seq)
        return seq

    async def claim(self, session_id: str, node: str, epoch: int) -> Claim:
        """Claim a log after an epoch, with a message without entries."""
        deadline = asyncio.get_running_loop().time() + CLAIM_TIMEOUT
        while True:
            end = await self.end(session_id)
            check_epoch(end.claim(session_id), epoch)
            head = _bare(end.head, epoch=epoch + 1, node=node)
            try:
                seq = await self._client.publish(self._shards.log(session_id), encode_message(head), expected=end.seq)
            except Conflict:
                if asyncio.get_running_loop().time() > deadline:
                    message = f"session {session_id!r} is being written all the time; try again"
                    raise StoreFault("unknown", message) from None
                await asyncio.sleep(RETRY_DELAY)
                continue
            self._ends[session_id] = LogEnd(head, seq)
            return self._ends[session_id].claim(session_id)

    async def set_end(self, session_id: str, head: MessageHead, expected: int) -> None:
        """Write the end of a log without entries; raise Conflict if it is another one."""
        await self._client.publish(self._shards.log(session_id), encode_message(head), expected=expected)
        self.forget(session_id)

    async def release(self, claim: Claim) -> MessageHead | None:
        """Give a log up; return its end, or None if the claim is not the last."""
        end = await self.end(claim.session_id)
        if (end.head.epoch, end.head.node) != (claim.epoch, claim.node):
            return None
        try:
            await self.set_end(claim.session_id, _bare(end.head, node=""), end.seq)
        except Conflict:
            return None
        return end.head

    async def delete(self, session_id: str) -> None:
        """Delete a log."""
        stream = self._shards.stream(session_id)
        await self._client.purge(stream, self._shards.log(session_id))
        await self._client.purge(stream, self._shards.pages(session_id))
        self.forget(session_id)

    async def write_pages(self, session_id: str, lines: Sequence[bytes], *, first: int = 1, epoch: int = 0) -> None:
        """Write lines as pages."""
        limit = self._client.max_data // 2
        for page in split_blocks(first, epoch, lines, entries=MAX_PAGE_ENTRIES, size=limit):
            await self._write_page(session_id, page)

    async def _write_page(self, session_id: str, page: Block) -> None:
        head = to_head(_EMPTY, page, size=0, updated_at="", entries=page.last, write=self._new_write())
        head = msgspec.structs.replace(head, epoch=page.epoch)
        subject = self._shards.pages(session_id)
        for message in split_message(_EMPTY, head, page.body, self._client.max_data):
            await self._client.publish(subject, message)

    async def join_tail(self, session_id: str) -> int:
        """Write the newest entries again as pages, and drop the messages that these replace; return how many.

        The last one that was joined stays: its sequence is what the next append expects.
        """
        subject, stream = self._shards.log(session_id), self._shards.stream(session_id)
        messages = [message async for message in self._client.batch(stream, subject, 1)]
        blocks = to_blocks(decode_all(messages))
        if len(blocks) < 2:
            return 0
        for epoch in sorted({block.epoch for block in blocks}):
            same = [block for block in blocks if block.epoch == epoch]
            found = join_blocks(same, same[0].first, same[-1].last)
            if found.lost:
                return 0
            await self.write_pages(session_id, found.lines, first=same[0].first, epoch=epoch)
        await self._client.purge(stream, subject, before=messages[-1].seq)
        return len(blocks)

    # --- reading ------------------------------------------------------------------------------------------------

    async def read(self, session_id: str, end: LogEnd, first: int, last: int) -> LogRange:
        """Return everything from one number to another that any replica can read."""
        if first > last:
            return LogRange([], [])
        blocks: dict[tuple[int, int, int], Block] = {}
        found = LogRange([], [(first, last)])
        for attempt in range(MAX_READS + 1):
            for subject in (self._shards.pages(session_id), self._shards.log(session_id)):
                for block in to_blocks(decode_all(await self._messages(session_id, subject, attempt == MAX_READS))):
                    if block.lines() is not None:
                        blocks[block.first, block.count, block.sum] = block
            found = join_blocks(blocks.values(), first, last)
            if not found.lost:
                break
        return found

    async def _messages(self, session_id: str, subject: str, from_leader: bool) -> list[StreamMessage]:
        stream = self._shards.stream(session_id)
        if not from_leader:
            return [message async for message in self._client.batch(stream, subject, 1)]
        found: list[StreamMessage] = []
        seq = 1
        while (message := await self._client.next(stream, subject, seq)) is not None:
            found.append(message)
            seq = message.seq + 1
        return found


def _may_append(end: LogEnd, claim: Claim | None, session_id: str) -> bool:
    try:
        check_append(end.claim(session_id), claim)
    except Fenced:
        return False
    return True


def _bare(head: MessageHead, **changes: object) -> MessageHead:
    """Return a head without entries."""
    none = {"first": 0, "count": 0, "sum": 0, "part": 0, "parts": 0, "write": ""}
    return msgspec.structs.replace(head, **none, **changes)
