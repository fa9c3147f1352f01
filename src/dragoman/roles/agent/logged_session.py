"""A session of an agent that is logged, and comes back from its log after the agent was restarted.

Made instead of a Session where the Agent has a store. What it says goes to the client after the commit that holds it,
requests included, so the client hears everything in the order it was said. Above are opening and prompting.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.engine.connection import Connection
from dragoman.roles.agent.client_terminals import ClientFiles, ClientTerminals
from dragoman.roles.agent.session import Session
from dragoman.schema.base import encode, to_json
from dragoman.schema.config import SessionConfigOption, SessionModeState
from dragoman.schema.content import TextContent
from dragoman.schema.lenient import read_leniently
from dragoman.schema.mcp import McpServer
from dragoman.schema.update import (
    AgentMessageChunk,
    AgentThoughtChunk,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    SessionInfoUpdate,
)
from dragoman.store.contract import EntryKind, Store, Summary
from dragoman.store.replay import decode_update, decode_updates
from dragoman.store.session_log import QUESTION_BODIES, SessionLog, restore_secrets, strip_secrets

if TYPE_CHECKING:
    from dragoman.roles.agent.agent import Agent


class _OrderedConnection:
    """A connection whose requests wait until what was said before them is told."""

    def __init__(self, connection: Connection, log: SessionLog) -> None:
        self._connection = connection
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def request(self, method: str, params: Any, **more: Any) -> Any:
        await self._log.wait_stored()
        return await self._connection.request(method, params, **more)


class LoggedSession(Session):
    """One conversation of an agent, with a log."""

    log: SessionLog
    _is_restored = True  # whether all that the log tells of it is known here

    def log_to(self, store: Store) -> LoggedSession:
        """Log to this store from now on."""
        self.log = SessionLog(store, self.id)
        return self

    # --- what happens -----------------------------------------------------------------------------------------

    async def log_opened(self, method: str, agent_name: str, origin: Session | None = None) -> None:
        """It was opened, or opened again."""
        chronicle = self.log
        chronicle.clear_fault()
        if origin is not None:
            await chronicle.store.fork(origin.id, self.id)
        bare, secrets = strip_secrets(self.mcp_servers)
        body = {
            "sessionId": self.id,
            "by": method,
            "cwd": self.cwd,
            "agent": {"name": agent_name},
            "additionalDirectories": self.directories,
            "mcpServers": [to_json(server) for server in bare],
            "modes": to_json(self.modes) if self.modes else None,
            "configOptions": [to_json(option) for option in self.options],
            "systemPrompt": {"text": self.system_prompt, "overrides": self.overrides_system_prompt}
            if self.system_prompt
            else None,
            "title": self.title,
        }
        told = {name: value for name, value in body.items() if value}
        await chronicle.append_and_wait(EntryKind.OPENED, told, actor="user")
        if secrets:
            await chronicle.store.keep_credentials(self.id, {"mcp": secrets})

    def log_turn_started(self, prompt: list[Any]) -> Awaitable[None]:
        """A turn begins: the author hears of it when the prompt is in the log."""
        chronicle = self.log
        chronicle.clear_fault()
        chronicle.turn = f"turn_{self.turn_count}"
        chronicle.append(EntryKind.TURN_STARTED, {}, actor="user")
        return chronicle.append_and_wait(EntryKind.PROMPT, {"prompt": to_json(prompt)}, actor="user")

    def log_turn_ended(self, result: Any, error: BaseException | None = None) -> Awaitable[None]:
        """A turn ends: the client is answered when all of it is in the log."""
        if error is None:
            body = {"stopReason": result.stop_reason} | ({"usage": to_json(result.usage)} if result.usage else {})
        else:
            body = {"error": {"kind": getattr(error, "kind", type(error).__name__), "message": str(error)}}
        return self._log_turn_ended(body)

    async def _log_turn_ended(self, body: dict[str, Any]) -> None:
        try:
            await self.log.append_and_wait(EntryKind.TURN_ENDED, body)
        finally:
            self.log.turn = None

    def log_options(self) -> None:
        """The client set an option."""
        self._clear_log_fault()
        self.log.append(EntryKind.UPDATE, to_json(ConfigOptionUpdate(config_options=self.options)), actor="user")

    def log_archived(self, archived: bool) -> Awaitable[None]:
        """It is archived, or taken back."""
        self._clear_log_fault()
        note = SessionInfoUpdate(meta={SIDE_DATA_KEY: {"archived": archived}})
        return self.log.append_and_wait(EntryKind.UPDATE, to_json(note), actor="user")

    def wait_stored(self) -> Awaitable[None]:
        """Wait until all that happened so far is in the log."""
        return self.log.wait_stored()

    def _clear_log_fault(self) -> None:
        """What happens outside turns is no part of what could not be kept before."""
        if self.turn is None:
            self.log.clear_fault()

    def set_title(self, title: str) -> None:
        """Name the session, also while nobody talks in it."""
        self._clear_log_fault()
        super().set_title(title)
        if not self.is_bound:
            update = SessionInfoUpdate(title=title, updated_at=self.updated_at)
            self.log.append(EntryKind.UPDATE, to_json(update), actor="user")

    def send_mode(self, reason: str = "") -> None:
        """Tell the client which mode it is in."""
        self._clear_log_fault()
        super().send_mode(reason)

    # --- saying -----------------------------------------------------------------------------------------------

    def send_text(self, kind: type[AgentMessageChunk] | type[AgentThoughtChunk], text: str) -> bool:
        """Send a text chunk when it is in the log; whether the sender should give way now."""
        if not self._streaming:
            return super().send_text(kind, text)
        deliver = super().send_text
        self.log.append(
            EntryKind.UPDATE, kind(content=TextContent(text=text)), then=lambda: _ignore_result(deliver(kind, text))
        )
        return self.should_wait

    def finish_message(self) -> None:
        """Tell a message that was held back until it is whole."""
        if self._buffered:
            update = self._buffered_kind(content=TextContent(text="".join(self._buffered)))
            self._buffered.clear()
            self.log.append(EntryKind.UPDATE, update, then=lambda: self._notify_update(update))

    def send_update(self, update: Any) -> None:
        """Send an update when it is in the log; as it is now, whatever the author makes of it meanwhile."""
        self.finish_message()
        raw = msgspec.Raw(encode(update))
        deliver = super().send_update
        self.log.append(EntryKind.UPDATE, raw, then=lambda: deliver(decode_update(raw) or update))

    def notify(self, method: str, params: Any) -> None:
        """Tell the client anything, after what was said before."""
        self.finish_message()
        connection = self.connection
        self.log.call_after(lambda: connection.notify(method, params))

    async def request(self, method: str, params: Any, *, timeout: float | None = None) -> Any:
        """Ask the client something, after what was said before; questions and answers are logged."""
        self.finish_message()
        asks = QUESTION_BODIES.get(method)
        if asks is not None:
            await self.log.append_and_wait(EntryKind.ASKED, asks.asked_body(params))
        else:
            await self.log.wait_stored()
        result = await super().request(method, params, timeout=timeout)
        if asks is not None:
            await self.log.append_and_wait(EntryKind.DECIDED, asks.decided_body(params, result), actor="user")
        return result

    @property
    def should_wait(self) -> bool:
        """Whether the sender should let the client, the reader or the store catch up."""
        chronicle = self.log
        return chronicle.is_full or chronicle.fault is not None or self.connection.outbox.should_throttle

    async def drain(self) -> None:
        """Let the client, the reader or the store catch up."""
        if self.log.fault is not None:
            raise self.log.fault
        await self.log.wait_for_space()
        await super().drain()

    @property
    def files(self) -> ClientFiles:
        """The client's files, or the agent's own where the client lends none."""
        if self._files is None:
            self._files = ClientFiles(self._ordered_connection(), self.id, self.roots)
        return self._files

    @property
    def terminals(self) -> ClientTerminals:
        """The client's terminals, or the agent's own where the client lends none."""
        if self._terminals is None:
            self._terminals = ClientTerminals(self._ordered_connection(), self.id, self.roots)
        return self._terminals

    def _ordered_connection(self) -> Any:
        return _OrderedConnection(self.connection, self.log)

    # --- coming back ------------------------------------------------------------------------------------------

    @classmethod
    def from_summary(cls, agent: Agent, store: Store, summary: Summary) -> LoggedSession:
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
        session.turn_count = summary.turns
        session.archived = summary.archived
        session._is_restored = False
        return session

    async def restore(self) -> None:
        """Know all that the log tells: settings, history. Raises session_corrupted and the like."""
        if self._is_restored:
            return
        store = self.log.store
        lines = await store.lines(self.id)
        opened: dict[str, Any] = {}
        for line in lines:
            if line.find(b'"kind":"opened"', 0, 60) >= 0:
                opened |= msgspec.json.decode(line)["body"]
        self._apply_opened(opened)
        for update in decode_updates(lines):
            self._apply_update(update)
        secrets = (await store.credentials(self.id)).get("mcp", {})
        self.mcp_servers = restore_secrets(self.mcp_servers, secrets)
        self._is_restored = True

    def _apply_opened(self, opened: dict[str, Any]) -> None:
        self.directories = list(opened.get("additionalDirectories", ()))
        self.mcp_servers = [_read_value(McpServer, server) for server in opened.get("mcpServers", ())]
        self.modes = _read_value(SessionModeState, opened["modes"]) if "modes" in opened else None
        self.options = [_read_value(SessionConfigOption, option) for option in opened.get("configOptions", ())]
        prompt = opened.get("systemPrompt", {})
        self.system_prompt, self.overrides_system_prompt = prompt.get("text", ""), bool(prompt.get("overrides"))

    def _apply_update(self, update: Any) -> None:
        if isinstance(update, CurrentModeUpdate) and self.modes is not None:
            self.modes.current_mode_id = update.current_mode_id
        elif isinstance(update, ConfigOptionUpdate):
            self.options = list(update.config_options)
        elif isinstance(update, SessionInfoUpdate) and SIDE_DATA_KEY in (update.meta or {}):
            self.archived = bool((update.meta or {})[SIDE_DATA_KEY].get("archived", self.archived))
            return
        self.history.add(update)


def _read_value(kind: Any, value: Any) -> Any:
    return read_leniently(kind, value)[0]


def _ignore_result(_: object) -> None:
    return None
