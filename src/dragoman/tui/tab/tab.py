"""A tab: one session, from the start of its agent to its end; its transcript, its questions, its waiting prompts."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from time import monotonic
from typing import Any

import msgspec

from dragoman import ClientSession, ConnectionFailed, ProtocolError
from dragoman.cli.chat import colon_commands
from dragoman.cli.connect.local import OpenSession, open_session
from dragoman.cli.connect.options import SessionOptions
from dragoman.cli.connect.prompt import build_prompt
from dragoman.cli.messages import as_agent_exit, error_text
from dragoman.cli.ui.permission import PermissionUI
from dragoman.cli.ui.rows import peer_line
from dragoman.cli.ui.terminal import StyledLine, TerminalOutput
from dragoman.errors import DragomanError
from dragoman.roles.client.follow import Location
from dragoman.store.summary import looks_like_id
from dragoman.tui import texts
from dragoman.tui.flow.flow import Flow
from dragoman.tui.flow.message import clock_time
from dragoman.tui.flow.view import FlowView
from dragoman.tui.tab.notes import NoteStream
from dragoman.tui.tab.question import BarPrompter

# A host notices by then that the client leaves; an agent has ended its turn, or is ended with its process. Seconds.
DETACH_TIMEOUT, STOP_TIMEOUT = 2.0, 2.0

# Characters of a title that is made of the first prompt.
MAX_TITLE = 60

STARTING, READY, RUNNING, ENDED = "starting", "ready", "running", "ended"


class Tab:
    """One session in the window."""

    session: ClientSession
    permission_ui: PermissionUI

    def __init__(
        self,
        options: SessionOptions,
        *,
        on_change: Callable[[], None],
        suspend: Callable[[], AbstractAsyncContextManager[None]],
        hints: Iterable[str] = (),
    ) -> None:
        """`on_change` asks for a frame; `suspend` leaves the terminal to another program."""
        self.options = options
        self.state = STARTING
        self.is_over = False  # the user closed it
        self.is_unread = False
        self.progress = ""  # what takes long now
        self.start_failure = ""  # why the agent did not start
        self.location: Location | None = None  # where the agent works
        self.draft = ""
        self._first_prompt = ""
        self.flow = Flow(options.cwd)
        self.view = FlowView(self.flow)
        self.prompter: BarPrompter
        self.opened: OpenSession | None = None
        self.waiting: deque[str] = deque()  # prompts that are not sent yet
        self.turn_started: float | None = None
        self.on_session: Callable[[], None] = lambda: None  # the session was opened, or a turn ended
        self.on_location: Callable[[Location], None] = lambda location: None
        self.on_unsent: Callable[[str], None] = lambda text: None  # a prompt that could not be sent goes back
        self._session_task: asyncio.Task[None] | None = None
        self._is_start_stopped = False
        self._on_change = on_change
        self._wakeup = asyncio.Event()
        self._turn_task: asyncio.Task[None] | None = None
        self._sent_prompts: deque[list[Any]] = deque()  # prompts that a host has, but that have not begun
        self._output = NoteStream(self._show_note, self._set_progress)
        self.prompter = BarPrompter(self._output, on_change, suspend)
        for hint in hints:
            self.flow.add_note(hint)

    # --- what is shown of it ------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """A name for the tab."""
        if self.opened is not None:
            record = self.opened.record
            previous = record.previous if record is not None else None
            known = self.session.title or (previous.title if previous is not None else None) or self._first_prompt
            named = previous.name if previous is not None else record.name if record is not None else None
            if named and looks_like_id(named):
                named = None
            return peer_line(named or known or self.agent_name)
        return peer_line(self.options.agent.name)

    @property
    def agent_name(self) -> str:
        """The name of the agent."""
        info = self.opened.agent.info if self.opened is not None else None
        return peer_line((info.title or info.name) if info else self.options.agent.name)

    @property
    def is_asking(self) -> bool:
        """Whether the agent waits for the user."""
        return bool(self.prompter.questions)

    @property
    def is_running(self) -> bool:
        """Whether a turn runs, ours or that of another member."""
        presence = self.opened.presence if self.opened is not None else None
        return self.state == RUNNING or (presence is not None and presence.is_others_turn)

    def _show_note(self, text: str, style: str) -> None:
        self.flow.add_note(text, style)
        self._on_change()

    def _set_progress(self, text: str) -> None:
        self.progress = text
        self._on_change()

    # --- the life of it -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Open the session and run prompts until the tab is closed; after an error, the next prompt tries again."""
        while not self.is_over:
            self._is_start_stopped = False
            self._session_task = asyncio.create_task(self._run_session())
            try:
                await self._session_task
            except (DragomanError, OSError) as error:
                self._show_failure(error)
            except asyncio.CancelledError:
                if not self._is_start_stopped or self.is_over:
                    raise
                self.start_failure = texts.START_STOPPED
                self.flow.add_note(texts.START_STOPPED)
            if self.is_over:
                return
            self.state = ENDED
            self.prompter.close_question()
            self._return_prompts()
            self._on_change()
            await self._wait_for_prompt()

    def stop_start(self) -> bool:
        """Stop the start of the agent; return whether it was starting."""
        if self.state != STARTING or self._session_task is None or self._session_task.done():
            return False
        self._is_start_stopped = True
        self._session_task.cancel()
        return True

    def _return_prompts(self) -> None:
        """Give back the prompts that wait: each starts an agent once, so that one that cannot start is not started
        again and again.
        """
        if self.waiting:
            unsent = "\n".join(self.waiting)
            self.waiting.clear()
            self.on_unsent(unsent)

    async def _run_session(self) -> None:
        self.state, self.start_failure = STARTING, ""
        opening = open_session(
            self.options,
            TerminalOutput.on(self._output),
            self.prompter,
            show_line=self._show_note,
            hide_status=True,
            reads_history=True,
        )
        async with opening as opened:
            self._enter(opened, opened.session)
            self.permission_ui = opened.permission_ui
            self.permission_ui.ready.set()
            self.state = READY
            self.on_session()
            self._on_change()
            watch = asyncio.create_task(self._watch_connection())
            try:
                await self._run_prompts(watch)
            finally:
                watch.cancel()
                await self._leave()

    def _show_failure(self, error: Exception) -> None:
        text = error_text(error) if isinstance(error, ProtocolError | ConnectionFailed) else str(error)
        if self.opened is not None:
            text = self.opened.permission_ui.redact(text)
            log_id = getattr(self.session, "log_id", None)
            if log_id is not None:  # the next start continues it
                self.options = msgspec.structs.replace(self.options, session=log_id)
        if self.state == STARTING:
            self.start_failure = peer_line(" ".join(text.split()))
        self.flow.end_turn()
        self.flow.add_note(text, "red")
        self.flow.add_note(texts.START_AGAIN)

    def _enter(self, opened: OpenSession, session: ClientSession) -> None:
        """Show this session."""
        is_first = self.opened is None
        self.opened, self.session = opened, session
        flow = Flow(session.cwd, opened.terminal_output, lambda: session.transcript.terminals)
        if is_first:
            flow.blocks = self.flow.blocks if not opened.history else []
        flow.add_history(opened.history)
        presence = opened.presence
        if presence is None:
            flow.end_message()  # on a host, the turn may go on
        if presence is not None:
            presence.on_status_change = self._on_change
            presence.on_own_turn = self._begin_own_turn
            presence.on_decision = self._note_decision
            presence.show_decision = self._show_note
        self.flow, options = flow, self.view.options
        self.view = FlowView(flow)
        self.view.options = options
        session.on_update = self._on_update
        session.on_location = self._on_location
        # An agent that loads a session sends all of it again; a host sends what came since.
        if presence is not None or not opened.history:
            for update in session.updates_outside_turns:
                self._on_update(update)
        self._on_change()

    def _on_update(self, update: Any) -> None:
        presence = self.opened.presence if self.opened is not None else None
        if presence is not None:
            self.flow.user = presence.prompt_author
        self.flow.apply(update)
        self.is_unread = True
        self._on_change()

    def _on_location(self, location: Location) -> None:
        self.location = location
        self.on_location(location)

    def _note_decision(self, call_id: str, by: str, text: str) -> None:
        self.flow.note_decision(call_id, f"{text}: {by}")

    async def _watch_connection(self) -> None:
        """Wait until the connection or the session closes."""
        while True:
            session = self.session
            async for _ in session.follow():
                pass
            if session is self.session:
                return

    async def _leave(self) -> None:
        """Leave a session on a host: its turns and questions continue there. Stop the turn of one on this machine."""
        if self.opened is not None and self.opened.presence is not None:
            with suppress(ProtocolError, ConnectionFailed, TimeoutError):
                async with asyncio.timeout(DETACH_TIMEOUT):
                    await self.opened.agent.request("session/detach", {"sessionId": self.session.id})
        else:
            self.stop()
        task = self._turn_task
        if task is not None and not task.done():
            if self.opened is not None and self.opened.presence is None:
                await asyncio.wait({task}, timeout=STOP_TIMEOUT)
            task.cancel()
            await asyncio.wait({task}, timeout=STOP_TIMEOUT)
        self.turn_started = None

    def close(self) -> None:
        """End it."""
        self.is_over = True
        self._wakeup.set()

    # --- prompts ------------------------------------------------------------------------------------------------

    def send(self, text: str) -> None:
        """Send a prompt, or let it wait until the agent is ready."""
        self.waiting.append(text)
        self._first_prompt = self._first_prompt or " ".join(text.split())[:MAX_TITLE]
        self.view.follow()
        self._wakeup.set()
        self._on_change()

    def take_back(self) -> str | None:
        """Remove the last prompt that waits, and return it."""
        return self.waiting.pop() if self.waiting else None

    async def _wait_for_prompt(self) -> None:
        while not self.waiting and not self.is_over:
            self._wakeup.clear()
            await self._wakeup.wait()

    async def _run_prompts(self, watch: asyncio.Task[None]) -> None:
        while not self.is_over:
            waits = asyncio.create_task(self._wait_for_prompt())
            try:
                await asyncio.wait({waits, watch}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                waits.cancel()
            if self.is_over:
                return
            if watch.done():
                raise self.session.connection.failure or ConnectionFailed("the agent closed the session")
            self._turn_task = asyncio.create_task(self._run_turn(self.waiting.popleft()))
            closing = asyncio.create_task(self._wait_until_over())
            await asyncio.wait({self._turn_task, closing}, return_when=asyncio.FIRST_COMPLETED)
            closing.cancel()
            if self._turn_task.done():
                self._turn_task.result()

    async def _wait_until_over(self) -> None:
        while not self.is_over:
            self._wakeup.clear()
            await self._wakeup.wait()

    async def _run_turn(self, text: str) -> None:
        assert self.opened is not None
        if colon_commands.is_colon_command(text):
            await colon_commands.run_colon_command(self, text)
            return
        self.state, self.turn_started = RUNNING, monotonic()
        try:
            content = build_prompt(
                colon_commands.unescape_prefix(text), self.session.cwd, self.opened.agent.capabilities
            )
            if self.opened.presence is None:
                self.flow.add_prompt(content, "", clock_time())
            else:
                self._sent_prompts.append(content)
            await self._read_turn(content)
        except ProtocolError as error:
            failure = as_agent_exit(error)
            self._show_note(self.permission_ui.redact(error_text(failure)), "red")
            if failure is not error:
                self._show_note(texts.START_AGAIN, "dim")
        finally:
            self._sent_prompts.clear()
            self.flow.end_turn(self.session.tool_calls)
            self.turn_started = None
            if self.state == RUNNING:
                self.state = READY
            self.on_session()
            self._on_change()

    async def _read_turn(self, content: list[Any]) -> None:
        async with self.session.prompt(content) as turn:
            self.permission_ui.begin_turn(turn)
            try:
                async for _ in turn:
                    pass  # on_update has shown it
            finally:
                self.permission_ui.end_turn()
        reason = turn.stop_reason
        if reason not in (None, "end_turn"):
            self.flow.end_turn(self.session.tool_calls)
            self._show_note(f"the turn ended: {peer_line(str(reason)).replace('_', ' ')}", "yellow")

    def _begin_own_turn(self) -> None:
        """Show our prompt where its turn begins: turns of other members may have come before."""
        if self._sent_prompts:
            presence = self.opened.presence if self.opened is not None else None
            user = presence.user if presence is not None else ""
            self.flow.add_prompt(self._sent_prompts.popleft(), user, clock_time())
            self._on_change()

    def stop(self) -> bool:
        """Stop the turn; return whether there was one."""
        if self.opened is None or not self.is_running or self.state == ENDED:
            return False
        turn = self.session.turn
        if turn is not None and not turn.is_over:
            turn.cancel()
        else:
            self.session.cancel()
        self.prompter.close_question()
        return True

    def notify_typing(self, text: str) -> None:
        """Tell the other members whether the user is typing."""
        presence = self.opened.presence if self.opened is not None else None
        state = "typing" if text.strip() else "here"
        if presence is not None and self.opened is not None and state != presence.own_state and self.state != ENDED:
            presence.own_state = state
            self.opened.agent.notify("_dragoman/presence", {"sessionId": self.session.id, "state": state})

    async def load_earlier(self) -> bool:
        """Load an earlier part of the transcript; return whether there was one."""
        if self.opened is None or not self.opened.history_start:
            return False
        lines = await self.opened.read_earlier_history()
        self.flow.prepend_history(lines)
        self._on_change()
        return True

    # --- for colon commands -------------------------------------------------------------------------------------

    @property
    def folded_result(self) -> list[StyledLine]:
        """Nothing: every card can be opened."""
        return []

    @property
    def provides_workspace(self) -> bool:
        """Whether a folder of this machine is offered to an agent on a host."""
        return self.options.lend is not None

    def show_line(self, text: str, style: str = "dim") -> None:
        """Show one line."""
        self._show_note(peer_line(text), style)

    def show_lines(self, lines: Iterable[StyledLine], *, wraps: bool = True) -> None:
        """Show several lines."""
        for line in lines:
            self._show_note(line.text, line.style)

    def expect_mode(self, name: str) -> None:
        """Do nothing: the transcript shows what the agent reports."""

    def members_text(self) -> str:
        """Return the members of a session on a host; empty elsewhere."""
        presence = self.opened.presence if self.opened is not None else None
        return presence.members_text() if presence is not None else ""

    async def start_new_session(self) -> None:
        """Continue in a new session; on a host, leave the current one."""
        assert self.opened is not None
        previous, opened = self.session, self.opened
        session = await opened.open_new_session()
        opened.history, opened.history_start = [], 0
        self._enter(opened, session)
        self.flow.blocks.clear()
        if opened.presence is not None:
            opened.presence.enter_session(session.id)
            await opened.agent.request("session/detach", {"sessionId": previous.id})

    @property
    def folder_path(self) -> str:
        """The folder of the session."""
        return self.opened.cwd if self.opened is not None else self.options.cwd

    @property
    def folder(self) -> str:
        """The folder of the session, with ~ for the home folder."""
        cwd, home = self.folder_path, os.path.expanduser("~")
        return peer_line(f"~{cwd[len(home) :]}" if cwd == home or cwd.startswith(f"{home}/") else cwd)
