"""Where commands keep what is said: the user's store, for one conversation, and without the user's secrets in it.

`add` and `agreed` are the flags; `recorded` opens the store and finds the session that is to go on. A Record goes on
with it, or gives a new one its name, and says how. Above is meeting; below are the store and the logged agent.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec

from dragoman import Conversation, Kind, ProtocolError, RemoteAgent
from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import Sheet, single
from dragoman.config import config_file as config
from dragoman.config.paths import places
from dragoman.errors import ConfigFault, StoreFault
from dragoman.schema.base import encode
from dragoman.schema.mcp import McpServer
from dragoman.store.contract import Draft, Entry, EntryKind, Retention, Store, Summary
from dragoman.store.summary import checked_name, given_name, is_like_id

# Who types no more of an id than this means a name: a session is found by the beginning of its id from here on.
BEGINNING = 8

# How it is said that a session went on.
_DONE = {"session/resume": "resumed", "session/load": "loaded"}


def add(parser: Parser) -> None:
    """The flags."""
    parser.add_argument("--session", metavar="SESSION", help="go on with this session, or begin one of that name")
    parser.add_argument("--no-store", action="store_true", help="keep nothing of what is said")


def agreed(parser: Parser, options: argparse.Namespace) -> None:
    """Check them."""
    if options.session is None:
        return
    if options.no_store:
        parser.error("--session needs what --no-store leaves out")
    try:
        checked_name(options.session)
    except ProtocolError as error:
        parser.error(f"--session: {error.message}")


class Discreet:
    """A store to which the user's secrets do not come: they are taken out of entries, and credentials not kept."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.clean: Callable[[Any], Any] = lambda value: value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, session_id: str, drafts: Sequence[Draft]) -> list[Entry]:
        """Add drafts, without secrets."""
        return await self._store.append(session_id, [self._cleaned(draft) for draft in drafts])

    async def keep_credentials(self, session_id: str, credentials: Any) -> None:
        """They come from a file of the user's each time; a copy would only be one more place to look after."""

    def _cleaned(self, draft: Draft) -> Draft:
        return msgspec.structs.replace(draft, body=self.clean(msgspec.json.decode(encode(draft.body))))


class Record:
    """Where one conversation is kept, and what was kept of it before."""

    def __init__(self, store: Store, name: str | None, before: Summary | None, *, is_kept: bool = True) -> None:
        self.is_kept = is_kept
        self.discreet = Discreet(store)
        self.name = name
        self.before = before
        self.how = ""  # the method by which the session went on

    @property
    def store(self) -> Store:
        """The store to connect with."""
        return cast(Store, self.discreet)

    async def began(self, session: Conversation) -> None:
        """A new session: it gets the name it was called by."""
        from dragoman.roles.client.logged_conversation import LoggedConversation

        if self.name is not None and isinstance(session, LoggedConversation) and session.log:
            try:
                await self.store.rename(session.log, self.name)
            except StoreFault:
                raise
            except ProtocolError as error:  # somebody else gave it to another one meanwhile
                raise ConfigFault([error.message]) from None

    async def go_on(
        self, remote: RemoteAgent, cwd: str, servers: Sequence[McpServer], aside: Sheet, *, quiet: bool = False
    ) -> Conversation:
        """The session of before, by whatever the agent can do; how it goes on is said."""
        from dragoman.roles.client.logged_sessions import LoggedAgent

        assert isinstance(remote, LoggedAgent)
        assert self.before is not None
        await self._recall(self.before, servers, aside)
        went = await remote.go_on(self.before.session_id, cwd, mcp_servers=servers, is_as_before=False)
        self.how = went.how
        called = single(self.before.name or self.before.session_id)
        if self.how == "session/new":
            because = f" ({single(went.why)})" if went.why else ""
            aside.line(
                f"the agent cannot go on with {called}{because}: this is a new session, and it is told what was said",
                "yellow",
            )
        elif not quiet:
            aside.line(f"{_DONE[self.how]} {called}, in {single(cwd)}", "dim")
        return went.session

    async def _recall(self, before: Summary, servers: Sequence[McpServer], aside: Sheet) -> None:
        """What the user has to know of what was before."""
        last: Any = {}
        opened: Any = {}
        for entry in await self.store.read(before.session_id, intact=True):
            if entry.kind == EntryKind.OPENED:
                opened = entry.body
            last = entry
        if last and last.kind == EntryKind.AGENT_EXITED:
            aside.line(f"the agent had died: {single(str(last.body.get('message', '')))}", "yellow")
        had = [str(server.get("name")) for server in opened.get("mcpServers") or () if isinstance(server, dict)]
        if had and not servers:
            aside.line(f"it had MCP servers ({single(', '.join(had))}); give them again with --mcp", "yellow")


@asynccontextmanager
async def recorded(options: argparse.Namespace, *, needs_entries: bool = False) -> AsyncIterator[Record | None]:
    """Open the store and find the session; None where nothing is kept. Raises StoreFault before anything is started.

    Who needs entries gets a store that forgets them when nothing is to be kept.
    """
    name = options.session
    if options.no_store or (name is None and not config.load(places().agents).store):
        if not needs_entries:
            yield None
            return
        from dragoman.store.memory import MemoryStore

        yield Record(MemoryStore(), None, None, is_kept=False)
        return
    from dragoman.store.session_log import now
    from dragoman.store.sqlite import SqliteStore

    store = await SqliteStore.open(places().sessions)
    try:
        await store.expire(Retention(), now())  # takes nothing away, but would find that nothing can be written
        yield Record(store, name, None if name is None else await found(store, name))
    finally:
        await store.close()


async def found(store: Store, name: str) -> Summary | None:
    """The session that a name, an id or enough of the beginning of one means; None when it is yet to begin."""
    try:
        summary = await store.find(name)
    except ProtocolError as error:
        is_several = not error.data and len(name) >= BEGINNING  # whose ids begin so: nobody means a new one
        if error.kind != Kind.SESSION_NOT_FOUND or is_several:
            raise ConfigFault([error.message]) from None
        if is_like_id(name):  # nobody calls a new one so
            raise ConfigFault([f"there is no session {name!r}; `dragoman sessions` lists those there are"]) from None
        try:
            given_name(name)
        except ProtocolError as wrong:
            raise ConfigFault([wrong.message]) from None
        return None
    return summary if name in (summary.name, summary.session_id) or len(name) >= BEGINNING else None


def folder(record: Record | None, options: argparse.Namespace) -> str:
    """Where the agent works: where the user says, else where the session was before, else here."""
    before = record.before if record is not None else None
    if before is None or options.says_cwd or not before.cwd or not os.path.isdir(before.cwd):
        return str(options.cwd)
    return before.cwd
