"""A sound peer with one fault: its messages are changed on the way out, or on the way in.

A fault is a function or two over messages; `Faulty` is the transport that applies it, so any agent or client of ours
becomes its own broken twin. As a command, for trying the whole of `dragoman check` on it:

    python -m dragoman.conformance.twin agent --fault agent.rpc.01 [--dialect v1]
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import msgspec

from dragoman.errors import TransportClosed
from dragoman.transport.base import FrameConsumer, Transport
from dragoman.wire.frames import Frame, Oversize

Json = Any


class Tape:
    """What a fault may know and do: the requests under way by id, a place for notes, and the line itself."""

    def __init__(self, line: Faulty) -> None:
        self._line = line
        self.heard: dict[Any, dict[str, Json]] = {}
        """Requests the peer made, by id."""
        self.told: list[dict[str, Json]] = []
        """Notifications the peer made."""
        self.asked: dict[Any, dict[str, Json]] = {}
        """Requests the sound one made, by id."""
        self.notes: dict[str, Json] = {}
        self.open: dict[Any, dict[str, Json]] = {}
        """Requests the peer made that were not answered yet, by id."""

    def busy(self, method: str = "session/prompt") -> bool:
        """Whether a request of this method is under way."""
        return any(request.get("method") == method for request in self.open.values())

    def others(self, prompt: Json) -> list[dict[str, Json]]:
        """The params of the other prompts under way."""
        open = [each for each in self.open.values() if each["method"] == "session/prompt" and each is not prompt]
        return [each["params"] for each in open if isinstance(each.get("params"), dict)]

    def request(self, reply: Json) -> dict[str, Json]:
        """What an outgoing reply answers."""
        return self.heard[_key(reply["id"])]

    def say(self, message: Json) -> None:
        """Send something the sound one did not say."""
        self._line.put(message)

    def give(self, message: Json) -> None:
        """Let the sound one hear something nobody said."""
        self._line.inject(message)

    def method(self, reply: Json) -> str:
        """The wire method that an outgoing reply answers, "" when it is none."""
        if not isinstance(reply, dict) or "method" in reply:
            return ""
        return str(self.heard.get(_key(reply.get("id")), {}).get("method", ""))

    def die(self) -> None:
        """End the connection as a crash would."""
        self._line.die()

    def later(self, message: Json, seconds: float) -> None:
        """Send something after a while."""
        asyncio.get_running_loop().call_later(seconds, self._line.put, message)


# Takes the tape and a message (a dict, or bytes that are no message); gives what goes on in its place.
Change = Callable[[Tape, Any], Iterable[Any]]


def unchanged(_: Tape, message: Json) -> Iterable[Json]:
    """A sound half."""
    return (message,)


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault: what becomes of what is said and of what is heard.

    `stays` says whether the end of the input is ignored; `greets` is said before anything was heard.
    """

    says: Change = unchanged
    hears: Change = unchanged
    stays: Callable[[Tape], bool] | None = None
    greets: bytes = b""


_FAULTS: dict[str, Fault] = {}


def seeded(id: str, fault: Fault) -> None:
    """Put a fault into the register, for the requirement that must find it."""
    if id in _FAULTS:
        raise ValueError(f"{id} has two seeded faults")
    _FAULTS[id] = fault


@cache
def faults() -> dict[str, Fault]:
    """Every fault by the id of the requirement that finds it."""
    package = import_module("dragoman.conformance.faults")
    for found in iter_modules(package.__path__):
        import_module(f"{package.__name__}.{found.name}")
    return _FAULTS


class Faulty:
    """A transport with a fault in it."""

    def __init__(self, inner: Transport, fault: Fault) -> None:
        self.peer = inner.peer
        self._inner = inner
        self._fault = fault
        self._tape = Tape(self)
        self._injected: list[Frame] = []
        self._woken = asyncio.Event()
        self._reading: asyncio.Future[list[Frame]] | None = None
        self._dead = False
        if fault.greets:
            inner.send(fault.greets)

    async def receive(self) -> list[Frame]:
        """What the peer said, as the fault lets it be heard; and what nobody said."""
        while True:
            if self._injected:
                found, self._injected = self._injected, []
                self._woken.clear()
                return found
            if self._reading is None:
                self._reading = asyncio.ensure_future(self._inner.receive())
            waking: asyncio.Future[Any] = asyncio.ensure_future(self._woken.wait())
            either: list[asyncio.Future[Any]] = [self._reading, waking]
            try:
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            finally:
                waking.cancel()
            if self._reading.done():
                reading, self._reading = self._reading, None
                await self._take(reading)

    async def _take(self, reading: asyncio.Future[list[Frame]]) -> None:
        try:
            frames = reading.result()
        except TransportClosed:
            if self._fault.stays is not None and self._fault.stays(self._tape) and not self._dead:
                await asyncio.Event().wait()
            raise
        for frame in frames:
            self._injected.extend(self._hear(frame))

    def _hear(self, frame: Frame) -> Iterable[Frame]:
        if isinstance(frame, Oversize):
            return [frame]
        message = _parsed(frame)
        if isinstance(message, dict) and "method" in message and "id" in message:
            self._tape.heard[_key(message["id"])] = self._tape.open[_key(message["id"])] = message
        elif isinstance(message, dict) and "method" in message:
            self._tape.told.append(message)
        out = self._fault.hears(self._tape, message)
        return [frame if made is message else _bytes(made) for made in out]

    def send(self, data: bytes, session: str | None = None) -> None:
        """What the sound one says, as the fault says it."""
        if self._dead:
            raise TransportClosed(f"the connection to {self.peer} was closed")
        message = _parsed(data)
        if isinstance(message, dict) and "method" in message and "id" in message:
            self._tape.asked[_key(message["id"])] = message
        elif isinstance(message, dict) and "method" not in message:
            self._tape.open.pop(_key(message.get("id")), None)
        for made in self._fault.says(self._tape, message):
            self._inner.send(data if made is message else _bytes(made))

    def put(self, message: Json) -> None:
        """Send something of the fault's own."""
        if not self._dead:
            try:
                self._inner.send(_bytes(message))
            except TransportClosed:
                pass

    def inject(self, message: Json) -> None:
        """Let something be heard that nobody said."""
        self._injected.append(_bytes(message))
        self._woken.set()

    def die(self) -> None:
        """Close everything at once."""
        self._dead = True
        self._closing = asyncio.ensure_future(self._inner.close("the fault ended it"))

    @property
    def is_dead(self) -> bool:
        """Whether the fault ended it."""
        return self._dead

    def listen(self, take: FrameConsumer) -> None:
        """Nothing is offered: all has to pass here."""

    def congested(self) -> bool:
        """As the line below."""
        return self._inner.congested()

    async def drain(self) -> None:
        """As the line below."""
        await self._inner.drain()

    async def close(self, reason: str = "") -> None:
        """As the line below."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await self._inner.close(reason)


def _parsed(frame: bytes) -> Json:
    try:
        return json.loads(frame)
    except (ValueError, RecursionError):
        return frame


def _bytes(message: Json) -> bytes:
    return message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode()


def _key(id: Json) -> Json:
    """An id that can be a key, whatever it is; 1 and "1" and true are different."""
    return (type(id).__name__, json.dumps(id))


def main(arguments: list[str]) -> int:
    """Be a twin on standard input and output."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m dragoman.conformance.twin", description=__doc__)
    parser.add_argument("side", choices=["agent"])
    parser.add_argument("--fault", required=True, metavar="ID", help="the id of the requirement that must find it")
    parser.add_argument("--dialect", default="auto")
    options = parser.parse_args(arguments)
    if options.fault not in faults():
        parser.error(f"there is no fault for {options.fault}")

    from dragoman.agents.everything.agent import everything
    from dragoman.transport.stdio import stdio

    async def serve() -> None:
        await everything(options.dialect).serve(Faulty(stdio(), faults()[options.fault]))

    asyncio.run(serve())
    return 0


if __name__ == "__main__":
    import sys

    # The faults register themselves in the module by its own name, not in this one, which is called __main__.
    sys.exit(import_module("dragoman.conformance.twin").main(sys.argv[1:]))
