"""Metrics of a host are valid OpenMetrics."""

from __future__ import annotations

import re

from dragoman.host.http.metrics import FAMILIES, Metrics
from dragoman.store.contract import Draft
from dragoman.store.memory import MemoryStore
from dragoman.store.wrappers import TimedStore

SAMPLE = re.compile(
    r'(dragoman_[a-z_]+)(\{[a-z]+="(?:[^"\\\n]|\\.)*"(?:,[a-z]+="(?:[^"\\\n]|\\.)*")*\})? (-?[0-9.e+-]+)'
)


def test_every_metric_is_rendered_and_the_end_is_marked() -> None:
    metrics = Metrics(lambda: 12.5)
    metrics.count("refusals", "no_token")
    metrics.count("refusals", 'a "quoted"\nreason')
    metrics.set_source("connections_open", lambda: 3)
    text = metrics.render({"version": "1.2"})
    assert text.endswith("# EOF\n")
    lines = text.splitlines()
    for name, family in FAMILIES.items():
        assert f"# TYPE dragoman_{name} {family.kind}" in lines
        assert not family.unit or name.endswith(family.unit)  # a unit must be the end of the name
    samples = [line for line in lines if not line.startswith("#")]
    assert all(SAMPLE.fullmatch(line) for line in samples), samples
    assert 'dragoman_build_info{version="1.2"} 1' in samples
    assert 'dragoman_refusals_total{reason="no_token"} 1' in samples
    assert 'dragoman_refusals_total{reason="a \\"quoted\\"\\nreason"} 1' in samples
    assert "dragoman_prompts_total 0" in samples
    assert "dragoman_connections_open 3" in samples
    assert "dragoman_start_time_seconds 12.5" in samples


def test_buckets_are_cumulative() -> None:
    metrics = Metrics()
    for seconds in (0.0001, 0.002, 0.002, 99.0):
        metrics.observe_commit(seconds)
    buckets = re.findall(r'_bucket\{le="([^"]+)"\} (\d+)', metrics.render())
    counts = dict(buckets)
    assert (counts["0.0005"], counts["0.001"], counts["0.0025"], counts["5"], counts["+Inf"]) == (
        "1",
        "1",
        "3",
        "3",
        "4",
    )
    assert "dragoman_commit_seconds_count 4" in metrics.render()


def test_a_flood_of_reasons_does_not_fill_the_memory() -> None:
    metrics = Metrics()
    for number in range(10_000):
        metrics.count("refusals", f"reason {number}")
    assert metrics.render().count("dragoman_refusals_total") < 200
    assert metrics.value("refusals", "other") > 9_000


async def test_commits_of_a_store_are_measured() -> None:
    metrics = Metrics()
    store = TimedStore(MemoryStore(), metrics.observe_commit)
    await store.append("s", [Draft(kind="opened", actor="user", time="2026-01-01T00:00:00Z", body={})])
    assert [summary.session_id for summary in await store.sessions()] == ["s"]
    assert "dragoman_commit_seconds_count 1" in metrics.render()
