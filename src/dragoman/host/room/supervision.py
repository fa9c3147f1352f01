"""When an agent that died may be started again: at once the first time, later and later when it dies again. No I/O.

Takes the moments of deaths and of turns that went well, gives how long to wait. Above is the room, which starts agents.
"""

from __future__ import annotations

from dragoman.errors import Kind, ProtocolError

# After the second death in a row so long is waited, then twice as long each time, up to the longest. Seconds.
FIRST, LONGEST = 1.0, 60.0


class Crashes:
    """The deaths of one agent since it last did something well."""

    def __init__(self) -> None:
        self.count = 0
        self._last = 0.0

    def died(self, now: float) -> None:
        """It died, or could not be started."""
        self.count += 1
        self._last = now

    def lived(self) -> None:
        """A turn ended as turns do."""
        self.count = 0

    def pause(self, now: float) -> float:
        """How long it must not be started yet."""
        if self.count < 2:
            return 0.0
        wait = min(FIRST * 2.0 ** min(self.count - 2, 30), LONGEST)
        return max(0.0, self._last + wait - now)

    def check(self, now: float) -> None:
        """Raise while it must not be started yet; the error says when to try again."""
        pause = self.pause(now)
        if pause > 0:
            raise ProtocolError(
                Kind.RATE_LIMITED,
                f"the agent ended {self.count} times in a row; it is not started again for {pause:.1f} s",
                {"retryAfter": round(pause, 3), "deaths": self.count},
            )
