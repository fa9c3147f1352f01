"""The stored session of a command: the user's store, with the user's secrets redacted.

`open_record` opens the store and finds the session to continue. A SessionRecord continues it, or names a new one.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from dragoman import ClientSession, Kind, ProtocolError, RemoteAgent
from dragoman.cli.connect.options import SessionOptions
from dragoman.cli.ui.terminal import OutputStream, sanitize_line
from dragoman.config import config_file as config
from dragoman.config.paths import user_paths
from dragoman.errors import ConfigFault, StoreFault
from dragoman.roles.client.logged_sessions import last_opened
from dragoman.schema.base import encode
from dragoman.schema.mcp import McpServer
from dragoman.store.contract import Claim, Draft, Entry, EntryKind, Retention, Store, Summary
from dragoman.store.summary import check_new_name, looks_like_id
from dragoman.store.wrappers import StoreWrapper

# A session is found by the beginning of its id from this length on; shorter text is a name.
MIN_ID_PREFIX = 8

# Method to label, for the line that says how a session was continued.
_RESUME_LABELS = {"session/resume": "resumed", "session/load": "loaded"}


class RedactingRecordStore(StoreWrapper):
    """A store wrapper that redacts the user's secrets from entries and stores no credentials."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.redact: Callable[[Any], Any] = lambda value: value
        self.keep_credentials = self._discard_credentials

    async def append(self, session_id: str, drafts: Sequence[Draft], *, claim: Claim | None = None) -> list[Entry]:
        """Append entries, redacted."""
        bodies = [self.redact(msgspec.json.decode(encode(draft.body))) for draft in drafts]
        redacted = [msgspec.structs.replace(draft, body=body) for draft, body in zip(drafts, bodies, strict=True)]
        return await self._store.append(session_id, redacted, claim=claim)

    async def _discard_credentials(self, session_id: str, credentials: Any) -> None:
        """Do nothing: credentials come from the user's file each time."""


class SessionRecord:
    """Where one session is stored, and what was stored of it before."""

    def __init__(
        self,
        store: Store,
        name: str | None,
        previous: Summary | None,
        *,
        is_persistent: bool = True,
        close_name: str = "",
    ) -> None:
        self.is_persistent = is_persistent
        self.close_name = close_name  # of another session, if the name is new
        self.store = RedactingRecordStore(store)  # to connect with
        self.name = name
        self.previous = previous
        self.resume_method = ""  # the method that continued the session

    @property
    def new_session_text(self) -> str:
        """What the user reads when a new session has the name: it could be a typo; "" without a name."""
        if self.name is None:
            return ""
        hint = f"; did you mean {sanitize_line(self.close_name)}?" if self.close_name else ""
        return f"new session {sanitize_line(self.name)}{hint}"

    async def name_session(self, session: ClientSession) -> None:
        """Give a new session its name."""
        if self.name is not None and session.log_id:
            try:
                await self.store.rename(session.log_id, self.name)
            except StoreFault:
                raise
            except ProtocolError as error:  # another session got the name meanwhile
                raise ConfigFault([error.message]) from None

    async def delete_unused(self, sessions: Iterable[str | None]) -> None:
        """Delete those of these new sessions that have neither a name nor a prompt: nobody would continue them."""
        for session in filter(None, sessions):
            with suppress(ProtocolError):
                summary = await self.store.find(session)
                if not summary.turns and summary.name is None:
                    await self.store.delete(session)

    async def previous_folder(self) -> str:
        """Return the folder of the previous session, "" if it is gone, or if only an imported file names it.

        Raises ConfigFault if it is a link now that an agent may have put there: it led elsewhere at the last opening.
        """
        previous = self.previous
        folder = previous.cwd if previous is not None else None
        if previous is None or not folder or not os.path.isdir(folder):
            return ""
        opened = await last_opened(self.store, previous)
        if previous.imported and not opened:  # whoever made the file must not choose where an agent works
            return ""
        now = os.path.realpath(folder)
        expected = (opened.get("resolved") or {}).get(folder, folder) if opened else now
        if now != expected:
            message = f"the folder of this session, {folder}, leads to {now} now, not to {expected} as before"
            raise ConfigFault([f"{message}; restore it, or name the folder to continue in with --cwd"])
        return folder

    async def continue_session(
        self,
        remote: RemoteAgent,
        cwd: str,
        servers: Sequence[McpServer],
        diagnostics: OutputStream,
        *,
        quiet: bool = False,
    ) -> ClientSession:
        """Continue the previous session in the best way the agent supports; show how."""
        assert self.previous is not None
        await self._warn_about_previous(self.previous, cwd, servers, diagnostics)
        continued = await remote.continue_session(
            self.previous.session_id, cwd, mcp_servers=servers, restore_setup=False
        )
        self.resume_method = continued.method
        name = sanitize_line(self.previous.name or self.previous.session_id)
        if self.resume_method == "session/new":
            reason = f" ({sanitize_line(continued.reason)})" if continued.reason else ""
            diagnostics.write_line(
                f"the agent no longer has {name}{reason}; continuing in a new session that gets the earlier messages",
                "yellow",
            )
        elif not quiet:
            diagnostics.write_line(f"{_RESUME_LABELS[self.resume_method]} {name} in {sanitize_line(cwd)}", "dim")
        return continued.session

    async def _warn_about_previous(
        self, previous: Summary, cwd: str, servers: Sequence[McpServer], diagnostics: OutputStream
    ) -> None:
        """Show what the user has to know about the previous state."""
        if previous.imported and previous.cwd and previous.cwd != cwd and not await last_opened(self.store, previous):
            diagnostics.write_line(
                f"the session was imported; it continues in {sanitize_line(cwd)}, not in the folder that its file "
                f"names ({sanitize_line(previous.cwd)}): choose one with --cwd",
                "yellow",
            )
        last: Any = {}
        opened: Any = {}
        for entry in await self.store.read(previous.session_id, intact=True):
            if entry.kind == EntryKind.OPENED:
                opened = entry.body
            last = entry
        if last and last.kind == EntryKind.AGENT_EXITED:
            diagnostics.write_line(
                f"the agent had exited: {sanitize_line(str(last.body.get('message', '')))}", "yellow"
            )
        server_names = [
            str(server.get("name")) for server in opened.get("mcpServers") or () if isinstance(server, dict)
        ]
        if server_names and not servers:
            diagnostics.write_line(
                f"the session had MCP servers ({sanitize_line(', '.join(server_names))}); add them again with --mcp",
                "yellow",
            )


@asynccontextmanager
async def open_record(options: SessionOptions, *, needs_entries: bool = False) -> AsyncIterator[SessionRecord | None]:
    """Open the store and find the session; None when nothing is stored. Raises StoreFault before anything is started.

    `needs_entries`: use a memory store when nothing is stored.
    """
    name = options.session
    if not options.stores or (name is None and not config.load_config(user_paths().config_file).store):
        if not needs_entries:
            yield None
            return
        from dragoman.store.memory import MemoryStore

        yield SessionRecord(MemoryStore(), None, None, is_persistent=False)
        return
    from dragoman.ids import now
    from dragoman.store.sqlite import SqliteStore

    store = await SqliteStore.open(user_paths().sessions)
    try:
        await store.expire(Retention(), now())  # deletes nothing, but fails now if the store is read-only
        yield await find_record(store, name)
    finally:
        await store.close()


async def find_record(store: Store, name: str | None) -> SessionRecord:
    """Return the record of the session with this name or id, or of a new one."""
    if name is None:
        return SessionRecord(store, None, None)
    previous = await find_session(store, name)
    return SessionRecord(store, name, previous, close_name="" if previous else await close_session_name(store, name))


async def close_session_name(store: Store, name: str, *, may_be_new: bool = True) -> str:
    """Return the name of a session that the user may have meant; "" if there is none."""
    from difflib import get_close_matches

    names = [summary.name for summary in await store.sessions() if summary.name is not None]
    if may_be_new:  # roof2 after roof1 is no typo
        base = _without_digits(name)
        names = [each for each in names if _without_digits(each) != base]
    return next(iter(get_close_matches(name, names, 1)), "")


async def missing_session(store: Store, name: str) -> ProtocolError:
    """Return the error for a session that does not exist, with a name that is close."""
    close = await close_session_name(store, name, may_be_new=False)
    host = getattr(store, "host", None)  # of a HostStore
    listing = f"dragoman sessions {host.flag if host else ''}".strip()
    advice = f"did you mean {sanitize_line(close)}?" if close else f"`{listing}` lists all sessions"
    return ProtocolError(Kind.SESSION_NOT_FOUND, f"there is no session {name!r}; {advice}", {"sessionId": name})


def _without_digits(name: str) -> str:
    return "".join(character for character in name if not character.isdigit())


async def find_session(store: Store, name: str) -> Summary | None:
    """Return the session with this name, id or beginning of an id; None if it is a new name."""
    try:
        summary = await store.find(name)
    except ProtocolError as error:
        is_ambiguous = not error.data and len(name) >= MIN_ID_PREFIX  # ambiguous beginning of an id, not a new name
        if error.kind != Kind.SESSION_NOT_FOUND or is_ambiguous:
            raise ConfigFault([error.message]) from None
        if looks_like_id(name):  # not a name for a new session
            raise ConfigFault([(await missing_session(store, name)).message]) from None
        try:
            check_new_name(name)
        except ProtocolError as wrong:
            raise ConfigFault([wrong.message]) from None
        return None
    return summary if name in (summary.name, summary.session_id) or len(name) >= MIN_ID_PREFIX else None
