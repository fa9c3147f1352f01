"""The agents of a house: by name, with what each said of itself, and visits to them without a session.

An agent introduces itself when it is first needed; clients are answered from that. Above are the house and its desks;
below is the way to start one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from dragoman.config.config_file import NamedAgent
from dragoman.errors import Kind, ProtocolError
from dragoman.host.room.agent import dialling, introduction
from dragoman.host.room.notifications import FOR_CLIENTS
from dragoman.roles.client.callbacks import Answers
from dragoman.roles.client.remote_agent import RemoteAgent
from dragoman.roles.client.session import Terms
from dragoman.roles.client.workspace import Lending

if TYPE_CHECKING:
    from dragoman.host.account_calls import Caller
    from dragoman.schema.initialize import InitializeResult
    from dragoman.store.session_state import Standing
    from dragoman.transport.base import Transport

# Gives the command of an agent, or a transport to one that runs already, once for each that is needed.
Reach = Callable[[NamedAgent], "Sequence[str] | Transport"]


class Roster:
    """The agents, the first of which is meant where none is named."""

    def __init__(
        self, agents: Sequence[NamedAgent], reach: Reach, report: Callable[[str], None], patience: float
    ) -> None:
        if not agents:
            raise ValueError("a house needs an agent; name at least one")
        self.reach = reach
        self._agents = {agent.name: agent for agent in agents}
        self._report = report
        self._patience = patience  # for one to start
        self._introductions: dict[str, InitializeResult] = {}
        self._dialects: dict[str, str] = {}
        self._probing: dict[str, asyncio.Lock] = {}

    @property
    def names(self) -> list[str]:
        """The names of all; the first is meant where none is named."""
        return list(self._agents)

    def knows(self, name: str) -> bool:
        """Whether there is an agent of this name."""
        return not name or name in self._agents

    def named(self, name: str) -> NamedAgent:
        """The agent of this name; the first one where none is named, or one that is not here any more."""
        known = self._agents.get(name)
        return known if known is not None else next(iter(self._agents.values()))

    def of(self, standing: Standing) -> NamedAgent:
        """The agent of a session; one that another program opened may be known by what the agent calls itself."""
        if standing.agent:
            known = self._agents.get(standing.agent)
            if known is None:
                message = f"this session belongs to the agent {standing.agent}, which this host does not have"
                raise ProtocolError(Kind.INVALID_STATE, message, {"agent": standing.agent, "agents": self.names})
            return known
        for name, told in self._introductions.items():
            info = told.agent_info or None
            if info is not None and standing.called and standing.called in (info.title, info.name):
                return self._agents[name]
        return self.named("")

    # --- what they say of themselves ----------------------------------------------------------------------------

    def met(self, name: str, introduction: InitializeResult, dialect: str) -> None:
        """An agent introduced itself, perhaps otherwise than before."""
        self._introductions[name] = introduction
        self._dialects[name] = dialect

    def dialect_of(self, named: NamedAgent) -> str:
        """What an agent speaks: as configured, or as was found out; "" where nobody knows yet."""
        return self._dialects.get(named.name, "") if named.dialect == "auto" else named.dialect

    async def introduction(self, named: NamedAgent) -> InitializeResult:
        """What an agent says of itself; it is started once to find out."""
        async with self._probing.setdefault(named.name, asyncio.Lock()):
            known = self._introductions.get(named.name)
            if known is None:
                self._report(f"the agent {named.name} is started for a moment, to hear what it can do")
                agent = await self.visit(named)
                await agent.close()
                known = self._introductions[named.name]
        return known

    async def visit(self, named: NamedAgent, *, caller: Caller | None = None) -> RemoteAgent:
        """Start an agent without a session; whoever wanted it closes it. What it asks and tells goes to a caller."""
        place = named.cwd or os.getcwd()
        dial = dialling(named, place, self.reach(named), report=self._report, patience=self._patience)
        lend, answers = Lending(approve=lambda _: False), Answers("deny", caller.elicit if caller else _nobody)
        told = {method: partial(caller.tell, method) for method in FOR_CLIENTS} if caller else {}
        agent = RemoteAgent(dial, answers, lend=lend, on=told, sign_in=None, terms=Terms(timeout=self._patience))
        offered = lend.capabilities()
        offered.elicitation = answers.capabilities()
        await agent.start(introduction(offered))
        self.met(named.name, agent.introduction, agent.dialect)
        return agent


def _nobody(_: Any) -> None:
    """Nobody is there whom an agent could ask."""
