"""How long a client waits for an agent in a turn: a pure watch that is told the time and says when it is enough.

An agent may be silent while it waits for us (a question, a command that runs): that time does not count. The whole turn
may have a limit, too; there everything counts. Above is the client's turn, which looks at the watch now and then.
"""

from __future__ import annotations

# An idle agent is looked after this often within its limit: it ends a quarter late at most.
LOOKS = 4

# How long an agent may take to end a turn that was given up, before it is left alone. Seconds.
GRACE = 5.0


class Watch:
    """The patience of one turn."""

    def __init__(self, idle: float | None, whole: float | None, now: float) -> None:
        self._idle = idle
        self._whole = whole
        self._begun = now
        self._heard = -1
        self._since = now  # when something was last heard, as far as we looked

    @property
    def grace(self) -> float:
        """How long to wait for the end after giving up."""
        return min(limit for limit in (self._idle, self._whole, GRACE) if limit is not None)

    def pause(self, now: float) -> float:
        """When to look again."""
        pauses = []
        if self._idle is not None:
            pauses.append(self._idle / LOOKS)
        if self._whole is not None:
            pauses.append(self._begun + self._whole - now)
        return max(min(pauses), 0.001)

    def look(self, now: float, heard: int, is_waiting: bool) -> str | None:
        """What took too long, if anything; `heard` counts updates, `is_waiting` says that the agent waits for us."""
        if heard != self._heard or is_waiting:
            self._heard = heard
            self._since = now
        if self._whole is not None and now - self._begun >= self._whole:
            return f"the turn took longer than {self._whole:g} s"
        if self._idle is not None and now - self._since >= self._idle:
            return f"nothing was heard of the agent for {self._idle:g} s"
        return None
