"""The window: tabs, modes, the prompt_toolkit application, and its life from the first frame to the last."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Any

from prompt_toolkit.application import in_terminal
from prompt_toolkit.buffer import Buffer

from dragoman.cli import exit_codes
from dragoman.cli.chat.line_editor import InputHistory
from dragoman.cli.connect.options import SessionOptions
from dragoman.config.paths import user_paths
from dragoman.roles.client.follow import Location
from dragoman.tui import texts
from dragoman.tui.actions import Actions
from dragoman.tui.composer import candidates, create_composer
from dragoman.tui.flow.message import MessageText
from dragoman.tui.flow.parts import PictureBlock
from dragoman.tui.flow.view import Position, VisibleRow
from dragoman.tui.follow import FilePane
from dragoman.tui.images.protocol import find_protocol
from dragoman.tui.keys import ASK, BROWSE, COPY, FIND, PAGE, PICK, TEXT, WRITE
from dragoman.tui.layout import WindowLayout
from dragoman.tui.mouse import MouseActions
from dragoman.tui.overlays import Page, Picker
from dragoman.tui.session_list import ListedSession, SessionList
from dragoman.tui.tab.question import ARM_DELAY, Question
from dragoman.tui.tab.tab import STARTING, Tab
from dragoman.tui.themes import create_style

# Updates within this time are drawn together: eyes see no more, and a frame costs some milliseconds. Seconds.
FRAME_INTERVAL = 0.06

# While an agent works, the clock and the output of commands are drawn this often. Seconds.
TICK = 0.25

# Closing everything may take this long: agents are asked to end, then ended. Seconds.
CLOSE_TIMEOUT = 8.0

# A lone Esc is known as such after this time: longer than the bytes of one key take to arrive. Seconds.
ESCAPE_TIMEOUT = 0.08


class TuiApp:
    """The window of one user."""

    def __init__(
        self, options: SessionOptions, *, theme: str, hints: Sequence[str] = (), input: Any = None, output: Any = None
    ) -> None:
        self.theme = theme
        self.tabs: list[Tab] = []
        self.overlay: Picker | Page | None = None
        self.base_mode = WRITE
        self.shows_panels = True
        self.is_split: bool | None = None  # diffs side by side; None: where there is room
        self.hint = ""
        self.is_finding = False
        self.find_words = ""
        self.marks: tuple[Position | None, Position] | None = None  # copy mode: where marking began, and the cursor
        self.file_pane: FilePane | None = None
        self.follows_agent = False
        self.images = find_protocol()
        self.visible: list[VisibleRow] = []
        self.is_quitting = False
        self.exit_code = exit_codes.OK
        self._active = 0
        self.options = options
        self._hints = hints
        self._last_key = 0.0
        self.key_count = 0  # keys so far
        self._is_key_for_question = False  # of the key that is being handled
        self.holds_question = False  # Tab went to the question
        self.leaves_question = False  # Tab left it
        self._frame: asyncio.TimerHandle | None = None
        self._tasks: dict[Tab, asyncio.Task[None]] = {}
        self._background: set[asyncio.Task[Any]] = set()
        own_history = os.path.join(options.cwd or ".", ".history")
        self.history = InputHistory(user_paths().history if options.uses_user_files else own_history)
        self.session_list = SessionList(options, self.request_frame)
        self.actions = Actions(self)
        self._mouse = MouseActions(self)
        self.on_tab_click = self._mouse.on_tab
        self.on_panel_click = self._mouse.on_panel
        self.on_transcript_mouse = self._mouse.on_transcript
        self.on_overlay_mouse = self._mouse.on_overlay
        self.on_question_mouse = self._mouse.on_question
        self.composer = create_composer(self.history, self._candidates, self._on_composer_change)
        self.answer_line = Buffer(multiline=False)
        self._layout = WindowLayout(self, input, output)
        self._application = self._layout.application

    # --- state --------------------------------------------------------------------------------------------------

    @property
    def tab(self) -> Tab | None:
        """The tab that is shown; None before the first one."""
        return self.tabs[min(self._active, len(self.tabs) - 1)] if self.tabs else None

    @property
    def shown_tab(self) -> Tab:
        """The tab that is shown; keys and mouse come only while there is one."""
        assert self.tab is not None
        return self.tab

    @property
    def mode(self) -> str:
        """What the keys act on."""
        if self.overlay is not None:
            return PICK if isinstance(self.overlay, Picker) else PAGE
        if self.is_finding:
            return FIND
        if self.base_mode == WRITE and (question := self.question) is not None:
            if question.is_text and not self.leaves_question:
                return TEXT
            if self._is_key_for_question:
                return ASK
        return self.base_mode

    @property
    def is_browsing(self) -> bool:
        """Whether the keys act on the transcript."""
        return self.base_mode in (BROWSE, COPY)

    @property
    def question(self) -> Question | None:
        """The question of the tab that is shown."""
        return self.tab.prompter.current if self.tab is not None else None

    @property
    def is_question_focused(self) -> bool:
        """Whether the next key answers the question."""
        question = self.question
        if question is None or self.base_mode != WRITE or question.is_text:
            return False
        return question.is_armed(self._last_key) and self._may_answer

    @property
    def _may_answer(self) -> bool:
        """Whether keys are for the question: not while something is written, unless Tab went there."""
        return self.holds_question or (not self.composer.text and not self.leaves_question)

    @property
    def window_size(self) -> Any:
        """The rows and columns of the terminal."""
        return self._application.output.get_size()

    @property
    def window_rows(self) -> int:
        """The rows of the terminal."""
        return int(self.window_size.rows)

    @property
    def status_keys(self) -> set[str]:
        """The keys that the status line names."""
        if self.overlay is not None or self.is_browsing:
            return {"back", "help"}
        is_running = self.tab is not None and self.tab.is_running
        is_writing = bool(self.composer.text) or self.mode == TEXT
        return {"stop" if is_running else "browse", "editor", "all"} | (set() if is_writing else {"help"})

    def show_hint(self, text: str) -> None:
        """Show a text in the status line until the next key."""
        self.hint = text
        self.request_frame()

    # --- tabs ---------------------------------------------------------------------------------------------------

    def open_tab(self, options: SessionOptions, hints: Iterable[str] = ()) -> Tab:
        """Open a session in a new tab, and show it."""
        tab = Tab(options, on_change=self.request_frame, suspend=self.suspend_screen, hints=hints)
        tab.on_session = self.session_list.refresh
        tab.on_location = lambda location: self._on_location(tab, location)
        tab.on_unsent = lambda text: self._return_prompt(tab, text)
        self.tabs.append(tab)
        self._tasks[tab] = asyncio.create_task(self._run_tab(tab))
        self.show_tab(len(self.tabs) - 1)
        return tab

    async def _run_tab(self, tab: Tab) -> None:
        try:
            await tab.run()
        finally:
            index, is_shown = self.tabs.index(tab), tab is self.tab
            del self.tabs[index]
            self._tasks.pop(tab, None)
            self.session_list.refresh()
            if not self.tabs:
                self._exit()
            elif is_shown:
                self._active = -1
                self.show_tab(min(index, len(self.tabs) - 1))
            elif index < self._active:
                self._active -= 1

    def close_tab(self, tab: Tab) -> None:
        """Close a tab; one whose agent still starts, at once."""
        tab.close()
        if tab.state == STARTING:
            self._tasks[tab].cancel()

    def show_tab(self, index: int) -> None:
        """Show another tab, with what was being written there."""
        if not 0 <= index < len(self.tabs):
            return
        if self._active >= 0 and self.tab is not None:
            if self.question is not None:
                self.question.note_hidden()
            self.tab.draft = self.composer.text
        self._active = index
        self.shown_tab.is_unread = False
        self.base_mode, self.marks, self.holds_question, self.leaves_question = WRITE, None, False, False
        self.overlay = None
        self.composer.set_document(_document(self.shown_tab.draft))
        self.request_frame()

    def find_tab(self, listed: ListedSession) -> int | None:
        """Return the tab that shows a session."""
        from dragoman.tui.panels import session_key

        return next((at for at, tab in enumerate(self.tabs) if session_key(tab) == listed.key), None)

    def open_listed(self, listed: ListedSession) -> None:
        """Show a session: its tab, or a new one."""
        known = self.find_tab(listed)
        if known is not None:
            self.show_tab(known)
        elif (options := self.session_list.options_for(listed)) is not None:
            self.open_tab(options)
        else:
            self.show_hint(texts.NO_AGENT)

    def _on_location(self, tab: Tab, location: Location) -> None:
        if self.follows_agent and tab is self.tab:
            self.file_pane = FilePane(location.path, location.line or 1)
            self.request_frame()

    # --- frames -------------------------------------------------------------------------------------------------

    def request_frame(self) -> None:
        """Draw soon; many requests make one frame."""
        if self._frame is None and not self.is_quitting:
            with suppress(RuntimeError):  # no loop yet
                self._frame = asyncio.get_running_loop().call_later(FRAME_INTERVAL, self._draw)

    def _draw(self) -> None:
        self._frame = None
        self._update_focus()
        self._application.invalidate()
        tab = self.tab
        if tab is not None:
            tab.is_unread = False
            last = tab.flow.blocks[-1].content if tab.flow.blocks else None
            if isinstance(last, MessageText) and last.is_waiting:
                asyncio.get_running_loop().call_later(TICK, self._flush_message, last, last.version)

    def _flush_message(self, message: MessageText, version: int) -> None:
        """Show text that was held back because its word may go on, if nothing followed."""
        if message.is_waiting and message.version == version:
            message.flush()
            self.request_frame()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            if any(tab.is_running or tab.progress for tab in self.tabs):
                self.request_frame()
            if self.tab is not None and self.tab.view.is_at_start and not self.tab.view.follows:
                await self.tab.load_earlier()

    def note_visible(self, visible: list[VisibleRow]) -> None:
        """Note what is on the screen; give pictures on it to the terminal."""
        self.visible = visible
        if self.images.is_inline and self.tab is not None:
            for at in {each.block for each in visible}:
                content = self.tab.flow.blocks[at].content
                if isinstance(content, PictureBlock) and content.picture.is_showable and not content.picture.is_sent:
                    content.picture.is_sent = True
                    columns, lines = self.tab.view.options.image_cells
                    width = min(columns, self.tab.view.options.width - 2)
                    self._application.output.write_raw(content.picture.kitty_transfer(width, lines))

    def note_question_drawn(self, question: Question) -> None:
        """Note that a question is on the screen; it can be answered some time later."""
        if question.note_drawn():
            asyncio.get_running_loop().call_later(ARM_DELAY + 0.02, self.request_frame)

    # --- keys ---------------------------------------------------------------------------------------------------

    def before_key(self, processor: Any) -> None:
        """Decide, before a key is handled, whether it is for the question."""
        self.key_count += 1
        question = self.question
        # A key that came together with others is part of a word, or of a text that was pasted.
        is_alone = not processor.input_queue
        self._is_key_for_question = (
            question is not None and is_alone and self._may_answer and question.is_armed(self._last_key)
        )
        if not self._is_key_for_question:
            self._last_key = monotonic()
            if question is not None:
                asyncio.get_running_loop().call_later(ARM_DELAY + 0.02, self.request_frame)

    def after_key(self, _: Any) -> None:
        """Note that a key was handled."""
        self._is_key_for_question = False

    def note_answered(self) -> None:
        """Note that a question was answered: the next one needs a key of its own."""
        self._last_key = monotonic()
        self.holds_question = False

    def is_answer_settled(self) -> bool:
        """Return whether Enter may send the line that answers a question."""
        return self.question is not None and self.question.is_armed(0.0)

    def paste(self, text: str) -> None:
        """Add pasted text to the prompt; it never answers a question."""
        pasted = text.replace("\r\n", "\n").replace("\r", "\n")
        document = self.composer.document
        before = document.text_before_cursor + pasted
        self.composer.set_document(_document(before + document.text_after_cursor, len(before)))
        self.request_frame()

    def write_prompt(self, text: str) -> None:
        """Put a text on the prompt line."""
        self.actions.write()
        self.composer.set_document(_document(text))
        self.request_frame()

    def _return_prompt(self, tab: Tab, text: str) -> None:
        """Put a prompt that could not be sent back before what is being written in its tab."""
        tab.draft = "\n".join(filter(None, (text, self.composer.text if tab is self.tab else tab.draft)))
        if tab is self.tab:
            self.composer.set_document(_document(tab.draft))

    def _candidates(self, text: str) -> Any:
        return candidates(self.tab, text) if self.tab is not None else []

    def _on_composer_change(self, text: str) -> None:
        if self.tab is not None:
            self.tab.notify_typing(text)

    def _update_focus(self) -> None:
        question = self.question
        is_text = question is not None and question.is_text and self.mode == TEXT
        if is_text and question is not None:
            question.note_drawn()
        wanted = self._layout.answer_window if is_text else self._layout.composer_window
        if self._application.layout.current_window is not wanted:
            self._application.layout.focus(wanted)

    # --- the terminal -------------------------------------------------------------------------------------------

    def set_theme(self, theme: str) -> None:
        """Change the colors."""
        self.theme = theme
        self._application.style = create_style(theme)
        self._application.renderer.style = self._application._merged_style
        self.request_frame()

    def copy(self, text: str) -> None:
        """Copy a text to the clipboard of the terminal, also through a multiplexer and over SSH (OSC 52)."""
        from base64 import b64encode

        data = b64encode(text.encode()).decode()
        self._application.output.write_raw(f"\x1b]52;c;{data}\x07")
        self._application.output.flush()

    def redraw(self) -> None:
        """Draw everything again."""
        self._application.renderer.clear()
        self.request_frame()

    @asynccontextmanager
    async def suspend_screen(self) -> AsyncIterator[None]:
        """Leave the terminal to another program, then draw everything again."""
        async with in_terminal():
            yield

    def suspend_to_shell(self) -> None:
        """Stop like every program does at Ctrl-Z."""
        self._application.suspend_to_background()

    def run_in_background(self, work: Any) -> None:
        """Run an action that takes longer than a key press."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._on_background_end)

    def _on_background_end(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.show_hint(str(error))

    # --- life ---------------------------------------------------------------------------------------------------

    async def run(self) -> int:
        """Show the window until the user quits; then close every session."""
        loop = asyncio.get_running_loop()
        for name in ("SIGTERM", "SIGHUP"):
            with suppress(NotImplementedError, ValueError, RuntimeError):
                loop.add_signal_handler(getattr(signal, name), self._on_end_signal, name)
        self.open_tab(self.options, self._hints)
        background = [asyncio.create_task(self.session_list.run()), asyncio.create_task(self._tick())]
        try:
            with suppress(EOFError, OSError):  # the terminal was closed
                if not self.is_quitting:
                    await self._application.run_async()
        finally:
            self.is_quitting = True
            for task in (*background, *self._background):
                task.cancel()
            await self._close_tabs()
        return self.exit_code

    def _on_end_signal(self, name: str) -> None:
        self.exit_code = exit_codes.INTERRUPTED if name == "SIGTERM" else exit_codes.OK
        self._exit()

    def quit(self) -> None:
        """End: turns on a host continue, agents of this machine end."""
        self._exit()

    def _exit(self) -> None:
        self.is_quitting = True
        with suppress(Exception):  # it may have ended already
            self._application.exit(result=0)

    async def _close_tabs(self) -> None:
        tasks = list(self._tasks.values())
        for tab in list(self.tabs):
            self.close_tab(tab)
        if tasks:
            _, pending = await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT)
            for task in pending:
                task.cancel()
            await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT)


def _document(text: str, cursor: int | None = None) -> Any:
    from prompt_toolkit.document import Document

    return Document(text, len(text) if cursor is None else cursor)
