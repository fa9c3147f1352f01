"""A connection that is begun anew when the last one is gone for good: the sessions are joined where they were left.

Takes a way to dial, gives the Transport contract, so neither the engine above nor `dragoman attach` notices more than
a pause. After the host restarted, or a client was away too long, it dials again, introduces itself with the same words,
joins every session after the last entry it was told, and answers what was open and is lost. Below are transports that
mend cuts by themselves; what must be remembered is in whereabouts.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from dragoman.errors import ConnectionFailed, TransportClosed, Unreachable, WriteStalled
from dragoman.roles.client.reconnect.attach import Joining
from dragoman.roles.client.reconnect.frames import decoded, session_of
from dragoman.roles.client.reconnect.state import Whereabouts
from dragoman.transport.base import HIGH_WATER, Take, Transport
from dragoman.transport.inlet import Inlet
from dragoman.transport.remote.errors import Farewell
from dragoman.transport.remote.retry import Outage, Patience, Retrying
from dragoman.wire.frames import Frame

# Who waits for an answer that is lost is told when the sessions are joined again, or after this. Seconds.
GRACE = 10.0

# A session that cannot be joined for a reason that may pass is tried again for so long; what is said in it waits. An
# agent that ends again and again is started after a minute at the latest. Seconds.
ENTER_PATIENCE = 120.0

# A connection that ends sooner than this was none: the next one is begun after a pause that grows. Seconds.
STEADY = 10.0

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
        self._begun = self._loop.time()
        self._brief = 0  # connections in a row that ended at once
        self._memory = Whereabouts()
        self._joining = Joining(self.peer, self._memory, report)
        self._inlet = Inlet()
        self._room = asyncio.Event()
        self._waiting: list[bytes] = []  # said while there was no connection
        self._waiting_size = 0
        self._outside: dict[str, list[bytes]] = {}  # sessions not joined yet, and what was said in them meanwhile
        self._late: asyncio.Task[None] | None = None  # joins those
        self._back = asyncio.Event()
        self._ended: ConnectionFailed | None = None
        self._closing: asyncio.Future[None] | None = None
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
        passed = self._memory.pass_on(self._joining.without_ours(frames))
        if passed:
            self._inlet.deliver(passed)

    async def _run(self, inner: Transport) -> None:
        try:
            while True:
                error = await self._read(inner)
                inner = await self._return(inner, error)
        except ConnectionFailed as error:
            self._end(error)
        except Exception as error:  # whoever receives must hear of it, whatever it is
            self._end(TransportClosed(f"{self.peer}: could not go on: {type(error).__name__}: {error}"))

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
        is_over = isinstance(error, Farewell) or _is_refusal(error) or self._patience.whole <= 0
        if is_over or not memory.can_return:
            raise error
        self._inner = None
        self._back.clear()
        await self._stop_joining()
        self._inlet_tell(memory.part())
        unsent: list[bytes] = getattr(gone, "unsent", list)()
        held = [frame for frames in self._outside.values() for frame in frames]
        self._outside = {}
        self._waiting = [*memory.unsaid(unsent), *held, *self._waiting]
        self._waiting_size = sum(map(len, self._waiting))
        grace = self._loop.call_later(GRACE, lambda: self._inlet_tell(memory.lost()))
        try:
            await gone.close()
            await self._take_breath()
            inner = await Retrying(self.peer, self._patience, Outage(self._report), str(error)).run(self._begin)
        finally:
            grace.cancel()
        self._inlet_tell(memory.lost())
        inner.listen(self._take)
        self._inner = inner
        waiting, self._waiting, self._waiting_size = self._waiting, [], 0
        for frame in waiting:
            self._say(inner, frame)
        self._back.set()
        count = len(memory.stays) - len(self._outside)
        self._report(f"{self.peer}: a new connection; {count} session{'s' if count != 1 else ''} joined again")
        if self._outside:
            self._late = self._loop.create_task(self._join_late(inner), name=f"dragoman joins sessions of {self.peer}")
        return inner

    async def _take_breath(self) -> None:
        """A server that ends every connection at once must not be dialled in a circle."""
        self._brief = self._brief + 1 if self._loop.time() - self._begun < STEADY else 0
        if self._brief:
            await asyncio.sleep(self._patience.pause(self._brief))

    async def _begin(self) -> Transport:
        """Dial, introduce ourselves as before, and join every session; those that cannot be joined yet come later."""
        inner = await self._dial()
        self._begun = self._loop.time()
        reading = self._loop.create_task(self._read(inner))
        try:
            await self._joining.introduce(inner, reading)
            self._outside = {}
            for session in list(self._memory.stays):
                try:
                    await self._joining.enter(inner, session, reading)
                except Unreachable as error:
                    if reading.done() or not error.is_passing:
                        raise
                    self._outside[session] = []
            return inner
        except BaseException as error:
            await inner.close()
            if isinstance(error, TransportClosed | WriteStalled) and not isinstance(error, Farewell):
                raise Unreachable(str(error), is_passing=True) from None
            raise
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _join_late(self, inner: Transport) -> None:
        """Join what could not be joined at once, each as soon as it can be; what was said in it follows."""
        await asyncio.gather(*(self._join(inner, session) for session in list(self._outside)))

    async def _join(self, inner: Transport, session: str) -> None:
        patience = Patience(
            first=self._patience.first,
            longest=self._patience.longest,
            whole=min(self._patience.whole, ENTER_PATIENCE),
        )
        name = f"{self.peer}: session {session}"
        retrying = Retrying(name, patience, Outage(self._report), trouble="cannot be joined yet", relief="joined again")
        try:
            await retrying.run(lambda: self._joining.enter(inner, session))
        except Unreachable as error:
            self._joining.give_up(session, str(error))
        except ConnectionFailed:
            return  # the connection is gone; with the next one it is joined anew
        for frame in self._outside.pop(session, []):
            self._say(inner, frame)

    async def _stop_joining(self) -> None:
        late, self._late = self._late, None
        self._joining.stop()
        if late is not None:
            late.cancel()
            await asyncio.gather(late, return_exceptions=True)

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
        if (
            self._outside
            and (held := self._outside.get(session_of((decoded(data) or {}).get("params")) or "")) is not None
        ):
            held.append(data)
            return
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
            await self._stop_joining()
            await asyncio.gather(self._task, return_exceptions=True)
            if inner is not None:
                await inner.close(reason)
        finally:
            self._closing.set_result(None)


def _is_refusal(error: ConnectionFailed) -> bool:
    """Whether trying again would only be refused again."""
    return isinstance(error, Unreachable) and not error.is_passing
