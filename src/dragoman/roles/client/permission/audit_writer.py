"""Writing the audit log from a loop: entries that come together are written together, in a thread.

Takes entries with secrets still in them and takes those out; gives back control when what was decided is on the disk.
Above is the guard; below is the audit log, which seals.
"""

from __future__ import annotations

import asyncio
import shlex
from datetime import UTC, datetime
from typing import Any

import msgspec

from dragoman.policy.decision import Decision, Source
from dragoman.policy.grants import Grant
from dragoman.policy.question import Question
from dragoman.policy.redaction import Redaction
from dragoman.roles.client.permission.prompt import Asked, Choice, elsewhere, thing
from dragoman.store.audit import Audit, Damaged, Entry, What

# What the answer to a use tells about it.
_TOLD = ("exit_code", "signal", "terminal_id")


class _Batch:
    """Entries that are written together."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.durable = False
        self.is_taken = False
        self.fault: OSError | None = None


class Journal:
    """The audit log as tasks write it; without a log, nothing is kept."""

    def __init__(self, audit: Audit | None, redaction: Redaction) -> None:
        self._audit = audit
        self._redaction = redaction
        self._open = _Batch()
        self._turn = asyncio.Lock()
        self._writing: set[asyncio.Future[Any]] = set()

    async def write(self, *entries: Entry, durable: bool = True) -> None:
        """Keep entries, in order; those of several tasks share one write. OSError when they cannot be kept."""
        if self._audit is None or not entries:
            return
        batch = self._open
        batch.entries += map(self._clean, entries)
        batch.durable = batch.durable or durable
        async with self._turn:
            if not batch.is_taken:  # else whoever had the turn before wrote these too
                batch.is_taken = True
                self._open = _Batch()
                await self._keep(self._audit, batch)
        if batch.fault is not None:
            raise batch.fault

    async def flush(self) -> None:
        """Wait for all that is being written, and keep what tasks left behind that were ended before their turn."""
        if self._audit is not None and self._open.entries:
            async with self._turn:
                batch, self._open = self._open, _Batch()
                batch.is_taken = True
                await self._keep(self._audit, batch)
        if self._writing:
            await asyncio.wait(self._writing)

    async def _keep(self, audit: Audit, batch: _Batch) -> None:
        # Shielded: a task that is cancelled meanwhile has still decided.
        writing = asyncio.ensure_future(asyncio.to_thread(audit.append, batch.entries, durable=batch.durable))
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)
        try:
            await asyncio.shield(writing)
        except (OSError, Damaged) as error:
            batch.fault = OSError(str(error))

    def _clean(self, entry: Entry) -> Entry:
        return msgspec.convert(self._redaction.json(msgspec.to_builtins(entry)), Entry)


def now() -> str:
    """The time of an entry."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def entries(what: str, asked: Asked, decision: Decision, choice: Choice | None) -> list[Entry]:
    """One entry for each thing that was asked for."""
    detail: dict[str, Any] = {"source": decision.source}
    if choice is not None:
        detail["scope"] = choice.scope
    if asked.interactive:
        detail["interactive"] = True
    if asked.reason:
        detail["said"] = asked.reason
    return [
        Entry(
            who=each.agent,
            what=what,
            time=now(),
            operation=each.operation,
            resource=thing(each),
            decision=decision.verdict.word if decision.source != Source.CANCELLED else "cancelled",
            reason=decision.reason,
            session=each.session,
            workspace=each.workspace,
            mode=each.mode,
            detail=detail | _circumstances(each),
        )
        for each in asked.questions
    ]


def _circumstances(question: Question) -> dict[str, Any]:
    """What makes a command another one: its variables, and the folder it starts in."""
    env: dict[str, Any] = {"env": list(question.env)} if question.env else {}
    return env | ({"cwd": question.cwd} if elsewhere(question) else {})


def of_grant(grant: Grant, what: str = What.GRANTED) -> Entry:
    """The user's answer is remembered, or taken back."""
    return Entry(
        who="user",
        what=what,
        time=now(),
        operation=grant.operation,
        resource=grant.resource or grant.tool or grant.title,
        decision=grant.verdict,
        session=grant.session,
        workspace=grant.workspace,
        detail={"grant": grant.id, "scope": grant.scope, "agent": grant.agent}
        | ({"cwd": grant.cwd} if grant.cwd else {}),
    )


def of_use(who: str, method: str, params: Any, error: BaseException | None, result: Any) -> list[Entry]:
    """Something lent was used, or that failed: one entry for each file, command or terminal."""
    told = {name: getattr(result, name, None) for name in _TOLD}
    detail: dict[str, Any] = {name: value for name, value in told.items() if isinstance(value, str | int)}
    if error is not None:
        detail = {"error": getattr(error, "kind", type(error).__name__), "message": str(error)}
    return [
        Entry(
            who=who,
            what=What.DONE,
            time=now(),
            operation=method,
            resource=used,
            decision="failed" if error is not None else "done",
            session=getattr(params, "session_id", None) or "",
            detail=detail,
        )
        for used in _used(params)
    ]


def _used(params: Any) -> list[str]:
    """What a call is about: the command line, the files, the terminal or the watch."""
    if command := getattr(params, "command", ""):
        args = getattr(params, "args", None) or ()
        return [shlex.join([command, *args]) if args else command]
    if files := getattr(params, "files", None):
        return [str(file.path) for file in files]
    named = (getattr(params, name, "") for name in ("path", "terminal_id", "watch_id"))
    return [next((str(value) for value in named if value), "")]
