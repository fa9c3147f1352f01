"""The line on which a person writes in a conversation: editing, history, completion, several lines, a status below.

Needs prompt_toolkit (the extra `tui`); `plain` reads lines as the terminal gives them and needs nothing. Both have
`read`, and `aside` for whatever has to be said while the person writes. Knows nothing of agents.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, Protocol

from dragoman.cli.chat.completer import Candidate
from dragoman.cli.chat.history import InputHistory
from dragoman.cli.ui.key_prompt import KeyChoice, Prompter, raw_key_mode
from dragoman.cli.ui.terminal import OutputStream, StyledLine, sanitize

PROMPT = "› "
INSTALL_HINT = "for editing, history and completion: pip install 'dragoman[tui]'"

# A key that is no character, such as an arrow, or one with Alt.
_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|.)?", re.S)

Complete = Callable[[str], Iterable[Candidate]]


class LineReader(Protocol):
    """Reads what a person writes; `hint` says what it can do, `takes_keys` that it wants them one by one."""

    hint: str
    needs_raw_keys: bool

    async def read(self, initial_text: str = "") -> str | None:
        """One text, beginning with what was typed before; None when the person wants to leave."""

    def suspend(self) -> AbstractAsyncContextManager[None]:
        """Something is to be written now: the line is taken away and comes back."""


class PlainLineReader:
    """Lines as the terminal gives them."""

    hint = "Say something; "
    needs_raw_keys = False

    def __init__(self, prompter: Prompter, output: OutputStream, history: InputHistory) -> None:
        self._prompter = prompter
        self._output = output
        self._history = history
        self._is_reading = False

    async def read(self, initial_text: str = "") -> str | None:
        """One line; a backslash at its end goes on with the next."""
        lines: list[str] = []
        while True:
            self._is_reading = True
            try:
                line = await self._prompter.read(PROMPT if not lines else "… ", "bold")
            finally:
                self._is_reading = False
            if line is None:
                return None
            lines.append(line.removesuffix("\\"))
            if not line.endswith("\\"):
                text = "\n".join(lines)
                self._history.add(text)
                return text

    @asynccontextmanager
    async def suspend(self) -> AsyncIterator[None]:
        """Take the prompt away, and ask again."""
        was_reading = self._is_reading
        if was_reading:
            self._output.clear_prompt()
        yield
        if was_reading and self._is_reading:
            self._output.ensure_blank_line()
            self._output.show_prompt(PROMPT, "bold")


def create_line_reader(
    prompter: Prompter,
    output: OutputStream,
    history: InputHistory,
    complete: Complete,
    status: Callable[[], str],
    environ: Mapping[str, str] = os.environ,
) -> tuple[LineReader, str]:
    """The best reader there is, and what could be installed for a better one."""
    if environ.get("TERM", "dumb") == "dumb":  # one that cannot move its cursor
        return PlainLineReader(prompter, output, history), ""
    try:
        return LineEditor(history, complete, status), ""
    except ImportError:
        return PlainLineReader(prompter, output, history), INSTALL_HINT


class LineEditor:
    """A line editor; raises ImportError where prompt_toolkit is not installed."""

    hint = "Tab completes /commands and @files; "
    needs_raw_keys = True

    def __init__(
        self,
        history: InputHistory,
        complete: Complete,
        status: Callable[[], str],
        *,
        input: Any = None,
        output: Any = None,
    ) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import Completer, Completion
        from prompt_toolkit.history import InMemoryHistory
        from prompt_toolkit.styles import Style

        class FromCandidates(Completer):
            def get_completions(self, document: Any, complete_event: Any) -> Iterable[Completion]:
                for text, replaces, about in complete(document.text_before_cursor):
                    yield Completion(text, -replaces, display=text.strip(), display_meta=about)

        self._history = history
        self._status = status
        self._hint = ""
        self._suspensions: set[asyncio.Task[None]] = set()  # those for whom the line is away, or will be
        self.on_change: Callable[[str], None] = lambda _: None  # hears what stands on the line
        self._session: PromptSession[str | None] = PromptSession(
            [("class:prompt", PROMPT)],
            multiline=True,  # a paste of several lines is one text; Enter sends, see the keys
            prompt_continuation=lambda width, number, wraps: [("class:prompt", "  " if wraps else "… ")],
            history=InMemoryHistory(history.texts()),
            completer=FromCandidates(),
            complete_while_typing=False,
            key_bindings=self._key_bindings(),
            bottom_toolbar=lambda: [("", self._hint or self._status())],
            style=Style.from_dict(
                {"prompt": "bold", "bottom-toolbar": "noreverse ansibrightblack", "bottom-toolbar.text": ""}
            ),
            reserve_space_for_menu=6,
            input=input,
            output=output,
        )
        self._session.default_buffer.on_text_changed += lambda buffer: self.on_change(buffer.text)

    async def read(self, initial_text: str = "") -> str | None:
        """One text; None when the person wants to leave."""
        self._hint = ""
        try:
            # Ctrl-C is a key here and a signal while a turn runs, which is not prompt_toolkit's.
            text = await self._session.prompt_async(default=initial_text, handle_sigint=False)
        except EOFError:
            return None
        if text is not None:
            self._history.add(text)
        return text

    @asynccontextmanager
    async def suspend(self) -> AsyncIterator[None]:
        """Take the line away, and bring it back."""
        if not self._session.app.is_running:
            yield
            return
        is_away, is_done = asyncio.Event(), asyncio.Event()
        # In a task of its own, which nobody cancels: who gives up waiting for the line would leave prompt_toolkit
        # waiting for them, and so everybody after them.
        stepping = asyncio.create_task(self._suspend_until_done(is_away, is_done))
        self._suspensions.add(stepping)
        stepping.add_done_callback(self._suspensions.discard)
        try:
            await is_away.wait()
            yield
        finally:
            is_done.set()
            if is_away.is_set():
                await asyncio.wait({stepping})

    async def _suspend_until_done(self, is_suspended: asyncio.Event, is_done: asyncio.Event) -> None:
        from prompt_toolkit.application import in_terminal
        from prompt_toolkit.application.current import set_app

        app = self._session.app
        try:
            with set_app(app):
                async with in_terminal():
                    with raw_key_mode(app.input.fileno()):  # an Enter that is typed now is one when the line is back
                        is_suspended.set()
                        await is_done.wait()
        finally:
            is_suspended.set()  # what went wrong here is no reason to wait

    def refresh(self) -> None:
        """Draw the status line anew; while something is said above, that is done after it anyway."""
        if self._session.app.is_running and not self._suspensions:
            self._session.app.invalidate()

    def _key_bindings(self) -> Any:
        from prompt_toolkit.filters import completion_is_selected
        from prompt_toolkit.key_binding import KeyBindings

        keys = KeyBindings()

        @keys.add("enter", filter=completion_is_selected)
        def _take(event: Any) -> None:
            event.current_buffer.complete_state = None

        @keys.add("enter", filter=~completion_is_selected)
        def _send(event: Any) -> None:
            buffer = event.current_buffer
            if buffer.document.char_before_cursor == "\\" and not buffer.document.text_after_cursor:
                buffer.delete_before_cursor()
                buffer.insert_text("\n")
            elif buffer.text.strip():
                buffer.validate_and_handle()

        @keys.add("escape", "enter")
        @keys.add("c-j")
        def _next_line(event: Any) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        def _clear(event: Any) -> None:
            if event.current_buffer.text:
                event.current_buffer.reset()
                self._hint = ""
            elif self._hint:
                event.app.exit(result=None)
            else:
                self._hint = "Ctrl-C again, or Ctrl-D, leaves"

        return keys


def type_ahead_text(data: bytes) -> str:
    """What was typed while nobody read, as text to go on with: no keys that do things, and nothing that acts."""
    text = ""
    for character in _ESCAPE_SEQUENCE.sub("", data.decode("utf-8", "ignore").replace("\r", "\n")):
        if character in "\x7f\x08":
            text = text[:-1]
        elif character == "\n" or (character.isprintable() and sanitize(character) == character):
            text += character
    return text.strip("\n")


class InterruptiblePrompter(Prompter):
    """Somebody who may be writing when a question comes."""

    line_reader: LineReader | None = None

    def __init__(self, output: OutputStream, fd: int) -> None:
        super().__init__(output, fd)
        self._free = asyncio.Event()  # not while something is asked
        self._free.set()

    async def choose(self, question: Sequence[StyledLine], choices: Sequence[KeyChoice]) -> str | None:
        """Ask; the line on which the person writes is taken away meanwhile."""
        async with self.hold_terminal():
            return await super().choose(question, choices)

    @asynccontextmanager
    async def hold_terminal(self) -> AsyncIterator[None]:
        """Have the terminal; the line on which the person writes is taken away meanwhile."""
        if not self._free.is_set():
            yield
            return
        async with nullcontext() if self.line_reader is None else self.line_reader.suspend():
            self._free.clear()
            try:
                yield
            finally:
                self._free.set()

    async def wait_until_free(self) -> None:
        """Wait until nothing is asked: the keys would go to the line that begins now, and not to the question."""
        while not self._free.is_set():
            await self._free.wait()
