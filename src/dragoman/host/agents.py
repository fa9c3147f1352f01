"""The agents of a host by name, with their initialize results, and agents started without a session."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from dragoman.config.agent_choice import AgentFacts, facts_from_initialize
from dragoman.config.config_file import NamedAgent
from dragoman.config.introductions import Introductions
from dragoman.config.paths import user_paths
from dragoman.errors import ConfigFault, Kind, ProtocolError
from dragoman.host.room.agent import dialer_options, initialize_params
from dragoman.host.room.notifications import CLIENT_NOTIFICATIONS
from dragoman.ids import now
from dragoman.roles.client.callbacks import UserCallbacks
from dragoman.roles.client.dial import Dialer
from dragoman.roles.client.remote_agent import RemoteAgent
from dragoman.roles.client.session_settings import SessionSettings
from dragoman.roles.client.workspace import WorkspaceAccess
from dragoman.schema.base import to_json

if TYPE_CHECKING:
    from dragoman.host.account_calls import Caller
    from dragoman.schema.initialize import InitializeResult
    from dragoman.store.session_state import SessionState
    from dragoman.transport.base import Transport

# Returns the command or the address of an agent, or a transport to a running one. Called for each process.
FindTarget = Callable[[NamedAgent], "str | Sequence[str] | Transport"]


def agent_target(agent: NamedAgent) -> str | Sequence[str]:
    """Return how an agent is reached: at its address, or by its command."""
    return agent.command if agent.is_remote else agent.argv


class AgentCatalog:
    """The agents of a host. The first one is the default."""

    def __init__(
        self, agents: Sequence[NamedAgent], target_of: FindTarget, report: Callable[[str], None], start_timeout: float
    ) -> None:
        if not agents:
            raise ValueError("a host needs at least one agent")
        self.target_of = target_of
        self._agents = {agent.name: agent for agent in agents}
        self._report = report
        self.start_timeout = start_timeout  # the host replaces it with its limits
        self._initialize_results: dict[str, InitializeResult] = {}
        self._dialects: dict[str, str] = {}
        self._facts: dict[str, AgentFacts] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def replace_agents(self, agents: Sequence[NamedAgent]) -> None:
        """Serve these agents from now on. What is known of an agent whose command changed is forgotten."""
        if not agents:
            raise ValueError("a host needs at least one agent")
        before, self._agents = self._agents, {agent.name: agent for agent in agents}
        for name, agent in before.items():
            if self._agents.get(name) != agent:
                for known in (self._initialize_results, self._dialects, self._facts):
                    known.pop(name, None)

    @property
    def names(self) -> list[str]:
        """Return the names of all agents, the default first."""
        return list(self._agents)

    def has_agent(self, name: str) -> bool:
        """Tell whether there is an agent of this name. "" is the default agent."""
        return not name or name in self._agents

    def find_agent(self, name: str) -> NamedAgent:
        """Return the agent of this name; the default for "" and for an unknown name."""
        known = self._agents.get(name)
        return known if known is not None else next(iter(self._agents.values()))

    def agent_of(self, state: SessionState) -> NamedAgent:
        """Return the agent of a session. A session from another program may be matched by the agent's own title."""
        if state.agent:
            known = self._agents.get(state.agent) or self._agent_by_program(state.agent)
            if known is None:
                message = f"this session needs the agent {state.agent}; add it to the agents of this host"
                raise ProtocolError(Kind.INVALID_STATE, message, {"agent": state.agent, "agents": self.names})
            return known
        for name, result in self._initialize_results.items():
            info = result.agent_info or None
            if info is not None and state.agent_title and state.agent_title in (info.title, info.name):
                return self._agents[name]
        return self.find_agent("")

    def _agent_by_program(self, program: str) -> NamedAgent | None:
        """Return the only agent with this program: 0.1 named an agent without a configured name so."""
        found = [agent for agent in self._agents.values() if os.path.basename(agent.command) == program]
        return found[0] if len(found) == 1 else None

    # --- initialize results -------------------------------------------------------------------------------------

    def note_initialized(self, name: str, result: InitializeResult, dialect: str) -> None:
        """Remember the latest initialize result and the dialect of an agent."""
        self._initialize_results[name] = result
        self._dialects[name] = dialect
        self._facts[name] = facts_from_initialize(to_json(result), now())

    def describe(self) -> list[dict[str, Any]]:
        """Return what each agent last said of itself, here or in another program of this user; nothing is started."""
        kept = Introductions(user_paths().introductions)
        return [
            _agent_to_json(agent, self._facts.get(name) or _kept_facts(kept, agent))
            for name, agent in self._agents.items()
        ]

    def dialect_of(self, agent_config: NamedAgent) -> str:
        """Return the dialect of an agent, as configured or detected; "" while it is unknown."""
        return self._dialects.get(agent_config.name, "") if agent_config.dialect == "auto" else agent_config.dialect

    async def initialize_result(self, agent_config: NamedAgent) -> InitializeResult:
        """Return the initialize result of an agent. Start it once to find out."""
        async with self._locks.setdefault(agent_config.name, asyncio.Lock()):
            known = self._initialize_results.get(agent_config.name)
            if known is None:
                self._report(f"starting the agent {agent_config.name} briefly, to learn its capabilities")
                agent = await self.start_agent(agent_config)
                await agent.close()
                known = self._initialize_results[agent_config.name]
        return known

    async def start_agent(self, agent_config: NamedAgent, *, caller: Caller | None = None) -> RemoteAgent:
        """Start an agent without a session, for the caller to close. Its questions and notifications go to `caller`."""
        cwd = agent_config.cwd or os.getcwd()
        options = dialer_options(agent_config, cwd) | {"initialize_timeout": self.start_timeout}
        workspace = WorkspaceAccess(approve=lambda _: False)
        callbacks = UserCallbacks("deny", caller.elicit if caller else lambda _: None)
        agent = RemoteAgent(
            Dialer(
                self.target_of(agent_config),
                report=self._report,
                first_try=self._dialects.get(agent_config.name, ""),
                **options,
            ),
            callbacks,
            workspace=workspace,
            on={method: partial(caller.notify, method) for method in CLIENT_NOTIFICATIONS} if caller else {},
            settings=SessionSettings(timeout=self.start_timeout),
        )
        await agent.start(initialize_params(workspace, callbacks))
        self.note_initialized(agent_config.name, agent.initialize_result, agent.dialect)
        return agent


def _kept_facts(kept: Introductions, agent: NamedAgent) -> AgentFacts | None:
    try:
        return kept.find(agent.name, agent.argv)
    except ConfigFault:
        return None  # a damaged file of the user must not hide the agents


def _agent_to_json(agent: NamedAgent, facts: AgentFacts | None) -> dict[str, Any]:
    """Return an agent with what it can do; null where that is not known."""
    if facts is None:
        return {"name": agent.name, "capabilities": None, "logins": None, "version": None, "date": None}
    return {
        "name": agent.name,
        "capabilities": sorted(path for path, can in facts.can.items() if can),
        "logins": None if facts.logins is None else list(facts.logins),
        "version": facts.version or None,
        "date": facts.date,
    }
