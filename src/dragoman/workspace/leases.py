"""Leases of files: which session may write which file now. All paths of a call are leased together, or none.

Without I/O: the caller passes the time. `coordination` waits for leases and names their holders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

# How long a lease outlasts the last sign of life of its turn. Long enough for a slow model, short enough that a turn
# that hangs does not block the others for the rest of the day. Seconds.
LEASE_SECONDS = 120.0


class Holder(Protocol):
    """Who can hold a lease."""

    @property
    def lenders(self) -> Iterator[Holder]:
        """Those whose leases this one may use: they wait for its answer."""
        ...

    @property
    def activity(self) -> int | None:
        """A number that grows with each sign of life of the running turn; None if no turn runs."""
        ...


class Lease:
    """One file, who may write it, and until when."""

    __slots__ = ("_activity", "_expires", "holder", "path")

    def __init__(self, path: str, holder: Holder, now: float) -> None:
        self.path = path
        self.holder = holder
        self._activity = holder.activity
        self._expires = now + LEASE_SECONDS

    def renew(self, now: float) -> None:
        """Extend it."""
        self._activity = self.holder.activity
        self._expires = now + LEASE_SECONDS

    def is_expired(self, now: float) -> bool:
        """Tell whether it is over. A turn that showed a sign of life since the last look extends it."""
        if self.holder.activity != self._activity:
            self.renew(now)
        return now >= self._expires

    def remaining(self, now: float) -> float:
        """Return the seconds until it expires, unless it is extended."""
        return max(0.0, self._expires - now)


class LeaseTable:
    """All leases, by path and by holder."""

    def __init__(self) -> None:
        self._by_path: dict[str, Lease] = {}
        self._by_holder: dict[Holder, dict[str, Lease]] = {}

    def take(self, holder: Holder, paths: Iterable[str], now: float) -> Lease | None:
        """Lease all these paths, or none and return the lease that is in the way."""
        known = self._by_path
        new: list[str] = []
        for path in paths:
            lease = known.get(path)
            if lease is None:
                new.append(path)
            elif lease.holder is holder:
                lease.renew(now)
            elif lease.is_expired(now):
                new.append(path)
            elif not any(lease.holder is lender for lender in holder.lenders):
                return lease
        own = self._by_holder.setdefault(holder, {})
        for path in new:
            before = known.get(path)
            if before is not None:
                self._by_holder.get(before.holder, {}).pop(path, None)
            known[path] = own[path] = Lease(path, holder, now)
        return None

    def release(self, holder: Holder, paths: Iterable[str] | None = None) -> None:
        """Give up some leases of a holder, or all."""
        own = self._by_holder.get(holder, {})
        for path in list(own) if paths is None else paths:
            if own.pop(path, None) is not None:
                del self._by_path[path]
        if not own:
            self._by_holder.pop(holder, None)

    def move(self, giver: Holder, taker: Holder, now: float) -> None:
        """Hand all leases of one holder to another."""
        for path in list(self._by_holder.get(giver, {})):
            self.release(giver, [path])
            self.take(taker, [path], now)

    def current(self, now: float) -> list[Lease]:
        """Return the leases that hold, by path."""
        return [self._by_path[path] for path in sorted(self._by_path) if not self._by_path[path].is_expired(now)]
