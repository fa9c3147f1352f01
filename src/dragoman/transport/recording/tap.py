"""A tap on a transport: reports every frame to listeners and passes it on unchanged.

`Tap` wraps transports for `connect(..., trace=tap)`; `trace_to` records into a file. A listener takes a direction and a
frame; `otel.Spans` is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dragoman.schema.side import Side
from dragoman.transport.base import FrameConsumer, Transport, WrappedTransport
from dragoman.transport.recording.format import TO_AGENT, TO_CLIENT, TrafficListener
from dragoman.transport.recording.recorder import Recorder
from dragoman.wire.frames import Frame, Oversize


class Tap:
    """Wraps the transports of one side; call it with a transport."""

    def __init__(self, *listeners: TrafficListener, side: Side = Side.CLIENT) -> None:
        self._listeners = listeners
        self._out, self._in = (TO_AGENT, TO_CLIENT) if side is Side.CLIENT else (TO_CLIENT, TO_AGENT)

    def __call__(self, transport: Transport) -> Transport:
        """Return the wrapped transport."""
        return _TappedTransport(transport, self)

    def notify_sent(self, data: bytes) -> None:
        """Report a sent frame."""
        for listener in self._listeners:
            listener(self._out, data)

    def notify_received(self, frames: Sequence[Frame]) -> None:
        """Report received frames; of an oversize one only the beginning."""
        for frame in frames:
            for listener in self._listeners:
                listener(self._in, frame.head if isinstance(frame, Oversize) else frame)


class _TappedTransport(WrappedTransport):
    """A transport that reports its frames to a tap."""

    def __init__(self, transport: Transport, tap: Tap) -> None:
        super().__init__(transport)
        self._tap = tap
        self._reported_count = 0  # frames reported by listen() but not received yet

    async def receive(self) -> list[Frame]:
        """Return the next frames, after reporting them."""
        frames = await self._transport.receive()
        fresh = frames[self._reported_count :]
        self._reported_count = max(0, self._reported_count - len(frames))
        self._tap.notify_received(fresh)
        return frames

    def listen(self, take: FrameConsumer) -> None:
        """Offer frames as the transport does, after reporting them: answers must be reported later."""

        def report(frames: list[Frame]) -> bool:
            self._tap.notify_received(frames)
            taken = take(frames)
            if not taken:
                self._reported_count += len(frames)
            return taken

        self._transport.listen(report)

    def send(self, data: bytes, session: str | None = None) -> None:
        """Send one frame."""
        self._transport.send(data, session)
        self._tap.notify_sent(data)


@contextmanager
def trace_to(
    path: str,
    command: Sequence[str],
    report: Callable[[str], None],
    *listeners: TrafficListener,
    redact: Callable[[bytes], bytes] = lambda frame: frame,
) -> Iterator[Tap]:
    """Record every connection of a client into one file, each frame as `redact` leaves it; report to other listeners.

    If the file exists, record to the next free name and report that.
    """
    recorder = Recorder(path, command, report, redact)
    if recorder.path != path:
        report(f"{path} exists; recording to {recorder.path}")
    why = "the client ended"
    try:
        yield Tap(lambda way, frame: recorder.record(way, frame + b"\n"), *listeners)
    except BaseException as error:
        why = f"the client ended: {type(error).__name__}"
        raise
    finally:
        recorder.close(why)
