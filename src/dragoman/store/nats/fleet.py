"""Nodes and signals in NATS: leases are messages that end by themselves, signals are core messages."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from dragoman.store.fleet import (
    Lease,
    NodeInfo,
    NodeStatus,
    SignalCallback,
    check_signal,
    lost_lease_fault,
    taken_fault,
)
from dragoman.store.nats.client import Conflict, NatsClient, StreamMessage
from dragoman.store.nats.index import Index
from dragoman.store.nats.messages import META, token

SIGNALS = "dgm.signal"

# How long a node that died is listed: its description ends by itself. Seconds.
REMEMBER_NODES = 86_400.0


class _Seat(msgspec.Struct, frozen=True):
    """A lease as it is stored."""

    key: str
    seconds: float
    info: NodeInfo


class NatsNodes:
    """Leases as messages with a time to live (contract: `Nodes`); another record describes the node for a day."""

    def __init__(self, client: NatsClient, index: Index) -> None:
        self._client = client
        self._index = index

    async def join(self, info: NodeInfo, *, seconds: float) -> Lease:
        lease = Lease(node=info.node, key=secrets.token_hex(8))
        held = await self._index.get(_lease_subject(info.node))
        if held is not None and (await self._status(held)).is_alive:
            raise taken_fault(info.node)
        try:
            await self._write(_Seat(lease.key, seconds, info), 0 if held is None else held.seq)
        except Conflict:
            raise taken_fault(info.node) from None
        return lease

    async def renew(self, lease: Lease, info: NodeInfo) -> None:
        held = await self._index.get(_lease_subject(lease.node)) or await self._index.get(_node_subject(lease.node))
        seat = None if held is None else _decode(held)
        if held is None or seat is None or seat.key != lease.key:
            raise lost_lease_fault(lease.node)
        # A lease that ended, and that nobody else took, is taken again.
        expected = held.seq if held.subject == _lease_subject(lease.node) else 0
        try:
            await self._write(_Seat(lease.key, seat.seconds, info), expected)
        except Conflict:
            raise lost_lease_fault(lease.node) from None

    async def leave(self, lease: Lease) -> None:
        held = await self._index.get(_lease_subject(lease.node))
        if held is not None and _decode(held).key == lease.key:
            await self._index.delete(_lease_subject(lease.node))
            await self._index.delete(_node_subject(lease.node))

    async def node(self, node: str) -> NodeStatus | None:
        held = await self._index.get(_lease_subject(node)) or await self._index.get(_node_subject(node))
        return None if held is None else await self._status(held)

    async def list_nodes(self) -> list[NodeStatus]:
        names = [_decode(message).info.node async for message in self._index.list("dgm.meta.node.*")]
        found = [await self.node(name) for name in sorted(names)]
        return [status for status in found if status is not None]

    async def _write(self, seat: _Seat, expected: int) -> None:
        data = msgspec.json.encode(seat)
        await self._client.publish(_lease_subject(seat.info.node), data, expected=expected, ttl=seat.seconds + 1)
        await self._client.publish(_node_subject(seat.info.node), data, ttl=REMEMBER_NODES)

    async def _status(self, held: StreamMessage) -> NodeStatus:
        """Return the status of a node by the clock of the servers. A description without a lease is of a dead node."""
        seat = _decode(held)
        answer = await self._client.call(f"STREAM.INFO.{META}")
        age = (datetime.fromisoformat(answer["ts"]) - held.time).total_seconds()
        if held.subject != _lease_subject(seat.info.node):
            age = max(age, seat.seconds + 1)
        return NodeStatus(info=seat.info, age=max(age, 0.0), seconds=seat.seconds)


def _decode(message: StreamMessage) -> _Seat:
    return msgspec.json.decode(message.data, type=_Seat)


def _lease_subject(node: str) -> str:
    return f"dgm.meta.lease.{token(node)}"


def _node_subject(node: str) -> str:
    return f"dgm.meta.node.{token(node)}"


class NatsSignals:
    """Signals as core messages (contract: `Signals`)."""

    def __init__(self, client: NatsClient) -> None:
        self._client = client
        self._callbacks: list[SignalCallback] = []

    async def start(self) -> None:
        """Listen; the client does so again after a lost connection."""
        await self._client.subscribe(SIGNALS, self._on_signal)

    async def send(self, topic: str, payload: Mapping[str, Any]) -> None:
        await self._client.send(SIGNALS, check_signal(topic, payload))

    def listen(self, callback: SignalCallback) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback) if callback in self._callbacks else None

    def _on_signal(self, data: bytes) -> None:
        try:
            topic, payload = msgspec.json.decode(data, type=tuple[str, dict[str, Any]])
        except msgspec.MsgspecError:
            return
        for callback in list(self._callbacks):
            callback(topic, payload)
