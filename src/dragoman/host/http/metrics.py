"""What a host counts, and how it tells it: OpenMetrics text, by one table.

Takes counts and durations as they happen; `text` gives all of it. What is a state and not a count (connections open,
sessions awake) is asked for when somebody wants to know. Knows nothing of what it counts.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from dragoman.store.contract import Draft, Entry, Store

if TYPE_CHECKING:
    from dragoman.host.host import House
    from dragoman.transport.remote.server.endpoint import Endpoint

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

# Upper bounds of the commit histogram: a memory store at the one end, a disk in trouble at the other. Seconds.
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

# Reasons of refusals come from tables of ours; should one not, a flood of them must not fill the memory.
MOST_LABELS = 64


class Family(NamedTuple):
    """One row of the page."""

    kind: str  # counter, gauge, histogram
    about: str
    label: str = ""  # its one label, if it has one
    unit: str = ""


# Without the prefix that every name gets.
FAMILIES: dict[str, Family] = {
    "connections": Family("counter", "Connections that were accepted."),
    "connections_open": Family("gauge", "Connections that are open now."),
    "members": Family("gauge", "People and programs that are in sessions now."),
    "sessions": Family("counter", "Sessions that were opened or woken."),
    "sessions_awake": Family("gauge", "Sessions whose agent runs now."),
    "prompts": Family("counter", "Prompts that were taken."),
    "updates_delivered": Family("counter", "Messages about sessions that were handed to connections."),
    "refusals": Family("counter", "Requests that were refused.", "reason"),
    "agent_starts": Family("counter", "Agents that were started."),
    "agent_crashes": Family("counter", "Agents that ended by themselves."),
    "buffered_bytes": Family("gauge", "Bytes that wait for clients to read them.", unit="bytes"),
    "commit_seconds": Family("histogram", "How long a write to the store took.", unit="seconds"),
    "start_time_seconds": Family("gauge", "When the host was started, in Unix time.", unit="seconds"),
}


class Metrics:
    """What one host counted."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.began = clock()
        self._counts: dict[tuple[str, str], float] = {
            (name, ""): 0.0 for name, family in FAMILIES.items() if family.kind == "counter" and not family.label
        }
        self._gauges: dict[str, Callable[[], float]] = {"start_time_seconds": lambda: self.began}
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._sum = 0.0

    def count(self, name: str, label: str = "", amount: float = 1) -> None:
        """One more of these."""
        key = (name, label)
        if key not in self._counts and len(self._counts) > MOST_LABELS + len(FAMILIES):
            key = (name, "other")
        self._counts[key] = self._counts.get(key, 0.0) + amount

    def counted(self, name: str, label: str = "") -> float:
        """How many there were."""
        return self._counts.get((name, label), 0.0)

    def watch(self, name: str, read: Callable[[], float]) -> None:
        """Where a state, or a count that somebody else keeps, is read from."""
        self._gauges[name] = read

    def took(self, seconds: float) -> None:
        """How long a commit took."""
        self._buckets[bisect_left(BUCKETS, seconds)] += 1
        self._sum += seconds

    def text(self, about: Mapping[str, str] | None = None) -> str:
        """All of it, as OpenMetrics; `about` are labels of the one line that says what this is."""
        lines = []
        if about:
            labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in about.items())
            lines += ["# TYPE dragoman_build info", "# HELP dragoman_build What runs here."]
            lines.append(f"dragoman_build_info{{{labels}}} 1")
        for name, family in FAMILIES.items():
            full = f"dragoman_{name}"
            lines.append(f"# TYPE {full} {family.kind}")
            if family.unit:
                lines.append(f"# UNIT {full} {family.unit}")
            lines.append(f"# HELP {full} {family.about}")
            lines += _SAMPLES[family.kind](self, name, full, family)
        return "\n".join([*lines, "# EOF", ""])

    def _counter(self, name: str, full: str, family: Family) -> Iterable[str]:
        if name in self._gauges:  # somebody else counts
            yield f"{full}_total {_number(self._gauges[name]())}"
            return
        for (known, label), value in sorted(self._counts.items()):
            if known == name:
                labels = f'{{{family.label}="{_escaped(label)}"}}' if family.label else ""
                yield f"{full}_total{labels} {_number(value)}"

    def _gauge(self, name: str, full: str, family: Family) -> Iterable[str]:
        read = self._gauges.get(name)
        if read is not None:
            yield f"{full} {_number(read())}"

    def _histogram(self, name: str, full: str, family: Family) -> Iterable[str]:
        total = 0
        for bound, count in zip((*map(_number, BUCKETS), "+Inf"), self._buckets, strict=True):
            total += count
            yield f'{full}_bucket{{le="{bound}"}} {total}'
        yield f"{full}_count {total}"
        yield f"{full}_sum {_number(self._sum)}"


_SAMPLES: dict[str, Callable[[Metrics, str, str, Family], Iterable[str]]] = {
    "counter": Metrics._counter,
    "gauge": Metrics._gauge,
    "histogram": Metrics._histogram,
}


class Timed:
    """A store whose commits are timed; in all else it is the store."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, session_id: str, drafts: list[Draft]) -> list[Entry]:
        """Add drafts, and note how long it took."""
        begun = time.perf_counter()
        entries = await self._store.append(session_id, drafts)
        self._metrics.took(time.perf_counter() - begun)
        return entries


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def watch(metrics: Metrics, house: House, endpoint: Endpoint) -> None:
    """Where the numbers of a host come from that others keep."""
    tally = house.tally
    for name in ("sessions", "prompts"):
        metrics.watch(name, lambda name=name: getattr(tally, name))  # type: ignore[misc]
    metrics.watch("updates_delivered", lambda: tally.delivered)
    metrics.watch("agent_starts", lambda: tally.starts)
    metrics.watch("agent_crashes", lambda: tally.crashes)
    metrics.watch("connections_open", lambda: len(endpoint.visitors))
    metrics.watch("sessions_awake", lambda: sum(1 for room in house.rooms.values() if room.is_awake))
    metrics.watch("members", lambda: sum(len(room.members) for room in house.rooms.values()))
    metrics.watch("buffered_bytes", lambda: endpoint.buffered)
