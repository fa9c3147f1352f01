"""Keep what a configured agent says of itself when it starts, to choose agents by it."""

from __future__ import annotations

from contextlib import suppress

from dragoman import RemoteAgent
from dragoman.config.agent_choice import facts_from_initialize
from dragoman.config.config_file import NamedAgent, load_config
from dragoman.config.introductions import Introductions
from dragoman.config.paths import user_paths
from dragoman.errors import ConfigFault
from dragoman.ids import now
from dragoman.schema.base import to_json


def note_introduction(agent: NamedAgent, remote: RemoteAgent) -> None:
    """Keep the introduction of a configured agent. A file that cannot be written does not end a session."""
    paths = user_paths()
    with suppress(ConfigFault, OSError):
        if load_config(paths.config_file).agents.get(agent.name) == agent:
            facts = facts_from_initialize(to_json(remote.initialize_result), now())
            Introductions(paths.introductions).note(agent.name, agent.argv, facts)
