"""Play a scenario: perform its actions, wait for its expectations, and report exactly where the peer deviated.

`ScriptedPeer.follow` uses it. Answers belong to the latest open request.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from dragoman.errors import ConnectionFailed
from dragoman.testing.matching import filled, matches
from dragoman.testing.scenario import Action, Eventually, Expectation, Message, Step, Tolerated, Unordered, left

if TYPE_CHECKING:
    from dragoman.testing.scripted_peer import ScriptedPeer

# Characters of a frame shown in a failure, and lines shown at the start and end of a long exchange.
SHOWN = 400
LINES = 40

_STEERING = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


class Departure(AssertionError):
    """The peer deviated from the scenario; `exchange` has all messages."""

    def __init__(self, text: str, exchange: Sequence[str]) -> None:
        super().__init__(text)
        self.exchange = list(exchange)


class _Question(NamedTuple):
    method: str
    id: Any


class Following:
    """A running scenario."""

    def __init__(self, peer: ScriptedPeer, ignore: Sequence[Expectation] = ()) -> None:
        self.names: dict[str, Any] = {}
        self._peer = peer
        self._ignored = tuple(ignore)
        self._tolerated: list[Expectation | None] = []
        self._ours: list[_Question] = []  # open requests
        self._theirs: list[_Question] = []
        self._last_id = 0
        self._step = ""

    async def play(self, scenario: Sequence[Step]) -> dict[str, Any]:
        """Run all steps in order; return the values of the names."""
        for number, step in enumerate(scenario, 1):
            self._step = f"step {number} of {len(scenario)}"
            if isinstance(step, Action):
                await self._act(step)
            elif isinstance(step, Tolerated):
                self._tolerated.append(step.expected)
            else:
                if isinstance(step, Eventually):
                    self._tolerated.append(None)
                await self._meet(_expected(step))
                self._tolerated.clear()
        return self.names

    async def finish(self) -> None:
        """Wait until the peer disconnects; only ignored messages may come."""
        self._step = "its end"
        while (message := await self._hear([left()])).verb != "left":
            if all(self._fault(each, message) is not None for each in self._ignored):
                raise self._departed("nothing more", _text_of(message), "to allow other messages, pass ignore=[...]")

    # --- actions ----------------------------------------------------------------------------------------------------

    async def _act(self, step: Action) -> None:
        body = filled(step.body, self.names) if step.verb != "say" else step.body
        message: Any = {"jsonrpc": "2.0"}
        if step.verb == "leave":
            self._peer.exchange.append(f"   {self._peer.seat} left")
            await self._peer.transport.close("the scenario says so")
            return
        if step.verb == "say":
            message = body
        elif step.verb in ("ask", "tell"):
            if step.verb == "ask":
                self._last_id += 1
                message["id"] = self._last_id
                self._ours.append(_Question(step.method, self._last_id))
            message |= {"method": step.method, "params": body}
        else:
            message["id"] = self._open(step).id
            message["result" if step.verb == "answer" else "error"] = body
        try:
            self._peer.send(message)
        except ConnectionFailed as error:
            raise self._departed(f"to {step}", f"{self._peer.other} has disconnected: {error}", "") from None

    def _open(self, step: Action) -> _Question:
        found = _nearest(self._theirs, step.method)
        if found is None:
            what = f"request {step.method} is" if step.method else "request is"
            raise ValueError(f"{self._step} ({step}): no {what} open; expect asked(...) before it")
        self._theirs.remove(found)
        return found

    # --- expectations -----------------------------------------------------------------------------------------------

    async def _meet(self, expected: list[Expectation]) -> None:
        while expected:
            message = await self._hear(expected)
            faults = []
            for each in expected:
                fault = self._fault(each, message)
                if fault is None:
                    expected.remove(each)
                    break
                faults.append(fault)
            else:
                tolerated = [*self._ignored, *self._tolerated]
                if not any(each is None or self._fault(each, message) is None for each in tolerated):
                    raise self._departed(_all(expected), _text_of(message), "; ".join(dict.fromkeys(faults)))
                if None in self._tolerated and message.verb == "left":
                    raise self._departed(_all(expected), _text_of(message), "")
            self._settle(message)

    def _fault(self, expected: Expectation, message: Message) -> str | None:
        """Return None and learn the names if the message matches; else the difference."""
        if expected.verb != message.verb:
            return f"expected {expected.verb}, received {message.verb}"
        if expected.verb in ("answered", "refused"):
            due = _nearest(self._ours, expected.method)
            if due is None:
                return f"no request {expected.method or 'of ours'} is open"
            if due.id != message.id:
                return f"it answers {message.method} (id {message.id!r}), not {due.method} (id {due.id!r})"
        elif expected.method != message.method:
            return f"expected {expected.method}, received {message.method}"
        names = dict(self.names)
        wanted = expected.body
        fault = None if wanted is None or wanted == {} else matches(wanted, message.body, names)
        if fault is None:
            self.names.update(names)
        return fault

    def _settle(self, message: Message) -> None:
        if message.verb == "asked":
            self._theirs.append(_Question(message.method, message.id))
        elif message.verb in ("answered", "refused"):
            self._ours = [question for question in self._ours if question.id != message.id]

    async def _hear(self, expected: list[Expectation]) -> Message:
        peer = self._peer
        try:
            data = await peer.hear()
        except TimeoutError:
            raise self._departed(_all(expected), f"nothing for {peer.timeout:g} seconds", "") from None
        except ConnectionFailed as error:
            peer.exchange.append(f"   {peer.other} left")
            return Message("left", "", str(error))
        try:
            message = msgspec.json.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            message = None
        if not isinstance(message, dict):
            why = "standard output may carry only messages; print everything else to stderr"
            raise self._departed(_all(expected), f"a line that is not a message: {readable(repr(data))}", why)
        peer.heard.append(message)
        return self._read(message)

    def _read(self, message: dict[str, Any]) -> Message:
        method, id = message.get("method"), message.get("id")
        if isinstance(method, str):
            return Message("asked" if "id" in message else "told", method, message.get("params"), id)
        question = next((each for each in self._ours if each.id == id and type(each.id) is type(id)), None)
        to = question.method if question else "nothing we asked"
        if "error" in message:
            return Message("refused", to, message["error"], id)
        return Message("answered" if "result" in message else "said", to, message.get("result", message), id)

    def _departed(self, expected: str, received: str, why: str) -> Departure:
        peer = self._peer
        lines = [
            f"{peer.other} deviated from the scenario at {self._step}",
            f"  expected  {expected}",
            f"  received  {received}",
            *([f"  because   {why}"] if why else []),
            f"the exchange (-> {peer.seat}, <- {peer.other}):",
            *(f"  {readable(line)}" for line in _ends(peer.exchange)),
        ]
        return Departure("\n".join(lines), peer.exchange)


def _expected(step: Step) -> list[Expectation]:
    if isinstance(step, Unordered):
        return list(step.expected)
    if isinstance(step, Eventually):
        return [step.expected]
    assert isinstance(step, Expectation), (
        f"{step!r} is not a step of a scenario; use ask(...), answered(...) and the like"
    )
    return [step]


def _nearest(questions: list[_Question], method: str) -> _Question | None:
    return next((each for each in reversed(questions) if not method or each.method == method), None)


def _all(expected: list[Expectation]) -> str:
    return readable(" and ".join(map(str, expected)), 4 * SHOWN)


def _text_of(message: Message) -> str:
    if message.verb == "left":
        return f"the end of the connection: {message.body}"
    parts = [message.verb, message.method, msgspec.json.encode(message.body).decode()]
    return readable(" ".join(parts), 4 * SHOWN)


def readable(text: str, limit: int = SHOWN) -> str:
    """Shorten a peer's text and escape terminal control characters."""
    text = _STEERING.sub(lambda found: repr(found[0])[1:-1], text)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"


def _ends(lines: list[str]) -> list[str]:
    if len(lines) <= 2 * LINES:
        return lines
    return [*lines[:LINES], f"... {len(lines) - 2 * LINES} more ...", *lines[-LINES:]]
