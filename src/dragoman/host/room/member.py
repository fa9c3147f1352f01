"""One client in one room: its role, what it was sent, and how it is sent what its room sends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import UNSET

from dragoman.errors import Kind, ProtocolError
from dragoman.host.access import session_not_found
from dragoman.host.auth.roles import ADMIN, EDITOR, is_at_least
from dragoman.host.room.notifications import UPDATE, Notification, seq_meta
from dragoman.host.room.shown_terminals import ClientTerminal, ShownTerminals, shows_terminal
from dragoman.roles.agent.options import options_for_client
from dragoman.roles.agent.session import GATES, update_for_client
from dragoman.schema.update import ConfigOptionUpdate, Plan, UpdateParams
from dragoman.store.contract import EntryKind, RawEntry, decode_raw_entry
from dragoman.store.replay import decode_update
from dragoman.wire.envelope import encode_call

if TYPE_CHECKING:
    from dragoman.host.host import Host
    from dragoman.host.host_client import HostClient
    from dragoman.store.session_state import SessionState

# Entries read from a log at once: few enough to hold in memory, enough to make reading cheap.
PAGE_SIZE = 500

# States that a member can set. The host sets `away` for a client that lost its socket and may reconnect.
HERE, IDLE, TYPING, AWAY = "here", "idle", "typing", "away"
PRESENCE_STATES = (HERE, IDLE, TYPING, AWAY)

# Updates that can differ between clients of official v1.
_PER_CLIENT_UPDATES = frozenset({*GATES, ConfigOptionUpdate, Plan})


class Member(msgspec.Struct, eq=False):
    """One client in one room."""

    client: HostClient
    session: str
    terminals: ShownTerminals
    role: str
    seen_seq: int  # the number of the last entry it was sent
    max_role: str = ADMIN  # the highest role it asked for: an observer stays one
    is_removed: bool = False  # whether the client lost its role, so that it does not become a member
    state: str = HERE
    is_live: bool = False  # whether it gets entries as they are committed
    is_distant: bool = False  # whether it is connected to another node, which sends it the entries
    when_live: list[Callable[[], None]] = []  # what waits until it has got every committed entry

    def go_live(self) -> None:
        """Send entries as they are committed from now on; run what waited for that."""
        self.is_live = True
        self._run_waiting()

    def stop(self) -> None:
        """Send nothing any more."""
        self.is_live = False
        self._run_waiting()

    def _run_waiting(self) -> None:
        waiting, self.when_live = self.when_live, []
        for callback in waiting:
            callback()

    def check_wanted(self) -> None:
        """Raise if nothing more is sent to it: it is gone, or may not see the session any more."""
        if self.client.connection.failure is not None:
            raise ProtocolError(Kind.CANCELLED, "the client disconnected")
        if self.is_removed:
            raise session_not_found(self.session)

    @property
    def can_control(self) -> bool:
        """Whether it may prompt, answer, cancel and change settings."""
        return is_at_least(self.role, EDITOR)

    @property
    def presence(self) -> dict[str, Any]:
        """What the other members see of it."""
        client = self.client
        return {"user": client.principal.user, "role": self.role, "state": self.state, "client": client.client_name}

    def notify(self, notification: Notification) -> None:
        """Send one notification in the form that this client supports; nothing if it is not for this client."""
        client, only = self.client, notification.only_client
        if notification.except_client == client.id or (only and only != client.id):
            return
        if notification.only_wide and not client.dialect.is_wide:
            return
        if notification.method != UPDATE:
            client.notify(notification)
        elif notification.frame is not None and client.takes_shared_frames:
            client.write_frame(notification.frame)
        elif notification.update is not None:
            self._send_update(notification)

    def _send_update(self, notification: Notification) -> None:
        client = self.client
        update = update_for_client(client.connection, notification.update)
        if isinstance(update, ConfigOptionUpdate):
            options = options_for_client(client.connection, update.config_options)
            update = msgspec.structs.replace(update, config_options=options)
        if update is None:
            return
        is_per_client = type(update) in _PER_CLIENT_UPDATES or shows_terminal(update)
        update = self.terminals.for_client(client, update)
        params = UpdateParams(session_id=self.session, update=update)
        if client.takes_shared_frames:
            assert client.connection.sender.codec is not None
            name, body = client.connection.sender.codec.lower_call(UPDATE, params)
            frame = encode_call(UNSET, name, body[:-1] + seq_meta(notification.seq, notification.extra_meta) + b"}")
            if not is_per_client:
                notification.frame = frame  # reuse it for the other members
            client.write_frame(frame)
        else:
            client.send_update(params, notification.seq, notification.extra_meta)


class RoomOfMembers(Protocol):
    """What members need of their room: a `Room`, or a `DistantRoom` whose session runs at another node."""

    host: Host
    id: str
    state: SessionState
    log: Any
    queue: Any
    questions: Any
    workspace: Any
    is_owner: bool  # whether the session runs here, so that presence is counted here

    @property
    def is_wide(self) -> bool:
        """Whether clients of most dialects get its updates in another form."""
        ...

    def report(self, what: str) -> None:
        """Report something about this session."""
        ...

    def stop_idle_timer(self) -> None:
        """Keep the room, because somebody needs it."""
        ...

    def current_notifications(self) -> list[Notification]:
        """Return the notifications for a new member."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that closing the room waits for."""
        ...


class MemberListener(Protocol):
    """Gets what all members are sent, once: a link to another node, which has members there."""

    def on_entry(self, entry: RawEntry) -> None:
        """Take a committed entry."""
        ...

    def on_terminal(self, id: str, terminal: ClientTerminal) -> None:
        """Take what is known of a terminal of a client."""
        ...

    def on_notifications(self, notifications: tuple[Notification, ...]) -> None:
        """Take what is not in the log."""
        ...


async def known_seq(room: RoomOfMembers, after: int) -> int:
    """Return the number of the last entry that a client has which says it has this one: at most the end of the log.

    A node that was overtaken and does not know it yet has less than a client that comes from the new owner.
    """
    last = room.state.seq
    if after > last and room.host.fleet is not None:
        last = max(last, (await room.host.store.owner(room.id)).seq)
    return min(after, last)


async def narrow_history(room: RoomOfMembers, client: HostClient, seen_seq: int) -> None:
    """Narrow the updates for a client that does not know all of them, from what it has seen already."""
    narrowing, id = client.narrow_updates(), room.id
    if narrowing is None:
        return
    narrowing.begin_replay(id)
    narrowing.end_replay(id)  # the history of a log is what was told live, in the same order
    seq = 0
    while seq < seen_seq:
        lines = await room.host.store.lines(id, seq, min(PAGE_SIZE, seen_seq - seq), intact=True)
        if not lines:
            break
        for entry in map(decode_raw_entry, lines):
            seq = entry.seq
            if entry.kind == EntryKind.UPDATE and (update := decode_update(entry.body)) is not None:
                narrowing.updates(id, update)
            elif entry.kind == EntryKind.TURN_ENDED:  # then all that was collected had been sent
                narrowing.drop_pending(id)
    narrowing.losses.take()
    if room.state.modes is not None:
        narrowing.set_mode(id, room.state.modes.current_mode_id)
