"""Private certificate authorities and the user's npm settings are honored by index, archives, npm and uv."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dragoman.registry.install import npm
from tests.registry.authority import make_authority
from tests.registry.home import User, needs_npm, set_environment
from tests.registry.packages import binary_entry, entry, npm_package, pypi_package
from tests.registry.stand_in import Site, serve


@pytest.fixture
def authority(tmp_path: Path) -> tuple[Path, Path, Path]:
    return make_authority(tmp_path)


@pytest.fixture
def site(authority: tuple[Path, Path, Path]) -> Iterator[Site]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority[1:])
    with serve(context) as running:
        yield running


@pytest.fixture
def user(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[User]:
    set_environment(tmp_path, site, monkeypatch)
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"):
        monkeypatch.delenv(name, raising=False)
    npm._read_config.cache_clear()
    yield User(tmp_path, site, capsys)
    npm._read_config.cache_clear()


@pytest.mark.item("RG-15")
@needs_npm
def test_a_private_authority_works_for_index_archive_npm_and_uv(user: User, authority: tuple[Path, Path, Path]) -> None:
    npm_package(user.site, "agent", "1.0.0")
    pypi_package(user.site, "small-agent", "0.3.0")
    user.publish(
        binary_entry(user.site),
        entry("agent", "1.0.0", {"npx": {"package": "agent@1.0.0"}}),
        entry("python-agent", "0.3.0", {"uvx": {"package": "small-agent==0.3.0"}}),
    )
    assert user.install("small") == 7
    assert "--ca FILE" in user.err
    for id in ("small", "agent", "python-agent"):
        assert user.install(id, "--ca", str(authority[0])) == 0, user.err


@needs_npm
def test_a_version_that_is_too_young_for_the_users_npm_is_refused_with_an_older_one(
    user: User, authority: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    npm_package(user.site, "agent", "1.0.0", "1.1.0")
    page = user.site.pages["/agent"]
    assert isinstance(page, bytes)
    packument = json.loads(page)
    packument["time"]["1.1.0"] = datetime.now(UTC).isoformat()
    user.site.pages["/agent"] = json.dumps(packument).encode()
    user.publish(entry("agent", "1.1.0", {"npx": {"package": "agent@1.1.0"}}))
    monkeypatch.setattr(npm, "_days", lambda _: 7.0)
    assert user.install("agent", "--ca", str(authority[0])) == 4
    assert "1.1.0 is 0 days old, your npm wants 7; the newest old enough is 1.0.0: add --at-most" in user.err
    assert user.install("agent", "--ca", str(authority[0]), "--at-most") == 0, user.err
    assert "1.0.0" in user.agent("agent").args[0]
