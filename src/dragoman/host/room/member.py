"""A member of a room: one client that is there, as what, and how far it has been told.

Takes news, says them to that client as it can hear them. Never waits: what a client does not read is its transport's
affair. Above is the room; below is the desk, which has the connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from dragoman.host.auth.roles import ADMIN, EDITOR, may
from dragoman.host.room.notifications import UPDATE, News, stamp
from dragoman.roles.agent.audience import GATES, told
from dragoman.roles.agent.options import as_choice
from dragoman.schema.update import ConfigOptionUpdate, Plan, UpdateParams
from dragoman.wire.envelope import say_call

if TYPE_CHECKING:
    from dragoman.host.host_client import Desk

# What a member can say of itself; the desk says `away` of who has lost the socket and may come back.
HERE, IDLE, TYPING, AWAY = "here", "idle", "typing", "away"
STATES = (HERE, IDLE, TYPING, AWAY)


# Updates that are not the same for all who speak official v1.
_SAID_TO_SOME = frozenset({*GATES, ConfigOptionUpdate, Plan})


class Member:
    """One client in one room."""

    __slots__ = ("desk", "is_live", "most", "role", "session", "state", "told")

    def __init__(self, desk: Desk, session: str, role: str, after: int) -> None:
        self.desk = desk
        self.most = ADMIN  # what it wants to be at most: an observer stays one
        self.session = session
        self.role = role
        self.told = after  # the number of the last entry that it heard of
        self.state = HERE
        self.is_live = False  # whether it hears everything as it happens

    @property
    def controls(self) -> bool:
        """Whether it may prompt, answer, cancel and set."""
        return may(self.role, EDITOR)

    @property
    def shown(self) -> dict[str, Any]:
        """How the others see it."""
        desk = self.desk
        return {"user": desk.visitor.user, "role": self.role, "state": self.state, "client": desk.client}

    def hear(self, news: News) -> None:
        """One thing that happened, said as this client can hear it; nothing where it need not or cannot."""
        desk = self.desk
        if (news.but and news.but == desk.id) or (news.only and news.only != desk.id):
            return
        if news.method != UPDATE:
            desk.hear(news)
        elif news.frame is not None and desk.is_plain:
            desk.write(news.frame)
        elif news.update is not None:
            self._hear_update(news)

    def _hear_update(self, news: News) -> None:
        desk = self.desk
        update = told(desk.connection, news.update)
        if isinstance(update, ConfigOptionUpdate) and not desk.shows_switches:
            update = msgspec.structs.replace(update, config_options=[*map(as_choice, update.config_options)])
        if update is None:
            return
        params = UpdateParams(session_id=self.session, update=update)
        if desk.is_plain:
            assert desk.connection.speech is not None
            name, body = desk.connection.speech.lower_call(UPDATE, params)
            frame = say_call(UNSET, name, body[:-1] + stamp(news.seq, news.beside) + b"}")
            if type(update) not in _SAID_TO_SOME:
                news.frame = frame  # the others need not be made one
            desk.write(frame)
        else:
            desk.say_stamped(params, news.seq)
