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

from dragoman import ClientSession, Kind, ProtocolError, RemoteAgent
from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import OutputStream, sanitize_line
from dragoman.config import config_file as config
from dragoman.config.paths import user_paths
from dragoman.errors import ConfigFault, StoreFault
from dragoman.schema.base import encode
from dragoman.schema.mcp import McpServer
from dragoman.store.contract import Draft, Entry, EntryKind, Retention, Store, Summary
from dragoman.store.summary import check_name, check_new_name, looks_like_id

# Who types no more of an id than this means a name: a session is found by the beginning of its id from here on.
MIN_ID_PREFIX = 8

# How it is said that a session went on.
_RESUME_LABELS = {"session/resume": "resumed", "session/load": "loaded"}


def add_options(parser: Parser) -> None:
    """The flags."""
    parser.add_argument("--session", metavar="SESSION", help="go on with this session, or begin one of that name")
    parser.add_argument("--no-store", action="store_true", help="keep nothing of what is said")


def check_options(parser: Parser, options: argparse.Namespace) -> None:
    """Check them."""
    if options.session is None:
        return
    if options.no_store:
        parser.error("--session needs what --no-store leaves out")
    try:
        check_name(options.session)
    except ProtocolError as error:
        parser.error(f"--session: {error.message}")


class RedactingRecordStore:
    """A store to which the user's secrets do not come: they are taken out of entries, and credentials not kept."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.redact: Callable[[Any], Any] = lambda value: value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, session_id: str, drafts: Sequence[Draft]) -> list[Entry]:
        """Add drafts, without secrets."""
        return await self._store.append(session_id, [self._redacted_draft(draft) for draft in drafts])

    async def keep_credentials(self, session_id: str, credentials: Any) -> None:
        """They come from a file of the user's each time; a copy would only be one more place to look after."""

    def _redacted_draft(self, draft: Draft) -> Draft:
        return msgspec.structs.replace(draft, body=self.redact(msgspec.json.decode(encode(draft.body))))


class SessionRecord:
    """Where one conversation is kept, and what was kept of it before."""

    def __init__(self, store: Store, name: str | None, previous: Summary | None, *, is_persistent: bool = True) -> None:
        self.is_persistent = is_persistent
        self.redacting_store = RedactingRecordStore(store)
        self.name = name
        self.previous = previous
        self.resume_method = ""  # the method by which the session went on

    @property
    def store(self) -> Store:
        """The store to connect with."""
        return cast(Store, self.redacting_store)

    async def name_session(self, session: ClientSession) -> None:
        """A new session: it gets the name it was called by."""
        from dragoman.roles.client.logged_conversation import LoggedClientSession

        if self.name is not None and isinstance(session, LoggedClientSession) and session.log_id:
            try:
                await self.store.rename(session.log_id, self.name)
            except StoreFault:
                raise
            except ProtocolError as error:  # somebody else gave it to another one meanwhile
                raise ConfigFault([error.message]) from None

    async def continue_session(
        self,
        remote: RemoteAgent,
        cwd: str,
        servers: Sequence[McpServer],
        diagnostics: OutputStream,
        *,
        quiet: bool = False,
    ) -> ClientSession:
        """The session of before, by whatever the agent can do; how it goes on is said."""
        from dragoman.roles.client.logged_sessions import LoggedAgent

        assert isinstance(remote, LoggedAgent)
        assert self.previous is not None
        await self._warn_about_previous(self.previous, servers, diagnostics)
        went = await remote.continue_session(self.previous.session_id, cwd, mcp_servers=servers, restore_setup=False)
        self.resume_method = went.method
        called = sanitize_line(self.previous.name or self.previous.session_id)
        if self.resume_method == "session/new":
            because = f" ({sanitize_line(went.reason)})" if went.reason else ""
            diagnostics.write_line(
                f"the agent cannot go on with {called}{because}: this is a new session, and it is told what was said",
                "yellow",
            )
        elif not quiet:
            diagnostics.write_line(f"{_RESUME_LABELS[self.resume_method]} {called}, in {sanitize_line(cwd)}", "dim")
        return went.session

    async def _warn_about_previous(
        self, previous: Summary, servers: Sequence[McpServer], diagnostics: OutputStream
    ) -> None:
        """What the user has to know of what was before."""
        last: Any = {}
        opened: Any = {}
        for entry in await self.store.read(previous.session_id, intact=True):
            if entry.kind == EntryKind.OPENED:
                opened = entry.body
            last = entry
        if last and last.kind == EntryKind.AGENT_EXITED:
            diagnostics.write_line(f"the agent had died: {sanitize_line(str(last.body.get('message', '')))}", "yellow")
        had = [str(server.get("name")) for server in opened.get("mcpServers") or () if isinstance(server, dict)]
        if had and not servers:
            diagnostics.write_line(
                f"it had MCP servers ({sanitize_line(', '.join(had))}); give them again with --mcp", "yellow"
            )


@asynccontextmanager
async def open_record(
    options: argparse.Namespace, *, needs_entries: bool = False
) -> AsyncIterator[SessionRecord | None]:
    """Open the store and find the session; None where nothing is kept. Raises StoreFault before anything is started.

    Who needs entries gets a store that forgets them when nothing is to be kept.
    """
    name = options.session
    if options.no_store or (name is None and not config.load_config(user_paths().config_file).store):
        if not needs_entries:
            yield None
            return
        from dragoman.store.memory import MemoryStore

        yield SessionRecord(MemoryStore(), None, None, is_persistent=False)
        return
    from dragoman.store.session_log import timestamp
    from dragoman.store.sqlite import SqliteStore

    store = await SqliteStore.open(user_paths().sessions)
    try:
        await store.expire(Retention(), timestamp())  # takes nothing away, but would find that nothing can be written
        yield SessionRecord(store, name, None if name is None else await find_session(store, name))
    finally:
        await store.close()


async def find_session(store: Store, name: str) -> Summary | None:
    """The session that a name, an id or enough of the beginning of one means; None when it is yet to begin."""
    try:
        summary = await store.find(name)
    except ProtocolError as error:
        is_several = not error.data and len(name) >= MIN_ID_PREFIX  # whose ids begin so: nobody means a new one
        if error.kind != Kind.SESSION_NOT_FOUND or is_several:
            raise ConfigFault([error.message]) from None
        if looks_like_id(name):  # nobody calls a new one so
            raise ConfigFault([f"there is no session {name!r}; `dragoman sessions` lists those there are"]) from None
        try:
            check_new_name(name)
        except ProtocolError as wrong:
            raise ConfigFault([wrong.message]) from None
        return None
    return summary if name in (summary.name, summary.session_id) or len(name) >= MIN_ID_PREFIX else None


def working_directory(record: SessionRecord | None, options: argparse.Namespace) -> str:
    """Where the agent works: where the user says, else where the session was before, else here."""
    before = record.previous if record is not None else None
    if before is None or options.says_cwd or not before.cwd or not os.path.isdir(before.cwd):
        return str(options.cwd)
    return before.cwd
