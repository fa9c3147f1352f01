"""A client of another node, as the owner of its session sees it: asked and notified over the link to its node."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.dialect.dialects import Dialect, load_dialect
from dragoman.engine.codec import decode_as
from dragoman.engine.incoming import DoneCallback
from dragoman.errors import ConnectionFailed, ProtocolError, TransportClosed
from dragoman.host.access import joined_room
from dragoman.host.auth.roles import VIEWER
from dragoman.host.room.notifications import Notification
from dragoman.roles.agent.options import SWITCH_CAPABILITY
from dragoman.schema.base import to_json
from dragoman.schema.methods import METHODS, find_method
from dragoman.schema.side import Side
from dragoman.transport.remote.server.auth import Principal

if TYPE_CHECKING:
    from dragoman.host.fleet.link import Link
    from dragoman.host.host import Host
    from dragoman.host.host_client import HostClient
    from dragoman.host.room.member import Member
    from dragoman.host.room.room import Room
    from dragoman.workspace.coordination import FileCoordinator


# The capabilities of clients that rooms ask for.
_GATES = sorted(
    {row.gate for row in METHODS.values() if row.side is Side.CLIENT and row.gate}
    | {"client.elicitation.form", "client.elicitation.url", SWITCH_CAPABILITY}
)


class ClientCard(msgspec.Struct, kw_only=True):
    """What a node tells another about one of its clients."""

    id: str
    principal: Principal
    name: str = ""
    topics: list[str] = []
    gates: list[str] = []  # the capabilities it offers, of those that rooms ask for
    dialect: str
    is_connected: bool = True


def card_of(client: HostClient) -> ClientCard:
    """Return the card of a client of this node."""
    return ClientCard(
        id=client.id,
        principal=client.principal,
        name=client.client_name,
        topics=sorted(client.topics),
        gates=[gate for gate in _GATES if client.connection.offers(gate)],
        dialect=client.dialect.name,
        is_connected=client.is_connected,
    )


def notification_to_json(notification: Notification) -> dict[str, Any]:
    """Return a notification that is not in the log as it crosses a link."""
    return {
        "method": notification.method,
        "params": notification.params,
        "topic": notification.topic,
        "exceptClient": notification.except_client,
        "onlyClient": notification.only_client,
    }


def notification_from_json(values: Any) -> Notification:
    """Return the notification that crossed a link."""
    return Notification(
        values["method"],
        params=values["params"],
        topic=values["topic"],
        except_client=values["exceptClient"],
        only_client=values["onlyClient"],
    )


class DistantConnection:
    """The connection of a distant client, as far as a room uses it."""

    def __init__(self, client: DistantClient) -> None:
        self._client = client
        self.failure: BaseException | None = None

    @property
    def dialect(self) -> Dialect:
        """The dialect of the client. Its own node translates."""
        return self._client.dialect

    def offers(self, gate: str) -> bool:
        """Whether the client offers a capability."""
        return not gate or gate in self._client.card.gates

    def notify(self, method: str, params: Any) -> None:
        """Send the client a notification."""
        self._client.tell(Notification(method, params=to_json(params)))

    def call(self, method: str, params: Any, done: DoneCallback) -> Any:
        """Send the client a request. Return an id to cancel it by."""
        link = self._client.link
        values = {
            "client": self._client.id,
            "session": _session_of(params),
            "method": method,
            "params": to_json(params),
        }
        id, answer = link.start_request("ask", values)

        def on_answer(future: asyncio.Future[Any]) -> None:
            if future.cancelled():
                return
            error = future.exception()
            if error is not None:
                done(None, error if isinstance(error, ProtocolError) else None)
                return
            row = find_method(Side.CLIENT, method)
            try:
                done(decode_as(row.result if row is not None else None, future.result()), None)
            except ProtocolError as invalid:
                done(None, invalid)

        answer.add_done_callback(on_answer)
        return id

    async def request_raw(self, method: str, params: Any, *, timeout: float | None = None) -> Any:
        """Send the client a request, and return its result as plain values."""
        values = to_json(params)
        asked = {"client": self._client.id, "session": _session_of(values), "method": method, "params": values}
        try:
            return await self._client.link.request("ask", {**asked, "raw": True}, timeout)
        except ProtocolError as error:
            if self.failure is not None:
                raise TransportClosed(str(self.failure)) from error
            raise

    def cancel_request(self, id: Any, *, wait: bool) -> None:
        """Withdraw a request."""
        if isinstance(id, int):
            self._client.link.cancel(id)


def _session_of(params: Any) -> str:
    session = params.get("sessionId") if isinstance(params, dict) else getattr(params, "session_id", None)
    return session if isinstance(session, str) else ""


class DistantClient:
    """A client that is connected to another node. Has what rooms and calls use of a `HostClient`."""

    def __init__(self, host: Host, link: Link, card: ClientCard) -> None:
        self.host = host
        self.link = link
        self.card = card
        self.id = card.id
        self.rooms: dict[str, Room] = {}
        self.prompts: dict[Any, tuple[Room, str]] = {}
        self.cursors: dict[Any, int] = {}
        self.leave_counts: Counter[str] = Counter()  # by session: how often it left, for joins under way
        self.prompt_lock = asyncio.Lock()  # for the checks before a prompt is queued
        self.is_connected = card.is_connected
        self.topics = frozenset(card.topics)
        self.dialect = load_dialect(card.dialect)
        self.connection = DistantConnection(self)

    @cached_property
    def coordinator(self) -> FileCoordinator:
        """Coordinates the sessions of this node that use the files of this client."""
        from dragoman.workspace.coordination import FileCoordinator

        return FileCoordinator()

    @property
    def principal(self) -> Principal:
        """Who it is, as the node that admitted it says."""
        return self.card.principal

    @property
    def client_name(self) -> str:
        """What the program calls itself."""
        return self.card.name

    def replace_link(self, link: Link, card: ClientCard) -> None:
        """Use another link: its node was reached again."""
        self.link, self.card = link, card
        self.is_connected = card.is_connected
        self.connection.failure = None

    def lose_link(self, reason: str) -> None:
        """Note that its node cannot be reached."""
        self.is_connected = False
        self.connection.failure = ConnectionFailed(reason)

    def tell(self, notification: Notification) -> None:
        """Send it a notification, over its node."""
        self.link.notify("tell", {"client": self.id, "notification": notification_to_json(notification)})

    notify = tell

    def narrow_updates(self) -> None:
        """Do nothing: its own node narrows updates."""

    def joined_room(self, session: str, required: str = VIEWER) -> tuple[Room, Member]:
        """Return the room this client is in, and its member there. Raise if its role is too low."""
        return joined_room(self, session, required)  # type: ignore[arg-type]
