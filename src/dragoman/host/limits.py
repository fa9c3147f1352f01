"""The bounds of a house, each with its reason. Doors have limits of their own: bytes, sockets, requests a second."""

from __future__ import annotations

import msgspec

HOUR = 3600.0


class HostLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a house lets happen at most; times in seconds."""

    max_prompts: int = 32
    """Prompts that may wait in one room: more is nobody's queue but a flood."""

    max_sessions: int = 100
    """Sessions that one user may have awake at once: each is a process of an agent."""

    max_members: int = 2000
    """Clients in one room: each is told everything."""

    answer_timeout: float = 600.0
    """How long those who may answer a question are waited for while they are there; then the answer is no."""

    unattended_timeout: float = 24 * HOUR
    """How long a question waits for somebody to come who may answer it."""

    waits_unattended: bool = True
    """Whether a question waits at all while nobody is there who may answer; else the answer is no at once."""

    idle_timeout: float = 15 * 60.0
    """After so long without members and turns an agent is ended; the session sleeps, and a prompt wakes it."""

    max_unread_bytes: int = 16 * 1024 * 1024
    """Bytes that a client may leave unread on a transport that has no such bound itself; then it is let go."""

    open_timeout: float = 120.0
    """How long an agent may take to open a session: the first start of some downloads them (peers.md 59)."""

    stop_timeout: float = 10.0
    """How long a turn that was cancelled, because its session is deleted say, may take to end."""
