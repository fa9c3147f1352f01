"""The timeouts of one turn: when to check them, and which one has passed."""

from __future__ import annotations

# Checks of the idle timeout within one such timeout: a turn ends at most a quarter late.
CHECKS_PER_IDLE_TIMEOUT = 4

# How long an agent may take to end a turn that timed out. Seconds.
CANCEL_GRACE = 5.0


class TurnTimeouts:
    """The timeouts of one turn."""

    def __init__(self, idle_timeout: float | None, timeout: float | None, now: float) -> None:
        self._idle_timeout = idle_timeout
        self._timeout = timeout
        self._started = now
        self._update_count = -1
        self._last_activity = now  # as of the last check

    @property
    def grace(self) -> float:
        """How long to wait for the end after the timeout."""
        return min(limit for limit in (self._idle_timeout, self._timeout, CANCEL_GRACE) if limit is not None)

    def next_check(self, now: float) -> float:
        """Return the seconds until the next check."""
        delays = []
        if self._idle_timeout is not None:
            delays.append(self._idle_timeout / CHECKS_PER_IDLE_TIMEOUT)
        if self._timeout is not None:
            delays.append(self._started + self._timeout - now)
        return max(min(delays), 0.001)

    def check(self, now: float, update_count: int, agent_is_waiting: bool) -> str | None:
        """Return which timeout has passed, or None. There is activity if updates arrived or the agent waits for us."""
        if update_count != self._update_count or agent_is_waiting:
            self._update_count = update_count
            self._last_activity = now
        if self._timeout is not None and now - self._started >= self._timeout:
            return f"the turn took longer than {self._timeout:g} s"
        if self._idle_timeout is not None and now - self._last_activity >= self._idle_timeout:
            return f"the agent sent no update for {self._idle_timeout:g} s"
        return None
