"""The NATS store: the contract, implemented by logs in streams and an index of records. It cannot search."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Any

import msgspec

from dragoman.errors import Kind, ProtocolError, StoreFault
from dragoman.schema.base import encode
from dragoman.store import claims
from dragoman.store.blocks import MAX_TAIL, build_report, corrupted_error, draft_texts, fill_gaps
from dragoman.store.contract import (
    ALL_SESSIONS,
    Claim,
    Draft,
    Entry,
    EntryKind,
    Feature,
    Hit,
    LogReport,
    Retention,
    SavedState,
    Selection,
    Summary,
    decode_entry,
    number_draft,
)
from dragoman.store.formats import FIRST_FORMAT
from dragoman.store.nats.client import Conflict, NatsClient
from dragoman.store.nats.index import (
    Index,
    SessionHead,
    credentials_subject,
    name_subject,
    state_subject,
)
from dragoman.store.nats.logs import LogEnd, Logs
from dragoman.store.nats.messages import MessageHead, Shards
from dragoman.store.sealing import Sealer
from dragoman.store.summary import (
    SHOWN_IDS,
    LogSummary,
    ambiguous_error,
    check_new_name,
    expired_error,
    expired_ids,
    fold_summary,
    missing_error,
    select_summaries,
    taken_error,
)

# Sessions that are looked up at a time.
AT_ONCE = 64

_HEAD_MEMBERS = ("turns", "created_at", "title", "prompted", "agent", "agent_session", "cwd", "archived")


# How often a log that the index has is looked for, and how long in between. Seconds; an election takes a few.
STALE_TRIES, STALE_DELAY = 10, 0.2


class NatsStore:
    """Logs in JetStream (contract: `Store`). `urls.open_engine` opens it."""

    features = frozenset({Feature.SHARED})

    def __init__(self, client: NatsClient, shards: Shards, sealer: Sealer) -> None:
        self._client = client
        self._sealer = sealer
        self._logs = Logs(client, shards)
        self._index = Index(client)
        self.entry_format = FIRST_FORMAT  # of what is appended; all nodes of the fleet read it
        self._tails: dict[str, int] = {}  # messages since the last page
        self._tasks: set[asyncio.Task[None]] = set()

    # --- the log ----------------------------------------------------------------------------------------------

    async def append(self, session_id: str, drafts: Sequence[Draft], *, claim: Claim | None = None) -> list[Entry]:
        self._client.check_open()
        texts = draft_texts(drafts, self.entry_format)
        if not texts:
            return []
        try:
            lines, end = await self._logs.append(session_id, texts, drafts[-1].time, claim)
        except claims.Fenced:
            await self._refuse_expired(session_id)
            raise
        first = end.head.entries - len(lines) + 1
        if first == 1:
            await self._refuse_revival(session_id)
        await self._note_entries(session_id, drafts, lines, first)
        self._note_tail(session_id, drafts[-1].kind)
        return [number_draft(draft, seq) for seq, draft in enumerate(drafts, first)]

    async def _note_entries(self, session_id: str, drafts: Sequence[Draft], lines: list[bytes], first: int) -> None:
        """Bring the summary up to date, if these entries change more than its counts."""
        probe = LogSummary(session_id=session_id, created_at="" if first == 1 else "known", prompted="known")
        for draft, line in zip(drafts, lines, strict=True):
            probe.add_entry(draft.kind, draft.time, line)
        if not probe.is_changed:
            return

        def change(head: SessionHead) -> None:
            log_summary = LogSummary(session_id=session_id, **{name: getattr(head, name) for name in _HEAD_MEMBERS})
            for draft, line in zip(drafts, lines, strict=True):
                log_summary.add_entry(draft.kind, draft.time, line)
            for name in _HEAD_MEMBERS:
                setattr(head, name, getattr(log_summary, name))
            head.witness = max(head.witness, first + len(lines) - 1)

        await self._index.change_head(session_id, change)

    async def _refuse_expired(self, session_id: str) -> None:
        head = await self._index.head(session_id)
        if head is not None and head.expired:
            raise expired_error(session_id)

    async def _refuse_revival(self, session_id: str) -> None:
        """Remove what was appended to a session that has expired."""
        head = await self._index.head(session_id)
        if head is not None and head.expired:
            await self._logs.delete(session_id)
            raise expired_error(session_id)

    async def read(
        self, session_id: str, after: int = 0, limit: int | None = None, *, intact: bool = False
    ) -> list[Entry]:
        return [decode_entry(line) for line in await self.lines(session_id, after, limit, intact=intact)]

    async def lines(
        self, session_id: str, after: int = 0, limit: int | None = None, *, intact: bool = False
    ) -> list[bytes]:
        end, head = await self._find(session_id)
        first, entries = max(after, 0) + 1, max(end.head.entries, head.witness)
        last = entries if limit is None else min(entries, first - 1 + max(limit, 0))
        found = await self._logs.read(session_id, end, first, last)
        if found.lost and not intact:
            raise corrupted_error(session_id, found.lost)
        return found.lines

    async def _find(self, session_id: str, *, blank: bool = False) -> tuple[LogEnd, SessionHead]:
        """Return the end and the summary of a session; raise session_not_found or session_expired."""
        self._client.check_open()
        for _ in range(STALE_TRIES):
            end, head = await asyncio.gather(self._logs.end(session_id), self._index.head(session_id))
            if end.seq or head is None or head.expired or not head.witness:
                break
            await asyncio.sleep(STALE_DELAY)  # the index has it: a leader that was just elected answers from the past
        if head is not None and head.expired:
            raise expired_error(session_id)
        head = head or SessionHead(session_id)
        if not end.seq or (not blank and _is_blank(end.head, head)):
            raise missing_error(session_id)
        return end, head

    # --- claims and states ------------------------------------------------------------------------------------

    async def owner(self, session_id: str) -> Claim:
        try:
            return (await self._find(session_id, blank=True))[0].claim(session_id)
        except ProtocolError as error:
            if error.kind != Kind.SESSION_NOT_FOUND:
                raise
            return claims.no_claim(session_id)

    async def claim(self, session_id: str, node: str, *, epoch: int) -> Claim:
        head = await self._index.head(session_id)
        if head is not None and head.expired:
            raise expired_error(session_id)
        claim = await self._logs.claim(session_id, node, epoch)
        if head is not None and claim.seq < head.witness:  # nobody may write numbers again that were told to others
            raise corrupted_error(session_id, [(claim.seq + 1, head.witness)])
        return claim

    async def settle(self, claim: Claim) -> Claim:
        return await claims.settle(self, claim)

    async def release(self, claim: Claim) -> None:
        released = await self._logs.release(claim)
        if released is not None and _is_blank(released, await self._index.head(claim.session_id)):
            await self._logs.delete(claim.session_id)

    async def save_state(self, session_id: str, seq: int, state: bytes) -> None:
        await self._find(session_id)
        await self._index.put(state_subject(session_id), b"%d\n%b" % (seq, state))

    async def saved_state(self, session_id: str) -> SavedState | None:
        end, _ = await self._find(session_id)
        message = await self._index.get(state_subject(session_id))
        if message is None:
            return None
        seq, _, state = message.data.partition(b"\n")
        return SavedState(int(seq), state) if 0 < int(seq) <= end.head.entries else None

    # --- the list ---------------------------------------------------------------------------------------------

    async def sessions(self, wanted: Selection = ALL_SESSIONS) -> list[Summary]:
        """Return the sessions that fit. With `ids` only these are read, else all."""
        self._client.check_open()
        known = [summary async for summary in self._summaries(wanted.ids)]
        return select_summaries(known, wanted)

    async def _summaries(self, ids: Collection[str] | None) -> AsyncIterator[Summary]:
        names = [head.session_id async for head in self._index.heads()] if ids is None else list(ids)
        for start in range(0, len(names), AT_ONCE):
            for found in await asyncio.gather(*(self._summary(id) for id in names[start : start + AT_ONCE])):
                if found is not None:
                    yield found

    async def _summary(self, session_id: str) -> Summary | None:
        try:
            return _to_summary(*await self._find(session_id))
        except ProtocolError as error:
            if error.kind not in (Kind.SESSION_NOT_FOUND, Kind.SESSION_EXPIRED):
                raise
            return None

    async def find(self, name: str) -> Summary:
        try:
            return _to_summary(*await self._find(name))
        except ProtocolError as error:
            if error.kind != Kind.SESSION_NOT_FOUND:
                raise
        named = await self._find_by_name(name)
        if named is not None:
            return named
        ids = [head.session_id async for head in self._index.heads(name) if not head.expired] if name else []
        found = [summary for id in ids[: SHOWN_IDS + 1] if (summary := await self._summary(id)) is not None]
        if len(found) > 1:
            raise ambiguous_error(name, [each.session_id for each in found])
        if not found:
            raise missing_error(name)
        return found[0]

    async def _find_by_name(self, name: str) -> Summary | None:
        """Return the session with a name. A record that its session does not know is left from a change that ended."""
        message = await self._index.get(name_subject(name))
        summary = None if message is None else await self._summary(message.data.decode())
        return summary if summary is not None and summary.name == name else None

    async def rename(self, session_id: str, name: str | None) -> Summary:
        wanted = None if name is None else check_new_name(name)
        end, head = await self._find(session_id)
        old = head.name
        if wanted is not None and wanted != old:
            await self._take_name(wanted, session_id)
        head = await self._index.change_head(session_id, lambda head: setattr(head, "name", wanted))
        if old is not None and old != wanted:
            await self._index.delete(name_subject(old))
        return _to_summary(end, head)

    async def _take_name(self, name: str, session_id: str) -> None:
        by = await self._summary(name)
        if by is not None and by.session_id != session_id:
            raise taken_error(name, by.session_id)
        message = await self._index.get(name_subject(name))
        holder = await self._find_by_name(name)
        if holder is not None and holder.session_id != session_id:
            raise taken_error(name, holder.session_id)
        try:
            expected = 0 if message is None else message.seq
            await self._index.put(name_subject(name), session_id.encode(), expected=expected)
        except Conflict:
            raise taken_error(name, name) from None

    async def fork(self, session_id: str, new_id: str, upto: int | None = None) -> Summary:
        end, origin = await self._find(session_id)
        entries = end.head.entries if upto is None else min(max(upto, 0), end.head.entries)
        found = await self._logs.read(session_id, end, 1, entries)
        if found.lost:
            raise corrupted_error(session_id, found.lost)
        expected = await self._free_end(new_id)
        await self._logs.write_pages(new_id, found.lines)
        imported = min(origin.imported, entries)
        await self._save_log(
            new_id, fold_summary(new_id, found.lines), expected, forked_from=session_id, imported=imported
        )
        if credentials := await self.credentials(session_id):
            await self.keep_credentials(new_id, credentials)
        return _to_summary(*await self._find(new_id))

    async def begin_import(self, session_id: str, entries: int, *, forked_from: str | None = None) -> Summary:
        await self._refuse_expired(session_id)
        expected = await self._free_end(session_id)
        empty = LogSummary(session_id=session_id)
        await self._save_log(session_id, empty, expected, forked_from=forked_from, imported=entries)
        return _to_summary(*await self._find(session_id, blank=True))

    async def _free_end(self, session_id: str) -> int:
        """Return what the first message of a new log expects; raise invalid_params if the id is in use.

        An empty log that nobody claimed is left from a writer that was killed.
        """
        end = await self._logs.end(session_id)
        if end.seq and (end.head.epoch or not _is_blank(end.head, await self._index.head(session_id))):
            raise taken_error(session_id, session_id)
        return end.seq

    async def _save_log(self, session_id: str, folded: LogSummary, expected: int, **members: Any) -> None:
        """Write the summary and the end of a log whose pages are there."""

        def change(head: SessionHead) -> None:
            for name in _HEAD_MEMBERS:
                setattr(head, name, getattr(folded, name))
            for name, value in members.items():
                setattr(head, name, value)

        await self._index.change_head(session_id, change)
        end = MessageHead(
            epoch=folded.epoch,
            node=folded.node,
            entries=folded.entries,
            size=folded.size,
            updated_at=folded.updated_at,
        )
        try:
            await self._logs.set_end(session_id, end, expected)
        except Conflict:
            raise taken_error(session_id, session_id) from None

    async def delete(self, session_id: str) -> bool:
        self._client.check_open()
        end, head = await asyncio.gather(self._logs.end(session_id), self._index.head(session_id))
        await self._logs.delete(session_id)
        await self._index.delete_session(session_id)
        if head is not None and head.name is not None:
            await self._index.delete(name_subject(head.name))
        is_expired = head is not None and head.expired
        return bool(end.seq) and not is_expired and not _is_blank(end.head, head)

    async def expire(self, retention: Retention, now: str) -> list[str]:
        expired = expired_ids(retention, await self.sessions(), now)
        for session_id in expired:
            await self.delete(session_id)
            await self._index.change_head(session_id, lambda head: setattr(head, "expired", True))
        return expired

    # --- searching and damage ---------------------------------------------------------------------------------

    async def search(self, query: str, *, limit: int = 20, session_id: str | None = None) -> list[Hit]:
        message = "sessions in NATS cannot be searched; copy them with `dragoman store backup`, and search the copy"
        raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, message)

    async def verify(self, session_id: str) -> LogReport:
        end, head = await self._find(session_id)
        entries = max(end.head.entries, head.witness)
        found = await self._logs.read(session_id, end, 1, entries)
        return build_report(session_id, entries, found.lost)

    async def repair(self, session_id: str) -> LogReport:
        end, head = await self._find(session_id)
        entries = max(end.head.entries, head.witness)
        found = await self._logs.read(session_id, end, 1, entries)
        if found.lost:
            lines = fill_gaps(found.lines, found.lost)
            folded = fold_summary(session_id, lines)
            folded.epoch, folded.node = end.head.epoch, end.head.node
            await self._logs.write_pages(session_id, lines, epoch=end.head.epoch)
            await self._save_log(session_id, folded, end.seq)
            await self._index.delete(state_subject(session_id))
        return build_report(session_id, entries, found.lost)

    # --- credentials ------------------------------------------------------------------------------------------

    async def keep_credentials(self, session_id: str, credentials: Mapping[str, Any]) -> None:
        self._client.check_open()
        value = msgspec.json.decode(encode(dict(credentials)))
        subject = credentials_subject(session_id)
        if not value:
            await self._index.delete(subject)
        else:
            await self._index.put(subject, self._sealer.seal(value, session_id))

    async def credentials(self, session_id: str) -> dict[str, Any]:
        message = await self._index.get(credentials_subject(session_id))
        return {} if message is None else self._sealer.open(message.data, session_id)

    # --- the end ----------------------------------------------------------------------------------------------

    async def probe(self) -> None:
        await self._index.put("dgm.meta.probe", b"")

    async def close(self) -> None:
        """Disconnect. Pages are left for the next time."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.close()

    def _note_tail(self, session_id: str, kind: str) -> None:
        """Join the newest entries at the end of a turn, or when there are many messages."""
        self._tails[session_id] = count = self._tails.get(session_id, 0) + 1
        if kind != EntryKind.TURN_ENDED and count < MAX_TAIL:
            return
        self._tails.pop(session_id)
        task = asyncio.get_running_loop().create_task(self._join_tail(session_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _join_tail(self, session_id: str) -> None:
        try:
            entries = (await self._logs.end(session_id)).head.entries
            await self._index.change_head(session_id, lambda head: setattr(head, "witness", entries))
            await self._logs.join_tail(session_id)
        except (StoreFault, ProtocolError):
            pass  # it can be done at the end of the next turn


def _is_blank(end: MessageHead, head: SessionHead | None) -> bool:
    """Return whether a log only has a claim."""
    return not end.entries and (head is None or (not head.imported and head.forked_from is None))


def _to_summary(end: LogEnd, head: SessionHead) -> Summary:
    members: dict[str, Any] = {
        name: getattr(head, name) for name in (*_HEAD_MEMBERS, "name", "forked_from", "imported")
    }
    counts: dict[str, Any] = {"entries": end.head.entries, "size": end.head.size, "updated_at": end.head.updated_at}
    return LogSummary(session_id=head.session_id, **members, **counts).summary
