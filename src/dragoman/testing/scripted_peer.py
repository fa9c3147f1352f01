"""A peer controlled by a test, on either side of a transport: frame by frame, or by a scenario.

It sends its own messages, checks what it receives, and keeps the whole exchange, which every failure shows.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from dragoman.errors import ConnectionFailed
from dragoman.testing.matching import exact_mismatch, mismatch, substitute
from dragoman.testing.scenario import Action, AnyNumber, Expectation, Message, Step, Unordered, expect_disconnect
from dragoman.transport.base import Transport
from dragoman.wire.frames import Oversize

# Seconds to wait for a frame: a bound for a hang, also on a busy machine.
TIMEOUT = 30.0

# Characters of a frame shown in a failure, and lines shown at the start and end of a long exchange.
SHOWN = 400
LINES = 40

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


class ScriptedPeer:
    """One end of a transport, controlled by a test."""

    name = "we"
    peer_name = "the peer"

    def __init__(self, transport: Transport, timeout: float = TIMEOUT) -> None:
        self.transport = transport
        self.received: list[dict[str, Any]] = []
        self.exchange: list[str] = []
        """Everything sent and received, one line each, as failures show it."""
        self.timeout = timeout
        self._unread: list[Any] = []
        self._ids: dict[Any, Any] = {}
        self._generated: dict[str, str] = {}  # value in the script -> value that the peer chose

    def send(self, message: dict[str, Any] | bytes) -> None:
        """Send one message, or any bytes as a frame."""
        data = message if isinstance(message, bytes) else msgspec.json.encode(message)
        self.exchange.append(f"-> {_line(data)}")
        self.transport.send(data)

    async def receive_frame(self) -> bytes:
        """Return the next frame unparsed; raises TimeoutError, and what the transport raises."""
        if not self._unread:
            async with asyncio.timeout(self.timeout):
                self._unread.extend(await self.transport.receive())
        frame = self._unread.pop(0)
        data: bytes = frame.head if isinstance(frame, Oversize) else frame
        self.exchange.append(f"<- {_line(data)}")
        return data

    async def receive(self) -> dict[str, Any]:
        """Return the next frame, parsed."""
        message: dict[str, Any] = msgspec.json.decode(await self.receive_frame())
        self.received.append(message)
        return message

    async def expect(self, **members: Any) -> dict[str, Any]:
        """Return the next frame, which must have these members (nested objects may have more)."""
        message = await self.receive()
        fault = mismatch(members, message)
        assert fault is None, f"expected {members}, received {message}: {fault}"
        return message

    async def request(self, id: Any, method: str, params: Any) -> dict[str, Any]:
        """Send a request and return its answer; other messages are in `received`."""
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        while True:
            message = await self.receive()
            if "method" not in message and message.get("id") == id:
                return message

    async def run_scenario(self, scenario: Sequence[Step], *, ignore: Sequence[Expectation] = ()) -> dict[str, Any]:
        """Play a scenario; messages in `ignore` may come at any time. Return the values of its variables.

        Raises ScenarioFailed, which shows what was expected, what was received and the whole exchange.
        """
        return await ScenarioRun(self, ignore).play(scenario)

    async def play(
        self,
        role: str,
        script: Sequence[dict[str, Any]],
        compare: Callable[[Any, Any], str | None] | None = None,
        *,
        generated: Sequence[str] = (),
    ) -> None:
        """Play `role` of a script of {"from", "frame"} steps; `compare` compares frames (by default exactly).

        Members named in `generated` have values that the peer chooses (session ids, times): the first value received is
        expected and sent from then on.
        """
        compare = compare or exact_mismatch
        for step in script:
            frame = step["frame"]
            if step["from"] == role:
                self.send(self._renamed(self._with_real_id(frame)))
                continue
            heard = await self.receive()
            self._learn(frame, heard, generated)
            if "method" in frame and "id" in frame:
                assert "id" in heard, f"expected a request, received {heard}"
                self._ids[frame["id"]] = heard["id"]
            fault = compare(self._renamed(_without_id(frame)), _without_id(heard))
            assert fault is None, f"step {frame}\nreceived {heard}\n{fault}"

    def _learn(self, expected: Any, heard: Any, minted: Sequence[str]) -> None:
        if not isinstance(expected, dict) or not isinstance(heard, dict):
            return
        for name, value in expected.items():
            found = heard.get(name)
            if name in minted and isinstance(value, str) and isinstance(found, str):
                self._generated.setdefault(value, found)
            else:
                self._learn(value, found, minted)

    def _renamed(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._renamed(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self._renamed(item) for item in value]
        return self._generated.get(value, value) if isinstance(value, str) else value

    def _with_real_id(self, frame: dict[str, Any]) -> dict[str, Any]:
        """Give a reply the id of the peer's request."""
        if "method" in frame or "id" not in frame:
            return frame
        return {**frame, "id": self._ids.get(frame["id"], frame["id"])}


class ScriptedAgent(ScriptedPeer):
    """A scripted peer that plays the agent, for a client under test."""

    name, peer_name = "the scripted agent", "the client"


class ScriptedClient(ScriptedPeer):
    """A scripted peer that plays the client, for an agent under test."""

    name, peer_name = "the scripted client", "the agent"


def _without_id(frame: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in frame.items() if name != "id"}


def _line(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


# --- scenarios --------------------------------------------------------------------------------------------------------


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
