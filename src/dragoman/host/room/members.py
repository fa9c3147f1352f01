"""The members of a room, and what they are sent: committed log entries, in the same order for all.

A new member is sent the history from the store and then everything live, without gaps or repeats.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence, ValuesView
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Raw

from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.host.auth.roles import ADMIN, lower_role
from dragoman.host.room.member import PAGE_SIZE, Member, MemberListener, RoomOfMembers, known_seq, narrow_history
from dragoman.host.room.notifications import (
    PRESENCE,
    UPDATE,
    Notification,
    live_notifications,
    replay_notifications,
    running_state,
    shared_frame,
    update_head,
)
from dragoman.host.room.update_run import UpdateRun
from dragoman.schema.base import encode
from dragoman.schema.update import AvailableCommandsUpdate, UpdateParams
from dragoman.store.contract import Entry, EntryKind, RawEntry, decode_raw_entry
from dragoman.store.session_state import parse_person

if TYPE_CHECKING:
    from dragoman.host.host_client import HostClient

# Messages sent to members before the event loop runs other tasks (about ten milliseconds), and the smallest batch worth
# a commit.
MESSAGES_PER_SLICE, MIN_BATCH = 10_000, 16

# Entries held for members who are still reading the log. Those further behind keep reading the store.
MAX_RECENT = 4096

# Presence changes within this time are sent as one notification. Seconds.
PRESENCE_DELAY = 0.05

# From an entry to the notifications for it.
RenderEntry = Callable[[str, RawEntry], list[Notification]]


class Members(Mapping[str, Member]):
    """The members of one room, by connection, in the order of joining.

    Members at other nodes are among them, for presence and questions. Their node gets the entries, as a listener.
    """

    def __init__(self, room: RoomOfMembers) -> None:
        self._room = room
        self._host = room.host
        self._state = room.state
        self.has_gap = False  # another program wrote to the log, so the state misses entries
        self._members: dict[str, Member] = {}
        self._live_members: tuple[Member, ...] = ()  # those of this node, for sending
        self.listeners: list[MemberListener] = []
        self._joining_count = 0
        self.joining: list[Member] = []  # who is being sent the history, and is no member yet
        self.role_lock = asyncio.Lock()  # roles are read and applied in one order, so that the newest is the last
        self._recent_entries: deque[RawEntry] = deque(maxlen=MAX_RECENT)
        self._update_head = update_head(room.id)
        self._presence_timer: asyncio.TimerHandle | None = None
        self._logged_people = set(room.state.people)  # who is present according to the log, including queued entries

    def __getitem__(self, id: str) -> Member:
        return self._members[id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def values(self) -> ValuesView[Member]:
        """Return the members."""
        return self._members.values()

    @property
    def is_joining(self) -> bool:
        """Whether a client is being sent the history."""
        return self._joining_count > 0

    # --- sending ------------------------------------------------------------------------------------------------

    def on_committed(self, _: str, entries: Sequence[Entry]) -> None:
        """Send committed entries to everybody."""
        run = UpdateRun()
        for entry in entries:
            body = entry.body if type(entry.body) is Raw else Raw(encode(entry.body))
            line = RawEntry(entry.seq, entry.kind, body, entry.actor, entry.turn)
            is_gap = bool(self._state.seq) and line.seq > self._state.seq + 1
            self._state.apply(line)
            if is_gap:
                self.has_gap = True
                self._recent_entries.clear()  # members who are reading the log find the missing entries there
            if self._joining_count:
                self._recent_entries.append(line)
            for listener in self.listeners:
                listener.on_entry(line)
            if not self._live_members:
                continue
            frame = None if is_gap else shared_frame(self._update_head, line)
            if frame is not None:
                run.add(line, frame)
            if run.lines and (frame is None or run.is_full):
                self._send_run(run)
                run = UpdateRun()
            if is_gap:  # another program wrote to this log: everybody reads what they missed
                self._catch_up_live_members()
            elif frame is None:
                self._send_entry(line)
        if run.lines:
            self._send_run(run)

    def _catch_up_live_members(self) -> None:
        behind = [member for member in self._live_members if member.is_live]
        for member in behind:
            member.is_live = False
        self._room.spawn(self._catch_up_members(behind))

    def _send_entry(self, line: RawEntry) -> None:
        """Send one entry to everybody."""
        notifications = self._render(line)
        if line.kind == EntryKind.TURN_ENDED and self._room.queue.running is not None:
            for notification in notifications:  # the client of the prompt is told by the answer to it
                if notification.only_wide:
                    notification.except_client = self._room.queue.running.client_id
        for member in self._live_members:  # a disconnect replaces this tuple
            if line.seq > member.seen_seq and member.is_live:
                self._send_notifications(member, line.seq, notifications)

    def _send_run(self, run: UpdateRun) -> None:
        """Send updates to everybody: the same frames to all clients that can share them."""
        rendered: list[list[Notification]] = []  # for the others
        for member in self._live_members:  # a disconnect replaces this tuple
            if not member.is_live or member.seen_seq >= run.lines[-1].seq:
                continue
            if run.is_shared_with(member):
                self._host.counters.delivered_entries += len(run.lines)
                try:
                    run.send(member)
                except Exception as error:
                    self._report_not_notified(member, error)
                continue
            rendered = rendered or [self._render(line) for line in run.lines]
            for line, notifications in zip(run.lines, rendered, strict=True):
                if line.seq > member.seen_seq and member.is_live:
                    self._send_notifications(member, line.seq, notifications)

    def _render(self, line: RawEntry) -> list[Notification]:
        try:
            return live_notifications(self._room.id, line)
        except Exception as error:  # an entry that cannot be rendered must not stop the log
            self._room.report(f"entry {line.seq} cannot be sent: {error!r}")
            return []

    def _send_notifications(self, member: Member, seq: int, notifications: list[Notification]) -> None:
        member.seen_seq = seq
        self._host.counters.delivered_entries += 1
        for notification in notifications:
            self._notify_member(member, notification)

    def _notify_member(self, member: Member, notification: Notification) -> None:
        """Send to one member. A failure does not affect the others."""
        try:
            member.notify(notification)
        except Exception as error:
            self._report_not_notified(member, error)

    def _report_not_notified(self, member: Member, error: Exception) -> None:
        self._room.report(f"{member.client.client_name or 'a client'} was not notified: {error!r}")

    async def _catch_up_members(self, behind: list[Member]) -> None:
        self._joining_count += 1
        try:
            for member in behind:
                with suppress(ProtocolError, ConnectionFailed):
                    await self._catch_up(member, live_notifications)
                if self._members.get(member.client.id) is member:
                    member.go_live()
                    self._room.questions.add_member(member)
        finally:
            self._stop_joining()

    def call_when_live(self, client_id: str, callback: Callable[[], None]) -> None:
        """Call back when a member has got every committed entry: the answer to a prompt must not overtake updates."""
        member = self._members.get(client_id)
        if member is None or member.is_live:
            callback()
        else:
            member.when_live.append(callback)

    async def wait_current(self, client_id: str) -> None:
        """Wait until a member has got every update so far: a request of the agent must not overtake updates."""
        await self._room.log.flush()
        is_current = asyncio.Event()
        self.call_when_live(client_id, is_current.set)
        await is_current.wait()

    def broadcast(self, *notifications: Notification) -> None:
        """Send everybody what is not in the log: presence, the queue."""
        for member in self._live_members:
            if member.is_live:
                for notification in notifications:
                    self._notify_member(member, notification)
        for listener in self.listeners:
            listener.on_notifications(notifications)

    # --- joining and leaving ------------------------------------------------------------------------------------

    async def join(
        self,
        client: HostClient,
        role: str,
        reply: Callable[[str], None],  # with the role, which may have changed since
        *,
        after: int | None = None,
        replies_first: bool = False,
        max_role: str = ADMIN,
    ) -> Member:
        """Send a client what came `after` an entry number (None: nothing), reply to it, and add it as a member."""
        self._check_space(client)
        seen_seq = self._state.seq if after is None else await known_seq(self._room, after)
        member = Member(client, self._room.id, self._room.workspace.terminals, role, seen_seq, max_role)
        self._room.stop_idle_timer()
        before = self._members.get(client.id)
        if before is not None:  # no live entries while the history is sent again
            before.is_live = False
        if replies_first:  # with the reply the client can prompt at once, before it has the history
            self._members[client.id] = member
            client.rooms[self._room.id] = self._room  # type: ignore[assignment]
            reply(member.role)
        self._joining_count += 1
        self.joining.append(member)
        try:
            await self._send_history(member, is_new=replies_first)
        except BaseException:
            self._remove_member(client)
            raise
        finally:
            self.joining.remove(member)
            self._stop_joining()
        if replies_first and self._members.get(client.id) is not member:
            return member  # by now it may have closed the session, or joined again
        # No await from here to the end, so nothing comes in between.
        if not replies_first:
            if self._state.open_turn is not None and after is None:
                self._notify_member(member, Notification(UPDATE, make_update=running_state, only_wide=True))
            reply(member.role)
        self._members[client.id] = member
        self._update_live_members()
        if before is not None:
            member.when_live += before.when_live
        member.go_live()
        if before is None:
            program = f" ({client.client_name})" if client.client_name else ""
            self._room.report(f"{client.principal.user} joined as {member.role}{program}")
        client.rooms[self._room.id] = self._room  # type: ignore[assignment]
        if after is None and self._state.commands:
            update = AvailableCommandsUpdate(available_commands=self._state.commands)
            client.connection.notify("session/update", UpdateParams(session_id=self._room.id, update=update))
        self._room.questions.add_member(member)
        self._schedule_presence()
        for notification in self._room.current_notifications():
            self._notify_member(member, notification)
        return member

    def _check_space(self, client: HostClient) -> None:
        if client.id not in self._members and len(self._members) >= self._host.limits.max_members:
            message = f"{len(self._members)} clients are in this session already; try again when one has left"
            raise ProtocolError(Kind.RATE_LIMITED, message)

    async def _send_history(self, member: Member, *, is_new: bool) -> None:
        """Send a joining client the history. Raise if it is gone, or was removed meanwhile."""
        if not is_new:
            await self._refresh_role(member)  # it may have waited long for the room
        if self._room.is_wide:
            await narrow_history(self._room, member.client, member.seen_seq)
        # A client that was answered first may have prompted since; to it that is live, not history.
        render = live_notifications if is_new else replay_notifications
        await self._catch_up(member, render)
        if not is_new:  # a client chooses how long it takes to read the history
            await self._refresh_role(member)
            await self._catch_up(member, render)
        member.check_wanted()

    async def _refresh_role(self, member: Member) -> None:
        """Read the role of a joining client again. Later changes are applied to it as to members."""
        async with self.role_lock:
            self.set_role(member, await self._host.role_in(member.client.principal, self._room.id))
        member.check_wanted()

    def narrow_updates(self) -> None:
        """Narrow the updates for the members who need it: the agent turned out to have more to tell."""
        for member in self._members.values():
            member.client.narrow_updates()

    def _stop_joining(self) -> None:
        self._joining_count -= 1
        if not self._joining_count:
            self._recent_entries.clear()

    async def _catch_up(self, member: Member, render: RenderEntry) -> None:
        """Send what the log has, page by page, and what was committed meanwhile."""
        transport = member.client.connection.transport
        while member.seen_seq < self._state.seq:
            member.check_wanted()
            first = self._recent_entries[0].seq if self._recent_entries else self._state.seq + 1
            if first <= member.seen_seq + 1:
                for line in [line for line in self._recent_entries if line.seq > member.seen_seq]:
                    self._replay_entry(member, line, render)
                    if transport.congested():
                        await transport.drain()
                        member.check_wanted()
                continue
            lines = await self._host.store.lines(self._room.id, member.seen_seq, PAGE_SIZE, intact=True)
            if not lines:
                member.seen_seq = self._state.seq  # the missing entries are lost
                return
            member.check_wanted()
            for text in lines:
                self._replay_entry(member, decode_raw_entry(text), render)
                if transport.congested():
                    await transport.drain()
                    member.check_wanted()

    def _replay_entry(self, member: Member, entry: RawEntry, render: RenderEntry) -> None:
        if entry.seq > member.seen_seq:  # two tasks may read for one member, if its room is replaced
            member.seen_seq = entry.seq
            for notification in render(self._room.id, entry):
                self._notify_member(member, notification)

    def remove(self, client: HostClient) -> None:
        """Remove a client. Its prompts continue."""
        member = self._remove_member(client)
        if member is not None:
            self._room.questions.remove_member(member)
            self._schedule_presence()

    def _remove_member(self, client: HostClient) -> Member | None:
        client.rooms.pop(self._room.id, None)
        member = self._members.pop(client.id, None)
        if member is not None:
            member.stop()
            self._update_live_members()
            self._room.report(f"{client.principal.user} left")
        return member

    def add_distant(self, client: HostClient, role: str, max_role: str = ADMIN) -> Member:
        """Add a member at another node, which sends it the entries. A member that comes again replaces the old one."""
        before = self._members.get(client.id)
        self._check_space(client)
        if before is not None:
            self._room.questions.remove_member(before)
        member = Member(client, self._room.id, self._room.workspace.terminals, role, self._state.seq, max_role)
        member.is_live = member.is_distant = True
        self._room.stop_idle_timer()
        self._members[client.id] = member
        client.rooms[self._room.id] = self._room  # type: ignore[assignment]
        if before is None:
            self._room.report(f"{client.principal.user} joined as {role} at another node")
        self._room.questions.add_member(member)
        self._schedule_presence()
        return member

    def move_to(self, room: RoomOfMembers) -> None:
        """Belong to another room of the same session from now on. Members read what they missed (`resume`)."""
        self._room, self._state = room, room.state
        self._logged_people = set(room.state.people)
        for member in list(self._members.values()):
            if member.is_distant:
                del self._members[member.client.id]
                member.client.rooms.pop(room.id, None)
                continue
            member.is_live = False
            member.terminals = room.workspace.terminals
            member.client.rooms[room.id] = room  # type: ignore[assignment]
        self.listeners = []
        self._update_live_members()

    def resume(self) -> None:
        """Send the members of this node what they missed, and then what is live."""
        self._room.spawn(self._catch_up_members([member for member in self._members.values() if not member.is_live]))

    def _update_live_members(self) -> None:
        self._live_members = tuple(member for member in self._members.values() if not member.is_distant)
        self._room.log.batch_limit = (
            max(MIN_BATCH, MESSAGES_PER_SLICE // len(self._live_members)) if len(self._live_members) > 1 else None
        )

    def set_role(self, member: Member, role: str | None) -> None:
        """Change the role of a member or a joining client. None: a joining client does not become a member."""
        member.is_removed = role is None
        if role is None or member.role == lower_role(role, member.max_role):
            return
        member.role = lower_role(role, member.max_role)
        if self._members.get(member.client.id) is not member:
            return
        (self._room.questions.add_member if member.can_control else self._room.questions.remove_member)(member)
        self._schedule_presence()

    def set_state(self, client: HostClient, state: str) -> None:
        """Set what a member is doing: typing, idle."""
        member = self._members.get(client.id)
        if member is not None and member.state != state:
            member.state = state
            self._schedule_presence()

    def _schedule_presence(self) -> None:
        if self._presence_timer is None and self._room.is_owner:
            self._presence_timer = asyncio.get_running_loop().call_later(PRESENCE_DELAY, self._broadcast_presence)

    def _broadcast_presence(self) -> None:
        self._presence_timer = None
        self._host.activity.note(self._room.id)
        if self._state.open_turn is not None:
            self.log_presence()
        params = {"sessionId": self._room.id, "members": [member.presence for member in self._members.values()]}
        self.broadcast(Notification("_dragoman/presence", params=params, topic=PRESENCE))

    def log_presence(self) -> None:
        """Log who joined and left since this was last logged.

        Called only for turns: a client that only reads the history adds nothing to the log.
        """
        present = {parse_person(member.presence) for member in self._members.values()}
        people = {"came": sorted(present - self._logged_people), "went": sorted(self._logged_people - present)}
        body = {name: [person._asdict() for person in found] for name, found in people.items() if found}
        if body:
            self._logged_people = present
            self._room.log.append(EntryKind.MEMBER, body, actor="dragoman")

    def remove_all(self) -> None:
        """Remove all members."""
        if self._presence_timer is not None:
            self._presence_timer.cancel()
            self._presence_timer = None
        for member in list(self._members.values()):
            self._remove_member(member.client)
