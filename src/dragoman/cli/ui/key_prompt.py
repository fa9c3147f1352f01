"""Questions to the user on the terminal, answered with one key.

Takes lines and choices, returns the choice, or None when there is no answer (end of input, or the question was closed).
Keys typed before the question was shown do not answer it, nor does a key that is part of a longer word.
"""

from __future__ import annotations

import asyncio
import os
import select
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from typing import NamedTuple

from dragoman.cli.ui.terminal import QUESTION_BAR, OutputStream, StyledLine, sanitize_line

# One read returns a whole line of a terminal: the kernel keeps no longer ones.
_READ_SIZE = 4096

# What Ctrl-D sends in raw mode.
EOF_KEY = b"\x04"


class KeyChoice(NamedTuple):
    """One answer: the key, what it means in our words, what the peer calls it, and our words where room is short."""

    key: str
    meaning: str
    value: str
    name: str = ""
    short: str = ""


class TextChange(NamedTuple):
    """A change that a question is about: the file, its text before (None: it did not exist) and after."""

    path: str
    old: str | None
    new: str


QuestionPart = StyledLine | TextChange


class Prompter:
    """Asks the user who sees an output stream and types on a terminal."""

    shows_changes = False  # whether `choose` takes changes too; other prompters get them as lines

    def __init__(self, output: OutputStream, fd: int) -> None:
        self._output = output
        self._fd = fd
        self._input: asyncio.Future[bytes] | None = None
        self.on_eof: Callable[[], None] | None = None  # called on Ctrl-D; without it, Ctrl-D means no answer
        self._type_ahead = bytearray()  # keys typed while no question is open
        self._captures_type_ahead = False
        self._is_released = False  # whether another program has the terminal
        self._question_prompt = ""  # the line at which a question waits for a key

    @property
    def is_asking(self) -> bool:
        """Whether the user is asked, or another program has the terminal."""
        return self._input is not None or self._is_released

    async def choose(self, question: Sequence[QuestionPart], choices: Sequence[KeyChoice]) -> str | None:
        """Ask until the user types one of the choices."""
        shown = [part for part in question if isinstance(part, StyledLine)]
        width = self._output.width - 24
        lines = [StyledLine(_choice_text(choice, width)) for choice in choices]
        self._output.ensure_blank_line()
        rows = self._output.write_question(shown)
        if rows + len(lines) >= self._output.height:  # its beginning is off the screen
            subject = [line for line in shown if line.style == "bold"]
            self._output.write_question([StyledLine("All of this is about:", "ask"), *subject] if subject else ())
        self._output.write_question(lines)
        self._flush_input()
        prompt = f"{QUESTION_BAR} {'/'.join(choice.key for choice in choices)}? "
        word = ""  # letters that are no key, but may become a word, such as "red"
        with raw_key_mode(self._fd):
            while True:
                self._question_prompt = prompt + word
                try:
                    typed = await self._read_input(self._question_prompt, "ask")
                except asyncio.CancelledError:
                    # Withdrawn, for example because another member answered: continue below it.
                    self._output.write_line("")
                    raise
                finally:
                    self._question_prompt = ""
                if typed in (b"", EOF_KEY):
                    self._output.write_line("")
                    self._output.write_question([StyledLine("no answer", "dim")])
                    return None
                text = typed.decode("utf-8", "replace").lower()
                answer = (word + text).strip()
                if found := _find_choice(answer, choices, is_ended=text.endswith(("\r", "\n"))):
                    self._output.write_line(answer)
                    return found.value
                self._output.clear_prompt()  # ask again on the same line
                word = _word_after(word, text, choices)
                if not word:
                    self._output.write_question([StyledLine(f"type {_key_list(choices)}", "yellow")])

    def show_above_question(self, text: str, style: str) -> bool:
        """Write a line above the question that waits for a key. Return False when there is none."""
        if not self._question_prompt:
            return False
        self._output.clear_prompt()
        self._output.write_prose(text, style)
        self._output.show_prompt(self._question_prompt, "ask")
        return True

    @property
    def way_out(self) -> str:
        """How the user leaves a question without an answer."""
        # In a session on a host, Ctrl-D leaves the session, and its questions stay open.
        return "Ctrl-D closes the question" if self.on_eof is None else "Ctrl-C stops the turn"

    async def read(self, prompt: str, style: str = "ask", *, note: str = "") -> str | None:
        """Return the line that the user types; None at the end of input or when the question is closed.

        `note` says what was wrong with the line before.
        """
        if note:
            self._output.write_question([StyledLine(note, "yellow")])
        with line_mode(self._fd):
            data = await self._read_input(prompt, style)
        if data.removesuffix(b"\n") == EOF_KEY:  # typed before the terminal was in line mode, which would end the input
            data = b""
        if data.endswith(b"\n"):
            return data[:-1].decode("utf-8", "replace")
        self._output.write_line("")  # the line was not ended with Enter
        return None if not data else data.decode("utf-8", "replace")

    async def _read_input(self, prompt: str, style: str) -> bytes:
        loop = asyncio.get_running_loop()
        self._output.show_prompt(prompt, style)
        typed: asyncio.Future[bytes] = loop.create_future()
        before, self._input = self._input, typed  # a question can come while a line is being read
        loop.add_reader(self._fd, self._on_readable)
        try:
            return await typed
        finally:
            self._input = before
            if before is None and not self._captures_type_ahead:
                loop.remove_reader(self._fd)

    @contextmanager
    def capture_type_ahead(self) -> Iterator[None]:
        """Read keys also while no question is open, for example while an agent works."""
        loop = asyncio.get_running_loop()
        self._captures_type_ahead = True
        loop.add_reader(self._fd, self._on_readable)
        try:
            yield
        finally:
            self._captures_type_ahead = False
            loop.remove_reader(self._fd)

    @asynccontextmanager
    async def release_terminal(self) -> AsyncIterator[None]:
        """Leave keys and terminal mode to another program, for example to a login of the agent."""
        loop = asyncio.get_running_loop()
        self._is_released = True
        loop.remove_reader(self._fd)
        try:
            with line_mode(self._fd):
                yield
        finally:
            self._is_released = False
            if self._captures_type_ahead:
                loop.add_reader(self._fd, self._on_readable)

    def take_type_ahead(self) -> bytes:
        """Return what was typed while no question was open, once; also keys that are not read yet."""
        typed, self._type_ahead = bytes(self._type_ahead), bytearray()
        while select.select([self._fd], [], [], 0)[0]:
            try:
                more = os.read(self._fd, _READ_SIZE)
            except OSError:  # the terminal was closed
                break
            if not more:
                break
            typed += more
        return typed

    @asynccontextmanager
    async def hold_terminal(self) -> AsyncIterator[None]:
        """Keep the terminal for several questions in a row."""
        yield

    def close_question(self) -> None:
        """Close the open question, if there is one, without an answer."""
        self._resolve_input(b"")

    def _on_readable(self) -> None:
        try:
            data = os.read(self._fd, _READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # the terminal was closed
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._fd)  # it would report its end again and again
        if self.on_eof is not None and (not data or EOF_KEY in data):
            self.on_eof()
        elif self._input is None:
            self._type_ahead += data
        else:
            self._resolve_input(data)

    def _resolve_input(self, data: bytes) -> None:
        if self._input is not None and not self._input.done():
            self._input.set_result(data)

    def _flush_input(self) -> None:
        import termios

        try:
            termios.tcflush(self._fd, termios.TCIFLUSH)
        except termios.error:
            pass  # closed meanwhile: the next read reports it


def raw_key_mode(fd: int) -> AbstractContextManager[None]:
    """Set the terminal to raw mode: every key at once, without echo; Ctrl-C still works."""
    return _terminal_mode(fd, for_lines=False)


def line_mode(fd: int) -> AbstractContextManager[None]:
    """Set the terminal to line mode, with echo."""
    return _terminal_mode(fd, for_lines=True)


@contextmanager
def _terminal_mode(fd: int, *, for_lines: bool) -> Iterator[None]:
    import termios

    try:
        before = termios.tcgetattr(fd)
    except termios.error:
        yield  # closed meanwhile: the next read reports it
        return
    now = termios.tcgetattr(fd)
    for part, flags in ((0, termios.ICRNL), (3, termios.ICANON | termios.ECHO)):
        now[part] = now[part] | flags if for_lines else now[part] & ~flags
    termios.tcsetattr(fd, termios.TCSANOW, now)
    try:
        yield
    finally:
        try:
            termios.tcsetattr(fd, termios.TCSANOW, before)
        except termios.error:
            pass  # closed meanwhile


def find_prompter(output: OutputStream) -> Prompter | None:
    """Return a prompter for the user of this output; None when it is no terminal or nothing can be typed."""
    if not output.is_tty:
        return None
    if sys.stdin is not None and sys.stdin.isatty():
        return Prompter(output, sys.stdin.fileno())
    try:  # the prompt came through a pipe; the user still has a terminal
        return Prompter(output, os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return None


def _find_choice(typed: str, choices: Sequence[KeyChoice], *, is_ended: bool) -> KeyChoice | None:
    """Return the choice with this key or this word. A word that can go on needs Enter."""
    for choice in choices:
        if typed == choice.key:
            return choice
    # Our own words come first: an agent must not call an option that allows "no".
    words = [(word, choice) for choice in choices for word in _own_words(choice)]
    words += [(choice.name.lower(), choice) for choice in choices]
    found = next((choice for word, choice in words if typed and word == typed), None)
    goes_on = any(word.startswith(typed) and word != typed and choice != found for word, choice in words)
    return found if is_ended or not goes_on or typed in ("yes", "no") else None


# What people type out for a key, whatever its meaning is.
_KEY_WORDS = {"y": ["yes"], "n": ["no"]}


def _own_words(choice: KeyChoice) -> list[str]:
    """Return what can be typed out for a choice: its meaning, the first word of it, and yes or no."""
    meaning = choice.meaning.lower()
    return [meaning, meaning.partition(" ")[0].rstrip(","), *_KEY_WORDS.get(choice.key, ())]


def _word_after(word: str, typed: str, choices: Sequence[KeyChoice]) -> str:
    """Return the beginning of a word after more keys; empty if no choice begins so."""
    if typed in ("\x7f", "\x08"):
        return word[:-1]
    started = (word + typed).lstrip()
    known = [each for choice in choices for each in (*_own_words(choice), choice.name.lower())]
    is_word = started.isprintable() and any(each.startswith(started) for each in known)
    return started if is_word else ""


def _key_list(choices: Sequence[KeyChoice]) -> str:
    *first, last = [choice.key for choice in choices]
    return f"{', '.join(first)} or {last}" if first else last


def _choice_text(choice: KeyChoice, width: int) -> str:
    name = sanitize_line(choice.name)
    if not name or name.lower() == choice.meaning.lower():
        return f"  {choice.key}  {choice.meaning}"
    return f"  {choice.key}  {choice.meaning} ({name[:width]})"
