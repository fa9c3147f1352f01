"""`dragoman chat`: a conversation with an agent, line by line.

What the agent says goes to the screen as it comes; what the person writes comes from the editing line; questions stand
above both. One turn at a time: while it runs nothing is sent, and what is typed waits on the next line.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import select
import shlex
import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import partial

from dragoman import ClientSession, ConnectionFailed, ProtocolError
from dragoman.cli import exit_codes
from dragoman.cli.chat import colon_commands, completer, line_editor
from dragoman.cli.chat.background import Background
from dragoman.cli.chat.completer import Candidate
from dragoman.cli.chat.detach import Detach
from dragoman.cli.chat.history import InputHistory
from dragoman.cli.chat.line_editor import PROMPT, InterruptiblePrompter
from dragoman.cli.chat.status_line import status_text
from dragoman.cli.commands.run import as_agent_exit, error_text, exit_code_of, report_turn_end
from dragoman.cli.connect import attachments
from dragoman.cli.connect import local as meeting
from dragoman.cli.connect.local import OpenSession
from dragoman.cli.connect.presence import TURN_INTERRUPTED
from dragoman.cli.connect.run_turn import Interrupts, run_turn
from dragoman.cli.parser import Parser
from dragoman.cli.ui.key_prompt import EOF_KEY, KeyChoice, raw_key_mode
from dragoman.cli.ui.terminal import StyledLine, TerminalOutput, clip, sanitize, sanitize_line
from dragoman.cli.ui.transcript_view import TranscriptView, read_last_turn
from dragoman.config.config_file import NamedAgent
from dragoman.config.paths import user_paths
from dragoman.errors import ConfigFault, Kind

# A turn that takes longer than this says that it is still there, and how long it has been, as often. Seconds.
PROGRESS_INTERVAL = 1.0

EPILOG = f"""\
Enter sends, Alt-Enter begins another line, Tab completes the agent's /commands and @files, Up and Ctrl-R look into the
history. Commands of the conversation itself begin with a colon:
{", ".join(f":{name}" for name in colon_commands.COMMANDS)}.

While the agent works, what you type waits for the next line; Ctrl-C stops the agent, a second one ends all, and Ctrl-D
leaves when it is done; a host you leave at once, and turns and questions go on there. The agent's questions are
answered by one key; the answer can be for once, the session, the folder, or always (`dragoman grants`). What is asked,
allowed and denied is your policy's (docs/policy.md), as for `dragoman run`.

Editing, history and completion come with: pip install 'dragoman[tui]'. Without it, chat reads plain lines.

What is said is kept (`dragoman sessions`): --session gives the session a name and goes on with it another time, and an
agent that dies can be started again. --no-store keeps nothing. With --host the session is in a host (docs/host.md), and
others may be in it: who is here, asks, waits and decides is shown, and :who lists them. It works with the host's files,
unless --lend gives it a folder here.

exit codes:
    0  you left                            8  the sandbox cannot be had here
    1  an error                           10  the session cannot be kept (docs/store.md)
    2  wrong usage, or no terminal       130  ended by Ctrl-C while the agent worked
    7  the agent did not start, or died

examples:
  dragoman chat
  dragoman chat --session roof
  dragoman chat --host office --session roof
  dragoman chat --host office --lend
  dragoman chat --agent opencode --mode plan
  dragoman chat --agent-mode code --model large -- my-agent --acp
  dragoman chat -- dragoman agent everything"""


def main(arguments: list[str]) -> int:
    """Read the arguments, then talk."""
    parser = Parser("chat", meeting.USAGE, "Talk with an agent.", EPILOG)
    meeting.add_options(parser)
    options, command = parser.read(arguments)
    try:
        agent = meeting.resolve_options(parser, options, command)
        if not is_interactive():
            parser.error("a conversation needs a terminal; to ask one thing, use: dragoman run 'What is this?'")
        # Not on uvloop: the editing line is at home on asyncio's own loop.
        return asyncio.run(Chat(agent, options).run())
    except ConfigFault as fault:
        print(f"{parser.prog}: {sanitize(str(fault))}", file=sys.stderr)
        return exit_codes.USAGE


def is_interactive() -> bool:
    """Whether there is somebody who reads and types."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


class Chat:
    """One conversation, from the greeting to the end."""

    def __init__(
        self, agent: NamedAgent, options: argparse.Namespace, *, persistent: bool = True, hints: Sequence[str] = ()
    ) -> None:
        self.is_over = False
        self._agent = agent
        self._options = options
        self._persistent = persistent
        self._hints = hints
        self._terminal = TerminalOutput(sys.stdout, None)
        self._output = self._terminal.diagnostics
        self._fd = sys.stdin.fileno()
        self._prompter = InterruptiblePrompter(self._output, self._fd)
        self._open_session: OpenSession
        self.session: ClientSession
        self._background = Background(self._output, self._prompter)
        self._log_id: str | None = None  # where the session is kept
        self._detach_state: Detach
        self._has_shown_history = False  # whether the person knows what was said before

    async def run(self) -> int:
        """Greet, then one turn after the other; an agent that dies is started again if the person wants that."""
        interrupts = Interrupts()
        self._detach_state = Detach(asyncio.current_task())
        while True:
            try:
                await self._run_session(interrupts)
                self._show_resume_command()
                return exit_codes.OK
            except asyncio.CancelledError:
                self._output.ensure_line_start()
                if self._detach_state.has_started:
                    self._show_resume_command()
                    return exit_codes.OK
                return exit_codes.INTERRUPTED if self._background.is_turn_running else exit_codes.OK
            except (ProtocolError, ConnectionFailed) as error:
                self._output.write_line(f"dragoman chat: {error_text(error)}", "red")
                if not isinstance(error, ConnectionFailed) or not await self._ask_restart():
                    return exit_code_of(error)

    async def _run_session(self, interrupts: Interrupts) -> None:
        met = meeting.open_session(
            self._agent,
            self._options,
            self._terminal,
            self._prompter,
            keeps=self._persistent,
            tell=self._background.show_notice,
            discreet=True,
        )
        async with met as self._open_session:
            self.permission_ui = self._background.permission_ui = self._open_session.permission_ui
            self._enter_session(self._open_session.session)
            self._prompter.on_eof = self._start_detach if self._open_session.presence is not None else None
            history = InputHistory(
                user_paths().history if self._persistent else os.path.join(self._options.cwd, ".history")
            )
            self._line_reader, advice = line_editor.create_line_reader(
                self._prompter, self._output, history, self._complete, self._status_text
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
            # Between two lines too: a terminal that turns Enter into Ctrl-J would have the editor begin a second line.
            with raw_key_mode(self._fd) if self._line_reader.needs_raw_keys else nullcontext():
                await self._run_prompts(interrupts)

    async def _ask_restart(self) -> bool:
        """The agent is gone: whether it shall be started again, to go on with what is kept."""
        self._background.is_turn_running = False
        log, self._log_id = self._log_id, None
        if log is None:
            return False
        question = [StyledLine("The agent is gone. What was said is kept.")]
        choices = [KeyChoice("y", "start it again and go on", "y"), KeyChoice("n", "leave", "n")]
        if await self._prompter.choose(question, choices) != "y":
            return False
        self._options.session = log
        return True

    async def _show_last_turn(self) -> None:
        """What was said last in a session that goes on."""
        record = self._open_session.record
        if record is not None and record.previous is not None and not self._has_shown_history:
            if self._open_session.presence is None:
                self._background.discard_pending()  # an agent that loads a session tells all of it again
            TranscriptView(self._output).show_entries(await read_last_turn(record.store, record.previous))
        self._has_shown_history = True

    # --- for the commands of the conversation -----------------------------------------------------------------

    def show_line(self, text: str, style: str = "dim") -> None:
        """One line of our own."""
        self._output.write_line(sanitize_line(text), style)

    def members_text(self) -> str:
        """Who is here, in a session of a host; nothing elsewhere."""
        return self._open_session.presence.members_text() if self._open_session.presence is not None else ""

    def show_lines(self, lines: Iterable[StyledLine]) -> None:
        """Several."""
        self._output.write_lines(lines)

    @property
    def provides_workspace(self) -> bool:
        """Whether a folder here is lent to an agent in a host."""
        return self._options.lend is not None

    async def start_new_session(self) -> None:
        """Go on in a new session; in a host, one is in the other no longer."""
        before = self.session
        self._enter_session(
            await meeting.open_new_session(self._open_session.agent, self._options, self._open_session.permission_ui)
        )
        if self._open_session.presence is not None:
            self._open_session.presence.enter_session(self.session.id)
            await self._open_session.agent.request("session/detach", {"sessionId": before.id})

    # --- talking ----------------------------------------------------------------------------------------------

    def _enter_session(self, session: ClientSession) -> None:
        self.session = session
        self._log_id = getattr(session, "log_id", None)
        self._view = self._open_session.create_view(session)
        self._background.enter_session(session, self._view)

    def _show_greeting(self, advice: str) -> None:
        info = self._open_session.agent.info
        name = (
            f"{sanitize_line(info.title or info.name)} {sanitize_line(info.version)}"
            if info
            else sanitize_line(self._agent.name)
        )
        home = os.path.expanduser("~")
        cwd = self._options.cwd
        shown = f"~{cwd[len(home) :]}" if cwd == home or cwd.startswith(f"{home}/") else cwd
        self._output.write_lines(
            [
                StyledLine(
                    f"{name}, speaking {self._open_session.agent.dialect}, "
                    f"in {sanitize_line(shown)}{self._host_text()}",
                    "bold",
                ),
                *(StyledLine(hint, "dim") for hint in self._hints),
                StyledLine(f"{self._line_reader.hint}:help lists the rest; Ctrl-D leaves.", "dim"),
                *([StyledLine(advice, "dim")] if advice else []),
            ]
        )

    def _host_text(self) -> str:
        host = self._options.afar
        if host is None:
            return ""
        return (
            f", lent to {sanitize_line(host.shown)}" if self.provides_workspace else f" of {sanitize_line(host.shown)}"
        )

    async def _run_prompts(self, interrupts: Interrupts) -> None:
        typed = ""
        teller = asyncio.create_task(self._background.run())
        gone = asyncio.create_task(self._watch_connection())
        try:
            while not self.is_over:
                self._view.end_turn()
                self._output.ensure_blank_line()
                reading = asyncio.create_task(self._read_line(typed))
                try:
                    await asyncio.wait({reading, gone}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    reading.cancel()
                    await asyncio.wait({reading})
                if gone.done():
                    gone.result()
                text = reading.result()
                typed = ""
                self._notify_typing("")
                if text is None:
                    return
                if colon_commands.is_colon_command(text):
                    await colon_commands.run_colon_command(self, text)
                elif text.strip():
                    typed = await self._run_turn(colon_commands.unescape_prefix(text), interrupts)
        finally:
            for task in (teller, gone):
                task.cancel()

    async def _read_line(self, initial_text: str) -> str | None:
        """What the person writes next, once no question stands there."""
        await self._prompter.wait_until_free()
        return await self._line_reader.read(initial_text)

    async def _run_turn(self, text: str, interrupts: Interrupts) -> str:
        """Prompt and show the answer; gives what was typed meanwhile."""
        self._background.is_turn_running = True
        pulse = asyncio.create_task(self._show_progress())
        with raw_key_mode(self._fd), self._prompter.capture_type_ahead():
            try:
                content = attachments.build_prompt(text, self.session.cwd, self._open_session.agent.capabilities)
                ours = None if self._open_session.presence is None else partial(self._before_update, text)
                self._background.begin_prompt(self._open_session.presence)
                leave, sheet = self._open_session.permission_ui, self._output
                turn = await run_turn(self.session, content, self._view, leave, interrupts, sheet, is_own_update=ours)
            except ProtocolError as error:
                if not self._is_already_reported(error):
                    fault = as_agent_exit(error)
                    self._output.write_line(self._open_session.permission_ui.redact(error_text(fault)), "red")
                    if fault is not error:
                        self._output.write_line("the next prompt starts the agent again", "dim")
            else:
                report_turn_end(turn.stop_reason or "", self._terminal)
            finally:
                pulse.cancel()
                self._output.clear_footer()
            self._background.is_turn_running = False
            typed = self._prompter.take_type_ahead() + self._read_pending_keys()
        text = line_editor.type_ahead_text(typed)
        self.is_over = not text and EOF_KEY in typed  # it waited, as all that is typed
        return text

    def _is_already_reported(self, error: ProtocolError) -> bool:
        """Whether the host has told already how one's own turn came to its end."""
        company = self._open_session.presence
        is_cut = error.kind in (Kind.CONNECTION_LOST, TURN_INTERRUPTED)
        return (
            is_cut
            and company is not None
            and company.own_turn_id != ""
            and company.interrupted_turn_id == company.own_turn_id
        )

    def _before_update(self, prompt_text: str) -> bool:
        """Before each update: who waited for others is told again what they asked, when it is answered."""
        if self._background.take_own_turn_start():
            self._view.end_turn()
            self._output.ensure_blank_line()
            shown = " ".join(prompt_text.split())
            self._output.write_line(f"{PROMPT}{sanitize_line(clip(shown, self._output.width - 3))}", "bold")
        return True

    def _read_pending_keys(self) -> bytes:
        """The keys that nobody has read yet."""
        data = b""
        while select.select([self._fd], [], [], 0)[0]:
            try:
                more = os.read(self._fd, 4096)
            except OSError:  # the terminal was closed
                break
            if not more:
                break
            data += more
        return data

    async def _show_progress(self) -> None:
        """Say that the agent still works, where nothing else says it."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            await asyncio.sleep(PROGRESS_INTERVAL)
            if not self._open_session.permission_ui.is_asking:
                self._output.show_footer(f"{loop.time() - begun:.0f} s · Ctrl-C stops it · what you type waits")

    # --- leaving a session that goes on ---------------------------------------------------------------------------

    def _start_detach(self) -> None:
        """The person leaves, perhaps in the middle of a turn or at a question: both go on in the host."""
        turn = "the agent goes on" if self._background.is_turn_running else ""
        self._detach_state.start(
            self._request_detach, "the question stays open" if self.permission_ui.is_asking else turn
        )

    async def _request_detach(self) -> None:
        await self._open_session.agent.request("session/detach", {"sessionId": self.session.id})

    def _show_resume_command(self) -> None:
        """How to go on with a session in a host."""
        host = self._options.afar
        if host is not None:
            name = self._open_session.session_ref if self.session is self._open_session.session else self.session.id
            self._output.write_line(f"{self._detach_state.message}; come back with:", "dim")
            self._output.write_line(f"  dragoman chat {host.flag}--session {shlex.quote(sanitize_line(name))}")

    # --- the others, in a host --------------------------------------------------------------------------------

    def _notify_typing(self, text: str) -> None:
        """Let the others see that the person writes, and when not any more."""
        state = "typing" if text.strip() else "here"
        company = self._open_session.presence
        if company is not None and state != company.own_state:
            company.own_state = state
            self._open_session.agent.notify("_dragoman/presence", {"sessionId": self.session.id, "state": state})

    async def _watch_connection(self) -> None:
        """Returns never but when the agent is gone: then it raises why."""
        while True:
            session = self.session
            async for _ in session.follow():
                pass
            failure = session.connection.failure
            if failure is not None:
                raise failure
            if session is self.session:
                raise ConnectionFailed("the agent closed the session")

    # --- the line ---------------------------------------------------------------------------------------------

    def _complete(self, text_before_cursor: str) -> Iterable[Candidate]:
        if colon_commands.is_colon_command(text_before_cursor):
            return colon_commands.complete_colon_command(text_before_cursor, self.session)
        commands = [(command.name, command.description) for command in self.session.commands]
        return [
            *completer.complete_slash_command(text_before_cursor, commands),
            *completer.complete_file(text_before_cursor, self.session.cwd),
        ]

    def _status_text(self) -> str:
        return status_text(self._open_session, self.session)[: self._output.width - 1] or " "
