"""The initialize result for a client: the agent's, plus what the host adds. Pure.

Login methods that need a terminal beside the agent are left out: the client's terminal is not there.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
from msgspec import UNSET

from dragoman.dialect.dialects import Dialect
from dragoman.dialect.side_data import with_side_data
from dragoman.engine.peer_info import offers
from dragoman.host.room.notifications import TOPICS
from dragoman.schema.auth import AuthForm
from dragoman.schema.base import Marker
from dragoman.schema.initialize import AgentAuthCapabilities, AgentCapabilities, InitializeResult, SessionCapabilities
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side

# Capabilities of the host, whatever the agent supports.
_HOST_CAPABILITIES = dict.fromkeys(
    ("list", "resume", "close", "delete", "fork", "archive", "status", "title"), Marker()
)


# Capabilities that calls of a client may need.
_AGENT_GATES = frozenset(
    row.gate for (side, _), row in METHODS.items() if side is Side.AGENT and row.gate[:6] == "agent."
)


@lru_cache(maxsize=64)  # almost all clients get the same answer, so they share these sets
def open_gates(capabilities: bytes) -> frozenset[str]:
    """Return the gates of the method table that the given capabilities (JSON) open."""
    offered = msgspec.json.decode(capabilities)
    return frozenset(gate for gate in _AGENT_GATES if offers(gate, offered))


def initialize_result(agent: InitializeResult, dialect: Dialect) -> InitializeResult:
    """Return the initialize result for a client of this dialect."""
    offered = agent.agent_capabilities or AgentCapabilities()
    methods = [method for method in agent.auth_methods or () if method.form != AuthForm.TERMINAL]
    auth = offered.auth or AgentAuthCapabilities()
    if methods:  # the host logs in each new process of the agent, and can forget the login
        auth = msgspec.structs.replace(auth, logout=Marker())
    reached = offered.mcp_capabilities
    if reached:  # servers inside a client end with the client, but sessions do not
        reached = msgspec.structs.replace(reached, acp=UNSET)
    offered = msgspec.structs.replace(
        offered,
        load_session=True,
        mcp_capabilities=reached,
        session_capabilities=msgspec.structs.replace(
            offered.session_capabilities or SessionCapabilities(), **_HOST_CAPABILITIES
        ),
        auth=auth if methods or offered.auth else UNSET,
    )
    return msgspec.structs.replace(
        agent,
        protocol_version=1,
        agent_capabilities=with_side_data(offered, attach=True, host=dict.fromkeys(TOPICS, True)),
        auth_methods=methods if methods or dialect.official else UNSET,
    )
