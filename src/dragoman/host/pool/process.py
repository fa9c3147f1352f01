"""An agent process that several rooms of one user share: each has its berth, and hears nothing of the others.

Requests of rooms are numbered anew and their answers given back under the old ids; what the process says of a session
goes to the room that has it. initialize and authenticate are said once and answered to all. Above are berths and the
pool, which decides who may share; below is the transport of the process. Knows no users, and only such dialects as
name the session in everything that is about one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman.errors import ConnectionFailed, TransportClosed
from dragoman.host.pool.ids import (
    GONE,
    JOINT,
    NO_LEAVE,
    TAKEN,
    UNREADABLE,
    V1,
    Call,
    Joints,
    Moorings,
    Out,
    Words,
    about,
    closes,
    encode,
    put,
    raw,
    soon,
    under,
)
from dragoman.host.pool.transport import Berth
from dragoman.transport.base import Transport
from dragoman.wire.envelope import Envelope, Id, Malformed, outline, parse, say_call, say_error, say_result
from dragoman.wire.frames import Frame, Oversize

# How long an agent may take to end the turn and the session of a room that leaves while others stay. Seconds; the room
# cannot wake before.
PARTING = 5.0

CANCEL = "$/cancel_request"

_REOPENING = frozenset({"session/load", "session/resume"})
_ENDING = frozenset({"session/close", "session/delete"})


class Pier:
    """One process and the berths at it."""

    def __init__(self, inner: Transport, over: Callable[[Pier], None], words: Words = V1) -> None:
        self.inner = inner
        self._words = words
        self.peer = inner.peer
        self.berths: list[Berth] = []
        self._over = over  # told once, when nobody may join any more
        self._is_over = False
        self._last = 0
        self._calls: dict[int, Call] = {}
        self._joints = Joints()
        self._asked: dict[Id, Berth] = {}  # open requests of the process, and who was asked
        self._asked_for: dict[Id, str] = {}
        self._moorings = Moorings()
        self._reader = asyncio.get_running_loop().create_task(self._run(), name=f"dragoman shares {self.peer}")

    def berth(self) -> Berth:
        """A place for one more room."""
        berth = Berth(self)
        self.berths.append(berth)
        return berth

    # --- from rooms ---------------------------------------------------------------------------------------------

    def say(self, berth: Berth, data: bytes) -> None:
        """A room says something."""
        envelope = parse(data)
        if isinstance(envelope.method, UnsetType):
            self._reply(berth, envelope, data)
        elif isinstance(envelope.id, UnsetType):
            if envelope.method == CANCEL:
                self._take_back(berth, about(envelope.params).request_id)
            else:
                self.inner.send(data)
        elif envelope.method in JOINT:
            number, params = self._number(), raw(envelope.params) or b"{}"
            if self._joints.ask(berth, envelope.id, envelope.method, params, number):
                self.inner.send(say_call(number, envelope.method, params))
        else:
            self._request(berth, envelope.id, envelope.method, raw(envelope.params))

    def _reply(self, berth: Berth, envelope: Envelope, data: bytes) -> None:
        if not isinstance(envelope.id, UnsetType) and self._asked.get(envelope.id) is berth:
            self._forget_asked(envelope.id)
            self.inner.send(data)

    def _request(self, berth: Berth, id: Id, method: str, params: bytes | None) -> None:
        session = about(params).session_id or None
        if method in _REOPENING and session and not self._moorings.claim(session, berth):
            soon(berth, say_error(id, TAKEN))
            return
        if method == "logout":
            self._joints.forget("authenticate")  # who logs in again must be heard
        number = self._number()
        self._calls[number] = Call(berth, id, method, session)
        berth.numbers[id] = number
        self.inner.send(say_call(number, method, params))

    def _take_back(self, berth: Berth, id: Id | UnsetType) -> None:
        """A room does not need an answer any more; where all are to have it, the others still do."""
        if isinstance(id, UnsetType):
            return
        self._joints.withdraw(berth, id)
        number = berth.numbers.get(id)
        if number is not None:
            self.inner.send(say_call(UNSET, CANCEL, encode({"requestId": number})))

    def _number(self) -> int:
        self._last += 1
        return self._last

    # --- from the process ---------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while True:
                self._pass(await self.inner.receive())
                for berth in list(self.berths):
                    await berth.has_room()
        except ConnectionFailed as error:
            self._fail(error)
        except Exception as fault:  # ours; whoever waits is told rather than left waiting
            self._fail(ConnectionFailed(f"reading from {self.peer} failed: {fault}"))
        await self.inner.close()

    def _pass(self, frames: list[Frame]) -> None:
        out: Out = {}
        for frame in frames:
            self._sort(frame, out)
        for berth, theirs in out.items():
            berth.deliver(theirs)

    def _sort(self, frame: Frame, out: Out) -> None:
        """Find out for whom a frame is."""
        try:
            if isinstance(frame, Oversize):
                found = outline(frame)
                raise Malformed("", "", Envelope(id=found.id, method=found.method))
            envelope = parse(frame)
        except Malformed as error:
            broken = Envelope(id=error.id, error=Raw(UNREADABLE))
            if error.is_call or not self._answered(broken, out):
                put(out, self.berths[:1], frame)  # one of them reports it, and answers
            return
        if isinstance(envelope.method, UnsetType):
            self._answered(envelope, out)
        else:
            self._said(envelope.method, envelope, frame, out)

    def _said(self, method: str, envelope: Envelope, frame: bytes, out: Out) -> None:
        named = about(envelope.params)
        if method == CANCEL:
            if not isinstance(named.request_id, UnsetType) and named.request_id in self._asked:
                put(out, [self._asked[named.request_id]], frame)
        elif not isinstance(named.session_id, UnsetType):
            self._said_in(named.session_id, envelope, frame, out)
        elif isinstance(named.request_id, int) and named.request_id in self._calls:
            call = self._calls[named.request_id]
            params = {**msgspec.json.decode(raw(envelope.params) or b"{}"), "requestId": call.id}
            self._tell(call.berth, envelope, say_call(envelope.id, method, encode(params)), out)
        elif isinstance(envelope.id, UnsetType):
            put(out, self.berths, frame)
        else:
            self._tell(self.berths[0] if self.berths else None, envelope, frame, out)

    def _said_in(self, session: str, envelope: Envelope, frame: bytes, out: Out) -> None:
        owner = self._moorings.owner(session)
        is_opening = owner is None and any(call.method == "session/new" for call in self._calls.values())
        if not (is_opening and self._moorings.keep(session, envelope, frame)):
            self._tell(owner, envelope, frame, out)

    def _tell(self, berth: Berth | None, envelope: Envelope, frame: bytes, out: Out) -> None:
        """Something for one room; a request that reaches nobody is answered here."""
        if berth is None or berth.is_left:
            if not isinstance(envelope.id, UnsetType):
                self._decline(envelope.id, str(envelope.method))
            return
        if not isinstance(envelope.id, UnsetType):
            self._asked[envelope.id], self._asked_for[envelope.id] = berth, str(envelope.method)
        put(out, [berth], frame)

    def _answered(self, envelope: Envelope, out: Out) -> bool:
        """An answer goes to whoever asked; says whether anybody did."""
        if not isinstance(envelope.id, int):
            return False
        fine = isinstance(envelope.error, UnsetType) or bytes(envelope.error) == b"null"
        if self._joints.answered(envelope, fine, out):
            return True
        call = self._calls.pop(envelope.id, None)
        if call is None:
            return False
        call.berth.numbers.pop(call.id, None)
        if call.over is not None and not call.over.done():
            call.over.set_result(None)
        if call.method == "session/new":
            self._opened(call, about(envelope.result).session_id if fine else UNSET, out)
        elif call.session is not None and (call.method in _ENDING if fine else call.method in _REOPENING):
            self._moorings.release(call.session, call.berth)
        put(out, [call.berth], under(call.id, envelope))
        return True

    def _opened(self, call: Call, session: str | UnsetType, out: Out) -> None:
        """A session is there: it is of the room that asked for it, and so is what was said of it before."""
        if not isinstance(session, UnsetType):
            self._moorings.claim(session, call.berth)
            if call.berth.is_left:
                self._dismiss(session, call.berth)
                self._moorings.release(session, call.berth)
        for named, envelope, frame in self._moorings.early():
            self._said_in(named, envelope, frame, out)

    # --- leaving ------------------------------------------------------------------------------------------------

    async def leave(self, berth: Berth, reason: str = "") -> None:
        """A room goes: its sessions end at the agent while others stay, and the process with the last of them."""
        if not berth.is_left:
            berth.is_left = True
            self.berths.remove(berth)
            if self.berths and not self._is_over:
                await self._part(berth)
        if not self.berths:
            await self.end(reason)

    async def _part(self, berth: Berth) -> None:
        """Let the agent end what a room had there; the room cannot come back to it before, or would hear the rest."""
        self._joints.withdraw(berth, UNSET)
        for id in [id for id, asked in self._asked.items() if asked is berth]:
            self._decline(id, self._asked_for[id])
            self._forget_asked(id)
        loop = asyncio.get_running_loop()
        sessions = self._moorings.of(berth)
        for session in sessions:
            self._dismiss(session, berth)
        waiting = []
        for call in self._calls.values():
            if call.berth is berth:
                call.over = loop.create_future()
                waiting.append(call.over)
        if waiting:
            await asyncio.wait(waiting, timeout=PARTING)
        for session in sessions:
            self._moorings.release(session, berth)

    def _dismiss(self, session: str, berth: Berth) -> None:
        """End a session at the agent: its turn, and all of it where the agent can."""
        params, words = encode({self._words.session: session}), self._words
        busy = any(call.session == session and call.method == "session/prompt" for call in self._calls.values())
        if busy or not self._closes:
            self._send(say_call(self._number() if words.is_asked else UNSET, words.cancel, params))
        if self._closes:
            number = self._number()
            self._calls[number] = Call(berth, None, "session/close", session)
            self._send(say_call(number, "session/close", params))

    @property
    def _closes(self) -> bool:
        return closes(self._joints.result("initialize"))

    def _decline(self, id: Id, method: str) -> None:
        is_leave = method == "session/request_permission"
        self._send(say_result(id, NO_LEAVE) if is_leave else say_error(id, GONE))

    def _forget_asked(self, id: Id) -> None:
        del self._asked[id], self._asked_for[id]

    def _send(self, data: bytes) -> None:
        if not self._is_over:
            try:
                self.inner.send(data)
            except ConnectionFailed:  # the reader hears of it too, and tells everybody
                pass

    # --- the end ------------------------------------------------------------------------------------------------

    async def end(self, reason: str = "") -> None:
        """End the process, whoever is there."""
        self._fail(TransportClosed(f"the connection to {self.peer} was closed" + (f": {reason}" if reason else "")))
        await self.inner.close(reason)
        await asyncio.wait([self._reader])

    def _fail(self, error: ConnectionFailed) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._over(self)
        for call in self._calls.values():
            if call.over is not None and not call.over.done():
                call.over.set_result(None)
        for berth in self.berths:
            berth.end(error)
