"""How many file descriptors the process may have, and quiet handling of a system that has no more for new sockets."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

logger = logging.getLogger("dragoman")

# How often it is logged that no socket can be accepted. Seconds.
REPORT_INTERVAL = 60.0

# The share of the descriptors for sockets. The rest is for agents (three pipes each), stores and files.
SOCKET_SHARE = 0.5

# What asyncio calls the error of a system without descriptors or memory. It would be logged for every waiting client.
_ACCEPT_FAILED = "socket.accept() out of system resource"


def descriptor_limit() -> int:
    """Return the most descriptors that the process may have open."""
    if sys.platform == "win32":
        return sys.maxsize
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit(sockets: int) -> None:
    """Allow the process descriptors for this many sockets, as far as the system permits."""
    wanted = int(sockets / SOCKET_SHARE)
    if sys.platform == "win32" or descriptor_limit() >= wanted:
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
        )
    except (OSError, ValueError):
        pass  # the listener takes fewer sockets instead


def most_sockets() -> int:
    """Return how many sockets fit into the process."""
    return int(descriptor_limit() * SOCKET_SHARE)


@contextmanager
def quiet_accept_errors(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Log once in a while that no socket can be accepted, not once for every client that waits."""
    outer = loop.get_exception_handler()
    reported_at = -REPORT_INTERVAL

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal reported_at
        if context.get("message") != _ACCEPT_FAILED:
            (outer or type(loop).default_exception_handler)(loop, context)
        elif loop.time() - reported_at >= REPORT_INTERVAL:
            reported_at = loop.time()
            logger.warning("no socket can be accepted: %s; raise the limit (ulimit -n)", context.get("exception"))

    loop.set_exception_handler(handle)
    try:
        yield
    finally:
        if loop.get_exception_handler() is handle:
            loop.set_exception_handler(outer)
