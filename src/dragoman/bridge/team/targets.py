"""Which agent a team means by a name or a command."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from dragoman.config.config_file import KNOWN_AGENTS, NamedAgent, installed_agents, load_config
from dragoman.config.paths import user_paths
from dragoman.errors import ConfigFault
from dragoman.roles.agent.agent import Agent

# A configured agent, its name, a command, or an Agent in this process.
AgentTarget = NamedAgent | Agent | str | Sequence[str]


def resolve_target(name: str, target: AgentTarget, environ: Mapping[str, str] = os.environ) -> NamedAgent | Agent:
    """Return the agent. A single word is the name of a configured or well-known agent, or a program."""
    if isinstance(target, NamedAgent | Agent):
        return target
    words = shlex.split(target) if isinstance(target, str) else list(target)
    if not words:
        raise ConfigFault([f"the agent {name} has an empty command"])
    if len(words) == 1 and (found := _find_named(words[0], environ)) is not None:
        return found
    if shutil.which(os.path.expanduser(words[0])) is None:
        advice = "`dragoman agents` lists the agents"
        if any(words[0] == known.name for known in KNOWN_AGENTS):
            advice = f"install it with: dragoman agents install {words[0]}"
        elif close := get_close_matches(words[0], _agent_names(environ), 1):
            advice = f"did you mean {close[0]}?"
        raise ConfigFault([f"there is no agent or program {words[0]!r} for {name}; {advice}"])
    return NamedAgent(name=name, command=words[0], args=tuple(words[1:]))


def _agent_names(environ: Mapping[str, str]) -> list[str]:
    return [*load_config(user_paths(environ).config_file).agents, *(known.name for known in KNOWN_AGENTS)]


def _find_named(word: str, environ: Mapping[str, str]) -> NamedAgent | None:
    configured = load_config(user_paths(environ).config_file).agents.get(word)
    known = installed_agents(environ).get(word)
    if configured is None and known is not None:
        return NamedAgent(name=word, command=known.command[0], args=known.command[1:])
    return configured
