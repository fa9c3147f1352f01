"""Team: several agents on one task. They ask and tell each other through it, and share policy, budget and tree."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any

from dragoman.bridge.team.access import ChildAccess, MakeGuard, Route, guarded_access, plain_access
from dragoman.bridge.team.bounds import Budget, TeamBounds, bound_error
from dragoman.bridge.team.child import Child, OnUpdate, gather_all
from dragoman.bridge.team.events import EventLog, TeamEvent
from dragoman.bridge.team.messages import MAX_CHARACTERS, TeamAnswer, message_blocks
from dragoman.bridge.team.targets import AgentTarget, resolve_target
from dragoman.errors import DragomanError, Kind, ProtocolError
from dragoman.schema.content import ContentBlock

if TYPE_CHECKING:
    from dragoman.bridge.team.comparison import AgentRun
    from dragoman.bridge.team.worktrees import MergeResult, Worktree, Worktrees
    from dragoman.roles.agent.agent import Agent
    from dragoman.roles.client.callbacks import AskElicitation, AskPermission
    from dragoman.roles.client.workspace import Approve
    from dragoman.store.contract import Store
    from dragoman.workspace.coordination import FileCoordinator
    from dragoman.workspace.tree_member import Refusal

# Shows a question to a child while it runs: the child, the text, and the one that asks.
WatchAsk = Callable[[Child, str, Child | None], AbstractAsyncContextManager[Any]]


class Team:
    """Several agents by name: `async with Team("project", {"plan": "claude", "code": "codex"}) as team: ...`.

    An agent is a configured name, a command, or an Agent of this process. Each gets a session and a process of its own.
    `permission` and `approve` decide for all of them, as in `connect` and `WorkspaceAccess`; or `guard` returns the
    Guard of each. With `isolate`, each agent works in a git worktree of its own (`merge` brings its work back);
    without, all work in `cwd` and cannot overwrite each other's files. Agents that take MCP tools can ask and tell
    each other (extra `mcp`) unless `tools` is False.
    """

    def __init__(
        self,
        cwd: str | os.PathLike[str] = ".",
        agents: Mapping[str, AgentTarget] | None = None,
        *,
        name: str = "team",
        primary: str = "",
        isolate: bool = False,
        bounds: TeamBounds = TeamBounds(),  # noqa: B008  (immutable)
        permission: AskPermission | str = "deny",
        approve: Approve | None = None,
        elicit: AskElicitation | None = None,
        guard: MakeGuard | None = None,
        tools: bool = True,
        store: Store | None = None,
        coordinator: FileCoordinator | None = None,
        on_update: OnUpdate | None = None,
        on_event: Callable[[TeamEvent], None] | None = None,
        report: Callable[[str], None] | None = None,
        route: Callable[[Child], Route] | None = None,
    ) -> None:
        """`on_update` gets the updates of all agents, `on_event` what happens, `route` may send workspace calls on."""
        if not agents:
            raise ValueError("a team needs agents: Team(cwd, {'name': 'command'})")
        self.name = name
        self.cwd = os.path.realpath(cwd)
        self.agents = {each: resolve_target(each, target) for each, target in agents.items()}
        self.primary = self._known(primary or next(iter(self.agents)))
        self.isolate = isolate
        self.bounds = bounds
        self.budget = Budget(bounds)
        self.store = store
        self.report = report
        self.children: dict[str, Child] = {}
        self.log = EventLog(on_event)
        self.watch: WatchAsk | None = None  # shows questions to children
        self._permission = permission
        self._approve = approve
        self._elicit = elicit
        self._guard = guard
        self._offers_tools = tools and len(self.agents) > 1
        self._coordinator = coordinator
        self._on_update = on_update
        self._route = route
        self._worktrees: Worktrees | None = None
        self._main: dict[str, Child] = {}
        self._counts: dict[str, int] = {}  # sessions of each agent so far
        self._messages = count(1)
        self._running: set[asyncio.Task[Any]] = set()
        self._is_closed = False

    async def __aenter__(self) -> Team:
        self.log.follow(self.coordinator, self.note_files)
        if self.isolate:
            from dragoman.bridge.team.worktrees import Worktrees

            self._worktrees = await Worktrees.open(self.cwd, self.name)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def subset(self, agents: Sequence[str], *, isolate: bool) -> Team:
        """Return a team of some of these agents, with the same policy and bounds."""
        return Team(
            self.cwd,
            {name: self.agents[name] for name in agents},
            name=self.name,
            isolate=isolate,
            bounds=self.bounds,
            permission=self._permission,
            approve=self._approve,
            elicit=self._elicit,
            guard=self._guard,
            tools=False,
            store=self.store,
            on_update=self._on_update,
            report=self.report,
        )

    def agent(self) -> Agent:
        """Return an agent that serves such a team to any client, one team for each session: `team.agent().run()`."""
        from dragoman.bridge.team.served import ServedTeam, TeamSettings

        settings = TeamSettings(
            name=self.name, agents=self.agents, primary=self.primary, isolate=self.isolate, bounds=self.bounds
        )
        return ServedTeam(settings, report=self.report).agent

    async def close(self) -> None:
        """End all agents. Branches and worktrees of `isolate` stay until they are merged or removed."""
        self._is_closed = True
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await asyncio.gather(*(child.close() for child in self.children.values()), return_exceptions=True)
        self.note_files()
        self.log.unfollow(self.coordinator)
        self.children.clear()
        self._main.clear()
        if self._worktrees is not None:
            await asyncio.shield(self._worktrees.close())

    # --- asking -----------------------------------------------------------------------------------------------

    async def ask(
        self,
        agent: str,
        content: str | Sequence[ContentBlock],
        *,
        asker: Child | None = None,
        on_update: OnUpdate | None = None,
        timeout: float | None = None,
    ) -> TeamAnswer:
        """Prompt an agent in its session of this team, wait for the end of its turn, and return its answer."""
        return await self._ask_child(await self.child(agent, asker), content, asker, on_update, timeout)

    async def tell(self, agent: str, text: str, *, sender: Child | None = None) -> None:
        """Send an agent a message, and do not wait for what it does with it."""
        child = await self.child(agent, sender)
        self.log.add("told", agent, by=_id_of(sender), text=text)
        task = asyncio.create_task(self._run(child, self._message(child, text, sender, is_question=False), sender))
        self._running.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None and self.report is not None:
            self.report(f"a message was not handled: {task.exception()}")

    async def all(
        self, *tasks: tuple[str, str], stop_on_error: bool = False, on_update: OnUpdate | None = None
    ) -> list[TeamAnswer | DragomanError]:
        """Run tasks of (agent, prompt) at the same time, in a new session each; return answers and errors in order.

        With `stop_on_error` the first error cancels the others and is raised.
        """
        if len(tasks) + sum(child.is_busy for child in self.children.values()) > self.bounds.width:
            raise bound_error(f"{len(tasks)} sessions at once are more than the width of this team", self.bounds.width)
        for agent, _ in tasks:
            self._known(agent)

        async def run(agent: str, text: str) -> TeamAnswer:
            child = await self._new_child(agent)
            try:
                return await self._ask_child(child, text, None, on_update, None)
            finally:
                self.children.pop(child.id, None)
                await child.close()

        work = [asyncio.create_task(run(agent, text)) for agent, text in tasks]
        return await gather_all(work, stop_on_error=stop_on_error)

    async def race(self, prompt: str, among: Sequence[str] = (), *, until: str = "", rounds: int = 3) -> AgentRun:
        """Let agents work on one prompt in worktrees of their own; return what the first did whose `until` passes.

        Its work is on its branch; `merge_branch` brings it into the tree.
        """
        from dragoman.bridge.team.comparison import run_race

        return await run_race(self, prompt, [self._known(name) for name in among or self.agents], until, rounds)

    async def _ask_child(
        self,
        child: Child,
        content: str | Sequence[ContentBlock],
        asker: Child | None,
        on_update: OnUpdate | None,
        timeout: float | None,
    ) -> TeamAnswer:
        text = content if isinstance(content, str) else ""
        self.log.add("asked", child.id, by=_id_of(asker), text=text)
        message: Any = content
        if asker is not None:
            asker.waits_for = child
            message = self._message(child, text, asker, is_question=True)
        try:
            answer = await self._run_watched(child, message, text, asker, on_update, timeout)
        except asyncio.CancelledError:
            self.log.add("cancelled", child.id, by=_id_of(asker))
            raise
        except DragomanError as error:
            self.log.add("failed", child.id, by=_id_of(asker), text=str(error))
            raise
        finally:
            if asker is not None:
                asker.waits_for = None
        self.log.add("answered", child.id, by=_id_of(asker), text=answer.text)
        return answer

    async def _run_watched(
        self,
        child: Child,
        message: Any,
        text: str,
        asker: Child | None,
        on_update: OnUpdate | None,
        timeout: float | None,
    ) -> TeamAnswer:
        if self.watch is None or on_update is not None:
            return await self._run(child, message, asker, on_update, timeout)
        async with self.watch(child, text, asker) as view:
            view.answer = answer = await self._run(child, message, asker, None, timeout)
            return answer

    async def _run(
        self,
        child: Child,
        content: str | Sequence[ContentBlock] | Callable[[], Sequence[ContentBlock]],
        asker: Child | None,
        on_update: OnUpdate | None = None,
        timeout: float | None = None,
    ) -> TeamAnswer:
        if callable(content):
            await child.open()
            content = content()
            child.log_message(asker)
        by = "user" if asker is None else f"agent {asker.id}"
        try:
            return await child.run(content, asker=asker, by=by, on_update=on_update or self._on_update, timeout=timeout)
        finally:
            self.note_files()

    def _message(
        self, child: Child, text: str, sender: Child | None, *, is_question: bool
    ) -> Callable[[], Sequence[ContentBlock]] | str:
        """Return a message as a prompt; its form depends on what the agent takes, once it is started."""
        if sender is None:
            return text
        number = next(self._messages)
        return lambda: message_blocks(
            text[:MAX_CHARACTERS], sender.id, sender.session_id, number, embeds=child.embeds, is_question=is_question
        )

    # --- children ---------------------------------------------------------------------------------------------

    async def child(self, agent: str, asker: Child | None = None) -> Child:
        """Return the session of an agent in this team; raise if the one that asks may not ask it."""
        self._known(agent)
        if asker is not None:
            self._check_asker(asker, agent, self._main.get(agent))
        if agent not in self._main:
            self._main[agent] = await self._new_child(agent)
        return self._main[agent]

    def _check_asker(self, asker: Child, agent: str, child: Child | None) -> None:
        if asker.name == agent:
            raise ProtocolError(Kind.INVALID_PARAMS, f"{asker.id} cannot ask itself; ask one of {self._others(agent)}")
        waiting = child
        while waiting is not None:
            if waiting is asker:
                path = " -> ".join([asker.id, agent, asker.id])
                raise ProtocolError(Kind.INVALID_STATE, f"{agent} already waits for {asker.id}: {path} is a circle")
            waiting = waiting.waits_for
        if len(list(asker.chain)) >= self.bounds.depth + 1:
            raise bound_error(
                "agents that wait for each other are as many as the depth of this team", self.bounds.depth
            )

    def _others(self, agent: str) -> str:
        return ", ".join(name for name in self.agents if name != agent)

    async def open_child(self, agent: str) -> Child:
        """Start another session of an agent, for the caller to close."""
        child = await self._new_child(self._known(agent))
        await child.open()
        return child

    async def ask_child(self, child: Child, content: str, *, timeout: float | None = None) -> TeamAnswer:
        """Prompt a session and return its answer."""
        return await self._ask_child(child, content, None, None, timeout)

    async def _new_child(self, agent: str) -> Child:
        if self._is_closed:
            raise ProtocolError(Kind.INVALID_STATE, "the team is closed")
        if len(self.children) >= self.bounds.width:
            raise bound_error("open sessions are as many as the width of this team", self.bounds.width)
        number = self._counts[agent] = self._counts.get(agent, 0) + 1
        id = agent if number == 1 else f"{agent}-{number}"
        child = Child(self, agent, id, self.agents[agent], self.cwd)
        self.children[id] = child
        try:
            if self._worktrees is not None:
                child.cwd = (await self._worktrees.add(id)).cwd
        except BaseException:
            del self.children[id]
            raise
        self.log.add("opened", id)
        return child

    def _known(self, agent: str) -> str:
        if agent not in self.agents:
            names = ", ".join(self.agents)
            raise ProtocolError(Kind.INVALID_PARAMS, f"there is no agent {agent!r} in this team; there are {names}")
        return agent

    def access_for(self, child: Child) -> ChildAccess:
        """Return what an agent may do."""
        route: Route = (lambda method, handler: handler) if self._route is None else self._route(child)
        if self._guard is not None:
            access = guarded_access(child.id, self._guard, self._elicit, route)
        else:
            access = plain_access(child.id, self._permission, self._approve, self._elicit, route)
        access.workspace.coordinator = self._coordinator
        access.workspace.on_member = child.note_member
        return access

    def tools_for(self, child: Child) -> dict[str, list[Callable[..., Any]]]:
        """Return the tools by which an agent asks and tells the others."""
        from dragoman.mcp.sdk import is_installed

        if not self._offers_tools or not is_installed():
            return {}
        from dragoman.bridge.team.tools import team_tools

        return {"team": team_tools(self, child)}

    # --- hand-over --------------------------------------------------------------------------------------------

    async def handover(self, giver: str, taker: str, *, keep: str = "summary") -> None:
        """Let one agent take over from another: it gets a summary or the transcript, the plan, files and leases.

        From now on it is the primary agent.
        """
        from dragoman.bridge.team.handover import hand_over

        if self._known(giver) == self._known(taker):
            raise ProtocolError(Kind.INVALID_PARAMS, f"{giver} cannot hand over to itself; name another agent")
        await hand_over(self, self._main.get(giver), taker, keep)
        self.primary = taker
        self.log.add("handed_over", taker, by=giver, text=keep)

    # --- files ------------------------------------------------------------------------------------------------

    @property
    def coordinator(self) -> FileCoordinator:
        """What keeps the agents from overwriting each other's files."""
        if self._coordinator is None:
            from dragoman.workspace.coordination import PROCESS_COORDINATOR

            self._coordinator = PROCESS_COORDINATOR
        return self._coordinator

    def files(self) -> dict[str, list[str]]:
        """Return who changed which file, in order."""
        self.note_files()
        return self.log.files()

    def files_of(self, child: Child) -> list[str]:
        """Return the files that an agent changed."""
        self.note_files()
        return list(
            dict.fromkeys(
                event.path
                for event in self.log.events
                if event.kind in ("wrote", "outside") and event.agent == child.id
            )
        )

    @property
    def conflicts(self) -> list[Refusal]:
        """The writes that were refused because of another agent or program."""
        return [each for each in self.coordinator.refusals() if self._child_of(each.member) is not None]

    def note_files(self) -> None:
        """Add what happened to the files since the last call to the log."""
        self.log.note_files(self.coordinator, lambda member: _id_of(self._child_of(member)) or None)

    def _child_of(self, member: Any) -> Child | None:
        return next((each for each in self.children.values() if member is not None and each.member is member), None)

    # --- worktrees --------------------------------------------------------------------------------------------

    def worktree(self, id: str) -> Worktree:
        """Return the worktree of an agent of a team with `isolate`."""
        if self._worktrees is None:
            raise ProtocolError(Kind.INVALID_STATE, "the agents of this team share one tree; use isolate=True")
        return self._worktrees.find(id)

    async def merge(self, id: str) -> MergeResult:
        """Bring the work of an agent into `cwd`, or none of it and the conflicts."""
        return await self.worktree(id).merge()

    async def drop_branches(self, *, except_of: str | None) -> None:
        """Remove the worktrees and branches of all agents but one."""
        for id, worktree in list(self._worktrees.by_id.items() if self._worktrees is not None else ()):
            if id != except_of:
                await worktree.remove(keeps_branch=False)

    # --- the end ----------------------------------------------------------------------------------------------

    async def cancel(self) -> None:
        """Cancel the turns of all agents and wait for their ends."""
        for child in self.children.values():
            child.cancel()
        tasks = [task for task in self._running if not task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _id_of(child: Child | None) -> str:
    return "" if child is None else child.id
