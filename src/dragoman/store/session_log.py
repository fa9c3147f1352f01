"""Write the log of a session in order, in batches, and run callbacks only after their entry is stored.

If the store fails, the waiting entries get their failure callback and nothing is delivered.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from dragoman.errors import Kind, ProtocolError, StoreFault
from dragoman.ids import now
from dragoman.schema.base import to_json
from dragoman.schema.mcp import McpServer, NameValue
from dragoman.store.contract import Claim, Draft, Entry, EntryKind, Store, number_draft

# Entries that may wait for the store before producers must wait too: a few commits' worth.
MAX_PENDING = 2048

# How long to ask a store that did not answer what it has, three times what the election of a leader takes, and how
# often. Seconds.
SETTLE_TIMEOUT = 30.0
SETTLE_INTERVAL = 0.2

# A waiting producer continues below this many waiting entries.
RESUME_BELOW = MAX_PENDING // 2


class PendingEntry(NamedTuple):
    """An event that is not stored yet."""

    draft: Draft | None  # None: not logged, only runs after what is
    then: Callable[[], Any] | None
    on_failure: Callable[[ProtocolError], Any] | None


class SessionLog:
    """Writes the log of one session."""

    def __init__(
        self,
        store: Store,
        session_id: str | Callable[[], Awaitable[str]],
        *,
        on_failure: Callable[[ProtocolError], None] = lambda _: None,
        on_entries: Callable[[str, list[Entry]], None] | None = None,
    ) -> None:
        """`session_id` is the id in the store, or finds it; `on_failure` is called if the store fails.

        `on_entries` gets the id and the entries of each commit.
        """
        self.store = store
        self.session_id = session_id if isinstance(session_id, str) else ""
        self.turn: str | None = None
        self.claim: Claim | None = None  # needed in a fleet: no other node may write this log
        self._is_unsettled = False  # whether the log may have entries that were said to have failed
        self.fault: ProtocolError | None = None
        self._find_session_id = None if isinstance(session_id, str) else session_id
        self.batch_limit: int | None = None  # entries per batch, for a session with many listeners
        self.on_failure = on_failure
        self.on_fenced: Callable[[ProtocolError], None] = lambda _: None  # called if another node owns the log now
        self._on_entries = on_entries
        self._pending: list[PendingEntry] = []
        self._write_task: asyncio.Task[None] | None = None
        self._space: asyncio.Event | None = None

    def append(
        self,
        kind: str,
        body: Any,
        *,
        actor: str = "agent",
        then: Callable[[], Any] | None = None,
        on_failure: Callable[[ProtocolError], Any] | None = None,
    ) -> None:
        """Log an event, then call `then`; if it cannot be stored, call `on_failure`."""
        if self.fault is not None:
            if on_failure is not None:
                on_failure(self.fault)
            return
        draft = Draft(kind=kind, actor=actor, time=now(), body=body, turn=self.turn)
        self._pending.append(PendingEntry(draft, then, on_failure))
        self._start_writing()

    def append_run(self, kind: str, bodies: list[Any], *, actor: str = "agent") -> None:
        """Log events that came together."""
        if self.fault is not None:
            return
        time, turn = now(), self.turn
        drafts = [Draft(kind=kind, actor=actor, time=time, body=body, turn=turn) for body in bodies]
        self._pending += [PendingEntry(draft, None, None) for draft in drafts]
        self._start_writing()

    def _start_writing(self) -> None:
        if self._write_task is None:
            self._write_task = asyncio.get_running_loop().create_task(self._write())

    def call_after(self, then: Callable[[], Any]) -> None:
        """Call `then` once all earlier entries are stored, without logging anything; at once if nothing waits."""
        if self._write_task is None:
            then()
        else:
            self._pending.append(PendingEntry(None, then, None))

    async def append_and_wait(self, kind: str, body: Any, *, actor: str = "agent") -> None:
        """Log an event and wait until it is stored; raise the store's error."""
        future, complete, fail = _completion()
        self.append(kind, body, actor=actor, then=complete, on_failure=fail)
        await future

    async def append_question(self, method: str, params: Any) -> None:
        """Log a question to the user, by its method, and wait until it is stored."""
        await self.append_and_wait(EntryKind.ASKED, QUESTION_BODIES[method].asked_body(params))

    async def append_decision(self, method: str, params: Any, result: Any, actor: str = "user") -> None:
        """Log the answer to a question and wait until it is stored."""
        await self.append_and_wait(EntryKind.DECIDED, QUESTION_BODIES[method].decided_body(params, result), actor=actor)

    @property
    def is_full(self) -> bool:
        """Whether too many entries wait for the store."""
        return len(self._pending) >= MAX_PENDING

    async def wait_for_space(self) -> None:
        """Wait until the store has caught up."""
        while len(self._pending) >= RESUME_BELOW and self._write_task is not None:
            self._space = self._space or asyncio.Event()
            self._space.clear()
            await self._space.wait()

    async def wait_stored(self) -> None:
        """Wait until all entries so far are stored and delivered; raise the store's error."""
        if self._write_task is not None:  # later entries are not waited for: a stream may never stop
            future, complete, fail = _completion()
            self._pending.append(PendingEntry(None, complete, fail))
            await future
        if self.fault is not None:
            raise self.fault

    async def flush(self) -> None:
        """Wait until all entries so far are stored or have failed."""
        try:
            await self.wait_stored()
        except ProtocolError:
            pass

    def clear_fault(self) -> None:
        """Try the store again after a failure."""
        self.fault = None

    async def _write(self) -> None:
        try:
            if self._find_session_id is not None:
                self.session_id = await self._find_session_id()
                self._find_session_id = None
            while self._pending:
                await self._deliver(await self._append())
                if self.batch_limit is not None:
                    await asyncio.sleep(0)  # delivery took time: let other tasks run
        except ProtocolError as error:
            self._fail(error)
        # a body that is not JSON, a callback that raises: report it, do not lose it in a task
        except Exception as error:
            self._fail(ProtocolError(Kind.INTERNAL_ERROR, f"the session cannot be logged: {error!r}"))
        finally:
            self._write_task = None
            if self._space is not None:
                self._space.set()
            if self._pending:  # added by a task that the last delivery woke
                self._write_task = asyncio.get_running_loop().create_task(self._write())

    async def _append(self) -> list[PendingEntry]:
        batch, self._pending = self._pending, []
        if self.batch_limit is not None:
            batch, self._pending = batch[: self.batch_limit], batch[self.batch_limit :]
        try:
            drafts = [waiting.draft for waiting in batch if waiting.draft is not None]
            entries = await self._store_drafts(drafts) if drafts else []
        except BaseException:
            self._pending[:0] = batch
            raise
        if self._space is not None and len(self._pending) < RESUME_BELOW:
            self._space.set()
        if self._on_entries is not None and entries:
            self._on_entries(self.session_id, entries)
        return batch

    async def _store_drafts(self, drafts: list[Draft]) -> list[Entry]:
        """Append drafts; if the store does not say whether it has them, find out, and append again what it has not."""
        if self.claim is None:
            return await self.store.append(self.session_id, drafts)
        if self._is_unsettled:
            await self._settle_failed(self.claim)
        while True:
            before = self.claim
            try:
                entries = await self.store.append(self.session_id, drafts, claim=before)
                self.claim = msgspec.structs.replace(before, seq=entries[-1].seq)
                return entries
            except StoreFault as fault:
                if fault.why != "unknown":
                    raise
            self._is_unsettled = True  # also if nobody answers in time, and these drafts are said to have failed
            self.claim = await self._settle(before)
            self._is_unsettled = False
            if self.claim.seq == before.seq + len(drafts):
                return [number_draft(draft, seq) for seq, draft in enumerate(drafts, before.seq + 1)]
            if self.claim.seq != before.seq:
                raise StoreFault("damaged", f"session {self.session_id!r} has entries that its owner did not write")

    async def _settle_failed(self, claim: Claim) -> None:
        """Find out what became of drafts that were said to have failed; raise if the log has them after all."""
        self.claim = await self._settle(claim)
        self._is_unsettled = False
        if self.claim.seq != claim.seq:  # whoever uses this log missed them, and has to read it again
            what = f"session {self.session_id!r} has entries that were thought to be lost; it is read again"
            raise StoreFault("fenced", f"{what}; try again")

    async def _settle(self, claim: Claim) -> Claim:
        """Claim the log again, as soon as the store answers; raise its error if that takes too long."""
        deadline = time.monotonic() + SETTLE_TIMEOUT
        while True:
            try:
                return await self.store.settle(claim)
            except StoreFault as fault:
                if fault.why not in ("unknown", "away") or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(SETTLE_INTERVAL)

    async def _deliver(self, batch: list[PendingEntry]) -> None:
        for waiting in batch:
            if waiting.then is not None:
                result = waiting.then()
                if isinstance(result, Awaitable):
                    await result

    def _fail(self, error: ProtocolError) -> None:
        self.fault = error
        failed, self._pending = self._pending, []
        self.on_failure(error)
        if isinstance(error, StoreFault) and error.why == "fenced":
            self.on_fenced(error)
        for waiting in failed:
            if waiting.on_failure is not None:
                waiting.on_failure(error)


class NoLog:
    """The log of a session without a store: nothing is written, and callbacks run at once."""

    store: None = None
    session_id = ""
    turn: str | None = None
    fault: ProtocolError | None = None
    is_full = False

    def append(self, kind: str, body: Any, *, then: Callable[[], Any] | None = None, **_: Any) -> None:
        """Call `then`."""
        if then is not None:
            then()

    def call_after(self, then: Callable[[], Any]) -> None:
        """Call `then`."""
        then()

    def clear_fault(self) -> None:
        """Do nothing."""

    async def _do_nothing(self, *_: Any, **__: Any) -> None:
        """Nothing is logged, so there is nothing to wait for."""

    append_and_wait = append_question = append_decision = wait_for_space = wait_stored = flush = _do_nothing


# It has no state: one serves all sessions.
NO_LOG = NoLog()


def _completion() -> tuple[asyncio.Future[None], Callable[[], None], Callable[[ProtocolError], None]]:
    """Return a future, and the callbacks that complete or fail it."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def complete() -> None:
        if not future.done():
            future.set_result(None)

    def fail(error: ProtocolError) -> None:
        if not future.done():
            future.set_exception(error)

    return future, complete, fail


# --- questions -------------------------------------------------------------------------------------------------


class QuestionBodies(NamedTuple):
    """Functions that build the log bodies of one kind of question."""

    asked_body: Callable[[Any], Any]
    decided_body: Callable[[Any, Any], Any]


def _elicitation_body(params: Any) -> Any:
    """Return the body of an elicitation. The query of a URL is removed: it may hold a token."""
    body = to_json(params)
    if "url" in body:
        body["url"] = re.split("[?#]", body["url"], maxsplit=1)[0]
    return body


QUESTION_BODIES: dict[str, QuestionBodies] = {
    "session/request_permission": QuestionBodies(
        to_json,
        lambda params, result: {"toolCallId": params.tool_call.tool_call_id, "outcome": to_json(result.outcome)},
    ),
    "elicitation/create": QuestionBodies(
        _elicitation_body,
        lambda params, result: (
            ({"elicitationId": params.elicitation_id} if params.elicitation_id else {}) | to_json(result)
        ),
    ),
}


# --- turns and opened sessions ---------------------------------------------------------------------------------


def turn_ended_body(result: Any, error: Exception | None) -> dict[str, Any]:
    """Return the body of the entry for the end of a turn: the result of the prompt, or its error."""
    if error is not None:
        kind, message = getattr(error, "kind", type(error).__name__), getattr(error, "explanation", str(error))
        return {"error": {"kind": kind, "message": message}}
    return {"stopReason": result.stop_reason} | ({"usage": to_json(result.usage)} if result.usage else {})


def opened_body(
    session: Any, method: str, agent: Mapping[str, Any], modes: Any, options: Iterable[Any], **more: Any
) -> dict[str, Any]:
    """Return the body of the entry for an opened session, without empty members and without secrets.

    `session` is one of a client or of an agent; `modes` and `options` are what it was opened with.
    """
    body = {
        "sessionId": session.id,
        "by": method,
        "cwd": session.cwd,
        "agent": agent,
        "additionalDirectories": session.directories,
        "mcpServers": [to_json(server) for server in strip_secrets(session.mcp_servers)[0]],
        "modes": to_json(modes) if modes else None,
        "configOptions": [to_json(option) for option in options],
        **more,
    }
    return {name: value for name, value in body.items() if value}


def strip_secrets(servers: list[McpServer]) -> tuple[list[McpServer], dict[str, Any]]:
    """Return the servers without their env and header values, and those values by server."""
    bare: list[McpServer] = []
    secrets: dict[str, Any] = {}
    for server in servers:
        values_by_member = {
            member: {each.name: each.value for each in values}
            for member in ("env", "headers")
            if (values := getattr(server, member) or ())
        }
        if values_by_member:
            secrets[server.name] = values_by_member
        hidden = {
            member: [NameValue(name=name, value="") for name in values] for member, values in values_by_member.items()
        }
        bare.append(msgspec.structs.replace(server, **hidden))
    return bare, secrets


def restore_secrets(servers: list[McpServer], secrets: dict[str, Any]) -> list[McpServer]:
    """Return the servers with their values restored."""
    return [
        msgspec.structs.replace(
            server,
            **{
                member: [NameValue(name=name, value=value) for name, value in values.items()]
                for member, values in secrets.get(server.name, {}).items()
            },
        )
        for server in servers
    ]
