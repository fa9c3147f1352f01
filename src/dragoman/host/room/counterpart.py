"""What the agent of a room keeps of its session: forked, deleted and titled there too, where it is awake and can.

The session is the host's own, so none of this has to work. Above are the calls about sessions; below is the agent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.engine.capability import offers
from dragoman.errors import ConnectionFailed, ProtocolError
from dragoman.schema.base import to_json
from dragoman.schema.session import CloseSessionParams, DeleteSessionParams, ForkSessionParams, SetTitleParams
from dragoman.store.session_log import without_secrets

if TYPE_CHECKING:
    from dragoman.host.room.agent import RoomAgent, RoomConversation
    from dragoman.host.room.room import Room


def _able(room: Room, what: str) -> tuple[RoomAgent, RoomConversation] | None:
    """The agent and its session, where it is awake and can do this."""
    agent, session = room.agent, room.session
    if agent is None or session is None or not offers(f"agent.sessionCapabilities.{what}", agent.capabilities):
        return None
    return agent, session


async def forked(room: Room) -> dict[str, Any] | None:
    """Let the agent fork the session: what the log of the fork says of that; None where it cannot."""
    able = _able(room, "fork")
    if able is None:
        return None
    agent, session = able
    params = ForkSessionParams(session_id=session.id, cwd=session.cwd, mcp_servers=session.mcp_servers)
    try:
        room.check_folders()
        result = await session.request("session/fork", params)
        if offers("agent.sessionCapabilities.close", agent.capabilities):  # the fork has an agent of its own
            await session.request("session/close", CloseSessionParams(session_id=result.session_id))
    except (ProtocolError, ConnectionFailed) as error:
        room.house.report(f"session {room.id}: its agent did not fork it ({error}); the fork is told what was said")
        return None
    body = {
        "sessionId": result.session_id,
        "by": "session/fork",
        "cwd": session.cwd,
        "agent": agent.told,
        "additionalDirectories": session.directories,
        "resolved": session.resolved,
        "mcpServers": [to_json(server) for server in without_secrets(session.mcp_servers)[0]],
        "modes": to_json(result.modes) if result.modes else None,
        "configOptions": [to_json(option) for option in result.config_options or ()],
    }
    return {name: value for name, value in body.items() if value}


async def renounced(room: Room) -> None:
    """Let the agent delete its own of the session."""
    able = _able(room, "delete")
    if able is None:
        return
    params = DeleteSessionParams(session_id=able[1].id)
    try:
        await able[1].connection.request("session/delete", params, timeout=room.house.bounds.stopping)
    except (ProtocolError, ConnectionFailed) as error:
        room.house.report(f"session {room.id}: its agent did not delete it: {error}")


async def retitled(room: Room, title: str) -> str:
    """Let the agent have a title: the title as it is now, for an agent may store another."""
    able = _able(room, "title")
    if able is None:
        return title
    params = SetTitleParams(session_id=able[1].id, title=title)
    result = await able[1].connection.request("session/set_title", params, timeout=room.house.bounds.stopping)
    return str(result.title)
