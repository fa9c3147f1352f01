"""A fault: a change of a working peer's outgoing or incoming messages.

`FaultyPeer` is the transport that applies it to any agent or client of ours.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import msgspec

from dragoman.errors import TransportClosed
from dragoman.transport.base import Transport, WrappedTransport
from dragoman.transport.remote.server.limits import ServerLimits
from dragoman.wire.frames import Frame, Oversize

Json = Any


class FaultContext:
    """What a fault knows and can do: the running requests by id, notes, and the connection itself."""

    def __init__(self, line: FaultyPeer) -> None:
        self._line = line
        self.requests_in: dict[Any, dict[str, Json]] = {}
        """Requests of the other side, by id."""
        self.notifications_in: list[dict[str, Json]] = []
        """Notifications of the other side."""
        self.requests_out: dict[Any, dict[str, Json]] = {}
        """Requests of the faulty peer, by id."""
        self.notes: dict[str, Json] = {}
        self.open: dict[Any, dict[str, Json]] = {}
        """Requests of the other side that are not answered yet, by id."""

    def is_running(self, method: str = "session/prompt") -> bool:
        """Return whether a request of this method is running."""
        return any(request.get("method") == method for request in self.open.values())

    def other_prompts(self, prompt: Json) -> list[dict[str, Json]]:
        """Return the params of the other prompts that are running."""
        open = [each for each in self.open.values() if each["method"] == "session/prompt" and each is not prompt]
        return [each["params"] for each in open if isinstance(each.get("params"), dict)]

    def request(self, reply: Json) -> dict[str, Json]:
        """Return the request that an outgoing reply answers."""
        return self.requests_in[_key(reply["id"])]

    def send(self, message: Json) -> None:
        """Send a message of the fault."""
        self._line.send_own(message)

    def deliver(self, message: Json) -> None:
        """Deliver a message that nobody sent."""
        self._line.deliver(message)

    def method(self, reply: Json) -> str:
        """Return the wire method that an outgoing reply answers, or ""."""
        if not isinstance(reply, dict) or "method" in reply:
            return ""
        return str(self.requests_in.get(_key(reply.get("id")), {}).get("method", ""))

    def disconnect(self) -> None:
        """End the connection as a crash would."""
        self._line.disconnect()

    def send_later(self, message: Json, seconds: float) -> None:
        """Send something after a while."""
        asyncio.get_running_loop().call_later(seconds, self._line.send_own, message)


# Takes the context and a message (a dict, or bytes that are no message); returns what to pass on.
Change = Callable[[FaultContext, Any], Iterable[Any]]


def unchanged(_: FaultContext, message: Json) -> Iterable[Json]:
    """Pass the message on."""
    return (message,)


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault: the changes of outgoing and of incoming messages.

    `ignores_eof` says whether to ignore the end of the input; `greeting` is sent before anything was received.
    """

    outgoing: Change = unchanged
    incoming: Change = unchanged
    ignores_eof: Callable[[FaultContext], bool] | None = None
    greeting: bytes = b""


# What a faulty reader makes of the bytes of one read call.
Reads = Callable[[bytes], bytes]


class ClientFault(Fault, frozen=True, kw_only=True):
    """A fault of a client: also how it reads bytes and how it treats its agent's process."""

    reader: Callable[[], Reads] | None = None
    traits: frozenset[str] = frozenset()


def traits_of(fault: Fault) -> frozenset[str]:
    """Return what a fault does beyond the wire."""
    return fault.traits if isinstance(fault, ClientFault) else frozenset()


def trait(*names: str) -> ClientFault:
    """A fault in how a client treats its agent's process, or in what its program does."""
    return ClientFault(traits=frozenset(names))


App = Callable[..., Awaitable[None]]

# Changes the bytes of one direction of a socket; None closes it.
Tampers = Callable[[bytes], bytes | None]


class RemoteFault(Fault, frozen=True, kw_only=True):
    """A fault of the wire: around the app, between the sockets (towards the server, towards the client), in a limit."""

    wrapper: Callable[[App], App] | None = None
    towards_server: Tampers | None = None
    towards_client: Tampers | None = None
    limits: ServerLimits | None = None


NO_FAULT = Fault()

_FAULTS: dict[str, Fault] = {}


def seed(id: str, fault: Fault) -> None:
    """Register a fault for the requirement that must find it."""
    if id in _FAULTS:
        raise ValueError(f"{id} has two seeded faults")
    _FAULTS[id] = fault


@cache
def faults() -> dict[str, Fault]:
    """Return every fault by the id of the requirement that finds it."""
    for folder in ("agent", "agent.v2", "client", "client.v2"):
        package = import_module(f"tests.conformance.faults.{folder}")
        for module in iter_modules(package.__path__):
            import_module(f"{package.__name__}.{module.name}")
    return _FAULTS


class FaultyPeer(WrappedTransport):
    """A transport with a fault."""

    def __init__(self, inner: Transport, fault: Fault) -> None:
        super().__init__(inner)
        self._fault = fault
        self._context = FaultContext(self)
        self._injected: list[Frame] = []
        self._woken = asyncio.Event()
        self._reading: asyncio.Future[list[Frame]] | None = None
        self._dead = False
        if fault.greeting:
            inner.send(fault.greeting)

    async def receive(self) -> list[Frame]:
        """Return the received frames as changed by the fault, and those it delivers itself."""
        while True:
            if self._injected:
                found, self._injected = self._injected, []
                self._woken.clear()
                return found
            if self._reading is None:
                self._reading = asyncio.ensure_future(self._transport.receive())
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
            if self._fault.ignores_eof is not None and self._fault.ignores_eof(self._context) and not self._dead:
                await asyncio.Event().wait()
            raise
        for frame in frames:
            self._injected.extend(self._receive_one(frame))

    def _receive_one(self, frame: Frame) -> Iterable[Frame]:
        if isinstance(frame, Oversize):
            return [frame]
        message = _parsed(frame)
        if isinstance(message, dict) and "method" in message and "id" in message:
            self._context.requests_in[_key(message["id"])] = self._context.open[_key(message["id"])] = message
        elif isinstance(message, dict) and "method" in message:
            self._context.notifications_in.append(message)
        out = self._fault.incoming(self._context, message)
        return [frame if made is message else _bytes(made) for made in out]

    def send(self, data: bytes, session: str | None = None) -> None:
        """Send a message as changed by the fault."""
        if self._dead:
            raise TransportClosed(f"the connection to {self.peer} was closed")
        message = _parsed(data)
        if isinstance(message, dict) and "method" in message and "id" in message:
            self._context.requests_out[_key(message["id"])] = message
        elif isinstance(message, dict) and "method" not in message:
            self._context.open.pop(_key(message.get("id")), None)
        for made in self._fault.outgoing(self._context, message):
            self._transport.send(data if made is message else _bytes(made))

    def send_own(self, message: Json) -> None:
        """Send a message of the fault."""
        if not self._dead:
            try:
                self._transport.send(_bytes(message))
            except TransportClosed:
                pass

    def deliver(self, message: Json) -> None:
        """Deliver a message that nobody sent."""
        self._injected.append(_bytes(message))
        self._woken.set()

    def disconnect(self) -> None:
        """Close everything at once."""
        self._dead = True
        self._closing = asyncio.ensure_future(self._transport.close("the fault ended it"))

    @property
    def is_dead(self) -> bool:
        """Whether the fault closed it."""
        return self._dead

    async def close(self, reason: str = "") -> None:
        """Close the transport."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await self._transport.close(reason)


def _parsed(frame: bytes) -> Json:
    try:
        return json.loads(frame)
    except (ValueError, RecursionError):
        return frame


def _bytes(message: Json) -> bytes:
    return message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode()


def _key(id: Json) -> Json:
    """Return a key for an id of any type; 1 and "1" and true are different."""
    return (type(id).__name__, json.dumps(id))
