"""Open a session with an agent on this machine: start it, guard it, open or continue a session, create its view.

run, chat and demo all use `open_session`; for a session on a host it uses hosted.py.
"""

from __future__ import annotations

import asyncio
import shlex
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from typing import Any

from dragoman import ClientSession, Kind, ProtocolError, RemoteAgent, connect, run_in_terminal
from dragoman.cli.connect import record as records
from dragoman.cli.connect import settings
from dragoman.cli.connect.introduce import note_introduction
from dragoman.cli.connect.options import SessionOptions
from dragoman.cli.connect.presence import Presence, ShowLine
from dragoman.cli.connect.session_agent import note_session_agent
from dragoman.cli.ui.forms import FormPrompt
from dragoman.cli.ui.key_prompt import KeyChoice, Prompter
from dragoman.cli.ui.permission import PermissionUI
from dragoman.cli.ui.progress import show_progress
from dragoman.cli.ui.terminal import StyledLine, TerminalOutput, clip, sanitize_line
from dragoman.cli.ui.turn_view import TurnView
from dragoman.config.paths import user_paths
from dragoman.errors import ACP_OPTION_HINT, StartFailed
from dragoman.policy.redaction import environment_secrets
from dragoman.store.contract import Entry

# How long the start may take, in all dialects that are tried: some agents install themselves first
# (docs/protocol/peers.md#slow-start). Seconds.
INITIALIZE_TIMEOUT = 120.0

# How long other requests may take, such as a new session, for which some agents start MCP servers. Seconds.
REQUEST_TIMEOUT = 300.0

# Entries of a session that are read at once; a view that shows more reads more.
HISTORY_ENTRIES = 2000

# After this time of starting, the user sees what the agent writes to stderr. Seconds.
SLOW_START = 5
STDERR_LINES = 3

# After this time without an answer, the user is told that the program may need an option to be an agent. Seconds.
NO_ANSWER_HINT = 10
MAX_STDERR_LINE = 200  # characters


class OpenSession:
    """An agent, one session of it, its permission prompts and its views; hosted.py has the subclass for a host."""

    agent: RemoteAgent
    session: ClientSession
    permission_ui: PermissionUI
    record: records.SessionRecord | None = None
    presence: Presence | None = None  # other members, on a host
    prompt_author: Callable[[], str] | None = None  # the author of a prompt, where it can be another member
    is_own_update: Callable[[], bool] | None = None  # on a host: whether the next update belongs to our own turn

    def __init__(
        self,
        options: SessionOptions,
        terminal: TerminalOutput,
        prompter: Prompter | None,
        *,
        on_entry: Callable[[str, Entry], None] | None = None,
        show_line: ShowLine | None = None,
        hide_status: bool = False,
        reads_history: bool = False,
    ) -> None:
        """`show_line` shows what other members do; `hide_status`: a status line shows mode, title and usage;
        `reads_history`: the end of a session that is continued is read into `history`.
        """
        self.cwd = options.cwd
        self._options = options
        self._terminal = terminal
        self.diagnostics = terminal.diagnostics
        self._prompter = prompter
        self._on_entry = on_entry
        self._show_line = show_line
        self._hide_status = hide_status
        self._reads_history = reads_history
        self.history: list[bytes] = []  # the last entries of a session that is continued, as lines of its log
        self.history_start = 0  # how many entries are before them
        self._new_sessions: list[ClientSession] = []
        self._awaits_first_answer = True  # and the user was not told yet
        self._stderr_lines: deque[str] = deque(maxlen=STDERR_LINES)  # the last ones that are not shown yet

    @property
    def session_ref(self) -> str:
        """What --session takes to continue this session; empty when it is not stored."""
        if self.record is None or not self.record.is_persistent:
            return ""
        return self.record.name or getattr(self.session, "log_id", None) or ""

    def return_advice(self, command: str, session_id: str = "") -> str:
        """Return how this command continues the session, or another one: "with: COMMAND"; "" when it is not stored."""
        reference = session_id or self.session_ref
        return f"with: {command} {session_flag(reference)}" if reference else ""

    async def open(self, stack: AsyncExitStack) -> None:
        """Start the agent and open the session, with progress; the stack closes both."""
        progress = show_progress(
            self.diagnostics,
            lambda seconds: f"{self._start_text}… {seconds} s · Ctrl-C quits",
            is_paused=lambda: self._prompter is not None and self._prompter.is_asking,
            take_lines=self._take_stderr_lines,
        )
        async with nullcontext() if self._options.quiet else progress:
            await self._open(stack)

    async def _open(self, stack: AsyncExitStack) -> None:
        options, prompter = self._options, self._prompter
        await self._prepare(stack)
        self.permission_ui = self._create_permission_ui()
        if options.lsp:
            self._use_language_servers()
        self.permission_ui.workspace.as_tools = options.workspace_tools
        stack.push_async_callback(self.permission_ui.close)
        self.permission_ui.guard.redaction.add_values(environment_secrets(options.agent.env))
        if self.record is not None:
            self.record.store.redact = self.permission_ui.guard.redaction.redact_json
        connect_options: dict[str, Any] = {
            "cwd": self.cwd,
            "permission": self.permission_ui.permission,
            "workspace": self.permission_ui.workspace,
            "elicit": None if prompter is None else FormPrompt(self.permission_ui, prompter),
            "initialize_timeout": self._start_limit if options.timeout is None else options.timeout,
            "timeout": REQUEST_TIMEOUT if options.timeout is None else options.timeout,
            "trace": options.trace,
        }
        pending = connect(self._target, **connect_options | self._connect_options())
        try:
            async with asyncio.timeout(self._start_limit if options.timeout is None else None):
                self.agent = await stack.enter_async_context(pending)
        except TimeoutError:
            raise StartFailed(self._no_answer_text()) from None
        self._awaits_first_answer = False
        self.permission_ui.bind_agent(self.agent, options.agent.command)
        if options.uses_user_files and options.host is None:
            note_introduction(options.agent, self.agent)
        self.session = await self._enter_session()
        if options.host is None and self.record is not None and self.record.is_persistent:
            note_session_agent(options, self.session.log_id)

    def create_view(self, session: ClientSession) -> TurnView:
        """Return a view of a session of this agent."""
        return TurnView(
            self._terminal,
            session,
            output_of=self.terminal_output,
            shown_changes=self.permission_ui.shown_changes,
            verbose=self._options.verbose,
            quiet=self._options.quiet,
            hide_status=self._hide_status,
            prompt_author=self.prompt_author,
        )

    async def open_new_session(self) -> ClientSession:
        """Open another session and apply the MCP servers, mode, model and options."""
        session = await self._create_session()
        self._new_sessions.append(session)
        return await self._apply_settings(session)

    # --- what is different on a host --------------------------------------------------------------------------

    async def _prepare(self, stack: AsyncExitStack) -> None:
        """Find the record and the folder."""
        options = self._options
        if options.uses_user_files:
            opening = records.open_record(options, needs_entries=self._on_entry is not None)
            self.record = await stack.enter_async_context(opening)
            stack.push_async_callback(self._delete_unused_sessions)
        if self.record is not None and not options.is_cwd_given:
            self.cwd = await self.record.previous_folder() or self.cwd

    async def _delete_unused_sessions(self) -> None:
        if self.record is not None:
            await self.record.delete_unused(session.log_id for session in self._new_sessions)

    def _create_permission_ui(self, **more: Any) -> PermissionUI:
        options = self._options
        values = {
            "paths": user_paths() if options.uses_user_files else None,
            "policy": options.policy,
            "mode": options.mode,
            "sandboxed": options.sandbox is not None,
        }
        return PermissionUI(self.diagnostics, self._prompter, cwd=self.cwd, yes=options.yes, **values | more)

    def _use_language_servers(self) -> None:
        """Show diagnostics after each write of the agent."""
        from dragoman.bridge.lsp.workspace_observer import LanguageServerObserver, user_table

        def report(text: str) -> None:
            self.diagnostics.write_line(self.permission_ui.redact(text), "dim")

        self.permission_ui.workspace.observer = LanguageServerObserver(user_table(), report, offers_tools=True)

    @property
    def _target(self) -> str | list[str]:
        return self._options.agent.argv

    @property
    def _start_text(self) -> str:
        return f"starting {sanitize_line(self._options.agent.name)}"

    @property
    def _start_limit(self) -> float:
        """How long the agent may take to answer. Seconds."""
        return INITIALIZE_TIMEOUT

    def _no_answer_text(self) -> str:
        command = shlex.join([self._options.agent.command, *self._options.agent.args])
        stderr = "".join(f"\n{line}" for line in self._stderr_lines)
        return (
            f"{self._options.agent.name} did not answer within {INITIALIZE_TIMEOUT:g} s; start it yourself to see "
            f"what it waits for: {command}{stderr and f'; stderr:{stderr}'}"
        )

    def _connect_options(self) -> dict[str, Any]:
        options = self._options
        return {
            "dialect": options.dialect,
            "env": options.agent.env or None,
            "terminal_login": None if self._prompter is None else run_in_terminal,
            "report": self._report,
            "stderr": self._stderr_callback(),
            "sandbox": options.sandbox,
            "store": None if self.record is None else self.record.store,
            "on_entry": self._on_entry,
        }

    def _report(self, text: str) -> None:
        if self._options.verbose:
            self.diagnostics.write_line(self.permission_ui.redact(text), "dim")

    def _stderr_callback(self) -> Callable[[bytes], None]:
        """Return the callback for stderr of the agent: shown line by line, or kept for a slow start."""
        partial_line = bytearray()  # the beginning of a line

        def on_stderr(data: bytes) -> None:
            partial_line.extend(data)
            *lines, rest = bytes(partial_line).split(b"\n")
            partial_line[:] = rest[-MAX_STDERR_LINE:]
            for text in (line.decode("utf-8", "replace") for line in lines):
                if self._options.verbose:
                    self._report(text)
                elif text.strip():
                    self._stderr_lines.append(text)

        return on_stderr

    def _take_stderr_lines(self, seconds: int) -> list[str]:
        """Return the last lines of stderr that were not shown, once the start takes long; once, what to try."""
        lines = [clip(sanitize_line(self.permission_ui.redact(line)), MAX_STDERR_LINE) for line in self._stderr_lines]
        if seconds < SLOW_START:
            return []
        self._stderr_lines.clear()
        if seconds >= NO_ANSWER_HINT and self._awaits_first_answer and self._options.host is None:
            self._awaits_first_answer = False
            lines.append(f"{sanitize_line(self._options.agent.name)} has answered nothing yet; {ACP_OPTION_HINT}")
        return lines

    async def _enter_session(self) -> ClientSession:
        """Open or continue the session; if the agent requires a login, let the user choose how, once."""
        try:
            return await self._open_or_continue()
        except ProtocolError as error:
            if error.kind != Kind.AUTH_REQUIRED or self._prompter is None:
                raise
            if not await prompt_login(self.agent, self._prompter):
                raise
        return await self._open_or_continue()

    def terminal_output(self, terminal_id: str) -> str:
        """Return the output of a command so far."""
        terminal = self.permission_ui.workspace.find_terminal(terminal_id)
        return terminal.output().text if terminal is not None else ""

    # --- the session ------------------------------------------------------------------------------------------

    async def _open_or_continue(self) -> ClientSession:
        if self.record is None or self.record.previous is None:
            session = await self.open_new_session()
            if self.record is not None:
                await self.record.name_session(session)
                self._report_new_session(self.record)
            return session
        await self._read_history()
        session = await self.record.continue_session(
            self.agent, self.cwd, await self._allowed_servers(), self.diagnostics, quiet=self._options.quiet
        )
        return await self._apply_settings(session)

    def _report_new_session(self, record: records.SessionRecord) -> None:
        """Say that a session with the user's name is new: the name of an existing one may have been misspelled."""
        if record.new_session_text and not self._options.quiet:
            self.diagnostics.write_line(record.new_session_text, "dim")

    async def _read_history(self) -> None:
        """Read the end of the session that is continued."""
        if self._reads_history and self.record is not None and self.record.previous is not None:
            previous = self.record.previous
            self.history_start = max(0, previous.entries - HISTORY_ENTRIES)
            self.history = await self.record.store.lines(previous.session_id, after=self.history_start, intact=True)

    async def read_earlier_history(self) -> list[bytes]:
        """Return the entries before those that were read, and count them as read."""
        assert self.record is not None
        assert self.record.previous is not None
        start = max(0, self.history_start - HISTORY_ENTRIES)
        count, self.history_start = self.history_start - start, start
        return await self.record.store.lines(self.record.previous.session_id, after=start, limit=count, intact=True)

    async def _create_session(self) -> ClientSession:
        allowed = await self._allowed_servers()
        options = self._options
        return await self.agent.open_session(
            self.cwd, mcp_servers=allowed, mode=options.agent_mode, place=options.place
        )

    async def _allowed_servers(self) -> list[Any]:
        """Return the MCP servers that the policy allows. One that the agent does not support is an error: leaving it
        out silently would be a surprise.
        """
        capabilities = self.agent.capabilities.mcp_capabilities
        for server in self._options.servers:
            if server.form != "stdio" and not (capabilities and getattr(capabilities, server.form, False)):
                message = f"the agent does not support {server.form} MCP servers, such as {sanitize_line(server.name)}"
                raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, message)
        return list(await self.permission_ui.guard.allowed_servers(self._options.servers, self.cwd))

    async def _apply_settings(self, session: ClientSession) -> ClientSession:
        options = self._options
        if options.agent_mode and session.modes is not None:
            await settings.set_mode(session, options.agent_mode)
        if options.mode is not None:
            await self.permission_ui.guard.switch_mode(session, options.mode)
        if options.model:
            await settings.set_model(session, options.model)
        for id, value in options.settings:
            await settings.set_option(session, id, value)
        return session


def session_flag(reference: str) -> str:
    """Return the --session option for a session."""
    return f"--session {shlex.quote(sanitize_line(reference))}"


@asynccontextmanager
async def open_session(
    options: SessionOptions, terminal: TerminalOutput, prompter: Prompter | None, **more: Any
) -> AsyncIterator[OpenSession]:
    """Open a session here or on a host; `more` are the keyword arguments of OpenSession."""
    kind = OpenSession
    if options.host is not None:
        from dragoman.cli.connect.hosted import HostedSession as kind
    async with AsyncExitStack() as stack:
        opened = kind(options, terminal, prompter, **more)
        await opened.open(stack)
        yield opened


async def prompt_login(remote: RemoteAgent, prompter: Prompter) -> bool:
    """Let the user choose a way to log in; return whether one was used."""
    methods = list(remote.initialize_result.auth_methods or ())[:9]
    if not methods:
        return False
    choices = [
        KeyChoice(str(number), sanitize_line(method.name), method.id, sanitize_line(method.description or ""))
        for number, method in enumerate(methods, 1)
    ]
    lines = [StyledLine("The agent requires you to log in:", "ask")]
    chosen_id = await prompter.choose(lines, [*choices, KeyChoice("n", "not now", "")])
    if not chosen_id:
        return False
    async with prompter.release_terminal():
        await remote.authenticate(chosen_id)
    return True
