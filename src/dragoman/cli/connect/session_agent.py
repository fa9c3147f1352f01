"""Remember the agent of a stored session, and find it when the session is continued without naming one."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

from dragoman.cli.connect.options import SessionOptions
from dragoman.cli.connect.which_agent import resolve_agent
from dragoman.cli.parser import Parser
from dragoman.config.config_file import NamedAgent
from dragoman.config.paths import user_paths
from dragoman.config.session_agents import SessionAgent, SessionAgents, as_named_agent
from dragoman.errors import ConfigFault, DragomanError


def note_session_agent(options: SessionOptions, session: str | None) -> None:
    """Remember the agent of a session. A file that cannot be written does not end the session.

    An agent that was confined by options of this command is not remembered: it would start without them.
    """
    agent = options.agent
    if session is None:
        return
    if options.sandbox is not None and not agent.sandbox:
        forget_session_agent(session)
        return
    with suppress(ConfigFault, OSError):
        command = (agent.command, *agent.args) if options.is_agent_command else ()
        used = SessionAgent(session=session, name=agent.name, command=command, dialect=options.dialect)
        SessionAgents(user_paths().session_agents).note(used)


def find_session_agent(parser: Parser, name: str) -> tuple[NamedAgent | None, bool]:
    """Return the agent that the session with this name or id used last, and whether the user gave its command then.

    None if that is not known.
    """
    paths = user_paths()
    if not (os.path.exists(paths.session_agents) and os.path.exists(paths.sessions)):
        return None, False
    try:
        session = asyncio.run(_find_id(paths.sessions, name))
    except (DragomanError, OSError):  # the store is opened again, and then reports what is wrong
        return None, False
    used = None if session is None else last_agent(session)
    if used is None:
        return None, False
    if used.command:
        return as_named_agent(used), True
    return resolve_agent(parser, used.name, [], offers=False), False


def last_agent(session: str) -> SessionAgent | None:
    """Return the agent that a session used last; None if that is not known, or the file cannot be read."""
    try:
        return SessionAgents(user_paths().session_agents).find(session)
    except (ConfigFault, OSError):
        return None


def forget_session_agent(session: str) -> None:
    """Forget the agent of a session that was deleted."""
    with suppress(ConfigFault, OSError):
        SessionAgents(user_paths().session_agents).forget(session)


async def _find_id(path: str, name: str) -> str | None:
    from dragoman.cli.connect.record import find_session
    from dragoman.store.sqlite import SqliteStore

    store = await SqliteStore.open(path)
    try:
        found = await find_session(store, name)
    finally:
        await store.close()
    return None if found is None else found.session_id
