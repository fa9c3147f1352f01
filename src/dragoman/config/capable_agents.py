"""Choose among the user's configured agents by what they said of themselves. Starts nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from dragoman.config.agent_choice import Candidate, capability_names, choose, compare, find_capability
from dragoman.config.config_file import NamedAgent, load_config
from dragoman.config.introductions import Introductions
from dragoman.config.paths import user_paths
from dragoman.errors import StartFailed


def capable_agent(needs: Iterable[str], environ: Mapping[str, str] = os.environ) -> NamedAgent:
    """Return the configured agent that is known to have these capabilities; raise StartFailed with the candidates."""
    paths = user_paths(environ)
    agents = load_config(paths.config_file).agents
    known = Introductions(paths.introductions)
    wanted = [_capability_path(name) for name in needs]
    candidates = [compare(name, known.find(name, agent.argv), wanted) for name, agent in agents.items()]
    ordered = choose(candidates)
    if not ordered or not ordered[0].fits:
        raise StartFailed(_refusal(sorted(needs), candidates))
    return agents[ordered[0].name]


def _capability_path(name: str) -> str:
    path = find_capability(name)
    if path is None:
        raise ValueError(f"there is no capability {name!r}; there are {', '.join(capability_names())}")
    return path


def _refusal(needs: list[str], candidates: list[Candidate]) -> str:
    rows = []
    for each in candidates:
        lacks = f"lacks {', '.join(each.lacks)}" if each.lacks else f"unknown: {', '.join(each.unknown)}"
        rows.append(f"{each.name} ({lacks})")
    advice = f"start an agent once to learn what it can do, or: dragoman agents search --can {','.join(needs)}"
    return f"no configured agent is known to have {', '.join(needs)}: {'; '.join(rows) or 'there is none'}; {advice}"
