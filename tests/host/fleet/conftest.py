"""Fixtures with engines, for the tests of this folder."""

from __future__ import annotations

from tests.store.engines import postgres as postgres
from tests.store.engines import postgres_url as postgres_url
