"""The way out to a client that does not speak official v1: its updates carry their numbers too.

A dialect's spelling and ledger make the frames, one or several for an update; what leaves while an entry is being told
gets the number of that entry put in. Official clients share frames that have it already. Below is the outbox.
"""

from __future__ import annotations

import msgspec

from dragoman.engine.outbox import Outbox
from dragoman.host.room.notifications import stamp
from dragoman.transport.base import Transport

_HEAD = b'{"jsonrpc":"2.0","method":"session/update","params":{'
_TAIL = b"}}"


class StampedOutbox(Outbox):
    """An outbox that puts the number of the entry that is being told into what it says of it."""

    __slots__ = ("seq",)

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self.seq: int | None = None

    def write(self, frame: bytes) -> None:
        """Send a frame, stamped while an entry is being told."""
        if self.seq is not None and frame.startswith(_HEAD) and frame.endswith(_TAIL):
            frame = stamped(frame, self.seq)
        super().write(frame)


def stamped(frame: bytes, seq: int) -> bytes:
    """An update with its number put in, which stands last and first in its `_meta`: there clients look for it."""
    if b'"_meta"' not in frame:
        return frame[: -len(_TAIL)] + stamp(seq) + _TAIL
    said = msgspec.json.decode(frame)
    carried = said["params"].pop("_meta", None) or {}
    ours = {"seq": seq, **(carried.pop("dragoman", None) or {})}
    said["params"]["_meta"] = {"dragoman": ours, **carried}
    return msgspec.json.encode(said)
