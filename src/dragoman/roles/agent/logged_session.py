"""A session of an agent that is logged, and comes back from its log after the agent was restarted.

Made instead of a Session where the Agent has a store. What it says goes to the client after the commit that holds it,
requests included, so the client hears everything in the order it was said. Above are opening and prompting.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.dialect.reshape import SIDE
from dragoman.engine.connection import Connection
from dragoman.roles.agent.client_terminals import LentFiles, LentTerminals
from dragoman.roles.agent.session import Session
from dragoman.schema.base import encode, to_json
from dragoman.schema.config import SessionConfigOption, SessionModeState
from dragoman.schema.content import TextContent
from dragoman.schema.lenient import read
from dragoman.schema.mcp import McpServer
from dragoman.schema.update import (
    AgentMessageChunk,
    AgentThoughtChunk,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    SessionInfoUpdate,
)
from dragoman.store.contract import EntryKind, Store, Summary
from dragoman.store.replay import typed, updates
from dragoman.store.session_log import QUESTIONS, Chronicle, with_secrets, without_secrets

if TYPE_CHECKING:
    from dragoman.roles.agent.agent import Agent


class _Ordered:
    """A connection whose requests wait until what was said before them is told."""

    def __init__(self, connection: Connection, chronicle: Chronicle) -> None:
        self._connection = connection
        self._chronicle = chronicle

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def request(self, method: str, params: Any, **more: Any) -> Any:
        await self._chronicle.kept()
        return await self._connection.request(method, params, **more)


class LoggedSession(Session):
    """One conversation of an agent, with a log."""

    chronicle: Chronicle
    _is_told = True  # whether all that the log tells of it is known here

    def log_to(self, store: Store) -> LoggedSession:
        """Log to this store from now on."""
        self.chronicle = Chronicle(store, self.id)
        return self

    # --- what happens -----------------------------------------------------------------------------------------

    async def opened(self, how: str, agent: str, origin: Session | None = None) -> None:
        """It was opened, or opened again."""
        chronicle = self.chronicle
        chronicle.try_again()
        if origin is not None:
            await chronicle.store.fork(origin.id, self.id)
        bare, secrets = without_secrets(self.mcp_servers)
        body = {
            "sessionId": self.id,
            "by": how,
            "cwd": self.cwd,
            "agent": {"name": agent},
            "additionalDirectories": self.directories,
            "mcpServers": [to_json(server) for server in bare],
            "modes": to_json(self.modes) if self.modes else None,
            "configOptions": [to_json(option) for option in self.options],
            "systemPrompt": {"text": self.system_prompt, "overrides": self.overrides_prompt}
            if self.system_prompt
            else None,
            "title": self.title,
        }
        told = {name: value for name, value in body.items() if value}
        await chronicle.record(EntryKind.OPENED, told, actor="user")
        if secrets:
            await chronicle.store.keep_credentials(self.id, {"mcp": secrets})

    def began(self, prompt: list[Any]) -> Awaitable[None]:
        """A turn begins: the author hears of it when the prompt is in the log."""
        chronicle = self.chronicle
        chronicle.try_again()
        chronicle.turn = f"turn_{self.turns}"
        chronicle.note(EntryKind.TURN_STARTED, {}, actor="user")
        return chronicle.record(EntryKind.PROMPT, {"prompt": to_json(prompt)}, actor="user")

    def ended(self, result: Any, error: BaseException | None = None) -> Awaitable[None]:
        """A turn ends: the client is answered when all of it is in the log."""
        if error is None:
            body = {"stopReason": result.stop_reason} | ({"usage": to_json(result.usage)} if result.usage else {})
        else:
            body = {"error": {"kind": getattr(error, "kind", type(error).__name__), "message": str(error)}}
        return self._ended(body)

    async def _ended(self, body: dict[str, Any]) -> None:
        try:
            await self.chronicle.record(EntryKind.TURN_ENDED, body)
        finally:
            self.chronicle.turn = None

    def set_to(self) -> None:
        """The client set an option."""
        self._stand_alone()
        self.chronicle.note(EntryKind.UPDATE, to_json(ConfigOptionUpdate(config_options=self.options)), actor="user")

    def put_away(self, archived: bool) -> Awaitable[None]:
        """It is archived, or taken back."""
        self._stand_alone()
        note = SessionInfoUpdate(meta={SIDE: {"archived": archived}})
        return self.chronicle.record(EntryKind.UPDATE, to_json(note), actor="user")

    def kept(self) -> Awaitable[None]:
        """Wait until all that happened so far is in the log."""
        return self.chronicle.kept()

    def _stand_alone(self) -> None:
        """What happens outside turns is no part of what could not be kept before."""
        if self.turn is None:
            self.chronicle.try_again()

    def set_title(self, title: str) -> None:
        """Name the session, also while nobody talks in it."""
        self._stand_alone()
        super().set_title(title)
        if not self.is_bound:
            update = SessionInfoUpdate(title=title, updated_at=self.updated_at)
            self.chronicle.note(EntryKind.UPDATE, to_json(update), actor="user")

    def tell_mode(self, reason: str = "") -> None:
        """Tell the client which mode it is in."""
        self._stand_alone()
        super().tell_mode(reason)

    # --- saying -----------------------------------------------------------------------------------------------

    def say(self, kind: type[AgentMessageChunk] | type[AgentThoughtChunk], text: str) -> bool:
        """Send a text chunk when it is in the log; whether the sender should give way now."""
        if not self._streaming:
            return super().say(kind, text)
        deliver = super().say
        self.chronicle.note(
            EntryKind.UPDATE, kind(content=TextContent(text=text)), then=lambda: _done(deliver(kind, text))
        )
        return self.should_wait

    def finish_message(self) -> None:
        """Tell a message that was held back until it is whole."""
        if self._unsaid:
            update = self._unsaid_kind(content=TextContent(text="".join(self._unsaid)))
            self._unsaid.clear()
            self.chronicle.note(EntryKind.UPDATE, update, then=lambda: self._tell(update))

    def push(self, update: Any) -> None:
        """Send an update when it is in the log; as it is now, whatever the author makes of it meanwhile."""
        self.finish_message()
        raw = msgspec.Raw(encode(update))
        deliver = super().push
        self.chronicle.note(EntryKind.UPDATE, raw, then=lambda: deliver(typed(raw) or update))

    def notify(self, method: str, params: Any) -> None:
        """Tell the client anything, after what was said before."""
        self.finish_message()
        connection = self.connection
        self.chronicle.after(lambda: connection.notify(method, params))

    async def request(self, method: str, params: Any, *, timeout: float | None = None) -> Any:
        """Ask the client something, after what was said before; questions and answers are logged."""
        self.finish_message()
        asks = QUESTIONS.get(method)
        if asks is not None:
            await self.chronicle.record(EntryKind.ASKED, asks.asked(params))
        else:
            await self.chronicle.kept()
        result = await super().request(method, params, timeout=timeout)
        if asks is not None:
            await self.chronicle.record(EntryKind.DECIDED, asks.decided(params, result), actor="user")
        return result

    @property
    def should_wait(self) -> bool:
        """Whether the sender should let the client, the reader or the store catch up."""
        chronicle = self.chronicle
        return chronicle.is_full or chronicle.fault is not None or self.connection.outbox.should_wait

    async def flow_control(self) -> None:
        """Let the client, the reader or the store catch up."""
        if self.chronicle.fault is not None:
            raise self.chronicle.fault
        await self.chronicle.room()
        await super().flow_control()

    @property
    def files(self) -> LentFiles:
        """The client's files, or the agent's own where the client lends none."""
        if self._files is None:
            self._files = LentFiles(self._ordered(), self.id, self.roots)
        return self._files

    @property
    def terminals(self) -> LentTerminals:
        """The client's terminals, or the agent's own where the client lends none."""
        if self._terminals is None:
            self._terminals = LentTerminals(self._ordered(), self.id, self.roots)
        return self._terminals

    def _ordered(self) -> Any:
        return _Ordered(self.connection, self.chronicle)

    # --- coming back ------------------------------------------------------------------------------------------

    @classmethod
    def listed(cls, agent: Agent, store: Store, summary: Summary) -> LoggedSession:
        """A session as the list of the store tells of it; `recall` tells the rest."""
        session = cls(
            summary.session_id,
            summary.cwd or "/",
            commands=agent.commands,
            streaming=agent.streaming,
            tools=agent.tools,
        )
        session.log_to(store)
        session.title = summary.title
        session.updated_at = summary.updated_at
        session.turns = summary.turns
        session.archived = summary.archived
        session._is_told = False
        return session

    async def recall(self) -> None:
        """Know all that the log tells: settings, history. Raises session_corrupted and the like."""
        if self._is_told:
            return
        store = self.chronicle.store
        lines = await store.lines(self.id)
        opened: dict[str, Any] = {}
        for line in lines:
            if line.find(b'"kind":"opened"', 0, 60) >= 0:
                opened |= msgspec.json.decode(line)["body"]
        self._set_up(opened)
        for update in updates(lines):
            self._remember(update)
        secrets = (await store.credentials(self.id)).get("mcp", {})
        self.mcp_servers = with_secrets(self.mcp_servers, secrets)
        self._is_told = True

    def _set_up(self, opened: dict[str, Any]) -> None:
        self.directories = list(opened.get("additionalDirectories", ()))
        self.mcp_servers = [_read(McpServer, server) for server in opened.get("mcpServers", ())]
        self.modes = _read(SessionModeState, opened["modes"]) if "modes" in opened else None
        self.options = [_read(SessionConfigOption, option) for option in opened.get("configOptions", ())]
        prompt = opened.get("systemPrompt", {})
        self.system_prompt, self.overrides_prompt = prompt.get("text", ""), bool(prompt.get("overrides"))

    def _remember(self, update: Any) -> None:
        if isinstance(update, CurrentModeUpdate) and self.modes is not None:
            self.modes.current_mode_id = update.current_mode_id
        elif isinstance(update, ConfigOptionUpdate):
            self.options = list(update.config_options)
        elif isinstance(update, SessionInfoUpdate) and SIDE in (update.meta or {}):
            self.archived = bool((update.meta or {})[SIDE].get("archived", self.archived))
            return
        self.transcript.add(update)


def _read(kind: Any, value: Any) -> Any:
    return read(kind, value)[0]


def _done(_: object) -> None:
    return None
