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

from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.dialect.side_data import side_data_of
from dragoman.engine.connection import Connection
from dragoman.engine.decode import json_values
from dragoman.engine.incoming import Incoming
from dragoman.engine.pending import DoneCallback
from dragoman.errors import Kind, Overloaded, ProtocolError, TransportClosed
from dragoman.host.access import role_denied
from dragoman.host.auth.roles import VIEWER, is_at_least
from dragoman.host.initialize import initialize_result, open_gates
from dragoman.host.methods import SERVED_METHODS
from dragoman.host.prompt import cancel_request, forward_extension
from dragoman.host.room.member import AWAY, HERE, Member
from dragoman.host.room.notifications import TOPICS, Notification, NumberedOutbox
from dragoman.host.room.room import Room
from dragoman.roles.agent.agent import emulator_settings
from dragoman.roles.agent.options import switch_as_select
from dragoman.roles.agent.session import OFFICIAL_DIALECTS, SWITCH_CAPABILITY, new_id
from dragoman.schema.base import encode
from dragoman.schema.methods import find_method
from dragoman.schema.side import Side
from dragoman.transport.base import Transport
from dragoman.wire.envelope import Envelope

if TYPE_CHECKING:
    from dragoman.host.host import Host
    from dragoman.transport.remote.server.auth import Principal

# After so many bytes it is looked whether the client reads them; at every write that would cost too much.
CHECK_AFTER_BYTES = 64 * 1024

# The door that let somebody in puts them out when their leave ends, and says so by a code; for those who came by none
# it is done here, so much later. Seconds; doors look every second.
EXPIRY_GRACE = 3.0


# Calls under way that said where they go on; nobody has that many.
MAX_CURSORS = 100

# Calls that may say, in side data, how far their sender has heard.
_CURSOR_METHODS = frozenset({"session/load", "session/resume"})


class HostClient:
    """One client of the house."""

    def __init__(self, host: Host, transport: Transport, principal: Principal) -> None:
        self.host = host
        self.principal = principal
        self.id = new_id()
        self.rooms: dict[str, Room] = {}
        self.client_name = ""  # what it calls itself
        self.topics: frozenset[str] = frozenset()
        self.is_connected = True  # False while its connection has no socket
        self.is_initialized = False
        self.takes_shared_frames = False  # whether frames of official v1 can be shared with others
        self._numbered_outbox: NumberedOutbox | None = None
        self.cursors: dict[Any, int] = {}  # by request: where somebody wants to go on
        self._unread_bytes = 0  # bytes written since the transport was last seen uncongested
        self._largest = 0  # the largest frame of them
        self._unchecked_bytes = 0
        self._gates: frozenset[str] = frozenset()  # what it was told that can be done here
        self.prompts: dict[Any, tuple[Room, str]] = {}  # by request
        self.connection = Connection(
            transport,
            Side.AGENT,
            {"$/cancel_request": partial(cancel_request, self)},
            fallback=self._dispatch,
            settings=emulator_settings(host.default_folder(principal)),
            report=host.report,
        )
        self.connection.tap = self._note_cursor

    async def serve(self) -> None:
        """Serve it until it leaves."""
        connection = self.connection
        connection.on_close = lambda _: self._leave_rooms()
        if hasattr(connection.transport, "on_attached"):
            connection.transport.on_attached = self._on_presence
        connection.start()
        alarm: asyncio.TimerHandle | None = None
        if self.principal.expires_at is not None:
            left = max(self.principal.expires_at - time.time(), 0.0) + EXPIRY_GRACE
            expired = TransportClosed("the leave that you came with has expired; come again with another")
            alarm = asyncio.get_running_loop().call_later(left, connection.close_soon, expired)
        try:
            await connection.ended.wait()
        finally:
            if alarm is not None:
                alarm.cancel()
            await connection.close()
            self._leave_rooms()

    def _on_presence(self, is_connected: bool) -> None:
        """A connection outlives its sockets: whoever has none now is away, and may come back."""
        self.is_connected = is_connected
        for room in self.rooms.values():
            room.set_state(self, HERE if is_connected else AWAY)
            room.questions.refresh()

    def _leave_rooms(self) -> None:
        for room in list(self.rooms.values()):
            room.leave(self)

    # --- who it is ----------------------------------------------------------------------------------------------

    @property
    def dialect(self) -> str:
        """The name of its dialect."""
        speech = self.connection.codec
        return speech.dialect.name if speech is not None else "v1"

    @cached_property
    def supports_boolean_options(self) -> bool:
        """Whether it can show options that are on or off."""
        return self.dialect not in OFFICIAL_DIALECTS or self.connection.offers(SWITCH_CAPABILITY)

    def supported_options(self, options: list[Any]) -> Any:
        """Options as this client can show them."""
        return (options if self.supports_boolean_options else [switch_as_select(option) for option in options]) or UNSET

    async def initialize(self, params: Any) -> Any:
        """initialize: the agent behind this door, with what the house adds."""
        if self.is_initialized:
            raise ProtocolError(Kind.INVALID_STATE, "this connection is initialized already; open a new one")
        self.is_initialized = True
        self.takes_shared_frames = self.connection.codec is not None and self.connection.codec.is_native
        if not self.takes_shared_frames:
            self.connection.outbox = self._numbered_outbox = NumberedOutbox(self.connection.transport)
        info = params.client_info or None
        self.client_name = info.name if info is not None else ""
        wanted = side_data_of(params.client_capabilities or None).get("host")
        if isinstance(wanted, dict):
            self.topics = frozenset(name for name in TOPICS if wanted.get(name) not in (None, False))
        try:
            roster = self.host.agent_catalog
            answer = initialize_result(
                await roster.initialize_result(roster.find_agent(self.principal.agent)), self.dialect
            )
        except BaseException:
            self.is_initialized = False
            raise
        self._gates = open_gates(encode(answer.agent_capabilities))
        return answer

    async def role_in(self, session: str) -> str | None:
        """What this visitor is in a session; None: they may not know that it is there."""
        return await self.host.role_in(self.principal, session)

    def notify(self, notification: Notification) -> None:
        """Something besides updates, where this client wants and can hear it."""
        if notification.topic and notification.topic not in self.topics:
            return
        if self.connection.peer.refusal(find_method(Side.CLIENT, notification.method)) is None:
            self.connection.notify(notification.method, notification.params)

    # --- saying -------------------------------------------------------------------------------------------------

    def write_frame(self, frame: bytes) -> None:
        """A frame that others get as well; one who does not read is let go when too much has gathered."""
        size = len(frame)
        if self._unchecked_bytes + size >= CHECK_AFTER_BYTES:
            self._check_backlog()  # before it is written: what came before may have been read meanwhile
        self.connection.outbox.write(frame)
        self._unchecked_bytes += size
        if size > self._largest:
            self._largest = size

    def _check_backlog(self) -> None:
        if self.connection.transport.congested():
            self._unread_bytes += self._unchecked_bytes
            # One frame is taken however large: it would come again.
            if (
                self._unread_bytes - self._largest > self.host.limits.max_unread_bytes
                and self.connection.failure is None
            ):
                self.disconnect(f"{self._unread_bytes} bytes were not read; come again and go on from where you were")
        else:
            self._unread_bytes = self._largest = 0
        self._unchecked_bytes = 0

    def disconnect(self, why: str) -> None:
        """End the connection; the sessions go on."""
        self._leave_rooms()
        error = Overloaded(f"slow_consumer: {why}")
        transport = self.connection.transport
        if hasattr(transport, "end_slow"):
            transport.end_slow(error)  # a socket says so by a code
        else:
            self.connection.close_soon(error)

    def send_update(self, params: Any, seq: int) -> None:
        """An update in another dialect, with its number where the client can find it again."""
        if self._numbered_outbox is not None:
            self._numbered_outbox.seq = seq
        try:
            self.connection.notify("session/update", params)
        finally:
            if self._numbered_outbox is not None:
                self._numbered_outbox.seq = None
        self._unchecked_bytes += CHECK_AFTER_BYTES // 64  # about; how long it is the dialect knows
        if self._unchecked_bytes >= CHECK_AFTER_BYTES:
            self._check_backlog()

    # --- before a handler ---------------------------------------------------------------------------------------

    def _note_cursor(self, envelope: Envelope, frame: bytes) -> tuple[bool, Awaitable[None] | None]:
        """Side data of a client is not believed, but where it wants to go on is its own affair."""
        if envelope.method in _CURSOR_METHODS and envelope.id is not UNSET and frame.find(b'"cursor"') >= 0:
            try:
                meta = json_values(envelope.params).get("_meta", {})
                cursor = meta.get(SIDE_DATA_KEY, {}).get("cursor")
            except (AttributeError, ProtocolError):
                cursor = None
            if isinstance(cursor, int) and not isinstance(cursor, bool) and cursor >= 0:
                self.cursors[envelope.id] = cursor
                if len(self.cursors) > MAX_CURSORS:  # of calls that were refused before anybody looked
                    del self.cursors[next(iter(self.cursors))]
        return False, None

    def _dispatch(self, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        """A call of the client's: let in once it has introduced itself, and given to whoever serves it."""
        if not self.is_initialized and incoming.method != "initialize":
            what = f"{incoming.method} came before initialize; send initialize first"
            raise ProtocolError(Kind.INVALID_STATE, what)
        row = incoming.row
        if row is not None and row.gate.startswith("agent.") and row.gate not in self._gates:
            what = row.gate.partition(".")[2]
            message = f"{row.name} needs {what}, which is not offered here"
            raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, message, {"method": row.name, "capability": what})
        return SERVED_METHODS.get(incoming.method, forward_extension)(self, incoming, done)

    def joined_room(self, session: str, required: str = VIEWER) -> tuple[Room, Member]:
        """The room with this id that this client is in, and may do this much in."""
        room = self.rooms.get(session)
        member = room.members.get(self.id) if room is not None else None
        if room is None or member is None:
            raise ProtocolError(
                Kind.SESSION_NOT_FOUND,
                f"there is no session {session!r} open on this connection; load, resume or attach it first",
                {"sessionId": session},
            )
        if not is_at_least(member.role, required):
            raise role_denied(session, member.role, required)
        return room, member
