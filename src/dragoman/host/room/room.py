"""A room: one session with its members, its log, its agent and its queue of prompts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dragoman.engine.incoming import DoneCallback, Incoming
from dragoman.errors import ConnectionFailed, Kind, ProtocolError, StoreFault
from dragoman.host.access import interrupted_error, is_extension, moved_error, not_run_error, session_not_found
from dragoman.host.auth.roles import ADMIN
from dragoman.host.room import notifications
from dragoman.host.room.agent import INTERRUPTED
from dragoman.host.room.agent_process import AgentProcess
from dragoman.host.room.member import Member
from dragoman.host.room.members import Members
from dragoman.host.room.notifications import Notification, closed_notification
from dragoman.host.room.prompt_queue import PromptQueue, QueuedPrompt
from dragoman.host.room.questions import AgentQuestions, Questions
from dragoman.host.room.workspace import RoomWorkspace
from dragoman.ids import new_id
from dragoman.schema.prompt import PromptResult, StopReason
from dragoman.store.contract import Claim, EntryKind
from dragoman.store.session_log import SessionLog
from dragoman.store.session_state import SessionState, dump_state

if TYPE_CHECKING:
    from dragoman.host.host import Host
    from dragoman.host.host_client import HostClient


# How long the engine may take to show what was stored before a claim, and how often it is asked. Seconds; a server that
# is behind, or was cut off from the others, answers from the past.
READ_TIMEOUT, READ_INTERVAL = 10.0, 0.2


async def _read_whole(host: Host, id: str, claim: Claim | None) -> SessionState:
    """Return the state of a session with everything that its log had when it was claimed."""
    state = await host.session_state(id)
    deadline = asyncio.get_running_loop().time() + READ_TIMEOUT
    while claim is not None and state.seq < claim.seq:
        if asyncio.get_running_loop().time() > deadline:
            await host.store.lines(id, state.seq)  # raises if entries are lost
            what = f"{state.seq} of {claim.seq} entries"
            raise StoreFault("unknown", f"the log of session {id} cannot be read to its end ({what}); try again")
        await asyncio.sleep(READ_INTERVAL)
        state = await host.session_state(id)
    return state


class Room:
    """One session and everybody in it."""

    is_owner = True

    def __init__(self, host: Host, id: str, state: SessionState, members: Members | None = None) -> None:
        self.host = host
        self.id = id
        self.state = state
        self.opener = "user"  # who opens the session, for its log
        self.place = ""  # where the opener wants it to run, in a fleet
        self.is_closed = False
        self.take_prompt: Callable[[QueuedPrompt], None] | None = None  # set when the session goes on at another node
        self.close_reason = "the host was stopped"
        self.members = members if members is not None else Members(self)
        self.log = SessionLog(host.store, id, on_entries=self.members.on_committed)
        self.questions = Questions(self.members.values, host.limits)
        self.questions.on_change = self.note_activity
        self.agent_questions = AgentQuestions(id, self.questions, self.log)
        self.agent: AgentProcess = AgentProcess(self)
        self.workspace = RoomWorkspace(self)
        self.queue = PromptQueue(host.limits.max_prompts)
        self.use_count = 0  # calls that are using this room
        self._saved_seq = 0  # the last entry whose state is kept with the session
        self._worker: asyncio.Task[None] | None = None
        self._repair_lock = asyncio.Lock()
        self._let_go = asyncio.Event()  # set when the session goes on at another node
        self._turn_over = asyncio.Event()  # set when a turn is over
        self._idle_timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        if members is not None:
            members.move_to(self)

    @classmethod
    async def restore(cls, host: Host, id: str, *, claim: Claim | None = None, members: Members | None = None) -> Room:
        """Read the room of a stored session. A turn that was open when its host stopped is logged as ended.

        With a `claim`, only this node may write its log. `members` are those of the room that it replaces.
        """
        state = await _read_whole(host, id, claim)
        room = cls(host, id, state, members)
        room.log.claim = claim
        room.opener = state.owner or room.opener
        if state.open_turn is not None:
            room._log_interruption("this turn was not finished: the host stopped")
            await room.log.wait_stored()
        return room

    async def repair(self) -> None:
        """Log the end of a turn that could not be stored, now that the store may work again."""
        turn = self.state.open_turn
        async with self._repair_lock:
            if self.agent.session is not None:
                await self.agent.session.wait_unlogged_turn()
            if turn is not None and self.state.open_turn == turn:  # somebody else may have logged it meanwhile
                self.log.clear_fault()
                self._log_interruption("the end of this turn could not be stored")
                await self.log.flush()

    def _log_interruption(self, reason: str) -> None:
        """Log that the open turn is over."""
        self.log.turn = self.state.open_turn or None
        body = {"error": {"kind": INTERRUPTED, "message": reason}}
        self.log.append(EntryKind.TURN_ENDED, body, actor="dragoman")
        self.log.turn = None

    @property
    def is_wide(self) -> bool:
        """Whether clients of most dialects get its updates in another form."""
        return self.state.is_wide or (self.agent.remote is not None and self.agent.remote.connection.dialect.is_wide)

    @property
    def agent_title(self) -> str:
        """What agents of other sessions are told when this one is in their way."""
        return f"{self.state.agent or 'an agent'} in a session of {self.opener}"

    def place_info(self, cwd: str) -> dict[str, str]:
        """Return where this session can run, for its log; nothing outside a fleet."""
        return self.host.fleet.ownership.place_info(self, cwd) if self.host.fleet is not None else {}

    def report(self, what: str) -> None:
        """Report something about this session to whoever runs the host."""
        self.host.report(f"session {self.id}: {what}")

    def note_activity(self) -> None:
        """Note that what this session is doing changed."""
        self.host.activity.note(self.id)

    def current_notifications(self) -> list[Notification]:
        """Return the notifications for a new member: the running turn, the waiting prompts, the workspace in use."""
        current = []
        if self.state.open_turn is not None:
            params = {"sessionId": self.id, "state": "running", "turn": self.state.open_turn}
            params |= {"by": self.queue.running.user} if self.queue.running else {}
            current.append(Notification("_dragoman/turn", params=params, topic=notifications.TURNS))
        if self.queue.waiting:
            current.append(self._queue_notification())
        return current + self.workspace.notifications()

    # --- prompts ------------------------------------------------------------------------------------------------

    def enqueue_prompt(self, client: HostClient, blocks: list[Any], done: DoneCallback, id: str = "") -> QueuedPrompt:
        """Add a prompt. It runs when those before it are done; `done` gets its outcome.

        A prompt with an `id` that runs or waits already is not added: another node offers it again.
        """
        self.check_open()
        if id and (known := self.queue.find(id)) is not None:
            known.done = done
            return known
        waiting = QueuedPrompt(id or new_id(), client.principal.user, client.id, blocks, done, client.principal)
        self.queue.add(waiting)
        self.host.counters.prompts += 1
        self.stop_idle_timer()
        self.note_activity()
        if self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(
                self._run_prompts(self.queue.start_next()), name=f"dragoman room {self.id}"
            )
        else:
            self.members.broadcast(self._queue_notification())
        return waiting

    def check_open(self) -> None:
        """Raise if nothing may start here: the session was deleted, or goes on at another node."""
        if self.is_closed:
            raise moved_error(self.id) if self.take_prompt is not None else session_not_found(self.id)

    def cancel(self, client: HostClient, id: str | None = None) -> None:
        """Cancel the client's waiting prompts, or the running turn."""
        withdrawn, running = self.queue.cancel(client.id, id)
        for waiting in withdrawn:
            waiting.done(PromptResult(stop_reason=StopReason.CANCELLED), None)
        if withdrawn:
            self.members.broadcast(self._queue_notification())
        if running is not None:
            self.stop_turn()

    def stop_turn(self) -> None:
        """Cancel the running turn, whoever began it. Waiting prompts stay."""
        if self.queue.running is not None:
            self.queue.running.is_cancelled = True
            self.agent.cancel_turn()

    def withdraw_prompt(self, user: str, id: str, *, is_admin: bool) -> QueuedPrompt:
        """Take a waiting prompt out of the queue: one's own, from any connection, or as an admin any."""
        waiting = next((each for each in self.queue.waiting if each.id == id), None)
        if waiting is None:
            raise ProtocolError(Kind.RESOURCE_NOT_FOUND, "this prompt does not wait any more; it runs or is done")
        if waiting.user != user and not is_admin:
            raise ProtocolError(Kind.PERMISSION_DENIED, "only its user or an admin may take a prompt back")
        self.queue.waiting.remove(waiting)
        waiting.done(PromptResult(stop_reason=StopReason.CANCELLED), None)
        self.members.broadcast(self._queue_notification())
        return waiting

    @property
    def prompts(self) -> list[QueuedPrompt]:
        """The unanswered prompts, the running one first."""
        return self.queue.prompts

    def refuse_prompt(self, prompt: QueuedPrompt, error: ProtocolError) -> None:
        """Answer a prompt with an error, and do not run it, or cancel its turn."""
        if self.queue.refuse(prompt, error):
            self.stop_turn()
        self.members.broadcast(self._queue_notification())

    async def _run_prompts(self, waiting: QueuedPrompt | None) -> None:
        try:
            while waiting is not None:
                try:
                    self._answer(waiting, await self._run_turn(waiting), None)
                except ProtocolError as error:
                    if not await self._hand_over(waiting, error):
                        self._answer(waiting, None, error)
                except ConnectionFailed as error:
                    self._answer(waiting, None, self.agent.prompt_error(error))
                except asyncio.CancelledError:
                    if self._move_prompt(waiting):
                        raise
                    waiting.done(None, interrupted_error(self.close_reason))
                    raise
                except Exception as error:
                    self.report(repr(error))
                    waiting.done(None, ProtocolError(Kind.INTERNAL_ERROR, f"the host failed: {error!r}"))
                finally:
                    self.queue.finish()
                    self._turn_over.set()
                    self.spawn(self._save_state())
                    self.note_activity()
                if (waiting := self.queue.start_next()) is not None:
                    self.members.broadcast(self._queue_notification())
        finally:
            self._worker = None
            self.start_idle_timer()

    async def _hand_over(self, waiting: QueuedPrompt, error: ProtocolError) -> bool:
        """Give a prompt that failed to the next owner of the session, where that is safe."""
        if not isinstance(error, StoreFault) or error.why != "fenced" or self.host.fleet is None:
            return self._move_prompt(waiting)
        with suppress(TimeoutError):  # another node writes the log, so this room is about to be let go
            async with asyncio.timeout(self.host.limits.stop_timeout):
                await self._let_go.wait()
        if waiting.is_sent:
            self._answer(waiting, None, interrupted_error(self.close_reason))
            return True
        waiting.is_started = False  # the next owner looks whether the log has it after all
        return self._move_prompt(waiting)

    def let_go(self, take_prompt: Callable[[QueuedPrompt], None], reason: str) -> None:
        """Note that the session goes on at another node, and who takes the prompts that did not run."""
        self.take_prompt, self.close_reason = take_prompt, reason
        self._let_go.set()

    def _move_prompt(self, waiting: QueuedPrompt) -> bool:
        """Give a prompt that the log does not have to the next owner of the session, if there is to be one."""
        if self.take_prompt is None or waiting.is_started:
            return False
        self.take_prompt(waiting)
        return True

    async def _save_state(self) -> None:
        """Keep the state with the session, so that opening it again need not read what came before."""
        seq = self.state.seq
        if self.members.has_gap or seq <= self._saved_seq:
            return
        with suppress(ProtocolError):  # it is only faster to have one
            await self.host.store.save_state(self.id, seq, dump_state(self.state))
            self._saved_seq = seq

    def _answer(self, waiting: QueuedPrompt, result: PromptResult | None, error: ProtocolError | None) -> None:
        """Answer a prompt, after the updates of its turn: its client may still be sent the history."""
        self.members.call_when_live(waiting.client_id, lambda: waiting.done(result, error))

    async def _run_turn(self, waiting: QueuedPrompt) -> PromptResult:
        session = await self.agent.ensure_session()
        if waiting.is_cancelled:
            return PromptResult(stop_reason=StopReason.CANCELLED)
        if self.state.open_turn is not None:
            await self.repair()
        if self.state.open_turn is not None:  # its end could not be stored, so no other may start
            raise self.log.fault or StoreFault("away", "the end of the turn before could not be stored; try again")
        self.members.log_presence()
        waiting.is_started = True
        log_extra = {"connection": waiting.client_id, "promptId": waiting.id}
        try:
            async with session.prompt(waiting.prompt, by=waiting.user, log_extra=log_extra) as turn:
                waiting.is_sent = True
                if waiting.is_cancelled:  # while the prompt was being stored
                    turn.cancel()
                result = await turn.wait()
        finally:
            if self.host.fleet is not None and not self.is_closed:
                await self.host.fleet.workspaces.checkpoint(self)
        self.agent.backoff.reset()
        return result

    def _queue_notification(self) -> Notification:
        waiting = [{"user": each.user, "promptId": each.id, "preview": each.preview} for each in self.queue.waiting]
        params = {"sessionId": self.id, "waiting": waiting}
        return Notification("_dragoman/queue", params=params, topic=notifications.QUEUE)

    async def join(
        self, client: HostClient, role: str, reply: Callable[[str], None], *, after: int | None, max_role: str = ADMIN
    ) -> None:
        """Send a client what came `after` an entry number (None: nothing), reply to it, and add it as a member."""
        await self.members.join(client, role, reply, after=after, max_role=max_role)

    def set_presence(self, client: HostClient, state: str) -> None:
        """Set what a member is doing."""
        self.members.set_state(client, state)
        self.questions.refresh()

    def leave(self, client: HostClient) -> None:
        """Remove a client."""
        self.members.remove(client)
        self.workspace.on_member_left()
        self.start_idle_timer()

    def forward_to_clients(self, incoming: Incoming, done: DoneCallback) -> tuple[bool, Awaitable[None] | None]:
        """Forward what only clients can answer. Return whether it is such a call, and what to await for the answer."""
        values, method = incoming.values, incoming.method
        if not isinstance(values, dict) or not (is_extension(method) or method in notifications.CLIENT_NOTIFICATIONS):
            return False, None
        params = {**values, "sessionId": self.id} if "sessionId" in values else values
        if not incoming.is_request:
            notification = Notification(method, params=params)
            if self.agent_questions.opening_client is not None:
                self.agent_questions.opening_client.notify(method, params)
            elif method == notifications.AUTH_STATUS_UPDATE:
                self.spawn(self._notify_owner(notification))
            else:
                self.log.call_after(lambda: self.members.broadcast(notification))
            return True, None
        member = self.workspace.choose_provider("")
        if member is None:
            return False, None
        return True, self._forward_request(member, method, params, done)

    async def _forward_request(self, member: Member, method: str, params: Any, done: DoneCallback) -> None:
        await self.members.wait_current(member.client.id)
        timeout = self.host.limits.answer_timeout
        done(await member.client.connection.request_raw(method, params, timeout=timeout), None)

    async def _notify_owner(self, notification: Notification) -> None:
        """Notify only the user whose login it is."""
        user = await self.agent.login_user()
        if user is not None:
            self.host.notify_user(user, self.state.agent, notification)

    # --- idle and close -----------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether nobody is here and nothing is to be done."""
        return not self.members and not self.use_count and not self.members.is_joining and self.queue.is_empty

    def start_idle_timer(self) -> None:
        """Stop the agent later, and then drop the room, if nobody needs it until then."""
        if not self.is_idle or self.is_closed or self._idle_timer is not None:
            return
        if not self.agent.is_started and not self.agent.is_transitioning:
            self.host.forget_room(self.id)
            return
        self._idle_timer = asyncio.get_running_loop().call_later(self.host.limits.idle_timeout, self._on_idle)

    @property
    def idle_deadline(self) -> float | None:
        """When the agent will be stopped, in the time of the loop; None while somebody needs it."""
        return None if self._idle_timer is None else self._idle_timer.when()

    def _on_idle(self) -> None:
        self._idle_timer = None
        if self.is_idle and not self.is_closed:
            self.sleep()

    def sleep(self) -> asyncio.Future[None]:
        """Stop the agent now. The next prompt starts it again."""
        self.stop_idle_timer()
        stopping = self.spawn(self.agent.stop())
        stopping.add_done_callback(lambda _: self.start_idle_timer())
        return asyncio.shield(stopping)

    def stop_idle_timer(self) -> None:
        """Keep the agent running, because somebody needs it."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    async def wait_tasks(self) -> None:
        """Wait for the tasks of this room."""
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that closing the room waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self, reason: str) -> None:
        """Interrupt turns, stop the agent, answer waiting prompts, and remove all members."""
        self.close_reason = reason
        self.is_closed = True
        for waiting in self.queue.clear():
            waiting.done(None, not_run_error(reason))
        if self._worker is not None and self.agent.is_transitioning:
            self._worker.cancel()  # it waits for an agent that nobody needs any more
        await self.agent.stop(at_once=True)
        await self.wait_turn_end()
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)
        await self.wait_tasks()
        await self.log.flush()
        self.members.remove_all()
        self.stop_idle_timer()

    async def suspend(self, reason: str) -> None:
        """End the running work and remove all members. The session can be opened again."""
        for waiting in self.queue.clear():
            waiting.done(PromptResult(stop_reason=StopReason.CANCELLED), None)
        self.agent.cancel_turn()
        await self.wait_turn_end()
        self.members.broadcast(closed_notification(self.id, reason))
        for member in list(self.members.values()):
            self.leave(member.client)
        await self.agent.stop()

    async def wait_turn_end(self) -> None:
        """Wait for the end of the running turn, up to the stop timeout."""
        running = self.queue.running
        with suppress(TimeoutError):
            async with asyncio.timeout(self.host.limits.stop_timeout):
                while running is not None and self.queue.running is running:
                    self._turn_over.clear()
                    await self._turn_over.wait()
