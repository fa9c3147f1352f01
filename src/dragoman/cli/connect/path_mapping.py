"""A folder that has one path here and another in a host: frames with the one where the other stood.

Takes the transport to a host, gives one on which both ends see their own paths. What people and files say is not
touched: only where something is, which command is run, and what is told about it. Above is visiting, for `--lend`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from dragoman.transport.base import FrameConsumer, Transport
from dragoman.wire.frames import Frame

# Members that hold what somebody said, wrote or saw; a path in it is part of the text.
_TEXT_MEMBERS = frozenset({"text", "newText", "oldText", "content", "output", "data", "blob"})

# What a path may not follow or be followed by, or it is a part of another one.
_BEFORE, _AFTER = r"(?<![\w/.~-])", r"(?![\w.~-])"

_FILE_SCHEME = "file://"

MapFrame = Callable[[bytes], bytes]


def build_path_mapper(old: str, new: str) -> MapFrame:
    """A function that gives a frame in which one folder has the path of the other."""
    paths = {old: new, _FILE_SCHEME + quote(old): _FILE_SCHEME + quote(new)}
    needles = {form.encode() for path in paths for form in (path, json.dumps(path)[1:-1])}
    pattern = re.compile(_BEFORE + "(" + "|".join(map(re.escape, paths)) + ")" + _AFTER)

    def renamed(value: Any, name: str = "") -> Any:
        if isinstance(value, str):
            return value if name in _TEXT_MEMBERS else pattern.sub(lambda found: paths[found[0]], value)
        if isinstance(value, list):
            return [renamed(each, name) for each in value]
        if isinstance(value, dict):
            return {key: renamed(each, key) for key, each in value.items()}
        return value

    def rename(frame: bytes) -> bytes:
        if not any(needle in frame for needle in needles):
            return frame
        try:
            return json.dumps(renamed(json.loads(frame)), separators=(",", ":")).encode()
        except (ValueError, RecursionError):  # no message: whoever reads it says so
            return frame

    return rename


class PathMappingTransport:
    """A transport on which a folder has another path."""

    def __init__(self, transport: Transport, local_folder: str, host_folder: str) -> None:
        self.peer = transport.peer
        self._transport = transport
        self._map_outgoing = build_path_mapper(local_folder, host_folder)
        self._map_incoming = build_path_mapper(host_folder, local_folder)

    async def receive(self) -> list[Frame]:
        """The next frames, with the paths of here."""
        return self._map_frames(await self._transport.receive())

    def listen(self, take: FrameConsumer) -> None:
        """Offer frames as the transport does."""
        self._transport.listen(lambda frames: take(self._map_frames(frames)))

    def _map_frames(self, frames: list[Frame]) -> list[Frame]:
        return [self._map_incoming(frame) if isinstance(frame, bytes) else frame for frame in frames]

    def send(self, data: bytes, session: str | None = None) -> None:
        """Send a frame, with the paths of there."""
        self._transport.send(self._map_outgoing(data), session)

    def congested(self) -> bool:
        """Whether the sender should wait."""
        return self._transport.congested()

    async def drain(self) -> None:
        """Wait until little is queued."""
        await self._transport.drain()

    async def close(self, reason: str = "") -> None:
        """Close the transport."""
        await self._transport.close(reason)
