"""Runs tests that are coroutines, each in an event loop of its own and within a bound."""

from __future__ import annotations

import asyncio
import inspect

import pytest

BOUND = 60.0  # seconds; none of these tests needs one


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Takes the call of a coroutine function; leaves others to pytest."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = pyfuncitem._fixtureinfo.argnames
    asyncio.run(_bounded(pyfuncitem.obj, {name: pyfuncitem.funcargs[name] for name in wanted}))
    return True


async def _bounded(function: object, arguments: dict[str, object]) -> None:
    async with asyncio.timeout(BOUND):
        await function(**arguments)  # type: ignore[operator]
