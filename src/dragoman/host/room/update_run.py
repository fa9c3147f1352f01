"""Consecutive updates of a commit, sent to each member at once."""

from __future__ import annotations

from dragoman.host.room.member import Member
from dragoman.store.contract import RawEntry

# Updates are sent together up to this many bytes; then the backlog of the member is looked at.
MAX_RUN_BYTES = 64 * 1024


class UpdateRun:
    """Consecutive updates, and their frames for clients that can share them."""

    def __init__(self) -> None:
        self.lines: list[RawEntry] = []
        self._frames: list[bytes] = []
        self._size = 0

    @property
    def is_full(self) -> bool:
        """Whether it should be sent before more is added."""
        return self._size >= MAX_RUN_BYTES

    def add(self, line: RawEntry, frame: bytes) -> None:
        """Add an update and its frame."""
        self.lines.append(line)
        self._frames.append(frame)
        self._size += len(frame)

    def is_shared_with(self, member: Member) -> bool:
        """Whether a member gets all frames as they are."""
        return member.client.takes_shared_frames and member.seen_seq < self.lines[0].seq

    def send(self, member: Member) -> None:
        """Send the frames to a member that shares them."""
        member.seen_seq = self.lines[-1].seq
        member.client.write_frames(self._frames, self._size)
