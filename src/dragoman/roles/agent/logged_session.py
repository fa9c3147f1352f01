"""LoggedSession: a session with a log in the agent's store, from which it is restored after a restart."""

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
    """A connection whose requests wait until earlier updates are stored and sent."""

    def __init__(self, connection: Connection, log: SessionLog) -> None:
        self._connection = connection
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def request(self, method: str, params: Any, **more: Any) -> Any:
        await self._log.wait_stored()
        return await self._connection.request(method, params, **more)


class LoggedSession(Session):
    """A session that sends every update and request only after it is stored, in order."""

    log: SessionLog
    _is_restored = True  # whether settings and history are loaded from the log

    def log_to(self, store: Store) -> LoggedSession:
        """Log to this store from now on."""
        self.log = SessionLog(store, self.id)
        return self

    # --- logging ----------------------------------------------------------------------------------------------

    async def log_opened(self, method: str, agent_name: str, origin: Session | None = None) -> None:
        """Log that the session was opened, reopened or forked."""
        log = self.log
        log.clear_fault()
        if origin is not None:
            await log.store.fork(origin.id, self.id)
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
        entry = {name: value for name, value in body.items() if value}
        await log.append_and_wait(EntryKind.OPENED, entry, actor="user")
        if secrets:
            await log.store.keep_credentials(self.id, {"mcp": secrets})

    def log_turn_started(self, prompt: list[Any]) -> Awaitable[None]:
        """Log the start of a turn; done when the prompt is stored."""
        log = self.log
        log.clear_fault()
        log.turn = f"turn_{self.turn_count}"
        log.append(EntryKind.TURN_STARTED, {}, actor="user")
        return log.append_and_wait(EntryKind.PROMPT, {"prompt": to_json(prompt)}, actor="user")

    def log_turn_ended(self, result: Any, error: BaseException | None = None) -> Awaitable[None]:
        """Log the end of a turn; done when all of it is stored."""
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
        """Log that the client set an option."""
        self._clear_log_fault()
        self.log.append(EntryKind.UPDATE, to_json(ConfigOptionUpdate(config_options=self.options)), actor="user")

    def log_archived(self, archived: bool) -> Awaitable[None]:
        """Log that the session is archived or unarchived."""
        self._clear_log_fault()
        note = SessionInfoUpdate(meta={SIDE_DATA_KEY: {"archived": archived}})
        return self.log.append_and_wait(EntryKind.UPDATE, to_json(note), actor="user")

    def wait_stored(self) -> Awaitable[None]:
        """Wait until everything so far is stored."""
        return self.log.wait_stored()

    def _clear_log_fault(self) -> None:
        # A fault of an earlier turn must not fail a change that happens between turns.
        if self.turn is None:
            self.log.clear_fault()

    def set_title(self, title: str) -> None:
        """Set the title, also while the session has no client."""
        self._clear_log_fault()
        super().set_title(title)
        if not self.is_bound:
            update = SessionInfoUpdate(title=title, updated_at=self.updated_at)
            self.log.append(EntryKind.UPDATE, to_json(update), actor="user")

    def send_mode(self, reason: str = "") -> None:
        """Send the current mode to the client."""
        self._clear_log_fault()
        super().send_mode(reason)

    # --- sending ----------------------------------------------------------------------------------------------

    def send_text(self, kind: type[AgentMessageChunk] | type[AgentThoughtChunk], text: str) -> bool:
        """Send a text chunk once it is stored; return whether the caller should `drain`."""
        if not self._streaming:
            return super().send_text(kind, text)
        deliver = super().send_text
        self.log.append(
            EntryKind.UPDATE, kind(content=TextContent(text=text)), then=lambda: _ignore_result(deliver(kind, text))
        )
        return self.should_wait

    def finish_message(self) -> None:
        """Send the buffered message, if messages are not streamed."""
        if self._buffered:
            update = self._buffered_kind(content=TextContent(text="".join(self._buffered)))
            self._buffered.clear()
            self.log.append(EntryKind.UPDATE, update, then=lambda: self._notify_update(update))

    def send_update(self, update: Any) -> None:
        """Send an update once it is stored, as it is now, even if the author changes the object later."""
        self.finish_message()
        raw = msgspec.Raw(encode(update))
        deliver = super().send_update
        self.log.append(EntryKind.UPDATE, raw, then=lambda: deliver(decode_update(raw) or update))

    def notify(self, method: str, params: Any) -> None:
        """Send a notification after everything sent before."""
        self.finish_message()
        connection = self.connection
        self.log.call_after(lambda: connection.notify(method, params))

    async def request(self, method: str, params: Any, *, timeout: float | None = None) -> Any:
        """Send a request after everything sent before; log questions to the user and their answers."""
        self.finish_message()
        question = QUESTION_BODIES.get(method)
        if question is not None:
            await self.log.append_and_wait(EntryKind.ASKED, question.asked_body(params))
        else:
            await self.log.wait_stored()
        result = await super().request(method, params, timeout=timeout)
        if question is not None:
            await self.log.append_and_wait(EntryKind.DECIDED, question.decided_body(params, result), actor="user")
        return result

    @property
    def should_wait(self) -> bool:
        """Whether the sender should `drain` now."""
        log = self.log
        return log.is_full or log.fault is not None or self.connection.sender.outbox.should_throttle

    async def drain(self) -> None:
        """Wait until the client and the store have caught up. Raises if the store failed."""
        if self.log.fault is not None:
            raise self.log.fault
        await self.log.wait_for_space()
        await super().drain()

    @property
    def files(self) -> ClientFiles:
        """The client's files, or local files if the client does not offer file access."""
        if self._files is None:
            self._files = ClientFiles(self._ordered_connection(), self.id, self.roots)
        return self._files

    @property
    def terminals(self) -> ClientTerminals:
        """The client's terminals, or local ones if the client does not offer terminals."""
        if self._terminals is None:
            self._terminals = ClientTerminals(self._ordered_connection(), self.id, self.roots)
        return self._terminals

    def _ordered_connection(self) -> Any:
        return _OrderedConnection(self.connection, self.log)

    # --- restoring --------------------------------------------------------------------------------------------

    @classmethod
    def from_summary(cls, agent: Agent, store: Store, summary: Summary) -> LoggedSession:
        """Create a session from its summary in the store; `restore` loads the rest."""
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
        """Load settings and history from the log. Raises session_corrupted and other store errors."""
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
