"""Compare agents on one prompt: each in a worktree of its own; what it changed, whether the tests pass, what it used.

A race is a comparison that ends with the first agent whose tests pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from dragoman.bridge.team.child import Child
from dragoman.bridge.team.messages import TeamAnswer
from dragoman.bridge.team.team import Team
from dragoman.bridge.team.worktrees import FileStat, Worktree
from dragoman.errors import DragomanError, Kind, ProtocolError
from dragoman.workspace.terminals import Terminals

# How long the command of `until` may take. Seconds.
UNTIL_TIMEOUT = 1800.0

# How often an agent of a race may try again after its tests failed.
DEFAULT_ROUNDS = 3

# Characters of the output of failed tests that the agent is told, and of the patch on a page.
MAX_OUTPUT = 20_000
MAX_DIFF = 2_000_000

TRY_AGAIN = "The command `{command}` failed with exit code {code}. Its output ends with:\n\n{output}\n\nFix it."


class AgentRun(msgspec.Struct, kw_only=True):
    """What one agent did."""

    agent: str
    state: str = "waiting"  # waiting | working | testing | done | failed | cancelled
    stop_reason: str = ""
    error: str = ""
    files: list[FileStat] = []
    tests: bool | None = None  # None: there is no command
    test_output: str = ""
    rounds: int = 0
    tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    text: str = ""
    branch: str = ""
    diff: str = ""

    @property
    def added(self) -> int:
        """The lines that were added."""
        return sum(max(file.added, 0) for file in self.files)

    @property
    def removed(self) -> int:
        """The lines that were removed."""
        return sum(max(file.removed, 0) for file in self.files)


class Comparison:
    """Runs agents on one prompt and keeps what they did."""

    def __init__(
        self,
        team: Team,
        prompt: str,
        *,
        until: str = "",
        rounds: int = 1,
        timeout: float | None = None,
        on_change: Callable[[AgentRun], None] = lambda run: None,
    ) -> None:
        """`team` has `isolate`. `until` is a command that must succeed; an agent tries up to `rounds` times."""
        self.runs = {name: AgentRun(agent=name) for name in team.agents}
        self.winner: str | None = None
        self._team = team
        self._prompt = prompt
        self._until = until
        self._rounds = max(1, rounds)
        self._timeout = timeout
        self._on_change = on_change

    async def compare(self) -> None:
        """Let all agents work, and wait for all of them."""
        tasks = [asyncio.create_task(self._run(name)) for name in self.runs]
        try:
            await asyncio.wait(tasks)
        finally:
            await _stop(tasks)

    async def race(self) -> None:
        """Let all agents work until one of them is done and its tests pass; stop the others."""
        tasks = {asyncio.create_task(self._run(name)): name for name in self.runs}
        waiting = set(tasks)
        try:
            while waiting and self.winner is None:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                ready = [self.runs[tasks[task]] for task in done]
                self.winner = next((run.agent for run in ready if run.state == "done" and run.tests is not False), None)
        finally:
            await _stop(list(tasks))

    async def _run(self, name: str) -> None:
        run = self.runs[name]
        started = asyncio.get_running_loop().time()
        child: Child | None = None
        try:
            child = await self._team.open_child(name)
            worktree = self._team.worktree(child.id)
            run.branch = worktree.branch
            await self._work(run, child, worktree)
            self._set_state(run, "done")
        except asyncio.CancelledError:
            self._set_state(run, "cancelled")
            raise
        except DragomanError as error:
            run.error = str(error)
            self._set_state(run, "failed")
        finally:
            run.seconds = round(asyncio.get_running_loop().time() - started, 2)
            if child is not None:
                await _complete(asyncio.ensure_future(self._end(run, child)))

    async def _work(self, run: AgentRun, child: Child, worktree: Worktree) -> None:
        prompt = self._prompt
        for _ in range(self._rounds):
            run.rounds += 1
            self._set_state(run, "working")
            self._note_answer(run, await self._team.ask_child(child, prompt, timeout=self._timeout))
            if not self._until:
                return
            self._set_state(run, "testing")
            code, run.test_output = await run_command(self._until, worktree.cwd)
            run.tests = code == 0
            if run.tests:
                return
            prompt = TRY_AGAIN.format(command=self._until, code=code, output=run.test_output[-MAX_OUTPUT:])

    def _note_answer(self, run: AgentRun, answer: TeamAnswer) -> None:
        run.stop_reason, run.text = answer.stop_reason, answer.text
        run.tokens += answer.tokens
        run.cost = answer.cost

    async def _end(self, run: AgentRun, child: Child) -> None:
        """End the agent, and note what it changed."""
        await child.close()
        try:
            worktree = self._team.worktree(child.id)
            await worktree.commit(f"{run.agent}: {self._prompt[:72]}")
            run.files = await worktree.stats()
            run.diff = (await worktree.diff())[:MAX_DIFF]
        except DragomanError as error:
            run.error = run.error or str(error)

    def _set_state(self, run: AgentRun, state: str) -> None:
        run.state = state
        self._on_change(run)


async def _complete(task: asyncio.Future[None]) -> None:
    """Wait for the end of a task that must not be cancelled: what it uses is removed afterwards."""
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


async def _stop(tasks: list[asyncio.Task[None]]) -> None:
    """Stop what still runs, and wait for it; raise what nobody expected."""
    for task in tasks:
        task.cancel()
    for error in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(error, Exception):
            raise error


async def run_race(team: Team, prompt: str, agents: Sequence[str], until: str, rounds: int) -> AgentRun:
    """Race agents of a team; return the winner. The branches of the others are removed."""
    async with team.subset(agents, isolate=True) as isolated:
        comparison = Comparison(isolated, prompt, until=until, rounds=rounds)
        await comparison.race()
        await isolated.drop_branches(except_of=comparison.winner)
    if comparison.winner is None:
        reasons = "; ".join(f"{run.agent}: {run.error or 'the tests fail'}" for run in comparison.runs.values())
        raise ProtocolError(Kind.INVALID_STATE, f"no agent won the race: {reasons}")
    return comparison.runs[comparison.winner]


async def run_command(command: str, cwd: str, timeout: float = UNTIL_TIMEOUT) -> tuple[int, str]:
    """Run a shell command in a folder; return its exit code and its output. All that it starts ends with it."""
    terminals = Terminals([cwd])
    try:
        terminal = await terminals.create("/bin/sh", ["-c", command], cwd, timeout=timeout)
        exit = await terminal.wait()
        return exit.code if exit.code is not None else 128, terminal.output().text
    finally:
        await terminals.close()


def to_json(comparison: Comparison, more: Mapping[str, Any]) -> dict[str, Any]:
    """Return a comparison for --json."""
    return {
        **more,
        "winner": comparison.winner,
        "runs": [
            {
                "agent": run.agent,
                "state": run.state,
                "stopReason": run.stop_reason or None,
                "error": run.error or None,
                "files": [msgspec.to_builtins(file) for file in run.files],
                "added": run.added,
                "removed": run.removed,
                "tests": run.tests,
                "testOutput": run.test_output[-MAX_OUTPUT:] or None,
                "rounds": run.rounds,
                "tokens": run.tokens,
                "cost": run.cost,
                "seconds": run.seconds,
                "text": run.text,
                "branch": run.branch or None,
            }
            for run in comparison.runs.values()
        ],
    }
