"""How a room keeps its agent: asleep without a process, woken by who needs it, mourned when it dies, let go when idle.

Above is the room; below are the agent of the room and its guard; who is asked for leave is beside it (consent).
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from dragoman.errors import AgentExited, ConnectionFailed, DragomanError, Kind, ProtocolError
from dragoman.host import access
from dragoman.host.auth.roles import ADMIN
from dragoman.host.pool.pool import SHARED_PROCESS
from dragoman.host.room.agent import RoomAgent, RoomClientSession, create_agent
from dragoman.host.room.questions import AgentQuestions, Questions
from dragoman.host.room.workspace import RoomWorkspaceAccess
from dragoman.roles.agent.options import value_of
from dragoman.store.session_log import SessionLog
from dragoman.store.session_state import SessionState

if TYPE_CHECKING:
    from dragoman.host.host import Host
    from dragoman.host.room.member import Member
    from dragoman.roles.client.permission.guard import Guard
    from dragoman.schema.mcp import McpServer


# After the second death in a row so long is waited, then twice as long each time, up to the longest. Seconds.
FIRST_DELAY, LONGEST_DELAY = 1.0, 60.0


class RestartBackoff:
    """The deaths of one agent since it last did something well."""

    def __init__(self) -> None:
        self.count = 0
        self._last = 0.0

    def record_crash(self, now: float) -> None:
        """It died, or could not be started."""
        self.count += 1
        self._last = now

    def reset(self) -> None:
        """A turn ended as turns do."""
        self.count = 0

    def remaining(self, now: float) -> float:
        """How long it must not be started yet."""
        if self.count < 2:
            return 0.0
        wait = min(FIRST_DELAY * 2.0 ** min(self.count - 2, 30), LONGEST_DELAY)
        return max(0.0, self._last + wait - now)

    def check(self, now: float) -> None:
        """Raise while it must not be started yet; the error says when to try again."""
        pause = self.remaining(now)
        if pause > 0:
            raise ProtocolError(
                Kind.RATE_LIMITED,
                f"the agent ended {self.count} times in a row; it is not started again for {pause:.1f} s",
                {"retryAfter": round(pause, 3), "deaths": self.count},
            )


# How long a room that is closed waits for whoever is waking it. Seconds; people wait for the host to stop.
CLOSE_TIMEOUT = 1.0


class AgentProcess(ABC):
    """The part of a room that deals with its agent."""

    log: SessionLog
    members: dict[str, Member]

    def __init__(self, host: Host, id: str, state: SessionState) -> None:
        self.host = host
        self.id = id
        self.state = state
        self.opener = "user"  # who opens the session, for its log
        self.close_reason = "the host was stopped"
        self.folders: dict[str, str] = {}  # admitted for its agent: as it is told them, and where they really are
        self.process_note = ""  # in which the agent is, once it was started: its own and why, or one that is shared
        self.is_closed = False
        self.restart_backoff = RestartBackoff()
        self.questions = Questions(lambda: self.members.values(), host.limits)
        self.agent_questions = AgentQuestions(id, self.questions, lambda: self.log)
        self._agent: RoomAgent | None = None
        self._session: RoomClientSession | None = None
        self._guard: Guard | None = None
        self._lifecycle_lock = asyncio.Lock()  # waking and going to sleep, one at a time
        self._idle_timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # agents that are being ended

    def report(self, what: str) -> None:
        """Report something about this session, to whoever runs the host."""
        self.host.report(f"session {self.id}: {what}")

    # --- waking -------------------------------------------------------------------------------------------------

    @property
    def is_awake(self) -> bool:
        """Whether its agent is there."""
        return self._session is not None and self._session.connection.failure is None

    @property
    def has_agent(self) -> bool:
        """Whether there is an agent, awake or on its way."""
        return self._agent is not None

    @property
    def agent(self) -> RoomAgent | None:
        """The agent, while it is awake."""
        return self._agent if self.is_awake else None

    @property
    def session(self) -> RoomClientSession | None:
        """The agent's session, while it is awake."""
        return self._session if self.is_awake else None

    async def open_session(self, folders: dict[str, str], **more: Any) -> RoomClientSession:
        """A new session in the first of these folders, which were admitted: start the agent and open it there.

        Its log has begun when this returns.
        """
        async with self._lifecycle_lock:
            cwd = next(iter(folders))
            agent = await self._start_agent(cwd, folders)
            try:
                session = await agent.open_session(cwd, log_id=self.id, **more)
            except BaseException:
                await self._release_agent()
                raise
            return self._set_session(session)

    async def ensure_session(self) -> RoomClientSession:
        """The agent's session; a room that sleeps is woken, by the first who needs it, for all."""
        async with self._lifecycle_lock:
            if self._session is not None and self.is_awake:
                return self._session
            if self.is_closed:
                raise ProtocolError(Kind.SESSION_NOT_FOUND, f"there is no session {self.id!r} any more")
            self.restart_backoff.check(asyncio.get_running_loop().time())
            self.host.check_session_limit(self.opener)
            await self._release_agent()
            mode = self.state.modes.current_mode_id if self.state.modes else ""
            if self.state.is_foreign:
                mode = self.host.agent_catalog.agent_of(self.state).mode
            options = {option.id: value_of(option) for option in self.state.options}
            try:
                folders = await self._admitted()
                cwd = next(iter(folders))
                agent = await self._start_agent(cwd, folders)
                session = self._set_session((await agent.continue_session(self.id, cwd)).session)
                await self._restore_settings(session, mode, options)
            except ConnectionFailed:
                self._note_crash()
                await self._release_agent()
                raise
            except BaseException:
                await self._release_agent()
                raise
            return session

    async def _admitted(self) -> dict[str, str]:
        """The folders of a session that was kept, which must be under the roots of whoever answers for it now."""
        standing, house = self.state, self.host
        here = house.agent_catalog.agent_of(standing).cwd or os.getcwd()
        folders = {path: standing.resolved.get(path, path) for path in (standing.cwd, *standing.directories) if path}
        if not standing.cwd:
            folders = {os.path.abspath(here): os.path.realpath(here)} | folders
        users = await house.responsible(self.id, self.opener)
        for roots in map(house.roots_of_user, users):
            if all(access.is_under(real, roots) for real in folders.values()):
                return folders
        message = (
            f"the agent of this session cannot be started in {next(iter(folders))}: its folders are not under those "
            f"that {', '.join(users)} may use on this host; open a new session under a folder that you may use"
        )
        raise ProtocolError(Kind.PERMISSION_DENIED, message, {"sessionId": self.id})

    async def startable(self, servers: Sequence[McpServer]) -> list[McpServer]:
        """Those of the servers in its log that it may have started: the log of a fork names those of another user."""
        house = self.host
        if not servers or any(map(house.is_local, await house.responsible(self.id, self.opener))):
            return list(servers)
        found = await house.startable(servers, next(iter(self.folders)))
        for server, ours in zip(servers, found, strict=True):
            if ours is None:
                self.report(f"its MCP server {server.name} is not started: it is not known here, and policy refuses it")
        return [ours for ours in found if ours is not None]

    def check_folders(self) -> None:
        """Refuse to go on where a folder of the session is not the one that was admitted."""
        for path in self.folders:
            self.checked_folder(path)
        cwd = next(iter(self.folders), "")
        if cwd and not os.path.isdir(cwd):
            message = f"the folder {cwd} of this session is not there; put it back, or open a new session"
            raise ProtocolError(Kind.RESOURCE_NOT_FOUND, message, {"sessionId": self.id})

    def checked_folder(self, path: str) -> str:
        """Where a folder of the session really is, which must be where it was admitted."""
        real = self.real_folder(path)
        access.check_same(path, real)
        return real

    def real_folder(self, path: str) -> str:
        """Where a folder of the session was when it was admitted; of any other path, where it leads now."""
        return self.folders.get(path) or os.path.realpath(path)

    async def _start_agent(self, cwd: str, folders: dict[str, str]) -> RoomAgent:
        house = self.host
        named = house.agent_catalog.agent_of(self.state)
        self.folders = folders
        self.check_folders()
        self.log.clear_fault()  # perhaps the store works now
        self._guard = guard = house.make_guard(self.agent_questions.ask_members)
        lend = RoomWorkspaceAccess(self, guard)  # type: ignore[arg-type]
        agent, introduction = create_agent(
            self,  # type: ignore[arg-type]
            named,
            cwd,
            workspace=lend,
            permission=partial(self.agent_questions.request_permission, guard),
            elicit=self.agent_questions.elicit,
            report=house.report,
            timeout=house.limits.open_timeout,
        )
        self._agent = agent
        self.state.agent = named.name
        try:
            await agent.start(introduction)
            house.counters.agent_starts += 1
            pid = getattr(agent.connection.transport, "pid", None)
            again = " again" if self.restart_backoff.count else ""
            self.report(f"its agent {named.name} was started{again}{'' if pid is None else f' (process {pid})'}")
            if house.pool is not None and self.process_note != SHARED_PROCESS:
                self.report(f"the process of its agent is its {self.process_note}")
            guard.set_agent(agent, named.name)
            house.agent_catalog.note_initialized(named.name, agent.initialize_result, agent.dialect)
            if (user := await self.login_user()) is not None:
                await house.accounts.replay(user, named.name, agent, house.limits.open_timeout)
        except BaseException as error:
            if isinstance(error, DragomanError):
                self.report(f"its agent {named.name} could not be started: {first_line(error)}")
            await self._release_agent(is_reported=True)
            raise
        return agent

    async def login_user(self) -> str | None:
        """Whose login the agent gets: who opened it here, as admin. A log may name anybody, that of a fork another."""
        if not self.state.seq or await self.host.session_roles.role_of(self.opener, self.id) == ADMIN:
            return self.opener
        return None

    def _set_session(self, session: Any) -> RoomClientSession:
        assert isinstance(session, RoomClientSession)
        self._session = session
        return session

    async def _restore_settings(self, session: RoomClientSession, mode: str, options: dict[str, Any]) -> None:
        """An agent that was told the session anew begins in its first mode: put it back (peers.md 57)."""
        if mode and session.offers_mode(mode) and session.mode != mode:
            await session.set_mode(mode, by="dragoman")
        for id, value in options.items():
            known = next((option for option in session.options if option.id == id), None)
            if known is not None and value_of(known) != value:
                try:
                    await session.set_option(id, value, by="dragoman")
                except ProtocolError as error:
                    self.report(f"{id} = {value!r} was not taken again: {error.message}")

    # --- sleeping -----------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def is_idle(self) -> bool:
        """Whether nobody is here and nothing is to be done."""

    def start_idle_timer(self) -> None:
        """Nobody needs the agent now, perhaps: it is let go when that lasts, and the room with it."""
        if not self.is_idle or self.is_closed or self._idle_timer is not None:
            return
        if self._agent is None and not self._lifecycle_lock.locked():
            self.host.forget_room(self.id)
            return
        self._idle_timer = asyncio.get_running_loop().call_later(self.host.limits.idle_timeout, self._on_idle)

    def _on_idle(self) -> None:
        self._idle_timer = None
        if self.is_idle and not self.is_closed:
            self._spawn(self._stop_when_idle())

    async def _stop_when_idle(self) -> None:
        await self.stop_agent()
        self.start_idle_timer()

    def stop_idle_timer(self) -> None:
        """Somebody needs it: it is not let go."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    @property
    def is_transitioning(self) -> bool:
        """Whether it is being woken or put to sleep."""
        return self._lifecycle_lock.locked()

    async def stop_agent(self, *, at_once: bool = False) -> None:
        """End the agent; everything that was said is in the log. Who wakes it meanwhile is waited for, or not."""
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT if at_once else None):
                await self._lifecycle_lock.acquire()
        except TimeoutError:
            await self._release_agent()
            return
        try:
            await self._release_agent()
        finally:
            self._lifecycle_lock.release()

    async def wait_tasks(self) -> None:
        """Return when nothing is left of the agents that were here."""
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _release_agent(self, *, is_reported: bool = False) -> None:
        agent, guard = self._agent, self._guard
        if self.is_awake and not is_reported:
            self.report("its agent is let go")
        self._agent = self._session = self._guard = None
        if agent is not None:
            await asyncio.shield(self._spawn(_close_agent(agent, guard)))
            await self.log.flush()

    # --- dying --------------------------------------------------------------------------------------------------

    def on_agent_lost(self, session: RoomClientSession, error: ConnectionFailed) -> None:
        """The agent is gone, by itself."""
        if not session.is_closing:
            self.report(f"its agent died: {first_line(error)}")
            self._note_crash()
            self._spawn(self._clean_up(session))

    async def _clean_up(self, session: RoomClientSession) -> None:
        """Let go of what is left of an agent that died, pipes and all; the next prompt may come much later."""
        async with self._lifecycle_lock:
            if self._session is session:
                await self._release_agent()
        self.start_idle_timer()

    def _note_crash(self) -> None:
        self.restart_backoff.record_crash(asyncio.get_running_loop().time())
        self.host.counters.agent_crashes += 1

    def prompt_error(self, error: ConnectionFailed) -> ProtocolError:
        """What a prompter is told when the agent died in the middle."""
        if self.is_closed:
            return ProtocolError(Kind.INTERNAL_ERROR, self.close_reason, {"interrupted": True})
        data: dict[str, Any] = {"agent": "exited"}
        if isinstance(error, AgentExited):
            data |= {"status": error.status, "stderr": error.stderr[-2000:]}
        return ProtocolError(Kind.INTERNAL_ERROR, f"{error}; the next prompt starts the agent again", data)

    def cancel_turn(self) -> None:
        """Let the running turn end."""
        if self._session is not None and self.is_awake:
            self._session.cancel()


def first_line(error: Exception) -> str:
    """The beginning of what is said of an error: the last words of an agent may be many."""
    lines = str(error).splitlines() or [repr(error)]
    return lines[0] if len(lines) == 1 else f"{lines[0]} …"


async def _close_agent(agent: RoomAgent, guard: Guard | None) -> None:
    with suppress(Exception):  # it is gone either way
        await agent.close()
    if guard is not None:
        await guard.close()
