"""Play a scenario: perform its actions, wait for its expectations, and report exactly where the peer deviated.

`ScriptedPeer.run_scenario` and `fake_agent` use it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from dragoman.errors import ConnectionFailed
from dragoman.testing.matching import mismatch, substitute
from dragoman.testing.scenario import Action, AnyNumber, Expectation, Message, Step, Unordered, expect_disconnect

if TYPE_CHECKING:
    from dragoman.testing.scripted_peer import ScriptedPeer

# Characters of a frame shown in a failure, and lines shown at the start and end of a long exchange.
SHOWN = 400
LINES = 40

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


class ScenarioFailed(AssertionError):
    """The peer deviated from the scenario; `exchange` has all messages."""

    def __init__(self, text: str, exchange: Sequence[str]) -> None:
        super().__init__(text)
        self.exchange = list(exchange)


class _OpenRequest(NamedTuple):
    method: str
    id: Any


class ScenarioRun:
    """A running scenario."""

    def __init__(self, peer: ScriptedPeer, ignore: Sequence[Expectation] = ()) -> None:
        self.names: dict[str, Any] = {}
        self._peer = peer
        self._ignored = tuple(ignore)
        self._allowed: list[Expectation | None] = []
        self._ours: list[_OpenRequest] = []  # open requests
        self._theirs: list[_OpenRequest] = []
        self._last_id = 0
        self._step = ""

    async def play(self, scenario: Sequence[Step]) -> dict[str, Any]:
        """Run all steps in order; return the values of the variables."""
        for number, step in enumerate(scenario, 1):
            self._step = f"step {number} of {len(scenario)}"
            if isinstance(step, Action):
                await self._act(step)
            elif isinstance(step, AnyNumber):
                self._allowed.append(step.expected)
            else:
                if isinstance(step, Unordered) and step.skips:
                    self._allowed.append(None)
                await self._wait_for(_expected(step))
                self._allowed.clear()
        return self.names

    async def finish(self) -> None:
        """Wait until the peer disconnects; only ignored messages may come."""
        self._step = "its end"
        while (message := await self._receive([expect_disconnect()])).kind != "disconnect":
            if all(self._mismatch(each, message) is not None for each in self._ignored):
                raise self._failure("nothing more", _text_of(message), "to allow other messages, pass ignore=[...]")

    # --- actions ----------------------------------------------------------------------------------------------------

    async def _act(self, step: Action) -> None:
        body = substitute(step.body, self.names) if step.kind != "frame" else step.body
        message: Any = {"jsonrpc": "2.0"}
        if step.kind == "disconnect":
            self._peer.exchange.append(f"   {self._peer.name} disconnected")
            await self._peer.transport.close("the scenario says so")
            return
        if step.kind == "frame":
            message = body
        elif step.kind in ("request", "notification"):
            if step.kind == "request":
                self._last_id += 1
                message["id"] = self._last_id
                self._ours.append(_OpenRequest(step.method, self._last_id))
            message |= {"method": step.method, "params": body}
        else:
            message["id"] = self._open(step).id
            message[step.kind] = body
        try:
            self._peer.send(message)
        except ConnectionFailed as error:
            raise self._failure(f"to send {step}", f"{self._peer.peer_name} has disconnected: {error}", "") from None

    def _open(self, step: Action) -> _OpenRequest:
        found = _latest(self._theirs, step.method)
        if found is None:
            what = f"request {step.method} is" if step.method else "request is"
            raise ValueError(f"{self._step} ({step}): no {what} open; add expect_request(...) before it")
        self._theirs.remove(found)
        return found

    # --- expectations -----------------------------------------------------------------------------------------------

    async def _wait_for(self, expected: list[Expectation]) -> None:
        while expected:
            message = await self._receive(expected)
            faults = []
            for each in expected:
                fault = self._mismatch(each, message)
                if fault is None:
                    expected.remove(each)
                    break
                faults.append(fault)
            else:
                allowed = [*self._ignored, *self._allowed]
                if not any(each is None or self._mismatch(each, message) is None for each in allowed):
                    raise self._failure(_list_expected(expected), _text_of(message), "; ".join(dict.fromkeys(faults)))
                if None in self._allowed and message.kind == "disconnect":
                    raise self._failure(_list_expected(expected), _text_of(message), "")
            self._track_request(message)

    def _mismatch(self, expected: Expectation, message: Message) -> str | None:
        """Return None and store the variables if the message matches; else the difference."""
        if expected.kind != message.kind:
            return f"expected {expected.kind}, received {message.kind}"
        if expected.kind in ("result", "error"):
            due = _latest(self._ours, expected.method)
            if due is None:
                return f"no request {expected.method or 'of ours'} is open"
            if due.id != message.id:
                return f"it answers {message.method} (id {message.id!r}), not {due.method} (id {due.id!r})"
        elif expected.method != message.method:
            return f"expected {expected.method}, received {message.method}"
        names = dict(self.names)
        wanted = expected.body
        fault = None if wanted is None or wanted == {} else mismatch(wanted, message.body, names)
        if fault is None:
            self.names.update(names)
        return fault

    def _track_request(self, message: Message) -> None:
        if message.kind == "request":
            self._theirs.append(_OpenRequest(message.method, message.id))
        elif message.kind in ("result", "error"):
            self._ours = [request for request in self._ours if request.id != message.id]

    async def _receive(self, expected: list[Expectation]) -> Message:
        peer = self._peer
        try:
            data = await peer.receive_frame()
        except TimeoutError:
            raise self._failure(_list_expected(expected), f"nothing for {peer.timeout:g} seconds", "") from None
        except ConnectionFailed as error:
            peer.exchange.append(f"   {peer.peer_name} disconnected")
            return Message("disconnect", "", str(error))
        try:
            message = msgspec.json.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            message = None
        if not isinstance(message, dict):
            why = "standard output may carry only messages; print everything else to stderr"
            raise self._failure(_list_expected(expected), f"a line that is not a message: {readable(repr(data))}", why)
        peer.received.append(message)
        return self._read(message)

    def _read(self, message: dict[str, Any]) -> Message:
        method, id = message.get("method"), message.get("id")
        if isinstance(method, str):
            return Message("request" if "id" in message else "notification", method, message.get("params"), id)
        request = next((each for each in self._ours if each.id == id and type(each.id) is type(id)), None)
        to = request.method if request else "no open request"
        kind = next((name for name in ("error", "result") if name in message), "invalid message")
        return Message(kind, to, message.get(kind, message), id)

    def _failure(self, expected: str, received: str, why: str) -> ScenarioFailed:
        peer = self._peer
        lines = [
            f"{peer.peer_name} deviated from the scenario at {self._step}",
            f"  expected  {expected}",
            f"  received  {received}",
            *([f"  because   {why}"] if why else []),
            f"the exchange (-> {peer.name}, <- {peer.peer_name}):",
            *(f"  {readable(line)}" for line in _ends(peer.exchange)),
        ]
        return ScenarioFailed("\n".join(lines), peer.exchange)


def _expected(step: Step) -> list[Expectation]:
    if isinstance(step, Unordered):
        return list(step.expected)
    assert isinstance(step, Expectation), (
        f"{step!r} is not a step of a scenario; use send_request(...), expect_result(...) and the like"
    )
    return [step]


def _latest(requests: list[_OpenRequest], method: str) -> _OpenRequest | None:
    return next((each for each in reversed(requests) if not method or each.method == method), None)


def _list_expected(expected: list[Expectation]) -> str:
    return readable(" and ".join(map(str, expected)), 4 * SHOWN)


def _text_of(message: Message) -> str:
    if message.kind == "disconnect":
        return f"the end of the connection: {message.body}"
    parts = [message.kind, message.method, msgspec.json.encode(message.body).decode()]
    return readable(" ".join(parts), 4 * SHOWN)


def readable(text: str, limit: int = SHOWN) -> str:
    """Shorten a peer's text and escape terminal control characters."""
    text = _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"


def _ends(lines: list[str]) -> list[str]:
    if len(lines) <= 2 * LINES:
        return lines
    return [*lines[:LINES], f"... {len(lines) - 2 * LINES} more ...", *lines[-LINES:]]
