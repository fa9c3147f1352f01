"""Open the engine at a PostgreSQL address: check the server, create the tables, start to listen."""

from __future__ import annotations

from dragoman.store.fleet import Engine, EngineOptions
from dragoman.store.postgres.database import Database
from dragoman.store.postgres.fleet import PostgresNodes, PostgresRecords, PostgresSignals
from dragoman.store.postgres.schema import check_guarantees, prepare_schema
from dragoman.store.postgres.store import PostgresStore
from dragoman.store.sealing import Sealer


class PostgresEngine(Engine, kw_only=True):
    """An engine whose tokens and roles are in the same database."""

    database: Database


async def open_postgres(url: str, options: EngineOptions) -> PostgresEngine:
    """Open the database at an address; raise StoreFault if it is away, unsafe or somebody else's."""
    database = Database(url)
    signals = PostgresSignals(database)
    try:
        await database.open()
        guarantees = await check_guarantees(database, trusts_engine=options.trusts_engine)
        await prepare_schema(database)
        await signals.start()
    except BaseException:
        await signals.close()
        await database.close()
        raise
    return PostgresEngine(
        name="postgres",
        store=PostgresStore(database, Sealer(options.secrets_key), options.owner),
        nodes=PostgresNodes(database),
        signals=signals,
        records=PostgresRecords(database),
        guarantees=guarantees,
        is_shared=True,
        before_close=signals.close,
        database=database,
    )
