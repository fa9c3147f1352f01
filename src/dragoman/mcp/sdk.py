"""The official MCP SDK: whether it is installed, how it is loaded, and what its errors mean.

It takes more than a second to import. Nothing imports it before the first server is opened.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import threading
from functools import cache

from dragoman.errors import DragomanError

HOW_TO_INSTALL = "MCP servers need the MCP SDK; install it with: pip install 'dragoman[mcp]'"

# A closed connection (docs/protocol/mcp.md#sdk), and a method that the server does not have.
CODE_CLOSED, CODE_NO_METHOD = -32000, -32601

# Loggers of the SDK, one of which has a name that others use too. It logs a line of noise on a server's stdout as an
# exception with its text, which may hold a credential. We report such lines ourselves.
_LOGGERS = ("mcp", "client")

_lock = threading.Lock()
_is_loaded = False


class ServerFailed(DragomanError):
    """An MCP server cannot be used; the message names it and says why."""

    def __init__(self, server: str, why: str) -> None:
        super().__init__(f"MCP server {server}: {why}")
        self.server = server
        self.why = why


class SdkMissing(ServerFailed):
    """The MCP SDK is not installed."""


@cache
def is_installed() -> bool:
    """Return whether the MCP SDK is installed, without importing it."""
    return importlib.util.find_spec("mcp") is not None


def import_sdk() -> None:
    """Import the parts of the SDK that a client uses, and silence its loggers; raise ImportError."""
    global _is_loaded
    with _lock:  # two threads that import the same packages in other orders can deadlock
        import httpx2  # noqa: F401
        import mcp.client.sse
        import mcp.client.streamable_http
    folder = os.path.dirname(mcp.__file__)
    for name in [*_LOGGERS, *(name for name in logging.root.manager.loggerDict if name.startswith("mcp."))]:
        logging.getLogger(name).addFilter(lambda record: not record.pathname.startswith(folder))
    _is_loaded = True


async def load(server: str = "") -> None:
    """Import the SDK in a thread, so that the event loop goes on; raise SdkMissing."""
    if _is_loaded:
        return
    if not is_installed():
        raise SdkMissing(server, HOW_TO_INSTALL)
    await asyncio.to_thread(import_sdk)


def innermost(error: BaseException) -> BaseException:
    """Return the one error that explains a group: the SDK raises groups in groups."""
    while isinstance(error, BaseExceptionGroup):
        known = [one for one in error.exceptions if not isinstance(one, asyncio.CancelledError)]
        error = (known or error.exceptions)[0]
    return error


def failure_text(error: BaseException) -> str:
    """Return what a failure of the SDK means, in words for a user."""
    error = innermost(error)
    name = type(error).__name__
    if isinstance(error, DragomanError):
        return str(error)
    if name == "MCPError":
        code = getattr(error, "code", 0)
        if code == CODE_CLOSED:
            return "it closed the connection"
        return f"{error} (error {code})"
    if isinstance(error, TimeoutError) or name.endswith("Timeout"):
        return "it does not answer"
    if name == "ConnectError":
        return "nobody listens at its address"
    if name == "HTTPStatusError":
        response = getattr(error, "response", None)
        return f"it answers with HTTP status {getattr(response, 'status_code', '?')}"
    if name == "ValidationError":
        return "its answer is not what MCP requires"
    text = str(error)
    return f"{name}: {text}" if text else name
