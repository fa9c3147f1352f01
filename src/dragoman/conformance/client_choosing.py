"""How the sound client takes up what an agent offers: a session that is listed, the last mode, the last value.

Below is our own library, above is the client's twin. Only what is called `check-...` is chosen, for other probes offer
modes and options to see whether they are borne.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman import ProtocolError
from dragoman.roles.client.remote_agent import RemoteAgent
from dragoman.roles.client.session import ClientSession

Say = Callable[[str], None]


async def taken_up(agent: RemoteAgent, cwd: str, say: Say) -> ClientSession:
    """The session to prompt in; what the agent refuses is told, and done without."""
    session = await _older(agent, cwd, say) or await agent.open_session(cwd=cwd)
    try:
        modes = [mode.id for mode in session.modes.available_modes] if session.modes else []
        if modes and modes[-1].startswith("check-"):
            await session.set_mode(modes[-1])
        for option in session.options:
            if option.id.startswith("check-"):
                await session.set_option(option.id, "large")
    except ProtocolError as error:
        say(f"{error}\n")
    return session


async def _older(agent: RemoteAgent, cwd: str, say: Say) -> ClientSession | None:
    offered = agent.capabilities.session_capabilities
    if not (offered and offered.list):
        return None
    try:
        known = [info.session_id async for info in agent.iter_sessions(cwd)]
        if not known:
            return None
        if agent.capabilities.load_session:
            return await agent.load_session(known[-1], cwd)
        return await agent.resume_session(known[-1], cwd) if offered.resume else None
    except ProtocolError as error:
        say(f"{error}\n")
        return None
