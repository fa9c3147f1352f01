"""What we do for an agent that speaks the draft and a client that speaks the vocabulary (reference 5.14).

Finds the session of calls that name none, resolves relative paths, polls the client's terminals and pushes what is new,
keeps timeouts, emulates `overwrite: false` by a read, and keeps the full option list that v1 clients want to see.
"""

from __future__ import annotations

import posixpath
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET

from dragoman.dialect.emulator import (
    Ask,
    Deliver,
    Flow,
    FlowMaker,
    Ledger,
    Pass,
    Report,
    Settings,
    Sleep,
    Start,
    Wait,
    Wake,
)
from dragoman.dialect.reshape import ABSENT
from dragoman.dialect.session_table import Book, Page, free_option
from dragoman.dialect.side_data import noted, side, unsaid
from dragoman.dialect.text_chunk import Chunk
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.config import SessionMode, SessionModeState, SetConfigOptionResult
from dragoman.schema.fs import ReadTextFileParams
from dragoman.schema.initialize import AgentCapabilities, InitializeResult
from dragoman.schema.side import Side
from dragoman.schema.terminal import (
    KillTerminalParams,
    PushOutputParams,
    TerminalOutputParams,
    WaitForExitResult,
)
from dragoman.schema.update import ConfigOptionUpdate, CurrentModeUpdate

# How often a client's terminal is asked for new output while a draft agent waits for pushes. Seconds.
POLL = 0.1


class AgentLedger(Ledger):
    """For a draft agent."""

    def __init__(self, peer: Side, settings: Settings) -> None:
        super().__init__(peer, settings)
        self.book = Book()
        self.pushed: dict[str, dict[str, str]] = {}  # what was pushed of each terminal so far, by stream
        self.modes: list[str] = []
        self.option_names: list[str] = []
        self.transports: frozenset[str] | None = None  # of MCP servers; None when the agent named none
        self.takes_attachments = True
        self.can_cancel = True
        self._waits = 0
        self._polls = 0
        self._polled: dict[str, int] = {}  # the latest poll of each terminal that was answered

    def introduced(self, result: InitializeResult) -> None:
        """Remember what the agent has and lacks; modes and options, named here, v1 wants with each session."""
        capabilities = result.agent_capabilities or AgentCapabilities()
        sessions = _told(capabilities.session_capabilities)
        self.modes = [name for name in sessions.get("modes") or () if isinstance(name, str)]
        self.option_names = [name for name in sessions.get("configOptions") or () if isinstance(name, str)]
        prompts = _told(capabilities.prompt_capabilities)
        self.takes_attachments = prompts.get("attachments") is not False
        self.can_cancel = prompts.get("cancellation") is not False
        servers = _told(capabilities.mcp_capabilities)
        if servers.get("servers") is False:
            self.transports = frozenset()
        elif isinstance(servers.get("transport"), list):
            self.transports = frozenset(name for name in servers["transport"] if isinstance(name, str))

    # --- what the client asks ---------------------------------------------------------------------------------

    def new(self, params: Any) -> Flow:
        """session/new: the answer gets the modes and options that v1 clients choose from."""
        self._check_servers(params.mcp_servers)
        result = yield Pass(params)
        page = self.book.open(result.session_id, params.cwd)
        beside = side(params)
        self._fill(page, beside.get("initialMode"), beside.get("configOptions"))
        return msgspec.structs.replace(result, modes=page.modes or UNSET, config_options=page.options or UNSET)

    def _check_servers(self, servers: Any) -> None:
        """Only servers that the agent said it can reach are named to it (section 10.3)."""
        for server in servers or ():
            if self.transports is not None and server.form not in self.transports:
                raise ProtocolError(
                    Kind.CAPABILITY_UNSUPPORTED,
                    f"the agent does not connect to MCP servers over {server.form}; leave out {server.name!r}",
                    {"capability": "mcpCapabilities.transport", "server": server.name},
                )

    def load(self, params: Any) -> Flow:
        """session/load: mode and values come with the draft's answer."""
        page = self.book.open(params.session_id, params.cwd)
        page.running = True  # the replay may ask for files
        try:
            result = yield Pass(params)
        finally:
            page.running = False
        beside = side(result)
        self._fill(page, beside.get("mode"), beside.get("configOptions"))
        return msgspec.structs.replace(result, modes=page.modes or UNSET, config_options=page.options or UNSET)

    def _fill(self, page: Page, mode: Any, values: Any) -> None:
        known = values if isinstance(values, dict) else {}
        names = list(dict.fromkeys([*self.option_names, *known]))
        page.options = [free_option(name, known.get(name)) for name in names]
        if self.modes:
            current = mode if mode in self.modes else "default" if "default" in self.modes else self.modes[0]
            available = [SessionMode(id=name, name=name) for name in self.modes]
            page.modes = SessionModeState(current_mode_id=current, available_modes=available)

    def prompt(self, params: Any) -> Flow:
        """session/prompt: while it runs, calls without a session are its."""
        page = self.book.open(params.session_id, "")
        page.running = True
        if not self.takes_attachments:
            blocks = [noted(block, attachment=ABSENT) for block in params.prompt]
            params = msgspec.structs.replace(params, prompt=blocks)
        try:
            return (yield Pass(params))
        finally:
            page.running = False

    def cancel(self, params: Any) -> Flow:
        """session/cancel: not said to an agent that has no cancellation; the turn then ends by itself."""
        if self.can_cancel:
            yield Pass(params)
        else:
            yield Report("the agent cannot be cancelled; its turn ends when it is done")

    def set_config_option(self, params: Any) -> Flow:
        """session/set_config_option: the draft answers one value, v1 wants the full list (5.14-17)."""
        result = yield Pass(params)
        page = self.book.open(params.session_id, "")
        value = side(result).get("currentValue", params.value)
        self._note_option(page, params.config_id, value)
        return SetConfigOptionResult(config_options=page.options, meta=result.meta)

    def _note_option(self, page: Page, key: Any, value: Any) -> None:
        if not isinstance(key, str):
            return
        fresh = free_option(key, value)
        for index, option in enumerate(page.options):
            if option.id == key:
                page.options[index] = fresh
                return
        page.options.append(fresh)

    # --- what the agent says ----------------------------------------------------------------------------------

    def update(self, params: Any) -> Flow:
        """session/update: a single changed option becomes the full list."""
        update = params.update
        kind = type(update)
        if kind is ConfigOptionUpdate:
            page = self.book.open(params.session_id, "")
            beside = side(update)
            if "key" in beside:
                self._note_option(page, beside["key"], beside.get("currentValue"))
                update = msgspec.structs.replace(update, config_options=list(page.options))
                params = msgspec.structs.replace(params, update=update)
        elif kind is CurrentModeUpdate:
            page = self.book.open(params.session_id, "")
            if page.modes is not None:
                page.modes.current_mode_id = update.current_mode_id
        yield Pass(params)

    def pass_chunk(self, chunk: Chunk) -> Chunk | None:
        """Pieces of text change no option."""
        return chunk

    def _placed(self, params: Any) -> Any:
        """The same call with its session, and with absolute paths (sections 14.3 and 6.6-5)."""
        path = getattr(params, "path", None) or getattr(params, "cwd", None) or None
        terminal = getattr(params, "terminal_id", None)
        known = self.book.find(params.session_id) if params.session_id else None
        page = known or self.book.whose(terminal, path if isinstance(path, str) else None)
        changes: dict[str, Any] = {"session_id": page.session_id}
        for member in ("path", "cwd"):
            value = getattr(params, member, None)
            if isinstance(value, str) and value and not value.startswith("/"):
                changes[member] = posixpath.normpath(posixpath.join(page.cwd, value))
        return msgspec.structs.replace(params, **changes)

    def placed(self, params: Any) -> Flow:
        """A call without a session, passed on with it."""
        return (yield Pass(self._placed(params)))

    def write_files(self, params: Any) -> Flow:
        """fs/write_files: every one of its paths may be relative."""
        params = self._placed(params)
        page = self.book.find(params.session_id)
        cwd = page.cwd if page is not None else self.settings.cwd
        files = [msgspec.structs.replace(file, path=posixpath.join(cwd, file.path)) for file in params.files]
        return (yield Pass(msgspec.structs.replace(params, files=files)))

    def write(self, params: Any) -> Flow:
        """fs/write_text_file: `overwrite: false` is a read first; the draft wants to hear what was written (24)."""
        params = self._placed(params)
        created = False
        if side(params).get("overwrite") is False:
            probe = ReadTextFileParams(session_id=params.session_id, path=params.path, line=1, limit=1)
            try:
                yield Deliver("fs/read_text_file", noted(probe, encoding="latin-1", probe=True))  # which any bytes are
            except ProtocolError as error:
                if error.kind != Kind.RESOURCE_NOT_FOUND:
                    raise
                created = True
            else:
                raise ProtocolError(
                    Kind.INVALID_PARAMS, f"{params.path} exists and overwrite is false", {"path": params.path}
                )
        result = yield Pass(params)
        told = {"bytesWritten": len(params.content.encode("utf-8", "replace")), "created": created}
        return noted(result, **{**told, **side(result)})

    # --- terminals --------------------------------------------------------------------------------------------

    def create_terminal(self, params: Any) -> Flow:
        """terminal/create: the client's output is pushed to the agent, a timeout is kept here (25)."""
        params = noted(self._placed(params), streams=True)  # who can, keeps them apart
        result = yield Pass(params)
        identity = result.terminal_id
        self.book.terminals[identity] = params.session_id
        self.pushed[identity] = {}
        timeout = side(params).get("timeout")
        if isinstance(timeout, int | float) and timeout > 0:
            yield Start(self._kill_after(params.session_id, identity, timeout / 1000))
        yield Start(self._push(params.session_id, identity))
        return result

    def _kill_after(self, session_id: str, terminal_id: str, seconds: float) -> Flow:
        yield Sleep(seconds)
        if terminal_id in self.pushed:
            yield Deliver("terminal/kill", KillTerminalParams(session_id=session_id, terminal_id=terminal_id))

    def _push(self, session_id: str, terminal_id: str) -> Flow:
        """Poll and push until the command ended or the terminal was released."""
        while terminal_id in self.pushed:
            yield Sleep(POLL)
            if terminal_id not in self.pushed or (yield from self._push_once(session_id, terminal_id)):
                return

    def _push_once(self, session_id: str, terminal_id: str) -> Flow:
        """Push what is new; whether the command has ended."""
        self._polls += 1
        poll = self._polls
        try:
            shown = yield Deliver(
                "terminal/output", TerminalOutputParams(session_id=session_id, terminal_id=terminal_id)
            )
        except ProtocolError:
            return True
        streams = side(shown).get("streams")
        now: dict[str, str] = streams if isinstance(streams, dict) else {"": shown.output}  # "": nobody knows which
        if terminal_id not in self.pushed or poll < self._polled.get(terminal_id, 0):
            return bool(shown.exit_status)  # released meanwhile, or a later poll was answered sooner: nothing is new
        before, self.pushed[terminal_id] = self.pushed[terminal_id], now
        self._polled[terminal_id] = poll
        for stream, text in now.items():
            if data := _added(before.get(stream, ""), text):
                params = PushOutputParams(
                    session_id=session_id, terminal_id=terminal_id, data=data, stream=stream or UNSET
                )
                yield Start(self._tell(unsaid(params, "sessionId")))
        return bool(shown.exit_status)

    def _tell(self, params: Any) -> Flow:
        """A push is a call in the style of a notification (section 5.2.5): nobody waits for its answer."""
        yield Ask("terminal/output", params)

    def wait(self, params: Any) -> Flow:
        """terminal/wait_for_exit with the draft's timeout; all output is pushed before the answer."""
        params = self._placed(params)
        timeout = side(params).get("timeout")
        if not isinstance(timeout, int | float):
            result = yield Pass(params)
        else:
            self._waits += 1
            key = f"wait:{self._waits}"
            outcome: list[Any] = []  # there before the wait begins when the command has ended already
            yield Start(self._wait_for(params, key, outcome))
            if not outcome:
                yield Start(self._wake_after(key, timeout / 1000))
                yield Wait(key)
            if not outcome:
                return noted(WaitForExitResult(exit_code=-1), timedOut=True)
            result = outcome[0]
            if isinstance(result, ProtocolError):
                raise result
        if params.terminal_id in self.pushed:
            yield from self._push_once(params.session_id, params.terminal_id)
        return result

    def _wait_for(self, params: Any, key: str, outcome: list[Any]) -> Flow:
        try:
            outcome.append((yield Deliver("terminal/wait_for_exit", params)))
        except ProtocolError as error:
            outcome.append(error)
        yield Wake(key)

    def _wake_after(self, key: str, seconds: float) -> Flow:
        yield Sleep(seconds)
        yield Wake(key, None)

    def release(self, params: Any) -> Flow:
        """terminal/release: nothing is pushed any more, and nobody is asked about what may be gone by then."""
        params = self._placed(params)
        self.pushed.pop(params.terminal_id, None)
        self._polled.pop(params.terminal_id, None)
        result = yield Pass(params)
        self.book.terminals.pop(params.terminal_id, None)
        return result

    incoming: ClassVar[dict[str, FlowMaker]] = {
        "session/update": update,
        "fs/read_text_file": placed,
        "fs/write_text_file": write,
        "fs/read_binary_file": placed,
        "fs/write_binary_file": placed,
        "fs/list_directory": placed,
        "fs/create_directory": placed,
        "fs/watch": placed,
        "fs/write_files": write_files,
        "terminal/create": create_terminal,
        "terminal/output": placed,
        "terminal/wait_for_exit": wait,
        "terminal/kill": placed,
        "terminal/release": release,
    }
    outgoing: ClassVar[dict[str, FlowMaker]] = {
        "session/new": new,
        "session/load": load,
        "session/prompt": prompt,
        "session/cancel": cancel,
        "session/set_config_option": set_config_option,
    }


def _told(part: Any) -> dict[str, Any]:
    """What only the draft says of a part of the capabilities."""
    return side(part)


def _added(before: str, now: str) -> str:
    """What was printed since: the rest, or what follows the overlap when the beginning fell away."""
    if now.startswith(before):
        return now[len(before) :]
    for start in range(1, len(before)):
        if now.startswith(before[start:]):
            return now[len(before) - start :]
    return now
