"""Peculiarities of single peers, known by the name they give themselves at initialize (peers.md).

A rule that does no harm to anybody is no quirk and lives where it applies; what helps one peer and would mislead
another stands here, with its reason. Above: client. Below: the schema.
"""

from __future__ import annotations

from dragoman.schema.initialize import Implementation

# Agents that look before they write, and take an error for a failure whatever it says: they could never make a file
# (peers.md 28). Other clients answer a missing file with an empty one as well.
_MISSING_FILE_IS_EMPTY = frozenset({"gemini-cli"})


def missing_file_is_empty(agent: Implementation | None) -> bool:
    """Whether this agent must be told that a missing file is empty."""
    return agent is not None and agent.name in _MISSING_FILE_IS_EMPTY
