"""How the house introduces itself to a client: as the agent behind it, with what the house adds. Pure.

Takes what the agent answered to initialize, gives what the client is answered. Ways to log in that need a terminal
beside the agent are left out: the client's terminal is not there.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
from msgspec import UNSET

from dragoman.dialect.side_data import with_side_data
from dragoman.engine.peer_info import offers
from dragoman.host.room.notifications import TOPICS
from dragoman.roles.agent.session import OFFICIAL_DIALECTS
from dragoman.schema.auth import AuthForm
from dragoman.schema.base import Marker
from dragoman.schema.initialize import AgentAuthCapabilities, AgentCapabilities, InitializeResult, SessionCapabilities
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side

# What the house serves whatever the agent can: sessions are the house's own.
_HOST_CAPABILITIES = dict.fromkeys(
    ("list", "resume", "close", "delete", "fork", "archive", "status", "title"), Marker()
)


# What a call of a client's may need of what was offered.
_AGENT_GATES = frozenset(
    row.gate for (side, _), row in METHODS.items() if side is Side.AGENT and row.gate[:6] == "agent."
)


@lru_cache(maxsize=64)  # clients are told the same, but for a few agents and dialects: a thousand of them share these
def open_gates(capabilities: bytes) -> frozenset[str]:
    """Which gates of the method table are open by what a client was told, as JSON."""
    told = msgspec.json.decode(capabilities)
    return frozenset(gate for gate in _AGENT_GATES if offers(gate, told))


def initialize_result(agent: InitializeResult, dialect: str) -> InitializeResult:
    """What a client of this dialect is answered."""
    offered = agent.agent_capabilities or AgentCapabilities()
    methods = [method for method in agent.auth_methods or () if method.form != AuthForm.TERMINAL]
    auth = offered.auth or AgentAuthCapabilities()
    if methods:  # the house logs in anew with every process of the agent, and can stop doing so
        auth = msgspec.structs.replace(auth, logout=Marker())
    reached = offered.mcp_capabilities
    if reached:  # servers inside a client end with it, and sessions do not
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
        auth_methods=methods if methods or dialect in OFFICIAL_DIALECTS else UNSET,
    )
