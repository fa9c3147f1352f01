"""Indexes are fetched, kept and shown with their age; what cannot be had is said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dragoman.config.registry_section import OFFICIAL_URL
from dragoman.registry.fault import RegistryFault
from dragoman.registry.fetch.http import Http
from dragoman.registry.index.lookup import find_by_word, require_entry
from dragoman.registry.index.sources import Catalog, load_catalog
from tests.registry.stand_in import Site, serve

NOW = datetime.now(UTC)


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as running:
        yield running


def index(*ids: str, version: str = "1.0.0") -> bytes:
    agents: list[Any] = [
        {"id": id, "name": id, "version": "1.0.0", "distribution": {"npx": {"package": f"{id}@1.0.0"}}} for id in ids
    ]
    return json.dumps({"version": version, "agents": agents}).encode()


def load(cache: Path, *urls: str, **how: Any) -> Catalog:
    return load_catalog(urls, str(cache), Http, **{"now": NOW, **how})


def ids(catalog: Catalog) -> list[str]:
    return [found.entry.id for found in catalog.all()]


@pytest.mark.item("OFF-05")
def test_an_index_is_fetched_once_a_day(site: Site, tmp_path: Path) -> None:
    site.pages["/registry.json"] = index("one")
    url = f"{site.url}/registry.json"
    for _ in range(2):
        assert ids(load(tmp_path, url)) == ["one"]
    assert len(site.requests) == 1
    site.pages["/registry.json"] = index("one", "two")
    assert ids(load(tmp_path, url, now=NOW + timedelta(days=2))) == ["one", "two"]
    assert ids(load(tmp_path, url, refresh=True)) == ["one", "two"]
    assert len(site.requests) == 3


def test_an_unchanged_index_is_not_fetched_again(site: Site, tmp_path: Path) -> None:
    site.pages["/registry.json"], site.etags["/registry.json"] = index("one"), '"a"'
    url = f"{site.url}/registry.json"
    load(tmp_path, url)
    later = load(tmp_path, url, now=NOW + timedelta(days=2))
    assert ids(later) == ["one"]
    assert later.sources[0].date > NOW.isoformat()
    assert site.requests[1][1]["If-None-Match"] == '"a"'


@pytest.mark.item("RG-16")
def test_a_kept_index_is_shown_when_the_registry_does_not_answer(site: Site, tmp_path: Path) -> None:
    url = f"{site.url}/registry.json"
    site.pages["/registry.json"] = index("one")
    load(tmp_path, url)
    for page in (None, b"<html>", index("new", version="2.0.0")):
        site.pages["/registry.json"] = page or (lambda handler: handler.answer(500, b""))
        catalog = load(tmp_path, url, now=NOW + timedelta(days=2), refresh=True)
        assert ids(catalog) == ["one"]
        assert catalog.sources[0].note
    offline = load(tmp_path, url, offline=True, now=NOW + timedelta(days=2))
    assert offline.sources[0].note == "offline"
    assert offline.sources[0].date.startswith(str(NOW.date()))


def test_a_registry_that_did_not_answer_is_left_alone_for_a_while(site: Site, tmp_path: Path) -> None:
    url = f"{site.url}/registry.json"
    for _ in range(3):
        with pytest.raises(RegistryFault, match="404"):
            load(tmp_path, url, now=datetime.now(UTC))  # the failure is dated by the file system
    assert len(site.requests) == 1


@pytest.mark.item("RG-16")
def test_without_a_network_the_snapshot_of_the_official_registry_is_shown_with_its_date(tmp_path: Path) -> None:
    catalog = load(tmp_path, OFFICIAL_URL, offline=True)
    assert catalog.sources[0].is_snapshot
    assert catalog.sources[0].date == "2026-10-01"
    assert "goose" in ids(catalog)


def test_a_damaged_cache_is_not_believed(site: Site, tmp_path: Path) -> None:
    site.pages["/registry.json"] = index("one")
    load(tmp_path, f"{site.url}/registry.json")
    [kept] = tmp_path.glob("*/registry.json")
    kept.write_bytes(index("evil"))
    assert ids(load(tmp_path, f"{site.url}/registry.json")) == ["one"]
    assert len(site.requests) == 2


def test_an_earlier_source_hides_the_ids_of_later_ones(tmp_path: Path) -> None:
    for name, entries in (("a", ("x", "y")), ("b", ("y", "z"))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "registry.json").write_bytes(index(*entries))
    catalog = load(tmp_path / "cache", str(tmp_path / "a"), str(tmp_path / "b" / "registry.json"))
    assert ids(catalog) == ["x", "y", "z"]
    assert [source.url for source in catalog.hidden("y")] == [str(tmp_path / "b" / "registry.json")]


def test_one_unreadable_source_does_not_hide_the_others(tmp_path: Path) -> None:
    (tmp_path / "registry.json").write_bytes(index("x"))
    catalog = load(tmp_path / "cache", str(tmp_path / "gone"), str(tmp_path))
    assert ids(catalog) == ["x"]
    assert "gone" in catalog.problems[0]


def test_a_word_finds_the_entry_that_people_mean(tmp_path: Path) -> None:
    catalog = load(tmp_path, OFFICIAL_URL, offline=True)
    words = {"claude": "claude-acp", "codex": "codex-acp", "gemini": "gemini", "qwen": "qwen-code", "goose": "goose"}
    for word, id in words.items():
        found = find_by_word(catalog, word)
        assert found is not None
        assert found.entry.id == id
    with pytest.raises(RegistryFault, match="did you mean goose"):
        require_entry(catalog, "gose")
    with pytest.raises(RegistryFault, match="quarantine"):
        require_entry(catalog, "crow-cli")
