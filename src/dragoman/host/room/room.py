"""A room: one session with whoever is in it, its log, its agent while that is awake, and the prompts that wait.

Prompts of several people run one after the other; what the agent wants of a client it gets of a member. Above are the
desks of clients; below are the company in the room, which hears everything, and the keeping of its agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dragoman.engine.incoming import Incoming
from dragoman.engine.pending import DoneCallback
from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.host.refusals import is_extension
from dragoman.host.room.agent import INTERRUPTED
from dragoman.host.room.member import Member
from dragoman.host.room.members import Members
from dragoman.host.room.notifications import (
    AUTH_STATUS_UPDATE,
    CLIENT_NOTIFICATIONS,
    PRESENCE,
    QUEUE,
    TERMINALS,
    TURNS,
    Notification,
    closed_notification,
)
from dragoman.host.room.prompt_queue import PromptQueue, QueuedPrompt
from dragoman.host.room.workspace import HOST, WORKSPACE_GATES, choose_provider
from dragoman.roles.agent.session import new_id
from dragoman.schema.prompt import PromptResult, StopReason
from dragoman.store.contract import EntryKind
from dragoman.store.session_state import SessionState

if TYPE_CHECKING:
    from dragoman.host.host import Host
    from dragoman.host.host_client import HostClient


class Room(Members):
    """One session and everybody in it."""

    def __init__(self, host: Host, id: str, state: SessionState) -> None:
        super().__init__(host, id, state)
        self.queue = PromptQueue(host.limits.max_prompts)
        self.use_count = 0  # calls that are about to do something here
        self._worker: asyncio.Task[None] | None = None
        self._turn_over = asyncio.Event()  # set when a turn is over
        self._providers: dict[str, Any] = {}

    @classmethod
    async def restore(cls, host: Host, id: str) -> Room:
        """The room of a session that was kept; a turn that was open when its host ended is over now."""
        room = cls(host, id, standing := await host.standing(id))
        room.opener = standing.owner or room.opener
        if standing.open_turn is not None:
            room._log_interruption("this turn was not finished: its host ended, or was left")
            await room.log.wait_stored()
        return room

    async def repair(self) -> None:
        """The store failed, and works again perhaps: a turn whose end could not be kept is over."""
        if self.session is not None:
            await self.session.wait_unlogged_turn()
        if self.state.open_turn is not None:
            self.log.clear_fault()
            self._log_interruption("the end of this turn could not be kept")
            await self.log.flush()

    def _log_interruption(self, why: str) -> None:
        """Have in the log that the turn which is open there is over."""
        self.log.turn = self.state.open_turn or None
        body = {"error": {"kind": INTERRUPTED, "message": why}}
        self.log.append(EntryKind.TURN_ENDED, body, actor="dragoman")
        self.log.turn = None

    def current_notifications(self) -> list[Notification]:
        """What is so while somebody comes: a turn that runs, prompts that wait, whose files are used."""
        news = []
        if self.state.open_turn is not None:
            running = self.queue.running
            params = {"sessionId": self.id, "state": "running", "turn": self.state.open_turn}
            news.append(
                Notification("_dragoman/turn", params=params | ({"by": running.user} if running else {}), topic=TURNS)
            )
        if self.queue.waiting:
            news.append(self._queue_notification())
        if self._providers:
            news.append(self._workspace_notification())
        return news

    # --- prompts ------------------------------------------------------------------------------------------------

    def enqueue_prompt(self, client: HostClient, blocks: list[Any], done: DoneCallback) -> QueuedPrompt:
        """A prompt: it runs when those before it are over; `done` hears how it ended."""
        if self.is_closed:
            raise ProtocolError(Kind.SESSION_NOT_FOUND, f"there is no session {self.id!r} any more")
        waiting = QueuedPrompt(new_id(), client.principal.user, client.id, blocks, done)
        self.queue.add(waiting)
        self.host.counters.prompts += 1
        self.stop_idle_timer()
        if self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(
                self._run_prompts(self.queue.start_next()), name=f"dragoman room {self.id}"
            )
        else:
            self.broadcast(self._queue_notification())
        return waiting

    def cancel(self, client: HostClient, id: str | None = None) -> None:
        """Somebody cancels: their own prompts that wait, or the turn that runs."""
        withdrawn, running = self.queue.cancel(client.id, id)
        for waiting in withdrawn:
            waiting.done(PromptResult(stop_reason=StopReason.CANCELLED), None)
        if withdrawn:
            self.broadcast(self._queue_notification())
        if running is not None:
            running.is_cancelled = True
            self.cancel_turn()

    async def _run_prompts(self, waiting: QueuedPrompt | None) -> None:
        try:
            while waiting is not None:
                try:
                    waiting.done(await self._run_turn(waiting), None)
                except ProtocolError as error:
                    waiting.done(None, error)
                except ConnectionFailed as error:
                    waiting.done(None, self.prompt_error(error))
                except asyncio.CancelledError:
                    waiting.done(None, ProtocolError(Kind.INTERNAL_ERROR, self.close_reason, {"interrupted": True}))
                    raise
                except Exception as error:
                    self.host.report(f"session {self.id}: {error!r}")
                    waiting.done(None, ProtocolError(Kind.INTERNAL_ERROR, f"the host failed: {error!r}"))
                finally:
                    self.queue.finish()
                    self._turn_over.set()
                if self.queue.waiting:
                    waiting = self.queue.start_next()
                    self.broadcast(self._queue_notification())
                else:
                    waiting = None
        finally:
            self._worker = None
            self.start_idle_timer()

    async def _run_turn(self, waiting: QueuedPrompt) -> PromptResult:
        session = await self.ensure_session()
        if waiting.is_cancelled:
            return PromptResult(stop_reason=StopReason.CANCELLED)
        if self.state.open_turn is not None:
            await self.repair()
        self.log_presence()
        beside = {"connection": waiting.client_id, "promptId": waiting.id}
        async with session.prompt(waiting.prompt, by=waiting.user, log_extra=beside) as turn:
            if waiting.is_cancelled:  # while the prompt was being kept
                turn.cancel()
            result = await turn.wait()
        self.restart_backoff.reset()
        return result

    def _queue_notification(self) -> Notification:
        waiting = [{"user": one.user, "promptId": one.id, "preview": one.preview} for one in self.queue.waiting]
        return Notification("_dragoman/queue", params={"sessionId": self.id, "waiting": waiting}, topic=QUEUE)

    # --- what members have for the agent ------------------------------------------------------------------------

    def workspace_provider(self, gate: str) -> Member | None:
        """Who lends what this gate leads to; None: the host itself."""
        running = self.queue.running
        return choose_provider([*self.members.values()], gate, running.client_id if running is not None else "")

    def set_workspace_provider(self, what: str, provider: Member | None) -> None:
        """Whose files or terminals are used is shown, when it changes."""
        by = (
            HOST
            if provider is None
            else {"user": provider.client.principal.user, "client": provider.client.client_name}
        )
        if self._providers.get(what) != by:
            self._providers[what] = by
            self.broadcast(self._workspace_notification())

    def leave(self, client: HostClient) -> None:
        """A client is gone: what it lent, somebody else lends now, or the host does, and that is said."""
        super().leave(client)
        for what, gate in WORKSPACE_GATES.items():
            if self._providers.get(what, HOST) != HOST:
                self.set_workspace_provider(what, self.workspace_provider(gate))

    def broadcast_terminal_output(self, terminal: str, text: str, except_member: Member | None) -> None:
        """What a command printed, to all but who ran it and has it."""
        params = {"sessionId": self.id, "terminalId": terminal, "output": text}
        self.broadcast(
            Notification(
                "_dragoman/terminal",
                params=params,
                topic=TERMINALS,
                except_client=except_member.client.id if except_member is not None else "",
            )
        )

    def _workspace_notification(self) -> Notification:
        return Notification("_dragoman/workspace", params={"sessionId": self.id, **self._providers}, topic=PRESENCE)

    def forward_to_clients(self, incoming: Incoming, done: DoneCallback) -> tuple[bool, Awaitable[None] | None]:
        """What only clients can make sense of: whether it is theirs, and what must be awaited until it is answered."""
        said, method = incoming.values, incoming.method
        if not isinstance(said, dict) or not (is_extension(method) or method in CLIENT_NOTIFICATIONS):
            return False, None
        params = {**said, "sessionId": self.id} if "sessionId" in said else said
        if not incoming.is_request:
            news = Notification(method, params=params)
            if self.agent_questions.opening_client is not None:
                self.agent_questions.opening_client.notify(method, params)
            elif method == AUTH_STATUS_UPDATE:
                self._spawn(self._notify_owner(news))
            else:
                self.log.call_after(lambda: self.broadcast(news))
            return True, None
        member = self.workspace_provider("")
        if member is None:
            return False, None
        return True, _forward_request(member, method, params, done, self.host.limits.answer_timeout)

    async def _notify_owner(self, notification: Notification) -> None:
        """Who is logged in is nobody's affair but whose login it is."""
        user = await self.login_user()
        if user is not None:
            self.host.notify_user(user, self.state.agent, notification)

    # --- the end ------------------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether nobody is here and nothing is to be done."""
        return not self.members and not self.use_count and not self._joining_count and self.queue.is_empty

    async def close(self, why: str) -> None:
        """Nothing happens here any more: turns are interrupted, the agent ends, who waits is told."""
        self.close_reason = why
        self.is_closed = True
        for waiting in self.queue.clear():
            waiting.done(None, ProtocolError(Kind.INTERNAL_ERROR, why, {"interrupted": True}))
        if self._worker is not None and self.is_transitioning:
            self._worker.cancel()  # it waits for an agent that nobody needs any more
        await self.stop_agent(at_once=True)
        await self.wait_turn_end()
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)
        await self.wait_tasks()
        await self.log.flush()
        self.remove_members()
        self.stop_idle_timer()

    async def suspend(self, why: str) -> None:
        """End what is being done here and let everybody go; whoever comes again finds it as it was."""
        for waiting in self.queue.clear():
            waiting.done(PromptResult(stop_reason=StopReason.CANCELLED), None)
        self.cancel_turn()
        await self.wait_turn_end()
        self.broadcast(closed_notification(self.id, why))
        for member in list(self.members.values()):
            self.leave(member.client)
        await self.stop_agent()

    async def wait_turn_end(self) -> None:
        """Wait until the turn that runs now is over, as long as anybody should."""
        running = self.queue.running
        with suppress(TimeoutError):
            async with asyncio.timeout(self.host.limits.stop_timeout):
                while running is not None and self.queue.running is running:
                    self._turn_over.clear()
                    await self._turn_over.wait()


async def _forward_request(member: Member, method: str, params: Any, done: DoneCallback, timeout: float) -> None:
    done(await member.client.connection.request_raw(method, params, timeout=timeout), None)
