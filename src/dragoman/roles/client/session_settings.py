"""SessionSettings: what a RemoteAgent sets for each of its sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.errors import ConnectionFailed, ProtocolError
from dragoman.roles.client.caller_errors import check_seconds

if TYPE_CHECKING:
    from dragoman.roles.client.session import ClientSession


class SessionSettings(msgspec.Struct, frozen=True):
    """Settings of a RemoteAgent for its sessions."""

    timeout: float | None = None  # for every request but session/prompt
    idle_timeout: float | None = None  # for turns without updates
    renew: Callable[[ClientSession], Awaitable[None]] | None = None  # replaces a session that the agent lost
    release: Callable[[str], Awaitable[None]] | None = None  # ends its watches and terminals
    held_updates: Callable[[str], asyncio.Future[None] | None] | None = None  # what the end of a turn waits for
    # For the room of a host:
    keeps_messages: bool = True  # False: they are read from the log
    decider: Callable[[Any], str] = lambda params: "user"  # who answered a question
    on_agent_lost: Callable[[ClientSession, ConnectionFailed], None] = lambda session, error: None
    interruption: Callable[[], ProtocolError] | None = None  # the error of a turn whose agent we ended

    def __post_init__(self) -> None:
        check_seconds(timeout=self.timeout, idle_timeout=self.idle_timeout)
