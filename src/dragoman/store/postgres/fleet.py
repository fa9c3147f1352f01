"""Nodes, signals and records in PostgreSQL: rows with the server's clock, NOTIFY, and versions from a sequence."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from dragoman.errors import StoreFault
from dragoman.store.fleet import (
    Lease,
    NodeInfo,
    NodeStatus,
    Record,
    SignalCallback,
    changed_record_fault,
    check_signal,
    lost_lease_fault,
    taken_fault,
)
from dragoman.store.postgres.database import Database

# How long a node that died is listed. Seconds.
REMEMBER_NODES = 86_400.0

# How long to wait before listening again after a lost connection. Seconds.
LISTEN_RETRY = 1.0

_AGE = "extract(epoch FROM clock_timestamp() - renewed)::double precision"


class PostgresNodes:
    """Leases as rows (contract: `Nodes`)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def join(self, info: NodeInfo, *, seconds: float) -> Lease:
        lease = Lease(node=info.node, key=secrets.token_hex(8))
        await self._database.execute(f"DELETE FROM nodes WHERE {_AGE} > $1", REMEMBER_NODES)
        rows = await self._database.fetch(
            "INSERT INTO nodes VALUES ($1, $2, $3, clock_timestamp(), $4) ON CONFLICT (name) DO UPDATE "
            "SET key = $2, info = $3, renewed = clock_timestamp(), seconds = $4 "
            "WHERE extract(epoch FROM clock_timestamp() - nodes.renewed) > nodes.seconds RETURNING key",
            info.node,
            lease.key,
            msgspec.json.encode(info),
            seconds,
        )
        if not rows:
            raise taken_fault(info.node)
        return lease

    async def renew(self, lease: Lease, info: NodeInfo) -> None:
        done = await self._database.execute(
            "UPDATE nodes SET renewed = clock_timestamp(), info = $3 WHERE name = $1 AND key = $2",
            lease.node,
            lease.key,
            msgspec.json.encode(info),
        )
        if done != "UPDATE 1":
            raise lost_lease_fault(lease.node)

    async def leave(self, lease: Lease) -> None:
        await self._database.execute("DELETE FROM nodes WHERE name = $1 AND key = $2", lease.node, lease.key)

    async def node(self, node: str) -> NodeStatus | None:
        rows = await self._database.fetch(f"SELECT info, {_AGE}, seconds FROM nodes WHERE name = $1", node)
        return _status(rows[0]) if rows else None

    async def list_nodes(self) -> list[NodeStatus]:
        query = f"SELECT info, {_AGE}, seconds FROM nodes WHERE {_AGE} < $1 ORDER BY name"
        return [_status(row) for row in await self._database.fetch(query, REMEMBER_NODES)]


def _status(row: Any) -> NodeStatus:
    info, age, seconds = row
    return NodeStatus(info=msgspec.json.decode(info, type=NodeInfo), age=age, seconds=seconds)


class PostgresRecords:
    """Records as rows (contract: `Records`)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, kind: str, key: str) -> Record | None:
        query = "SELECT key, value, version FROM records WHERE kind = $1 AND key = $2"
        rows = await self._database.fetch(query, kind, key)
        return _record(rows[0]) if rows else None

    async def put(self, kind: str, key: str, value: bytes, *, version: int | None = None) -> int:
        insert = "INSERT INTO records VALUES ($1, $2, $3, nextval('record_versions'))"
        change = "SET value = $3, version = nextval('record_versions')"
        if version is None:
            statement = f"{insert} ON CONFLICT (kind, key) DO UPDATE {change} RETURNING version"
        elif version == 0:
            statement = f"{insert} ON CONFLICT (kind, key) DO NOTHING RETURNING version"
        else:
            statement = f"UPDATE records {change} WHERE kind = $1 AND key = $2 AND version = $4 RETURNING version"
        values = (kind, key, value, *([version] if version else []))
        rows = await self._database.transact(lambda connection: connection.fetch(statement, *values))
        if not rows:
            raise changed_record_fault(kind, key)
        return int(rows[0][0])

    async def delete(self, kind: str, key: str) -> None:
        await self._database.execute("DELETE FROM records WHERE kind = $1 AND key = $2", kind, key)

    async def list_records(self, kind: str, prefix: str = "") -> list[Record]:
        query = "SELECT key, value, version FROM records WHERE kind = $1 AND starts_with(key, $2) ORDER BY key"
        return [_record(row) for row in await self._database.fetch(query, kind, prefix)]


def _record(row: Any) -> Record:
    key, value, version = row
    return Record(key=key, value=value, version=version)


class PostgresSignals:
    """Signals by NOTIFY on a channel of the schema (contract: `Signals`)."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._channel = f"{database.schema}_signals"
        self._callbacks: list[SignalCallback] = []
        self._task: asyncio.Task[None] | None = None
        self._is_listening = asyncio.Event()

    async def start(self) -> None:
        """Listen, now and whenever the connection was lost."""
        self._task = asyncio.get_running_loop().create_task(self._listen())
        waiting = asyncio.ensure_future(self._is_listening.wait())
        await asyncio.wait({waiting, self._task}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()

    async def send(self, topic: str, payload: Mapping[str, Any]) -> None:
        text = check_signal(topic, payload).decode()
        await self._database.execute("SELECT pg_notify($1, $2)", self._channel, text)

    def listen(self, callback: SignalCallback) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback) if callback in self._callbacks else None

    async def close(self) -> None:
        """Stop listening."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _listen(self) -> None:
        while True:
            with suppress(StoreFault, OSError):
                connection = await self._database.connect()
                ended = asyncio.Event()
                try:
                    connection.add_termination_listener(lambda _, ended=ended: ended.set())
                    await connection.add_listener(self._channel, self._on_notify)
                    self._is_listening.set()
                    await ended.wait()
                finally:
                    connection.terminate()
            await asyncio.sleep(LISTEN_RETRY)

    def _on_notify(self, *arguments: Any) -> None:
        try:
            topic, payload = msgspec.json.decode(arguments[-1], type=tuple[str, dict[str, Any]])
        except msgspec.MsgspecError:
            return  # somebody else used our channel
        for callback in list(self._callbacks):
            callback(topic, payload)
