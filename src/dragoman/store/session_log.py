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
FULL = 2048

# Entries that may wait when somebody who can be made to wait goes on.
ROOM = FULL // 2


class Waiting(NamedTuple):
    """Something that happened and is not kept yet."""

    draft: Draft | None  # None: it is not logged, and only comes after what is
    then: Callable[[], Any] | None
    otherwise: Callable[[ProtocolError], Any] | None


class Chronicle:
    """The log of one session, as whoever talks in it writes it."""

    def __init__(
        self,
        store: Store,
        key: str | Callable[[], Awaitable[str]],
        *,
        failed: Callable[[ProtocolError], None] = lambda _: None,
        on_entry: Callable[[str, Entry], None] | None = None,
    ) -> None:
        """`key` is the session's id in the store, or finds it; `failed` hears when nothing can be kept."""
        self.store = store
        self.key = key if isinstance(key, str) else ""
        self.turn: str | None = None
        self.fault: ProtocolError | None = None
        self._find = None if isinstance(key, str) else key
        self.most: int | None = None  # entries that are told in one go, where many hear each of them
        self.failed = failed
        self._on_entry = on_entry
        self._waiting: list[Waiting] = []
        self._writing: asyncio.Task[None] | None = None
        self._room: asyncio.Event | None = None

    def note(
        self,
        kind: str,
        body: Any,
        *,
        actor: str = "agent",
        then: Callable[[], Any] | None = None,
        otherwise: Callable[[ProtocolError], Any] | None = None,
    ) -> None:
        """Something happened: log it, then do `then`; or, if it cannot be kept, `otherwise`."""
        if self.fault is not None:
            if otherwise is not None:
                otherwise(self.fault)
            return
        draft = Draft(kind=kind, actor=actor, time=now(), body=body, turn=self.turn)
        self._waiting.append(Waiting(draft, then, otherwise))
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write())

    def after(self, then: Callable[[], Any]) -> None:
        """Do something that is not logged when all that happened before is kept: at once, if it is."""
        if self._writing is None:
            then()
        else:
            self._waiting.append(Waiting(None, then, None))

    async def record(self, kind: str, body: Any, *, actor: str = "agent") -> None:
        """The same, and wait until it is kept; raises what the store failed with."""
        future, kept, lost = _awaited()
        self.note(kind, body, actor=actor, then=kept, otherwise=lost)
        await future

    @property
    def is_full(self) -> bool:
        """Whether more is waiting than the store should be behind."""
        return len(self._waiting) >= FULL

    async def room(self) -> None:
        """Wait until the store has caught up."""
        while len(self._waiting) >= ROOM and self._writing is not None:
            self._room = self._room or asyncio.Event()
            self._room.clear()
            await self._room.wait()

    async def kept(self) -> None:
        """Wait until all that happened so far is kept and told; raises what the store failed with."""
        if self._writing is not None:  # what happens meanwhile is not waited for: a stream may go on and on
            future, kept, lost = _awaited()
            self._waiting.append(Waiting(None, kept, lost))
            await future
        if self.fault is not None:
            raise self.fault

    async def flush(self) -> None:
        """The same, and whether it failed or not."""
        try:
            await self.kept()
        except ProtocolError:
            pass

    def try_again(self) -> None:
        """After the store failed: perhaps it works now."""
        self.fault = None

    async def _write(self) -> None:
        try:
            if self._find is not None:
                self.key = await self._find()
                self._find = None
            while self._waiting:
                await self._deliver(await self._append())
                if self.most is not None:
                    await asyncio.sleep(0)  # telling it took a while: everybody else comes first now
        except ProtocolError as error:
            self._fail(error)
        except Exception as error:  # a body that is no JSON, a taker that breaks: neither may be lost in a task
            self._fail(ProtocolError(Kind.INTERNAL_ERROR, f"the session cannot be logged: {error!r}"))
        finally:
            self._writing = None
            if self._room is not None:
                self._room.set()
            if self._waiting:  # noted by somebody whom the last delivery woke
                self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _append(self) -> list[Waiting]:
        batch, self._waiting = self._waiting, []
        if self.most is not None:
            batch, self._waiting = batch[: self.most], batch[self.most :]
        try:
            drafts = [waiting.draft for waiting in batch if waiting.draft is not None]
            entries = await self.store.append(self.key, drafts) if drafts else []
        except BaseException:
            self._waiting[:0] = batch
            raise
        if self._room is not None and len(self._waiting) < ROOM:
            self._room.set()
        if self._on_entry is not None:
            for entry in entries:
                self._on_entry(self.key, entry)
        return batch

    async def _deliver(self, batch: list[Waiting]) -> None:
        for waiting in batch:
            if waiting.then is not None:
                told = waiting.then()
                if isinstance(told, Awaitable):
                    await told

    def _fail(self, error: ProtocolError) -> None:
        self.fault = error
        lost, self._waiting = self._waiting, []
        self.failed(error)
        for waiting in lost:
            if waiting.otherwise is not None:
                waiting.otherwise(error)


def _awaited() -> tuple[asyncio.Future[None], Callable[[], None], Callable[[ProtocolError], None]]:
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


class Asks(NamedTuple):
    """How questions of one kind stand in a log."""

    asked: Callable[[Any], Any]
    decided: Callable[[Any, Any], Any]


def _elicited(params: Any) -> Any:
    """A form or a link. What a link says after its path may be a key to somebody's account."""
    told = to_json(params)
    if "url" in told:
        told["url"] = re.split("[?#]", told["url"], maxsplit=1)[0]
    return told


def _replied(params: Any, result: Any) -> Any:
    about = {"elicitationId": params.elicitation_id} if params.elicitation_id else {}
    return about | to_json(result)


QUESTIONS: dict[str, Asks] = {
    "session/request_permission": Asks(
        to_json,
        lambda params, result: {"toolCallId": params.tool_call.tool_call_id, "outcome": to_json(result.outcome)},
    ),
    "elicitation/create": Asks(_elicited, _replied),
}


# --- what must not stand in a log -----------------------------------------------------------------------------


def without_secrets(servers: list[McpServer]) -> tuple[list[McpServer], dict[str, Any]]:
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


def with_secrets(servers: list[McpServer], secrets: dict[str, Any]) -> list[McpServer]:
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


def now() -> str:
    """The time of an entry."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
