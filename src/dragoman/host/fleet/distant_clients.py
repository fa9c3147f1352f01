"""What the owner of a session does for clients of other nodes: watch, join, prompt, call, leave."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.engine.incoming import Incoming
from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.host.access import moved_error, session_not_found
from dragoman.host.auth.roles import EDITOR, lower_role
from dragoman.host.fleet.distant_client import ClientCard, DistantClient, notification_to_json
from dragoman.host.fleet.link import Link, entry_frame
from dragoman.host.methods import SERVED_METHODS
from dragoman.host.prompt import forward_extension
from dragoman.host.room.member import AWAY, HERE, PRESENCE_STATES
from dragoman.host.room.notifications import Notification
from dragoman.host.room.room import Room
from dragoman.host.room.shown_terminals import ClientTerminal
from dragoman.schema.base import encode, to_json
from dragoman.schema.methods import find_method
from dragoman.schema.prompt import PromptParams
from dragoman.schema.side import Side
from dragoman.store.contract import EntryKind, RawEntry, decode_raw_entry
from dragoman.store.fleet import Engine
from dragoman.store.formats import FIRST_FORMAT, lower_text, newest_format

if TYPE_CHECKING:
    from dragoman.host.host import Host

# How long members stay in a session after the link to their node was lost. Seconds.
LOST_LINK_TIMEOUT = 120.0

_encode_line = msgspec.json.Encoder().encode


class _FrameCache:
    """The frame of the last entry of a room: it is the same for all links."""

    def __init__(self, session: str, engine: Engine) -> None:
        self._session = encode(session)
        self._engine = engine
        self._entry: RawEntry | None = None
        self._frame = b""

    def frame_of(self, entry: RawEntry) -> bytes:
        if entry is not self._entry:
            line = _encode_line(entry)
            if newest_format() != FIRST_FORMAT:  # a node of an older version may be at the other end
                line = lower_text(line, self._engine.format)
            self._entry, self._frame = entry, entry_frame(self._session, line)
        return self._frame


class RoomWatch:
    """One node that watches one room: gets every entry once, however many members it has there."""

    def __init__(self, link: Link, room: Room, frames: _FrameCache) -> None:
        self.link = link
        self.room = room
        self._frames = frames

    def on_entry(self, entry: RawEntry) -> None:
        """Send a committed entry."""
        self.link.send_entry(self.room.id, entry.seq, self._frames.frame_of(entry))

    def on_notifications(self, notifications: tuple[Notification, ...]) -> None:
        """Send what is not in the log."""
        values = [notification_to_json(each) for each in notifications]
        self.link.notify("broadcast", {"session": self.room.id, "notifications": values})

    def on_terminal(self, id: str, terminal: ClientTerminal) -> None:
        """Send what is known of a terminal of a client."""
        values = {"session": self.room.id, "id": id, "terminal": msgspec.to_builtins(terminal)}
        self.link.notify("terminal", values)


class DistantClients:
    """The clients of other nodes in the sessions of this node."""

    def __init__(self, host: Host, engine: Engine) -> None:
        self._host = host
        self._engine = engine
        self._watches: dict[tuple[Link, str], RoomWatch] = {}
        self._frames: dict[str, _FrameCache] = {}
        self._clients: dict[str, DistantClient] = {}

    # --- requests -------------------------------------------------------------------------------------------------

    async def watch(self, link: Link, values: Any) -> Any:
        """Send a node the entries of a session from now on. Wakes the session if nobody owns it."""
        session = values["session"]
        room = await self._host.acquire_room(session)
        key = link, session
        if link.is_closed:
            self._host.release_room(room)
            raise ProtocolError(Kind.CONNECTION_LOST, "the link ended")
        before = self._watches.get(key)
        if before is not None and before.room is room:
            self._host.release_room(room)
        else:
            if before is not None:
                self._end_watch(key)
            frames = self._frames.setdefault(session, _FrameCache(session, self._engine))
            self._watches[key] = watch = RoomWatch(link, room, frames)
            room.members.listeners.append(watch)
        current = [each for each in room.current_notifications() if each.method != "_dragoman/turn"]
        return {
            "seq": room.state.seq,
            "current": [notification_to_json(each) for each in current],
            "terminals": room.workspace.terminals.known(),
        }

    async def join(self, link: Link, values: Any) -> Any:
        """Add a client of another node to a session that its node watches."""
        room = self._watched_room(link, values["session"])
        await self._add_member(room, self._client(link, values["client"]), values)
        return {}

    async def prompt(self, link: Link, values: Any) -> Any:
        """Run a prompt of a client of another node. The node offers it again if the link is lost."""
        room = self._watched_room(link, values["session"])
        client = await self._sender(link, values)
        client.joined_room(room.id, EDITOR)
        params = msgspec.convert(values["params"], PromptParams)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        async with client.prompt_lock:  # prompts of a client run in the order in which it sent them
            if room.queue.find(values["promptId"]) is None and await self._is_in_log(room, values):
                raise moved_error(room.id)  # its node finds it in the log, and the end of its turn answers it
            room = self._watched_room(link, values["session"])
            client.joined_room(room.id, EDITOR)  # its role may have changed meanwhile
            room.enqueue_prompt(client, list(params.prompt), _answer_future(answer), values["promptId"])  # type: ignore[arg-type]
        return to_json(await answer)

    async def _is_in_log(self, room: Room, values: Any) -> bool:
        """Tell whether the log has a prompt, among the entries that the node that offers it has not seen."""
        if values["after"] >= room.state.seq:
            return False
        wanted = encode(values["promptId"])
        lines = await self._host.store.lines(room.id, values["after"], intact=True)
        return any(wanted in line and decode_raw_entry(line).kind == EntryKind.PROMPT for line in lines)

    async def call(self, link: Link, id: int, values: Any) -> Any:
        """Serve a call of a client of another node as if it were connected here."""
        client, method = await self._sender(link, values), values["method"]
        incoming = Incoming(id, method, find_method(Side.AGENT, method), values["params"])
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        serve = SERVED_METHODS.get(method, forward_extension)
        try:
            work = serve(client, incoming, _answer_future(answer))  # type: ignore[arg-type]
            if work is not None:
                await work
            return to_json(await answer)
        finally:
            self._forget_client(client)

    # --- notifications ----------------------------------------------------------------------------------------------

    def leave(self, link: Link, values: Any) -> None:
        """Remove a client of another node."""
        client, room = self._clients.get(values["client"]), self._host.rooms.get(values["session"])
        if client is not None and room is not None and client.link is link:
            client.leave_counts[room.id] += 1
            room.leave(client)  # type: ignore[arg-type]
            self._forget_client(client)

    def set_state(self, link: Link, values: Any) -> None:
        """Note what a member at another node is doing, and whether it has a socket."""
        client, room = self._clients.get(values["client"]), self._host.rooms.get(values["session"])
        if client is not None and room is not None and values["state"] in PRESENCE_STATES:
            client.is_connected = bool(values["isConnected"])
            room.members.set_state(client, values["state"])  # type: ignore[arg-type]
            room.questions.refresh()

    def cancel_prompt(self, link: Link, values: Any) -> None:
        """Cancel prompts of a client of another node, or the running turn."""
        client, room = self._client(link, values["client"]), self._host.rooms.get(values["session"])
        member = room.members.get(client.id) if room is not None else None
        if room is not None and member is not None and member.can_control:
            room.cancel(client, values["promptId"])  # type: ignore[arg-type]
        self._forget_client(client)

    def notify(self, link: Link, values: Any) -> None:
        """Serve a notification of a client of another node."""
        client, room = self._client(link, values["client"]), self._host.rooms.get(values["session"])
        if room is not None and self._is_unknown(client, room, values):
            room.spawn(_await(self._notify_later(link, values)))
            return
        work = self._serve_notification(client, values)
        if work is not None and room is not None:
            room.spawn(_await(work))
        self._forget_client(client)

    async def _notify_later(self, link: Link, values: Any) -> None:
        work = self._serve_notification(await self._sender(link, values), values)
        if work is not None:
            await work

    def _serve_notification(self, client: DistantClient, values: Any) -> Awaitable[None] | None:
        method = values["method"]
        incoming = Incoming(msgspec.UNSET, method, find_method(Side.AGENT, method), values["params"])
        return SERVED_METHODS.get(method, forward_extension)(client, incoming, lambda *_: None)  # type: ignore[arg-type]

    def unwatch(self, link: Link, values: Any) -> None:
        """Send a node no more entries of a session."""
        self._end_watch((link, values["session"]))

    # --- links ----------------------------------------------------------------------------------------------------

    def on_link_away(self, link: Link, is_away: bool) -> None:
        """Show the members behind a silent link as away."""
        for client in self._clients.values():
            if client.link is link:
                client.is_connected = not is_away
                for room in list(client.rooms.values()):
                    room.members.set_state(client, AWAY if is_away else HERE)  # type: ignore[arg-type]
                    room.questions.refresh()

    def on_link_closed(self, link: Link, reason: str) -> None:
        """End the watches of a link. Its members are away, and leave if their node does not come back in time."""
        self.on_link_away(link, True)
        lost = [client for client in self._clients.values() if client.link is link]
        for client in lost:
            client.lose_link(reason)
        for key in [key for key in self._watches if key[0] is link]:
            self._end_watch(key)
        if lost:
            asyncio.get_running_loop().call_later(LOST_LINK_TIMEOUT, self._remove_lost, lost, link)

    def _remove_lost(self, clients: list[DistantClient], link: Link) -> None:
        for client in clients:
            if client.link is link:
                for room in list(client.rooms.values()):
                    room.leave(client)  # type: ignore[arg-type]
                self._forget_client(client)

    def let_room_go(self, room: Room, reason: str) -> None:
        """Tell the nodes that watch a room that this node does not own it any more."""
        for key, watch in list(self._watches.items()):
            if watch.room is room:
                watch.link.notify("gone", {"session": room.id, "reason": reason})
                self._end_watch(key)

    # --- inside -----------------------------------------------------------------------------------------------------

    def _end_watch(self, key: tuple[Link, str]) -> None:
        watch = self._watches.pop(key, None)
        if watch is None:
            return
        if watch in watch.room.members.listeners:
            watch.room.members.listeners.remove(watch)
        if all(each.room is not watch.room for each in self._watches.values()):
            self._frames.pop(watch.room.id, None)
        self._host.release_room(watch.room)

    def _watched_room(self, link: Link, session: str) -> Room:
        watch = self._watches.get((link, session))
        if watch is None or watch.room.is_closed or self._host.rooms.get(session) is not watch.room:
            raise moved_error(session)
        return watch.room

    def _client(self, link: Link, card: Any) -> DistantClient:
        found = msgspec.convert(card, ClientCard)
        client = self._clients.get(found.id)
        if client is None:
            client = self._clients[found.id] = DistantClient(self._host, link, found)
        elif client.link is not link or client.connection.failure is not None:
            client.replace_link(link, found)
        return client

    async def _sender(self, link: Link, values: Any) -> DistantClient:
        """Return the client of a call, as a member if its node says so: the session may have come here meanwhile."""
        client, room = self._client(link, values["client"]), self._host.rooms.get(values["session"])
        if room is not None and self._is_unknown(client, room, values):
            await self._add_member(room, client, values)
        return client

    def _is_unknown(self, client: DistantClient, room: Room, values: Any) -> bool:
        """Tell whether a client is a member as its node says, and not yet here."""
        return "role" in values and not room.is_closed and client.id not in room.members

    async def _add_member(self, room: Room, client: DistantClient, values: Any) -> None:
        """Add a client as a member, with the role that it has now: its node may not know yet that it was removed."""
        left = client.leave_counts[room.id]
        async with room.members.role_lock:  # a change of roles is either read here, or applied to the new member
            role = await self._host.role_in(client.principal, room.id)
            if role is None:
                self._forget_client(client)
                raise session_not_found(room.id)
            if client.leave_counts[room.id] != left:
                raise ProtocolError(Kind.CANCELLED, "the client left the session")
            if room.is_closed or self._host.rooms.get(room.id) is not room:
                raise moved_error(room.id)
            room.members.add_distant(client, lower_role(role, values["role"]), values["maxRole"])  # type: ignore[arg-type]

    def _forget_client(self, client: DistantClient) -> None:
        """Forget a client that is in no session here. Its node sends with each call what is needed of it."""
        if not client.rooms:
            self._clients.pop(client.id, None)


async def _await(work: Awaitable[None]) -> None:
    with suppress(ProtocolError, ConnectionFailed):
        await work


def _answer_future(answer: asyncio.Future[Any]) -> Any:
    def done(result: Any, error: ProtocolError | None) -> None:
        if not answer.done():
            if error is None:
                answer.set_result(result)
            else:
                answer.set_exception(error)

    return done
