"""Which sessions this node runs: claims, waking, taking over, letting go; and the rooms of sessions of other nodes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.errors import ConnectionFailed, Kind, ProtocolError, StoreFault
from dragoman.host.access import interrupted_error, refused_prompt_error
from dragoman.host.access_changes import principals_who_may_not_prompt
from dragoman.host.fleet import places
from dragoman.host.fleet.distant_room import DistantRoom
from dragoman.host.fleet.pending_prompt import PendingPrompt
from dragoman.host.room.members import Members
from dragoman.host.room.notifications import TURNS, Notification
from dragoman.host.room.room import Room
from dragoman.schema.prompt import PromptParams
from dragoman.store.claims import Fenced
from dragoman.store.contract import Claim
from dragoman.store.fleet import NodeInfo, NodeStatus

if TYPE_CHECKING:
    from dragoman.host.fleet.fleet import Fleet
    from dragoman.host.fleet.link import Link

# Between two tries to reach the owner of a session, whose lease may still count. Seconds.
ATTACH_RETRY = 0.25

# How long a call waits for an owner beyond the time of a lease: an agent host that starts. Seconds.
ATTACH_GRACE = 15.0

# How long the owner may take to answer a watch: it may have to read a long log. Seconds.
WATCH_TIMEOUT = 30.0


class Ownership:
    """The sessions of one node."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._host = fleet.host
        self.distant_rooms: dict[str, DistantRoom] = {}
        self._opening: dict[str, asyncio.Lock] = {}

    # --- claims -------------------------------------------------------------------------------------------------------

    def lock_of(self, session: str) -> asyncio.Lock:
        """Return the lock under which the room of a session is opened, let go or replaced."""
        if len(self._opening) > 4096:
            self._opening = {id: lock for id, lock in self._opening.items() if lock.locked()}
        return self._opening.setdefault(session, asyncio.Lock())

    async def claim(self, session: str, why: str, epoch: int | None = None) -> Claim:
        """Claim a session for this node. Raise StoreFault("fenced") if another node was faster."""
        if not self._fleet.lease.is_held:
            raise ProtocolError(Kind.INVALID_STATE, self.lost_lease_text(), {"reason": "lease_lost"})
        if epoch is None:
            epoch = (await self._host.store.owner(session)).epoch
        claim = await self._host.store.claim(session, self._fleet.node, epoch=epoch)
        if not self._fleet.lease.is_held:  # it took too long: whoever finds the lease dead may claim
            await self.release(claim)
            raise ProtocolError(Kind.INVALID_STATE, self.lost_lease_text(), {"reason": "lease_lost"})
        self._fleet.counters.add_claim(why)
        self._fleet.spawn(self._fleet.signal("claimed", session=session))
        return claim

    async def release(self, claim: Claim | None) -> None:
        """Give a session up."""
        if claim is not None:
            with suppress(ProtocolError):
                await self._host.store.release(claim)

    def lost_lease_text(self) -> str:
        """Return why this node may not run sessions now."""
        return (
            f"node {self._fleet.node} cannot run sessions now: {self._fleet.lease.fault or 'it has no lease'}; "
            "try again, or connect to another node"
        )

    def check_may_start(self) -> None:
        """Raise while no turn may start here: the store does not answer, or the node drains."""
        if not self._fleet.lease.may_start_turns:
            raise ProtocolError(Kind.INVALID_STATE, self.lost_lease_text(), {"reason": "lease_lost"})

    async def prepare_new_room(self, room: Room) -> None:
        """Claim a session that is opened here."""
        if self._fleet.is_draining:
            raise ProtocolError(Kind.INVALID_STATE, f"node {self._fleet.node} is draining; connect again")
        self.check_may_start()
        self.adopt_claim(room, await self.claim(room.id, "new", 0))

    def place_info(self, room: Room, cwd: str) -> dict[str, str]:
        """Return the place of a session for its log, and the node that runs it now."""
        found = places.place_of_folder(cwd, self._fleet.describe())
        default = places.NODE if found.kind == places.NODE else str(found)
        if self._host.agent_catalog.agent_of(room.state).is_remote:
            default = places.REMOTE
        return {"place": room.place or room.state.place or default, "node": self._fleet.node}

    def adopt_claim(self, room: Room, claim: Claim) -> None:
        """Write the log of a room under a claim. When it is fenced, the room is let go."""
        room.log.claim = claim

        def on_fenced(error: ProtocolError) -> None:
            self._fleet.counters.fenced += 1
            owner = error.owner.node if isinstance(error, Fenced) else ""
            who = f"node {owner} runs" if owner else "another node runs"
            reason = f"{who} this session now, because node {self._fleet.node} was cut off or too slow"
            self._fleet.spawn(self.let_go(room, reason))

        room.log.on_fenced = on_fenced

    async def owner_status(self, session: str) -> tuple[Claim, NodeStatus | None]:
        """Return the claim of a session, and the status of its node if that is another one."""
        claim = await self._host.store.owner(session)
        status = (
            await self._fleet.engine.nodes.node(claim.node) if claim.node and claim.node != self._fleet.node else None
        )
        return claim, status

    async def open_room(self, session: str) -> Room | DistantRoom:
        """Return the room of a session: its own if this node can run it, else one of the session elsewhere."""
        async with self.lock_of(session):
            if (known := self._host.rooms.get(session) or self.distant_rooms.get(session)) is not None:
                return known
            claim, status = await self.owner_status(session)
            is_elsewhere = status is not None and status.is_alive
            if not is_elsewhere and self._fleet.lease.is_held and not self._fleet.is_draining:
                state = await self._host.session_state(session)
                chosen = await self._choose_node(state, is_needed=False)
                if chosen == self._fleet.node:
                    try:
                        return await self._wake_here(session, claim)
                    except StoreFault as error:
                        if error.why != "fenced":
                            raise
            room = DistantRoom(self._fleet, session, await self._host.session_state(session))
            self.distant_rooms[session] = room
            return room

    async def _wake_here(self, session: str, former: Claim) -> Room:
        claim = await self.claim(session, "wake", former.epoch)
        try:
            room = await Room.restore(self._host, session, claim=claim)
        except BaseException:
            await self.release(claim)
            raise
        self.adopt_claim(room, room.log.claim or claim)
        self._host.add_room(room)
        self._report_owner(room, former)
        return room

    def _report_owner(self, room: Room, former: Claim) -> None:
        was_elsewhere = former.node and former.node != self._fleet.node
        room.report(f"runs on this node now{f', before on node {former.node}' if was_elsewhere else ''}")

    async def _choose_node(self, state: Any, *, is_needed: bool) -> str:
        nodes = await self._fleet.engine.nodes.list_nodes()
        place = places.place_of(state)
        chosen = places.choose_node(place, self._fleet.describe(), state.cwd, nodes)
        if not chosen and is_needed:
            raise places.away_error("SESSION", place, state.cwd, nodes)
        return chosen

    # --- rooms of other nodes -----------------------------------------------------------------------------------------

    async def attach(self, room: DistantRoom, *, needs_owner: bool) -> Link | None:
        """Return the link to the owner of a session, found anew if needed.

        None: nobody owns it and nobody needs to, or it runs here from now on, with the members and prompts of `room`.
        Raises workspace_away when it is needed and no living node can run it.
        """
        deadline = asyncio.get_running_loop().time() + self._fleet.times.counts + ATTACH_GRACE
        while True:
            if room.link is not None and not room.link.is_closed:
                return room.link
            async with room.attach_lock:
                if room.is_closed or self.distant_rooms.get(room.id) is not room:
                    return None
                if room.link is not None and not room.link.is_closed:
                    return room.link
                try:
                    link, is_final = await self._try_attach(room, needs_owner)
                    if is_final:
                        return link
                    problem = "its node does not answer"
                except ConnectionFailed as error:
                    problem = str(error)
                except StoreFault as error:
                    if error.why not in ("fenced", "unknown"):
                        raise
                    problem = error.message
                except ProtocolError as error:
                    if not (isinstance(error.data, dict) and error.data.get("moved")) and error.kind not in (
                        Kind.CONNECTION_LOST,
                        Kind.TIMEOUT,
                    ):
                        raise
                    problem = error.message
            if not needs_owner:
                return None
            if asyncio.get_running_loop().time() > deadline:
                message = f"the session cannot be reached: {problem}; try again"
                raise ProtocolError(Kind.TIMEOUT, message, {"sessionId": room.id})
            await asyncio.sleep(ATTACH_RETRY)

    async def _try_attach(self, room: DistantRoom, needs_owner: bool) -> tuple[Link | None, bool]:
        """Try once. Return the link, and whether that is the final answer."""
        claim, status = await self.owner_status(room.id)
        if status is not None and status.is_alive:
            return await self._watch(room, status.info), True
        if not needs_owner and room.state.open_turn is None:
            return None, True
        chosen = await self._choose_node_of(room, is_needed=needs_owner)
        if chosen == self._fleet.node:
            await self._take_over(room, claim)
            return None, True
        if chosen:
            info = next(each.info for each in await self._fleet.engine.nodes.list_nodes() if each.info.node == chosen)
            return await self._watch(room, info), True
        await self._end_interrupted_turn(room, claim.epoch)
        return None, True

    async def _choose_node_of(self, room: DistantRoom, *, is_needed: bool) -> str:
        await room.catch_up()  # it may have been moved
        nodes = await self._fleet.engine.nodes.list_nodes()
        place = places.place_of(room.state)
        chosen = places.choose_node(place, self._fleet.describe(), room.state.cwd, nodes)
        if chosen == self._fleet.node and not self._fleet.lease.is_held:
            raise ProtocolError(Kind.INVALID_STATE, self.lost_lease_text(), {"reason": "lease_lost"})
        if not chosen and is_needed:
            await self._end_interrupted_turn(room, (await self._host.store.owner(room.id)).epoch)
            raise places.away_error(room.id, place, room.state.cwd, nodes)
        return chosen

    async def _watch(self, room: DistantRoom, info: NodeInfo) -> Link:
        """Watch a session at its owner, and tell the owner of the members here."""
        link = await self._fleet.links.link_to(info)
        self._fleet.links.watching.setdefault(link, {})[room.id] = room
        try:
            answer = await link.request("watch", {"session": room.id, "after": room.state.seq}, WATCH_TIMEOUT)
        except BaseException:
            self._fleet.links.watching.get(link, {}).pop(room.id, None)
            raise
        for id, terminal in answer["terminals"].items():
            room.on_terminal({"id": id, "terminal": terminal})
        await room.catch_up()
        room.on_current(answer["current"])
        for member in list(room.members.values()):
            link.notify("join", room.member_values(member.client, member.role, member.max_role))
        if link.is_closed:
            raise ConnectionFailed(f"the link to node {info.node} was lost")
        room.link = link
        return link

    async def _take_over(self, distant: DistantRoom, former: Claim) -> None:
        """Run a session here from now on, with the members and the waiting prompts of its room."""
        async with self.lock_of(distant.id):
            claim = await self.claim(distant.id, "takeover", former.epoch)
            try:
                await distant.catch_up()  # what the former owner wrote last is before the claim
                senders = [prompt.principal for prompt in distant.prompts]
                refused = await principals_who_may_not_prompt(self._host, distant.id, senders)
                del self.distant_rooms[distant.id]
                room = await Room.restore(self._host, distant.id, claim=claim, members=distant.members)
            except BaseException:
                self.distant_rooms.setdefault(distant.id, distant)
                distant.members.move_to(distant)
                distant.members.resume()
                await self.release(claim)
                raise
            self._fleet.counters.takeovers += 1
            self.adopt_claim(room, room.log.claim or claim)
            self._host.add_room(room)
            self._report_owner(room, former)
            distant.is_closed = True
            room.members.resume()
            for prompt in distant.take_pending():
                if prompt.principal in refused:
                    prompt.done(None, refused_prompt_error(room.id, "you may not prompt in this session any more"))
                else:
                    self._run_pending(room, prompt)
        self._fleet.apply_role_changes_soon(room.id)  # this node may have missed some
        room.start_idle_timer()

    def _run_pending(self, room: Room, prompt: PendingPrompt) -> None:
        """Run a prompt that waited at another owner. One that the log has was interrupted, and is not run again."""
        if prompt.turn is not None:
            error = interrupted_error("the node that ran it is gone")
            room.members.call_when_live(prompt.client.id, lambda: prompt.done(None, error))
            return
        try:
            blocks = list(msgspec.convert(prompt.params, PromptParams).prompt)
            room.enqueue_prompt(prompt.client, blocks, prompt.done, prompt.id)
        except ProtocolError as error:
            prompt.done(None, error)

    async def _end_interrupted_turn(self, room: DistantRoom, epoch: int) -> None:
        """Log the end of a turn whose node is gone, although no node here can run the session."""
        await room.catch_up()
        if room.state.open_turn is None or not self._fleet.lease.is_held:
            return
        claim = await self.claim(room.id, "interrupted", epoch)
        try:
            ended = await Room.restore(self._host, room.id, claim=claim)
            claim = ended.log.claim or claim
        finally:
            await self.release(claim)
        await room.catch_up()

    async def let_go(self, room: Room, reason: str, *, is_told: bool = True) -> None:
        """Stop running a session here. Its members stay, and its waiting prompts are offered to the next owner."""
        async with self.lock_of(room.id):
            if self._host.rooms.get(room.id) is not room or room.is_closed:
                return
            room.report(f"this node lets it go: {reason}")
            self._fleet.distant_clients.let_room_go(room, reason)
            waiting = room.queue.clear()
            distant = DistantRoom(self._fleet, room.id, room.state, members=room.members)
            self._host.rooms.pop(room.id, None)
            self.distant_rooms[room.id] = distant
            room.members = Members(room)
            room.let_go(distant.take_prompt, reason)
            async with distant.attach_lock:  # until this node has let go, nothing is offered
                for prompt in waiting:
                    distant.take_prompt(prompt)
                if is_told:
                    told = {"sessionId": room.id, "state": "exited", "message": reason}
                    for member in list(distant.members.values()):
                        member.notify(Notification("_dragoman/agent", params=told, topic=TURNS))
                with suppress(Exception):
                    await room.close(reason)
                await self.release(room.log.claim)
                with suppress(ProtocolError):
                    await distant.catch_up()
            distant.members.resume()
            distant.start_idle_timer()

    def drop_room(self, room: DistantRoom) -> None:
        """Forget a room that nobody here needs."""
        if self.distant_rooms.get(room.id) is room:
            del self.distant_rooms[room.id]
        link, room.link = room.link, None
        if link is not None:
            self._fleet.links.watching.get(link, {}).pop(room.id, None)
            link.notify("unwatch", {"session": room.id})
        room.close("nobody is in it")
