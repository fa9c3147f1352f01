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
from dragoman.host.pool.pool import SHARES
from dragoman.host.room.agent import RoomAgent, RoomConversation, engage
from dragoman.host.room.questions import Consent, Questions
from dragoman.host.room.workspace import RoomLending
from dragoman.roles.agent.options import value_of
from dragoman.store.session_log import Chronicle
from dragoman.store.session_state import Standing

if TYPE_CHECKING:
    from dragoman.host.host import House
    from dragoman.host.room.member import Member
    from dragoman.roles.client.permission.guard import Guard
    from dragoman.schema.mcp import McpServer


# After the second death in a row so long is waited, then twice as long each time, up to the longest. Seconds.
FIRST, LONGEST = 1.0, 60.0


class Crashes:
    """The deaths of one agent since it last did something well."""

    def __init__(self) -> None:
        self.count = 0
        self._last = 0.0

    def died(self, now: float) -> None:
        """It died, or could not be started."""
        self.count += 1
        self._last = now

    def lived(self) -> None:
        """A turn ended as turns do."""
        self.count = 0

    def pause(self, now: float) -> float:
        """How long it must not be started yet."""
        if self.count < 2:
            return 0.0
        wait = min(FIRST * 2.0 ** min(self.count - 2, 30), LONGEST)
        return max(0.0, self._last + wait - now)

    def check(self, now: float) -> None:
        """Raise while it must not be started yet; the error says when to try again."""
        pause = self.pause(now)
        if pause > 0:
            raise ProtocolError(
                Kind.RATE_LIMITED,
                f"the agent ended {self.count} times in a row; it is not started again for {pause:.1f} s",
                {"retryAfter": round(pause, 3), "deaths": self.count},
            )


# How long a room that is closed waits for whoever is waking it. Seconds; people wait for the host to stop.
HURRY = 1.0


class Keeping(ABC):
    """The part of a room that deals with its agent."""

    chronicle: Chronicle
    members: dict[str, Member]

    def __init__(self, house: House, id: str, standing: Standing) -> None:
        self.house = house
        self.id = id
        self.standing = standing
        self.opener = "user"  # who opens the session, for its log
        self.why_closing = "the host was stopped"
        self.folders: dict[str, str] = {}  # admitted for its agent: as it is told them, and where they really are
        self.process = ""  # in which the agent is, once it was started: its own and why, or one that is shared
        self.is_over = False
        self.crashes = Crashes()
        self.questions = Questions(lambda: self.members.values(), house.bounds)
        self.consent = Consent(id, self.questions, lambda: self.chronicle)
        self._agent: RoomAgent | None = None
        self._session: RoomConversation | None = None
        self._guard: Guard | None = None
        self._moving = asyncio.Lock()  # waking and going to sleep, one at a time
        self._alarm: asyncio.TimerHandle | None = None
        self._going: set[asyncio.Task[None]] = set()  # agents that are being ended

    def say(self, what: str) -> None:
        """Report something about this session, to whoever runs the host."""
        self.house.report(f"session {self.id}: {what}")

    # --- waking -------------------------------------------------------------------------------------------------

    @property
    def is_awake(self) -> bool:
        """Whether its agent is there."""
        return self._session is not None and self._session.connection.failure is None

    @property
    def is_held(self) -> bool:
        """Whether there is an agent, awake or on its way."""
        return self._agent is not None

    @property
    def agent(self) -> RoomAgent | None:
        """The agent, while it is awake."""
        return self._agent if self.is_awake else None

    @property
    def session(self) -> RoomConversation | None:
        """The agent's session, while it is awake."""
        return self._session if self.is_awake else None

    async def begin(self, folders: dict[str, str], **more: Any) -> RoomConversation:
        """A new session in the first of these folders, which were admitted: start the agent and open it there.

        Its log has begun when this returns.
        """
        async with self._moving:
            cwd = next(iter(folders))
            agent = await self._start(cwd, folders)
            try:
                session = await agent.open(cwd, log=self.id, **more)
            except BaseException:
                await self._let_go()
                raise
            return self._entered(session)

    async def awake(self) -> RoomConversation:
        """The agent's session; a room that sleeps is woken, by the first who needs it, for all."""
        async with self._moving:
            if self._session is not None and self.is_awake:
                return self._session
            if self.is_over:
                raise ProtocolError(Kind.SESSION_NOT_FOUND, f"there is no session {self.id!r} any more")
            self.crashes.check(asyncio.get_running_loop().time())
            self.house.check_awake(self.opener)
            await self._let_go()
            mode = self.standing.modes.current_mode_id if self.standing.modes else ""
            if self.standing.is_foreign:
                mode = self.house.roster.of(self.standing).mode
            options = {option.id: value_of(option) for option in self.standing.options}
            try:
                folders = await self._admitted()
                cwd = next(iter(folders))
                agent = await self._start(cwd, folders)
                session = self._entered((await agent.go_on(self.id, cwd)).session)
                await self._set_again(session, mode, options)
            except ConnectionFailed:
                self._died()
                await self._let_go()
                raise
            except BaseException:
                await self._let_go()
                raise
            return session

    async def _admitted(self) -> dict[str, str]:
        """The folders of a session that was kept, which must be under the roots of whoever answers for it now."""
        standing, house = self.standing, self.house
        here = house.roster.of(standing).cwd or os.getcwd()
        folders = {path: standing.resolved.get(path, path) for path in (standing.cwd, *standing.directories) if path}
        if not standing.cwd:
            folders = {os.path.abspath(here): os.path.realpath(here)} | folders
        users = await house.responsible(self.id, self.opener)
        for roots in map(house.roots_of, users):
            if all(access.is_under(real, roots) for real in folders.values()):
                return folders
        message = (
            f"the agent of this session cannot be started in {next(iter(folders))}: its folders are not under those "
            f"that {', '.join(users)} may use on this host; open a new session under a folder that you may use"
        )
        raise ProtocolError(Kind.PERMISSION_DENIED, message, {"sessionId": self.id})

    async def startable(self, servers: Sequence[McpServer]) -> list[McpServer]:
        """Those of the servers in its log that it may have started: the log of a fork names those of another user."""
        house = self.house
        if not servers or any(map(house.is_local, await house.responsible(self.id, self.opener))):
            return list(servers)
        found = await house.startable(servers, next(iter(self.folders)))
        for server, ours in zip(servers, found, strict=True):
            if ours is None:
                self.say(f"its MCP server {server.name} is not started: it is not known here, and policy refuses it")
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

    async def _start(self, cwd: str, folders: dict[str, str]) -> RoomAgent:
        house = self.house
        named = house.roster.of(self.standing)
        self.folders = folders
        self.check_folders()
        self.chronicle.try_again()  # perhaps the store works now
        self._guard = guard = house.guard(self.consent.ask_members)
        lend = RoomLending(self, guard)  # type: ignore[arg-type]
        agent, introduction = engage(
            self,  # type: ignore[arg-type]
            named,
            cwd,
            lend=lend,
            permission=partial(self.consent.permission, guard),
            elicit=self.consent.elicit,
            report=house.report,
            timeout=house.bounds.opening,
        )
        self._agent = agent
        self.standing.agent = named.name
        try:
            await agent.start(introduction)
            house.tally.starts += 1
            pid = getattr(agent.connection.transport, "pid", None)
            again = " again" if self.crashes.count else ""
            self.say(f"its agent {named.name} was started{again}{'' if pid is None else f' (process {pid})'}")
            if house.pool is not None and self.process != SHARES:
                self.say(f"the process of its agent is its {self.process}")
            guard.attend(agent, named.name)
            house.roster.met(named.name, agent.introduction, agent.dialect)
            if (user := await self.whose()) is not None:
                await house.accounts.replay(user, named.name, agent, house.bounds.opening)
        except BaseException as error:
            if isinstance(error, DragomanError):
                self.say(f"its agent {named.name} could not be started: {brief(error)}")
            await self._let_go(is_told=True)
            raise
        return agent

    async def whose(self) -> str | None:
        """Whose login the agent gets: who opened it here, as admin. A log may name anybody, that of a fork another."""
        if not self.standing.seq or await self.house.directory.role_of(self.opener, self.id) == ADMIN:
            return self.opener
        return None

    def _entered(self, session: Any) -> RoomConversation:
        assert isinstance(session, RoomConversation)
        self._session = session
        return session

    async def _set_again(self, session: RoomConversation, mode: str, options: dict[str, Any]) -> None:
        """An agent that was told the session anew begins in its first mode: put it back (peers.md 57)."""
        if mode and session.offers_mode(mode) and session.mode != mode:
            await session.set_mode(mode, by="dragoman")
        for id, value in options.items():
            known = next((option for option in session.options if option.id == id), None)
            if known is not None and value_of(known) != value:
                try:
                    await session.set_option(id, value, by="dragoman")
                except ProtocolError as error:
                    self.say(f"{id} = {value!r} was not taken again: {error.message}")

    # --- sleeping -----------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def is_idle(self) -> bool:
        """Whether nobody is here and nothing is to be done."""

    def rest(self) -> None:
        """Nobody needs the agent now, perhaps: it is let go when that lasts, and the room with it."""
        if not self.is_idle or self.is_over or self._alarm is not None:
            return
        if self._agent is None and not self._moving.locked():
            self.house.forget(self.id)
            return
        self._alarm = asyncio.get_running_loop().call_later(self.house.bounds.idle, self._doze)

    def _doze(self) -> None:
        self._alarm = None
        if self.is_idle and not self.is_over:
            self._do(self._go_to_sleep())

    async def _go_to_sleep(self) -> None:
        await self.sleep()
        self.rest()

    def rouse(self) -> None:
        """Somebody needs it: it is not let go."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    @property
    def is_moving(self) -> bool:
        """Whether it is being woken or put to sleep."""
        return self._moving.locked()

    async def sleep(self, *, at_once: bool = False) -> None:
        """End the agent; everything that was said is in the log. Who wakes it meanwhile is waited for, or not."""
        try:
            async with asyncio.timeout(HURRY if at_once else None):
                await self._moving.acquire()
        except TimeoutError:
            await self._let_go()
            return
        try:
            await self._let_go()
        finally:
            self._moving.release()

    async def gone(self) -> None:
        """Return when nothing is left of the agents that were here."""
        if self._going:
            await asyncio.gather(*self._going, return_exceptions=True)

    def _do(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._going.add(task)
        task.add_done_callback(self._going.discard)
        return task

    async def _let_go(self, *, is_told: bool = False) -> None:
        agent, guard = self._agent, self._guard
        if self.is_awake and not is_told:
            self.say("its agent is let go")
        self._agent = self._session = self._guard = None
        if agent is not None:
            await asyncio.shield(self._do(_ended(agent, guard)))
            await self.chronicle.flush()

    # --- dying --------------------------------------------------------------------------------------------------

    def lost(self, session: RoomConversation, error: ConnectionFailed) -> None:
        """The agent is gone, by itself."""
        if not session.is_closing:
            self.say(f"its agent died: {brief(error)}")
            self._died()
            self._do(self._bury(session))

    async def _bury(self, session: RoomConversation) -> None:
        """Let go of what is left of an agent that died, pipes and all; the next prompt may come much later."""
        async with self._moving:
            if self._session is session:
                await self._let_go()
        self.rest()

    def _died(self) -> None:
        self.crashes.died(asyncio.get_running_loop().time())
        self.house.tally.crashes += 1

    def explained(self, error: ConnectionFailed) -> ProtocolError:
        """What a prompter is told when the agent died in the middle."""
        if self.is_over:
            return ProtocolError(Kind.INTERNAL_ERROR, self.why_closing, {"interrupted": True})
        data: dict[str, Any] = {"agent": "exited"}
        if isinstance(error, AgentExited):
            data |= {"status": error.status, "stderr": error.stderr[-2000:]}
        return ProtocolError(Kind.INTERNAL_ERROR, f"{error}; the next prompt starts the agent again", data)

    def cancel_turn(self) -> None:
        """Let the running turn end."""
        if self._session is not None and self.is_awake:
            self._session.cancel()


def brief(error: Exception) -> str:
    """The beginning of what is said of an error: the last words of an agent may be many."""
    lines = str(error).splitlines() or [repr(error)]
    return lines[0] if len(lines) == 1 else f"{lines[0]} …"


async def _ended(agent: RoomAgent, guard: Guard | None) -> None:
    with suppress(Exception):  # it is gone either way
        await agent.close()
    if guard is not None:
        await guard.close()
