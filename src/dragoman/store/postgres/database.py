"""Connections to one PostgreSQL database: one that writes appends, and a few for everything else.

A lost connection is opened again by the next call. asyncpg is imported here only, when a database is opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from dragoman.errors import ConfigFault, StoreFault
from dragoman.store.postgres.errors import is_conflict, is_lost, to_store_fault
from dragoman.store.summary import closed_error

T = TypeVar("T")

# How long to wait for a connection. A server that runs accepts one in milliseconds. Seconds.
CONNECT_TIMEOUT = 5.0

# How long one statement may take before its connection counts as lost: a failover takes longer, an append on a slow
# disk does not. Seconds.
STATEMENT_TIMEOUT = 10.0

# After how long the server ends a transaction whose node sends nothing, and frees its locks: a node that is paused or
# cut off must not keep the others from its sessions. Below STATEMENT_TIMEOUT, which is how long they wait. Seconds.
IDLE_TRANSACTION_TIMEOUT = 3.0

# Connections for reads and changes besides the one for appends.
POOL_SIZE = 4

# How often a transaction that met another one is repeated.
MAX_TRIES = 5

DEFAULT_SCHEMA = "dragoman"


class Database:
    """The connections. `where` is the address without secrets, for messages."""

    def __init__(self, url: str) -> None:
        self.where = url
        self.dsn, self.schema = _split_schema(url)
        self._pool: Any = None
        self._is_closed = False

    async def open(self) -> None:
        """Connect; raise StoreFault if that fails."""
        try:
            import asyncpg
        except ImportError:
            advice = "PostgreSQL needs the package asyncpg; install it with: pip install 'dragoman[postgres]'"
            raise ConfigFault([f"store: {advice}"]) from None
        try:
            self._pool = await asyncpg.create_pool(
                self.dsn, min_size=0, max_size=POOL_SIZE, init=None, **self._connect_options()
            )
            async with self.connection() as connection:
                await connection.fetchval("SELECT 1")
        except Exception as error:
            raise to_store_fault(error, self.where) from error

    async def connect(self) -> Any:
        """Return a new connection of the caller's own."""
        import asyncpg

        self._check_open()
        try:
            return await asyncpg.connect(self.dsn, **self._connect_options())
        except Exception as error:
            raise to_store_fault(error, self.where) from error

    def _connect_options(self) -> dict[str, Any]:
        settings = {
            "application_name": "dragoman",
            "search_path": self.schema,
            # At least what the server has: an append is answered when it is on the disk, here and at the standby.
            "synchronous_commit": "on",
            "jit": "off",  # statements are short
            "idle_in_transaction_session_timeout": str(round(IDLE_TRANSACTION_TIMEOUT * 1000)),
        }
        return {
            "timeout": CONNECT_TIMEOUT,
            "command_timeout": STATEMENT_TIMEOUT,
            "server_settings": settings,
            "target_session_attrs": "read-write",
        }

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """Lend a connection of the pool."""
        self._check_open()
        try:
            connection = await self._pool.acquire(timeout=CONNECT_TIMEOUT)
        except TimeoutError as error:
            text = f"it gave no connection within {CONNECT_TIMEOUT:g} s; it is overloaded, or its network is cut"
            raise StoreFault("away", f"{self.where} cannot be reached: {text}") from error
        try:
            yield connection
        finally:
            await self._pool.release(connection)

    async def fetch(self, query: str, *values: Any) -> list[Any]:
        """Return the rows of a query. A connection that broke is replaced once."""
        return await self._retry(lambda connection: connection.fetch(query, *values))

    async def execute(self, statement: str, *values: Any) -> str:
        """Run one statement that can be repeated without harm; return what the server says."""
        return await self._retry(lambda connection: connection.execute(statement, *values))

    async def transact(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Run work in one transaction, again if it met another one, or lost its connection before its commit."""
        for attempt in range(MAX_TRIES):
            is_committing = False
            try:
                async with self.connection() as connection:
                    transaction = connection.transaction()
                    await transaction.start()
                    try:
                        result = await work(connection)
                        is_committing = not connection.is_closed()
                        await transaction.commit()
                        return result
                    except BaseException:
                        with suppress(Exception):
                            await transaction.rollback()
                        raise
            except StoreFault:
                raise
            except Exception as error:
                # A connection that broke is replaced once; a server that is away is not asked five times.
                is_replaced = not attempt and not is_committing and is_lost(error)
                is_replaced = is_replaced and not isinstance(error, asyncio.TimeoutError)
                if not (is_replaced or is_conflict(error)) or attempt + 1 == MAX_TRIES:
                    raise self._to_fault(error, is_writing=is_committing) from error
        raise AssertionError("unreachable")

    async def _retry(self, call: Callable[[Any], Awaitable[T]]) -> T:
        for attempt in range(2):
            try:
                async with self.connection() as connection:
                    return await call(connection)
            except Exception as error:
                if attempt or not is_lost(error) or isinstance(error, asyncio.TimeoutError):
                    raise self._to_fault(error) from error
        raise AssertionError("unreachable")

    def _to_fault(self, error: BaseException, *, is_writing: bool = False) -> BaseException:
        from dragoman.errors import ProtocolError

        return error if isinstance(error, ProtocolError) else to_store_fault(error, self.where, is_writing=is_writing)

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._pool is not None:
            try:
                await asyncio.wait_for(self._pool.close(), CONNECT_TIMEOUT)
            except (TimeoutError, Exception):
                self._pool.terminate()

    def _check_open(self) -> None:
        if self._is_closed:
            raise closed_error()


def _split_schema(url: str) -> tuple[str, str]:
    """Return the address for asyncpg, without our own option, and the schema."""
    parts = urlsplit(url)
    options = parse_qsl(parts.query, keep_blank_values=True)
    schema = next((value for name, value in options if name == "schema"), DEFAULT_SCHEMA)
    rest = urlencode([(name, value) for name, value in options if name != "schema"])
    return urlunsplit(parts._replace(query=rest)), schema
