"""The agent connection of one room: create it, with the log of the room, and let the agent fork, delete or title."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from dragoman import __version__
from dragoman.engine.incoming import DoneCallback, Incoming
from dragoman.engine.peer_info import offers
from dragoman.errors import ConnectionFailed, ProtocolError
from dragoman.host.access import refusal
from dragoman.host.pool.pool import PooledDialer, reason_not_shared
from dragoman.roles.client.callbacks import UserCallbacks
from dragoman.roles.client.connect import SESSION_CAPABILITIES
from dragoman.roles.client.dial import Dialer
from dragoman.roles.client.logged_sessions import LogSettings, agent_info, linked_folders
from dragoman.roles.client.remote_agent import RemoteAgent
from dragoman.roles.client.session import ClientSession
from dragoman.roles.client.session_settings import SessionSettings
from dragoman.roles.client.workspace import WorkspaceAccess
from dragoman.schema.initialize import ClientCapabilities, Implementation, InitializeParams
from dragoman.schema.session import CloseSessionParams, DeleteSessionParams, ForkSessionParams, SetTitleParams
from dragoman.schema.side import Side
from dragoman.store.session_log import opened_body

if TYPE_CHECKING:
    from dragoman.config.config_file import NamedAgent
    from dragoman.host.room.room import Room

# Error kind in the log for a turn that ended because the host stopped the agent.
INTERRUPTED = "interrupted"

# The variable in `env` of an agent that runs elsewhere, with the token for it.
TOKEN_VARIABLE = "DRAGOMAN_TOKEN"


def create_agent(
    room: Room,
    agent_config: NamedAgent,
    cwd: str,
    *,
    workspace: WorkspaceAccess,
    permission: Callable[[Any], Any],
    elicit: Callable[[Any], Any],
    report: Callable[[str], None] | None = None,
    timeout: float | None = None,
) -> tuple[RemoteAgent, InitializeParams]:
    """Create the agent of a room without starting it. Return it with the initialize params for it."""
    dial = dialer_for_room(room, agent_config, cwd, report=report, initialize_timeout=timeout or 60.0)
    callbacks = UserCallbacks(permission, elicit)
    # An agent that runs elsewhere has files of its own: those of this machine are not the same.
    offered = None if agent_config.is_remote else workspace
    agent = RemoteAgent(
        dial,
        callbacks,
        workspace=offered,
        settings=SessionSettings(
            timeout=timeout,
            keeps_messages=False,  # members get them from log entries, or read them from the store
            decider=room.agent_questions.take_decider,
            on_agent_lost=room.agent.on_lost,
            interruption=lambda: ProtocolError(INTERRUPTED, room.close_reason),
        ),
        log=LogSettings(
            store=room.host.store,
            log=room.log,
            opener=room.opener,
            # By which the session finds it again, and the place where it runs.
            agent_info={"configured": agent_config.name, **room.place_info(cwd)},
            real_folder=room.agent.real_folder,
        ),
        fallback=partial(_forward_to_clients, room),
    )
    return agent, initialize_params(offered, callbacks)


def _forward_to_clients(room: Room, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
    """Forward what only clients can answer. Refuse the rest with a reason."""
    is_theirs, work = room.forward_to_clients(incoming, done)
    if not is_theirs and incoming.is_request:
        done(None, refusal(Side.CLIENT, incoming, "no client in the session can answer it"))
    return work


def dialer_for_room(room: Room, agent_config: NamedAgent, cwd: str, **more: Any) -> Dialer:
    """Return how to reach the agent of a room: its own process, or one shared with other rooms of its owner."""
    catalog, pool = room.host.agent_catalog, room.host.pool
    more["resolve_folder"] = room.agent.checked_folder
    reason = reason_not_shared(agent_config, catalog.dialect_of(agent_config))
    if pool is None or reason:
        room.agent.process_note = f"own: {reason}" if pool is not None else "own"
        more["first_try"] = catalog.dialect_of(agent_config)
        return Dialer(catalog.target_of(agent_config), **dialer_options(agent_config, cwd), **more)
    options = dialer_options(agent_config, cwd) | {"dialect": catalog.dialect_of(agent_config)}
    return PooledDialer(pool, room, agent_config, **options, **more)


def dialer_options(agent_config: NamedAgent, cwd: str) -> dict[str, Any]:
    """Return the options of a dialer that reaches a configured agent."""
    options: dict[str, Any] = {}
    if agent_config.is_remote:
        from dragoman.transport.remote.address import RemoteOptions

        options["remote"] = RemoteOptions(token=agent_config.env.get(TOKEN_VARIABLE, ""))
    return options | {
        "dialect": agent_config.dialect,
        "cwd": cwd,
        "env": dict(agent_config.env),
        "session_capabilities": SESSION_CAPABILITIES,
        "sandbox": agent_config.confinement,
    }


def initialize_params(workspace: WorkspaceAccess | None, callbacks: UserCallbacks) -> InitializeParams:
    """Return the initialize params that the host sends to an agent with this workspace and these callbacks."""
    offered = ClientCapabilities() if workspace is None else workspace.capabilities()
    offered.elicitation = callbacks.capabilities()
    return InitializeParams(
        protocol_version=1,
        client_capabilities=offered,
        client_info=Implementation(name="dragoman", title="Dragoman host", version=__version__),
    )


def _capable_agent(room: Room, capability: str) -> tuple[RemoteAgent, ClientSession] | None:
    agent, session = room.agent.remote, room.agent.session
    if agent is None or session is None or not offers(f"agent.sessionCapabilities.{capability}", agent.capabilities):
        return None
    return agent, session


async def fork_agent_session(room: Room) -> dict[str, Any] | None:
    """Let the agent fork its session. Return the entry for the log of the fork; None if the agent cannot fork."""
    capable = _capable_agent(room, "fork")
    if capable is None:
        return None
    agent, session = capable
    params = ForkSessionParams(session_id=session.id, cwd=session.cwd, mcp_servers=session.mcp_servers)
    try:
        room.agent.check_folders()
        result = await session.request("session/fork", params)
        if offers("agent.sessionCapabilities.close", agent.capabilities):  # the fork gets an agent of its own
            await session.request("session/close", CloseSessionParams(session_id=result.session_id))
    except (ProtocolError, ConnectionFailed) as error:
        room.host.report(
            f"session {room.id}: its agent did not fork it ({error}); the agent of the fork will be told the history"
        )
        return None
    return opened_body(
        session,
        "session/fork",
        {**agent_info(agent), "configured": room.state.agent},
        result.modes,
        result.config_options or (),
        resolved=linked_folders(session, room.agent.real_folder),
        sessionId=result.session_id,
    )


async def delete_agent_session(room: Room) -> None:
    """Let the agent delete its copy of the session."""
    capable = _capable_agent(room, "delete")
    if capable is None:
        return
    params = DeleteSessionParams(session_id=capable[1].id)
    try:
        await capable[1].connection.request("session/delete", params, timeout=room.host.limits.stop_timeout)
    except (ProtocolError, ConnectionFailed) as error:
        room.host.report(f"session {room.id}: its agent did not delete it: {error}")


async def set_agent_title(room: Room, title: str) -> str:
    """Send a title to the agent if it supports titles. Return the title that the agent stored."""
    capable = _capable_agent(room, "title")
    if capable is None:
        return title
    params = SetTitleParams(session_id=capable[1].id, title=title)
    result = await capable[1].connection.request("session/set_title", params, timeout=room.host.limits.stop_timeout)
    return str(result.title)
