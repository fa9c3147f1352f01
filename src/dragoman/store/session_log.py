"""The chronicle of a session: what happens in it, logged in order, and told to people only once it is kept.

Takes things that happened and what to do after each; gives them to a store, always one batch at a time, so a stream
is kept in few commits. Where the store fails, what was waiting is told of that instead, and nothing of it is delivered.
Above are the conversations of clients and the sessions of agents; below is a store.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from dragoman.errors import Kind, ProtocolError
from dragoman.schema.base import to_json
from dragoman.schema.mcp import McpServer, NameValue
from dragoman.store.contract import Draft, Entry, Store

# Entries that may wait for the store before whoever makes them must wait too: a few commits' worth.
MAX_PENDING = 2048

# Entries that may wait when somebody who can be made to wait goes on.
RESUME_BELOW = MAX_PENDING // 2


class PendingEntry(NamedTuple):
    """Something that happened and is not kept yet."""

    draft: Draft | None  # None: it is not logged, and only comes after what is
    then: Callable[[], Any] | None
    on_failure: Callable[[ProtocolError], Any] | None


class SessionLog:
    """The log of one session, as whoever talks in it writes it."""

    def __init__(
        self,
        store: Store,
        session_id: str | Callable[[], Awaitable[str]],
        *,
        on_failure: Callable[[ProtocolError], None] = lambda _: None,
        on_entry: Callable[[str, Entry], None] | None = None,
    ) -> None:
        """`key` is the session's id in the store, or finds it; `failed` hears when nothing can be kept."""
        self.store = store
        self.session_id = session_id if isinstance(session_id, str) else ""
        self.turn: str | None = None
        self.fault: ProtocolError | None = None
        self._find_session_id = None if isinstance(session_id, str) else session_id
        self.batch_limit: int | None = None  # entries that are told in one go, where many hear each of them
        self.on_failure = on_failure
        self._on_entry = on_entry
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
        """Something happened: log it, then do `then`; or, if it cannot be kept, `otherwise`."""
        if self.fault is not None:
            if on_failure is not None:
                on_failure(self.fault)
            return
        draft = Draft(kind=kind, actor=actor, time=timestamp(), body=body, turn=self.turn)
        self._pending.append(PendingEntry(draft, then, on_failure))
        if self._write_task is None:
            self._write_task = asyncio.get_running_loop().create_task(self._write())

    def call_after(self, then: Callable[[], Any]) -> None:
        """Do something that is not logged when all that happened before is kept: at once, if it is."""
        if self._write_task is None:
            then()
        else:
            self._pending.append(PendingEntry(None, then, None))

    async def append_and_wait(self, kind: str, body: Any, *, actor: str = "agent") -> None:
        """The same, and wait until it is kept; raises what the store failed with."""
        future, kept, lost = _completion()
        self.append(kind, body, actor=actor, then=kept, on_failure=lost)
        await future

    @property
    def is_full(self) -> bool:
        """Whether more is waiting than the store should be behind."""
        return len(self._pending) >= MAX_PENDING

    async def wait_for_space(self) -> None:
        """Wait until the store has caught up."""
        while len(self._pending) >= RESUME_BELOW and self._write_task is not None:
            self._space = self._space or asyncio.Event()
            self._space.clear()
            await self._space.wait()

    async def wait_stored(self) -> None:
        """Wait until all that happened so far is kept and told; raises what the store failed with."""
        if self._write_task is not None:  # what happens meanwhile is not waited for: a stream may go on and on
            future, kept, lost = _completion()
            self._pending.append(PendingEntry(None, kept, lost))
            await future
        if self.fault is not None:
            raise self.fault

    async def flush(self) -> None:
        """The same, and whether it failed or not."""
        try:
            await self.wait_stored()
        except ProtocolError:
            pass

    def clear_fault(self) -> None:
        """After the store failed: perhaps it works now."""
        self.fault = None

    async def _write(self) -> None:
        try:
            if self._find_session_id is not None:
                self.session_id = await self._find_session_id()
                self._find_session_id = None
            while self._pending:
                await self._deliver(await self._append())
                if self.batch_limit is not None:
                    await asyncio.sleep(0)  # telling it took a while: everybody else comes first now
        except ProtocolError as error:
            self._fail(error)
        except Exception as error:  # a body that is no JSON, a taker that breaks: neither may be lost in a task
            self._fail(ProtocolError(Kind.INTERNAL_ERROR, f"the session cannot be logged: {error!r}"))
        finally:
            self._write_task = None
            if self._space is not None:
                self._space.set()
            if self._pending:  # noted by somebody whom the last delivery woke
                self._write_task = asyncio.get_running_loop().create_task(self._write())

    async def _append(self) -> list[PendingEntry]:
        batch, self._pending = self._pending, []
        if self.batch_limit is not None:
            batch, self._pending = batch[: self.batch_limit], batch[self.batch_limit :]
        try:
            drafts = [waiting.draft for waiting in batch if waiting.draft is not None]
            entries = await self.store.append(self.session_id, drafts) if drafts else []
        except BaseException:
            self._pending[:0] = batch
            raise
        if self._space is not None and len(self._pending) < RESUME_BELOW:
            self._space.set()
        if self._on_entry is not None:
            for entry in entries:
                self._on_entry(self.session_id, entry)
        return batch

    async def _deliver(self, batch: list[PendingEntry]) -> None:
        for waiting in batch:
            if waiting.then is not None:
                told = waiting.then()
                if isinstance(told, Awaitable):
                    await told

    def _fail(self, error: ProtocolError) -> None:
        self.fault = error
        lost, self._pending = self._pending, []
        self.on_failure(error)
        for waiting in lost:
            if waiting.on_failure is not None:
                waiting.on_failure(error)


def _completion() -> tuple[asyncio.Future[None], Callable[[], None], Callable[[ProtocolError], None]]:
    """Something to wait for, and how it comes or fails."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def kept() -> None:
        if not future.done():
            future.set_result(None)

    def lost(error: ProtocolError) -> None:
        if not future.done():
            future.set_exception(error)

    return future, kept, lost


# --- questions -------------------------------------------------------------------------------------------------


class QuestionBodies(NamedTuple):
    """How questions of one kind stand in a log."""

    asked_body: Callable[[Any], Any]
    decided_body: Callable[[Any, Any], Any]


def _elicitation_body(params: Any) -> Any:
    """A form or a link. What a link says after its path may be a key to somebody's account."""
    told = to_json(params)
    if "url" in told:
        told["url"] = re.split("[?#]", told["url"], maxsplit=1)[0]
    return told


def _elicitation_reply_body(params: Any, result: Any) -> Any:
    about = {"elicitationId": params.elicitation_id} if params.elicitation_id else {}
    return about | to_json(result)


QUESTION_BODIES: dict[str, QuestionBodies] = {
    "session/request_permission": QuestionBodies(
        to_json,
        lambda params, result: {"toolCallId": params.tool_call.tool_call_id, "outcome": to_json(result.outcome)},
    ),
    "elicitation/create": QuestionBodies(_elicitation_body, _elicitation_reply_body),
}


# --- what must not stand in a log -----------------------------------------------------------------------------


def strip_secrets(servers: list[McpServer]) -> tuple[list[McpServer], dict[str, Any]]:
    """The servers without the values of their environment and headers; and those, by server, to be kept elsewhere."""
    bare: list[McpServer] = []
    secrets: dict[str, Any] = {}
    for server in servers:
        kept = {
            member: {each.name: each.value for each in values}
            for member in ("env", "headers")
            if (values := getattr(server, member) or ())
        }
        if kept:
            secrets[server.name] = kept
        hidden = {member: [NameValue(name=name, value="") for name in values] for member, values in kept.items()}
        bare.append(msgspec.structs.replace(server, **hidden))
    return bare, secrets


def restore_secrets(servers: list[McpServer], secrets: dict[str, Any]) -> list[McpServer]:
    """The servers as they were."""
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


def timestamp() -> str:
    """The time of an entry."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
