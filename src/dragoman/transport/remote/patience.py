"""How long a client goes on trying: growing pauses with full jitter, and an end.

Pure: chance and clock are given. Full jitter, because a host that comes back would else be met by all its clients at
the same moment.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from msgspec import Struct


class Patience(Struct, frozen=True, kw_only=True):
    """The first and the longest pause between two tries, and after how long to give up. Seconds."""

    first: float = 0.1  # a cut that was only a moment is mended before anybody notices
    longest: float = 10.0  # what a person waits for after the network is back
    whole: float = 600.0  # a laptop that was closed for a coffee; then somebody should hear of it

    def pause(self, tries: int, chance: Callable[[], float] = random.random) -> float:
        """How long to wait after so many failed tries in a row."""
        return float(chance() * min(self.longest, self.first * 2.0 ** min(tries, 32)))


# Tries once: for those who would rather be told.
IMPATIENT = Patience(whole=0.0)
