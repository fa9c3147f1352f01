"""Start, stop and restart the agent of a room: on demand, after a crash, and when the room is idle."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from dragoman.errors import AgentExited, ConnectionFailed, DragomanError, Kind, ProtocolError
from dragoman.host import access
from dragoman.host.auth.roles import ADMIN
from dragoman.host.pool.pool import SHARED_PROCESS
from dragoman.host.room.agent import create_agent
from dragoman.roles.agent.options import value_of
from dragoman.roles.client.logged_sessions import stored_setup

if TYPE_CHECKING:
    from dragoman.host.room.room import Room
    from dragoman.roles.client.permission.guard import Guard
    from dragoman.roles.client.remote_agent import RemoteAgent
    from dragoman.roles.client.session import ClientSession
    from dragoman.schema.mcp import McpServer


# After the second crash in a row the restart waits this long, then twice as long each time, up to the longest. Seconds.
FIRST_DELAY, LONGEST_DELAY = 1.0, 60.0


class RestartBackoff:
    """Counts crashes in a row, and delays the next start."""

    def __init__(self) -> None:
        self.count = 0
        self._last = 0.0

    def record_crash(self, now: float) -> None:
        """Count a crash or a failed start."""
        self.count += 1
        self._last = now

    def reset(self) -> None:
        """Forget the crashes, because a turn ended normally."""
        self.count = 0

    def remaining(self, now: float) -> float:
        """Return how long the next start has to wait. Seconds."""
        if self.count < 2:
            return 0.0
        wait = min(FIRST_DELAY * 2.0 ** min(self.count - 2, 30), LONGEST_DELAY)
        return max(0.0, self._last + wait - now)

    def check(self, now: float) -> None:
        """Raise while the next start has to wait. The error says when to retry."""
        pause = self.remaining(now)
        if pause > 0:
            raise ProtocolError(
                Kind.RATE_LIMITED,
                f"the agent crashed {self.count} times in a row; try again in {pause:.1f} s",
                {"retryAfter": round(pause, 3), "deaths": self.count},
            )


# How long closing a room waits for a start that is under way. Seconds; the host waits for it when it stops.
CLOSE_TIMEOUT = 1.0


class AgentProcess:
    """The part of a room that deals with its agent."""

    def __init__(self, room: Room) -> None:
        self._room: Room = room
        self._host = room.host
        self.folders: dict[str, str] = {}  # checked folders: the path the agent is given, and where it leads
        self.process_note = ""  # "shared", or "own" with the reason; set when the agent starts
        self.backoff = RestartBackoff()
        self._agent: RemoteAgent | None = None
        self._session: ClientSession | None = None
        self._guard: Guard | None = None
        self._lifecycle_lock = asyncio.Lock()  # one start or stop at a time

    # --- starting -------------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Tell whether the agent is running."""
        return self._session is not None and self._session.connection.failure is None

    @property
    def is_started(self) -> bool:
        """Tell whether there is an agent, running or starting."""
        return self._agent is not None

    @property
    def has_crashed(self) -> bool:
        """Tell whether the agent exited by itself and no prompt has succeeded since."""
        return self.backoff.count > 0 and not self.is_running

    @property
    def remote(self) -> RemoteAgent | None:
        """The agent, while it is running."""
        return self._agent if self.is_running else None

    @property
    def session(self) -> ClientSession | None:
        """The agent's session, while the agent is running."""
        return self._session if self.is_running else None

    async def open_session(self, folders: dict[str, str], **more: Any) -> ClientSession:
        """Start the agent and open a new session in the first of these checked folders.

        The log has its first entry when this returns.
        """
        async with self._lifecycle_lock:
            cwd = next(iter(folders))
            agent = await self._start(cwd, folders)
            try:
                session = self._session = await agent.open_session(cwd, log_id=self._room.id, **more)
            except BaseException:
                await self._release()
                raise
            return session

    async def ensure_session(self) -> ClientSession:
        """Return the agent's session. Start the agent if needed, once for all callers."""
        async with self._lifecycle_lock:
            if self._session is not None and self.is_running:
                return self._session
            self._room.check_open()
            if self._host.fleet is not None:
                self._host.fleet.ownership.check_may_start()
            self.backoff.check(asyncio.get_running_loop().time())
            await self._host.make_space(self._room.opener)
            await self._release()
            state = self._room.state
            mode = state.modes.current_mode_id if state.modes else ""
            if state.is_foreign:
                mode = self._host.agent_catalog.agent_of(state).mode
            options = {option.id: value_of(option) for option in state.options}
            try:
                folders = await self._checked_folders()
                cwd = next(iter(folders))
                agent = await self._start(cwd, folders)
                session = self._session = await self._continue_session(agent, cwd)
                await self._restore_settings(session, mode, options)
            except ConnectionFailed:
                self._note_crash()
                await self._release()
                raise
            except BaseException:
                await self._release()
                raise
            return session

    async def _continue_session(self, agent: RemoteAgent, cwd: str) -> ClientSession:
        """Continue the stored session with the folders and servers it had, if these are checked and allowed."""
        store = self._host.store
        directories, servers = await stored_setup(store, await store.find(self._room.id))
        continued = await agent.continue_session(
            self._room.id,
            cwd,
            mcp_servers=await self.startable_servers(servers),
            directories=[path for path in directories if path in self.folders],
            restore_setup=False,
        )
        return continued.session

    async def _checked_folders(self) -> dict[str, str]:
        """Return the folders of a stored session, which must be under the roots of a user responsible for it."""
        if self._host.fleet is not None and (made := await self._host.fleet.workspaces.folders_of(self._room)):
            return made
        state, host = self._room.state, self._host
        default_cwd = host.agent_catalog.agent_of(state).cwd or os.getcwd()
        folders = {path: state.resolved.get(path, path) for path in (state.cwd, *state.directories) if path}
        if not state.cwd:
            folders = {os.path.abspath(default_cwd): os.path.realpath(default_cwd)} | folders
        users = await host.responsible_users(self._room.id, self._room.opener)
        for roots in map(host.roots_of_user, users):
            if all(access.is_under(real, roots) for real in folders.values()):
                return folders
        message = (
            f"the agent of this session cannot be started in {next(iter(folders))}: its folders are not under those "
            f"that {', '.join(users)} may use on this host; open a new session under a folder that you may use"
        )
        raise ProtocolError(Kind.PERMISSION_DENIED, message, {"sessionId": self._room.id})

    async def startable_servers(self, servers: Sequence[McpServer]) -> list[McpServer]:
        """Return the servers from the log that may be started. The log of a fork may name servers of another user."""
        host = self._host
        if not servers or any(map(host.is_local, await host.responsible_users(self._room.id, self._room.opener))):
            return list(servers)
        found = await host.startable_servers(servers, next(iter(self.folders)))
        for server, resolved in zip(servers, found, strict=True):
            if resolved is None:
                self._room.report(
                    f"its MCP server {server.name} is not started: it is not configured here, and policy refuses it"
                )
        return [resolved for resolved in found if resolved is not None]

    @property
    def _is_remote(self) -> bool:
        return self._host.agent_catalog.agent_of(self._room.state).is_remote

    async def working_folder(self) -> str:
        """Return where the agent works or would be started; "" if that is elsewhere. Raise as a start would."""
        if self._is_remote or not self._room.is_owner:
            return ""
        folders = self.folders if self.is_running else await self._checked_folders()
        cwd, real = next(iter(folders.items()))
        access.check_folder_unchanged(cwd, real)
        return real

    def check_folders(self) -> None:
        """Raise if a folder of the session is not the one that was checked. An agent elsewhere has its own."""
        if self._is_remote:
            return
        for path in self.folders:
            self.checked_folder(path)
        cwd = next(iter(self.folders), "")
        if cwd and not os.path.isdir(cwd):
            message = f"the folder {cwd} of this session does not exist; restore it, or open a new session"
            raise ProtocolError(Kind.RESOURCE_NOT_FOUND, message, {"sessionId": self._room.id})

    def checked_folder(self, path: str) -> str:
        """Return where a folder of the session leads. Raise if that changed since it was checked."""
        if self._is_remote:
            return path
        real = self.real_folder(path)
        access.check_folder_unchanged(path, real)
        return real

    def real_folder(self, path: str) -> str:
        """Return where a folder of the session led when it was checked; for any other path, where it leads now."""
        return self.folders.get(path) or os.path.realpath(path)

    async def _start(self, cwd: str, folders: dict[str, str]) -> RemoteAgent:
        host = self._host
        agent_config = host.agent_catalog.agent_of(self._room.state)
        self.folders = folders
        self.check_folders()
        self._room.log.clear_fault()  # the store may work again
        self._guard = guard = host.make_guard(self._room.agent_questions.ask_members)
        workspace = self._room.workspace.for_agent(guard)
        agent, params = create_agent(
            self._room,
            agent_config,
            cwd,
            workspace=workspace,
            permission=partial(self._room.agent_questions.request_permission, guard),
            elicit=self._room.agent_questions.elicit,
            report=host.report,
            timeout=host.limits.open_timeout,
        )
        self._agent = agent
        self._room.state.agent = agent_config.name
        try:
            await agent.start(params)
            host.counters.agent_starts += 1
            pid = getattr(agent.connection.transport, "pid", None)
            again = " again" if self.backoff.count else ""
            self._room.report(
                f"its agent {agent_config.name} was started{again}{'' if pid is None else f' (process {pid})'}"
            )
            if host.pool is not None and self.process_note != SHARED_PROCESS:
                self._room.report(f"agent process: {self.process_note}")
            guard.set_agent(agent, agent_config.name)
            host.agent_catalog.note_initialized(agent_config.name, agent.initialize_result, agent.dialect)
            if agent.connection.dialect.is_wide:
                self._room.members.narrow_updates()
            if (user := await self.login_user()) is not None:
                await host.accounts.replay(user, agent_config.name, agent, host.limits.open_timeout)
        except BaseException as error:
            if isinstance(error, DragomanError):
                self._room.report(f"its agent {agent_config.name} could not be started: {first_line(error)}")
            await self._release(is_reported=True)
            raise
        return agent

    async def login_user(self) -> str | None:
        """Return the user whose login the agent gets: the opener, if admin here. The log of a fork may name others."""
        room = self._room
        is_admin = not room.state.seq or await self._host.session_roles.role_of(room.opener, room.id) == ADMIN
        return room.opener if is_admin else None

    async def _restore_settings(self, session: ClientSession, mode: str, options: dict[str, Any]) -> None:
        """Set mode and options again, because an agent that was told the history starts in its default mode
        (docs/protocol/peers.md#restored-mode).
        """
        if mode and session.offers_mode(mode) and session.mode != mode:
            await session.set_mode(mode, by="dragoman")
        for id, value in options.items():
            known = next((option for option in session.options if option.id == id), None)
            if known is not None and value_of(known) != value:
                try:
                    await session.set_option(id, value, by="dragoman")
                except ProtocolError as error:
                    self._room.report(f"{id} = {value!r} could not be set again: {error.message}")

    # --- stopping -------------------------------------------------------------------------------------------------

    @property
    def is_transitioning(self) -> bool:
        """Tell whether the agent is being started or stopped."""
        return self._lifecycle_lock.locked()

    async def stop(self, *, at_once: bool = False) -> None:
        """Stop the agent. The session stays in the log. With `at_once` do not wait long for a start under way."""
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT if at_once else None):
                await self._lifecycle_lock.acquire()
        except TimeoutError:
            await self._release()
            return
        try:
            await self._release()
        finally:
            self._lifecycle_lock.release()

    async def _release(self, *, is_reported: bool = False) -> None:
        agent, guard = self._agent, self._guard
        if self.is_running and not is_reported:
            self._room.report("its agent is stopped")
        self._agent = self._session = self._guard = None
        self._room.workspace.release()
        if agent is not None:
            await asyncio.shield(self._room.spawn(_close_agent(agent, guard)))
            await self._room.log.flush()

    # --- crashes --------------------------------------------------------------------------------------------------

    def on_lost(self, session: ClientSession, error: ConnectionFailed) -> None:
        """Handle an agent that exited by itself."""
        if not session.is_closing:
            self._room.report(f"its agent exited: {first_line(error)}")
            self._note_crash()
            self._room.spawn(self._clean_up(session))

    async def _clean_up(self, session: ClientSession) -> None:
        """Release the pipes and the process group of an agent that exited; the next prompt may come much later."""
        async with self._lifecycle_lock:
            if self._session is session:
                await self._release()
        self._room.start_idle_timer()

    def _note_crash(self) -> None:
        self.backoff.record_crash(asyncio.get_running_loop().time())
        self._host.counters.agent_crashes += 1

    def prompt_error(self, error: ConnectionFailed) -> ProtocolError:
        """Return the error of a prompt whose agent exited."""
        if self._room.is_closed:
            return access.interrupted_error(self._room.close_reason)
        data: dict[str, Any] = {"agent": "exited"}
        if isinstance(error, AgentExited):
            data |= {"status": error.status, "stderr": error.stderr[-2000:]}
        return ProtocolError(Kind.INTERNAL_ERROR, f"{error}; the next prompt starts the agent again", data)

    def cancel_turn(self) -> None:
        """Cancel the running turn."""
        if self._session is not None and self.is_running:
            self._session.cancel()


def first_line(error: Exception) -> str:
    """Return the first line of an error, because the stderr of an agent may be long."""
    lines = str(error).splitlines() or [repr(error)]
    return lines[0] if len(lines) == 1 else f"{lines[0]} …"


async def _close_agent(agent: RemoteAgent, guard: Guard | None) -> None:
    with suppress(Exception):  # it is gone in any case
        await agent.close()
    if guard is not None:
        await guard.close()
