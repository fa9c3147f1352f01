"""The agent connection of one room and its one session, written to the log of the room.

Unlike other logged agents it keeps no message text: members get it from log entries, or read it from the store.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from dragoman import __version__
from dragoman.engine.incoming import DoneCallback, Incoming
from dragoman.engine.peer_info import offers
from dragoman.errors import ConnectionFailed, ProtocolError
from dragoman.host.pool.pool import PooledDialer, reason_not_shared
from dragoman.host.refusals import refusal
from dragoman.roles.client.callbacks import UserCallbacks
from dragoman.roles.client.connect import SESSION_CAPABILITIES
from dragoman.roles.client.dial import Dialer
from dragoman.roles.client.logged_agent import LoggedAgent
from dragoman.roles.client.logged_session import LoggedClientSession
from dragoman.roles.client.session import SessionSettings
from dragoman.roles.client.workspace import WorkspaceAccess
from dragoman.schema.base import encode, to_json
from dragoman.schema.initialize import Implementation, InitializeParams
from dragoman.schema.mcp import McpServer
from dragoman.schema.session import CloseSessionParams, DeleteSessionParams, ForkSessionParams, SetTitleParams
from dragoman.schema.side import Side
from dragoman.schema.update import (
    AgentMessageChunk,
    AgentThoughtChunk,
    ToolCallProgress,
    ToolCallStart,
    UserMessageChunk,
)
from dragoman.store.contract import EntryKind, Summary
from dragoman.store.session_log import strip_secrets
from dragoman.transport.base import Transport

if TYPE_CHECKING:
    from dragoman.config.config_file import NamedAgent
    from dragoman.host.room.room import Room

# Not kept in memory: these are in the log, and were sent to the members.
_MESSAGE_CHUNKS = (AgentMessageChunk, AgentThoughtChunk, UserMessageChunk)

# Error kind in the log for a turn that ended because the host stopped the agent.
INTERRUPTED = "interrupted"


class RoomClientSession(LoggedClientSession):
    """The session that a room has with its agent."""

    def __init__(self, room: Room, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._room = room
        self._prompter = room.opener

    def receive(self, update: Any) -> Awaitable[None] | None:
        """Log one update, in order. The room sends it to the members after the commit. It is encoded once for both."""
        if self._replayed is not None:
            if not self._continues_log:
                self._replayed.append(update)
            self._note_state(update)
            return None
        log = self._log
        if type(update) in _MESSAGE_CHUNKS:
            log.append(EntryKind.UPDATE, Raw(encode(update)))
        else:
            log.append(EntryKind.UPDATE, Raw(encode(update)), then=lambda: self._note_state(update))
        return log.wait_for_space() if log.is_full else None

    def _note_state(self, update: Any) -> None:
        """Keep the current state: tool calls for the guard, mode and options."""
        if type(update) is ToolCallStart or type(update) is ToolCallProgress:
            self._note_tool_call(update, lambda: self._transcript.add(update))
        elif type(update) not in _MESSAGE_CHUNKS:
            self._transcript.add(update)

    def begin_turn(self, prompt: list[Any]) -> Awaitable[None]:
        """Start a turn and drop what earlier turns kept."""
        self._transcript.discard_finished()
        return super().begin_turn(prompt)

    def wrap_done(self, done: DoneCallback) -> DoneCallback:
        """Wrap the answer to a prompt. If the host itself stopped the agent, the log says that the turn was
        interrupted.
        """
        finish = super().wrap_done(done)

        def on_done(result: Any, error: ProtocolError | None) -> None:
            if error is not None and self.is_closing and isinstance(error.__cause__, ConnectionFailed):
                cause = error.__cause__
                error = ProtocolError(INTERRUPTED, self._room.close_reason)
                error.__cause__ = cause
            finish(result, error)

        return on_done

    async def wait_unlogged_turn(self) -> None:
        """Wait, with a time limit, until a turn whose end could not be stored is over."""
        await self._wait_unlogged_turn()

    def decider(self, params: Any) -> str:
        """Return who answered: a member, or the policy."""
        return self._room.agent_questions.take_decider(params)

    def real_folder(self, path: str) -> str:
        """Return where a folder of the session led when it was checked."""
        return self._room.agent.real_folder(path)

    def on_agent_lost(self, error: ConnectionFailed) -> None:
        """Tell the room first that the agent is gone."""
        self._room.agent.on_lost(self, error)
        super().on_agent_lost(error)


class RoomAgent(LoggedAgent):
    """The agent of one room."""

    def __init__(self, room: Room, name: str, *args: Any, **more: Any) -> None:
        super().__init__(room.host.store, None, *args, **more)
        self._room = room
        self._configured_name = name
        self._shared_log = room.log
        self._session_type = partial(RoomClientSession, room)

    @property
    def _agent_info(self) -> dict[str, Any]:
        """The agent's own info, plus its configured name, by which the session finds it again."""
        return {**super()._agent_info, "configured": self._configured_name}

    async def _stored_setup(self, summary: Summary) -> tuple[list[str], list[McpServer]]:
        """Return the folders and servers of the last opening, limited to checked folders and allowed servers."""
        directories, servers = await super()._stored_setup(summary)
        return [
            path for path in directories if path in self._room.agent.folders
        ], await self._room.agent.startable_servers(servers)

    @property
    def agent_info(self) -> dict[str, Any]:
        """The agent info that logs contain."""
        return self._agent_info

    def _reject_unknown(self, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        """Forward what only clients can answer. Refuse the rest with a reason."""
        is_theirs, work = self._room.forward_to_clients(incoming, done)
        if not is_theirs and incoming.is_request:
            done(None, refusal(Side.CLIENT, incoming, "no client in the session can answer it"))
        return work


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
) -> tuple[RoomAgent, InitializeParams]:
    """Create the agent of a room without starting it. Return it with the initialize params for it."""
    dial = dialer_for_room(room, agent_config, cwd, report=report, initialize_timeout=timeout or 60.0)
    callbacks = UserCallbacks(permission, elicit)
    agent = RoomAgent(
        room,
        agent_config.name,
        dial,
        callbacks,
        workspace=workspace,
        on={},
        terminal_login=None,
        settings=SessionSettings(timeout=timeout),
    )
    offered = workspace.capabilities()
    offered.elicitation = callbacks.capabilities()
    return agent, initialize_params(offered)


def dialer_for_room(room: Room, agent_config: NamedAgent, cwd: str, **more: Any) -> Dialer:
    """Return how to reach the agent of a room: its own process, or one shared with other rooms of its owner."""
    pool, dialect = room.host.pool, room.host.agent_catalog.dialect_of(agent_config)
    reason = reason_not_shared(agent_config, dialect)
    if pool is None or reason:
        room.agent.process_note = f"own: {reason}" if pool is not None else "own"
        return build_dialer(
            agent_config,
            cwd,
            room.host.agent_catalog.target_of(agent_config),
            resolve=room.agent.checked_folder,
            **more,
        )
    more |= {
        "dialect": dialect,
        "cwd": cwd,
        "env": dict(agent_config.env),
        "session_capabilities": SESSION_CAPABILITIES,
        "resolve_folder": room.agent.checked_folder,
    }
    return PooledDialer(pool, room, agent_config, **more)


def build_dialer(
    agent_config: NamedAgent,
    cwd: str,
    target: Sequence[str] | Transport,
    *,
    report: Callable[[str], None] | None,
    initialize_timeout: float,
    resolve: Callable[[str], str] = os.path.realpath,
) -> Dialer:
    """Return how to reach a configured agent."""
    return Dialer(
        target,
        dialect=agent_config.dialect,
        cwd=cwd,
        env=dict(agent_config.env),
        report=report,
        initialize_timeout=initialize_timeout,
        session_capabilities=SESSION_CAPABILITIES,
        sandbox=_default_sandbox() if agent_config.sandbox else None,
        resolve_folder=resolve,
    )


def initialize_params(offered: Any) -> InitializeParams:
    """Return the initialize params that the host sends to agents."""
    return InitializeParams(
        protocol_version=1,
        client_capabilities=offered,
        client_info=Implementation(name="dragoman", title="Dragoman host", version=__version__),
    )


def _default_sandbox() -> Any:
    from dragoman.transport.sandbox.spec import Sandbox

    return Sandbox()


def _capable_agent(room: Room, capability: str) -> tuple[RoomAgent, RoomClientSession] | None:
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
    body = {
        "sessionId": result.session_id,
        "by": "session/fork",
        "cwd": session.cwd,
        "agent": agent.agent_info,
        "additionalDirectories": session.directories,
        "resolved": session.linked_folders,
        "mcpServers": [to_json(server) for server in strip_secrets(session.mcp_servers)[0]],
        "modes": to_json(result.modes) if result.modes else None,
        "configOptions": [to_json(option) for option in result.config_options or ()],
    }
    return {name: value for name, value in body.items() if value}


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
