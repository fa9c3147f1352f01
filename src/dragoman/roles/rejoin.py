"""A connection that is begun anew when the last one is gone for good: the sessions are joined where they were left.

Takes a way to dial, gives the Transport contract, so neither the engine above nor `dragoman attach` notices more than
a pause. After the host restarted, or a client was away too long, it dials again, introduces itself with the same words,
joins every session after the last entry it was told, and answers what was open and is lost. Below are transports that
mend cuts by themselves; what must be remembered is in whereabouts.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from dragoman.errors import ConnectionFailed, StartFailed, TransportClosed, Unreachable
from dragoman.roles.whereabouts import Whereabouts
from dragoman.transport.contract import HIGH_WATER, Take, Transport
from dragoman.transport.remote.faults import Farewell
from dragoman.transport.remote.inlet import Inlet
from dragoman.transport.remote.patience import Patience
from dragoman.transport.remote.retrying import Outage, Retrying
from dragoman.wire.frames import Frame

# A host that answers at all has introduced itself, and read a session's log, by then. Seconds.
ANSWER_PATIENCE = 60.0

# Who waits for an answer that is lost is told when the sessions are joined again, or after this. Seconds.
GRACE = 10.0

# What JSON-RPC calls a fault of whoever answers.
INTERNAL_ERROR = -32603

Dialling = Callable[[], Awaitable[Transport]]


async def rejoining(
    dial: Dialling, *, patience: Patience | None = None, report: Callable[[str], None] | None = None
) -> Rejoining:
    """Dial for the first time; what goes wrong then is raised, for nothing is lost yet."""
    return Rejoining(await dial(), dial, patience or Patience(), report or (lambda _: None))


class Rejoining:
    """A transport over one connection after another."""

    def __init__(self, first: Transport, dial: Dialling, patience: Patience, report: Callable[[str], None]) -> None:
        self.peer = first.peer
        self._dial = dial
        self._patience = patience
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._inner: Transport | None = first
        self._memory = Whereabouts()
        self._inlet = Inlet()
        self._room = asyncio.Event()
        self._waiting: list[bytes] = []  # said while there was no connection
        self._waiting_size = 0
        self._back = asyncio.Event()
        self._ended: ConnectionFailed | None = None
        self._closing: asyncio.Future[None] | None = None
        self._numbers = 0
        first.listen(self._take)
        self._task = self._loop.create_task(self._run(first), name=f"dragoman stays with {self.peer}")

    # --- reading ----------------------------------------------------------------------------------------------

    async def receive(self) -> list[Frame]:
        """The next frames, of whichever connection there is."""
        return await self._inlet.receive()

    def listen(self, take: Take) -> None:
        """Offer each block to `take` first, while nothing older waits."""
        self._inlet.listen(take)

    def _take(self, frames: list[Frame]) -> bool:
        if self._inlet.is_full or self._ended is not None:
            return False
        self._pass(frames)
        return True

    def _pass(self, frames: list[Frame]) -> None:
        passed = self._memory.pass_on(frames)
        if passed:
            self._inlet.deliver(passed)

    async def _run(self, inner: Transport) -> None:
        try:
            while True:
                error = await self._read(inner)
                inner = await self._return(inner, error)
        except ConnectionFailed as error:
            self._end(error)

    async def _read(self, inner: Transport) -> ConnectionFailed:
        """Pass on what comes until the connection ends; gives why."""
        while True:
            try:
                frames = await inner.receive()
            except ConnectionFailed as error:
                return error
            self._pass(frames)
            while self._inlet.is_full:
                self._room.clear()
                self._inlet.when_room(self._room.set)
                await self._room.wait()

    # --- coming back ------------------------------------------------------------------------------------------

    async def _return(self, gone: Transport, error: ConnectionFailed) -> Transport:
        """Another connection in place of one that is gone; raises why there cannot be one."""
        memory = self._memory
        if not memory.can_return or isinstance(error, Farewell) or _is_refusal(error):
            raise error
        self._inner = None
        self._back.clear()
        self._inlet_tell(memory.part())
        unsent: list[bytes] = getattr(gone, "unsent", list)()
        self._waiting = memory.unsaid(unsent)
        self._waiting_size = sum(map(len, self._waiting))
        grace = self._loop.call_later(GRACE, lambda: self._inlet_tell(memory.lost()))
        try:
            await gone.close()
            retrying = Retrying(self.peer, self._patience, Outage(self._report), str(error))
            inner = await retrying.run(self._begin)
        finally:
            grace.cancel()
        self._inlet_tell(memory.lost())
        inner.listen(self._take)
        self._inner = inner
        waiting, self._waiting, self._waiting_size = self._waiting, [], 0
        for frame in waiting:
            self._say(inner, frame)
        self._back.set()
        count = len(memory.stays)
        self._report(f"{self.peer}: a new connection; {count} session{'s' if count != 1 else ''} joined again")
        return inner

    async def _begin(self) -> Transport:
        """Dial, introduce ourselves as before, and join every session."""
        inner = await self._dial()
        try:
            async with asyncio.timeout(ANSWER_PATIENCE):
                await self._introduce(inner)
                for session in list(self._memory.stays):
                    await self._enter(inner, session)
            return inner
        except BaseException as error:
            await inner.close()
            if isinstance(error, TimeoutError):
                raise Unreachable(f"{self.peer} does not answer", is_passing=True) from None
            if type(error) is TransportClosed:
                raise Unreachable(str(error), is_passing=True) from None
            raise

    async def _introduce(self, inner: Transport) -> None:
        id = self._next_id()
        said = {**(self._memory.introduction or {}), "id": id}
        answer = await self._ask(inner, msgspec.json.encode(said), id)
        result = answer.get("result")
        if not isinstance(result, dict):
            why = f"{self.peer} does not take the same introduction again: {_message(answer)}"
            if _is_failure(answer):  # the host's agent died meanwhile, say; the next one may live
                raise Unreachable(why, is_passing=True)
            raise StartFailed(why)
        self._memory.introduced = result

    def _next_id(self) -> str:
        self._numbers += 1
        return f"rejoin-{self._numbers}"

    async def _enter(self, inner: Transport, session: str) -> None:
        if self._memory.way_in() is None:
            raise StartFailed(f"{self.peer} came back and cannot load sessions; open a new one")
        id = self._next_id()
        # A server that replays everything to whoever loads would tell it all twice: what was told before is known here.
        silent = session if self._memory.way_in() == "session/load" else None
        answer = await self._ask(inner, self._memory.entering(session, id), id, silent)
        if "error" in answer:
            self._memory.stays.pop(session, None)
            self._report(f"{self.peer}: session {session} could not be joined again: {_message(answer)}")

    async def _ask(self, inner: Transport, frame: bytes, id: str, silent: str | None = None) -> dict[str, object]:
        """Our own request on a connection that nobody else uses yet; what else comes is passed on."""
        inner.send(frame)
        while True:
            frames = await inner.receive()
            for place, each in enumerate(frames):
                answer = _answer(each, id)
                if answer is not None:
                    self._pass(frames[place + 1 :])
                    return answer
                if silent is None or not _is_history(each, silent):
                    self._pass([each])

    def _inlet_tell(self, frames: list[bytes]) -> None:
        if frames and self._ended is None:
            self._inlet.deliver(list(frames))

    # --- writing ----------------------------------------------------------------------------------------------

    def send(self, data: bytes, session: str | None = None) -> None:
        """Send a frame, or keep it until there is a connection again."""
        if self._ended is not None:
            raise self._ended.with_traceback(None)
        if self._inner is None:
            self._waiting.append(data)
            self._waiting_size += len(data)
            return
        self._say(self._inner, data)

    def _say(self, inner: Transport, data: bytes) -> None:
        said = self._memory.went(data)
        if said is None:
            return
        try:
            inner.send(said)
        except ConnectionFailed:
            if not self._memory.can_return:
                raise  # else whoever waits for it hears so when the sessions are joined again

    def congested(self) -> bool:
        """Whether the sender should wait."""
        return self._waiting_size > HIGH_WATER if self._inner is None else self._inner.congested()

    async def drain(self) -> None:
        """Wait until it need not."""
        while self._ended is None and self.congested():
            if self._inner is None:
                await self._back.wait()
                continue
            try:
                await self._inner.drain()
            except ConnectionFailed:
                if not self._memory.can_return:
                    raise
                await asyncio.sleep(0)
        if self._ended is not None:
            raise self._ended.with_traceback(None)

    # --- ending -----------------------------------------------------------------------------------------------

    def _end(self, error: ConnectionFailed) -> None:
        self._inlet_tell(self._memory.lost() if self._memory.can_return else [])
        if self._ended is None:
            self._ended = error
        self._inlet.end(self._ended)
        self._back.set()
        self._room.set()

    async def close(self, reason: str = "") -> None:
        """Close the connection there is, and begin no other."""
        if self._closing is not None:
            await asyncio.shield(self._closing)
            return
        self._closing = self._loop.create_future()
        because = f": {reason}" if reason else ""
        inner = self._inner
        self._end(TransportClosed(f"the connection to {self.peer} was closed{because}"))
        try:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            if inner is not None:
                await inner.close(reason)
        finally:
            self._closing.set_result(None)


def _is_refusal(error: ConnectionFailed) -> bool:
    """Whether trying again would only be refused again."""
    return isinstance(error, Unreachable) and not error.is_passing


def _answer(frame: Frame, id: str) -> dict[str, object] | None:
    """The answer to our own request; None for every other frame."""
    if not isinstance(frame, bytes) or id.encode() not in frame:
        return None
    try:
        said = msgspec.json.decode(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return said if isinstance(said, dict) and said.get("id") == id and "method" not in said else None


def _is_failure(answer: dict[str, object]) -> bool:
    """Whether the other end failed, rather than refused."""
    error = answer.get("error")
    return isinstance(error, dict) and error.get("code") == INTERNAL_ERROR


def _is_history(frame: Frame, session: str) -> bool:
    return isinstance(frame, bytes) and b'"session/update"' in frame and session.encode() in frame


def _message(answer: dict[str, object]) -> str:
    error = answer.get("error")
    return str(error.get("message", error)) if isinstance(error, dict) else str(error)
