"""LoggedClientSession: a session whose events are stored before they are delivered.

A RemoteAgent with a store makes these instead of ClientSessions, so that a session without a store pays nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import UNSET

from dragoman.engine.incoming import DoneCallback, Handler, Incoming, to_protocol_error
from dragoman.errors import AgentExited, ConnectionFailed, ProtocolError
from dragoman.ids import new_id
from dragoman.roles.client.session import ClientSession
from dragoman.roles.client.turn import ClientTurn
from dragoman.schema.base import to_json
from dragoman.schema.content import ContentBlock, TextContent
from dragoman.schema.methods import METHODS, methods_that
from dragoman.schema.permission import RequestPermissionParams
from dragoman.schema.update import ConfigOptionUpdate, CurrentModeUpdate
from dragoman.store.contract import Entry, EntryKind, Store
from dragoman.store.session_log import QUESTION_BODIES, SessionLog, strip_secrets

# The entry kind of a use of the workspace, by the prefix of its method.
ENTRY_KINDS = {"fs": EntryKind.FILE, "terminal": EntryKind.TERMINAL}

# Calls that are repeated often and change nothing.
_NOT_LOGGED = frozenset(row.name for row in METHODS.values() if not row.is_logged)

# The logged members of a use; never the content of a file, an environment or an output.
_LOGGED_FIELDS = ("path", "line", "limit", "command", "args", "cwd", "terminal_id", "exit_code", "signal")


# How long to wait for the end of a turn that was cancelled because it could not be logged, before the next prompt is
# sent anyway. Seconds.
STOP_TIMEOUT = 10.0


class LogSettings(msgspec.Struct, frozen=True):
    """The store for logs, and a callback for each entry."""

    store: Store
    on_entry: Callable[[str, Entry], None] | None = None


class LoggedClientSession(ClientSession):
    """A session of a RemoteAgent with a log."""

    _log: SessionLog
    _open_method: str
    _agent_info: dict[str, Any]
    _replayed: list[Any] | None = None  # updates that the agent replays while it opens a stored session
    _continues_log = False  # whether its log already has entries
    _preamble: list[Any] | None = None  # blocks to send before the first prompt
    _preamble_length = 0  # how many blocks of the next prompt are the preamble
    _prompt_answered: asyncio.Event | None = None  # set when the agent answered the last prompt
    _prompter = "user"  # the author of the next prompt, and more members of its entry
    _log_extra: Mapping[str, Any] = MappingProxyType({})
    is_closing = False  # whether we end the agent ourselves, so that its exit is not logged

    def log_to(
        self,
        settings: LogSettings,
        method: str,
        agent: dict[str, Any],
        log_id: str | None,
        origin: str | None = None,
        session_log: SessionLog | None = None,
    ) -> None:
        """Start logging. `method` opens the session, `log_id` is the log to continue, `origin` the log to fork.

        `session_log` is a log that is shared with others.
        """
        self._open_method, self._agent_info, self._continues_log = method, agent, log_id is not None
        # Some agents replay the history on resume too (docs/protocol/peers.md#replay).
        if method in methods_that("reopens"):
            self._replayed = []
        if session_log is None:
            key = log_id or (lambda: self._create_log_id(settings.store, origin))
            session_log = SessionLog(settings.store, key, on_entry=settings.on_entry)
        session_log.on_failure = self._on_log_failed
        self._log = session_log

    async def _create_log_id(self, store: Store, origin: str | None) -> str:
        """Return the session's id as the log's id, unless another session has it, as with agents that count."""
        known = {summary.session_id for summary in await store.sessions()}
        key = self.id if self.id not in known else f"{self.id}-{new_id()[:8]}"
        if origin is not None:
            await store.fork(origin, key)
        return key

    @property
    def linked_folders(self) -> dict[str, str]:
        """The real paths of folders behind links, to notice later whether they have changed."""
        folders = ((path, self.real_folder(path)) for path in self.roots)
        return {path: real for path, real in folders if real != path}

    def real_folder(self, path: str) -> str:
        """Return the real path of a folder of the session."""
        return os.path.realpath(path)

    def set_preamble(self, preamble: list[Any]) -> None:
        """Send this before the first prompt: the transcript, to an agent that does not know the session."""
        self._preamble = preamble

    @property
    def log_id(self) -> str | None:
        """The id of its log in the store, or None until something is stored."""
        return self._log.session_id or None

    async def wait_stored(self) -> None:
        """Wait until everything so far is stored. Raises if the store failed."""
        await self._log.wait_stored()

    async def flush_log(self) -> None:
        """Wait until everything so far is stored or has failed."""
        await self._log.flush()

    # --- events -----------------------------------------------------------------------------------------------

    def apply_open_result(self, result: Any) -> None:
        """Take modes and options, and log that the session is open."""
        super().apply_open_result(result)
        bare, secrets = strip_secrets(self.mcp_servers)
        body = {
            "sessionId": self.id,
            "by": self._open_method,
            "cwd": self.cwd,
            "agent": self._agent_info,
            "additionalDirectories": self.directories,
            "resolved": self.linked_folders,
            "mcpServers": [to_json(server) for server in bare],
            "modes": to_json(result.modes) if result.modes else None,
            "configOptions": [to_json(option) for option in result.config_options or ()],
        }
        log = self._log
        keep = (lambda: log.store.keep_credentials(log.session_id, {"mcp": secrets})) if secrets else None
        log.append(
            EntryKind.OPENED, {name: value for name, value in body.items() if value}, actor=self._prompter, then=keep
        )
        history, self._replayed = self._replayed, None
        if not self._continues_log:
            for update in history or ():
                log.append(EntryKind.UPDATE, update)

    def prompt(
        self,
        content: str | Sequence[ContentBlock],
        *,
        timeout: float | None = None,
        idle_timeout: float | None = None,
        by: str = "user",
        log_extra: Mapping[str, Any] = MappingProxyType({}),
    ) -> ClientTurn:
        """Start a turn, as in ClientSession. `by` is the author, `log_extra` more members of the log entry."""
        self._prompter, self._log_extra = by, log_extra
        if self._preamble:
            blocks: list[Any] = [TextContent(text=content)] if isinstance(content, str) else list(content)
            self._preamble_length = len(self._preamble)
            content, self._preamble = [*self._preamble, *blocks], None
        return super().prompt(content, timeout=timeout, idle_timeout=idle_timeout)

    def begin_turn(self, prompt: list[Any]) -> Awaitable[None]:
        """Log the prompt; done when it is stored."""
        return self._begin_turn(prompt)

    async def _begin_turn(self, prompt: list[Any]) -> None:
        log = self._log
        await self._wait_unlogged_turn()
        log.clear_fault()
        log.turn = new_id()
        log.append(EntryKind.TURN_STARTED, {}, actor=self._prompter)
        # The preamble is in the log already, and would double with each continuation.
        content, has_preamble, self._preamble_length = prompt[self._preamble_length :], self._preamble_length > 0, 0
        body = {"prompt": content, **self._log_extra} | ({"retold": True} if has_preamble else {})
        await log.append_and_wait(EntryKind.PROMPT, body, actor=self._prompter)
        super().begin_turn(content)

    async def _wait_unlogged_turn(self) -> None:
        """Wait for the end of a turn that could not be logged, so that its updates do not go to the next one."""
        if self._log.fault is None or self._prompt_answered is None:
            return
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await self._prompt_answered.wait()
        except TimeoutError:
            pass

    def receive(self, update: Any) -> Awaitable[None] | None:
        """Log one update, then deliver it."""
        if self._replayed is not None:  # a replay is not new
            self._replayed.append(update)
            return super().receive(update)
        log = self._log
        deliver = super().receive
        log.append(EntryKind.UPDATE, update, then=lambda: deliver(update))
        return log.wait_for_space() if log.is_full else None

    def note_host_turn(self, state: str, turn_id: str) -> None:
        """Note which turn runs in a host, after everything before is delivered."""
        note = super().note_host_turn
        self._log.call_after(lambda: note(state, turn_id))

    def receive_run(self, updates: list[Any]) -> bool:
        """Return False: each update has its own entry."""
        return False

    def wrap_done(self, done: DoneCallback) -> DoneCallback:
        """Log the answer to a prompt, then deliver it."""
        answered = self._prompt_answered = asyncio.Event()

        def log_answer(result: Any, error: ProtocolError | None) -> None:
            answered.set()
            if error is not None:
                body = {"error": {"kind": error.kind, "message": error.message}}
            else:
                body = {"stopReason": result.stop_reason} | ({"usage": to_json(result.usage)} if result.usage else {})

            def deliver() -> None:
                self._log.turn = None
                done(result, error)

            self._log.append(EntryKind.TURN_ENDED, body, then=deliver, on_failure=lambda fault: done(None, fault))

        return log_answer

    def note_permission_request(self, params: RequestPermissionParams) -> Awaitable[None]:
        """Log a permission request, then add its tool call to the transcript."""
        return self._log_permission_request(params)

    async def _log_permission_request(self, params: RequestPermissionParams) -> None:
        await self._log.append_and_wait(EntryKind.ASKED, to_json(params))
        super().note_permission_request(params)

    async def note_permission_outcome(self, params: Any, outcome: Any) -> None:
        """Log the user's answer before the agent gets it."""
        body = {"toolCallId": params.tool_call.tool_call_id, "outcome": to_json(outcome)}
        await self._log.append_and_wait(EntryKind.DECIDED, body, actor=self.decider(params))

    def decider(self, params: Any) -> str:
        """Return who answered this question."""
        return "user"

    async def note_elicitation(self, params: Any) -> None:
        """Log an elicitation before the user is asked."""
        await self._log.append_and_wait(EntryKind.ASKED, QUESTION_BODIES["elicitation/create"].asked_body(params))

    async def note_elicitation_result(self, params: Any, result: Any) -> None:
        """Log the user's reply before the agent gets it."""
        body = QUESTION_BODIES["elicitation/create"].decided_body(params, result)
        await self._log.append_and_wait(EntryKind.DECIDED, body, actor=self.decider(params))

    def note_translation_loss(self, text: str) -> None:
        """Log that something was lost or inferred in translation."""
        self._log.append(EntryKind.TRANSLATED, {"message": text}, actor="dragoman")

    async def set_mode(self, mode_id: str, *, by: str = "user") -> None:
        """Change the mode and log it."""
        await super().set_mode(mode_id)
        await self._log_setting(CurrentModeUpdate(current_mode_id=mode_id), by)

    async def set_option(self, config_id: str, value: Any, *, by: str = "user") -> None:
        """Set a config option and log it."""
        await super().set_option(config_id, value)
        await self._log_setting(ConfigOptionUpdate(config_options=self.options), by)

    async def _log_setting(self, update: Any, by: str) -> None:
        if self.turn is None or self.turn.is_over:
            self._log.clear_fault()
        await self._log.append_and_wait(EntryKind.UPDATE, update, actor=by)

    def on_agent_lost(self, error: ConnectionFailed) -> None:
        """Log that the agent is gone, then fail the turn and end the session."""
        body: dict[str, Any] = {"message": str(error)}
        if isinstance(error, AgentExited):
            body |= {"status": error.status, "stderr": error.stderr[-2000:]}
        notify = super().on_agent_lost
        if self.is_closing:
            notify(error)
            return
        self._log.append(EntryKind.AGENT_EXITED, body, then=lambda: notify(error), on_failure=lambda _: notify(error))

    def log_use(self, method: str, params: Any, result: Any, error: ProtocolError | None, done: DoneCallback) -> None:
        """Log a use of the workspace before the agent gets the result."""
        body: dict[str, Any] = {"method": method}
        for source in (params, result):
            for name in _LOGGED_FIELDS:
                value = getattr(source, name, None)
                if value is not None and value is not UNSET:
                    body[name] = value
        if error is not None:
            body["error"] = {"kind": error.kind, "message": error.message}
        self._log.append(
            ENTRY_KINDS[method.partition("/")[0]],
            body,
            then=lambda: done(result, error),
            on_failure=lambda fault: done(None, fault),
        )

    def _on_log_failed(self, error: ProtocolError) -> None:
        """Fail and cancel the turn, because the log cannot be written."""
        turn = self.turn
        if turn is not None and not turn.is_over:
            turn.fail(error)
            if self.connection.failure is None:
                self.cancel("the session cannot be logged")


def with_use_logging(
    handlers: dict[str, Handler], find_session: Callable[[str], ClientSession | None]
) -> dict[str, Handler]:
    """Wrap the workspace handlers, so that each use is logged."""

    def logged(method: str, handler: Handler) -> Handler:
        def handle(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
            session = find_session(getattr(incoming.params, "session_id", None) or "")
            if not isinstance(session, LoggedClientSession):
                return handler(incoming, done)
            params = incoming.params

            def log_use(result: Any, error: ProtocolError | None) -> None:
                session.log_use(method, params, result, error, done)

            try:
                work = handler(incoming, log_use)
            except Exception as error:
                log_use(None, to_protocol_error(error))
                return None
            return None if work is None else _forward_errors(work, log_use)

        return handle

    return {
        method: logged(method, handler)
        for method, handler in handlers.items()
        if method.partition("/")[0] in ENTRY_KINDS and method not in _NOT_LOGGED
    }


async def _forward_errors(work: Awaitable[None], done: DoneCallback) -> None:
    try:
        await work
    except Exception as error:
        done(None, to_protocol_error(error))
