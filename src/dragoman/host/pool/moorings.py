"""Which room has which session at a process that several share, and what was said of sessions nobody has yet. No I/O.

A session is of the first room that claims it until that room lets it go. Above is the pier, which asks.
"""

from __future__ import annotations

from dragoman.host.pool.transport import Berth
from dragoman.wire.envelope import Envelope

# What an agent says of sessions that are being opened waits for the answer that tells whose they are (peers.md 13).
EARLY = 1000

# A session, and a message about it.
Early = tuple[str, Envelope, bytes]


class Moorings:
    """The sessions of one process."""

    def __init__(self) -> None:
        self._owners: dict[str, Berth] = {}
        self._early: list[Early] = []

    def claim(self, session: str, berth: Berth) -> bool:
        """Whether a session is this room's: it is from now on, unless it is another's."""
        return self._owners.setdefault(session, berth) is berth

    def release(self, session: str, berth: Berth) -> None:
        """A room has a session no more."""
        if self._owners.get(session) is berth:
            del self._owners[session]

    def owner(self, session: str) -> Berth | None:
        """Whose a session is."""
        return self._owners.get(session)

    def of(self, berth: Berth) -> list[str]:
        """The sessions of a room."""
        return [session for session, owner in self._owners.items() if owner is berth]

    def keep(self, session: str, envelope: Envelope, frame: bytes) -> bool:
        """Keep what was said of a session that nobody has yet; whether there was room for it."""
        if len(self._early) >= EARLY:
            return False
        self._early.append((session, envelope, frame))
        return True

    def early(self) -> list[Early]:
        """All that was kept, to be told now, or kept again."""
        early, self._early = self._early, []
        return early
