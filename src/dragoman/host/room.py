"""A room: one session with whoever is in it, its log, its agent while that is awake, and the prompts that wait.

Everything members see is a function of committed entries of the log, told in the order of their numbers; so it is the
same for all. Whoever comes is told what was before, from the store, and hears the rest live, with no gap and nothing
twice. Above are the desks of clients; beside it questions and the queue; below are the agent of the room and the store.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from dragoman.engine.exchange import Done
from dragoman.engine.message import Incoming
from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.host.directory import lesser
from dragoman.host.engaged import INTERRUPTED
from dragoman.host.keeping import Keeping
from dragoman.host.lent import HOST, chosen
from dragoman.host.member import Member
from dragoman.host.queue import Queue, Waiting
from dragoman.host.standing import Standing
from dragoman.host.telling import PRESENCE, QUEUE, TURNS, Line, News, read_line, retold, told
from dragoman.roles.chronicle import Chronicle
from dragoman.roles.sessions import new_id
from dragoman.schema.base import encode
from dragoman.schema.prompt import PromptResult, StopReason
from dragoman.schema.update import AvailableCommandsUpdate, UpdateParams
from dragoman.store.contract import Entry, EntryKind

if TYPE_CHECKING:
    from dragoman.host.desk import Desk
    from dragoman.host.house import House

# Entries that are read of a log at once: few enough to hold, enough to make reading cheap.
PAGE = 500

# Messages to members that are said before anybody else's turn comes (some ten milliseconds), and the fewest entries
# that a commit is worth.
AT_ONCE, FEWEST = 10_000, 16

# Entries that are held for those who are still reading the log; who is further behind reads on.
TAIL = 4096

# What an agent tells its client besides updates.
_FOR_CLIENTS = frozenset({"elicitation/complete"})

# Presence changes of a moment are told together: a hundred who come at once are one piece of news. Seconds.
TOGETHER = 0.05


class Room(Keeping):
    """One session and everybody in it."""

    def __init__(self, house: House, id: str, standing: Standing) -> None:
        super().__init__(house, id, standing)
        self.chronicle = Chronicle(house.store, id, on_entry=self._committed)
        self.members: dict[str, Member] = {}  # by connection, in the order they came
        self._live: tuple[Member, ...] = ()  # the same, for telling them
        self.queue = Queue(house.bounds.prompts)
        self.uses = 0  # calls that are about to do something here
        self._joining = 0
        self._tail: deque[Line] = deque(maxlen=TAIL)
        self._worker: asyncio.Task[None] | None = None
        self._turned = asyncio.Event()  # set when a turn is over
        self._gathering: asyncio.TimerHandle | None = None
        self._lent: dict[str, Any] = {}

    @classmethod
    async def reopened(cls, house: House, id: str) -> Room:
        """The room of a session that was kept; a turn that was open when its host ended is over now."""
        standing = Standing()
        while lines := await house.store.lines(id, standing.seq, PAGE, intact=True):
            for line in lines:
                standing.note(read_line(line))
        room = cls(house, id, standing)
        room.opener = standing.owner or room.opener
        if standing.turn is not None:
            room.chronicle.turn = standing.turn or None
            body = {
                "error": {"kind": INTERRUPTED, "message": "this turn was not finished: its host ended, or was left"}
            }
            await room.chronicle.record(EntryKind.TURN_ENDED, body, actor="dragoman")
            room.chronicle.turn = None
        return room

    @property
    def seq(self) -> int:
        """The number of the last entry that was told."""
        return self.standing.seq

    # --- one order for all --------------------------------------------------------------------------------------

    def _committed(self, _: str, entry: Entry) -> None:
        """An entry is kept: everybody hears of it now."""
        body = entry.body if type(entry.body) is Raw else Raw(encode(entry.body))
        line = Line(entry.seq, entry.kind, body, entry.actor, entry.turn)
        self.standing.note(line)
        if self._joining:
            self._tail.append(line)
        if not self._live:
            return
        seq = line.seq
        try:
            news = told(self.id, line)
        except Exception as error:  # an entry that nobody can tell must not end the log
            self.house.report(f"session {self.id}: entry {seq} cannot be told: {error!r}")
            return
        heard = 0
        for member in self._live:  # who is let go meanwhile makes another one
            if seq > member.told and member.is_live:
                member.told = seq
                heard += 1
                for one in news:
                    self._say(member, one)
        self.house.tally.delivered += heard

    def _say(self, member: Member, news: News) -> None:
        """What goes wrong on the way to one member is no concern of the others."""
        try:
            member.hear(news)
        except Exception as error:
            self.house.report(f"session {self.id}: {member.desk.client or 'a client'} was not told: {error!r}")

    def broadcast(self, news: News) -> None:
        """Something that no entry tells: presence, the queue."""
        for member in self._live:
            if member.is_live:
                self._say(member, news)

    # --- coming and going ---------------------------------------------------------------------------------------

    async def join(
        self,
        desk: Desk,
        role: str,
        answer: Callable[[], None],
        *,
        after: int | None = None,
        answers_first: bool = False,
    ) -> Member:
        """Be told what came `after` a number (None: nothing), be answered, and hear everything from then on."""
        if desk.id not in self.members and len(self.members) >= self.house.bounds.members:
            raise ProtocolError(Kind.RATE_LIMITED, f"{len(self.members)} clients are in this session already")
        member = Member(desk, self.id, role, self.seq if after is None else min(after, self.seq))
        self.rouse()
        before = self.members.get(desk.id)
        if before is not None:  # who is told it all again does not hear two things at once
            before.is_live = False
        if answers_first:  # who has the answer may prompt at once, before the history is told
            self.members[desk.id] = member
            desk.rooms[self.id] = self
            answer()
        self._joining += 1
        try:
            await self._catch_up(member)
            if desk.connection.failure is not None:
                raise ProtocolError(Kind.CANCELLED, "the client has left")
        except BaseException:
            self._drop(desk)
            raise
        finally:
            self._joining -= 1
            if not self._joining:
                self._tail.clear()
        # From here to the end nothing can come in between.
        if not answers_first:
            answer()
        member.is_live = True
        self.members[desk.id] = member
        self._changed()
        desk.rooms[self.id] = self
        if after is None and self.standing.commands:
            update = AvailableCommandsUpdate(available_commands=self.standing.commands)
            desk.connection.notify("session/update", UpdateParams(session_id=self.id, update=update))
        self.questions.came(member)
        self._present()
        for news in self._now():
            self._say(member, news)
        return member

    def _now(self) -> list[News]:
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

    async def _catch_up(self, member: Member) -> None:
        """Tell what the log has, page by page, and what was committed meanwhile."""
        transport = member.desk.connection.transport
        while member.told < self.seq:
            if member.desk.connection.failure is not None:
                raise ProtocolError(Kind.CANCELLED, "the client has left")
            first = self._tail[0].seq if self._tail else self.seq + 1
            if first <= member.told + 1:
                for line in [line for line in self._tail if line.seq > member.told]:
                    self._retell(member, line)
                    if transport.congested():
                        await transport.drain()
                continue
            lines = await self.house.store.lines(self.id, member.told, PAGE, intact=True)
            if not lines:
                member.told = self.seq  # what is missing was lost, and will not come back
                return
            for text in lines:
                self._retell(member, read_line(text))
                if transport.congested():
                    await transport.drain()

    def _retell(self, member: Member, line: Line) -> None:
        member.told = line.seq
        for news in retold(self.id, line):
            self._say(member, news)

    def leave(self, desk: Desk) -> None:
        """A client is gone, or does not want to hear any more; its prompts go on."""
        member = self._drop(desk)
        if member is not None:
            self.questions.went(member)
            self._present()
        self.rest()

    def _drop(self, desk: Desk) -> Member | None:
        desk.rooms.pop(self.id, None)
        member = self.members.pop(desk.id, None)
        if member is not None:
            member.is_live = False
            self._changed()
        return member

    def _changed(self) -> None:
        self._live = tuple(self.members.values())
        self.chronicle.most = max(FEWEST, AT_ONCE // len(self._live)) if len(self._live) > 1 else None

    def set_role(self, desk: Desk, role: str) -> None:
        """Somebody may do more or less than before."""
        member = self.members.get(desk.id)
        if member is None or member.role == lesser(role, member.most):
            return
        member.role = lesser(role, member.most)
        (self.questions.came if member.controls else self.questions.went)(member)
        self._present()

    def set_state(self, desk: Desk, state: str) -> None:
        """Somebody types, or is idle."""
        member = self.members.get(desk.id)
        if member is not None and member.state != state:
            member.state = state
            self._present()

    def _present(self) -> None:
        if self._gathering is None:
            self._gathering = asyncio.get_running_loop().call_later(TOGETHER, self._tell_presence)

    def _tell_presence(self) -> None:
        self._gathering = None
        there = [member.shown for member in self.members.values()]
        self.broadcast(News("_dragoman/presence", params={"sessionId": self.id, "members": there}, wanted=PRESENCE))

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

    def _workspace(self) -> News:
        return News("_dragoman/workspace", params={"sessionId": self.id, **self._lent}, wanted=PRESENCE)

    def pass_on(self, incoming: Incoming, done: Done) -> bool:
        """A method of the agent's that the house does not know: clients may; whether anybody could be asked."""
        said = incoming.values
        if not isinstance(said, dict) or not (incoming.method.startswith("_") or incoming.method in _FOR_CLIENTS):
            return False
        params = {**said, "sessionId": self.id} if "sessionId" in said else said
        if not incoming.is_request:
            self.chronicle.after(lambda: self.broadcast(News(incoming.method, params=params)))
            return True
        member = self.lender("")
        if member is None:
            return False
        member.desk.connection.call(incoming.method, params, done, raw=True)
        return True

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
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        for member in list(self.members.values()):
            self._drop(member.desk)
        self.rouse()

    async def settled(self) -> None:
        """Wait until the turn that runs now is over, as long as anybody should."""
        running = self.queue.running
        with suppress(TimeoutError):
            async with asyncio.timeout(self.house.bounds.stopping):
                while running is not None and self.queue.running is running:
                    self._turned.clear()
                    await self._turned.wait()
