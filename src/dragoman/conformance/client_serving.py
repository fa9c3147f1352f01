"""Checking a client that only its user can start: an editor whose agent our stand-in is.

Each time the editor starts its agent, the next requirements are tried on that connection: one after the other with
each prompt, as long as the connection holds and they need no fresh one. What only a watched process shows is not
applicable here. Above is `dragoman check client --serve`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from dragoman.conformance.client_stage import ClientStage
from dragoman.conformance.client_visit import Visited
from dragoman.conformance.pace import PROCESS, Pace
from dragoman.conformance.requirement import Requirement
from dragoman.conformance.stage import Stage
from dragoman.testing.reception import Reception, words

# A person opens threads and types prompts; whoever has gone for lunch comes back. Seconds.
PERSON = 3600.0
PACE = Pace(start=PERSON, answer=PROCESS.answer, turn=300.0, quiet=PROCESS.quiet, leave=1.0, probe=2 * PERSON)

# What these ask begins with a prompt, so that it can be asked on a connection that is there.
GO_ON = ("client.rpc", "client.update", "client.turn", "client.permission", "client.files", "client.terminal")
# Of them, those that look at how the connection began.
BEGIN = frozenset({"client.rpc.03", "client.rpc.19"})


class ServedClient:
    """An editor as the subject of a check; `say` tells the user what to do next."""

    way = ""

    def __init__(self, reception: Reception, dialect: str, say: Callable[[str], None], *, pace: Pace = PACE) -> None:
        self._reception = reception
        self._say = say
        self._last: ClientStage | None = None
        self._around: Visited | None = None
        self.dialect = dialect
        self.pace = pace

    @asynccontextmanager
    async def stage(self, requirement: Requirement) -> AsyncIterator[Stage]:
        """The connection that is there, or the next one the editor makes."""
        stage = self._going_on(requirement) or await self._fresh(requirement)
        try:
            yield stage
        finally:
            stage.sweep()
            self._last = stage

    def _going_on(self, requirement: Requirement) -> ClientStage | None:
        last = self._last
        goes_on = requirement.chapter in GO_ON and requirement.id not in BEGIN
        if last is None or last.gone is not None or not goes_on:
            return None
        self._say(f"{requirement.id}: type a prompt in the same thread")
        stage = ClientStage(last.transport, self.dialect, self.pace, last.grounds, needs=requirement.needs)
        stage.go_on(last)
        return stage

    async def _fresh(self, requirement: Requirement) -> ClientStage:
        await self.close()
        self._say(f"{requirement.id}: open a new thread with the agent and type a prompt")
        visitor = await self._reception.visitor()
        self._around = Visited(visitor.about.get("cwd") or "/", say=self._say)
        line = self._around.received(visitor)
        return ClientStage(line, self.dialect, self.pace, self._around, needs=requirement.needs)

    async def close(self) -> None:
        """Let the stand-in go."""
        if self._around is not None:
            await self._around.let_go()
        self._last = self._around = None


def command(reception: Reception) -> list[str]:
    """What to configure in the editor."""
    return words(reception.path)
