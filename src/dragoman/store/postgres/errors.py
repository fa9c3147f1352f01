"""Turn errors of asyncpg and the network into StoreFaults that say what to do."""

from __future__ import annotations

import asyncio

from dragoman.errors import StoreFault

# By the SQLSTATE of PostgreSQL, or its class: why, and what to do.
_STATES: dict[str, tuple[str, str]] = {
    "53100": ("full", "the disk of the database is full; free some space, then try again"),
    "53200": ("full", "the database has no memory left; stop something on it, then try again"),
    "53300": ("away", "the database takes no more connections; raise max_connections"),
    "25006": ("readonly", "the database is read-only: a standby, or set so; use the address of the primary"),
    "42501": ("readonly", "this user may not write here; GRANT CREATE ON DATABASE or name another ?schema="),
    "28": ("unusable", "the database does not let this user in; check user, PGPASSWORD and pg_hba.conf"),
    "3D000": ("unusable", "there is no such database; create it with: createdb NAME"),
    "XX001": ("damaged", "the database found damaged data; restore it from a back-up or a standby"),
    "XX002": ("damaged", "the database found a damaged index; run REINDEX, then `dragoman store verify`"),
    "57P03": ("away", "the database is starting or stopping; it is tried again"),
}

# The connection or the server ended while a statement ran.
_ENDED = ("57P01", "57P02", "08")


def to_store_fault(error: BaseException, where: str, *, is_writing: bool = False) -> StoreFault:
    """Return the StoreFault for an error; one that came while a write was on its way may have stored it."""
    if isinstance(error, StoreFault):
        return error
    state = str(getattr(error, "sqlstate", "") or "")
    for length in (5, 2):
        if state[:length] in _STATES:
            why, advice = _STATES[state[:length]]
            return StoreFault(why, f"{where}: {advice} ({error})")
    if is_lost(error):
        if isinstance(error, asyncio.TimeoutError) and not is_writing:
            return StoreFault("away", f"{where} did not answer in time; it is overloaded, or its network is cut")
        if is_writing:
            return StoreFault("unknown", f"{where} did not answer, so nobody knows yet whether it stored the entries")
        return StoreFault("away", f"{where} cannot be reached: {_text(error)}; start it, or check the address")
    return StoreFault("io", f"{where}: {_text(error)}; nothing that was stored is lost")


def is_lost(error: BaseException) -> bool:
    """Return whether the connection is gone, or too slow to be told from that."""
    if isinstance(error, OSError | asyncio.TimeoutError | EOFError):
        return True
    state = str(getattr(error, "sqlstate", "") or "")
    if state:
        return state.startswith(_ENDED)
    return type(error).__name__ in ("InterfaceError", "InternalClientError", "ConnectionDoesNotExistError")


def is_conflict(error: BaseException) -> bool:
    """Return whether two transactions met, or the server ended one that was idle: it changed nothing; repeat it."""
    return str(getattr(error, "sqlstate", "") or "") in ("40001", "40P01", "23505", "25P03")


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
