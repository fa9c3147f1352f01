"""A user of `dragoman agents` with a home of their own, and a site that serves a registry, npm and PyPI."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.registry.install import npm
from tests.registry.home import User, set_environment
from tests.registry.stand_in import Site, serve


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as running:
        yield running


@pytest.fixture
def user(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[User]:
    set_environment(tmp_path, site, monkeypatch)
    npm._read_config.cache_clear()
    yield User(tmp_path, site, capsys)
    npm._read_config.cache_clear()
