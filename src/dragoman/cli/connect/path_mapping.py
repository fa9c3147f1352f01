"""Path mapping for `--lend`: a folder that has one path here and another on the host.

Wraps the transport to a host so that both ends see their own paths. Message text and file contents are not changed,
only paths, commands and titles.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from dragoman.transport.base import FrameConsumer, Transport, WrappedTransport
from dragoman.wire.frames import Frame

# Members that hold text of users, files or commands; a path in them is part of the text.
_TEXT_MEMBERS = frozenset({"text", "newText", "oldText", "content", "output", "data", "blob"})

# What must not precede or follow a path, or it is part of another one.
_BEFORE, _AFTER = r"(?<![\w/.~-])", r"(?![\w.~-])"

_FILE_SCHEME = "file://"

MapFrame = Callable[[bytes], bytes]


def build_path_mapper(old: str, new: str) -> MapFrame:
    """Return a function that replaces one folder by the other in a frame."""
    paths = {old: new, _FILE_SCHEME + quote(old): _FILE_SCHEME + quote(new)}
    needles = {form.encode() for path in paths for form in (path, json.dumps(path)[1:-1])}
    pattern = re.compile(_BEFORE + "(" + "|".join(map(re.escape, paths)) + ")" + _AFTER)

    def map_value(value: Any, name: str = "") -> Any:
        if isinstance(value, str):
            return value if name in _TEXT_MEMBERS else pattern.sub(lambda match: paths[match[0]], value)
        if isinstance(value, list):
            return [map_value(each, name) for each in value]
        if isinstance(value, dict):
            return {key: map_value(each, key) for key, each in value.items()}
        return value

    def map_frame(frame: bytes) -> bytes:
        if not any(needle in frame for needle in needles):
            return frame
        try:
            return json.dumps(map_value(json.loads(frame)), separators=(",", ":")).encode()
        except (ValueError, RecursionError):  # not a message: the reader reports it
            return frame

    return map_frame


class PathMappingTransport(WrappedTransport):
    """A transport that maps the paths of a folder."""

    def __init__(self, transport: Transport, local_folder: str, host_folder: str) -> None:
        super().__init__(transport)
        self._map_outgoing = build_path_mapper(local_folder, host_folder)
        self._map_incoming = build_path_mapper(host_folder, local_folder)

    async def receive(self) -> list[Frame]:
        """Return the next frames, with local paths."""
        return self._map_frames(await self._transport.receive())

    def listen(self, take: FrameConsumer) -> None:
        """Offer frames as the transport does, with local paths."""
        self._transport.listen(lambda frames: take(self._map_frames(frames)))

    def _map_frames(self, frames: list[Frame]) -> list[Frame]:
        return [self._map_incoming(frame) if isinstance(frame, bytes) else frame for frame in frames]

    def send(self, data: bytes, session: str | None = None) -> None:
        """Send a frame, with paths of the host."""
        self._transport.send(self._map_outgoing(data), session)
