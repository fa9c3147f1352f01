"""The other end as a probe sees it: frames in and out in the peer's dialect, every wait bounded, everything recorded.

Takes a byte transport (a process, a pair of pipes, our own stdio) and a dialect; gives raw messages, and beside each
call the vocabulary's reading of it. Ordinary messages are spelled by the dialect, a probe about bytes pours its own.
Two stages stand on this: `agent_stage` before an agent, `client_stage` before a client. It refuses to judge.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

import msgspec

from dragoman.conformance.harness.timeouts import Pace
from dragoman.conformance.verdict import Evidence, Failed, Skipped, Unsure
from dragoman.dialect.dialects import load_dialect as find_dialect
from dragoman.errors import ConnectionFailed, DragomanError, TransportClosed
from dragoman.schema.side import Side
from dragoman.wire.frames import Frame, Oversize

Json = Any

# So much of a frame is kept as evidence: enough to see what it is, for a report must stay readable. Characters.
EXCERPT = 4000

# A wait is cut into so many beats, and a beat counts as no longer than it should be: on a machine that gives us no time
# the peer gets none either, and would be found late for no fault of its own.
BEATS = 20

# A peer that took long for something gets so many times as long for it the next time, in another probe too: it may be
# slow, and so may be the machine, and neither is a fault.
SLOWER = 4.0

# Where no frame proves a failure, for none came, so many of the last ones show what it was about.
PROOF = 3

# So much that is no message is read of one peer: debug output is less, and who floods us has nothing to say. Bytes.
NOISE = 8 * 1024 * 1024

# So many frames are kept as evidence; a flood is told by its beginning, and by what was marked.
MOST = 400


class Line(Protocol):
    """What carries the frames: pipes, or something that acts as if it were pipes."""

    async def receive(self) -> list[Frame]:
        """The next frames; raises ConnectionFailed after the last one."""
        ...

    def send(self, data: bytes) -> None:
        """Send one frame."""
        ...

    def write_raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        ...

    async def drain(self) -> None:
        """Wait until the peer has taken most of what was sent."""
        ...

    async def send_eof(self) -> None:
        """End our half of the conversation."""
        ...


class Flooded(TransportClosed):
    """The peer writes without end what is no message."""


class Heard(msgspec.Struct, eq=False):
    """A frame the peer sent: its bytes, its JSON (None when it is none) and its place in the record."""

    at: float
    raw: bytes
    message: Json
    evidence: Evidence
    method: str = ""
    params: Json = None

    @property
    def is_request(self) -> bool:
        """Whether it wants an answer."""
        return isinstance(self.message, dict) and "method" in self.message and "id" in self.message

    @property
    def is_reply(self) -> bool:
        """Whether it is an answer: no method, and a result or an error."""
        message = self.message
        return isinstance(message, dict) and "method" not in message and ("result" in message or "error" in message)

    @property
    def update(self) -> dict[str, Json]:
        """The update of a session/update, as the vocabulary says it; empty for anything else."""
        found = self.params.get("update") if self.method == "session/update" and isinstance(self.params, dict) else None
        return found if isinstance(found, dict) else {}

    @property
    def kind(self) -> str:
        """The kind of update in the vocabulary's words, "" for anything else."""
        return str(self.update.get("sessionUpdate", ""))


class Stage:
    """One conversation with a fresh peer."""

    we: Side

    def __init__(self, transport: Line, dialect: str, pace: Pace, *, needs: str = "") -> None:
        self.transport = transport
        self.dialect = dialect
        self.pace = pace
        self.needs = needs
        self.spelling = find_dialect(dialect)
        self.record: list[Evidence] = []
        self.heard: list[Heard] = []
        self.tempo: dict[str, float] = {}
        """The longest that each method took to be answered, in seconds; a run shares one among its probes."""
        self.gone: ConnectionFailed | None = None
        """Why nothing more comes; None while the peer can be heard."""
        self._began = time.monotonic()
        self._noise = 0  # bytes
        self._waited = 0.0  # seconds, as `next` counts them
        self._unread: list[Heard] = []
        self._last_id = 0
        self._asked: dict[str, str] = {}  # the methods of our requests, by their ids as JSON

    # --- saying -------------------------------------------------------------------------------------------------

    def send(self, message: Json) -> None:
        """Say one message, or any bytes as one line. A peer that is gone hears nothing, which is no fault of ours."""
        data = message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode()
        self._note("out", data.decode("utf-8", "backslashreplace"))
        try:
            self.transport.send(data)
        except ConnectionFailed as error:
            self.gone = self.gone or error

    def write_raw(self, data: bytes) -> None:
        """Write bytes as they are: half a line, several lines."""
        self._note("out", data.decode("utf-8", "backslashreplace"))
        try:
            self.transport.write_raw(data)
        except ConnectionFailed as error:
            self.gone = self.gone or error

    def call(self, method: str, params: Json, id: Json = None) -> Json:
        """Say a request exactly so; gives its id."""
        if id is None:
            self._last_id += 1
            id = self._last_id
        self._asked[json.dumps(id)] = method
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        return id

    def tell(self, method: str, params: Json) -> None:
        """Say a notification exactly so."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def reply(self, asked: Heard, result: Json) -> None:
        """Answer a request with exactly this."""
        self.send({"jsonrpc": "2.0", "id": asked.message["id"], "result": result})

    def refuse(self, asked: Heard, code: int, message: str) -> None:
        """Answer a request with an error."""
        self.send({"jsonrpc": "2.0", "id": asked.message["id"], "error": {"code": code, "message": message}})

    def spelled(self, method: str, params: Json) -> tuple[str, Json]:
        """A call of the vocabulary to the peer, as its dialect says it."""
        peer = Side.CLIENT if self.we is Side.AGENT else Side.AGENT
        return self.spelling.lower_call(peer, method, params)

    def answer_as(self, asked: Heard, result: Json) -> None:
        """Answer a request with a result of the vocabulary, spelled in the peer's dialect."""
        self.reply(asked, self.spelling.lower_result(self.we, asked.method, result))

    # --- hearing ------------------------------------------------------------------------------------------------

    async def next(self, seconds: float) -> Heard | None:
        """The next frame; None when none came in time or the peer is gone (then `gone` says why)."""
        end = self._waited + seconds
        beat = max(seconds, 0.001) / BEATS
        while not self._unread and self.gone is None and self._waited < end:
            began = time.monotonic()
            try:
                async with asyncio.timeout(beat):
                    frames = await self.transport.receive()
                self._unread.extend(self._read(frame) for frame in frames)
                if self._noise > NOISE:
                    self.gone = Flooded(f"it wrote more than {NOISE >> 20} MiB of what is no message")
                    self.note(f"nothing more is read: {self.gone}")
            except TimeoutError:
                pass
            except ConnectionFailed as error:
                self.gone = error
                self.note(f"the peer is gone: {error}")
            self._waited += min(time.monotonic() - began, beat)
        if not self._unread:
            return None
        found = self._unread.pop(0)
        self.heard.append(found)
        self.attend(found)
        return found

    def attend(self, heard: Heard) -> None:
        """Called with every frame as it is taken; a stage that serves its peer's requests does it here."""

    async def until(self, wanted: Callable[[Heard], bool], seconds: float | None = None) -> Heard | None:
        """The next frame that is wanted, None when it does not come in time; what comes before is in `heard`."""
        end = self._waited + (self.pace.answer if seconds is None else seconds)
        while (left := end - self._waited) > 0 or self._unread:
            found = await self.next(left)
            if found is None:
                return None
            if wanted(found):
                return found
        return None

    async def answered(self, id: Json, seconds: float | None = None) -> Heard | None:
        """The answer to a request of ours, None when none comes in time."""
        method, began = self._asked.get(json.dumps(id), ""), self._waited
        seconds = self.pace.answer if seconds is None else seconds
        if seconds >= self.pace.answer:  # a shorter wait is meant to end without
            seconds = self.patience(seconds, method, SLOWER)
        # True == 1 in Python: the type has to agree as well.
        found = await self.until(lambda heard: heard.is_reply and _same(heard.message.get("id"), id), seconds)
        if found is not None:
            self.tempo[method] = max(self.tempo.get(method, 0.0), self._waited - began)
        return found

    def patience(self, seconds: float, method: str, times: float) -> float:
        """So many seconds, or so many times what this method took before, but no longer than a start may take."""
        return max(seconds, min(times * self.tempo.get(method, 0.0), self.pace.start))

    def asked_by(self, heard: Heard) -> str:
        """The method of the request of ours that this answers, "" when it answers none."""
        return self._asked.get(json.dumps(heard.message.get("id")), "")

    async def silence(self, seconds: float | None = None) -> list[Heard]:
        """Everything that comes within a while: what must not come would be in it."""
        seconds = self.pace.quiet if seconds is None else seconds
        start = len(self.heard)
        await self.until(lambda _: False, seconds)
        return self.heard[start:]

    def unasked(self, heard: list[Heard]) -> list[Heard]:
        """Those of the frames that answer nothing we asked by `call`."""
        return [each for each in heard if each.is_reply and json.dumps(each.message.get("id")) not in self._asked]

    async def left(self) -> bool:
        """End the peer's input; whether it went by itself in time. Who was slow to come may be slow to go."""
        self.note("our end of the conversation was closed")
        await self.transport.send_eof()
        await self.until(lambda _: False, self.patience(self.pace.leave, "initialize", SLOWER))
        return self.gone is not None and "still running" not in str(self.gone)

    def updates(self, kind: str = "", start: int = 0) -> list[Heard]:
        """The updates heard (since the frame of that number), of one kind in the vocabulary's words or all."""
        found = [heard for heard in self.heard[start:] if heard.kind]
        return [heard for heard in found if heard.kind == kind] if kind else found

    # --- judging ------------------------------------------------------------------------------------------------

    def require(self, condition: object, why: str, *proof: Heard | None) -> None:
        """End with `fail` unless this holds; `proof` are the frames that show it."""
        self.mark(*proof)
        if not condition:
            if not any(each.marked for each in self.record):  # nothing came: what was said shows what was due
                for each in self.record[-PROOF:]:
                    each.marked = True
            raise Failed(why)

    def skip(self, why: str) -> NoReturn:
        """End with `not applicable`."""
        raise Skipped(why)

    def unsure(self, why: str, *proof: Heard | None) -> NoReturn:
        """End with `inconclusive`: the peer did not do what the probe needs."""
        self.mark(*proof)
        raise Unsure(why)

    def mark(self, *proof: Heard | None) -> None:
        """These frames prove it."""
        for heard in proof:
            if heard is not None:
                heard.evidence.marked = True

    def note(self, text: str) -> None:
        """Put a remark of our own between the frames."""
        self._note("note", text)

    def evidence(self) -> list[Evidence]:
        """The record, cut to a readable length."""
        return self.record[:MOST] + [each for each in self.record[MOST:] if each.marked]

    # --- recording ----------------------------------------------------------------------------------------------

    def _note(self, dir: str, text: str) -> Evidence:
        made = Evidence(t=round(time.monotonic() - self._began, 6), dir=dir, text=text[:EXCERPT], size=len(text))
        self.record.append(made)
        return made

    def _read(self, frame: Frame) -> Heard:
        raw = frame.head if isinstance(frame, Oversize) else frame
        made = self._note("in", raw.decode("utf-8", "backslashreplace"))
        try:
            message = json.loads(raw)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            self._noise += frame.size if isinstance(frame, Oversize) else len(frame)
        heard = Heard(at=time.monotonic(), raw=raw, message=message, evidence=made)
        if isinstance(message, dict) and isinstance(message.get("method"), str):
            heard.method, heard.params = message["method"], message.get("params")
            try:
                heard.method, heard.params = self.spelling.lift_call(self.we, heard.method, heard.params)
            except DragomanError:
                pass  # what our reading cannot make sense of stays as it came
        return heard


def _same(one: Json, other: Json) -> bool:
    return type(one) is type(other) and bool(one == other)
