"""Tables of v2: error codes, renamed methods, the methods that v2 dropped, and the form of chunks."""

from __future__ import annotations

from typing import Final

from dragoman.dialect.v1.tables import CHUNK_WITH_ID
from dragoman.dialect.v1.tables import CODES as V1_CODES
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side

NAME: Final = "v2"
VERSION: Final = 2

CODES: Final[dict[str, int]] = dict(V1_CODES)

# v2 name -> vocabulary name, of calls to the agent. `session/resume` is also `session/load`, by `replayFrom`.
METHOD_NAMES: Final = {"auth/login": "authenticate", "auth/logout": "logout"}

# Calls of v1 that v2 does not have.
DROPPED_METHODS: Final = {
    Side.AGENT: frozenset({"authenticate", "logout", "session/load", "session/set_mode", "permission_response"}),
    Side.CLIENT: frozenset(
        name for side, name in METHODS if side is Side.CLIENT and name.startswith(("fs/", "terminal/"))
    ),
}

# The start of a replay; the only place that the official schema names.
REPLAY_START: Final = "start"

# Statuses of tool calls that only seed dialects have.
NEAREST_STATUSES: Final = {"awaiting_permission": "pending", "denied": "failed"}

# The members of a tool call that `null` clears.
CLEARABLE_MEMBERS: Final = (
    "name",
    "title",
    "kind",
    "status",
    "content",
    "locations",
    "rawInput",
    "rawOutput",
    "capabilities",
)

# The id of a plan and of a mode option that stand for v1's, which have none.
PLAN_ID: Final = "plan"
MODE_ID: Final = "mode"
MODE_CATEGORY: Final = "mode"

# The stop reason of a prompt result while the turn still runs; no peer sees it.
INSERTED: Final = "inserted"

CHUNK_FORMS: Final = (CHUNK_WITH_ID,)

# What is said in another way: modes as an option, the end of a turn as a state, texts as a patch. null of v1 says
# nothing.
_OPTIONS: Final = frozenset({"modes", "configOptions", "configOptions[]"})
_DIFF: Final = ("type", "path", "oldText", "newText")
EMULATED_MEMBERS: Final = {
    "session/update": frozenset(
        {"update.sessionUpdate", *(f"update.{name}" for name in CLEARABLE_MEMBERS)}
        | {f"update.content[].{name}" for name in _DIFF}
    ),
    "session/request_permission": frozenset(f"toolCall.content[].{name}" for name in _DIFF),
    "initialize result": frozenset({"agentCapabilities.loadSession", "agentCapabilities.sessionCapabilities"}),
    "session/new result": _OPTIONS,
    "session/fork result": _OPTIONS,
    "session/load result": _OPTIONS,
    "session/resume result": _OPTIONS,
    "session/prompt result": frozenset({"stopReason", "usage"}),
}
