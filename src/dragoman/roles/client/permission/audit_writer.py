"""AuditWriter: write the audit log from asyncio tasks, batched, in a thread, with secrets redacted."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from dragoman.engine.incoming import DoneCallback, Handler, Incoming
from dragoman.errors import ProtocolError
from dragoman.ids import now
from dragoman.policy.decision import Decision, DecisionSource
from dragoman.policy.grants import Grant
from dragoman.policy.question import Question
from dragoman.policy.redaction import Redactor
from dragoman.roles.client.permission.questions import (
    PermissionChoice,
    PermissionPrompt,
    describe_question,
    has_other_cwd,
)
from dragoman.store.audit import AuditDamaged, AuditEntry, AuditEvent, AuditLog

# Members of a result that are logged.
_RESULT_FIELDS = ("exit_code", "signal", "terminal_id")

# Polled many times a second, and without information that the end of the command does not have.
NOT_AUDITED = frozenset({"terminal/output"})


class _AuditBatch:
    """Entries that are written together."""

    def __init__(self) -> None:
        self.entries: list[AuditEntry] = []
        self.durable = False
        self.is_started = False
        self.fault: OSError | None = None


class AuditWriter:
    """The audit log for tasks; without a log, nothing is written."""

    def __init__(
        self, audit: AuditLog | None, redaction: Redactor, log_id_of: Callable[[str], str] = lambda session: session
    ) -> None:
        """`log_id_of` returns the id under which users know a session, from the id that its agent gave it."""
        self._audit = audit
        self._log_id_of = log_id_of
        self._redaction = redaction
        self._batch = _AuditBatch()
        self._write_lock = asyncio.Lock()
        self._writing: set[asyncio.Future[Any]] = set()

    async def write(self, *entries: AuditEntry, durable: bool = True) -> None:
        """Write entries, in order; those of several tasks share one write. Raises OSError if that fails."""
        if self._audit is None or not entries:
            return
        batch = self._batch
        batch.entries += [
            msgspec.convert(self._redaction.redact_json(msgspec.to_builtins(self._with_log_id(entry))), AuditEntry)
            for entry in entries
        ]
        batch.durable = batch.durable or durable
        async with self._write_lock:
            if not batch.is_started:  # otherwise the task that had the lock before wrote these too
                batch.is_started = True
                self._batch = _AuditBatch()
                await self._append(self._audit, batch)
        if batch.fault is not None:
            raise batch.fault

    def _with_log_id(self, entry: AuditEntry) -> AuditEntry:
        log_id = self._log_id_of(entry.session) if entry.session else ""
        if log_id == entry.session:
            return entry
        return msgspec.structs.replace(entry, session=log_id, detail={**entry.detail, "agentSession": entry.session})

    async def flush(self) -> None:
        """Wait for running writes, and write the entries of tasks that were cancelled before their turn."""
        if self._audit is not None and self._batch.entries:
            async with self._write_lock:
                batch, self._batch = self._batch, _AuditBatch()
                batch.is_started = True
                await self._append(self._audit, batch)
        if self._writing:
            await asyncio.wait(self._writing)

    async def _append(self, audit: AuditLog, batch: _AuditBatch) -> None:
        try:
            # What is not forced to the disk takes less time than a thread, unless another process is writing.
            if not batch.durable:
                audit.append(batch.entries, durable=False, waits=False)
                return
        except BlockingIOError:
            pass
        except (OSError, AuditDamaged) as error:
            batch.fault = OSError(str(error))
            return
        # Shielded: a cancelled task has still decided.
        writing = asyncio.ensure_future(asyncio.to_thread(audit.append, batch.entries, durable=batch.durable))
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)
        try:
            await asyncio.shield(writing)
        except (OSError, AuditDamaged) as error:
            batch.fault = OSError(str(error))


def decision_entries(
    what: str, prompt: PermissionPrompt, decision: Decision, choice: PermissionChoice | None
) -> list[AuditEntry]:
    """Return one entry for each question."""
    detail: dict[str, Any] = {"source": decision.source}
    if choice is not None:
        detail["scope"] = choice.scope
        if choice.user:
            detail["user"] = choice.user
    if prompt.interactive:
        detail["interactive"] = True
    if prompt.reason:
        detail["said"] = prompt.reason
    return [
        AuditEntry(
            who=each.agent,
            what=what,
            time=now(),
            operation=each.operation,
            resource=describe_question(each),
            decision=decision.verdict.label if decision.source != DecisionSource.CANCELLED else "cancelled",
            reason=decision.reason,
            session=each.session,
            workspace=each.workspace,
            mode=each.mode,
            detail=detail | _command_details(each),
        )
        for each in prompt.questions
    ]


def _command_details(question: Question) -> dict[str, Any]:
    """Return the variables and the folder of a command, which can change its effect."""
    env: dict[str, Any] = {"env": list(question.env)} if question.env else {}
    return env | ({"cwd": question.cwd} if has_other_cwd(question) else {})


def grant_entry(grant: Grant, what: str = AuditEvent.GRANTED) -> AuditEntry:
    """Return the entry for a grant that was added or revoked."""
    return AuditEntry(
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


def use_entries(agent: str, method: str, params: Any, error: BaseException | None, result: Any) -> list[AuditEntry]:
    """Return the entries for a use of the workspace: one for each file, command or terminal."""
    members = {name: getattr(result, name, None) for name in _RESULT_FIELDS}
    detail: dict[str, Any] = {name: value for name, value in members.items() if isinstance(value, str | int)}
    if error is not None:
        detail = {"error": getattr(error, "kind", type(error).__name__), "message": str(error)}
    return [
        AuditEntry(
            who=agent,
            what=AuditEvent.DONE,
            time=now(),
            operation=method,
            resource=resource,
            decision="failed" if error is not None else "done",
            session=getattr(params, "session_id", None) or "",
            detail=detail,
        )
        for resource in _used_resources(params)
    ]


def with_audit(method: str, handler: Handler, audit_use: Callable[..., Awaitable[None]]) -> Handler:
    """Wrap a handler of the workspace: audit each use before the agent gets the result.

    `audit_use` takes the method, the params, the error and the result.
    """
    if method in NOT_AUDITED:
        return handler

    async def audited(incoming: Incoming, done: DoneCallback) -> None:
        answers: list[tuple[Any, ProtocolError | None]] = []
        try:
            work = handler(incoming, lambda result, error: answers.append((result, error)))
            if work is not None:
                await work
        except ProtocolError as refusal:
            await audit_use(method, incoming.params, refusal)
            raise
        for result, error in answers:
            await audit_use(method, incoming.params, error, result)
            done(result, error)

    return audited


def _used_resources(params: Any) -> list[str]:
    if command := getattr(params, "command", ""):
        args = getattr(params, "args", None) or ()
        return [shlex.join([command, *args]) if args else command]
    if files := getattr(params, "files", None):
        return [str(file.path) for file in files]
    names = (getattr(params, name, "") for name in ("path", "terminal_id", "watch_id"))
    return [next((str(value) for value in names if value), "")]
