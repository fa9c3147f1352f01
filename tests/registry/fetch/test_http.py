"""Downloads by the rules: https only, bounded, resumed, and never with credentials in a message."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.registry.fault import RegistryFault
from dragoman.registry.fetch import http
from dragoman.registry.fetch.address import check_address, mirrored, shown_address
from dragoman.registry.fetch.http import Http
from tests.registry.stand_in import Site, serve


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as running:
        yield running


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_download_is_hashed_and_its_progress_told(site: Site, tmp_path: Path) -> None:
    site.pages["/a"] = b"x" * 600_000
    seen: list[tuple[int, int | None]] = []
    got = Http().download(f"{site.url}/a", str(tmp_path / "a"), progress=lambda done, all: seen.append((done, all)))
    assert got == (sha256(b"x" * 600_000), 600_000)
    assert seen[-1] == (600_000, 600_000)


@pytest.mark.item("RG-14")
def test_a_partial_download_is_continued(site: Site, tmp_path: Path) -> None:
    data = bytes(range(256)) * 100
    site.pages["/a"] = data
    (tmp_path / "a").write_bytes(data[:1000])
    assert Http().download(f"{site.url}/a", str(tmp_path / "a")) == (sha256(data), len(data))
    assert site.requests[0][1]["Range"] == "bytes=1000-"
    assert Http().download(f"{site.url}/a", str(tmp_path / "a")) == (sha256(data), len(data))


@pytest.mark.item("RG-14")
def test_a_download_that_was_cut_off_says_so_and_keeps_its_part(site: Site, tmp_path: Path) -> None:
    def cut(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b"x" * 400)
        handler.close_connection = True

    site.pages["/a"] = cut
    with pytest.raises(RegistryFault, match="continued"):
        Http().download(f"{site.url}/a", str(tmp_path / "a"))
    assert (tmp_path / "a").stat().st_size == 400


@pytest.mark.item("RG-14")
def test_a_redirect_to_http_elsewhere_is_refused(site: Site, tmp_path: Path) -> None:
    site.pages["/a"] = lambda handler: handler.answer(302, b"", {"Location": "http://example.org/a"})
    with pytest.raises(RegistryFault, match="not https"):
        Http().download(f"{site.url}/a", str(tmp_path / "a"))
    site.pages["/loop"] = lambda handler: handler.answer(302, b"", {"Location": "/loop"})
    with pytest.raises(RegistryFault):
        Http().get(f"{site.url}/loop", limit=100)
    assert len(site.requests) < 20


@pytest.mark.item("RG-14")
def test_an_endless_download_ends_at_the_limit(site: Site, tmp_path: Path) -> None:
    def endless(handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.close_connection = True
        try:
            while True:
                handler.wfile.write(b"x" * 65536)
        except OSError:
            pass

    site.pages["/a"] = endless
    with pytest.raises(RegistryFault, match="larger than 1 MiB"):
        Http().download(f"{site.url}/a", str(tmp_path / "a"), limit=1 << 20)
    with pytest.raises(RegistryFault, match="larger than 1 MiB"):
        Http().get(f"{site.url}/a", limit=1 << 20)


@pytest.mark.item("RG-14")
def test_an_announced_size_above_the_limit_is_refused_before_it_is_fetched(site: Site, tmp_path: Path) -> None:
    site.pages["/a"] = lambda handler: handler.answer(200, b"", {"Content-Length": str(1 << 40)})
    with pytest.raises(RegistryFault, match="larger"):
        Http().download(f"{site.url}/a", str(tmp_path / "a"))


@pytest.mark.item("RG-14")
def test_a_slow_server_is_given_up(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "SLOW_AFTER", 0.0)
    monkeypatch.setattr(http, "SLOWEST", 1 << 60)
    site.pages["/a"] = b"x" * 1000
    with pytest.raises(RegistryFault, match="bytes a second"):
        Http().download(f"{site.url}/a", str(tmp_path / "a"))


def test_what_is_missing_is_told_with_its_status(site: Site) -> None:
    with pytest.raises(RegistryFault, match="404") as caught:
        Http().get(f"{site.url}/gone?token=secret", limit=100)
    assert "secret" not in str(caught.value)
    assert caught.value.details == {"status": 404}


def test_offline_fetches_nothing(site: Site) -> None:
    with pytest.raises(RegistryFault, match="offline"):
        Http(offline=True).get(f"{site.url}/a", limit=100)
    assert site.requests == []


def test_only_https_this_machine_and_named_servers_may_be_fetched() -> None:
    check_address("https://example.org/a")
    check_address("http://localhost:8000/a")
    check_address("http://[::1]:8000/a")
    check_address("http://mirror:8000/a", {"http://mirror:8000"})
    for url in ("http://example.org/a", "http://127.0.0.1.example.org/", "ftp://example.org/", "file:///etc/passwd"):
        with pytest.raises(RegistryFault):
            check_address(url)


def test_credentials_of_an_address_are_not_shown() -> None:
    assert shown_address("https://me:secret@example.org/a?key=b#c") == "https://example.org/a"


def test_the_longest_mirror_is_used() -> None:
    mirrors = {"https://github.com/": "https://m/gh/", "https://github.com/block/": "https://m/block/"}
    assert mirrored("https://github.com/block/goose/x", mirrors) == "https://m/block/goose/x"
    assert mirrored("https://github.com/a/x", mirrors) == "https://m/gh/a/x"
    assert mirrored("https://example.org/a", mirrors) == "https://example.org/a"


def test_a_proxy_that_does_not_answer_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://me:secret@127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(RegistryFault, match=r"through the proxy http://127\.0\.0\.1:1") as caught:
        Http().get("https://example.org/", limit=100)
    assert "secret" not in str(caught.value)


@pytest.mark.item("RG-15")
def test_a_proxy_of_the_environment_is_used(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", site.url)
    monkeypatch.setenv("no_proxy", "")
    site.pages["http://mirror.test/index"] = b"through"
    answer = Http(trusted_http=frozenset({"http://mirror.test"})).get("http://mirror.test/index", limit=100)
    assert answer.body == b"through"
