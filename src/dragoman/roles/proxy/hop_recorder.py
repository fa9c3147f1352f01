"""HopRecorder: the messages between each two neighbors of a chain, in one recording for each hop.

What a proxy in this process does not handle passes it unchanged, and is recorded on both sides of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import count, pairwise

from msgspec import UNSET, Raw

from dragoman.errors import ProtocolError
from dragoman.policy.message_secrets import FrameRedactor
from dragoman.roles.proxy.call import Call
from dragoman.roles.proxy.link import Params
from dragoman.schema.base import encode
from dragoman.schema.side import Side
from dragoman.transport.recording.format import TO_AGENT, TO_CLIENT
from dragoman.transport.recording.recorder import Recorder
from dragoman.wire.envelope import Envelope, encode_call, encode_error, encode_result

# Names the recording of the client's side to a chain, which then records its other hops next to it.
VARIABLE = "DRAGOMAN_CHAIN_RECORDING"


def hop_path(path: str, number: int) -> str:
    """Return the file of a hop; that of the first one, next to the client, has no number."""
    stem, ending = os.path.splitext(path)
    return path if number == 1 else f"{stem}.hop-{number}{ending}"


class HopRecorder:
    """One recording for each hop, from the first one that is wanted."""

    def __init__(self, path: str, names: Sequence[str], report: Callable[[str], None], first: int = 1) -> None:
        """`names` are all components, the client first; the first hop may be recorded elsewhere."""
        self._numbers = count()
        command = ["dragoman", *sys.argv[1:]]
        self._recorders = {
            number: Recorder(hop_path(path, number), command, report, FrameRedactor(), pair)
            for number, pair in enumerate(pairwise(names), 1)
            if number >= first
        }

    def record(
        self, source: int, target: int, receiver: Side, method: str, params: Params, call: Call | None
    ) -> Call | None:
        """Record a message from one component to another; return the call to send in its place."""
        hops = range(min(source, target) + 1, max(source, target) + 1)
        way, back = (TO_AGENT, TO_CLIENT) if receiver is Side.AGENT else (TO_CLIENT, TO_AGENT)
        id = None if call is None else next(self._numbers)
        frame = encode_call(UNSET if id is None else id, method, None if params is UNSET else params)
        self._write(hops if receiver is Side.AGENT else reversed(hops), way, frame)
        if call is None:
            return None

        def answer(envelope: Envelope | None, error: ProtocolError | None) -> None:
            self._write(reversed(hops) if receiver is Side.AGENT else hops, back, _answer_frame(id, envelope, error))
            call.finish(envelope, error)

        inner = Call(method, answer, id=call.id, parent=call)
        call.hold(inner)
        return inner

    def _write(self, hops: Iterable[int], way: str, frame: bytes) -> None:
        for number in hops:
            recorder = self._recorders.get(number)
            if recorder is not None:
                recorder.record(way, frame + b"\n")

    def close(self, reason: str) -> None:
        """End the recordings."""
        for recorder in self._recorders.values():
            recorder.close(reason)


def _answer_frame(id: int | None, envelope: Envelope | None, error: ProtocolError | None) -> bytes:
    if envelope is None:
        message = "cancelled" if error is None else error.message
        return encode_error(id, Raw(encode({"code": -32603, "message": message})))
    if envelope.error is not UNSET and envelope.result is UNSET:
        return encode_error(id, envelope.error)
    return encode_result(id, Raw(b"{}") if envelope.result is UNSET else envelope.result)
