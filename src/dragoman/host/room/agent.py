"""The agent of one room: its process, and the one session it has there, logged in the chronicle of the room.

Like any remote agent with a log, but it keeps nothing of what is said: members hear it from the log's entries, and
whoever comes later reads it from the store. Above is the room; below are the logged agent and its conversation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.engine.peer_info import offers
from dragoman.errors import ConnectionFailed, ProtocolError
from dragoman.schema.base import to_json
from dragoman.schema.session import CloseSessionParams, DeleteSessionParams, ForkSessionParams, SetTitleParams
from dragoman.store.session_log import strip_secrets

if TYPE_CHECKING:
    from dragoman.host.room.room import Room

import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Raw

from dragoman.engine.incoming import Incoming
from dragoman.engine.pending import DoneCallback
from dragoman.host.pool.pool import PooledDialer, reason_not_shared
from dragoman.host.refusals import refusal
from dragoman.roles.client.callbacks import UserCallbacks
from dragoman.roles.client.connect import SESSION_CAPABILITIES
from dragoman.roles.client.dial import Dialer
from dragoman.roles.client.logged_conversation import LoggedClientSession
from dragoman.roles.client.logged_sessions import LoggedAgent
from dragoman.roles.client.session import SessionSettings
from dragoman.roles.client.workspace import WorkspaceAccess
from dragoman.schema.base import encode
from dragoman.schema.initialize import Implementation, InitializeParams
from dragoman.schema.mcp import McpServer
from dragoman.schema.side import Side
from dragoman.schema.update import (
    AgentMessageChunk,
    AgentThoughtChunk,
    ToolCallProgress,
    ToolCallStart,
    UserMessageChunk,
)
from dragoman.store.contract import EntryKind, Summary
from dragoman.transport.base import Transport

if TYPE_CHECKING:
    from dragoman.config.config_file import NamedAgent
    from dragoman.host.room.room import Room

# What nobody here looks at again: it is in the log, and was told.
_MESSAGE_CHUNKS = (AgentMessageChunk, AgentThoughtChunk, UserMessageChunk)

# What the log says of a turn that ended because the host did.
INTERRUPTED = "interrupted"

VERSION = "0.1.0"


class RoomClientSession(LoggedClientSession):
    """The session of a room's agent."""

    def __init__(self, room: Room, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._room = room
        self._prompter = room.opener

    def receive(self, update: Any) -> Awaitable[None] | None:
        """One update, in order: kept first, then told by the room; encoded once for both."""
        if self._replayed is not None:
            if not self._continues_log:
                self._replayed.append(update)
            self._note_state(update)
            return None
        chronicle = self._log
        if type(update) in _MESSAGE_CHUNKS:
            chronicle.append(EntryKind.UPDATE, Raw(encode(update)))
        else:
            chronicle.append(EntryKind.UPDATE, Raw(encode(update)), then=lambda: self._note_state(update))
        return chronicle.wait_for_space() if chronicle.is_full else None

    def _note_state(self, update: Any) -> None:
        """Keep what is so now: tool calls for the guard, mode and options."""
        if type(update) is ToolCallStart or type(update) is ToolCallProgress:
            self._note_tool_call(update, lambda: self._transcript.add(update))
        elif type(update) not in _MESSAGE_CHUNKS:
            self._transcript.add(update)

    def begin_turn(self, prompt: list[Any]) -> Awaitable[None]:
        """A turn begins: nothing of those before it is needed any more."""
        self._transcript.discard_finished()
        return super().begin_turn(prompt)

    def wrap_done(self, done: DoneCallback) -> DoneCallback:
        """The answer to a prompt; where the host itself ends the agent, the log says that the turn was interrupted."""
        told = super().wrap_done(done)

        def interruptible(result: Any, error: ProtocolError | None) -> None:
            if error is not None and self.is_closing and isinstance(error.__cause__, ConnectionFailed):
                cause = error.__cause__
                error = ProtocolError(INTERRUPTED, self._room.close_reason)
                error.__cause__ = cause
            told(result, error)

        return interruptible

    async def wait_unlogged_turn(self) -> None:
        """Wait until a turn that could not be kept is over, as long as anybody should."""
        await self._wait_unlogged_turn()

    def decider(self, params: Any) -> str:
        """Who answered: a member, or nobody, and then the policy of the house."""
        return self._room.agent_questions.take_decider(params)

    def real_folder(self, path: str) -> str:
        """Where a folder of the session was when it was admitted."""
        return self._room.real_folder(path)

    def on_agent_lost(self, error: ConnectionFailed) -> None:
        """The agent is gone: the room hears of it first."""
        self._room.on_agent_lost(self, error)
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
        """What it says it is, and what the house calls it, by which it is found again."""
        return {**super()._agent_info, "configured": self._configured_name}

    async def _stored_setup(self, summary: Summary) -> tuple[list[str], list[McpServer]]:
        """The folders and servers it was opened with last; no folder but those that were checked."""
        directories, servers = await super()._stored_setup(summary)
        return [path for path in directories if path in self._room.folders], await self._room.startable(servers)

    @property
    def agent_info(self) -> dict[str, Any]:
        """The same, for logs."""
        return self._agent_info

    def _reject_unknown(self, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        """What only clients can make sense of goes to them; what the house refuses is refused by its reason."""
        is_theirs, work = self._room.forward_to_clients(incoming, done)
        if not is_theirs and incoming.is_request:
            done(None, refusal(Side.CLIENT, incoming, "nobody is in the session who could be asked"))
        return work


def create_agent(
    room: Room,
    named: NamedAgent,
    cwd: str,
    *,
    workspace: WorkspaceAccess,
    permission: Callable[[Any], Any],
    elicit: Callable[[Any], Any],
    report: Callable[[str], None] | None = None,
    timeout: float | None = None,
) -> tuple[RoomAgent, InitializeParams]:
    """The agent of a room, not started yet, and how we introduce ourselves to it."""
    dial = dialer_for_room(room, named, cwd, report=report, patience=timeout or 60.0)
    answers = UserCallbacks(permission, elicit)
    agent = RoomAgent(
        room,
        named.name,
        dial,
        answers,
        lend=workspace,
        on={},
        sign_in=None,
        terms=SessionSettings(timeout=timeout),
    )
    offered = workspace.capabilities()
    offered.elicitation = answers.capabilities()
    return agent, initialize_params(offered)


def dialer_for_room(room: Room, named: NamedAgent, cwd: str, **more: Any) -> Dialer:
    """How the agent of a room is reached: at a process of its own, or at one that rooms of its owner share."""
    pool, dialect = room.host.pool, room.host.agent_catalog.dialect_of(named)
    why = reason_not_shared(named, dialect)
    if pool is None or why:
        room.process_note = f"own: {why}" if pool is not None else "own"
        return build_dialer(named, cwd, room.host.agent_catalog.target_of(named), resolve=room.checked_folder, **more)
    more |= {
        "dialect": dialect,
        "cwd": cwd,
        "env": dict(named.env),
        "shows": SESSION_CAPABILITIES,
        "resolve": room.checked_folder,
    }
    return PooledDialer(pool, room, named, **more)


def build_dialer(
    named: NamedAgent,
    cwd: str,
    target: Sequence[str] | Transport,
    *,
    report: Callable[[str], None] | None,
    initialize_timeout: float,
    resolve: Callable[[str], str] = os.path.realpath,
) -> Dialer:
    """How an agent of the house is reached."""
    return Dialer(
        target,
        dialect=named.dialect,
        cwd=cwd,
        env=dict(named.env),
        report=report,
        initialize_timeout=initialize_timeout,
        session_capabilities=SESSION_CAPABILITIES,
        sandbox=_default_sandbox() if named.sandbox else None,
        resolve_folder=resolve,
    )


def initialize_params(offered: Any) -> InitializeParams:
    """How the house introduces itself to agents."""
    return InitializeParams(
        protocol_version=1,
        client_capabilities=offered,
        client_info=Implementation(name="dragoman", title="Dragoman host", version=VERSION),
    )


def _default_sandbox() -> Any:
    from dragoman.transport.sandbox.spec import Sandbox

    return Sandbox()


def _capable_agent(room: Room, capability: str) -> tuple[RoomAgent, RoomClientSession] | None:
    """The agent and its session, where it is awake and can do this."""
    agent, session = room.agent, room.session
    if agent is None or session is None or not offers(f"agent.sessionCapabilities.{capability}", agent.capabilities):
        return None
    return agent, session


async def fork_agent_session(room: Room) -> dict[str, Any] | None:
    """Let the agent fork the session: what the log of the fork says of that; None where it cannot."""
    able = _capable_agent(room, "fork")
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
        room.host.report(f"session {room.id}: its agent did not fork it ({error}); the fork is told what was said")
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
    """Let the agent delete its own of the session."""
    able = _capable_agent(room, "delete")
    if able is None:
        return
    params = DeleteSessionParams(session_id=able[1].id)
    try:
        await able[1].connection.request("session/delete", params, timeout=room.host.limits.stop_timeout)
    except (ProtocolError, ConnectionFailed) as error:
        room.host.report(f"session {room.id}: its agent did not delete it: {error}")


async def set_agent_title(room: Room, title: str) -> str:
    """Let the agent have a title: the title as it is now, for an agent may store another."""
    able = _capable_agent(room, "title")
    if able is None:
        return title
    params = SetTitleParams(session_id=able[1].id, title=title)
    result = await able[1].connection.request("session/set_title", params, timeout=room.host.limits.stop_timeout)
    return str(result.title)
