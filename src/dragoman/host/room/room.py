"""A room: one session with whoever is in it, its log, its agent while that is awake, and the prompts that wait.

Prompts of several people run one after the other; what the agent wants of a client it gets of a member. Above are the
desks of clients; below are the company in the room, which hears everything, and the keeping of its agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dragoman.engine.incoming import Incoming
from dragoman.engine.pending import Done
from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.host.refusals import is_extension
from dragoman.host.room.agent import INTERRUPTED
from dragoman.host.room.member import Member
from dragoman.host.room.members import Company
from dragoman.host.room.notifications import FOR_CLIENTS, LOGIN, PRESENCE, QUEUE, TERMINALS, TURNS, News, closed
from dragoman.host.room.prompt_queue import Queue, Waiting
from dragoman.host.room.workspace import GATES, HOST, chosen
from dragoman.roles.agent.session import new_id
from dragoman.schema.prompt import PromptResult, StopReason
from dragoman.store.contract import EntryKind
from dragoman.store.session_state import Standing

if TYPE_CHECKING:
    from dragoman.host.host import House
    from dragoman.host.host_client import Desk


class Room(Company):
    """One session and everybody in it."""

    def __init__(self, house: House, id: str, standing: Standing) -> None:
        super().__init__(house, id, standing)
        self.queue = Queue(house.bounds.prompts)
        self.uses = 0  # calls that are about to do something here
        self._worker: asyncio.Task[None] | None = None
        self._turned = asyncio.Event()  # set when a turn is over
        self._lent: dict[str, Any] = {}

    @classmethod
    async def reopened(cls, house: House, id: str) -> Room:
        """The room of a session that was kept; a turn that was open when its host ended is over now."""
        room = cls(house, id, standing := await house.standing(id))
        room.opener = standing.owner or room.opener
        if standing.turn is not None:
            room._interrupted("this turn was not finished: its host ended, or was left")
            await room.chronicle.kept()
        return room

    async def mend(self) -> None:
        """The store failed, and works again perhaps: a turn whose end could not be kept is over."""
        if self.session is not None:
            await self.session.quiet()
        if self.standing.turn is not None:
            self.chronicle.try_again()
            self._interrupted("the end of this turn could not be kept")
            await self.chronicle.flush()

    def _interrupted(self, why: str) -> None:
        """Have in the log that the turn which is open there is over."""
        self.chronicle.turn = self.standing.turn or None
        body = {"error": {"kind": INTERRUPTED, "message": why}}
        self.chronicle.note(EntryKind.TURN_ENDED, body, actor="dragoman")
        self.chronicle.turn = None

    def now(self) -> list[News]:
        """What is so while somebody comes: a turn that runs, prompts that wait, whose files are used."""
        news = []
        if self.standing.turn is not None:
            running = self.queue.running
            params = {"sessionId": self.id, "state": "running", "turn": self.standing.turn}
            news.append(News("_dragoman/turn", params=params | ({"by": running.user} if running else {}), wanted=TURNS))
        if self.queue.waiting:
            news.append(self._queued())
        if self._lent:
            news.append(self._workspace())
        return news

    # --- prompts ------------------------------------------------------------------------------------------------

    def prompt(self, desk: Desk, blocks: list[Any], done: Done) -> Waiting:
        """A prompt: it runs when those before it are over; `done` hears how it ended."""
        if self.is_over:
            raise ProtocolError(Kind.SESSION_NOT_FOUND, f"there is no session {self.id!r} any more")
        waiting = Waiting(new_id(), desk.visitor.user, desk.id, blocks, done)
        self.queue.add(waiting)
        self.house.tally.prompts += 1
        self.rouse()
        if self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(
                self._work(self.queue.next()), name=f"dragoman room {self.id}"
            )
        else:
            self.broadcast(self._queued())
        return waiting

    def cancel(self, desk: Desk, id: str | None = None) -> None:
        """Somebody cancels: their own prompts that wait, or the turn that runs."""
        withdrawn, running = self.queue.cancel(desk.id, id)
        for waiting in withdrawn:
            waiting.done(PromptResult(stop_reason=StopReason.CANCELLED), None)
        if withdrawn:
            self.broadcast(self._queued())
        if running is not None:
            running.is_cancelled = True
            self.cancel_turn()

    async def _work(self, waiting: Waiting | None) -> None:
        try:
            while waiting is not None:
                try:
                    waiting.done(await self._turn(waiting), None)
                except ProtocolError as error:
                    waiting.done(None, error)
                except ConnectionFailed as error:
                    waiting.done(None, self.explained(error))
                except asyncio.CancelledError:
                    waiting.done(None, ProtocolError(Kind.INTERNAL_ERROR, self.why_closing, {"interrupted": True}))
                    raise
                except Exception as error:
                    self.house.report(f"session {self.id}: {error!r}")
                    waiting.done(None, ProtocolError(Kind.INTERNAL_ERROR, f"the host failed: {error!r}"))
                finally:
                    self.queue.over()
                    self._turned.set()
                if self.queue.waiting:
                    waiting = self.queue.next()
                    self.broadcast(self._queued())
                else:
                    waiting = None
        finally:
            self._worker = None
            self.rest()

    async def _turn(self, waiting: Waiting) -> PromptResult:
        session = await self.awake()
        if waiting.is_cancelled:
            return PromptResult(stop_reason=StopReason.CANCELLED)
        if self.standing.turn is not None:
            await self.mend()
        self.note_people()
        beside = {"connection": waiting.desk, "promptId": waiting.id}
        async with session.prompt(waiting.prompt, by=waiting.user, beside=beside) as turn:
            if waiting.is_cancelled:  # while the prompt was being kept
                turn.cancel()
            result = await turn.wait()
        self.crashes.lived()
        return result

    def _queued(self) -> News:
        waiting = [{"user": one.user, "promptId": one.id, "preview": one.preview} for one in self.queue.waiting]
        return News("_dragoman/queue", params={"sessionId": self.id, "waiting": waiting}, wanted=QUEUE)

    # --- what members have for the agent ------------------------------------------------------------------------

    def lender(self, gate: str) -> Member | None:
        """Who lends what this gate leads to; None: the host itself."""
        running = self.queue.running
        return chosen([*self.members.values()], gate, running.desk if running is not None else "")

    def lends(self, what: str, lender: Member | None) -> None:
        """Whose files or terminals are used is shown, when it changes."""
        by = HOST if lender is None else {"user": lender.desk.visitor.user, "client": lender.desk.client}
        if self._lent.get(what) != by:
            self._lent[what] = by
            self.broadcast(self._workspace())

    def leave(self, desk: Desk) -> None:
        """A client is gone: what it lent, somebody else lends now, or the host does, and that is said."""
        super().leave(desk)
        for what, gate in GATES.items():
            if self._lent.get(what, HOST) != HOST:
                self.lends(what, self.lender(gate))

    def tell_printed(self, terminal: str, text: str, but: Member | None) -> None:
        """What a command printed, to all but who ran it and has it."""
        params = {"sessionId": self.id, "terminalId": terminal, "output": text}
        self.broadcast(
            News("_dragoman/terminal", params=params, wanted=TERMINALS, but=but.desk.id if but is not None else "")
        )

    def _workspace(self) -> News:
        return News("_dragoman/workspace", params={"sessionId": self.id, **self._lent}, wanted=PRESENCE)

    def pass_on(self, incoming: Incoming, done: Done) -> tuple[bool, Awaitable[None] | None]:
        """What only clients can make sense of: whether it is theirs, and what must be awaited until it is answered."""
        said, method = incoming.values, incoming.method
        if not isinstance(said, dict) or not (is_extension(method) or method in FOR_CLIENTS):
            return False, None
        params = {**said, "sessionId": self.id} if "sessionId" in said else said
        if not incoming.is_request:
            news = News(method, params=params)
            if self.consent.opener is not None:
                self.consent.opener.tell(method, params)
            elif method == LOGIN:
                self._do(self._tell_owner(news))
            else:
                self.chronicle.after(lambda: self.broadcast(news))
            return True, None
        member = self.lender("")
        if member is None:
            return False, None
        return True, _passed(member, method, params, done, self.house.bounds.patience)

    async def _tell_owner(self, news: News) -> None:
        """Who is logged in is nobody's affair but whose login it is."""
        user = await self.whose()
        if user is not None:
            self.house.tell_user(user, self.standing.agent, news)

    # --- the end ------------------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether nobody is here and nothing is to be done."""
        return not self.members and not self.uses and not self._joining and self.queue.is_empty

    async def close(self, why: str) -> None:
        """Nothing happens here any more: turns are interrupted, the agent ends, who waits is told."""
        self.why_closing = why
        self.is_over = True
        for waiting in self.queue.clear():
            waiting.done(None, ProtocolError(Kind.INTERNAL_ERROR, why, {"interrupted": True}))
        if self._worker is not None and self.is_moving:
            self._worker.cancel()  # it waits for an agent that nobody needs any more
        await self.sleep(at_once=True)
        await self.settled()
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)
        await self.gone()
        await self.chronicle.flush()
        self.part()
        self.rouse()

    async def adjourn(self, why: str) -> None:
        """End what is being done here and let everybody go; whoever comes again finds it as it was."""
        for waiting in self.queue.clear():
            waiting.done(PromptResult(stop_reason=StopReason.CANCELLED), None)
        self.cancel_turn()
        await self.settled()
        self.broadcast(closed(self.id, why))
        for member in list(self.members.values()):
            self.leave(member.desk)
        await self.sleep()

    async def settled(self) -> None:
        """Wait until the turn that runs now is over, as long as anybody should."""
        running = self.queue.running
        with suppress(TimeoutError):
            async with asyncio.timeout(self.house.bounds.stopping):
                while running is not None and self.queue.running is running:
                    self._turned.clear()
                    await self._turned.wait()


async def _passed(member: Member, method: str, params: Any, done: Done, patience: float) -> None:
    done(await member.desk.connection.request_raw(method, params, timeout=patience), None)
