"""How the house introduces itself to a client: as the agent behind it, with what the house adds. Pure.

Takes what the agent answered to initialize, gives what the client is answered. Ways to log in that need a terminal
beside the agent are left out: the client's terminal is not there.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from dragoman.dialect.beside import noted
from dragoman.host.telling import ANNOUNCED
from dragoman.roles.sessions import OFFICIAL
from dragoman.schema.auth import AuthForm
from dragoman.schema.base import Marker
from dragoman.schema.initialize import AgentCapabilities, InitializeResult, SessionCapabilities

# What the house serves whatever the agent can: sessions are the house's own.
_SERVED = {"list": Marker(), "resume": Marker(), "close": Marker(), "delete": Marker(), "fork": Marker()}

# What it does not pass on.
_UNSERVED = {"archive": UNSET, "status": UNSET, "title": UNSET}


def introduced(agent: InitializeResult, spoken: str) -> InitializeResult:
    """What a client of this dialect is answered."""
    offered = agent.agent_capabilities or AgentCapabilities()
    sessions = offered.session_capabilities or SessionCapabilities()
    sessions = msgspec.structs.replace(sessions, **_SERVED, **_UNSERVED)
    offered = msgspec.structs.replace(offered, load_session=True, session_capabilities=sessions, providers=UNSET)
    offered = noted(offered, attach=True, host=dict.fromkeys(ANNOUNCED, True))
    methods = [method for method in agent.auth_methods or () if method.form != AuthForm.TERMINAL]
    return msgspec.structs.replace(
        agent,
        protocol_version=1,
        agent_capabilities=offered,
        auth_methods=methods if methods or spoken in OFFICIAL else UNSET,
    )
