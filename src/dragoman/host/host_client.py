"""One client of a host: its connection and dialect, and the rooms it is in.

Checks calls by connection state and capability, then dispatches them (methods.py). Sends what its rooms send it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from dragoman.dialect.dialects import Dialect
from dragoman.dialect.narrow.emulator import NarrowingEmulator
from dragoman.dialect.narrow.narrowing import Narrowing
from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.dialect.side_data import side_data_of, with_side_data
from dragoman.engine.codec import json_values
from dragoman.engine.connection import Connection
from dragoman.engine.incoming import DoneCallback, Incoming
from dragoman.engine.lifecycle import Lifecycle, gate_error
from dragoman.engine.peer_info import offers
from dragoman.errors import Overloaded, ProtocolError, TransportClosed
from dragoman.host.access import joined_room
from dragoman.host.auth.roles import VIEWER
from dragoman.host.methods import SERVED_METHODS
from dragoman.host.prompt import cancel_request, forward_extension
from dragoman.host.room.member import AWAY, HERE, Member
from dragoman.host.room.notifications import TOPICS, Notification, NumberedOutbox
from dragoman.host.room.room import Room
from dragoman.ids import new_id
from dragoman.roles.emulator_settings import emulator_settings
from dragoman.schema.auth import AuthForm
from dragoman.schema.base import Marker, encode
from dragoman.schema.initialize import AgentAuthCapabilities, AgentCapabilities, InitializeResult, SessionCapabilities
from dragoman.schema.methods import METHODS, find_method, methods_that
from dragoman.schema.side import Side
from dragoman.transport.base import Transport
from dragoman.wire.envelope import Envelope

if TYPE_CHECKING:
    from dragoman.host.host import Host
    from dragoman.transport.remote.server.auth import Principal
    from dragoman.workspace.coordination import FileCoordinator

# After this many bytes check whether the client reads them. A check at every write would cost too much.
CHECK_AFTER_BYTES = 64 * 1024

# The endpoint disconnects a client whose token expires, with a close code. A connection without an endpoint is closed
# here, this much later. Seconds; endpoints check every second.
EXPIRY_GRACE = 3.0

# Cursors of calls under way. No client has that many.
MAX_CURSORS = 100

# Calls that may carry a cursor in their side data.
_SIDE_DATA = {**dict.fromkeys(methods_that("reopens"), "cursor"), "session/new": "place"}


class HostClient:
    """One client of the host."""

    def __init__(self, host: Host, transport: Transport, principal: Principal) -> None:
        self.host = host
        self.principal = principal
        self.id = new_id()
        self.rooms: dict[str, Room] = {}
        self.client_name = ""  # from its clientInfo
        self.topics: frozenset[str] = frozenset()
        self.is_connected = True  # False while its connection has no socket
        self.lifecycle = Lifecycle(early_extensions=False)
        self.takes_shared_frames = False  # whether frames of official v1 can be shared with others
        self._numbered_outbox: NumberedOutbox | None = None
        self.cursors: dict[Any, int] = {}  # by request: the entry number to continue after
        self.places: dict[Any, str] = {}  # by request: where a new session should run, in a fleet
        self._unread_bytes = 0  # bytes written since the transport was last seen uncongested
        self._largest = 0  # the largest frame of them
        self._unchecked_bytes = 0
        self._gates: frozenset[str] = frozenset()  # capabilities that it was told
        self.prompts: dict[Any, tuple[Room, str]] = {}  # by request
        self.connection = Connection(
            transport,
            Side.AGENT,
            {"$/cancel_request": partial(cancel_request, self)},
            fallback=self._dispatch,
            settings=emulator_settings(host.default_folder(principal)),
            report=host.report,
        )
        self.connection.tap = self._note_side_data

    @cached_property
    def coordinator(self) -> FileCoordinator:
        """Coordinates the sessions that use the files of this client."""
        from dragoman.workspace.coordination import FileCoordinator

        return FileCoordinator()

    async def serve(self) -> None:
        """Serve it until it disconnects."""
        connection = self.connection
        connection.on_close = lambda _: self._leave_rooms()
        if hasattr(connection.transport, "on_attached"):
            connection.transport.on_attached = self._on_presence
        connection.start()
        expiry_timer: asyncio.TimerHandle | None = None
        if self.principal.expires_at is not None:
            delay = max(self.principal.expires_at - time.time(), 0.0) + EXPIRY_GRACE
            expired = TransportClosed("your access has expired; connect again with a new token")
            expiry_timer = asyncio.get_running_loop().call_later(delay, connection.close_soon, expired)
        try:
            await connection.ended.wait()
        finally:
            if expiry_timer is not None:
                expiry_timer.cancel()
            await connection.close()
            self._leave_rooms()

    def _on_presence(self, is_connected: bool) -> None:
        """Show a client without a socket as away: its connection continues and it may come back."""
        self.is_connected = is_connected
        for room in list(self.rooms.values()):
            room.set_presence(self, HERE if is_connected else AWAY)

    def _leave_rooms(self) -> None:
        for room in list(self.rooms.values()):
            room.leave(self)

    # --- identity -----------------------------------------------------------------------------------------------

    @property
    def dialect(self) -> Dialect:
        """Its dialect."""
        return self.connection.dialect

    async def initialize(self, params: Any) -> Any:
        """initialize: answer for the agent of this client, plus what the host adds."""
        self.lifecycle.is_initialized = True
        self.takes_shared_frames = self.connection.sender.codec is not None and self.connection.sender.codec.is_native
        if not self.takes_shared_frames:
            self.connection.sender.outbox = self._numbered_outbox = NumberedOutbox(self.connection.transport)
        info = params.client_info or None
        self.client_name = info.name if info is not None else ""
        topics = side_data_of(params.client_capabilities or None).get("host")
        if isinstance(topics, dict):
            self.topics = frozenset(name for name in TOPICS if topics.get(name) not in (None, False))
        try:
            catalog = self.host.agent_catalog
            result = initialize_result(
                await catalog.initialize_result(catalog.find_agent(self.principal.agent)), self.dialect
            )
        except BaseException:
            self.lifecycle.is_initialized = False
            raise
        self._gates = open_gates(encode(result.agent_capabilities))
        return result

    def notify(self, notification: Notification) -> None:
        """Send a notification other than an update, if this client subscribed to its topic and supports it."""
        if notification.topic and notification.topic not in self.topics:
            return
        if self.connection.peer.refusal(find_method(Side.CLIENT, notification.method)) is None:
            self.connection.notify(notification.method, notification.params)

    # --- sending ------------------------------------------------------------------------------------------------

    def write_frame(self, frame: bytes) -> None:
        """Send a frame that is shared with others. Disconnect a client that leaves too much unread."""
        size = len(frame)
        if self._unchecked_bytes + size >= CHECK_AFTER_BYTES:
            self._check_backlog()  # check first: earlier frames may have been read meanwhile
        self.connection.sender.outbox.write(frame)
        self._unchecked_bytes += size
        if size > self._largest:
            self._largest = size

    def write_frames(self, frames: Sequence[bytes], size: int) -> None:
        """Send frames of this many bytes that are shared with others, like `write_frame`."""
        if self._unchecked_bytes + size >= CHECK_AFTER_BYTES:
            self._check_backlog()
        self.connection.sender.outbox.write_all(frames, size)
        self._unchecked_bytes += size
        self._largest = max(self._largest, max(map(len, frames)))

    def _check_backlog(self) -> None:
        if self.connection.transport.congested():
            self._unread_bytes += self._unchecked_bytes
            # One frame is allowed whatever its size: it would come again.
            is_too_much = self._unread_bytes - self._largest > self.host.limits.max_unread_bytes
            if is_too_much and self.connection.failure is None:
                self.disconnect(
                    f"{self._unread_bytes} bytes were not read; connect again and continue from your last entry"
                )
        else:
            self._unread_bytes = self._largest = 0
        self._unchecked_bytes = 0

    def disconnect(self, reason: str) -> None:
        """Close the connection. The sessions continue."""
        self._leave_rooms()
        error = Overloaded(f"slow_consumer: {reason}")
        transport = self.connection.transport
        if hasattr(transport, "end_slow"):
            transport.end_slow(error)  # a socket reports it with a close code
        else:
            self.connection.close_soon(error)

    def narrow_updates(self) -> Narrowing | None:
        """From now on narrow updates for this client. Return what it was told; None if it knows all updates."""
        if self.dialect.is_wide:
            return None
        connection = self.connection
        connection.narrow_updates()
        if self._numbered_outbox is None:  # frames of official v1 cannot be shared any more
            self.takes_shared_frames = False
            is_closed = connection.sender.outbox.is_closed
            connection.sender.outbox = self._numbered_outbox = NumberedOutbox(connection.transport)
            self._numbered_outbox.is_closed = is_closed
        emulator = connection.peer.emulator
        assert isinstance(emulator, NarrowingEmulator)
        return emulator.narrowing

    def send_update(self, params: Any, seq: int, extra_meta: bytes = b"") -> None:
        """Send an update in another dialect, with its number where the client can find it."""
        outbox = self._numbered_outbox
        if outbox is not None:
            outbox.seq, outbox.extra_meta = seq, extra_meta
        try:
            self.connection.notify("session/update", params)
        finally:
            if outbox is not None:
                outbox.seq, outbox.extra_meta = None, b""
        self._unchecked_bytes += CHECK_AFTER_BYTES // 64  # an estimate; only the dialect knows the length
        if self._unchecked_bytes >= CHECK_AFTER_BYTES:
            self._check_backlog()

    # --- dispatch -----------------------------------------------------------------------------------------------

    def _note_side_data(self, envelope: Envelope, frame: bytes) -> tuple[bool, Awaitable[None] | None]:
        """Remember the cursor or the place of a call. All other side data of clients is ignored."""
        name = _SIDE_DATA.get(envelope.method) if isinstance(envelope.method, str) else None
        if name is not None and envelope.id is not UNSET and frame.find(b'"%b"' % name.encode()) >= 0:
            try:
                value = json_values(envelope.params).get("_meta", {}).get(SIDE_DATA_KEY, {}).get(name)
            except (AttributeError, ProtocolError):
                value = None
            if name == "cursor" and isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                _remember(self.cursors, envelope.id, value)
            elif name == "place" and isinstance(value, str):
                _remember(self.places, envelope.id, value)
        return False, None

    def _dispatch(self, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        """Serve one call of the client, once it has sent initialize."""
        self.lifecycle.check_allowed(incoming.method)
        row = incoming.row
        if row is not None and row.gate.startswith("agent.") and row.gate not in self._gates:
            raise gate_error(row.name, row.gate, "host")
        if self.host.fleet is not None:
            is_relayed, work = self.host.fleet.relay(self, incoming, done)
            if is_relayed:
                return work
        return SERVED_METHODS.get(incoming.method, forward_extension)(self, incoming, done)

    def joined_room(self, session: str, required: str = VIEWER) -> tuple[Room, Member]:
        """Return the room this client is in, and its member there. Raise if its role is too low."""
        return joined_room(self, session, required)


# --- the initialize result ------------------------------------------------------------------------------------

# Capabilities of the host, whatever the agent supports.
_HOST_CAPABILITIES = dict.fromkeys(
    ("list", "resume", "close", "delete", "fork", "archive", "status", "title"), Marker()
)

# Capabilities that calls of a client may need.
_AGENT_GATES = frozenset(
    row.gate for (side, _), row in METHODS.items() if side is Side.AGENT and row.gate[:6] == "agent."
)


@lru_cache(maxsize=64)  # almost all clients get the same answer, so they share these sets
def open_gates(capabilities: bytes) -> frozenset[str]:
    """Return the gates of the method table that the given capabilities (JSON) open."""
    offered = msgspec.json.decode(capabilities)
    return frozenset(gate for gate in _AGENT_GATES if offers(gate, offered))


def initialize_result(agent: InitializeResult, dialect: Dialect) -> InitializeResult:
    """Return the initialize result for a client of this dialect."""
    offered = agent.agent_capabilities or AgentCapabilities()
    methods = [method for method in agent.auth_methods or () if method.form != AuthForm.TERMINAL]
    auth = offered.auth or AgentAuthCapabilities()
    if methods:  # the host logs in each new process of the agent, and can forget the login
        auth = msgspec.structs.replace(auth, logout=Marker())
    reached = offered.mcp_capabilities
    if reached:  # servers inside a client end with the client, but sessions do not
        reached = msgspec.structs.replace(reached, acp=UNSET)
    offered = msgspec.structs.replace(
        offered,
        load_session=True,
        mcp_capabilities=reached,
        session_capabilities=msgspec.structs.replace(
            offered.session_capabilities or SessionCapabilities(), **_HOST_CAPABILITIES
        ),
        auth=auth if methods or offered.auth else UNSET,
    )
    return msgspec.structs.replace(
        agent,
        protocol_version=1,
        agent_capabilities=with_side_data(offered, attach=True, agents=True, host=dict.fromkeys(TOPICS, True)),
        auth_methods=methods if methods or dialect.official else UNSET,
    )


def _remember(values: dict[Any, Any], id: Any, value: Any) -> None:
    values[id] = value
    if len(values) > MAX_CURSORS:  # left by calls that were refused early
        del values[next(iter(values))]
