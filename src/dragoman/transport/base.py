"""The contract of every transport, and the limits they share.

A transport takes whole frames (no newline) and gives whole frames, in order, to and from one peer. Above is
the engine; below is whatever carries bytes. It refuses to know what a frame says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from dragoman.wire.frames import Frame

# Above this many queued bytes a producer should wait: a few pipe-fulls, so the peer never idles meanwhile.
HIGH_WATER = 256 * 1024

# Waiting producers go on below this: far enough from HIGH_WATER that they do not wake for every write.
LOW_WATER = 64 * 1024

# One write call for this many bytes: the default pipe holds as much, a larger join gains nothing.
COALESCE_SIZE = 64 * 1024

# One read call for up to this many bytes: one wake-up then serves about a thousand chunk updates.
READ_SIZE = 256 * 1024

# A peer that takes no byte for so long while some wait for it is stuck (two full pipes), not slow. Seconds.
WRITE_STALL = 60.0

# How long a close tries to get rid of what is still queued. Seconds; people wait for it.
CLOSE_TIMEOUT = 2.0

# After one half of the connection broke, the other half may still hold the explanation. Seconds.
HALF_CLOSED_GRACE = 1.0


class Outgoing(NamedTuple):
    """One frame on its way out, with what a transport needs to route it without parsing it."""

    data: bytes
    session: str | None = None
    reply_to: bool | None = None


# Takes the frames of one block at once; says whether it took them, else they wait for `receive`.
FrameConsumer = Callable[[list[Frame]], bool]


class Transport(Protocol):
    """Moves frames to and from one peer. Bound to the event loop it is used in; one receiver at a time."""

    peer: str
    """How error messages name the other end."""

    async def receive(self) -> list[Frame]:
        """The next frames in order, never an empty list; cancelling it loses nothing.

        Raises TransportClosed (AgentExited for a process) when the frames ended or this end was closed, and
        WriteStalled when the peer stopped taking bytes. Frames that had arrived are given first.
        """
        ...

    def listen(self, take: FrameConsumer) -> None:
        """Offer frames to `take` first, the moment they are read, while somebody waits in `receive`.

        It saves a pass of the event loop for each block. A transport may never offer any: `receive` gives them all.
        """
        ...

    def send(self, data: bytes, session: str | None = None) -> None:
        """Queue one frame; the first of a loop pass leaves at once, later ones together when the pass ends.

        Raises TransportClosed or WriteStalled when it is already known that nothing can be sent any more.
        """
        ...

    def congested(self) -> bool:
        """Whether so much is queued that the sender should await `drain`."""
        ...

    async def drain(self) -> None:
        """Return when little is queued. Raises TransportClosed or WriteStalled when that can never be."""
        ...

    async def close(self, reason: str = "") -> None:
        """Flush within a bounded patience and let go of everything. Idempotent; raises nothing."""
        ...
