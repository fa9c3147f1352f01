"""Metrics of a host as OpenMetrics text, from one table. Gauges are read when the text is rendered."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dragoman.host.host import Host
    from dragoman.transport.remote.server.endpoint import Endpoint

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

# Upper bounds of the commit histogram, from a memory store to a failing disk. Seconds.
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

# Labels come from our own tables. Should one not, a flood of them must not fill the memory.
MAX_LABELS = 64


class Family(NamedTuple):
    """One metric."""

    kind: str  # counter, gauge, histogram
    description: str
    label: str = ""  # its one label, if it has one
    unit: str = ""


# Without the prefix that every name gets.
FAMILIES: dict[str, Family] = {
    "connections": Family("counter", "Connections that were accepted."),
    "connections_open": Family("gauge", "Connections that are open now."),
    "members": Family("gauge", "People and programs that are in sessions now."),
    "sessions": Family("counter", "Sessions that were opened or read from the store."),
    "sessions_awake": Family("gauge", "Sessions whose agent runs now."),
    "prompts": Family("counter", "Prompts that were accepted."),
    "updates_delivered": Family("counter", "Messages about sessions that were sent to connections."),
    "refusals": Family("counter", "Requests that were refused.", "reason"),
    "agent_starts": Family("counter", "Agents that were started."),
    "agent_crashes": Family("counter", "Agents that exited by themselves."),
    "buffered_bytes": Family("gauge", "Bytes that clients have not read yet.", unit="bytes"),
    "commit_seconds": Family("histogram", "How long an append to the store took.", unit="seconds"),
    "start_time_seconds": Family("gauge", "When the host was started, in Unix time.", unit="seconds"),
}

# More of a node of a fleet.
FLEET_FAMILIES = {
    "lease_age_seconds": Family("gauge", "Seconds since this node renewed its lease.", unit="seconds"),
    "owned_sessions": Family("gauge", "Sessions that this node runs or keeps open."),
    "distant_rooms": Family("gauge", "Sessions of other nodes with members here."),
    "links": Family("gauge", "Links to other nodes."),
    "link_rtt_seconds": Family("gauge", "The longest round trip of a link.", unit="seconds"),
    "claims": Family("counter", "Sessions that this node claimed."),
    "takeovers": Family("counter", "Sessions that this node took over with members in them."),
    "fenced": Family("counter", "Sessions that another node claimed while this one ran them."),
    "relayed": Family("counter", "Calls that were sent to other nodes."),
    "nodes_away": Family("gauge", "Nodes that were here within a day and have no lease now."),
    "orphans": Family("gauge", "Sessions that were awake at nodes that are away now."),
    "replica_disagreements": Family("gauge", "Streams whose servers differ, and servers that do not answer."),
    "append_failures": Family("counter", "Appends that failed.", "outcome"),
}


class Metrics:
    """The metrics of one host."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.started_at = clock()
        self.families: dict[str, Family] = dict(FAMILIES)
        self._counts: dict[tuple[str, str], float] = {
            (name, ""): 0.0 for name, family in FAMILIES.items() if family.kind == "counter" and not family.label
        }
        self._gauges: dict[str, Callable[[], float]] = {"start_time_seconds": lambda: self.started_at}
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._sum = 0.0

    def count(self, name: str, label: str = "", amount: float = 1) -> None:
        """Add to a counter."""
        key = (name, label)
        if key not in self._counts and len(self._counts) > MAX_LABELS + len(FAMILIES):
            key = (name, "other")
        self._counts[key] = self._counts.get(key, 0.0) + amount

    def value(self, name: str, label: str = "") -> float:
        """Return the value of a counter."""
        return self._counts.get((name, label), 0.0)

    def set_source(self, name: str, read: Callable[[], float]) -> None:
        """Set the function that a gauge, or a counter kept elsewhere, is read from."""
        self._gauges[name] = read

    def observe_commit(self, seconds: float) -> None:
        """Add the duration of a commit."""
        self._buckets[bisect_left(BUCKETS, seconds)] += 1
        self._sum += seconds

    def render(self, build_labels: Mapping[str, str] | None = None) -> str:
        """Return all metrics as OpenMetrics. `build_labels` are the labels of the build info line."""
        lines = []
        if build_labels:
            labels = ",".join(f'{name}="{_escape(value)}"' for name, value in build_labels.items())
            lines += ["# TYPE dragoman_build info", "# HELP dragoman_build What runs here."]
            lines.append(f"dragoman_build_info{{{labels}}} 1")
        for name, family in self.families.items():
            full = f"dragoman_{name}"
            lines.append(f"# TYPE {full} {family.kind}")
            if family.unit:
                lines.append(f"# UNIT {full} {family.unit}")
            lines.append(f"# HELP {full} {family.description}")
            lines += _RENDERERS[family.kind](self, name, full, family)
        return "\n".join([*lines, "# EOF", ""])

    def _render_counter(self, name: str, full: str, family: Family) -> Iterable[str]:
        if name in self._gauges:  # counted elsewhere
            yield f"{full}_total {_format_number(self._gauges[name]())}"
            return
        for (known, label), value in sorted(self._counts.items()):
            if known == name:
                labels = f'{{{family.label}="{_escape(label)}"}}' if family.label else ""
                yield f"{full}_total{labels} {_format_number(value)}"

    def _render_gauge(self, name: str, full: str, family: Family) -> Iterable[str]:
        read = self._gauges.get(name)
        if read is not None:
            yield f"{full} {_format_number(read())}"

    def _render_histogram(self, name: str, full: str, family: Family) -> Iterable[str]:
        total = 0
        for bound, count in zip((*map(_format_number, BUCKETS), "+Inf"), self._buckets, strict=True):
            total += count
            yield f'{full}_bucket{{le="{bound}"}} {total}'
        yield f"{full}_count {total}"
        yield f"{full}_sum {_format_number(self._sum)}"


_RENDERERS: dict[str, Callable[[Metrics, str, str, Family], Iterable[str]]] = {
    "counter": Metrics._render_counter,
    "gauge": Metrics._render_gauge,
    "histogram": Metrics._render_histogram,
}


def _format_number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def register_sources(metrics: Metrics, host: Host, endpoint: Endpoint) -> None:
    """Set the functions that read counters and gauges of a host."""
    counters = host.counters
    sources: dict[str, Callable[[], float]] = {
        "sessions": lambda: counters.sessions,
        "prompts": lambda: counters.prompts,
        "updates_delivered": lambda: counters.delivered_entries,
        "agent_starts": lambda: counters.agent_starts,
        "agent_crashes": lambda: counters.agent_crashes,
        "connections_open": lambda: len(endpoint.principals),
        "sessions_awake": lambda: sum(1 for room in host.rooms.values() if room.agent.is_running),
        "members": lambda: sum(len(room.members) for room in host.rooms.values()),
        "buffered_bytes": lambda: endpoint.buffered_bytes,
    }
    if (fleet := host.fleet) is not None:
        metrics.families |= FLEET_FAMILIES
        sources |= {
            "lease_age_seconds": lambda: min(fleet.lease.age, 1e9),
            "owned_sessions": lambda: len(host.rooms),
            "distant_rooms": lambda: len(fleet.ownership.distant_rooms),
            "links": lambda: len(fleet.links.links),
            "link_rtt_seconds": lambda: max((link.round_trip for link in fleet.links.links.values()), default=0.0),
            "claims": lambda: sum(fleet.counters.claims.values()),
            "takeovers": lambda: fleet.counters.takeovers,
            "fenced": lambda: fleet.counters.fenced,
            "relayed": lambda: fleet.counters.relayed,
            "nodes_away": lambda: len(fleet.nodes_away()),
            "orphans": lambda: sum(int(status.info.state.get("awake") or 0) for status in fleet.nodes_away()),
            "replica_disagreements": lambda: len(fleet.disagreements),
        }
    for name, read in sources.items():
        metrics.set_source(name, read)
