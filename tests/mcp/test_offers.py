"""Errors of functions that are offered as tools: what the model reads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from dragoman import Agent, connect
from dragoman.errors import DragomanError
from dragoman.mcp.offers import build_server


def find(id: str) -> str:
    """Find an order."""
    raise ValueError(f"no order {id}; orders have six digits")


async def find_later(id: str) -> str:
    """Find an order, later."""
    raise KeyError(id)


def find_ours(id: str) -> str:
    """Find an order, with an error of this library."""
    raise DragomanError(f"no order {id}")


async def call(function: Callable[..., Any], **arguments: Any) -> Any:
    """Call a function through the official client."""
    from mcp import Client

    async with Client(build_server("client", [function]).server) as client:
        return await client.call_tool(function.__name__, arguments)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (find, "ValueError: no order 7; orders have six digits"),
        (find_later, "KeyError: '7'"),
        (find_ours, ": no order 7"),
    ],
)
async def test_the_model_reads_the_error_of_a_function(
    function: Callable[..., Any], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        result = await call(function, id="7")
    assert result.is_error
    assert result.content[0].text.endswith(text)
    assert caplog.records == []  # the SDK would print a traceback


async def test_what_the_model_reads_of_invalid_arguments_has_no_links() -> None:
    result = await call(find, other=1)
    assert result.is_error
    assert "Field required" in result.content[0].text
    assert "https://" not in result.content[0].text


async def test_a_function_that_is_not_async_runs_in_a_thread() -> None:
    def which() -> str:
        """Name the thread."""
        return threading.current_thread().name

    result = await call(which)
    assert result.content[0].text != threading.current_thread().name


# --- mistakes -------------------------------------------------------------------------------------------------


def other_find() -> None: ...


other_find.__name__ = "find"


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        (find, r"tools is a list of functions, not <function find .*write: tools=\[function"),
        ("find", "tools is a list of functions, not 'find'"),
        (["find"], "a tool is a function with a name, not 'find'"),
        ([lambda id: id], "a tool is a function with a name, not <function <lambda>"),
        ({"orders": [5]}, "a tool is a function with a name, not 5"),
        ([find, other_find], "two functions named find"),
        ({"orders": [find, find]}, "two functions named find"),
    ],
)
def test_tools_that_are_no_functions_with_names_of_their_own_are_refused(tools: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        connect("agent", tools=tools)


async def test_a_function_without_a_schema_is_named() -> None:
    class Order:
        pass

    def ship(order: Order) -> None: ...

    ship.__annotations__["order"] = Order
    with pytest.raises(TypeError, match=r"the tool ship has no schema: .*; annotate its parameters"):
        async with connect(Agent("small"), tools=[ship]):
            pass
