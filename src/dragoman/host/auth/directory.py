"""The users of a host: tokens and roles in a file next to the sessions, or in the engine of a fleet."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dragoman.host.auth.database import HostDatabase
from dragoman.host.auth.engine_roles import PostgresRoles, RecordRoles
from dragoman.host.auth.roles import SessionRoles
from dragoman.host.auth.token_calls import EngineTokens, FileTokens, TokenCalls
from dragoman.host.auth.tokens import Tokens
from dragoman.store.fleet import Engine


class Directory(NamedTuple):
    """Who may come, and who may see which session."""

    tokens: TokenCalls
    session_roles: SessionRoles
    close: Callable[[], None]


def open_directory(engine: Engine, path: str, owner: str) -> Directory:
    """Open the users of an engine: in the engine itself if several machines use it, else in the file at `path`."""
    if not engine.is_shared:
        database = HostDatabase(path, owner)
        return Directory(FileTokens(Tokens(database)), database, database.close)
    tokens = EngineTokens(engine.records, engine.signals, owner)
    roles: SessionRoles = RecordRoles(engine.records, engine.signals, tokens.remove_session, owner)
    if engine.name == "postgres":
        from dragoman.store.postgres.engine import PostgresEngine

        assert isinstance(engine, PostgresEngine)
        roles = PostgresRoles(engine.database, engine.signals, tokens.remove_session, owner)
    return Directory(tokens, roles, lambda: None)
