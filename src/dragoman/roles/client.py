"""A client in a dozen lines: connect to an agent, open a session, prompt, read the updates.

`connect` takes a command, a list of words or a transport and gives the agent as its clients see it. What the client
lends (files, terminals) and how it answers questions is given to `connect`. Below are connections; above are people's
programs and our own commands.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from msgspec import UNSET

from dragoman.dialect.beside import noted, unsaid
from dragoman.engine.connection import Connection
from dragoman.engine.exchange import Done
from dragoman.engine.handler import Handler, answering
from dragoman.engine.message import Incoming
from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.roles.conversation import Conversation
from dragoman.roles.dial import Dial, Dialled
from dragoman.roles.lending import Lending
from dragoman.roles.quirks import missing_file_is_empty
from dragoman.schema.auth import AuthenticateParams, LogoutParams
from dragoman.schema.base import Marker
from dragoman.schema.initialize import (
    AgentCapabilities,
    ClientCapabilities,
    ClientSessionCapabilities,
    ConfigOptionsCapabilities,
    FileSystemCapabilities,
    Implementation,
    InitializeParams,
    InitializeResult,
)
from dragoman.schema.mcp import McpServer
from dragoman.schema.permission import (
    CancelledOutcome,
    RequestPermissionParams,
    RequestPermissionResult,
    SelectedOutcome,
)
from dragoman.schema.session import (
    CloseSessionParams,
    DeleteSessionParams,
    ForkSessionParams,
    ListSessionsParams,
    ListSessionsResult,
    LoadSessionParams,
    NewSessionParams,
    ResumeSessionParams,
)
from dragoman.schema.update import UpdateParams
from dragoman.transport.contract import Transport

# Dialects whose session/new names the mode; in the others it is set afterwards.
_OPENS_IN_MODE = frozenset({"2025.1", "draft"})

# Gives the id of the chosen option, or None for "cancelled".
AskUser = Callable[[RequestPermissionParams], Awaitable[str | None] | str | None]

# What a Conversation can take beyond what every client takes: switches among the options, notices, compaction.
SHOWN = ClientSessionCapabilities(
    config_options=ConfigOptionsCapabilities(boolean=Marker()), notices=Marker(), compaction=Marker()
)

# Updates of sessions that nobody knows yet, kept until session/new is answered (peers.md 13).
EARLY = 1000


def connect(
    target: str | Sequence[str] | Transport,
    *,
    name: str = "dragoman",
    version: str = "0.1.0",
    dialect: str = "auto",
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    permission: AskUser | str = "deny",
    lend: Lending | None = None,
    on: Mapping[str, Callable[[Any], Any]] | None = None,
    capabilities: ClientCapabilities | None = None,
    mcp_servers: Sequence[McpServer] = (),
    report: Callable[[str], None] | None = None,
    stderr: Callable[[bytes], None] | None = None,
    patience: float = 60.0,
) -> Connecting:
    """Connect to an agent: a command, its words, or a transport. Use it with `async with`.

    `mcp_servers` are told to agents that want to know them at once (2025.1); others are told when a session is opened.
    """
    dial = Dial(
        target,
        dialect=dialect,
        cwd=cwd or os.getcwd(),
        env=env,
        mcp_servers=mcp_servers,
        report=report,
        stderr=stderr,
        patience=patience,
        shows=SHOWN if capabilities is None else None,
    )
    offered = capabilities or _offered(lend, on or {})
    info = Implementation(name=name, version=version)
    return Connecting(
        dial,
        InitializeParams(protocol_version=1, client_capabilities=offered, client_info=info),
        permission=permission,
        lend=lend,
        on=dict(on or {}),
    )


def _offered(lend: Lending | None, on: Mapping[str, Any]) -> ClientCapabilities:
    """What a client offers follows from what it lends and which methods it answers."""
    if lend is not None:
        offered = lend.capabilities()
    else:
        offered = ClientCapabilities(
            fs=FileSystemCapabilities(read_text_file=False, write_text_file=False), terminal=False
        )
    files = offered.fs or FileSystemCapabilities()
    if "fs/read_text_file" in on:
        files.read_text_file = True
    if "fs/write_text_file" in on:
        files.write_text_file = True
    if "terminal/create" in on:
        offered.terminal = True
    offered.fs = files
    return offered


class Connecting:
    """The promise of a connection; entering it starts the agent and initializes it."""

    def __init__(
        self,
        dial: Dial,
        introduction: InitializeParams,
        *,
        permission: AskUser | str,
        lend: Lending | None,
        on: dict[str, Callable[[Any], Any]],
    ) -> None:
        self._dial = dial
        self._introduction = introduction
        self._permission = permission
        self._lend = lend
        self._on = on
        self._agent: RemoteAgent | None = None

    async def __aenter__(self) -> RemoteAgent:
        agent = RemoteAgent(self._dial, self._permission, self._lend, self._on)
        agent._bind(await self._dial.open(self._introduction, agent._handlers, agent._decline))
        self._agent = agent
        return agent

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._agent is not None:
            await self._agent.close()


class RemoteAgent:
    """An agent as its client sees it."""

    def __init__(
        self, dial: Dial, permission: AskUser | str, lend: Lending | None, on: dict[str, Callable[[Any], Any]]
    ) -> None:
        self._dial = dial
        self._permission = permission
        self._lend = lend
        self._conversations: dict[str, Conversation] = {}
        self._early: dict[str, deque[Any]] = {}
        self._closing = False
        self._dialled: Dialled
        self._handlers: dict[str, Handler] = {
            "session/update": lambda incoming, _: self._update(incoming.params),
            "session/request_permission": answering(self._ask),
            "$/cancel_request": self._cancel_request,
        }
        if lend is not None:
            self._handlers.update(lend.handlers(self._roots))
        self._handlers.update({method: answering(function) for method, function in on.items()})

    def _bind(self, dialled: Dialled) -> None:
        self._dialled = dialled
        if self._lend is not None:
            self._lend.missing_file_is_empty = missing_file_is_empty(self.info)
        dialled.connection.on_close = self._lost
        dialled.connection.sinks["session/update"] = self._update
        if dialled.connection.failure is not None:
            self._lost(dialled.connection.failure)

    # --- what is known of it ----------------------------------------------------------------------------------

    @property
    def connection(self) -> Connection:
        """The connection to the agent, for what has no call of its own."""
        return self._dialled.connection

    @property
    def dialect(self) -> str:
        """The name of the dialect it speaks."""
        speech = self.connection.speech
        return speech.dialect.name if speech else "v1"

    @property
    def introduction(self) -> InitializeResult:
        """What it answered to initialize."""
        return self._dialled.introduction

    @property
    def info(self) -> Implementation | None:
        """Its name and version, if it told them."""
        return self.introduction.agent_info or None

    @property
    def capabilities(self) -> AgentCapabilities:
        """What it offers."""
        return self.introduction.agent_capabilities or AgentCapabilities()

    # --- sessions ---------------------------------------------------------------------------------------------

    async def open(
        self,
        cwd: str = ".",
        *,
        mcp_servers: Sequence[McpServer] = (),
        directories: Sequence[str] = (),
        mode: str | None = None,
    ) -> Conversation:
        """Open a new session in this folder; in a mode of the agent's, where it has such a mode."""
        place = os.path.abspath(cwd)
        params = NewSessionParams(cwd=place, mcp_servers=list(mcp_servers), additional_directories=_listed(directories))
        params = _without_empty(params)
        if mode is not None and self.dialect in _OPENS_IN_MODE:
            params = noted(params, initialMode=mode)
        dialled = await self._dial.at(place)
        self._bind(dialled)
        result = await dialled.connection.request("session/new", params)
        session = self._enter(result.session_id, place, directories, result, dialled.connection)
        if mode is not None and session.offers_mode(mode) and session.mode != mode:
            await session.set_mode(mode)
        return session

    async def load(
        self,
        session_id: str,
        cwd: str = ".",
        *,
        mcp_servers: Sequence[McpServer] = (),
        directories: Sequence[str] = (),
    ) -> Conversation:
        """Open a stored session; its history is in `between` (and told to `on_update`) when this returns."""
        place = os.path.abspath(cwd)
        params = LoadSessionParams(
            session_id=session_id,
            cwd=place,
            mcp_servers=list(mcp_servers),
            additional_directories=_listed(directories),
        )
        return await self._reopen("session/load", _without_empty(params), directories)

    async def resume(self, session_id: str, cwd: str = ".", *, directories: Sequence[str] = ()) -> Conversation:
        """Open a stored session without its history being sent again."""
        place = os.path.abspath(cwd)
        params = ResumeSessionParams(
            session_id=session_id, cwd=place, mcp_servers=[], additional_directories=_listed(directories)
        )
        return await self._reopen("session/resume", params, directories)

    async def _reopen(self, method: str, params: Any, directories: Sequence[str]) -> Conversation:
        """Enter first, for history comes before the answer (peers.md 36); a refusal leaves what was there (22)."""
        self._bind(await self._dial.at(params.cwd))
        before = self._conversations.get(params.session_id)
        conversation = self._enter(params.session_id, params.cwd, directories, None)
        try:
            conversation.set_up(await self.request(method, params))
        except BaseException:
            if before is not None:
                self._conversations[params.session_id] = before
            else:
                del self._conversations[params.session_id]
            raise
        return conversation

    async def fork(self, session_id: str, cwd: str = ".") -> Conversation:
        """Open a new session that starts with the history of another."""
        place = os.path.abspath(cwd)
        params = ForkSessionParams(session_id=session_id, cwd=place, mcp_servers=[])
        result = await self.request("session/fork", params)
        return self._enter(result.session_id, place, (), result)

    async def sessions(self, cwd: str | None = None, cursor: str | None = None) -> ListSessionsResult:
        """One page of the agent's sessions."""
        params = ListSessionsParams(cwd=cwd or UNSET, cursor=cursor or UNSET)
        return await self.request("session/list", params)  # type: ignore[no-any-return]

    async def close_session(self, session_id: str) -> None:
        """End a session's work and free what it holds."""
        await self.request("session/close", CloseSessionParams(session_id=session_id))
        self._conversations.pop(session_id, None)

    async def delete(self, session_id: str) -> None:
        """Delete a stored session."""
        await self.request("session/delete", DeleteSessionParams(session_id=session_id))
        self._conversations.pop(session_id, None)

    async def authenticate(self, method_id: str, credentials: Mapping[str, str] | None = None) -> None:
        """Authenticate by one of the methods the agent offers; some dialects take credentials along."""
        meta = {"dragoman": {"credentials": dict(credentials)}} if credentials else UNSET
        await self.request("authenticate", AuthenticateParams(method_id=method_id, meta=meta))

    async def logout(self) -> None:
        """Log out."""
        await self.request("logout", LogoutParams())

    async def request(self, method: str, params: Any, *, timeout: float | None = None) -> Any:
        """Ask the agent anything; typed params and results for known methods, plain JSON for extensions."""
        return await self.connection.request(method, params, timeout=timeout)

    def notify(self, method: str, params: Any) -> None:
        """Tell the agent anything."""
        self.connection.notify(method, params)

    async def close(self) -> None:
        """End the agent and everything it started."""
        if not self._closing:
            self._closing = True
            if self._lend is not None:
                await self._lend.close()
            await self._dial.close()

    # --- what it says -----------------------------------------------------------------------------------------

    def _enter(
        self,
        session_id: str,
        cwd: str,
        directories: Sequence[str],
        result: Any,
        connection: Connection | None = None,
    ) -> Conversation:
        conversation = Conversation(connection or self.connection, session_id, cwd, directories)
        self._conversations[session_id] = conversation
        if result is not None:
            conversation.set_up(result)
        for update in self._early.pop(session_id, ()):
            conversation.receive(update)
        return conversation

    def _update(self, params: UpdateParams) -> Awaitable[None] | None:
        conversation = self._conversations.get(params.session_id)
        if conversation is not None:
            return conversation.receive(params.update)
        if len(self._early) < EARLY:
            self._early.setdefault(params.session_id, deque(maxlen=EARLY)).append(params.update)
        return None

    async def _ask(self, params: RequestPermissionParams) -> RequestPermissionResult:
        conversation = self._conversations.get(params.session_id)
        if conversation is not None:
            conversation.asked(params)
        if callable(self._permission):
            chosen = self._permission(params)
            if isinstance(chosen, Awaitable):
                chosen = await (conversation.unless_cancelled(chosen) if conversation is not None else chosen)
            option = chosen
        else:
            option = choose(params, self._permission)
        if option is None or (conversation is not None and conversation.is_cancelled):
            return RequestPermissionResult(outcome=CancelledOutcome())
        return RequestPermissionResult(outcome=SelectedOutcome(option_id=option))

    def _roots(self, session_id: str) -> list[str]:
        conversation = self._conversations.get(session_id)
        if conversation is None:
            raise ProtocolError(
                Kind.SESSION_NOT_FOUND, f"there is no session {session_id!r}", {"sessionId": session_id}
            )
        return conversation.roots

    def _decline(self, incoming: Incoming, done: Done) -> None:
        if incoming.is_request:
            kind = Kind.METHOD_NOT_FOUND if incoming.row is None else Kind.CAPABILITY_UNSUPPORTED
            what = f"this client does not serve {incoming.method}"
            done(None, ProtocolError(kind, what, {"method": incoming.method}))

    def _cancel_request(self, incoming: Incoming, _: Done) -> None:
        self.connection.inbound.cancel(incoming.params.request_id)

    def _lost(self, error: BaseException) -> None:
        for conversation in self._conversations.values():
            conversation.lost(error if isinstance(error, ConnectionFailed) else ConnectionFailed(str(error)))


def choose(params: RequestPermissionParams, wish: str) -> str | None:
    """The id of the option that says `allow` or `deny`; the one for once is preferred, none means cancelled."""
    kinds = ("allow_once", "allow_always") if wish == "allow" else ("reject_once", "reject_always")
    for kind in kinds:
        for option in params.options:
            if option.kind == kind:
                return option.option_id
    return None


def _without_empty(params: Any) -> Any:
    """Official v1 wants an empty list of MCP servers said; dialects that can do without leave it out."""
    return params if params.mcp_servers else unsaid(params, "mcpServers")


def _listed(directories: Sequence[str]) -> Any:
    return [os.path.abspath(path) for path in directories] or UNSET
