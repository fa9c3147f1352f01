"""A conversation that is logged: everything in it is kept before its author hears of it.

Made by the remote agent instead of a Conversation where `connect` was given a store. Overrides what hears of something
and passes it on after the commit; so a conversation without a store pays nothing. Above is the remote agent.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import UNSET

from dragoman.engine.errors import to_protocol_error
from dragoman.engine.handler import Handler
from dragoman.engine.incoming import Incoming
from dragoman.engine.pending import DoneCallback
from dragoman.errors import AgentExited, ConnectionFailed, ProtocolError
from dragoman.roles.agent.session import new_id
from dragoman.roles.client.session import ClientSession
from dragoman.roles.client.turn import ClientTurn
from dragoman.schema.base import to_json
from dragoman.schema.content import ContentBlock, TextContent
from dragoman.schema.permission import RequestPermissionParams
from dragoman.schema.update import ConfigOptionUpdate, CurrentModeUpdate
from dragoman.store.contract import Entry, EntryKind, Store
from dragoman.store.session_log import QUESTION_BODIES, SessionLog, strip_secrets

# What an agent does with what it is lent, by how its methods begin.
ENTRY_KINDS = {"fs": EntryKind.FILE, "terminal": EntryKind.TERMINAL}

# What it only looks at again and again.
_NOT_LOGGED = frozenset({"terminal/output", "fs/watch", "fs/unwatch"})

# Of a use, this is told; never what is in a file, an environment or an output.
_LOGGED_FIELDS = ("path", "line", "limit", "command", "args", "cwd", "terminal_id", "exit_code", "signal")


# How long an agent may take to end a turn that was cancelled because it could not be kept, before the next prompt is
# sent all the same. Seconds.
STOP_TIMEOUT = 10.0


class LogSettings(msgspec.Struct, frozen=True):
    """Where conversations are logged, and who else hears of each entry."""

    store: Store
    on_entry: Callable[[str, Entry], None] | None = None


class LoggedClientSession(ClientSession):
    """One session of a remote agent, with a log."""

    _log: SessionLog
    _open_method: str
    _agent_info: dict[str, Any]
    _replayed: list[Any] | None = None  # what the agent tells again while it opens a stored session
    _continues_log = False  # whether its log goes on with what was there before
    _preamble: list[Any] | None = None  # goes before the first prompt
    _preamble_length = 0  # how many blocks of the next prompt are that
    _prompt_answered: asyncio.Event | None = None  # set when the agent answered the last prompt
    _prompter = "user"  # whose prompt is sent next, and what else the log is to know of it
    _log_extra: Mapping[str, Any] = MappingProxyType({})
    is_closing = False  # the end of the agent is no news then

    def log_to(
        self,
        settings: LogSettings,
        method: str,
        agent: dict[str, Any],
        log_id: str | None,
        origin: str | None = None,
        session_log: SessionLog | None = None,
    ) -> None:
        """Begin to log; `how` is the method that opens it, `log` the log to go on with, `origin` the one to fork.

        Who shares the log with others brings its `chronicle`.
        """
        self._open_method, self._agent_info, self._continues_log = method, agent, log_id is not None
        if method in ("session/load", "session/resume"):  # some tell it all again on resume too (peers.md 36)
            self._replayed = []
        if session_log is None:
            key = log_id or (lambda: self._create_log_id(settings.store, origin))
            session_log = SessionLog(settings.store, key, on_entry=settings.on_entry)
        session_log.on_failure = self._on_log_failed
        self._log = session_log

    async def _create_log_id(self, store: Store, origin: str | None) -> str:
        """Where it is logged: under its own id, unless another session has that, of an agent that counts say."""
        known = {summary.session_id for summary in await store.sessions()}
        key = self.id if self.id not in known else f"{self.id}-{new_id()[:8]}"
        if origin is not None:
            await store.fork(origin, key)
        return key

    @property
    def linked_folders(self) -> dict[str, str]:
        """Where its folders really are, of those that lie behind links: who goes on with it can see if that changed."""
        places = ((path, self.real_folder(path)) for path in self.roots)
        return {path: real for path, real in places if real != path}

    def real_folder(self, path: str) -> str:
        """Where a folder of the session leads, links resolved."""
        return os.path.realpath(path)

    def set_preamble(self, preamble: list[Any]) -> None:
        """Let this go before the first prompt: what was said before, to an agent that does not know."""
        self._preamble = preamble

    @property
    def log_id(self) -> str | None:
        """The id of its log in the store; None until something is kept."""
        return self._log.session_id or None

    async def wait_stored(self) -> None:
        """Wait until all that happened so far is in the log."""
        await self._log.wait_stored()

    async def flush_log(self) -> None:
        """The same, whether that works or not."""
        await self._log.flush()

    # --- what happens -----------------------------------------------------------------------------------------

    def apply_open_result(self, result: Any) -> None:
        """The session is open: that is the first thing in its log."""
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
        chronicle = self._log
        keep = (lambda: chronicle.store.keep_credentials(chronicle.session_id, {"mcp": secrets})) if secrets else None
        chronicle.append(
            EntryKind.OPENED, {name: value for name, value in body.items() if value}, actor=self._prompter, then=keep
        )
        history, self._replayed = self._replayed, None
        if not self._continues_log:
            for update in history or ():
                chronicle.append(EntryKind.UPDATE, update)

    def prompt(
        self,
        content: str | Sequence[ContentBlock],
        *,
        timeout: float | None = None,
        idle_timeout: float | None = None,
        by: str = "user",
        log_extra: Mapping[str, Any] = MappingProxyType({}),
    ) -> ClientTurn:
        """Begin a turn; see Conversation. `by` is who says it, and `beside` what else the log tells of the prompt."""
        self._prompter, self._log_extra = by, log_extra
        if self._preamble:
            blocks: list[Any] = [TextContent(text=content)] if isinstance(content, str) else list(content)
            self._preamble_length = len(self._preamble)
            content, self._preamble = [*self._preamble, *blocks], None
        return super().prompt(content, timeout=timeout, idle_timeout=idle_timeout)

    def begin_turn(self, prompt: list[Any]) -> Awaitable[None]:
        """A turn begins; the agent gets the prompt when it is in the log."""
        return self._begin_turn(prompt)

    async def _begin_turn(self, prompt: list[Any]) -> None:
        chronicle = self._log
        await self._wait_unlogged_turn()
        chronicle.clear_fault()
        chronicle.turn = new_id()
        chronicle.append(EntryKind.TURN_STARTED, {}, actor=self._prompter)
        # What the log has already is not logged again: each time it is retold, it would double.
        said, is_retold, self._preamble_length = prompt[self._preamble_length :], self._preamble_length > 0, 0
        body = {"prompt": said, **self._log_extra} | ({"retold": True} if is_retold else {})
        await chronicle.append_and_wait(EntryKind.PROMPT, body, actor=self._prompter)
        super().begin_turn(said)

    async def _wait_unlogged_turn(self) -> None:
        """A turn that could not be kept must be over before another: what it still says is no part of that one."""
        if self._log.fault is None or self._prompt_answered is None:
            return
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await self._prompt_answered.wait()
        except TimeoutError:
            pass

    def receive(self, update: Any) -> Awaitable[None] | None:
        """One update, in order: kept first, then told."""
        if self._replayed is not None:  # it was told before, and is not news
            self._replayed.append(update)
            return super().receive(update)
        chronicle = self._log
        deliver = super().receive
        chronicle.append(EntryKind.UPDATE, update, then=lambda: deliver(update))
        return chronicle.wait_for_space() if chronicle.is_full else None

    def note_host_turn(self, state: str, turn_id: str) -> None:
        """Whose turn runs in a host: it is so when everything before it was told."""
        note = super().note_host_turn
        self._log.call_after(lambda: note(state, turn_id))

    def receive_run(self, updates: list[Any]) -> bool:
        """Each update has an entry of its own."""
        return False

    def wrap_done(self, done: DoneCallback) -> DoneCallback:
        """The answer to a prompt is heard when everything before it was."""

        answered = self._prompt_answered = asyncio.Event()

        def told(result: Any, error: ProtocolError | None) -> None:
            answered.set()
            if error is not None:
                body = {"error": {"kind": error.kind, "message": error.message}}
            else:
                body = {"stopReason": result.stop_reason} | ({"usage": to_json(result.usage)} if result.usage else {})

            def deliver() -> None:
                self._log.turn = None
                done(result, error)

            self._log.append(EntryKind.TURN_ENDED, body, then=deliver, on_failure=lambda fault: done(None, fault))

        return told

    def note_permission_request(self, params: RequestPermissionParams) -> Awaitable[None]:
        """A question: the user sees it when it is in the log."""
        return self._log_permission_request(params)

    async def _log_permission_request(self, params: RequestPermissionParams) -> None:
        await self._log.append_and_wait(EntryKind.ASKED, to_json(params))
        super().note_permission_request(params)

    async def note_permission_outcome(self, params: Any, outcome: Any) -> None:
        """The user's answer: the agent hears it when it is in the log."""
        body = {"toolCallId": params.tool_call.tool_call_id, "outcome": to_json(outcome)}
        await self._log.append_and_wait(EntryKind.DECIDED, body, actor=self.decider(params))

    def decider(self, params: Any) -> str:
        """Who answered this question."""
        return "user"

    async def note_elicitation(self, params: Any) -> None:
        """A form or a link: the user sees it when it is in the log."""
        await self._log.append_and_wait(EntryKind.ASKED, QUESTION_BODIES["elicitation/create"].asked_body(params))

    async def note_elicitation_result(self, params: Any, result: Any) -> None:
        """The user's reply: the agent hears it when it is in the log."""
        body = QUESTION_BODIES["elicitation/create"].decided_body(params, result)
        await self._log.append_and_wait(EntryKind.DECIDED, body, actor=self.decider(params))

    def note_translation_loss(self, text: str) -> None:
        """Something was lost, or made up, between the agent's dialect and ours."""
        self._log.append(EntryKind.TRANSLATED, {"message": text}, actor="dragoman")

    async def set_mode(self, mode_id: str, *, by: str = "user") -> None:
        """Put the session into another mode."""
        await super().set_mode(mode_id)
        await self._log_setting(CurrentModeUpdate(current_mode_id=mode_id), by)

    async def set_option(self, config_id: str, value: Any, *, by: str = "user") -> None:
        """Set a config option."""
        await super().set_option(config_id, value)
        await self._log_setting(ConfigOptionUpdate(config_options=self.options), by)

    async def _log_setting(self, update: Any, by: str) -> None:
        if self.turn is None or self.turn.is_over:
            self._log.clear_fault()
        await self._log.append_and_wait(EntryKind.UPDATE, update, actor=by)

    def on_agent_lost(self, error: ConnectionFailed) -> None:
        """The agent is gone; what it said before is told first."""
        body: dict[str, Any] = {"message": str(error)}
        if isinstance(error, AgentExited):
            body |= {"status": error.status, "stderr": error.stderr[-2000:]}
        tell = super().on_agent_lost
        if self.is_closing:
            tell(error)
            return
        self._log.append(EntryKind.AGENT_EXITED, body, then=lambda: tell(error), on_failure=lambda _: tell(error))

    def log_use(self, method: str, params: Any, result: Any, error: ProtocolError | None, done: DoneCallback) -> None:
        """Something lent was used: the agent hears of it when it is in the log."""
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
        """The log cannot be written: nothing more is told, and the agent shall stop."""
        turn = self.turn
        if turn is not None and not turn.is_over:
            turn.fail(error)
            if self.connection.failure is None:
                self.cancel("the session cannot be logged")


def with_use_logging(
    handlers: dict[str, Handler], find_session: Callable[[str], ClientSession | None]
) -> dict[str, Handler]:
    """Handlers of what is lent, each of which is logged."""

    def logged(method: str, handler: Handler) -> Handler:
        def handle(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
            session = find_session(getattr(incoming.params, "session_id", None) or "")
            if not isinstance(session, LoggedClientSession):
                return handler(incoming, done)
            params = incoming.params

            def told(result: Any, error: ProtocolError | None) -> None:
                session.log_use(method, params, result, error, done)

            try:
                work = handler(incoming, told)
            except Exception as error:
                told(None, to_protocol_error(error))
                return None
            return None if work is None else _forward_errors(work, told)

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
