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
from dragoman.host.room.agent import build_dialer, initialize_params
from dragoman.host.room.notifications import CLIENT_NOTIFICATIONS
from dragoman.roles.client.callbacks import UserCallbacks
from dragoman.roles.client.remote_agent import RemoteAgent
from dragoman.roles.client.session import SessionSettings
from dragoman.roles.client.workspace import WorkspaceAccess

if TYPE_CHECKING:
    from dragoman.host.account_calls import Caller
    from dragoman.schema.initialize import InitializeResult
    from dragoman.store.session_state import SessionState
    from dragoman.transport.base import Transport

# Gives the command of an agent, or a transport to one that runs already, once for each that is needed.
FindTarget = Callable[[NamedAgent], "Sequence[str] | Transport"]


class AgentCatalog:
    """The agents, the first of which is meant where none is named."""

    def __init__(
        self, agents: Sequence[NamedAgent], target_of: FindTarget, report: Callable[[str], None], start_timeout: float
    ) -> None:
        if not agents:
            raise ValueError("a house needs an agent; name at least one")
        self.target_of = target_of
        self._agents = {agent.name: agent for agent in agents}
        self._report = report
        self._start_timeout = start_timeout  # for one to start
        self._initialize_results: dict[str, InitializeResult] = {}
        self._dialects: dict[str, str] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    @property
    def names(self) -> list[str]:
        """The names of all; the first is meant where none is named."""
        return list(self._agents)

    def has_agent(self, name: str) -> bool:
        """Whether there is an agent of this name."""
        return not name or name in self._agents

    def find_agent(self, name: str) -> NamedAgent:
        """The agent of this name; the first one where none is named, or one that is not here any more."""
        known = self._agents.get(name)
        return known if known is not None else next(iter(self._agents.values()))

    def agent_of(self, state: SessionState) -> NamedAgent:
        """The agent of a session; one that another program opened may be known by what the agent calls itself."""
        if state.agent:
            known = self._agents.get(state.agent)
            if known is None:
                message = f"this session belongs to the agent {state.agent}, which this host does not have"
                raise ProtocolError(Kind.INVALID_STATE, message, {"agent": state.agent, "agents": self.names})
            return known
        for name, told in self._initialize_results.items():
            info = told.agent_info or None
            if info is not None and state.agent_title and state.agent_title in (info.title, info.name):
                return self._agents[name]
        return self.find_agent("")

    # --- what they say of themselves ----------------------------------------------------------------------------

    def note_initialized(self, name: str, result: InitializeResult, dialect: str) -> None:
        """An agent introduced itself, perhaps otherwise than before."""
        self._initialize_results[name] = result
        self._dialects[name] = dialect

    def dialect_of(self, named: NamedAgent) -> str:
        """What an agent speaks: as configured, or as was found out; "" where nobody knows yet."""
        return self._dialects.get(named.name, "") if named.dialect == "auto" else named.dialect

    async def initialize_result(self, named: NamedAgent) -> InitializeResult:
        """What an agent says of itself; it is started once to find out."""
        async with self._locks.setdefault(named.name, asyncio.Lock()):
            known = self._initialize_results.get(named.name)
            if known is None:
                self._report(f"the agent {named.name} is started for a moment, to hear what it can do")
                agent = await self.start_agent(named)
                await agent.close()
                known = self._initialize_results[named.name]
        return known

    async def start_agent(self, named: NamedAgent, *, caller: Caller | None = None) -> RemoteAgent:
        """Start an agent without a session; whoever wanted it closes it. What it asks and tells goes to a caller."""
        place = named.cwd or os.getcwd()
        dial = build_dialer(
            named, place, self.target_of(named), report=self._report, initialize_timeout=self._start_timeout
        )
        lend, answers = (
            WorkspaceAccess(approve=lambda _: False),
            UserCallbacks("deny", caller.elicit if caller else _no_answer),
        )
        told = {method: partial(caller.notify, method) for method in CLIENT_NOTIFICATIONS} if caller else {}
        agent = RemoteAgent(
            dial,
            answers,
            workspace=lend,
            on=told,
            terminal_login=None,
            settings=SessionSettings(timeout=self._start_timeout),
        )
        offered = lend.capabilities()
        offered.elicitation = answers.capabilities()
        await agent.start(initialize_params(offered))
        self.note_initialized(named.name, agent.initialize_result, agent.dialect)
        return agent


def _no_answer(_: Any) -> None:
    """Nobody is there whom an agent could ask."""
