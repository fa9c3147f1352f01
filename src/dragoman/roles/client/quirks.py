"""Peculiarities of single agents, by the name in their initialize result (docs/protocol/peers.md).

Only rules that would harm other agents are here; a harmless rule is where it applies.
"""

from __future__ import annotations

from dragoman.schema.initialize import Implementation

# These agents read a file before they write it and give up on any error, so they could never create a file
# (docs/protocol/peers.md#missing-files). Other clients return an empty file too.
_MISSING_FILE_IS_EMPTY = frozenset({"gemini-cli"})


def missing_file_is_empty(agent: Implementation | None) -> bool:
    """Return whether reading a missing file must return an empty one for this agent."""
    return agent is not None and agent.name in _MISSING_FILE_IS_EMPTY
