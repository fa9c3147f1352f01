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

from dragoman.engine.errors import as_error
from dragoman.engine.handler import Handler
from dragoman.engine.incoming import Incoming
from dragoman.engine.pending import Done
from dragoman.errors import AgentExited, ConnectionFailed, ProtocolError
from dragoman.roles.agent.session import new_id
from dragoman.roles.client.session import Conversation
from dragoman.roles.client.turn import ClientTurn
from dragoman.schema.base import to_json
from dragoman.schema.content import ContentBlock, TextContent
from dragoman.schema.permission import RequestPermissionParams
from dragoman.schema.update import ConfigOptionUpdate, CurrentModeUpdate
from dragoman.store.contract import Entry, EntryKind, Store
from dragoman.store.session_log import QUESTIONS, Chronicle, without_secrets

# What an agent does with what it is lent, by how its methods begin.
USES = {"fs": EntryKind.FILE, "terminal": EntryKind.TERMINAL}

# What it only looks at again and again.
_LOOKS = frozenset({"terminal/output", "fs/watch", "fs/unwatch"})

# Of a use, this is told; never what is in a file, an environment or an output.
_TOLD = ("path", "line", "limit", "command", "args", "cwd", "terminal_id", "exit_code", "signal")


# How long an agent may take to end a turn that was cancelled because it could not be kept, before the next prompt is
# sent all the same. Seconds.
STOPPING = 10.0


class Logging(msgspec.Struct, frozen=True):
    """Where conversations are logged, and who else hears of each entry."""

    store: Store
    on_entry: Callable[[str, Entry], None] | None = None


class LoggedConversation(Conversation):
    """One session of a remote agent, with a log."""

    _chronicle: Chronicle
    _how: str
    _agent: dict[str, Any]
    _history: list[Any] | None = None  # what the agent tells again while it opens a stored session
    _is_known = False  # whether its log goes on with what was there before
    _preamble: list[Any] | None = None  # goes before the first prompt
    _retold = 0  # how many blocks of the next prompt are that
    _open_prompt: asyncio.Event | None = None  # set when the agent answered the last prompt
    _prompter = "user"  # whose prompt is sent next, and what else the log is to know of it
    _beside: Mapping[str, Any] = MappingProxyType({})
    is_closing = False  # the end of the agent is no news then

    def log_to(
        self,
        logging: Logging,
        how: str,
        agent: dict[str, Any],
        log: str | None,
        origin: str | None = None,
        chronicle: Chronicle | None = None,
    ) -> None:
        """Begin to log; `how` is the method that opens it, `log` the log to go on with, `origin` the one to fork.

        Who shares the log with others brings its `chronicle`.
        """
        self._how, self._agent, self._is_known = how, agent, log is not None
        if how in ("session/load", "session/resume"):  # some tell it all again on resume too (peers.md 36)
            self._history = []
        if chronicle is None:
            key = log or (lambda: self._free(logging.store, origin))
            chronicle = Chronicle(logging.store, key, on_entry=logging.on_entry)
        chronicle.failed = self._fail
        self._chronicle = chronicle

    async def _free(self, store: Store, origin: str | None) -> str:
        """Where it is logged: under its own id, unless another session has that, of an agent that counts say."""
        known = {summary.session_id for summary in await store.sessions()}
        key = self.id if self.id not in known else f"{self.id}-{new_id()[:8]}"
        if origin is not None:
            await store.fork(origin, key)
        return key

    @property
    def resolved(self) -> dict[str, str]:
        """Where its folders really are, of those that lie behind links: who goes on with it can see if that changed."""
        places = ((path, self.real_folder(path)) for path in self.roots)
        return {path: real for path, real in places if real != path}

    def real_folder(self, path: str) -> str:
        """Where a folder of the session leads, links resolved."""
        return os.path.realpath(path)

    def introduce(self, preamble: list[Any]) -> None:
        """Let this go before the first prompt: what was said before, to an agent that does not know."""
        self._preamble = preamble

    @property
    def log(self) -> str | None:
        """The id of its log in the store; None until something is kept."""
        return self._chronicle.key or None

    async def kept(self) -> None:
        """Wait until all that happened so far is in the log."""
        await self._chronicle.kept()

    async def flush(self) -> None:
        """The same, whether that works or not."""
        await self._chronicle.flush()

    # --- what happens -----------------------------------------------------------------------------------------

    def set_up(self, result: Any) -> None:
        """The session is open: that is the first thing in its log."""
        super().set_up(result)
        bare, secrets = without_secrets(self.mcp_servers)
        body = {
            "sessionId": self.id,
            "by": self._how,
            "cwd": self.cwd,
            "agent": self._agent,
            "additionalDirectories": self.directories,
            "resolved": self.resolved,
            "mcpServers": [to_json(server) for server in bare],
            "modes": to_json(result.modes) if result.modes else None,
            "configOptions": [to_json(option) for option in result.config_options or ()],
        }
        chronicle = self._chronicle
        keep = (lambda: chronicle.store.keep_credentials(chronicle.key, {"mcp": secrets})) if secrets else None
        chronicle.note(
            EntryKind.OPENED, {name: value for name, value in body.items() if value}, actor=self._prompter, then=keep
        )
        history, self._history = self._history, None
        if not self._is_known:
            for update in history or ():
                chronicle.note(EntryKind.UPDATE, update)

    def prompt(
        self,
        content: str | Sequence[ContentBlock],
        *,
        timeout: float | None = None,
        idle_timeout: float | None = None,
        by: str = "user",
        beside: Mapping[str, Any] = MappingProxyType({}),
    ) -> ClientTurn:
        """Begin a turn; see Conversation. `by` is who says it, and `beside` what else the log tells of the prompt."""
        self._prompter, self._beside = by, beside
        if self._preamble:
            blocks: list[Any] = [TextContent(text=content)] if isinstance(content, str) else list(content)
            self._retold = len(self._preamble)
            content, self._preamble = [*self._preamble, *blocks], None
        return super().prompt(content, timeout=timeout, idle_timeout=idle_timeout)

    def begin(self, prompt: list[Any]) -> Awaitable[None]:
        """A turn begins; the agent gets the prompt when it is in the log."""
        return self._begin(prompt)

    async def _begin(self, prompt: list[Any]) -> None:
        chronicle = self._chronicle
        await self._let_go()
        chronicle.try_again()
        chronicle.turn = new_id()
        chronicle.note(EntryKind.TURN_STARTED, {}, actor=self._prompter)
        # What the log has already is not logged again: each time it is retold, it would double.
        said, is_retold, self._retold = prompt[self._retold :], self._retold > 0, 0
        body = {"prompt": said, **self._beside} | ({"retold": True} if is_retold else {})
        await chronicle.record(EntryKind.PROMPT, body, actor=self._prompter)
        super().begin(said)

    async def _let_go(self) -> None:
        """A turn that could not be kept must be over before another: what it still says is no part of that one."""
        if self._chronicle.fault is None or self._open_prompt is None:
            return
        try:
            async with asyncio.timeout(STOPPING):
                await self._open_prompt.wait()
        except TimeoutError:
            pass

    def receive(self, update: Any) -> Awaitable[None] | None:
        """One update, in order: kept first, then told."""
        if self._history is not None:  # it was told before, and is not news
            self._history.append(update)
            return super().receive(update)
        chronicle = self._chronicle
        deliver = super().receive
        chronicle.note(EntryKind.UPDATE, update, then=lambda: deliver(update))
        return chronicle.room() if chronicle.is_full else None

    def turn_told(self, state: str, turn: str) -> None:
        """Whose turn runs in a host: it is so when everything before it was told."""
        note = super().turn_told
        self._chronicle.after(lambda: note(state, turn))

    def receive_run(self, updates: list[Any]) -> bool:
        """Each update has an entry of its own."""
        return False

    def settled(self, done: Done) -> Done:
        """The answer to a prompt is heard when everything before it was."""

        answered = self._open_prompt = asyncio.Event()

        def told(result: Any, error: ProtocolError | None) -> None:
            answered.set()
            if error is not None:
                body = {"error": {"kind": error.kind, "message": error.message}}
            else:
                body = {"stopReason": result.stop_reason} | ({"usage": to_json(result.usage)} if result.usage else {})

            def deliver() -> None:
                self._chronicle.turn = None
                done(result, error)

            self._chronicle.note(EntryKind.TURN_ENDED, body, then=deliver, otherwise=lambda fault: done(None, fault))

        return told

    def asked(self, params: RequestPermissionParams) -> Awaitable[None]:
        """A question: the user sees it when it is in the log."""
        return self._asked(params)

    async def _asked(self, params: RequestPermissionParams) -> None:
        await self._chronicle.record(EntryKind.ASKED, to_json(params))
        super().asked(params)

    async def decided(self, params: Any, outcome: Any) -> None:
        """The user's answer: the agent hears it when it is in the log."""
        body = {"toolCallId": params.tool_call.tool_call_id, "outcome": to_json(outcome)}
        await self._chronicle.record(EntryKind.DECIDED, body, actor=self.decider(params))

    def decider(self, params: Any) -> str:
        """Who answered this question."""
        return "user"

    async def elicited(self, params: Any) -> None:
        """A form or a link: the user sees it when it is in the log."""
        await self._chronicle.record(EntryKind.ASKED, QUESTIONS["elicitation/create"].asked(params))

    async def replied(self, params: Any, result: Any) -> None:
        """The user's reply: the agent hears it when it is in the log."""
        body = QUESTIONS["elicitation/create"].decided(params, result)
        await self._chronicle.record(EntryKind.DECIDED, body, actor=self.decider(params))

    def translated(self, text: str) -> None:
        """Something was lost, or made up, between the agent's dialect and ours."""
        self._chronicle.note(EntryKind.TRANSLATED, {"message": text}, actor="dragoman")

    async def set_mode(self, mode_id: str, *, by: str = "user") -> None:
        """Put the session into another mode."""
        await super().set_mode(mode_id)
        await self._set(CurrentModeUpdate(current_mode_id=mode_id), by)

    async def set_option(self, config_id: str, value: Any, *, by: str = "user") -> None:
        """Set a config option."""
        await super().set_option(config_id, value)
        await self._set(ConfigOptionUpdate(config_options=self.options), by)

    async def _set(self, update: Any, by: str) -> None:
        if self.turn is None or self.turn.is_over:
            self._chronicle.try_again()
        await self._chronicle.record(EntryKind.UPDATE, update, actor=by)

    def lost(self, error: ConnectionFailed) -> None:
        """The agent is gone; what it said before is told first."""
        body: dict[str, Any] = {"message": str(error)}
        if isinstance(error, AgentExited):
            body |= {"status": error.status, "stderr": error.stderr[-2000:]}
        tell = super().lost
        if self.is_closing:
            tell(error)
            return
        self._chronicle.note(EntryKind.AGENT_EXITED, body, then=lambda: tell(error), otherwise=lambda _: tell(error))

    def used(self, method: str, params: Any, result: Any, error: ProtocolError | None, done: Done) -> None:
        """Something lent was used: the agent hears of it when it is in the log."""
        body: dict[str, Any] = {"method": method}
        for source in (params, result):
            for name in _TOLD:
                value = getattr(source, name, None)
                if value is not None and value is not UNSET:
                    body[name] = value
        if error is not None:
            body["error"] = {"kind": error.kind, "message": error.message}
        self._chronicle.note(
            USES[method.partition("/")[0]],
            body,
            then=lambda: done(result, error),
            otherwise=lambda fault: done(None, fault),
        )

    def _fail(self, error: ProtocolError) -> None:
        """The log cannot be written: nothing more is told, and the agent shall stop."""
        turn = self.turn
        if turn is not None and not turn.is_over:
            turn.fail(error)
            if self.connection.failure is None:
                self.cancel("the session cannot be logged")


def logged_uses(handlers: dict[str, Handler], find: Callable[[str], Conversation | None]) -> dict[str, Handler]:
    """Handlers of what is lent, each of which is logged."""

    def logged(method: str, handler: Handler) -> Handler:
        def handle(incoming: Incoming, done: Done) -> Awaitable[None] | None:
            session = find(getattr(incoming.params, "session_id", None) or "")
            if not isinstance(session, LoggedConversation):
                return handler(incoming, done)
            params = incoming.params

            def told(result: Any, error: ProtocolError | None) -> None:
                session.used(method, params, result, error, done)

            try:
                work = handler(incoming, told)
            except Exception as error:
                told(None, as_error(error))
                return None
            return None if work is None else _told_faults(work, told)

        return handle

    return {
        method: logged(method, handler)
        for method, handler in handlers.items()
        if method.partition("/")[0] in USES and method not in _LOOKS
    }


async def _told_faults(work: Awaitable[None], told: Done) -> None:
    try:
        await work
    except Exception as error:
        told(None, as_error(error))
