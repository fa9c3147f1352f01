"""What nodes of a fleet share besides logs: who is alive, short signals, small records with compare-and-set.

An engine has all of it at one address (`urls.open_engine`). Errors are StoreFaults: away, unknown, fenced, taken.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec

from dragoman.errors import StoreFault
from dragoman.store.contract import Store
from dragoman.store.formats import FIRST_FORMAT

# The longest payload of a signal as JSON: PostgreSQL takes less than 8,000 bytes with the topic. Bytes.
MAX_SIGNAL_BYTES = 7500


class NodeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A node as it describes itself to the others."""

    node: str
    url: str = ""  # where other nodes reach it
    labels: tuple[str, ...] = ()
    version: str = ""
    state: dict[str, Any] = {}  # anything that others should know, as JSON


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The right of one start of a node to its name."""

    node: str
    key: str  # random: two starts with one name differ in it


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A node as the engine knows it."""

    info: NodeInfo
    age: float  # seconds since it renewed its lease, by the clock of the engine
    seconds: float  # how long a renewal counts

    @property
    def is_alive(self) -> bool:
        """Whether its lease counts."""
        return self.age <= self.seconds


class Nodes(Protocol):
    """The nodes of a fleet: one lease each, renewed by its holder."""

    async def join(self, info: NodeInfo, *, seconds: float) -> Lease:
        """Take a name; raise StoreFault("taken") while another start of that name is alive."""
        ...

    async def renew(self, lease: Lease, info: NodeInfo) -> None:
        """Renew a lease and describe the node anew; raise StoreFault("fenced") if somebody else has the name."""
        ...

    async def leave(self, lease: Lease) -> None:
        """Give a name up. Does nothing if somebody else has it."""
        ...

    async def node(self, node: str) -> NodeStatus | None:
        """Return one node, alive or not; None if it left or was never there."""
        ...

    async def list_nodes(self) -> list[NodeStatus]:
        """Return all nodes by name, those that died within a day too."""
        ...


# Gets the topic and the payload of a signal.
SignalCallback = Callable[[str, dict[str, Any]], None]


class Signals(Protocol):
    """Hints from node to node. They may be lost, and each node gets its own too."""

    async def send(self, topic: str, payload: Mapping[str, Any]) -> None:
        """Tell all nodes; a few times a second, not for each entry."""
        ...

    def listen(self, callback: SignalCallback) -> Callable[[], None]:
        """Call back for every signal; return a function that stops it."""
        ...


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A small value; the version changes with each write."""

    key: str
    value: bytes
    version: int


class Records(Protocol):
    """Small values by kind and key."""

    async def get(self, kind: str, key: str) -> Record | None:
        """Return a record, never a stale one; None if there is none."""
        ...

    async def put(self, kind: str, key: str, value: bytes, *, version: int | None = None) -> int:
        """Write a record and return its version; raise StoreFault("fenced") if `version` is not the last (0: none)."""
        ...

    async def delete(self, kind: str, key: str) -> None:
        """Delete a record, if there is one."""
        ...

    async def list_records(self, kind: str, prefix: str = "") -> list[Record]:
        """Return the records of a kind whose keys start so, by key."""
        ...


async def _find_nothing() -> list[str]:
    return []


async def _close_nothing() -> None:
    pass


class Engine(msgspec.Struct, kw_only=True):
    """Everything that one address names."""

    name: str
    store: Store
    nodes: Nodes
    signals: Signals
    records: Records
    guarantees: list[str]  # what an acknowledgement means, in words
    is_shared: bool = False  # several machines can use it
    disagreements: Callable[[], Awaitable[list[str]]] = _find_nothing  # which replicas differ, in words
    before_close: Callable[[], Awaitable[None]] = _close_nothing  # ends what uses the connections of the store
    after_close: Callable[[], Awaitable[None]] = _close_nothing
    format: int = FIRST_FORMAT  # in which entries are written, and sent from node to node

    def use_format(self, format: int) -> None:
        """Write entries in this format from now on."""
        self.format = format
        if hasattr(self.store, "entry_format"):  # one machine alone writes the newest
            self.store.entry_format = format

    async def close(self) -> None:
        """Close the store and everything else. Idempotent."""
        await self.before_close()
        await self.store.close()
        await self.after_close()


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine is opened."""

    secrets_key: bytes | None = None  # seals credentials; None: they last as long as the process
    trusts_engine: bool = False  # accept guarantees that cannot be seen
    owner: str = ""  # sees every session that has no members
    report: Callable[[str], None] = lambda _: None


def taken_fault(node: str) -> StoreFault:
    """Return the error for the name of a node that is alive."""
    return StoreFault("taken", f"another node is called {node!r} and is alive; start this one with another --node NAME")


def lost_lease_fault(node: str) -> StoreFault:
    """Return the error for a lease that somebody else has now."""
    return StoreFault("fenced", f"the lease of node {node!r} ended, and its name is no longer this node's")


def changed_record_fault(kind: str, key: str) -> StoreFault:
    """Return the error for a record that changed since it was read."""
    return StoreFault("fenced", f"the record {kind}/{key} was changed by another node; read it again")


def check_signal(topic: str, payload: Mapping[str, Any]) -> bytes:
    """Return a signal as JSON; raise ValueError if it is too long."""
    data = msgspec.json.encode([topic, dict(payload)])
    if len(data) > MAX_SIGNAL_BYTES:
        raise ValueError(f"the signal {topic!r} has {len(data)} bytes; at most {MAX_SIGNAL_BYTES} are sent")
    return data
