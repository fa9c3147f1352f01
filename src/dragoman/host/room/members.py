"""The company in a room: who is there, and what they hear, in one order for all.

Everything members see is a function of committed entries of the log, told in the order of their numbers; so it is the
same for all. Whoever comes is told what was before, from the store, and hears the rest live, with no gap and nothing
twice. Above is the room; below are members, which have desks, and the store.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Raw

from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.host.auth.roles import lesser
from dragoman.host.room.agent_process import Keeping
from dragoman.host.room.member import Member
from dragoman.host.room.notifications import PRESENCE, News, retold, told
from dragoman.schema.base import encode
from dragoman.schema.update import AvailableCommandsUpdate, UpdateParams
from dragoman.store.contract import Entry, EntryKind, Line, read_line
from dragoman.store.session_log import Chronicle
from dragoman.store.session_state import Standing, person

if TYPE_CHECKING:
    from dragoman.host.host import House
    from dragoman.host.host_client import Desk

# Entries that are read of a log at once: few enough to hold, enough to make reading cheap.
PAGE = 500

# Messages to members that are said before anybody else's turn comes (some ten milliseconds), and the fewest entries
# that a commit is worth.
AT_ONCE, FEWEST = 10_000, 16

# Entries that are held for those who are still reading the log; who is further behind reads on.
TAIL = 4096

# Presence changes of a moment are told together: a hundred who come at once are one piece of news. Seconds.
TOGETHER = 0.05

# From an entry to what is heard of it.
Tell = Callable[[str, Line], list[News]]


class Company(Keeping):
    """The part of a room that deals with its members."""

    def __init__(self, house: House, id: str, standing: Standing) -> None:
        super().__init__(house, id, standing)
        self.chronicle = Chronicle(house.store, id, on_entry=self._committed)
        self.members: dict[str, Member] = {}  # by connection, in the order they came
        self._live: tuple[Member, ...] = ()  # the same, for telling them
        self._joining = 0
        self._tail: deque[Line] = deque(maxlen=TAIL)
        self._gathering: asyncio.TimerHandle | None = None
        self._noted = set(standing.people)  # who is there as the log has it, or will when it is written

    @property
    def seq(self) -> int:
        """The number of the last entry that was told."""
        return self.standing.seq

    @abstractmethod
    def now(self) -> list[News]:
        """What is so while somebody comes."""

    # --- one order for all --------------------------------------------------------------------------------------

    def _committed(self, _: str, entry: Entry) -> None:
        """An entry is kept: everybody hears of it now."""
        body = entry.body if type(entry.body) is Raw else Raw(encode(entry.body))
        line = Line(entry.seq, entry.kind, body, entry.actor, entry.turn)
        is_gap = bool(self.standing.seq) and line.seq > self.standing.seq + 1
        self.standing.note(line)
        if is_gap:
            self._tail.clear()  # who is reading the log finds there what is missing here
        if self._joining:
            self._tail.append(line)
        if not self._live:
            return
        seq = line.seq
        if is_gap:  # another program wrote to this log: all read up what nobody told them
            behind = [member for member in self._live if member.is_live]
            for member in behind:
                member.is_live = False
            self._do(self._read_up(behind))
            return
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

    async def _read_up(self, behind: list[Member]) -> None:
        self._joining += 1
        try:
            for member in behind:
                with suppress(ProtocolError, ConnectionFailed):
                    await self._catch_up(member, told)
                if self.members.get(member.desk.id) is member:
                    member.is_live = True
                    self.questions.came(member)
        finally:
            self._stop_joining()

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
            desk.rooms[self.id] = self  # type: ignore[assignment]
            answer()
        self._joining += 1
        try:
            # Who was answered first may have said something since: that is no history to them.
            await self._catch_up(member, told if answers_first else retold)
            if desk.connection.failure is not None:
                raise ProtocolError(Kind.CANCELLED, "the client has left")
        except BaseException:
            self._drop(desk)
            raise
        finally:
            self._stop_joining()
        if answers_first and self.members.get(desk.id) is not member:
            return member  # who was answered first may have closed the session, or come again, by now
        # From here to the end nothing can come in between.
        if not answers_first:
            answer()
        member.is_live = True
        self.members[desk.id] = member
        self._changed()
        if before is None:
            self.say(f"{desk.visitor.user} came, as {role}{f' ({desk.client})' if desk.client else ''}")
        desk.rooms[self.id] = self  # type: ignore[assignment]
        if after is None and self.standing.commands:
            update = AvailableCommandsUpdate(available_commands=self.standing.commands)
            desk.connection.notify("session/update", UpdateParams(session_id=self.id, update=update))
        self.questions.came(member)
        self._present()
        for news in self.now():
            self._say(member, news)
        return member

    def _stop_joining(self) -> None:
        self._joining -= 1
        if not self._joining:
            self._tail.clear()

    async def _catch_up(self, member: Member, tell: Tell) -> None:
        """Tell what the log has, page by page, and what was committed meanwhile."""
        transport = member.desk.connection.transport
        while member.told < self.seq:
            if member.desk.connection.failure is not None:
                raise ProtocolError(Kind.CANCELLED, "the client has left")
            first = self._tail[0].seq if self._tail else self.seq + 1
            if first <= member.told + 1:
                for line in [line for line in self._tail if line.seq > member.told]:
                    self._retell(member, line, tell)
                    if transport.congested():
                        await transport.drain()
                continue
            lines = await self.house.store.lines(self.id, member.told, PAGE, intact=True)
            if not lines:
                member.told = self.seq  # what is missing was lost, and will not come back
                return
            for text in lines:
                self._retell(member, read_line(text), tell)
                if transport.congested():
                    await transport.drain()

    def _retell(self, member: Member, line: Line, tell: Tell) -> None:
        member.told = line.seq
        for news in tell(self.id, line):
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
            self.say(f"{desk.visitor.user} went")
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
        if self.standing.turn is not None:
            self.note_people()
        self.broadcast(News("_dragoman/presence", params={"sessionId": self.id, "members": there}, wanted=PRESENCE))

    def note_people(self) -> None:
        """Have in the log who is there while something is said: who came and went since it was last noted.

        Whoever only looks at what was said changes nothing, so outside turns nothing is written.
        """
        there = {person(member.shown) for member in self.members.values()}
        came, went = there - self._noted, self._noted - there
        if came or went:
            self._noted = there
            body = {
                name: [one._asdict() for one in sorted(who)] for name, who in (("came", came), ("went", went)) if who
            }
            self.chronicle.note(EntryKind.MEMBER, body, actor="dragoman")

    def part(self) -> None:
        """Everybody leaves, and hears no more."""
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        for member in list(self.members.values()):
            self._drop(member.desk)
