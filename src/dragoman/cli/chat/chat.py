"""`dragoman chat`: a session with an agent in the terminal, line by line.

The agent's text is shown as it streams in; the user writes on the input line; questions are shown above both. One turn
runs at a time: what is typed meanwhile stays on the next input line and is not sent.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack, nullcontext, suppress
from functools import partial

import msgspec

from dragoman import ClientSession, ConnectionFailed, ProtocolError
from dragoman.cli import exit_codes
from dragoman.cli.chat import colon_commands, line_editor
from dragoman.cli.chat.background import Background
from dragoman.cli.chat.line_editor import PROMPT, Candidate, InputHistory, InterruptiblePrompter
from dragoman.cli.connect.local import OpenSession, open_session
from dragoman.cli.connect.options import SessionOptions
from dragoman.cli.connect.presence import TURN_INTERRUPTED
from dragoman.cli.connect.prompt import Interrupts, build_prompt, run_turn
from dragoman.cli.messages import as_agent_exit, error_text, exit_code_of, report_turn_end
from dragoman.cli.ui.key_prompt import EOF_KEY, KeyChoice, raw_key_mode
from dragoman.cli.ui.progress import show_progress
from dragoman.cli.ui.terminal import StyledLine, TerminalOutput, clip, sanitize_line, wrap_words
from dragoman.cli.ui.transcript_view import TranscriptView, read_last_turn
from dragoman.config.paths import user_paths
from dragoman.errors import Kind

# The host knows by then that the client leaves; the user does not wait longer. Seconds.
DETACH_TIMEOUT = 2.0


def _turn_progress(seconds: int) -> str:
    return f"{seconds} s · Ctrl-C stops the agent · what you type is kept"


def is_interactive() -> bool:
    """Return whether standard input and output are terminals."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


class Chat:
    """One chat, from the greeting to the end."""

    def __init__(self, options: SessionOptions, *, hints: Sequence[str] = ()) -> None:
        self.is_over = False
        self._options = options
        self._hints = hints
        self._terminal = TerminalOutput(sys.stdout, None)
        self._output = self._terminal.diagnostics
        self._fd = sys.stdin.fileno()
        self._prompter = InterruptiblePrompter(self._output, self._fd)
        self._open_session: OpenSession
        self.session: ClientSession
        self._background = Background(self._output, self._prompter)
        self._log_id: str | None = None  # the id of the stored session
        self._farewell = "you left; the session stays on the host"
        self._detach_task: asyncio.Task[None] | None = None  # the user quits a session on a host
        self._is_open = False  # whether the agent is started and the session open
        self._early_keys = b""  # typed while the agent started
        self._has_shown_history = False  # whether the last turn of a continued session was shown

    async def run(self) -> int:
        """Show the greeting, then run one turn after the other; offer to restart an agent that exits."""
        interrupts = Interrupts()
        self._main_task = asyncio.current_task()
        while True:
            try:
                await self._run_session(interrupts)
                self._show_resume_command()
                return exit_codes.OK
            except asyncio.CancelledError:
                self._output.ensure_line_start()
                if self._detach_task is not None:
                    self._show_resume_command()
                    return exit_codes.OK
                if not self._is_open:
                    self._output.write_line("interrupted", "yellow")
                    return interrupts.exit_code
                return interrupts.exit_code if self._background.is_turn_running else exit_codes.OK
            except (ProtocolError, ConnectionFailed) as error:
                self._output.write_line(f"dragoman chat: {error_text(error)}", "red")
                if not isinstance(error, ConnectionFailed) or not await self._ask_restart():
                    return exit_code_of(error)

    async def _run_session(self, interrupts: Interrupts) -> None:
        show_line = self._background.show_notice
        opening = open_session(self._options, self._terminal, self._prompter, show_line=show_line, hide_status=True)
        async with AsyncExitStack() as stack:
            self._is_open = False
            # What is typed while the agent starts must not appear on the screen before the greeting.
            with raw_key_mode(self._fd), self._prompter.capture_type_ahead():
                self._open_session = await stack.enter_async_context(opening)
                self._early_keys += self._prompter.take_type_ahead()
            self._is_open = True
            self.permission_ui = self._background.permission_ui = self._open_session.permission_ui
            self._enter_session(self._open_session.session)
            self._prompter.on_eof = self._start_detach if self._open_session.presence is not None else None
            own_history = os.path.join(self._options.cwd, ".history")
            self._history = InputHistory(user_paths().history if self._options.uses_user_files else own_history)
            self._line_reader, advice = line_editor.create_line_reader(
                self._prompter, self._output, self._history, self._complete, self._status_text
            )
            self._prompter.line_reader = self._background.line_reader = self._line_reader
            if self._open_session.presence is not None:
                self._open_session.presence.show_decision = self._background.show_notice_after_question
                if isinstance(self._line_reader, line_editor.LineEditor):
                    self._line_reader.on_change = self._notify_typing
                    self._open_session.presence.on_status_change = self._line_reader.refresh
            self._show_greeting(advice)
            await self._show_last_turn()
            self.permission_ui.ready.set()
            # Between two lines too: a terminal that turns Enter into Ctrl-J would make the editor start a second line.
            with raw_key_mode(self._fd) if self._line_reader.needs_raw_keys else nullcontext():
                await self._run_prompts(interrupts)

    async def _ask_restart(self) -> bool:
        """Ask whether to start the agent again: in the stored session, or in a new one if nothing is stored."""
        self._background.is_turn_running = False
        log_id, self._log_id = self._log_id, None
        if not self._is_open or (log_id is None and self._options.host is not None):
            return False
        state, start = (
            ("The session is stored.", "start the agent again and continue")
            if log_id is not None
            else ("The session is not stored.", "start the agent again with a new session")
        )
        choices = [KeyChoice("y", start, "y"), KeyChoice("n", "quit", "n")]
        if await self._prompter.choose([StyledLine(f"The agent exited. {state}")], choices) != "y":
            return False
        if log_id is not None:
            self._options = msgspec.structs.replace(self._options, session=log_id)
        self._hints = ()
        return True

    async def _show_last_turn(self) -> None:
        """Show the last turn of a session that is continued."""
        record = self._open_session.record
        if record is not None and record.previous is not None and not self._has_shown_history:
            if self._open_session.presence is None:
                self._background.discard_pending()  # an agent that loads a session sends all of it again
            TranscriptView(self._output).show_entries(await read_last_turn(record.store, record.previous))
        self._has_shown_history = True

    # --- for colon commands -----------------------------------------------------------------------------------

    def show_line(self, text: str, style: str = "dim") -> None:
        """Show one line."""
        self._output.write_prose(sanitize_line(text), style)

    def members_text(self) -> str:
        """Return the members of a session on a host; empty elsewhere."""
        return self._open_session.presence.members_text() if self._open_session.presence is not None else ""

    def show_lines(self, lines: Iterable[StyledLine], *, wraps: bool = True) -> None:
        """Show several lines; `wraps`: they are sentences, and long ones are broken between words."""
        for line in lines:
            (self._output.write_prose if wraps else self._output.write_line)(line.text, line.style)

    def expect_mode(self, name: str) -> None:
        """Do not show the agent's report of this mode."""
        self._view.expected_mode = name

    @property
    def folded_result(self) -> list[StyledLine]:
        """All lines of the last result of which some were left out."""
        return self._view.folded_result

    @property
    def provides_workspace(self) -> bool:
        """Whether a folder of this machine is lent to an agent on a host."""
        return self._options.lend is not None

    async def start_new_session(self) -> None:
        """Continue in a new session; on a host, detach from the current one."""
        previous = self.session
        self._enter_session(await self._open_session.open_new_session())
        if self._open_session.presence is not None:
            self._open_session.presence.enter_session(self.session.id)
            await self._open_session.agent.request("session/detach", {"sessionId": previous.id})

    # --- prompts ----------------------------------------------------------------------------------------------

    def _enter_session(self, session: ClientSession) -> None:
        self.session = session
        self._log_id = getattr(session, "log_id", None)
        self._view = self._open_session.create_view(session)
        self._view.fold_hint = " (:more shows all)"
        self._background.enter_session(session, self._view)

    def _show_greeting(self, advice: str) -> None:
        info = self._open_session.agent.info
        name = (
            f"{sanitize_line(info.title or info.name)} {sanitize_line(info.version)}"
            if info
            else sanitize_line(self._options.agent.name)
        )
        home = os.path.expanduser("~")
        cwd = self._open_session.cwd
        folder = f"~{cwd[len(home) :]}" if cwd == home or cwd.startswith(f"{home}/") else cwd
        self._output.write_lines(
            [
                StyledLine(
                    f"{name} ({self._open_session.agent.dialect}) in {sanitize_line(folder)}{self._host_text()}",
                    "bold",
                ),
                *(StyledLine(line, "dim") for hint in self._hints for line in wrap_words(hint, self._output.width)),
                StyledLine(f"{self._line_reader.hint}:help lists all commands; Ctrl-D quits.", "dim"),
                *([StyledLine(advice, "dim")] if advice else []),
            ]
        )

    def _host_text(self) -> str:
        host = self._options.host
        if host is None:
            return ""
        return (
            f", lent to {sanitize_line(host.display_name)}"
            if self.provides_workspace
            else f" of {sanitize_line(host.display_name)}"
        )

    async def _run_prompts(self, interrupts: Interrupts) -> None:
        lines, typed = line_editor.type_ahead_lines(self._early_keys)
        is_last = not typed and EOF_KEY in self._early_keys
        self._early_keys = b""
        background_task = asyncio.create_task(self._background.run())
        watch_task = asyncio.create_task(self._watch_connection())
        try:
            while not self.is_over:
                self._view.end_turn()
                self._output.ensure_blank_line()
                if lines:
                    text: str | None = self._send_early_line(lines.pop(0))
                elif is_last:
                    return
                else:
                    text, typed = await self._read_line_or_fail(typed, watch_task), ""
                if text is None:
                    return
                if colon_commands.is_colon_command(text):
                    await colon_commands.run_colon_command(self, text)
                elif text.strip():
                    typed += await self._run_turn(colon_commands.unescape_prefix(text), interrupts)
        finally:
            for task in (background_task, watch_task):
                task.cancel()

    def _send_early_line(self, text: str) -> str:
        """Show a line that was typed while the agent started, as if it were typed now."""
        self._output.write_line(f"{PROMPT}{text}", "bold")
        self._history.add(text)
        return text

    async def _read_line_or_fail(self, initial_text: str, watch_task: asyncio.Task[None]) -> str | None:
        """Return the next line; raise when the connection closes meanwhile."""
        reading = asyncio.create_task(self._read_line(initial_text))
        try:
            await asyncio.wait({reading, watch_task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            reading.cancel()
            await asyncio.wait({reading})
        if watch_task.done():
            watch_task.result()
        self._notify_typing("")
        return reading.result()

    async def _read_line(self, initial_text: str) -> str | None:
        """Return the next line, once no question is open."""
        await self._background.wait_until_idle()
        await self._prompter.wait_until_free()
        return await self._line_reader.read(initial_text)

    async def _run_turn(self, text: str, interrupts: Interrupts) -> str:
        """Send a prompt and show the answer; return what was typed meanwhile."""
        self._background.is_turn_running = True
        with raw_key_mode(self._fd), self._prompter.capture_type_ahead():
            try:
                content = build_prompt(text, self.session.cwd, self._open_session.agent.capabilities)
                self._background.begin_prompt(self._open_session.presence)
                is_own = partial(self._before_update, text)
                async with show_progress(self._output, _turn_progress, is_paused=lambda: self.permission_ui.is_asking):
                    turn = await run_turn(
                        self._open_session, content, self._view, interrupts, session=self.session, is_own_update=is_own
                    )
            except ProtocolError as error:
                if not self._is_already_reported(error):
                    failure = as_agent_exit(error)
                    self._output.write_line(self._open_session.permission_ui.redact(error_text(failure)), "red")
                    if failure is not error:
                        self._output.write_line("the next prompt starts the agent again", "dim")
            else:
                report_turn_end(turn.stop_reason or "", self._terminal)
            self._background.is_turn_running = False
            typed = self._prompter.take_type_ahead()
        text = line_editor.type_ahead_text(typed)
        self.is_over = not text and EOF_KEY in typed  # Ctrl-D waited, like everything that is typed
        return text

    def _is_already_reported(self, error: ProtocolError) -> bool:
        """Return whether the host has already reported the end of our own turn."""
        presence = self._open_session.presence
        was_interrupted = error.kind in (Kind.CONNECTION_LOST, TURN_INTERRUPTED)
        return (
            was_interrupted
            and presence is not None
            and presence.own_turn_id != ""
            and presence.interrupted_turn_id == presence.own_turn_id
        )

    def _before_update(self, prompt_text: str) -> bool:
        """Before the first update of our own turn that waited for other turns, show our prompt again."""
        if self._background.take_own_turn_start():
            self._view.end_turn()
            self._output.ensure_blank_line()
            one_line = " ".join(prompt_text.split())
            self._output.write_line(f"{PROMPT}{sanitize_line(clip(one_line, self._output.width - 3))}", "bold")
        return True

    # --- detaching from a session on a host -------------------------------------------------------------------

    def _start_detach(self) -> None:
        """Quit, perhaps during a turn or a question: both continue on the host."""
        if self._detach_task is not None:
            return
        if self.permission_ui.is_asking:
            self._farewell = "you left; the question stays open"
        elif self._background.is_turn_running:
            self._farewell = "you left; the agent continues"
        self._detach_task = asyncio.create_task(self._detach())

    async def _detach(self) -> None:
        try:
            # After this, the end of this client is no answer and no cancel on the host.
            with suppress(ProtocolError, ConnectionFailed, TimeoutError):
                async with asyncio.timeout(DETACH_TIMEOUT):
                    await self._open_session.agent.request("session/detach", {"sessionId": self.session.id})
        finally:
            if self._main_task is not None:
                self._main_task.cancel()

    def _show_resume_command(self) -> None:
        """Show how to return to a session on a host."""
        if self._options.host is not None:
            opened = self._open_session
            other_id = "" if self.session is opened.session else self.session.id
            advice = opened.return_advice("dragoman chat", other_id)
            is_command = advice.startswith("with: ")
            self._output.write_line(f"{self._farewell}; return {'with:' if is_command else advice}", "dim")
            if is_command:  # on a line of its own, to copy
                self._output.write_line(f"  {advice.removeprefix('with: ')}")

    # --- other members, on a host -----------------------------------------------------------------------------

    def _notify_typing(self, text: str) -> None:
        """Tell the other members whether the user is typing."""
        state = "typing" if text.strip() else "here"
        presence = self._open_session.presence
        if presence is not None and state != presence.own_state:
            presence.own_state = state
            self._open_session.agent.notify("_dragoman/presence", {"sessionId": self.session.id, "state": state})

    async def _watch_connection(self) -> None:
        """Wait until the connection or the session closes, then raise the reason."""
        while True:
            session = self.session
            async for _ in session.follow():
                pass
            failure = session.connection.failure
            if failure is not None:
                raise failure
            if session is self.session:
                raise ConnectionFailed("the agent closed the session")

    # --- the input line ---------------------------------------------------------------------------------------

    def _complete(self, text_before_cursor: str) -> Iterable[Candidate]:
        if colon_commands.is_colon_command(text_before_cursor):
            return colon_commands.complete_colon_command(text_before_cursor, self.session)
        commands = [(command.name, command.description) for command in self.session.commands]
        return [
            *line_editor.complete_slash_command(text_before_cursor, commands),
            *line_editor.complete_file(text_before_cursor, self.session.cwd),
        ]

    def _status_text(self) -> str:
        return line_editor.status_text(self._open_session, self.session)[: self._output.width - 1] or " "
