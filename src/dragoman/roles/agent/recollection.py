"""What an agent with a store does for all its sessions: it knows them again after a restart, and logs what is nobody's.

Takes an agent, gives its sessions back from the store. Above are opening, the catalogue and the agent; below are its
logged sessions. Imported only where there is a store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.engine.connection import Connection
from dragoman.errors import ProtocolError
from dragoman.roles.agent.logged_session import LoggedSession
from dragoman.store.contract import EntryKind, Store

if TYPE_CHECKING:
    from dragoman.roles.agent.agent import Agent


async def remember(agent: Agent, session_id: str | None = None) -> None:
    """Bring the sessions of an agent's store back, all of them into its list and one of them whole."""
    store = agent.store
    if store is None:
        return
    known = agent.sessions.get(session_id or "")
    if known is None:
        if session_id is not None:
            await _check(store, session_id)
        for summary in reversed(await store.sessions()):
            if summary.session_id not in agent.sessions:
                agent.sessions[summary.session_id] = LoggedSession.listed(agent, store, summary)
        known = agent.sessions.get(session_id or "")
    if isinstance(known, LoggedSession):
        await known.recall()


def note_translated(agent: Agent, connection: Connection, text: str) -> None:
    """Something was lost in translation. Nobody says in which session: those with a turn, or else the last one."""
    there = [
        session
        for session in agent.sessions.values()
        if isinstance(session, LoggedSession) and session.is_bound and session.connection is connection
    ]
    for session in [session for session in there if session.turn is not None] or there[-1:]:
        session.chronicle.note(EntryKind.TRANSLATED, {"message": text}, actor="dragoman")


async def _check(store: Store, session_id: str) -> None:
    """A session that expired is told apart from one that never was."""
    try:
        await store.lines(session_id, limit=1)
    except ProtocolError as error:
        if error.kind != "session_not_found":
            raise
