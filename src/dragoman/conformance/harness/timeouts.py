"""How long a probe waits for what: one value for processes, whose start and models take time, one for memory."""

from __future__ import annotations

import msgspec


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds to wait: nothing waits without one of these."""

    start: float
    """For the answer to initialize: real agents load a runtime and sometimes a network first."""
    answer: float
    """For the answer to a request that needs no model."""
    turn: float
    """For the end of a turn, and for the first sign of it."""
    quiet: float
    """For something that must not come: a peer that says nothing for so long says nothing."""
    leave: float
    """For a peer to go after the end of its input (peers.md 12: honest ones need up to two seconds)."""
    probe: float
    """For the whole probe; then it is ended, whatever it waits for."""


PROCESS = Pace(start=60.0, answer=10.0, turn=30.0, quiet=0.4, leave=5.0, probe=150.0)
# Both ends in one loop: an answer is there after a few passes. What is never answered costs the whole wait.
MEMORY = Pace(start=2.0, answer=0.8, turn=1.5, quiet=0.02, leave=2.5, probe=120.0)
