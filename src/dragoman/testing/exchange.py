"""The messages between a test and its agent, for the report of a failure: the first ones and the last ones."""

from __future__ import annotations

from collections import deque

from dragoman.testing.connections import Wrap
from dragoman.testing.scripted_peer import LINES, readable
from dragoman.transport.base import Transport
from dragoman.transport.recording.format import TO_AGENT
from dragoman.transport.recording.tap import Tap

TITLE = "ACP messages (-> to the agent, <- from it)"


class Exchange:
    """What one test sent and received; of a long exchange only its ends are kept."""

    def __init__(self) -> None:
        self._first: list[str] = []
        self._last: deque[str] = deque(maxlen=LINES)
        self._count = 0

    def tap(self, inner: Wrap | None) -> Wrap:
        """Return a function that wraps a transport, after `inner` did."""
        outer = Tap(self._add)

        def wrap(transport: Transport) -> Transport:
            return outer(transport if inner is None else inner(transport))

        return wrap

    def _add(self, way: str, frame: bytes) -> None:
        arrow = "->" if way == TO_AGENT else "<-"
        line = readable(f"{arrow} {frame.decode(errors='replace').strip()}")
        self._count += 1
        if len(self._first) < LINES:
            self._first.append(line)
        else:
            self._last.append(line)

    def __str__(self) -> str:
        omitted = self._count - len(self._first) - len(self._last)
        return "\n".join([*self._first, *([f"... {omitted} more ..."] if omitted else []), *self._last])
