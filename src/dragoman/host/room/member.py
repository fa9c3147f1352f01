"""A member of a room: one client that is there, as what, and how far it has been told.

Takes news, says them to that client as it can hear them. Never waits: what a client does not read is its transport's
affair. Above is the room; below is the desk, which has the connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from dragoman.host.auth.roles import ADMIN, EDITOR, is_at_least
from dragoman.host.room.notifications import UPDATE, Notification, seq_meta
from dragoman.roles.agent.audience import GATES, update_for_client
from dragoman.roles.agent.options import switch_as_select
from dragoman.schema.update import ConfigOptionUpdate, Plan, UpdateParams
from dragoman.wire.envelope import encode_call

if TYPE_CHECKING:
    from dragoman.host.host_client import HostClient

# What a member can say of itself; the desk says `away` of who has lost the socket and may come back.
HERE, IDLE, TYPING, AWAY = "here", "idle", "typing", "away"
PRESENCE_STATES = (HERE, IDLE, TYPING, AWAY)


# Updates that are not the same for all who speak official v1.
_PER_CLIENT_UPDATES = frozenset({*GATES, ConfigOptionUpdate, Plan})


class Member:
    """One client in one room."""

    __slots__ = ("client", "is_live", "max_role", "role", "seen_seq", "session", "state")

    def __init__(self, client: HostClient, session: str, role: str, after: int) -> None:
        self.client = client
        self.max_role = ADMIN  # what it wants to be at most: an observer stays one
        self.session = session
        self.role = role
        self.seen_seq = after  # the number of the last entry that it heard of
        self.state = HERE
        self.is_live = False  # whether it hears everything as it happens

    @property
    def can_control(self) -> bool:
        """Whether it may prompt, answer, cancel and set."""
        return is_at_least(self.role, EDITOR)

    @property
    def presence(self) -> dict[str, Any]:
        """How the others see it."""
        desk = self.client
        return {"user": desk.principal.user, "role": self.role, "state": self.state, "client": desk.client_name}

    def notify(self, notification: Notification) -> None:
        """One thing that happened, said as this client can hear it; nothing where it need not or cannot."""
        desk = self.client
        if (notification.except_client and notification.except_client == desk.id) or (
            notification.only_client and notification.only_client != desk.id
        ):
            return
        if notification.method != UPDATE:
            desk.notify(notification)
        elif notification.frame is not None and desk.takes_shared_frames:
            desk.write_frame(notification.frame)
        elif notification.update is not None:
            self._send_update(notification)

    def _send_update(self, notification: Notification) -> None:
        desk = self.client
        update = update_for_client(desk.connection, notification.update)
        if isinstance(update, ConfigOptionUpdate) and not desk.supports_boolean_options:
            update = msgspec.structs.replace(update, config_options=[*map(switch_as_select, update.config_options)])
        if update is None:
            return
        params = UpdateParams(session_id=self.session, update=update)
        if desk.takes_shared_frames:
            assert desk.connection.codec is not None
            name, body = desk.connection.codec.lower_call(UPDATE, params)
            frame = encode_call(UNSET, name, body[:-1] + seq_meta(notification.seq, notification.extra_meta) + b"}")
            if type(update) not in _PER_CLIENT_UPDATES:
                notification.frame = frame  # the others need not be made one
            desk.write_frame(frame)
        else:
            desk.send_update(params, notification.seq)
