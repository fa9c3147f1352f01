"""Anchors of audit logs: each node keeps the end of its own log in the engine, sealed with the key of the fleet.

An entry that is removed or changed differs from an anchor; an anchor that is removed is missed by those of other nodes.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence

import msgspec

from dragoman.errors import StoreFault
from dragoman.ids import now
from dragoman.store.audit import AuditLog, Checkpoint
from dragoman.store.fleet import Records

KIND = "audit"

# How many anchors of a node are kept: about a week of busy minutes. Older ones prove nothing that these do not.
MAX_ANCHORS = 10_000

_KEY_PURPOSE = b"dragoman audit anchor"


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """The end of the audit log of one node at one time."""

    node: str
    number: int  # 1, 2, 3, …
    seq: int
    hash: str
    time: str
    seen: dict[str, int] = {}  # the newest anchor of each other node
    seal: str = ""

    def sealed(self, key: bytes) -> Anchor:
        """Return it with the seal that only nodes with the key can make."""
        plain = msgspec.structs.replace(self, seal="")
        text = msgspec.json.encode(plain, order="sorted")
        return msgspec.structs.replace(plain, seal=hmac.new(key, text, hashlib.sha256).hexdigest())


def anchor_key(secrets_key: bytes) -> bytes:
    """Return the key of the seals, made from the key that all nodes have."""
    return hmac.new(secrets_key, _KEY_PURPOSE, hashlib.sha256).digest()


async def read_anchors(records: Records) -> list[Anchor]:
    """Return the anchors of all nodes, by node and number."""
    found = [msgspec.json.decode(record.value, type=Anchor) for record in await records.list_records(KIND)]
    return sorted(found, key=lambda anchor: (anchor.node, anchor.number))


class AuditAnchors:
    """The anchors of one node."""

    def __init__(self, records: Records, node: str, log: AuditLog, key: bytes) -> None:
        self._records = records
        self._node = node
        self._log = log
        self._key = key
        self._last: Checkpoint | None = None

    async def anchor(self) -> Anchor | None:
        """Keep the end of the log in the engine. None: it did not change since the last time."""
        end = self._log.head()
        if end == self._last or not end.seq:
            return None
        known = await read_anchors(self._records)
        newest = {anchor.node: anchor.number for anchor in known}
        number = newest.pop(self._node, 0) + 1
        made = Anchor(node=self._node, number=number, seq=end.seq, hash=end.hash, time=now(), seen=newest)
        value = msgspec.json.encode(made.sealed(self._key))
        try:
            await self._records.put(KIND, _record_key(self._node, number), value, version=0)
        except StoreFault as fault:
            if fault.why != "fenced":  # an earlier try without an answer
                raise
        self._last = end
        if number > MAX_ANCHORS:
            await self._records.delete(KIND, _record_key(self._node, number - MAX_ANCHORS))
        return made


def verify_anchors(anchors: Sequence[Anchor], logs: Mapping[str, AuditLog], key: bytes) -> dict[str, list[str]]:
    """Return what is wrong, by node: entries or logs that are missing, anchors that are forged or missing."""
    faults: dict[str, list[str]] = {}
    newest: dict[str, int] = {}
    for anchor in anchors:
        if not hmac.compare_digest(anchor.sealed(key).seal, anchor.seal):
            text = f"anchor {anchor.number} has a wrong seal: it was forged, or made with another key"
            faults.setdefault(anchor.node, []).append(text)
        before = newest.get(anchor.node)
        if before is not None and anchor.number != before + 1:
            faults.setdefault(anchor.node, []).append(f"anchors {before + 1} to {anchor.number - 1} are missing")
        newest[anchor.node] = anchor.number
    for anchor in anchors:
        for node, number in anchor.seen.items():
            if number > newest.get(node, 0):
                text = f"anchor {number} is missing: node {anchor.node} saw it"
                if text not in faults.setdefault(node, []):
                    faults[node].append(text)
    for node in {anchor.node for anchor in anchors} | set(logs):
        if node not in logs:
            faults.setdefault(node, []).append(f"its log is not here; name it with --chain {node}=FILE")
            continue
        expected = [Checkpoint(anchor.seq, anchor.hash) for anchor in anchors if anchor.node == node]
        checked = logs[node].verify(expected)
        found = [f"line {fault.line}: {fault.what}" for fault in checked.faults]
        faults.setdefault(node, []).extend(dict.fromkeys(found))
    return {node: found for node, found in sorted(faults.items()) if found}


def _record_key(node: str, number: int) -> str:
    return f"{node}/{number:010d}"
