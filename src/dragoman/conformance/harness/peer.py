"""The peer under test as a probe sees it: frames in and out in its dialect, with timeouts and a record.

Each received call has its raw message and its v1 form. `agent` and `client` build on it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, Protocol, TypeVar

import msgspec

from dragoman.conformance.json_shape import Shape, mismatch
from dragoman.conformance.verdict import Evidence, Failed, Inconclusive, Skipped
from dragoman.dialect.dialects import load_dialect
from dragoman.errors import ConnectionFailed, DragomanError, TransportClosed
from dragoman.schema.side import Side
from dragoman.wire.frames import Frame, Oversize

Json = Any
T = TypeVar("T")

# How much of a frame is kept as evidence, so that a report stays readable. Characters.
EXCERPT = 4000

# A wait is divided into so many steps, and a step counts at most its nominal time: on a busy machine that gives us no
# CPU the peer gets none either, and would seem late.
BEATS = 20

# A peer that was slow for a method gets so many times that time for it later, also in other probes.
SLOWER = 4.0

# When no frame proves a failure, mark so many of the last ones.
PROOF = 3

# How much output that is not a message is read from one peer: debug output is less. Bytes.
NOISE = 8 * 1024 * 1024

# How many frames are kept as evidence, besides the marked ones.
MOST = 400


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts in seconds."""

    start: float
    """For the answer to initialize: real agents load a runtime first, and sometimes use the network."""
    answer: float
    """For the answer to a request that needs no model."""
    turn: float
    """For the end of a turn, and for its first update."""
    quiet: float
    """For something that must not come."""
    exit: float
    """For a peer to exit after its input ended; some need two seconds (docs/protocol/peers.md#end-of-input)."""
    probe: float
    """For the whole probe."""


PROCESS = Timeouts(start=60.0, answer=10.0, turn=30.0, quiet=0.4, exit=5.0, probe=150.0)


class RawChannel(Protocol):
    """A channel of frames: pipes, or something that acts like pipes."""

    async def receive(self) -> list[Frame]:
        """Return the next frames; raise ConnectionFailed after the last one."""
        ...

    def send(self, data: bytes) -> None:
        """Send one frame."""
        ...

    def write_raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        ...

    async def drain(self) -> None:
        """Wait until the peer has read most of what was sent."""
        ...

    async def send_eof(self) -> None:
        """Close our side of the connection."""
        ...


class NoiseLimitExceeded(TransportClosed):
    """The peer writes endless output that is not a message."""


class ReceivedFrame(msgspec.Struct, eq=False):
    """A frame from the peer: its bytes, its JSON (None if it is none), its evidence, and the call in v1 terms."""

    at: float
    raw: bytes
    message: Json
    evidence: Evidence
    method: str = ""
    params: Json = None

    @property
    def is_request(self) -> bool:
        """Whether it expects an answer."""
        return isinstance(self.message, dict) and "method" in self.message and "id" in self.message

    @property
    def is_reply(self) -> bool:
        """Whether it is an answer: no method, and a result or an error."""
        message = self.message
        return isinstance(message, dict) and "method" not in message and ("result" in message or "error" in message)

    @property
    def wire_params(self) -> Json:
        """The params as they came; empty when they are not an object."""
        return self._object("params")

    @property
    def result(self) -> Json:
        """The result of an answer; empty when it is not an object."""
        return self._object("result")

    @property
    def error(self) -> Json:
        """The error of an answer; empty when it has none."""
        return self._object("error")

    def _object(self, name: str) -> Json:
        found = self.message.get(name) if isinstance(self.message, dict) else None
        return found if isinstance(found, dict) else {}

    @property
    def update(self) -> dict[str, Json]:
        """The update of a session/update in the terms of v1; empty for anything else."""
        found = self.params.get("update") if self.method == "session/update" and isinstance(self.params, dict) else None
        return found if isinstance(found, dict) else {}

    @property
    def kind(self) -> str:
        """The kind of the update in the terms of v1, "" for anything else."""
        return str(self.update.get("sessionUpdate", ""))


class PeerUnderTest:
    """One conversation with a fresh peer."""

    our_side: Side

    def __init__(self, transport: RawChannel, dialect: str, timeouts: Timeouts, *, needs: str = "") -> None:
        self.transport = transport
        self.dialect = dialect
        self.timeouts = timeouts
        self.needs = needs
        self.purpose = ""  # of the last prompt for an agent
        self.codec = load_dialect(dialect)
        self.record: list[Evidence] = []
        self.received: list[ReceivedFrame] = []
        self.response_times: dict[str, float] = {}
        """The longest time each method took to be answered, in seconds; shared by the probes of a run."""
        self.closed: ConnectionFailed | None = None
        """Why no more frames come; None while the connection is open."""
        self.stderr_size = 0  # bytes
        self._began = time.monotonic()
        self._noise = 0  # bytes
        self._waited = 0.0  # seconds, as `next` counts them
        self._unread: list[ReceivedFrame] = []
        self._last_id = 0
        self._request_methods: dict[str, str] = {}  # the methods of our requests, by their ids as JSON

    # --- sending -------------------------------------------------------------------------------------------------

    def send(self, message: Json) -> None:
        """Send one message, or any bytes as one line. Do nothing if the peer is gone."""
        data = message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode()
        self._record("out", data.decode("utf-8", "backslashreplace"))
        try:
            self.transport.send(data)
        except ConnectionFailed as error:
            self.closed = self.closed or error

    def write_raw(self, data: bytes) -> None:
        """Write bytes as they are: half a line, several lines."""
        self._record("out", data.decode("utf-8", "backslashreplace"))
        try:
            self.transport.write_raw(data)
        except ConnectionFailed as error:
            self.closed = self.closed or error

    def call(self, method: str, params: Json, id: Json = None) -> Json:
        """Send this request; return its id."""
        if id is None:
            self._last_id += 1
            id = self._last_id
        self._request_methods[json.dumps(id)] = method
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        return id

    async def request(self, method: str, params: Json, seconds: float | None = None) -> ReceivedFrame | None:
        """Send this request as it is; return the answer, None when none comes in time."""
        return await self.wait_reply(self.call(method, params), seconds)

    def notify(self, method: str, params: Json) -> None:
        """Send this notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def reply(self, request: ReceivedFrame, result: Json) -> None:
        """Answer a request with this result."""
        self.send({"jsonrpc": "2.0", "id": request.message["id"], "result": result})

    def refuse(self, request: ReceivedFrame, code: int, message: str) -> None:
        """Answer a request with an error."""
        self.send({"jsonrpc": "2.0", "id": request.message["id"], "error": {"code": code, "message": message}})

    def to_wire(self, method: str, params: Json) -> tuple[str, Json]:
        """Return a call of v1 as the peer's dialect writes it."""
        peer = Side.CLIENT if self.our_side is Side.AGENT else Side.AGENT
        return self.codec.lower_call(peer, method, params)

    def reply_in_dialect(self, request: ReceivedFrame, result: Json) -> None:
        """Answer a request with a result of v1, in the peer's dialect."""
        self.reply(request, self.codec.lower_result(self.our_side, request.method, result))

    # --- receiving ------------------------------------------------------------------------------------------------

    async def next_frame(self, seconds: float) -> ReceivedFrame | None:
        """Return the next frame; None when none came in time or the peer is gone (see `closed`)."""
        end = self._waited + seconds
        beat = max(seconds, 0.001) / BEATS
        while not self._unread and self.closed is None and self._waited < end:
            began = time.monotonic()
            try:
                async with asyncio.timeout(beat):
                    frames = await self.transport.receive()
                self._unread.extend(self._read(frame) for frame in frames)
                if self._noise > NOISE:
                    self.closed = NoiseLimitExceeded(f"it wrote more than {NOISE >> 20} MiB of what is not a message")
                    self.note(f"nothing more is read: {self.closed}")
            except TimeoutError:
                pass
            except ConnectionFailed as error:
                self.closed = error
                self.note(f"the peer is gone: {error}")
            self._waited += min(time.monotonic() - began, beat)
        if not self._unread:
            return None
        found = self._unread.pop(0)
        self.received.append(found)
        self.on_frame(found)
        return found

    def on_frame(self, result: ReceivedFrame) -> None:
        """Handle each frame as it is taken; subclasses answer the peer's requests here."""

    async def wait_for(
        self, matches: Callable[[ReceivedFrame], bool], seconds: float | None = None
    ) -> ReceivedFrame | None:
        """Return the next frame that matches, None when none comes in time; those before it are in `received`."""
        end = self._waited + (self.timeouts.answer if seconds is None else seconds)
        while (left := end - self._waited) > 0 or self._unread:
            found = await self.next_frame(left)
            if found is None:
                return None
            if matches(found):
                return found
        return None

    async def wait_method(self, method: str, seconds: float | None = None) -> ReceivedFrame | None:
        """Return the next call of this method, None when none comes in time."""
        return await self.wait_for(lambda frame: frame.method == method, seconds)

    async def wait_reply(self, id: Json, seconds: float | None = None) -> ReceivedFrame | None:
        """Return the answer to a request of ours, None when none comes in time."""
        method, began = self._request_methods.get(json.dumps(id), ""), self._waited
        seconds = self.timeouts.answer if seconds is None else seconds
        if seconds >= self.timeouts.answer:  # a shorter wait is meant to end without
            seconds = self.timeout_for(seconds, method, SLOWER)
        # True == 1 in Python: the type has to agree as well.
        found = await self.wait_for(lambda result: result.is_reply and _same(result.message.get("id"), id), seconds)
        if found is not None:
            self.response_times[method] = max(self.response_times.get(method, 0.0), self._waited - began)
        return found

    async def wait_replies(self, ids: Iterable[Json], seconds: float | None = None) -> set[Json]:
        """Wait for the answers to these requests of ours; return the ids of those that were not answered in time."""
        missing = set(ids) - {frame.message.get("id") for frame in self.received if frame.is_reply}

        def is_last(frame: ReceivedFrame) -> bool:
            if frame.is_reply:
                missing.discard(frame.message.get("id"))
            return not missing

        await self.wait_for(is_last, seconds)
        return missing

    def timeout_for(self, seconds: float, method: str, times: float) -> float:
        """Return `seconds`, or so many times what this method took before, but at most the start timeout."""
        return max(seconds, min(times * self.response_times.get(method, 0.0), self.timeouts.start))

    def method_answered(self, result: ReceivedFrame) -> str:
        """Return the method of our request that this answers, or ""."""
        return self._request_methods.get(json.dumps(result.message.get("id")), "")

    async def collect(self, seconds: float | None = None) -> list[ReceivedFrame]:
        """Return everything that comes within this time."""
        seconds = self.timeouts.quiet if seconds is None else seconds
        start = len(self.received)
        await self.wait_for(lambda _: False, seconds)
        return self.received[start:]

    async def stray_replies(self) -> list[ReceivedFrame]:
        """Return the answers that come within a moment and answer no request sent by `call`."""
        return [each for each in await self.collect() if each.is_reply and not self.method_answered(each)]

    async def close_and_wait(self) -> bool:
        """Close the peer's input; return whether it exits in time. A peer that starts slowly may exit slowly."""
        self.note("our end of the conversation was closed")
        await self.transport.send_eof()
        await self.wait_for(lambda _: False, self.timeout_for(self.timeouts.exit, "initialize", SLOWER))
        return self.closed is not None and "still running" not in str(self.closed)

    def updates(self, *kinds: str, start: int = 0) -> list[ReceivedFrame]:
        """Return the updates since the frame of that number, of these kinds or all."""
        return [frame for frame in self.received[start:] if frame.kind and (frame.kind in kinds or not kinds)]

    def calls(self, method: str) -> list[ReceivedFrame]:
        """Return the peer's calls of this method."""
        return [frame for frame in self.received if frame.method == method]

    def replies(self, id: Json) -> list[ReceivedFrame]:
        """Return the answers with this id."""
        return [frame for frame in self.received if frame.is_reply and frame.message.get("id") == id]

    # --- verdicts ------------------------------------------------------------------------------------------------

    def require(self, value: T | None, why: str, *proof: ReceivedFrame | None) -> T:
        """Return the value; end with `fail` when it is false or None. `proof` are the frames that show it."""
        self.mark(*proof)
        if not value:
            if not any(each.marked for each in self.record):  # nothing came: what was said shows what was due
                for each in self.record[-PROOF:]:
                    each.marked = True
            raise Failed(why)
        return value

    def require_none(self, found: Sequence[ReceivedFrame], why: str, *proof: ReceivedFrame | None) -> None:
        """End with `fail` when there are such frames, which prove it."""
        self.require(not found, why, *proof, *found)

    def require_shape(self, value: Json, shape: Shape, frame: ReceivedFrame | None = None, where: str = "") -> None:
        """End with `fail` unless the value has this shape; `where` is what to call it."""
        problem = mismatch(value, shape, where)
        self.require(not problem, problem, frame)

    def require_params(self, frame: ReceivedFrame, shape: Shape, where: str = "") -> None:
        """End with `fail` unless the params of this call, as they came, have this shape."""
        self.require_shape(frame.message.get("params"), shape, frame, where)

    def assume(self, value: T | None, why: str, *proof: ReceivedFrame | None) -> T:
        """Return the value; end with `inconclusive` when it is false or None: the peer did not do what is needed."""
        if not value:
            self.inconclusive(
                f"{why}; add a prompt for {self.purpose!r} with --script" if self.purpose else why, *proof
            )
        return value

    def inconclusive(self, why: str, *proof: ReceivedFrame | None) -> NoReturn:
        """End with `inconclusive`."""
        self.mark(*proof)
        raise Inconclusive(why)

    def skip_unless(self, value: T | None, why: str) -> T:
        """Return the value; end with `not applicable` when it is false or None."""
        if not value:
            raise Skipped(why)
        return value

    def skip(self, why: str) -> NoReturn:
        """End with `not applicable`."""
        raise Skipped(why)

    def mark(self, *proof: ReceivedFrame | None) -> None:
        """Mark these frames as proof."""
        for result in proof:
            if result is not None:
                result.evidence.marked = True

    def note(self, text: str) -> None:
        """Add a note to the record."""
        self._record("note", text)

    def evidence(self) -> list[Evidence]:
        """Return the record, cut to a readable length."""
        return self.record[:MOST] + [each for each in self.record[MOST:] if each.marked]

    # --- recording ----------------------------------------------------------------------------------------------

    def _record(self, dir: str, text: str) -> Evidence:
        made = Evidence(t=round(time.monotonic() - self._began, 6), dir=dir, text=text[:EXCERPT], size=len(text))
        self.record.append(made)
        return made

    def _read(self, frame: Frame) -> ReceivedFrame:
        raw = frame.head if isinstance(frame, Oversize) else frame
        made = self._record("in", raw.decode("utf-8", "backslashreplace"))
        try:
            message = json.loads(raw)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            self._noise += frame.size if isinstance(frame, Oversize) else len(frame)
        result = ReceivedFrame(at=time.monotonic(), raw=raw, message=message, evidence=made)
        if isinstance(message, dict) and isinstance(message.get("method"), str):
            result.method, result.params = message["method"], message.get("params")
            try:
                result.method, result.params = self.codec.lift_call(self.our_side, result.method, result.params)
            except DragomanError:
                pass  # what our reading cannot make sense of stays as it came
        return result


def _same(one: Json, other: Json) -> bool:
    return type(one) is type(other) and bool(one == other)
