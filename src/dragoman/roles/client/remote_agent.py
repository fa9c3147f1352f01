"""An agent as its client sees it: sessions, authentication, and whatever else can be asked of it.

Made by `connect`. Updates go to the conversation they belong to; questions to whoever answers them, and uses of files
and terminals to what is lent. Below are the dial, which starts agents, and their connections.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from dragoman.dialect.side_data import noted
from dragoman.engine.connection import Connection
from dragoman.engine.handler import Handler, answering
from dragoman.engine.incoming import Incoming
from dragoman.engine.pending import Done
from dragoman.engine.text_run import Run
from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.roles.agent.options import value_of
from dragoman.roles.client.archive import Archive, listed, without_empty
from dragoman.roles.client.callbacks import Answers
from dragoman.roles.client.callbacks import choose as choose
from dragoman.roles.client.dial import Dial, Dialled
from dragoman.roles.client.quirks import missing_file_is_empty
from dragoman.roles.client.session import Conversation, Terms
from dragoman.roles.client.terminal_login import Runner, sign_in
from dragoman.roles.client.workspace import Lending
from dragoman.schema.auth import AuthenticateParams, AuthForm, AuthMethod
from dragoman.schema.content import TextContent
from dragoman.schema.initialize import AgentCapabilities, Implementation, InitializeParams, InitializeResult
from dragoman.schema.mcp import McpServer
from dragoman.schema.session import (
    NewSessionParams,
    SystemPrompt,
    SystemPromptMode,
)

# Dialects whose session/new names the mode; in the others it is set afterwards.
_OPENS_IN_MODE = frozenset({"2025.1", "draft"})

# Updates of sessions that nobody knows yet, kept until session/new is answered (peers.md 13).
EARLY = 1000


# By this a host tells which turn begins and ends, and which is one's own (docs/rooms.md).
TURN = "_dragoman/turn"


class RemoteAgent(Archive):
    """An agent as its client sees it."""

    def __init__(
        self,
        dial: Dial,
        answers: Answers,
        *,
        lend: Lending | None,
        on: Mapping[str, Callable[[Any], Any]],
        sign_in: Runner | None,
        terms: Terms,
    ) -> None:
        self._dial = dial
        self._loan = (
            None if lend is None else lend.to(lambda: self.connection, self._roots, lambda: [*self._conversations])
        )
        if self._loan is not None and self._loan.sandbox is None:
            self._loan.sandbox = dial.sandbox  # what an agent may not do itself, it must not have done by a command
        self._runner = sign_in
        self._terms = msgspec.structs.replace(terms, renew=self._renew, over=self._over)
        self._conversations: dict[str, Conversation] = {}
        self._early: dict[str, deque[Any]] = {}
        self._closing = False
        self.is_sorting = True  # whether what is said in others' turns in a host is kept out of our own
        self._dialled: Dialled
        self._handlers: dict[str, Handler] = {
            "session/update": lambda incoming, _: self._update(incoming.params.session_id, incoming.params.update),
            **answers.handlers(self._conversations.get),
        }
        if self._loan is not None:
            self._handlers.update(self._loan.handlers())
        self._handlers.update({method: answering(function) for method, function in on.items()})

    def sort_turns(self) -> None:
        """Listen to a host that says whose turn runs; who listened to that before goes on hearing it."""
        heard = self._handlers.get(TURN)

        def told(incoming: Incoming, done: Done) -> Awaitable[None] | None:
            said = incoming.params if isinstance(incoming.params, dict) else {}
            session = self._conversations.get(str(said.get("sessionId")))
            if session is not None and self.is_sorting:
                session.turn_told(str(said.get("state")), str(said.get("turn")))
            if heard is not None:
                return heard(incoming, done)
            if incoming.is_request:
                done({}, None)
            return None

        self._handlers[TURN] = told

    async def start(self, introduction: InitializeParams) -> None:
        """Start it and introduce ourselves; `connect` does this."""
        self._bind(await self._dial.open(introduction, self._handlers, self._decline))

    def _bind(self, dialled: Dialled) -> None:
        self._dialled = dialled
        if self._loan is not None:
            self._loan.files.missing_file_is_empty = missing_file_is_empty(self.info)
        connection = dialled.connection
        connection.on_close = lambda error: self._lost(connection, error)
        connection.on_update = self._update
        connection.on_run = self._update_run
        if connection.failure is not None:
            self._lost(connection, connection.failure)

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

    def find(self, session_id: str) -> Conversation | None:
        """An open session by its id."""
        return self._conversations.get(session_id)

    async def open(
        self,
        cwd: str = ".",
        *,
        mcp_servers: Sequence[McpServer] = (),
        directories: Sequence[str] = (),
        mode: str | None = None,
        system_prompt: str | SystemPrompt | None = None,
    ) -> Conversation:
        """Open a new session in this folder; in a mode of the agent's, where it has such a mode.

        A text as `system_prompt` is added to the agent's own instructions; a SystemPrompt may take their place.
        """
        place = os.path.abspath(cwd)
        entered: list[Conversation] = []

        def enter(connection: Connection, result: Any) -> None:
            entered.append(self._enter(result.session_id, place, directories, result, connection, mcp_servers))

        instructions = _instructing(system_prompt)
        self._check_instructions(instructions)
        await self._new(place, mcp_servers, directories, mode, enter, instructions)
        session = entered[0]
        if mode is not None and session.offers_mode(mode) and session.mode != mode:
            await session.set_mode(mode)
        return session

    def _check_instructions(self, prompt: SystemPrompt | UnsetType) -> None:
        """A system prompt that would be lost on the way is refused here (reference 1.5); the draft can only append."""
        if isinstance(prompt, UnsetType) or (self.dialect == "draft" and prompt.mode == SystemPromptMode.APPEND):
            return
        gate = "agent.sessionCapabilities.systemPrompt"
        if prompt.mode != SystemPromptMode.APPEND:
            gate += f".mode.{prompt.mode}"
        if not self.connection.offers(gate):
            what = gate.partition(".")[2]
            message = f"this agent takes no system prompt that is to {prompt.mode}"
            raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, message, {"capability": what})

    async def _new(
        self,
        place: str,
        mcp_servers: Sequence[McpServer],
        directories: Sequence[str],
        mode: str | None,
        enter: Callable[[Connection, Any], None],
        system_prompt: Any = UNSET,
    ) -> None:
        """Ask for a session and enter it at once: the agent's next message may need it."""
        params = NewSessionParams(
            cwd=place,
            mcp_servers=list(mcp_servers),
            additional_directories=listed(directories),
            system_prompt=system_prompt,
        )
        if self.dialect != "v1":
            params = without_empty(params)
        if mode is not None and self.dialect in _OPENS_IN_MODE:
            params = noted(params, initialMode=mode)
        dialled = await self._dial.at(place)
        self._bind(dialled)
        connection = dialled.connection
        first = partial(enter, connection)
        await connection.request("session/new", params, timeout=self._terms.timeout, first=first)

    async def _renew(self, session: Conversation) -> None:
        """The agent forgot this session: it goes on under another id, in the same folder, mode and options."""
        before, mode = session.id, session.mode
        values = {option.id: value_of(option) for option in session.options}

        def enter(connection: Connection, result: Any) -> None:
            if self._conversations.get(session.id) is session:
                del self._conversations[session.id]
            session.connection, session.id = connection, result.session_id
            self._admit(session, result)

        await self._new(session.cwd, session.mcp_servers, session.directories, mode, enter)
        await self._over(before)
        if mode is not None and session.offers_mode(mode) and session.mode != mode:
            await session.set_mode(mode)
        await self._set_again(session, values)

    async def _set_again(self, session: Conversation, values: Mapping[str, Any]) -> None:
        """Set options to what they were; one that the agent does not take any more is no reason to give up."""
        for id, value in values.items():
            known = next((option for option in session.options if option.id == id), None)
            if known is None or value_of(known) == value:
                continue
            try:
                await session.set_option(id, value)
            except ProtocolError as error:
                self.connection.report(f"the new session did not take {id} = {value!r}: {error.message}")

    async def _over(self, session_id: str) -> None:
        if self._loan is not None:
            await self._loan.end(session_id)

    async def authenticate(self, method_id: str, credentials: Mapping[str, str] | None = None) -> None:
        """Authenticate by one of the methods the agent offers; some dialects take credentials along.

        A method of the terminal kind is run by `sign_in` (see connect); the agent is then started again, and sessions
        that were open are gone.
        """
        method = next((one for one in self.introduction.auth_methods or () if one.id == method_id), None)
        if method is not None and method.form == AuthForm.TERMINAL:
            await self._sign_in(method)
            return
        self.on_secrets((credentials or {}).values())
        meta = {"dragoman": {"credentials": dict(credentials)}} if credentials else UNSET
        # People take their time, in a browser say: no limit here.
        await self.connection.request("authenticate", AuthenticateParams(method_id=method_id, meta=meta))

    async def _sign_in(self, method: AuthMethod) -> None:
        if self._runner is None:
            raise ProtocolError(
                Kind.CAPABILITY_UNSUPPORTED,
                f"{method.name}: this agent lets one sign in in a terminal, and this client has none to show",
                {"methodId": method.id},
            )
        await sign_in(self._dial.signing_in(method), self._runner)
        self._bind(await self._dial.reopen())
        self._conversations.clear()

    async def request(self, method: str, params: Any, *, timeout: float | None = None) -> Any:
        """Ask the agent anything; typed params and results for known methods, plain JSON for extensions."""
        limit = self._terms.timeout if timeout is None else timeout
        return await self.connection.request(method, params, timeout=limit)

    def notify(self, method: str, params: Any) -> None:
        """Tell the agent anything."""
        self.connection.notify(method, params)

    async def close(self) -> None:
        """End the agent and everything it started."""
        if not self._closing:
            self._closing = True
            if self._loan is not None:
                await self._loan.close()
            await self._dial.close()

    # --- what it says -----------------------------------------------------------------------------------------

    def _enter(
        self,
        session_id: str,
        cwd: str,
        directories: Sequence[str],
        result: Any,
        connection: Connection,
        mcp_servers: Sequence[McpServer] = (),
    ) -> Conversation:
        session = Conversation(connection, session_id, cwd, directories, mcp_servers, terms=self._terms)
        self._admit(session, result)
        return session

    def _admit(self, session: Conversation, result: Any) -> None:
        self._conversations[session.id] = session
        if result is not None:
            session.set_up(result)
        for update in self._early.pop(session.id, ()):
            session.receive(update)

    def _update(self, session_id: str, update: Any) -> Awaitable[None] | None:
        conversation = self._conversations.get(session_id)
        if conversation is not None:
            return conversation.receive(update)
        if len(self._early) < EARLY:
            self._early.setdefault(session_id, deque(maxlen=EARLY)).append(update)
        return None

    def _update_run(self, run: Run) -> bool:
        conversation = self._conversations.get(run.session)
        return conversation is not None and conversation.receive_run(run.updates)

    def _roots(self, session_id: str) -> list[str]:
        conversation = self._conversations.get(session_id)
        if conversation is None:
            raise ProtocolError(
                Kind.SESSION_NOT_FOUND, f"there is no session {session_id!r}", {"sessionId": session_id}
            )
        return conversation.roots

    def _decline(self, incoming: Incoming, done: Done) -> Awaitable[None] | None:
        if incoming.is_request:
            kind = Kind.METHOD_NOT_FOUND if incoming.row is None else Kind.CAPABILITY_UNSUPPORTED
            what = f"this client does not serve {incoming.method}"
            done(None, ProtocolError(kind, what, {"method": incoming.method}))
        return None

    def _lost(self, connection: Connection, error: BaseException) -> None:
        """A process is gone, and with it its sessions; those of others (2025.1 has one for each folder) live on."""
        reason = error if isinstance(error, ConnectionFailed) else ConnectionFailed(str(error))
        for session in self._conversations.values():
            if session.connection is connection:
                session.lost(reason)
        if self._loan is not None and connection is self.connection:
            self._loan.lost()


def _instructing(prompt: str | SystemPrompt | None) -> Any:
    if not isinstance(prompt, str):
        return UNSET if prompt is None else prompt
    return SystemPrompt(mode=SystemPromptMode.APPEND, content=[TextContent(text=prompt)])
