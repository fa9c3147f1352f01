"""Replay a recording as one of its sides: what to send after each message of the peer under test.

Ids of requests, sessions and terminals that the peer chooses replace the recorded ones. Strict requires order and
content as recorded; lenient accepts requests in any order. `ReplayScript` does no I/O; `play_script` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from dragoman.errors import ConnectionFailed
from dragoman.inspect.diff import ID_MEMBERS, IGNORED_MEMBERS, compare
from dragoman.transport.base import Transport
from dragoman.transport.recording.format import OPPOSITE, RecordedLine, parse_json
from dragoman.wire.frames import Oversize

METHOD_NOT_FOUND, INVALID_REQUEST = -32601, -32600

# Seconds to wait for an expected message of the peer.
REPLY_TIMEOUT = 30.0


class ReplayStep(msgspec.Struct, eq=False):
    """One recorded line of the script."""

    line: int
    t: int
    data: bytes
    message: Any  # None if it is not a JSON object

    @property
    def method(self) -> str:
        """The method of a call, else an empty string."""
        method = self.message.get("method") if isinstance(self.message, dict) else None
        return method if isinstance(method, str) else ""

    @property
    def id(self) -> str:
        """The id as JSON; empty for a notification."""
        return _render_id(self.message)

    @property
    def is_answer(self) -> bool:
        """Whether it answers a request."""
        return isinstance(self.message, dict) and not self.method and "id" in self.message

    @property
    def is_anonymous(self) -> bool:
        """Whether it is an error with the id null, which answers a line that could not be read."""
        return self.is_answer and self.id == "null"

    def __str__(self) -> str:
        what = self.method or ("an answer" if self.is_answer else "a line that is not a message")
        return f"{what} (line {self.line} of the recording)"


class ExpectedMessage(msgspec.Struct, eq=False):
    """A recorded message of the peer, and what our side sent before its next one."""

    expected: ReplayStep | None
    replies: list[ReplayStep]
    is_done: bool = False


class TimedFrame(NamedTuple):
    """A frame to send, and its delay in microseconds after the received message."""

    delay: int
    data: bytes


class ReplayReply(NamedTuple):
    """The frames to send, and the problem that ends the replay, if any."""

    frames: list[TimedFrame]
    problem: str = ""


class ReplayScript:
    """One recording, played as one of its sides."""

    def __init__(
        self, frames: Iterable[RecordedLine], our_direction: str, strict: bool, ignored: frozenset[str] = frozenset()
    ) -> None:
        self.strict = strict
        self._ignored = IGNORED_MEMBERS | ignored
        self._expected = [ExpectedMessage(None, [])]
        self._answers: dict[str, ReplayStep] = {}  # ours, by method, for repeated requests
        self._request_ids: dict[str, Any] = {}  # ids of the peer's requests: recorded (as JSON) -> real
        self._real_ids: dict[str, str] = {}  # ids of sessions and the like: recorded -> real
        self._pending_answers: dict[str, list[TimedFrame]] = {}  # our answers to requests not received yet
        asked: dict[tuple[str, str], str] = {}
        for frame in frames:
            if frame.direction not in OPPOSITE or not frame.data.strip() or frame.cut:
                continue
            step = ReplayStep(frame.line, frame.t or 0, frame.data, _parse_object(frame.data))
            if step.is_anonymous and frame.direction != our_direction and not strict:
                continue  # a peer need not answer what it cannot read
            if frame.direction == our_direction:
                self._expected[-1].replies.append(step)
                if step.is_answer and (method := asked.get((OPPOSITE[our_direction], step.id))):
                    self._answers.setdefault(method, step)
            else:
                self._expected.append(ExpectedMessage(step, []))
            if step.method and step.id:
                asked[frame.direction, step.id] = step.method

    def begin(self) -> list[TimedFrame]:
        """Return what to send before the first message of the peer."""
        self._expected[0].is_done = True
        return self._reply_frames(self._expected[0], 0)

    def receive(self, data: bytes) -> ReplayReply:
        """Process a message of the peer; return the reply."""
        message = _parse_object(data)
        received = ReplayStep(0, 0, data, message)
        cue, differences = self._find_expected(received)
        if cue is None:
            return self._reply_to_unexpected(received)
        assert cue.expected is not None
        if self.strict and differences:
            at = f"expected {cue.expected}; "
            return ReplayReply(
                self._error_reply(received, INVALID_REQUEST, at + differences[0]), at + "\n  ".join(differences)
            )
        cue.is_done = True
        if received.method and received.id:
            self._request_ids[cue.expected.id] = message["id"]
        _learn_ids(cue.expected.message, message, self._real_ids)
        lines = self._pending_answers.pop(cue.expected.id, []) if received.method else []
        return ReplayReply(lines + self._reply_frames(cue, cue.expected.t))

    def missing_messages(self) -> list[str]:
        """Return the messages that the peer has not sent yet."""
        return [str(cue.expected) for cue in self._expected if not cue.is_done and cue.expected is not None]

    # --- matching -------------------------------------------------------------------------------------------

    def _find_expected(self, received: ReplayStep) -> tuple[ExpectedMessage | None, list[str]]:
        waiting = [cue for cue in self._expected if not cue.is_done and cue.expected is not None]
        if self.strict:
            if not waiting:
                return None, []
            return waiting[0], self._differences(waiting[0].expected, received)
        alike = [cue for cue in waiting if _is_same_message(cue.expected, received)]
        best: tuple[ExpectedMessage | None, list[str]] = (None, [])
        for cue in alike:
            differences = self._differences(cue.expected, received)
            if best[0] is None or len(differences) < len(best[1]):
                best = (cue, differences)
            if not differences:
                break
        return best

    def _differences(self, expected: ReplayStep | None, received: ReplayStep) -> list[str]:
        if expected is None or expected.message is None or received.message is None:
            same = expected is not None and expected.data == received.data
            return [] if same else [f"{received.data[:80]!r} received"]
        if not _is_same_message(expected, received):
            came = received.method or f"an answer to {received.id}"
            return [f"received {came}"]
        return list(compare(_without_id(expected.message), _without_id(received.message), self._ignored))

    def _reply_to_unexpected(self, received: ReplayStep) -> ReplayReply:
        came = received.method or (f"an answer to {received.id}" if received.is_answer else f"{received.data[:80]!r}")
        if self.strict:
            text = f"received {came}; the recording has no more messages from this peer"
            return ReplayReply(self._error_reply(received, INVALID_REQUEST, text), text)
        if not received.method or not received.id:
            return ReplayReply([])
        again = self._answers.get(received.method)
        if again is None:
            return ReplayReply(
                self._error_reply(received, METHOD_NOT_FOUND, f"the recording has no answer to {received.method}")
            )
        return ReplayReply(
            [TimedFrame(0, _encode({**self._with_real_ids(again.message), "id": received.message["id"]}))]
        )

    def _error_reply(self, received: ReplayStep, code: int, text: str) -> list[TimedFrame]:
        if not received.method or not received.id:
            return []
        error = {"code": code, "message": text}
        return [TimedFrame(0, _encode({"jsonrpc": "2.0", "id": received.message["id"], "error": error}))]

    # --- replying -------------------------------------------------------------------------------------------

    def _reply_frames(self, cue: ExpectedMessage, since: int) -> list[TimedFrame]:
        lines = []
        for step in cue.replies:
            after = max(0, step.t - since)
            if step.is_answer and step.id not in self._request_ids and not step.is_anonymous:
                self._pending_answers.setdefault(step.id, []).append(TimedFrame(0, step.data))
                continue
            lines.append(TimedFrame(after, self._render_step(step)))
        return lines

    def _render_step(self, step: ReplayStep) -> bytes:
        if step.message is None or step.is_anonymous:
            return step.data
        message = self._with_real_ids(step.message)
        if step.is_answer:
            message = {**message, "id": self._request_ids[step.id]}
        elif step.method == "$/cancel_request" and isinstance(message.get("params"), dict):
            params = message["params"]
            real = self._request_ids.get(_render_id({"id": params.get("requestId")}), params.get("requestId"))
            message = {**message, "params": {**params, "requestId": real}}
        return step.data if message == step.message else _encode(message)

    def _with_real_ids(self, value: Any) -> Any:
        """Replace the recorded ids of sessions, terminals and the like with those of the peer."""
        return _replace_ids(value, self._real_ids) if self._real_ids else value


def _is_same_message(expected: ReplayStep | None, received: ReplayStep) -> bool:
    if expected is None or expected.message is None or received.message is None:
        return expected is not None and expected.data == received.data
    if received.is_answer or expected.is_answer:
        return received.is_answer and expected.is_answer and expected.id == received.id
    return expected.method == received.method and bool(expected.id) == bool(received.id)


def _without_id(message: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name != "id"}


def _learn_ids(recorded: Any, real: Any, real_ids: dict[str, str]) -> None:
    if isinstance(recorded, dict) and isinstance(real, dict):
        for name, value in recorded.items():
            other = real.get(name)
            if name in ID_MEMBERS and isinstance(value, str) and isinstance(other, str):
                if value != other:
                    real_ids[value] = other
            else:
                _learn_ids(value, other, real_ids)
    elif isinstance(recorded, list) and isinstance(real, list):
        for one, other in zip(recorded, real, strict=False):
            _learn_ids(one, other, real_ids)


def _replace_ids(value: Any, real_ids: dict[str, str], name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _replace_ids(item, real_ids, key) for key, item in value.items()}
    if isinstance(value, list):
        return [_replace_ids(item, real_ids) for item in value]
    return real_ids.get(value, value) if name in ID_MEMBERS and isinstance(value, str) else value


def _parse_object(data: bytes) -> Any:
    message = parse_json(data)
    return message if isinstance(message, dict) else None


def _render_id(message: Any) -> str:
    return _encode(message["id"]).decode() if isinstance(message, dict) and "id" in message else ""


def _encode(value: Any) -> bytes:
    return bytes(msgspec.json.encode(value))


# --- player -----------------------------------------------------------------------------------------------------------


async def play_script(
    script: ReplayScript,
    transport: Transport,
    *,
    initiates: bool,
    original_timing: bool,
    timeout: float | None = REPLY_TIMEOUT,
) -> list[str]:
    """Play to the end of the script (if we initiate) or until the peer disconnects; return the problems."""
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def enqueue(lines: list[TimedFrame]) -> None:
        now = loop.time()
        for line in lines:
            waiting.put_nowait((now + line.delay / 1e6 if original_timing else now, line.data))

    async def send_frames() -> None:
        while True:
            due, data = await waiting.get()
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            transport.send(data)
            if transport.congested():
                await transport.drain()
            waiting.task_done()

    sender = asyncio.ensure_future(send_frames())
    problems: list[str] = []
    try:
        enqueue(script.begin())
        while not problems and not (initiates and not script.missing_messages()):
            try:
                async with asyncio.timeout(timeout if initiates else None):
                    frames = await transport.receive()
            except TimeoutError:
                problems.append(f"timed out after {timeout:g} s waiting for {script.missing_messages()[0]}")
                break
            except ConnectionFailed as error:
                problems += _disconnect_problems(script, error, initiates)
                break
            for frame in frames:
                reaction = script.receive(frame.head if isinstance(frame, Oversize) else frame)
                enqueue(reaction.frames)
                if reaction.problem:
                    problems.append(reaction.problem)
                    break
        finished = asyncio.ensure_future(waiting.join())
        await asyncio.wait([finished, sender], return_when=asyncio.FIRST_COMPLETED)
        finished.cancel()
    finally:
        sender.cancel()
        await asyncio.gather(sender, return_exceptions=True)
    return problems


def _disconnect_problems(script: ReplayScript, error: ConnectionFailed, initiates: bool) -> list[str]:
    missing = script.missing_messages()
    if missing and (script.strict or initiates):
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        return [f"the peer disconnected before it sent {missing[0]}{more}: {error}"]
    return []
