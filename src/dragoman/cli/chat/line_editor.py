"""The input line of a chat: editing, history, Tab completion, several lines, a status line below.

LineEditor needs prompt_toolkit (the extra `tui`); PlainLineReader needs nothing. Both have `read`, and `suspend` for
output while the user types."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, NamedTuple, Protocol

from dragoman import ClientSession
from dragoman.cli.connect import settings
from dragoman.cli.connect.local import OpenSession
from dragoman.cli.ui.key_prompt import KeyChoice, Prompter, QuestionPart, raw_key_mode
from dragoman.cli.ui.terminal import OutputStream, sanitize, sanitize_line
from dragoman.config.private_files import file_lock, write_private

PROMPT = "› "

# The history is truncated when it has twice as many texts.
MAX_HISTORY = 1000
INSTALL_HINT = "for editing, history and completion: pip install 'dragoman[tui]'"

# A key that is no character, such as an arrow, or one with Alt.
_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|.)?", re.S)

# In a larger folder the user narrows the list by typing.
MAX_CANDIDATES = 200

_FILE_MENTION = re.compile(r"""(?:(?<=\s)|^)@("?)(?P<path>[^\s"]*|(?<=")[^"\n]*)$""")
_TYPEABLE = re.compile(r"[^\s\x00-\x1f\x7f-\x9f]+")


class Candidate(NamedTuple):
    """A completion: the text, how many characters before the cursor it replaces, and a description."""

    text: str
    replaced_length: int
    description: str = ""


Complete = Callable[[str], Iterable[Candidate]]


class InputHistory:
    """The input history of one user: one JSON text per line, in a file that only its owner can read.

    A text that begins with a space is not kept, as in shells.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def texts(self) -> list[str]:
        """Return the texts, the newest last; skip what cannot be read."""
        try:
            with open(self._path, encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()
        except OSError:
            return []
        texts = []
        for line in lines[-MAX_HISTORY:]:
            try:
                text = json.loads(line)
            except ValueError:
                continue
            if isinstance(text, str):
                texts.append(text)
        return texts

    def add(self, text: str) -> None:
        """Add one text; an error does not interrupt the chat."""
        if not text.strip() or text[0] == " ":
            return
        try:
            with file_lock(self._path):
                self._append(text)
                self._truncate()
        except OSError:
            pass

    def _append(self, text: str) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(self._path, flags, 0o600), "a", encoding="utf-8") as file:
            file.write(json.dumps(text) + "\n")

    def _truncate(self) -> None:
        with open(self._path, "rb") as file:
            lines = file.read().splitlines(keepends=True)
        if len(lines) > 2 * MAX_HISTORY:
            write_private(self._path, b"".join(lines[-MAX_HISTORY:]))


class LineReader(Protocol):
    """Reads what the user types; `hint` says what it can do, `needs_raw_keys` that it needs raw mode."""

    hint: str
    needs_raw_keys: bool

    async def read(self, initial_text: str = "") -> str | None:
        """Return one text, which starts with `initial_text`; None when the user quits."""

    def suspend(self) -> AbstractAsyncContextManager[None]:
        """Remove the input line while something is written, then show it again."""


class PlainLineReader:
    """Reads lines as the terminal delivers them."""

    hint = "Type a prompt; "
    needs_raw_keys = False

    def __init__(self, prompter: Prompter, output: OutputStream, history: InputHistory) -> None:
        self._prompter = prompter
        self._output = output
        self._history = history
        self._is_reading = False
        self._prompt = PROMPT

    async def read(self, initial_text: str = "") -> str | None:
        """Read one line; a backslash at its end continues on the next."""
        lines: list[str] = []
        self._prompt = f"{PROMPT}{initial_text}"
        while True:
            self._is_reading = True
            try:
                line = await self._prompter.read(self._prompt, "bold")
            finally:
                self._is_reading = False
            if line is None:
                return None
            line = line if lines else initial_text + line
            self._prompt = "… "
            lines.append(line.removesuffix("\\"))
            if not line.endswith("\\"):
                text = "\n".join(lines)
                self._history.add(text)
                return text

    @asynccontextmanager
    async def suspend(self) -> AsyncIterator[None]:
        """Remove the prompt, then show it again."""
        was_reading = self._is_reading
        if was_reading:
            self._output.clear_prompt()
        yield
        if was_reading and self._is_reading:
            self._output.ensure_blank_line()
            self._output.show_prompt(self._prompt, "bold")


def create_line_reader(
    prompter: Prompter,
    output: OutputStream,
    history: InputHistory,
    complete: Complete,
    status: Callable[[], str],
    environ: Mapping[str, str] = os.environ,
) -> tuple[LineReader, str]:
    """Return the best reader, and a hint when a better one can be installed."""
    if environ.get("TERM", "dumb") == "dumb":  # cannot move its cursor
        return PlainLineReader(prompter, output, history), ""
    try:
        return LineEditor(history, complete, status), ""
    except ImportError:
        return PlainLineReader(prompter, output, history), INSTALL_HINT


class LineEditor:
    """A line editor; raises ImportError when prompt_toolkit is not installed."""

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

        class CandidateCompleter(Completer):
            def get_completions(self, document: Any, complete_event: Any) -> Iterable[Completion]:
                for text, replaced_length, description in complete(document.text_before_cursor):
                    yield Completion(text, -replaced_length, display=text.strip(), display_meta=description)

        self._history = history
        self._status = status
        self._hint = ""
        self._suspensions: set[asyncio.Task[None]] = set()  # tasks that have suspended the line, or wait to
        self.on_change: Callable[[str], None] = lambda _: None  # called with the text of the line
        self._session: PromptSession[str | None] = PromptSession(
            [("class:prompt", PROMPT)],
            multiline=True,  # a pasted text of several lines is one text; Enter sends, see the key bindings
            prompt_continuation=lambda width, number, wraps: [("class:prompt", "  " if wraps else "… ")],
            history=InMemoryHistory(history.texts()),
            completer=CandidateCompleter(),
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
        """Return one text; None when the user quits."""
        self._hint = ""
        try:
            # Ctrl-C is a key here, and a signal during a turn, which prompt_toolkit must not handle.
            text = await self._session.prompt_async(default=initial_text, handle_sigint=False)
        except EOFError:
            return None
        if text is not None:
            self._history.add(text)
        return text

    @asynccontextmanager
    async def suspend(self) -> AsyncIterator[None]:
        """Remove the line, then show it again."""
        if not self._session.app.is_running:
            yield
            return
        is_suspended, is_done = asyncio.Event(), asyncio.Event()
        # In a task of its own that is never cancelled: a cancelled waiter would leave prompt_toolkit waiting, and block
        # all later ones.
        task = asyncio.create_task(self._suspend_until_done(is_suspended, is_done))
        self._suspensions.add(task)
        task.add_done_callback(self._suspensions.discard)
        try:
            await is_suspended.wait()
            yield
        finally:
            is_done.set()
            if is_suspended.is_set():
                await asyncio.wait({task})

    async def _suspend_until_done(self, is_suspended: asyncio.Event, is_done: asyncio.Event) -> None:
        from prompt_toolkit.application import in_terminal
        from prompt_toolkit.application.current import set_app

        app = self._session.app
        try:
            with set_app(app):
                async with in_terminal():
                    with raw_key_mode(app.input.fileno()):  # Enter must not become Ctrl-J meanwhile
                        is_suspended.set()
                        await is_done.wait()
        finally:
            is_suspended.set()  # after an error, nobody must wait

    def refresh(self) -> None:
        """Redraw the status line; a suspended line is redrawn anyway."""
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
                self._hint = "press Ctrl-C again or Ctrl-D to quit"

        return keys


def type_ahead_text(data: bytes) -> str:
    """Return type-ahead as text, without keys that have an effect."""
    return _typed_text(data).strip("\n")


def type_ahead_lines(data: bytes) -> tuple[list[str], str]:
    """Return type-ahead as the lines that were ended with Enter, and the text after them."""
    *lines, rest = _typed_text(data).split("\n")
    return [line for line in lines if line.strip()], rest


def _typed_text(data: bytes) -> str:
    text = ""
    for character in _ESCAPE_SEQUENCE.sub("", data.decode("utf-8", "ignore").replace("\r", "\n")):
        if character in "\x7f\x08":
            text = text[:-1]
        elif character == "\n" or (character.isprintable() and sanitize(character) == character):
            text += character
    return text


class InterruptiblePrompter(Prompter):
    """A prompter for a user who may be typing when a question comes."""

    line_reader: LineReader | None = None

    def __init__(self, output: OutputStream, fd: int) -> None:
        super().__init__(output, fd)
        self._free = asyncio.Event()  # cleared while a question is open
        self._free.set()

    async def choose(self, question: Sequence[QuestionPart], choices: Sequence[KeyChoice]) -> str | None:
        """Ask, with the input line suspended."""
        async with self.hold_terminal():
            return await super().choose(question, choices)

    @asynccontextmanager
    async def hold_terminal(self) -> AsyncIterator[None]:
        """Hold the terminal, with the input line suspended."""
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
        """Wait until no question is open: otherwise the keys would go to the input line."""
        while not self._free.is_set():
            await self._free.wait()


# --- completion ---------------------------------------------------------------------------------------------


def complete_slash_command(text_before_cursor: str, commands: Iterable[tuple[str, str]]) -> Iterator[Candidate]:
    """Yield the agent's commands, at the beginning of a prompt."""
    if text_before_cursor.startswith("/") and not re.search(r"\s", text_before_cursor):
        for name, description in commands:
            if _TYPEABLE.fullmatch(name) and name.startswith(text_before_cursor[1:]):
                yield Candidate(f"/{name} ", len(text_before_cursor), sanitize_line(description))


def complete_word(text_before_cursor: str, choices: Iterable[tuple[str, str]]) -> Iterator[Candidate]:
    """Yield the choices that match the last word."""
    typed = "" if text_before_cursor[-1:].isspace() else (text_before_cursor.split() or [""])[-1]
    for word, description in choices:
        if _TYPEABLE.fullmatch(word) and word.lower().startswith(typed.lower()):
            yield Candidate(word, len(typed), sanitize_line(description))


def complete_file(text_before_cursor: str, cwd: str) -> Iterator[Candidate]:
    """Yield files and folders after an `@`."""
    mention = _FILE_MENTION.search(text_before_cursor)
    if mention is None:
        return
    typed = mention["path"]
    folder, part = os.path.split(os.path.expanduser(typed) if typed.startswith("~") else typed)
    try:
        with os.scandir(os.path.join(cwd, folder)) as entries:
            listed = sorted(
                (entry for entry in entries if _matches_typed(entry.name, part)),
                key=lambda entry: (not entry.name.startswith(part), not entry.is_dir(), entry.name.lower()),
            )
    except OSError:
        return
    for entry in listed[:MAX_CANDIDATES]:
        path = os.path.join(os.path.split(typed)[0], entry.name)
        is_folder = entry.is_dir()
        quoted = f'"{path}"' if re.search(r"\s", path) else path
        text = f"@{quoted}" if not is_folder else f"@{path}/" if quoted == path else f'@"{path}/'
        yield Candidate(text, len(text_before_cursor) - mention.start(), "folder" if is_folder else "")


def _matches_typed(name: str, typed: str) -> bool:
    """Match any part of a name; hidden files only after a dot; no name that cannot be shown."""
    if name.startswith(".") and not typed.startswith("."):
        return False
    return typed.lower() in name.lower() and sanitize_line(name) == name and '"' not in name


# --- the status line ----------------------------------------------------------------------------------------


def status_text(open_session: OpenSession, session: ClientSession) -> str:
    """Return the status in one line."""
    model = settings.model_option(session)
    mode = next((name for id, name in settings.available_modes(session) if id == session.mode), session.mode)
    policy = open_session.permission_ui.guard.mode(session.id)
    parts = [
        mode or "",
        settings.current_value_text(model) if model is not None else "",
        f"policy: {policy}" if policy != "default" else "",
        usage_text(session),
        session.title or "",
        open_session.presence.status_text if open_session.presence is not None else "",
    ]
    return sanitize_line(" · ".join(part for part in parts if part))


def usage_text(session: ClientSession) -> str:
    """Return how full the context is, and the cost."""
    usage = session.usage
    if usage is None:
        return ""
    cost = f", {usage.cost.amount:.2f} {usage.cost.currency}" if usage.cost else ""
    return f"{_short_number(usage.used)} of {_short_number(usage.size)} tokens{cost}"


def _short_number(number: int) -> str:
    return f"{number / 1000:.1f}k".replace(".0k", "k") if number >= 1000 else str(number)
