"""Follows a scenario: says what we do, waits for what we expect, and tells exactly where the two parted.

Takes a scripted peer and steps, gives the values of the names in them. Answers go to the nearest question still open.
Above is `ScriptedPeer.follow`; below are matching and the peer's transport.
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

# Of a long frame so much is shown in the exchange, and of a long exchange so many lines at either end.
SHOWN = 400
LINES = 40

_STEERING = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


class Departure(AssertionError):
    """The other end departed from the scenario; `exchange` has all that was said."""

    def __init__(self, text: str, exchange: Sequence[str]) -> None:
        super().__init__(text)
        self.exchange = list(exchange)


class _Question(NamedTuple):
    method: str
    id: Any


class Following:
    """One scenario on its way."""

    def __init__(self, peer: ScriptedPeer, ignoring: Sequence[Expectation] = ()) -> None:
        self.names: dict[str, Any] = {}
        self._peer = peer
        self._ignored = tuple(ignoring)
        self._tolerated: list[Expectation | None] = []
        self._ours: list[_Question] = []  # asked and not answered yet
        self._theirs: list[_Question] = []
        self._last_id = 0
        self._step = ""

    async def play(self, scenario: Sequence[Step]) -> dict[str, Any]:
        """All steps, one after the other."""
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
        """Wait until the other end leaves; it may say nothing more but what is ignored."""
        self._step = "its end"
        while (message := await self._hear([left()])).verb != "left":
            if all(self._fault(each, message) is not None for each in self._ignored):
                raise self._departed("nothing more", _shown(message), "what may come besides goes into ignoring=[...]")

    # --- what we do -------------------------------------------------------------------------------------------------

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
            raise self._departed(f"to {step}", f"{self._peer.other} is gone: {error}", "") from None

    def _open(self, step: Action) -> _Question:
        found = _nearest(self._theirs, step.method)
        if found is None:
            what = f"request {step.method} is" if step.method else "request is"
            raise ValueError(f"{self._step} ({step}): no {what} open; expect asked(...) before it")
        self._theirs.remove(found)
        return found

    # --- what we expect ---------------------------------------------------------------------------------------------

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
                    raise self._departed(_all(expected), _shown(message), "; ".join(dict.fromkeys(faults)))
                if None in self._tolerated and message.verb == "left":
                    raise self._departed(_all(expected), _shown(message), "")
            self._settle(message)

    def _fault(self, expected: Expectation, message: Message) -> str | None:
        """None when this is it, and its names are learnt; else what differs."""
        if expected.verb != message.verb:
            return f"expected something {expected.verb}, heard something {message.verb}"
        if expected.verb in ("answered", "refused"):
            due = _nearest(self._ours, expected.method)
            if due is None:
                return f"we have not asked {expected.method or 'anything'}"
            if due.id != message.id:
                return f"it answers {message.method} (id {message.id!r}), not {due.method} (id {due.id!r})"
        elif expected.method != message.method:
            return f"expected {expected.method}, heard {message.method}"
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
            raise self._departed(_all(expected), f"nothing for {peer.patience:g} seconds", "") from None
        except ConnectionFailed as error:
            peer.exchange.append(f"   {peer.other} left")
            return Message("left", "", str(error))
        try:
            said = msgspec.json.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            said = None
        if not isinstance(said, dict):
            why = "only messages belong on standard output; what a program prints there besides breaks the protocol"
            raise self._departed(_all(expected), f"a line that is no message: {readable(repr(data))}", why)
        peer.heard.append(said)
        return self._read(said)

    def _read(self, said: dict[str, Any]) -> Message:
        method, id = said.get("method"), said.get("id")
        if isinstance(method, str):
            return Message("asked" if "id" in said else "told", method, said.get("params"), id)
        question = next((each for each in self._ours if each.id == id and type(each.id) is type(id)), None)
        to = question.method if question else "nothing we asked"
        if "error" in said:
            return Message("refused", to, said["error"], id)
        return Message("answered" if "result" in said else "said", to, said.get("result", said), id)

    def _departed(self, expected: str, heard: str, why: str) -> Departure:
        peer = self._peer
        lines = [
            f"{peer.other} departed from the scenario at {self._step}",
            f"  expected  {expected}",
            f"  heard     {heard}",
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
    assert isinstance(step, Expectation), f"{step!r} is no step of a scenario; use ask(...), answered(...) and the like"
    return [step]


def _nearest(questions: list[_Question], method: str) -> _Question | None:
    return next((each for each in reversed(questions) if not method or each.method == method), None)


def _all(expected: list[Expectation]) -> str:
    return readable(" and ".join(map(str, expected)), 4 * SHOWN)


def _shown(message: Message) -> str:
    if message.verb == "left":
        return f"it left: {message.body}"
    words = [message.verb, message.method, msgspec.json.encode(message.body).decode()]
    return readable(" ".join(words), 4 * SHOWN)


def readable(text: str, limit: int = SHOWN) -> str:
    """A readable length of what a peer said, in which nothing can steer a terminal."""
    text = _STEERING.sub(lambda found: repr(found[0])[1:-1], text)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"


def _ends(lines: list[str]) -> list[str]:
    if len(lines) <= 2 * LINES:
        return lines
    return [*lines[:LINES], f"... {len(lines) - 2 * LINES} more ...", *lines[-LINES:]]
