"""A desk: one client being served by the house, in its own dialect, and the rooms it is in.

Lets calls in by the state of the connection and by what was offered, and gives them to who serves them (served.py);
says to the client what its rooms tell it. Above is the house; below are a connection and rooms.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from dragoman.dialect.reshape import SIDE
from dragoman.dialect.side_data import side
from dragoman.engine.connection import Connection
from dragoman.engine.decode import values
from dragoman.engine.incoming import Incoming
from dragoman.engine.pending import Done
from dragoman.errors import Kind, Overloaded, ProtocolError, TransportClosed
from dragoman.host.access import denied
from dragoman.host.auth.roles import VIEWER, may
from dragoman.host.initialize import gates, introduced
from dragoman.host.methods import SERVED
from dragoman.host.prompt import cancel_request, otherwise
from dragoman.host.room.member import AWAY, HERE, Member
from dragoman.host.room.notifications import ANNOUNCED, News, StampedOutbox
from dragoman.host.room.room import Room
from dragoman.roles.agent.agent import settings
from dragoman.roles.agent.options import as_choice
from dragoman.roles.agent.session import OFFICIAL, SWITCHES, new_id
from dragoman.schema.base import encode
from dragoman.schema.methods import find
from dragoman.schema.side import Side
from dragoman.transport.base import Transport
from dragoman.wire.envelope import Envelope

if TYPE_CHECKING:
    from dragoman.host.host import House
    from dragoman.transport.remote.server.auth import Visitor

# After so many bytes it is looked whether the client reads them; at every write that would cost too much.
LOOK = 64 * 1024

# The door that let somebody in puts them out when their leave ends, and says so by a code; for those who came by none
# it is done here, so much later. Seconds; doors look every second.
DOORS = 3.0


# Calls under way that said where they go on; nobody has that many.
MAX_CURSORS = 100

# Calls that may say, in side data, how far their sender has heard.
_RETURNING = frozenset({"session/load", "session/resume"})


class Desk:
    """One client of the house."""

    def __init__(self, house: House, transport: Transport, visitor: Visitor) -> None:
        self.house = house
        self.visitor = visitor
        self.id = new_id()
        self.rooms: dict[str, Room] = {}
        self.client = ""  # what it calls itself
        self.announced: frozenset[str] = frozenset()
        self.is_there = True  # False while its connection has no socket
        self.is_initialized = False
        self.is_plain = False  # whether frames of official v1 can be shared with others
        self._stamped: StampedOutbox | None = None
        self.cursors: dict[Any, int] = {}  # by request: where somebody wants to go on
        self._unread = 0  # bytes written since the transport was last seen uncongested
        self._largest = 0  # the largest frame of them
        self._unlooked = 0
        self._gates: frozenset[str] = frozenset()  # what it was told that can be done here
        self.prompts: dict[Any, tuple[Room, str]] = {}  # by request
        self.connection = Connection(
            transport,
            Side.AGENT,
            {"$/cancel_request": partial(cancel_request, self)},
            fallback=self._handle,
            settings=settings(house.place_of(visitor)),
            report=house.report,
        )
        self.connection.tap = self._tap

    async def serve(self) -> None:
        """Serve it until it leaves."""
        connection = self.connection
        connection.on_close = lambda _: self._leave()
        if hasattr(connection.transport, "on_presence"):
            connection.transport.on_presence = self._is_seen
        connection.start()
        alarm: asyncio.TimerHandle | None = None
        if self.visitor.expires is not None:
            left = max(self.visitor.expires - time.time(), 0.0) + DOORS
            expired = TransportClosed("the leave that you came with has expired; come again with another")
            alarm = asyncio.get_running_loop().call_later(left, connection.leave, expired)
        try:
            await connection.ended.wait()
        finally:
            if alarm is not None:
                alarm.cancel()
            await connection.close()
            self._leave()

    def _is_seen(self, is_there: bool) -> None:
        """A connection outlives its sockets: whoever has none now is away, and may come back."""
        self.is_there = is_there
        for room in self.rooms.values():
            room.set_state(self, HERE if is_there else AWAY)
            room.questions.noticed()

    def _leave(self) -> None:
        for room in list(self.rooms.values()):
            room.leave(self)

    # --- who it is ----------------------------------------------------------------------------------------------

    @property
    def dialect(self) -> str:
        """The name of its dialect."""
        speech = self.connection.speech
        return speech.dialect.name if speech is not None else "v1"

    @cached_property
    def shows_switches(self) -> bool:
        """Whether it can show options that are on or off."""
        return self.dialect not in OFFICIAL or self.connection.offers(SWITCHES)

    def shown(self, options: list[Any]) -> Any:
        """Options as this client can show them."""
        return (options if self.shows_switches else [as_choice(option) for option in options]) or UNSET

    async def introduce(self, params: Any) -> Any:
        """initialize: the agent behind this door, with what the house adds."""
        if self.is_initialized:
            raise ProtocolError(Kind.INVALID_STATE, "this connection is initialized already; open a new one")
        self.is_initialized = True
        self.is_plain = self.connection.speech is not None and self.connection.speech.plain
        if not self.is_plain:
            self.connection.outbox = self._stamped = StampedOutbox(self.connection.transport)
        info = params.client_info or None
        self.client = info.name if info is not None else ""
        wanted = side(params.client_capabilities or None).get("host")
        if isinstance(wanted, dict):
            self.announced = frozenset(name for name in ANNOUNCED if wanted.get(name) not in (None, False))
        try:
            roster = self.house.roster
            answer = introduced(await roster.introduction(roster.named(self.visitor.agent)), self.dialect)
        except BaseException:
            self.is_initialized = False
            raise
        self._gates = gates(encode(answer.agent_capabilities))
        return answer

    async def role_in(self, session: str) -> str | None:
        """What this visitor is in a session; None: they may not know that it is there."""
        return await self.house.role_in(self.visitor, session)

    def hear(self, news: News) -> None:
        """Something besides updates, where this client wants and can hear it."""
        if news.wanted and news.wanted not in self.announced:
            return
        if self.connection.peer.refusal(find(Side.CLIENT, news.method)) is None:
            self.connection.notify(news.method, news.params)

    # --- saying -------------------------------------------------------------------------------------------------

    def write(self, frame: bytes) -> None:
        """A frame that others get as well; one who does not read is let go when too much has gathered."""
        size = len(frame)
        if self._unlooked + size >= LOOK:
            self._look()  # before it is written: what came before may have been read meanwhile
        self.connection.outbox.write(frame)
        self._unlooked += size
        if size > self._largest:
            self._largest = size

    def _look(self) -> None:
        if self.connection.transport.congested():
            self._unread += self._unlooked
            # One frame is taken however large: it would come again.
            if self._unread - self._largest > self.house.bounds.buffered and self.connection.failure is None:
                self.let_go(f"{self._unread} bytes were not read; come again and go on from where you were")
        else:
            self._unread = self._largest = 0
        self._unlooked = 0

    def let_go(self, why: str) -> None:
        """End the connection; the sessions go on."""
        self._leave()
        error = Overloaded(f"slow_consumer: {why}")
        transport = self.connection.transport
        if hasattr(transport, "end_slow"):
            transport.end_slow(error)  # a socket says so by a code
        else:
            self.connection.leave(error)

    def say_stamped(self, params: Any, seq: int) -> None:
        """An update in another dialect, with its number where the client can find it again."""
        if self._stamped is not None:
            self._stamped.seq = seq
        try:
            self.connection.notify("session/update", params)
        finally:
            if self._stamped is not None:
                self._stamped.seq = None
        self._unlooked += LOOK // 64  # about; how long it is the dialect knows
        if self._unlooked >= LOOK:
            self._look()

    # --- before a handler ---------------------------------------------------------------------------------------

    def _tap(self, envelope: Envelope, frame: bytes) -> tuple[bool, Awaitable[None] | None]:
        """Side data of a client is not believed, but where it wants to go on is its own affair."""
        if envelope.method in _RETURNING and envelope.id is not UNSET and frame.find(b'"cursor"') >= 0:
            try:
                meta = values(envelope.params).get("_meta", {})
                cursor = meta.get(SIDE, {}).get("cursor")
            except (AttributeError, ProtocolError):
                cursor = None
            if isinstance(cursor, int) and not isinstance(cursor, bool) and cursor >= 0:
                self.cursors[envelope.id] = cursor
                if len(self.cursors) > MAX_CURSORS:  # of calls that were refused before anybody looked
                    del self.cursors[next(iter(self.cursors))]
        return False, None

    def _handle(self, incoming: Incoming, done: Done) -> Awaitable[None] | None:
        """A call of the client's: let in once it has introduced itself, and given to whoever serves it."""
        if not self.is_initialized and incoming.method != "initialize":
            what = f"{incoming.method} came before initialize; send initialize first"
            raise ProtocolError(Kind.INVALID_STATE, what)
        row = incoming.row
        if row is not None and row.gate.startswith("agent.") and row.gate not in self._gates:
            what = row.gate.partition(".")[2]
            message = f"{row.name} needs {what}, which is not offered here"
            raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, message, {"method": row.name, "capability": what})
        return SERVED.get(incoming.method, otherwise)(self, incoming, done)

    def joined(self, session: str, least: str = VIEWER) -> tuple[Room, Member]:
        """The room with this id that this client is in, and may do this much in."""
        room = self.rooms.get(session)
        member = room.members.get(self.id) if room is not None else None
        if room is None or member is None:
            raise ProtocolError(
                Kind.SESSION_NOT_FOUND,
                f"there is no session {session!r} open on this connection; load, resume or attach it first",
                {"sessionId": session},
            )
        if not may(member.role, least):
            raise denied(session, member.role, least)
        return room, member
