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
from dragoman.store.session_log import without_secrets

if TYPE_CHECKING:
    from dragoman.host.room.room import Room

import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Raw

from dragoman.engine.incoming import Incoming
from dragoman.engine.pending import Done
from dragoman.host.pool.pool import PooledDial, unshared
from dragoman.host.refusals import refusal
from dragoman.roles.client.callbacks import Answers
from dragoman.roles.client.connect import SHOWN
from dragoman.roles.client.dial import Dial
from dragoman.roles.client.logged_conversation import LoggedConversation
from dragoman.roles.client.logged_sessions import LoggedAgent
from dragoman.roles.client.session import Terms
from dragoman.roles.client.workspace import Lending
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
_SAID = (AgentMessageChunk, AgentThoughtChunk, UserMessageChunk)

# What the log says of a turn that ended because the host did.
INTERRUPTED = "interrupted"

VERSION = "0.1.0"


class RoomConversation(LoggedConversation):
    """The session of a room's agent."""

    def __init__(self, room: Room, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._room = room
        self._prompter = room.opener

    def receive(self, update: Any) -> Awaitable[None] | None:
        """One update, in order: kept first, then told by the room; encoded once for both."""
        if self._history is not None:
            if not self._is_known:
                self._history.append(update)
            self._hear(update)
            return None
        chronicle = self._chronicle
        if type(update) in _SAID:
            chronicle.note(EntryKind.UPDATE, Raw(encode(update)))
        else:
            chronicle.note(EntryKind.UPDATE, Raw(encode(update)), then=lambda: self._hear(update))
        return chronicle.room() if chronicle.is_full else None

    def _hear(self, update: Any) -> None:
        """Keep what is so now: tool calls for the guard, mode and options."""
        if type(update) is ToolCallStart or type(update) is ToolCallProgress:
            self._note_call(update, lambda: self._minutes.note(update))
        elif type(update) not in _SAID:
            self._minutes.note(update)

    def begin(self, prompt: list[Any]) -> Awaitable[None]:
        """A turn begins: nothing of those before it is needed any more."""
        self._minutes.forget()
        return super().begin(prompt)

    def settled(self, done: Done) -> Done:
        """The answer to a prompt; where the host itself ends the agent, the log says that the turn was interrupted."""
        told = super().settled(done)

        def interruptible(result: Any, error: ProtocolError | None) -> None:
            if error is not None and self.is_closing and isinstance(error.__cause__, ConnectionFailed):
                cause = error.__cause__
                error = ProtocolError(INTERRUPTED, self._room.why_closing)
                error.__cause__ = cause
            told(result, error)

        return interruptible

    async def quiet(self) -> None:
        """Wait until a turn that could not be kept is over, as long as anybody should."""
        await self._let_go()

    def decider(self, params: Any) -> str:
        """Who answered: a member, or nobody, and then the policy of the house."""
        return self._room.consent.decider(params)

    def real_folder(self, path: str) -> str:
        """Where a folder of the session was when it was admitted."""
        return self._room.real_folder(path)

    def lost(self, error: ConnectionFailed) -> None:
        """The agent is gone: the room hears of it first."""
        self._room.lost(self, error)
        super().lost(error)


class RoomAgent(LoggedAgent):
    """The agent of one room."""

    def __init__(self, room: Room, name: str, *args: Any, **more: Any) -> None:
        super().__init__(room.house.store, None, *args, **more)
        self._room = room
        self._named = name
        self._chronicle = room.chronicle
        self._conversation = partial(RoomConversation, room)

    @property
    def _told(self) -> dict[str, Any]:
        """What it says it is, and what the house calls it, by which it is found again."""
        return {**super()._told, "configured": self._named}

    async def _setting(self, summary: Summary) -> tuple[list[str], list[McpServer]]:
        """The folders and servers it was opened with last; no folder but those that were checked."""
        directories, servers = await super()._setting(summary)
        return [path for path in directories if path in self._room.folders], await self._room.startable(servers)

    @property
    def told(self) -> dict[str, Any]:
        """The same, for logs."""
        return self._told

    def _decline(self, incoming: Incoming, done: Done) -> Awaitable[None] | None:
        """What only clients can make sense of goes to them; what the house refuses is refused by its reason."""
        is_theirs, work = self._room.pass_on(incoming, done)
        if not is_theirs and incoming.is_request:
            done(None, refusal(Side.CLIENT, incoming, "nobody is in the session who could be asked"))
        return work


def engage(
    room: Room,
    named: NamedAgent,
    cwd: str,
    *,
    lend: Lending,
    permission: Callable[[Any], Any],
    elicit: Callable[[Any], Any],
    report: Callable[[str], None] | None = None,
    timeout: float | None = None,
) -> tuple[RoomAgent, InitializeParams]:
    """The agent of a room, not started yet, and how we introduce ourselves to it."""
    dial = reaching(room, named, cwd, report=report, patience=timeout or 60.0)
    answers = Answers(permission, elicit)
    agent = RoomAgent(
        room,
        named.name,
        dial,
        answers,
        lend=lend,
        on={},
        sign_in=None,
        terms=Terms(timeout=timeout),
    )
    offered = lend.capabilities()
    offered.elicitation = answers.capabilities()
    return agent, introduction(offered)


def reaching(room: Room, named: NamedAgent, cwd: str, **more: Any) -> Dial:
    """How the agent of a room is reached: at a process of its own, or at one that rooms of its owner share."""
    pool, dialect = room.house.pool, room.house.roster.dialect_of(named)
    why = unshared(named, dialect)
    if pool is None or why:
        room.process = f"own: {why}" if pool is not None else "own"
        return dialling(named, cwd, room.house.roster.reach(named), resolve=room.checked_folder, **more)
    more |= {"dialect": dialect, "cwd": cwd, "env": dict(named.env), "shows": SHOWN, "resolve": room.checked_folder}
    return PooledDial(pool, room, named, **more)


def dialling(
    named: NamedAgent,
    cwd: str,
    target: Sequence[str] | Transport,
    *,
    report: Callable[[str], None] | None,
    patience: float,
    resolve: Callable[[str], str] = os.path.realpath,
) -> Dial:
    """How an agent of the house is reached."""
    return Dial(
        target,
        dialect=named.dialect,
        cwd=cwd,
        env=dict(named.env),
        report=report,
        patience=patience,
        shows=SHOWN,
        sandbox=_sandbox() if named.sandbox else None,
        resolve=resolve,
    )


def introduction(offered: Any) -> InitializeParams:
    """How the house introduces itself to agents."""
    return InitializeParams(
        protocol_version=1,
        client_capabilities=offered,
        client_info=Implementation(name="dragoman", title="Dragoman host", version=VERSION),
    )


def _sandbox() -> Any:
    from dragoman.transport.sandbox.spec import Sandbox

    return Sandbox()


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
