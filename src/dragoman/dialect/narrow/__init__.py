"""Updates and questions of agents that have more to tell than a client can be told, in a form that it has."""

from __future__ import annotations

from typing import Final

# The calls to a client that are narrowed.
NARROWED_METHODS: Final = frozenset({"session/update", "session/request_permission"})
