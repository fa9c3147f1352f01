"""PostgreSQL keeps the contracts of a store and of a fleet."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dragoman.store.contract import Store
from dragoman.store.fleet import Engine
from dragoman.store.urls import open_engine, open_store
from dragoman.testing import check_fleet, check_store


@pytest.mark.item("FL-01")
async def test_postgres_passes_the_checks_of_every_store(postgres_url: Callable[[], str]) -> None:
    async def make() -> Store:
        return await open_store(postgres_url())

    await check_store(make)


@pytest.mark.item("FL-04", "FL-05")
async def test_two_nodes_on_one_database_pass_the_fleet_checks(postgres_url: Callable[[], str]) -> None:
    async def make() -> tuple[Engine, Engine]:
        url = postgres_url()
        return await open_engine(url), await open_engine(url)

    await check_fleet(make)
