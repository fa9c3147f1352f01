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
from dragoman.host.auth.roles import lower_role
from dragoman.host.room.agent_process import AgentProcess
from dragoman.host.room.member import Member
from dragoman.host.room.notifications import PRESENCE, Notification, live_notifications, replay_notifications
from dragoman.schema.base import encode
from dragoman.schema.update import AvailableCommandsUpdate, UpdateParams
from dragoman.store.contract import Entry, EntryKind, RawEntry, decode_raw_entry
from dragoman.store.session_log import SessionLog
from dragoman.store.session_state import SessionState, parse_person

if TYPE_CHECKING:
    from dragoman.host.host import Host
    from dragoman.host.host_client import HostClient

# Entries that are read of a log at once: few enough to hold, enough to make reading cheap.
PAGE_SIZE = 500

# Messages to members that are said before anybody else's turn comes (some ten milliseconds), and the fewest entries
# that a commit is worth.
MESSAGES_PER_SLICE, MIN_BATCH = 10_000, 16

# Entries that are held for those who are still reading the log; who is further behind reads on.
MAX_RECENT = 4096

# Presence changes of a moment are told together: a hundred who come at once are one piece of news. Seconds.
PRESENCE_DELAY = 0.05

# From an entry to what is heard of it.
RenderEntry = Callable[[str, RawEntry], list[Notification]]


class Members(AgentProcess):
    """The part of a room that deals with its members."""

    def __init__(self, host: Host, id: str, state: SessionState) -> None:
        super().__init__(host, id, state)
        self.log = SessionLog(host.store, id, on_entry=self._on_committed)
        self.members: dict[str, Member] = {}  # by connection, in the order they came
        self._live_members: tuple[Member, ...] = ()  # the same, for telling them
        self._joining_count = 0
        self._recent_entries: deque[RawEntry] = deque(maxlen=MAX_RECENT)
        self._presence_timer: asyncio.TimerHandle | None = None
        self._logged_people = set(state.people)  # who is there as the log has it, or will when it is written

    @property
    def seq(self) -> int:
        """The number of the last entry that was told."""
        return self.state.seq

    @abstractmethod
    def current_notifications(self) -> list[Notification]:
        """What is so while somebody comes."""

    # --- one order for all --------------------------------------------------------------------------------------

    def _on_committed(self, _: str, entry: Entry) -> None:
        """An entry is kept: everybody hears of it now."""
        body = entry.body if type(entry.body) is Raw else Raw(encode(entry.body))
        line = RawEntry(entry.seq, entry.kind, body, entry.actor, entry.turn)
        is_gap = bool(self.state.seq) and line.seq > self.state.seq + 1
        self.state.apply(line)
        if is_gap:
            self._recent_entries.clear()  # who is reading the log finds there what is missing here
        if self._joining_count:
            self._recent_entries.append(line)
        if not self._live_members:
            return
        seq = line.seq
        if is_gap:  # another program wrote to this log: all read up what nobody told them
            behind = [member for member in self._live_members if member.is_live]
            for member in behind:
                member.is_live = False
            self._spawn(self._catch_up_members(behind))
            return
        try:
            news = live_notifications(self.id, line)
        except Exception as error:  # an entry that nobody can tell must not end the log
            self.host.report(f"session {self.id}: entry {seq} cannot be told: {error!r}")
            return
        heard = 0
        for member in self._live_members:  # who is let go meanwhile makes another one
            if seq > member.seen_seq and member.is_live:
                member.seen_seq = seq
                heard += 1
                for one in news:
                    self._notify_member(member, one)
        self.host.counters.delivered_entries += heard

    def _notify_member(self, member: Member, notification: Notification) -> None:
        """What goes wrong on the way to one member is no concern of the others."""
        try:
            member.notify(notification)
        except Exception as error:
            self.host.report(f"session {self.id}: {member.client.client_name or 'a client'} was not told: {error!r}")

    async def _catch_up_members(self, behind: list[Member]) -> None:
        self._joining_count += 1
        try:
            for member in behind:
                with suppress(ProtocolError, ConnectionFailed):
                    await self._catch_up(member, live_notifications)
                if self.members.get(member.client.id) is member:
                    member.is_live = True
                    self.questions.add_member(member)
        finally:
            self._stop_joining()

    def broadcast(self, notification: Notification) -> None:
        """Something that no entry tells: presence, the queue."""
        for member in self._live_members:
            if member.is_live:
                self._notify_member(member, notification)

    # --- coming and going ---------------------------------------------------------------------------------------

    async def join(
        self,
        client: HostClient,
        role: str,
        reply: Callable[[], None],
        *,
        after: int | None = None,
        replies_first: bool = False,
    ) -> Member:
        """Be told what came `after` a number (None: nothing), be answered, and hear everything from then on."""
        if client.id not in self.members and len(self.members) >= self.host.limits.max_members:
            raise ProtocolError(Kind.RATE_LIMITED, f"{len(self.members)} clients are in this session already")
        member = Member(client, self.id, role, self.seq if after is None else min(after, self.seq))
        self.stop_idle_timer()
        before = self.members.get(client.id)
        if before is not None:  # who is told it all again does not hear two things at once
            before.is_live = False
        if replies_first:  # who has the answer may prompt at once, before the history is told
            self.members[client.id] = member
            client.rooms[self.id] = self  # type: ignore[assignment]
            reply()
        self._joining_count += 1
        try:
            # Who was answered first may have said something since: that is no history to them.
            await self._catch_up(member, live_notifications if replies_first else replay_notifications)
            if client.connection.failure is not None:
                raise ProtocolError(Kind.CANCELLED, "the client has left")
        except BaseException:
            self._remove_member(client)
            raise
        finally:
            self._stop_joining()
        if replies_first and self.members.get(client.id) is not member:
            return member  # who was answered first may have closed the session, or come again, by now
        # From here to the end nothing can come in between.
        if not replies_first:
            reply()
        member.is_live = True
        self.members[client.id] = member
        self._update_live_members()
        if before is None:
            self.report(
                f"{client.principal.user} came, as {role}{f' ({client.client_name})' if client.client_name else ''}"
            )
        client.rooms[self.id] = self  # type: ignore[assignment]
        if after is None and self.state.commands:
            update = AvailableCommandsUpdate(available_commands=self.state.commands)
            client.connection.notify("session/update", UpdateParams(session_id=self.id, update=update))
        self.questions.add_member(member)
        self._schedule_presence()
        for news in self.current_notifications():
            self._notify_member(member, news)
        return member

    def _stop_joining(self) -> None:
        self._joining_count -= 1
        if not self._joining_count:
            self._recent_entries.clear()

    async def _catch_up(self, member: Member, render: RenderEntry) -> None:
        """Tell what the log has, page by page, and what was committed meanwhile."""
        transport = member.client.connection.transport
        while member.seen_seq < self.seq:
            if member.client.connection.failure is not None:
                raise ProtocolError(Kind.CANCELLED, "the client has left")
            first = self._recent_entries[0].seq if self._recent_entries else self.seq + 1
            if first <= member.seen_seq + 1:
                for line in [line for line in self._recent_entries if line.seq > member.seen_seq]:
                    self._replay_entry(member, line, render)
                    if transport.congested():
                        await transport.drain()
                continue
            lines = await self.host.store.lines(self.id, member.seen_seq, PAGE_SIZE, intact=True)
            if not lines:
                member.seen_seq = self.seq  # what is missing was lost, and will not come back
                return
            for text in lines:
                self._replay_entry(member, decode_raw_entry(text), render)
                if transport.congested():
                    await transport.drain()

    def _replay_entry(self, member: Member, entry: RawEntry, render: RenderEntry) -> None:
        member.seen_seq = entry.seq
        for news in render(self.id, entry):
            self._notify_member(member, news)

    def leave(self, client: HostClient) -> None:
        """A client is gone, or does not want to hear any more; its prompts go on."""
        member = self._remove_member(client)
        if member is not None:
            self.questions.remove_member(member)
            self._schedule_presence()
        self.start_idle_timer()

    def _remove_member(self, client: HostClient) -> Member | None:
        client.rooms.pop(self.id, None)
        member = self.members.pop(client.id, None)
        if member is not None:
            member.is_live = False
            self._update_live_members()
            self.report(f"{client.principal.user} went")
        return member

    def _update_live_members(self) -> None:
        self._live_members = tuple(self.members.values())
        self.log.batch_limit = (
            max(MIN_BATCH, MESSAGES_PER_SLICE // len(self._live_members)) if len(self._live_members) > 1 else None
        )

    def set_role(self, client: HostClient, role: str) -> None:
        """Somebody may do more or less than before."""
        member = self.members.get(client.id)
        if member is None or member.role == lower_role(role, member.max_role):
            return
        member.role = lower_role(role, member.max_role)
        (self.questions.add_member if member.can_control else self.questions.remove_member)(member)
        self._schedule_presence()

    def set_state(self, client: HostClient, state: str) -> None:
        """Somebody types, or is idle."""
        member = self.members.get(client.id)
        if member is not None and member.state != state:
            member.state = state
            self._schedule_presence()

    def _schedule_presence(self) -> None:
        if self._presence_timer is None:
            self._presence_timer = asyncio.get_running_loop().call_later(PRESENCE_DELAY, self._broadcast_presence)

    def _broadcast_presence(self) -> None:
        self._presence_timer = None
        there = [member.presence for member in self.members.values()]
        if self.state.open_turn is not None:
            self.log_presence()
        self.broadcast(
            Notification("_dragoman/presence", params={"sessionId": self.id, "members": there}, topic=PRESENCE)
        )

    def log_presence(self) -> None:
        """Have in the log who is there while something is said: who came and went since it was last noted.

        Whoever only looks at what was said changes nothing, so outside turns nothing is written.
        """
        there = {parse_person(member.presence) for member in self.members.values()}
        came, went = there - self._logged_people, self._logged_people - there
        if came or went:
            self._logged_people = there
            body = {
                name: [one._asdict() for one in sorted(who)] for name, who in (("came", came), ("went", went)) if who
            }
            self.log.append(EntryKind.MEMBER, body, actor="dragoman")

    def remove_members(self) -> None:
        """Everybody leaves, and hears no more."""
        if self._presence_timer is not None:
            self._presence_timer.cancel()
            self._presence_timer = None
        for member in list(self.members.values()):
            self._remove_member(member.client)
