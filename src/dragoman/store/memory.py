"""A store that lasts as long as the process: for tests, and for sessions that should not be saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dragoman.schema.base import encode
from dragoman.store import claims, summary
from dragoman.store.contract import (
    ALL_SESSIONS,
    LOCAL_FEATURES,
    Claim,
    Draft,
    Entry,
    Hit,
    LogReport,
    Retention,
    SavedState,
    Selection,
    Summary,
    decode_entry,
    number_draft,
)
from dragoman.store.formats import lower_text, newest_format
from dragoman.store.search import matches, parse_query, snippet, split_passages


class _Log(msgspec.Struct):
    """One session: its summary, its lines, and the last state that was kept."""

    log_summary: summary.LogSummary
    lines: list[bytes]
    state: SavedState | None = None


class MemoryStore:
    """Logs in a dict, the last changed at the end (contract: `Store`). They are encoded, so nobody can change them."""

    features = LOCAL_FEATURES

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}
        self._expired: set[str] = set()
        self._credentials: dict[str, dict[str, Any]] = {}
        self._closed = False

    async def append(self, session_id: str, drafts: Sequence[Draft], *, claim: Claim | None = None) -> list[Entry]:
        self._check_usable(session_id)
        # A body that is not JSON fails before anything is stored.
        texts = [lower_text(encode(draft), newest_format()) for draft in drafts]
        claims.check_append(await self.owner(session_id), claim)
        if not texts:
            return []
        log = self._logs.pop(session_id, None) or _Log(summary.LogSummary(session_id=session_id), [])
        self._logs[session_id] = log
        return [_append_entry(log, draft, text) for draft, text in zip(drafts, texts, strict=True)]

    async def owner(self, session_id: str) -> Claim:
        self._check_usable(session_id)
        log = self._logs.get(session_id)
        return claims.no_claim(session_id) if log is None else log.log_summary.claim

    async def claim(self, session_id: str, node: str, *, epoch: int) -> Claim:
        claims.check_epoch(await self.owner(session_id), epoch)
        log = self._logs.setdefault(session_id, _Log(summary.LogSummary(session_id=session_id), []))
        log.log_summary.epoch, log.log_summary.node = epoch + 1, node
        return log.log_summary.claim

    async def settle(self, claim: Claim) -> Claim:
        return await claims.settle(self, claim)

    async def release(self, claim: Claim) -> None:
        log = self._logs.get(claim.session_id)
        if log is None or (log.log_summary.epoch, log.log_summary.node) != (claim.epoch, claim.node):
            return
        log.log_summary.node = ""
        if log.log_summary.is_blank:
            del self._logs[claim.session_id]

    async def save_state(self, session_id: str, seq: int, state: bytes) -> None:
        self._find_log(session_id).state = SavedState(seq, state)

    async def saved_state(self, session_id: str) -> SavedState | None:
        log = self._find_log(session_id)
        return log.state if log.state is not None and log.state.seq <= len(log.lines) else None

    async def read(
        self, session_id: str, after: int = 0, limit: int | None = None, *, intact: bool = False
    ) -> list[Entry]:
        return [decode_entry(line) for line in await self.lines(session_id, after, limit, intact=intact)]

    async def lines(
        self, session_id: str, after: int = 0, limit: int | None = None, *, intact: bool = False
    ) -> list[bytes]:
        start = max(after, 0)
        return self._find_log(session_id).lines[start : None if limit is None else start + max(limit, 0)]

    async def sessions(self, wanted: Selection = ALL_SESSIONS) -> list[Summary]:
        self._check_usable()
        known = [log.log_summary.summary for log in self._logs.values() if not log.log_summary.is_blank]
        return summary.select_summaries(known, wanted)

    async def find(self, name: str) -> Summary:
        self._check_usable(name)
        return summary.find_summary(name, await self.sessions())

    async def rename(self, session_id: str, name: str | None) -> Summary:
        head = self._find_log(session_id).log_summary
        if name is not None:
            summary.check_new_name(name)
            for other, log in self._logs.items():
                if name in (log.log_summary.name, other) and other != session_id:
                    raise summary.taken_error(name, other)
        head.name = name
        return head.summary

    async def fork(self, session_id: str, new_id: str, upto: int | None = None) -> Summary:
        origin = self._find_log(session_id)
        if new_id in self._logs or new_id in self._expired:
            raise summary.taken_error(new_id, new_id)
        lines = origin.lines[: upto if upto is None else max(upto, 0)]
        head = summary.fold_summary(new_id, lines)
        head.forked_from, head.imported = session_id, min(origin.log_summary.imported, head.entries)
        self._logs[new_id] = _Log(head, lines)
        if session_id in self._credentials:
            self._credentials[new_id] = dict(self._credentials[session_id])
        return head.summary

    async def begin_import(self, session_id: str, entries: int, *, forked_from: str | None = None) -> Summary:
        self._check_usable(session_id)
        if session_id in self._logs:
            raise summary.taken_error(session_id, session_id)
        head = summary.LogSummary(session_id=session_id, imported=entries, forked_from=forked_from)
        log = self._logs[session_id] = _Log(head, [])
        return log.log_summary.summary

    async def search(self, query: str, *, limit: int = 20, session_id: str | None = None) -> list[Hit]:
        self._check_usable()
        wanted = parse_query(query)
        hits = []
        for id, log in reversed(self._logs.items()):
            if session_id is None or id == session_id:
                for passage in split_passages(log.lines):
                    if matches(wanted, passage.text):
                        shown, marks = snippet(wanted, passage.text)
                        hits.append(
                            Hit(session_id=id, seq=passage.first, role=passage.role, snippet=shown, marks=marks)
                        )
        return hits[:limit]

    async def delete(self, session_id: str) -> bool:
        self._check_usable()
        self._credentials.pop(session_id, None)
        self._expired.discard(session_id)
        return self._logs.pop(session_id, None) is not None

    async def expire(self, retention: Retention, now: str) -> list[str]:
        expired = summary.expired_ids(retention, await self.sessions(), now)
        for session_id in expired:
            await self.delete(session_id)
        self._expired.update(expired)
        return expired

    async def verify(self, session_id: str) -> LogReport:
        """Report that everything is intact: memory is never damaged."""
        lines = self._find_log(session_id).lines
        return LogReport(session_id=session_id, kept=[(1, len(lines))] if lines else [], lost=[])

    repair = verify

    async def keep_credentials(self, session_id: str, credentials: Mapping[str, Any]) -> None:
        self._check_usable()
        self._credentials[session_id] = msgspec.json.decode(encode(dict(credentials)))

    async def credentials(self, session_id: str) -> dict[str, Any]:
        self._check_usable()
        return dict(self._credentials.get(session_id, {}))

    async def probe(self) -> None:
        """Raise invalid_state after `close`; memory has no other failure."""
        self._check_usable()

    async def close(self) -> None:
        """Drop everything."""
        self._closed = True
        self._logs.clear()
        self._credentials.clear()

    def _find_log(self, session_id: str) -> _Log:
        self._check_usable(session_id)
        log = self._logs.get(session_id)
        if log is None or log.log_summary.is_blank:
            raise summary.missing_error(session_id)
        return log

    def _check_usable(self, session_id: str = "") -> None:
        if self._closed:
            raise summary.closed_error()
        if session_id in self._expired:
            raise summary.expired_error(session_id)


def _append_entry(log: _Log, draft: Draft, text: bytes) -> Entry:
    seq = len(log.lines) + 1
    line = b'{"seq":%d,%s' % (seq, text[1:])
    log.lines.append(line)
    log.log_summary.add_entry(draft.kind, draft.time, line)
    return number_draft(draft, seq)
