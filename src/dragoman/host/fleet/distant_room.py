"""A session that runs at another node, or nowhere now, for the clients of this node that are in it.

Its members are sent entries as they come over the link, each in its own dialect. Calls go to the owner. Prompts that
wait are kept here, so that they can be offered to another owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.engine.codec import decode_as
from dragoman.engine.incoming import DoneCallback, Incoming
from dragoman.errors import Kind, ProtocolError
from dragoman.host.access import interrupted_error, is_moved, moved_error, not_run_error
from dragoman.host.auth.roles import ADMIN
from dragoman.host.fleet.distant_client import card_of, notification_from_json
from dragoman.host.fleet.distant_parts import NoQuestions, OwnersWorkspace, RunningPrompt, RunningQueue
from dragoman.host.fleet.pending_prompt import PendingPrompt, turn_outcome
from dragoman.host.room.member import PAGE_SIZE
from dragoman.host.room.members import Members
from dragoman.host.room.notifications import PRESENCE, TURNS, Notification
from dragoman.host.room.prompt_queue import QueuedPrompt, too_many_prompts
from dragoman.host.room.shown_terminals import ClientTerminal
from dragoman.ids import new_id
from dragoman.schema.base import to_json
from dragoman.schema.prompt import PromptResult, StopReason
from dragoman.store.contract import Entry, EntryKind, RawEntry, decode_entry, decode_raw_entry
from dragoman.store.session_log import NoLog
from dragoman.store.session_state import SessionState

if TYPE_CHECKING:
    from dragoman.host.fleet.fleet import Fleet
    from dragoman.host.fleet.link import Link
    from dragoman.host.host import Host
    from dragoman.host.host_client import HostClient

# How long a room without members is kept: the next call of a client often follows. Seconds.
IDLE_TIMEOUT = 5.0

# Before a prompt is offered again. Seconds; what the log has of it is on its way.
OFFER_PAUSE = 0.05

# Before the log is read again after the store failed. Seconds.
CATCH_UP_INTERVAL = 1.0

# Ends of turns that are remembered, for prompts whose answer was lost with a link: a prompt waits for few turns.
MAX_ENDED_TURNS = 64

# How long the owner may take to admit a client. Seconds.
JOIN_TIMEOUT = 30.0

PROMPT = "session/prompt"


class DistantRoom:
    """One session of another node, or of none, and the clients of this node in it."""

    is_owner = False

    def __init__(self, fleet: Fleet, id: str, state: SessionState, members: Members | None = None) -> None:
        self.fleet = fleet
        self.host: Host = fleet.host
        self.id = id
        self.state = state
        self.is_closed = False
        self.log = NoLog()
        self.queue = RunningQueue()
        self.questions = NoQuestions()
        self.workspace = OwnersWorkspace(self)
        self.link: Link | None = None  # to the owner; None while nobody owns the session
        self.use_count = 0
        self.pending: dict[str, PendingPrompt] = {}
        self.attach_lock = asyncio.Lock()
        self._is_catching_up = 0
        self._ended_turns: dict[str, Any] = {}  # the last turns that ended, and how
        self._current: dict[str, Notification] = {}  # the last of each kind that is not in the log
        self._idle_timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.members = members if members is not None else Members(self)
        if members is not None:
            members.move_to(self)

    # --- what members need ----------------------------------------------------------------------------------------

    @property
    def is_wide(self) -> bool:
        """Whether clients of most dialects get its updates in another form."""
        return self.state.is_wide

    def report(self, what: str) -> None:
        """Report something about this session to whoever runs the host."""
        self.host.report(f"session {self.id}: {what}")

    def current_notifications(self) -> list[Notification]:
        """Return the notifications for a new member: the running turn, the waiting prompts, the workspace in use."""
        current = list(self._current.values())
        if self.state.open_turn is not None and self.link is not None:
            params = {"sessionId": self.id, "state": "running", "turn": self.state.open_turn}
            params |= {"by": self.queue.running.user} if self.queue.running else {}
            current.insert(0, Notification("_dragoman/turn", params=params, topic=TURNS))
        return current

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task of this room."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- from the owner -------------------------------------------------------------------------------------------

    def on_entry(self, entry: RawEntry) -> None:
        """Send a committed entry to the members of this node."""
        if entry.seq <= self.state.seq:
            return
        if entry.seq > self.state.seq + 1:  # the store has what is missing, and this one
            if not self._is_catching_up:
                self.spawn(self._catch_up_soon())
            return
        self._note_prompt(entry)
        seq, kind, actor, time = entry.seq, entry.kind, entry.actor, entry.time
        committed = Entry(seq=seq, kind=kind, actor=actor, time=time, body=entry.body, turn=entry.turn)
        self.members.on_committed(self.id, [committed])
        if entry.kind == EntryKind.TURN_ENDED:
            self.queue.running = None
            self._resolve_turn(entry)

    def _note_prompt(self, entry: RawEntry) -> None:
        """Note whose prompt runs, and which of ours are in the log."""
        if entry.kind != EntryKind.PROMPT:
            return
        body = entry.value
        if not isinstance(body, dict):
            return
        self.queue.running = RunningPrompt(str(body.get("connection", "")), entry.actor)
        prompt = self.pending.get(str(body.get("promptId", "")))
        if prompt is not None:
            prompt.turn = entry.turn

    def _resolve_turn(self, entry: RawEntry) -> None:
        """Answer prompts whose turn ended while no link was there to bring the answer."""
        body = entry.value
        self._ended_turns[entry.turn or ""] = body
        if len(self._ended_turns) > MAX_ENDED_TURNS:
            del self._ended_turns[next(iter(self._ended_turns))]
        for prompt in list(self.pending.values()):
            if prompt.turn is not None and prompt.turn == entry.turn and not prompt.is_offered:
                self.answer(prompt, *turn_outcome(body))

    async def catch_up(self) -> None:
        """Read what the log has beyond what this node knows, and send it to the members."""
        self._is_catching_up += 1
        try:
            while lines := await self.host.store.lines(self.id, self.state.seq, PAGE_SIZE, intact=True):
                before = self.state.seq
                for line in lines:
                    self.on_entry(decode_raw_entry(line))
                if self.state.seq == before:  # entries of a damaged log are missing: members read what is there
                    self.members.on_committed(self.id, [decode_entry(lines[0])])
        finally:
            self._is_catching_up -= 1

    async def _catch_up_soon(self) -> None:
        """Catch up, and again while the store does not answer."""
        while not self.is_closed:
            try:
                await self.catch_up()
                return
            except ProtocolError as error:
                self.report(f"its log was not read: {error.message}")
            await asyncio.sleep(CATCH_UP_INTERVAL)

    def on_head(self, seq: int) -> None:
        """Read entries that were left out because the link was slow."""
        if seq > self.state.seq:
            self.spawn(self._catch_up_soon())

    def on_broadcast(self, values: Any) -> None:
        """Send the members what is not in the log."""
        notifications = [notification_from_json(each) for each in values]
        for notification in notifications:
            if notification.topic != PRESENCE or notification.method == "_dragoman/workspace":
                self._current[notification.method] = notification
            if notification.method == "_dragoman/turn":
                self._current.pop(notification.method)
        self.members.broadcast(*notifications)

    def on_terminal(self, values: Any) -> None:
        """Remember a terminal of a client, so that others are shown its output as text."""
        self.workspace.terminals.add(values["id"], msgspec.convert(values["terminal"], ClientTerminal))

    async def on_ask(self, values: Any) -> Any:
        """Ask a client of this node, after it got every update so far."""
        member = self.members.get(values["client"])
        if member is None:
            raise ProtocolError(Kind.CONNECTION_LOST, "the client has left the session")
        await self.members.wait_current(member.client.id)
        connection = member.client.connection
        if values.get("raw"):
            return await connection.request_raw(values["method"], values["params"])
        return to_json(await connection.request(values["method"], values["params"]))

    def on_current(self, values: Any) -> None:
        """Take what is not in the log from the owner's answer, when this node begins to watch."""
        self._current.clear()
        self.on_broadcast(values)

    # --- to the owner ---------------------------------------------------------------------------------------------

    def relay(self, client: HostClient, incoming: Incoming, done: DoneCallback) -> Coroutine[Any, Any, None] | None:
        """Send a call of a client to the owner."""
        if incoming.method == PROMPT:
            self._relay_prompt(client, incoming, done)
            return None
        return self._relay_call(client, incoming, done)

    async def _relay_call(self, client: HostClient, incoming: Incoming, done: DoneCallback) -> None:
        row = incoming.row
        source = to_json(incoming.params) if row is not None else incoming.values
        link = await self.fleet.ownership.attach(self, needs_owner=incoming.is_request)
        if link is None:
            return
        values = {**self._sender_values(client), "method": incoming.method, "params": source}
        if not incoming.is_request:
            link.notify("call", values)
            return
        result = await link.request("call", values)
        done(decode_as(row.result if row is not None else None, result), None)

    def _relay_prompt(self, client: HostClient, incoming: Incoming, done: DoneCallback) -> None:
        limit = self.host.limits.max_prompts
        if len(self.pending) >= limit:
            raise too_many_prompts(limit)
        key = incoming.id
        prompt = PendingPrompt(new_id(), client, to_json(incoming.params), done)

        def on_done(result: Any, error: ProtocolError | None) -> None:
            client.prompts.pop(key, None)
            done(result, error)

        prompt.done = on_done
        self.add_pending(prompt)
        if incoming.is_request:
            client.prompts[key] = (self, prompt.id)  # type: ignore[assignment]
        self.offer_soon(prompt)

    def offer_soon(self, prompt: PendingPrompt) -> None:
        """Offer a prompt to the owner, in a task."""
        self.spawn(self._offer(prompt))

    def add_pending(self, prompt: PendingPrompt) -> None:
        """Keep a prompt until it is answered."""
        self.pending[prompt.id] = prompt
        self.stop_idle_timer()

    def take_prompt(self, prompt: QueuedPrompt) -> None:
        """Keep a prompt that waited in the room before this one. A client of another node offers its own again."""
        member = self.members.get(prompt.client_id)
        if prompt.is_cancelled:
            prompt.done(PromptResult(stop_reason=StopReason.CANCELLED), None)
            return
        if member is None or member.is_distant or self.is_closed:
            prompt.done(None, moved_error(self.id))
            return
        params = {"sessionId": self.id, "prompt": to_json(prompt.prompt)}
        pending = PendingPrompt(prompt.id, member.client, params, prompt.done)
        self.add_pending(pending)
        self.offer_soon(pending)

    async def _offer(self, prompt: PendingPrompt) -> None:
        """Offer a prompt to the owner, whoever that is then, until somebody answers it."""
        while prompt.id in self.pending and not self.is_closed:
            try:
                link = await self.fleet.ownership.attach(self, needs_owner=True)
            except ProtocolError as error:
                self.answer(prompt, None, error)
                return
            if link is None:  # the session runs here from now on, and has taken the prompt over
                return
            if prompt.id not in self.pending:
                return
            if prompt.turn is not None:  # the log has it: the end of its turn answers it
                if prompt.turn in self._ended_turns:
                    self.answer(prompt, *turn_outcome(self._ended_turns[prompt.turn]))
                return
            values = {**self._sender_values(prompt.client), "promptId": prompt.id, "after": self.state.seq}
            prompt.is_offered = True
            prompt.call_id, answer = link.start_request("prompt", {**values, "params": prompt.params})
            try:
                result = await answer
            except ProtocolError as error:
                prompt.is_offered = False
                if error.kind == Kind.CONNECTION_LOST or is_moved(error):
                    await asyncio.sleep(OFFER_PAUSE)
                    continue
                self.answer(prompt, None, error)
                return
            self.answer(prompt, msgspec.convert(result, PromptResult), None)

    def answer(self, prompt: PendingPrompt, result: Any, error: ProtocolError | None) -> None:
        """Answer a prompt, after the updates of its turn."""
        if self.pending.pop(prompt.id, None) is not None:
            self.members.call_when_live(prompt.client.id, lambda: prompt.done(result, error))
            self.start_idle_timer()

    @property
    def prompts(self) -> list[PendingPrompt]:
        """The unanswered prompts of clients of this node."""
        return list(self.pending.values())

    def refuse_prompt(self, prompt: PendingPrompt, error: ProtocolError) -> None:
        """Answer a prompt with an error, and do not offer it any more. The owner refuses what it has by itself."""
        self.answer(prompt, None, error)

    def cancel(self, client: HostClient, id: str | None = None) -> None:
        """Cancel the client's prompts: those that nobody has here, the others at the owner."""
        for prompt in list(self.pending.values()):
            if prompt.client is client and (id is None or prompt.id == id) and not prompt.is_offered:
                self.answer(prompt, PromptResult(stop_reason=StopReason.CANCELLED), None)
        if self.link is not None:
            self.link.notify("cancel_prompt", {"session": self.id, "client": card_of(client), "promptId": id})

    async def join(
        self, client: HostClient, role: str, reply: Callable[[str], None], *, after: int | None, max_role: str = ADMIN
    ) -> None:
        """Tell the owner of a client, send it what came `after` an entry number, reply, and add it as a member."""
        link = await self.fleet.ownership.attach(self, needs_owner=False)
        if link is not None:
            try:
                await link.request("join", self.member_values(client, role, max_role), JOIN_TIMEOUT)
            except ProtocolError as error:
                if error.kind not in (Kind.CONNECTION_LOST, Kind.TIMEOUT) and not is_moved(error):
                    raise
                link = None  # its node is gone: the history is in the store, and the next owner is told of all members
        if link is None or (after is not None and after > self.state.seq):
            await self.catch_up()  # another node sent the client more than this one knows
        try:
            member = await self.members.join(client, role, reply, after=after, max_role=max_role)
        except BaseException:
            self.leave(client)
            raise
        if self.link is not None and self.link is not link:  # another owner since: it was told of the others only
            self.link.notify("join", self.member_values(client, member.role, max_role))

    def leave(self, client: HostClient) -> None:
        """Remove a client."""
        self.members.remove(client)
        if self.link is not None:
            self.link.notify("leave", {"session": self.id, "client": client.id})
        self.start_idle_timer()

    def set_presence(self, client: HostClient, state: str) -> None:
        """Tell the owner what a member is doing, and whether it has a socket."""
        member = self.members.get(client.id)
        if member is not None:
            member.state = state
        if self.link is not None:
            values = {"session": self.id, "client": client.id, "state": state, "isConnected": client.is_connected}
            self.link.notify("state", values)

    def _sender_values(self, client: HostClient) -> dict[str, Any]:
        """Return what the owner needs to know of the sender of a call: it may not know the client as a member yet."""
        member = self.members.get(client.id)
        if member is None:
            return {"session": self.id, "client": card_of(client)}
        return self.member_values(client, member.role, member.max_role)

    def member_values(self, client: HostClient, role: str, max_role: str) -> dict[str, Any]:
        """Return what the owner is told when a client joins."""
        return {"session": self.id, "client": card_of(client), "role": role, "maxRole": max_role}

    # --- idle and close -------------------------------------------------------------------------------------------

    def stop_idle_timer(self) -> None:
        """Keep the room, because somebody needs it."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def start_idle_timer(self) -> None:
        """Drop the room later, if nobody needs it until then."""
        if self._idle_timer is None and self.is_idle and not self.is_closed:
            self._idle_timer = asyncio.get_running_loop().call_later(IDLE_TIMEOUT, self._on_idle)

    @property
    def is_idle(self) -> bool:
        """Whether nobody is here and nothing waits."""
        return not self.members and not self.use_count and not self.members.is_joining and not self.pending

    def _on_idle(self) -> None:
        self._idle_timer = None
        if self.is_idle:
            self.fleet.ownership.drop_room(self)

    def close(self, reason: str) -> None:
        """Answer waiting prompts, and remove all members."""
        self.is_closed = True
        self.stop_idle_timer()
        for prompt in list(self.pending.values()):
            self.answer(prompt, None, (interrupted_error if prompt.turn else not_run_error)(reason))
        with suppress(Exception):
            self.members.remove_all()
        for task in list(self._tasks):
            if task is not asyncio.current_task():
                task.cancel()

    def take_pending(self) -> list[PendingPrompt]:
        """Give the waiting prompts away, to the room that replaces this one."""
        pending, self.pending = list(self.pending.values()), {}
        return pending
