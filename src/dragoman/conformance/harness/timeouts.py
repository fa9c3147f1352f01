"""How long a probe waits for what."""

from __future__ import annotations

import msgspec


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts in seconds."""

    start: float
    """For the answer to initialize: real agents load a runtime first, and sometimes use the network."""
    answer: float
    """For the answer to a request that needs no model."""
    turn: float
    """For the end of a turn, and for its first update."""
    quiet: float
    """For something that must not come."""
    exit: float
    """For a peer to exit after its input ended; some need two seconds (docs/protocol/peers.md#end-of-input)."""
    probe: float
    """For the whole probe."""


PROCESS = Timeouts(start=60.0, answer=10.0, turn=30.0, quiet=0.4, exit=5.0, probe=150.0)
# For both ends in one event loop, where answers come at once. A missing answer costs the whole wait.
MEMORY = Timeouts(start=2.0, answer=0.8, turn=1.5, quiet=0.02, exit=2.5, probe=120.0)
