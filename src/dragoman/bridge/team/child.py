"""Child: one session of one agent of a team, with a process of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from dragoman.bridge.team.messages import TeamAnswer
from dragoman.config.config_file import NamedAgent
from dragoman.errors import DragomanError, Kind, ProtocolError
from dragoman.roles.agent.agent import Agent
from dragoman.roles.client.connect import connect
from dragoman.schema.content import ContentBlock, TextContent
from dragoman.schema.update import AgentMessage, AgentMessageChunk, UsageUpdate
from dragoman.session.transcript import Transcript
from dragoman.store.contract import EntryKind
from dragoman.transport.memory import memory_pair

if TYPE_CHECKING:
    from dragoman.bridge.team.team import Team
    from dragoman.roles.client.remote_agent import RemoteAgent
    from dragoman.roles.client.session import ClientSession
    from dragoman.roles.client.turn import ClientTurn
    from dragoman.workspace.tree_member import TreeMember

# How long an agent may take to start, and to end a turn that was cancelled before its process is ended. Seconds.
START_TIMEOUT = 120.0
CANCEL_TIMEOUT = 10.0

# Gets each update of a turn.
OnUpdate = Callable[["Child", Any], Awaitable[None] | None]


class Child:
    """One session of one agent of a team."""

    def __init__(self, team: Team, name: str, id: str, target: NamedAgent | Agent, cwd: str) -> None:
        self.team = team
        self.name = name  # of the agent
        self.id = id  # its name in the team, with a number if the agent has several sessions
        self.cwd = cwd
        self.waits_for: Child | None = None  # the one whose answer it waits for
        self.member: TreeMember | None = None  # of the tree, since it first used a file or a command
        self.is_done = False  # whether it called the tool `done`
        self.result = ""
        self._target = target
        self._stack = AsyncExitStack()
        self._remote: RemoteAgent | None = None
        self._session: ClientSession | None = None
        self._turn: ClientTurn | None = None
        self._lock = asyncio.Lock()
        self._asker: Child | None = None

    @property
    def session(self) -> ClientSession:
        """The session of the agent; raises if it is not open."""
        if self._session is None:
            raise ProtocolError(Kind.INVALID_STATE, f"{self.id} has no open session")
        return self._session

    @property
    def session_id(self) -> str:
        """The id of the session, or "" while it is not open."""
        return self._session.id if self._session is not None else ""

    @property
    def is_busy(self) -> bool:
        """Whether a turn runs or waits to run."""
        return self._lock.locked()

    @property
    def embeds(self) -> bool:
        """Whether the agent takes embedded resources."""
        capabilities = self._remote.capabilities.prompt_capabilities if self._remote is not None else None
        return bool(capabilities and capabilities.embedded_context)

    @property
    def asker(self) -> Child | None:
        """The one that waits for its answer."""
        return self._asker

    @property
    def chain(self) -> Iterator[Child]:
        """This one, the one that asked it, the one that asked that one, and so on."""
        child: Child | None = self
        while child is not None:
            yield child
            child = child._asker

    # --- opening ----------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Start the agent and open its session; do nothing if they run."""
        if self._session is not None and self._session.connection.failure is None:
            return
        await self._stack.aclose()
        self._remote = self._session = None
        try:
            async with asyncio.timeout(START_TIMEOUT):
                await self._open()
        except TimeoutError:
            await self._stack.aclose()
            raise ProtocolError(Kind.TIMEOUT, f"{self.id} did not start within {START_TIMEOUT:g} s") from None
        except BaseException:
            await self._stack.aclose()
            raise

    async def _open(self) -> None:
        access = self.team.access_for(self)
        options: dict[str, Any] = {
            "cwd": self.cwd,
            "permission": access.permission,
            "workspace": access.workspace,
            "elicit": access.elicit,
            "tools": self.team.tools_for(self),
            "store": self.team.store,
            "report": self.team.report,
            "initialize_timeout": START_TIMEOUT,
        }
        target: Any = self._target
        mode = None
        if isinstance(target, Agent):
            ours, theirs = memory_pair()
            connection = target.start_connection(theirs)
            self._stack.push_async_callback(connection.close)
            target = ours
        else:
            mode = target.mode or None
            options |= {"env": dict(target.env) or None, "dialect": target.dialect, "sandbox": target.confinement}
            target = target.argv
        self._remote = remote = await self._stack.enter_async_context(connect(target, **options))
        self._stack.push_async_callback(access.close)
        access.bind(remote)
        self._session = await remote.open_session(self.cwd, mode=mode)

    async def close(self) -> None:
        """End the agent."""
        session, self._session = self._session, None
        if session is not None:
            session.cancel()
        await asyncio.shield(self._stack.aclose())

    # --- turns ------------------------------------------------------------------------------------------------

    async def run(
        self,
        content: str | Sequence[ContentBlock],
        *,
        asker: Child | None = None,
        by: str = "user",
        on_update: OnUpdate | None = None,
        timeout: float | None = None,
    ) -> TeamAnswer:
        """Run a turn and return its answer; wait for the turn before."""
        async with self._lock:
            self._asker = asker
            self._lend_leases(asker)
            try:
                await self.open()
                self.team.budget.begin_turn()
                return await self._run_turn(content, by, on_update, timeout)
            finally:
                self._asker = None
                self._lend_leases(None)

    def _lend_leases(self, asker: Child | None) -> None:
        if self.member is not None:
            self.member.asker = asker.member if asker is not None else None

    def note_member(self, session_id: str, member: TreeMember) -> None:
        """Note the member of the tree, when the session first uses a file or a command."""
        self.member = member
        self._lend_leases(self._asker)

    async def _run_turn(
        self, content: str | Sequence[ContentBlock], by: str, on_update: OnUpdate | None, timeout: float | None
    ) -> TeamAnswer:
        session, answer, started = self.session, Transcript(), time.monotonic()
        blocks = [TextContent(text=content)] if isinstance(content, str) else list(content)
        self._turn = turn = session.prompt(blocks, by=by, timeout=timeout)
        failure: DragomanError | None = None
        try:
            async with turn:
                async for update in turn:
                    failure = failure or self._spend(update, turn)
                    if type(update) is AgentMessage or type(update) is AgentMessageChunk:
                        answer.add(update)
                    work = None if on_update is None else on_update(self, update)
                    if work is not None:
                        await work
        except asyncio.CancelledError:
            await asyncio.shield(self._settle(turn))
            raise
        finally:
            self._turn = None
        if failure is not None:
            raise failure
        tokens = turn.usage.total_tokens if turn.usage is not None else 0
        self.team.budget.add_usage(turn.usage)
        return TeamAnswer(
            agent=self.name,
            text="".join(message.text for message in answer.messages),
            stop_reason=turn.stop_reason or "",
            session_id=session.id,
            tokens=tokens,
            cost=_cost_of(session.usage),
            seconds=round(time.monotonic() - started, 3),
        )

    def _spend(self, update: Any, turn: ClientTurn) -> DragomanError | None:
        """Note the cost of an update; cancel the turn and return the error if the budget is spent."""
        if type(update) is not UsageUpdate or not update.cost:
            return None
        self.team.budget.note_cost(self, update.cost.amount)
        try:
            self.team.budget.check()
        except ProtocolError as error:
            turn.cancel("the budget is spent")
            return error
        return None

    async def _settle(self, turn: ClientTurn) -> None:
        """Wait for the end of a cancelled turn; end an agent that does not end it."""
        try:
            async with asyncio.timeout(CANCEL_TIMEOUT):
                await turn.wait()
        except (TimeoutError, DragomanError):
            if not turn.is_over:
                await self.close()

    def log_message(self, sender: Child | None) -> None:
        """Log who sent the prompt that follows."""
        if sender is not None:
            body = {"message": {"from": sender.id, "session": sender.session_id}}
            self.session.log.append(EntryKind.MEMBER, body, actor=f"agent {sender.id}")

    def cancel(self) -> None:
        """Cancel the running turn."""
        if self._turn is not None:
            self._turn.cancel()


def _cost_of(usage: UsageUpdate | None) -> float:
    return usage.cost.amount if usage is not None and usage.cost else 0.0


async def gather_all(
    work: Sequence[asyncio.Task[TeamAnswer]], *, stop_on_error: bool = False
) -> list[TeamAnswer | DragomanError]:
    """Wait for all; return answers and errors in order. If this is cancelled, all are, and it waits for their ends."""
    try:
        when = asyncio.FIRST_EXCEPTION if stop_on_error else asyncio.ALL_COMPLETED
        await asyncio.wait(work, return_when=when)
    finally:
        for task in work:
            task.cancel()
        results = await asyncio.gather(*work, return_exceptions=True)
    failures = [each for each in results if isinstance(each, BaseException)]
    unexpected = [each for each in failures if not isinstance(each, DragomanError | asyncio.CancelledError)]
    own = [each for each in failures if isinstance(each, DragomanError)]
    for error in [*unexpected, *(own if stop_on_error else ())]:
        raise error
    return [each for each in results if isinstance(each, TeamAnswer | DragomanError)]
