"""Limits of a host, each with its reason. Endpoints have their own: bytes, sockets, requests per second."""

from __future__ import annotations

import msgspec

HOUR = 3600.0


class HostLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a host allows at most. Times are in seconds."""

    max_prompts: int = 32
    """Prompts that may wait in one room. More than this is a flood."""

    max_sessions: int = 100
    """Sessions of one user that may be awake at once. Each has an agent process."""

    max_members: int = 2000
    """Clients in one room. Every one of them gets every message."""

    answer_timeout: float = 600.0
    """How long a question waits for an answer while members who may answer are present; then it is denied."""

    unattended_timeout: float = 24 * HOUR
    """How long a question waits for a member who may answer to arrive."""

    waits_unattended: bool = True
    """Whether a question waits while nobody present may answer. If not, it is denied at once."""

    idle_timeout: float = 15 * 60.0
    """After this time without members and turns the agent is stopped. The next prompt starts it again."""

    max_unread_bytes: int = 16 * 1024 * 1024
    """Bytes that a client may leave unread on a transport without such a limit; then it is disconnected."""

    open_timeout: float = 120.0
    """How long an agent may take to open a session. Some download first (docs/protocol/peers.md#slow-start)."""

    stop_timeout: float = 10.0
    """How long a cancelled turn may take to end, for example when its session is deleted."""
