"""The fleet of a store that one machine uses: nodes, signals and records in this process."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from dragoman.store.contract import Store
from dragoman.store.fleet import (
    Engine,
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


class _Seat(NamedTuple):
    key: str
    info: NodeInfo
    renewed: float
    seconds: float

    @property
    def status(self) -> NodeStatus:
        return NodeStatus(info=self.info, age=time.monotonic() - self.renewed, seconds=self.seconds)


class LocalNodes:
    """Nodes in a dict (contract: `Nodes`)."""

    def __init__(self) -> None:
        self._seats: dict[str, _Seat] = {}

    async def join(self, info: NodeInfo, *, seconds: float) -> Lease:
        seat = self._seats.get(info.node)
        if seat is not None and seat.status.is_alive:
            raise taken_fault(info.node)
        lease = Lease(node=info.node, key=secrets.token_hex(8))
        self._seats[info.node] = _Seat(lease.key, info, time.monotonic(), seconds)
        return lease

    async def renew(self, lease: Lease, info: NodeInfo) -> None:
        seat = self._seats.get(lease.node)
        if seat is None or seat.key != lease.key:
            raise lost_lease_fault(lease.node)
        self._seats[lease.node] = seat._replace(info=info, renewed=time.monotonic())

    async def leave(self, lease: Lease) -> None:
        seat = self._seats.get(lease.node)
        if seat is not None and seat.key == lease.key:
            del self._seats[lease.node]

    async def node(self, node: str) -> NodeStatus | None:
        seat = self._seats.get(node)
        return None if seat is None else seat.status

    async def list_nodes(self) -> list[NodeStatus]:
        return [self._seats[node].status for node in sorted(self._seats)]


class LocalSignals:
    """Signals to callbacks in this process (contract: `Signals`)."""

    def __init__(self) -> None:
        self._callbacks: list[SignalCallback] = []

    async def send(self, topic: str, payload: Mapping[str, Any]) -> None:
        data = check_signal(topic, payload)
        for callback in list(self._callbacks):
            asyncio.get_running_loop().call_soon(callback, *msgspec.json.decode(data))

    def listen(self, callback: SignalCallback) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback) if callback in self._callbacks else None


class LocalRecords:
    """Records in a dict (contract: `Records`)."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, str], Record] = {}
        self._version = 0

    async def get(self, kind: str, key: str) -> Record | None:
        return self._records.get((kind, key))

    async def put(self, kind: str, key: str, value: bytes, *, version: int | None = None) -> int:
        last = self._records.get((kind, key))
        if version is not None and version != (0 if last is None else last.version):
            raise changed_record_fault(kind, key)
        self._version += 1
        self._records[kind, key] = Record(key=key, value=value, version=self._version)
        return self._version

    async def delete(self, kind: str, key: str) -> None:
        self._records.pop((kind, key), None)

    async def list_records(self, kind: str, prefix: str = "") -> list[Record]:
        return [record for (of, key), record in sorted(self._records.items()) if of == kind and key.startswith(prefix)]


def local_engine(name: str, store: Store, guarantees: list[str]) -> Engine:
    """Return the engine of a store that one process serves."""
    return Engine(
        name=name,
        store=store,
        nodes=LocalNodes(),
        signals=LocalSignals(),
        records=LocalRecords(),
        guarantees=guarantees,
    )
