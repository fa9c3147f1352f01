"""Asking the person at the terminal: a question on lines of its own, answered with one key.

Takes lines and choices, gives the choice, or None when there is no answer (end of input, or the question was
dismissed). What was typed before the question stood there does not answer it, nor does a key out of a whole word.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from typing import NamedTuple

from dragoman.cli.ui.terminal import MARK, Line, Sheet, single

# One read takes a whole line of a terminal: the kernel keeps no longer ones.
_LINE = 4096

# What Ctrl-D sends where lines are not waited for.
END = b"\x04"


class Choice(NamedTuple):
    """One answer: the key to type, what it means in our words, and what the peer calls it."""

    key: str
    meaning: str
    value: str
    name: str = ""


class Person:
    """Somebody who sees a sheet and types on a terminal."""

    def __init__(self, sheet: Sheet, fd: int) -> None:
        self._sheet = sheet
        self._fd = fd
        self._typed: asyncio.Future[bytes] | None = None
        self.on_end: Callable[[], None] | None = None  # who leaves leaves the question open; else it has no answer
        self._ahead = bytearray()  # what is typed while nobody asks
        self._listens = False
        self._standing = ""  # the line at which a question waits for a key

    async def choose(self, question: Sequence[Line], choices: Sequence[Choice]) -> str | None:
        """Ask until one of the choices is typed."""
        width = self._sheet.width - 24
        shown = [Line(_option(choice, width)) for choice in choices]
        self._sheet.gap()
        self._sheet.mark([*question, *shown])
        self._forget_typed()
        keys = "/".join(choice.key for choice in choices)
        with key_by_key(self._fd):
            while True:
                self._standing = f"{MARK} {keys}? "
                try:
                    typed = await self._take(self._standing, "ask")
                except asyncio.CancelledError:
                    self._sheet.line("")  # taken back, as when somebody else answered: what comes next stands below it
                    raise
                finally:
                    self._standing = ""
                if typed in (b"", END):
                    self._sheet.line("")
                    self._sheet.mark([Line("no answer", "dim")])
                    return None
                answer = typed.decode("utf-8", "replace").strip().lower()
                for choice in choices:
                    if answer == choice.key:
                        self._sheet.line(answer)
                        return choice.value
                self._sheet.unprompt()  # it is asked again on the same line

    def interject(self, text: str, style: str) -> bool:
        """Say something above the line at which a question waits for a key; whether one does."""
        if not self._standing:
            return False
        self._sheet.unprompt()
        self._sheet.line(text, style)
        self._sheet.prompt(self._standing, "ask")
        return True

    async def read(self, prompt: str, style: str = "ask") -> str | None:
        """One line that the person types; None at the end of input, or when dismissed."""
        with line_by_line(self._fd):
            data = await self._take(prompt, style)
        if data.endswith(b"\n"):
            return data[:-1].decode("utf-8", "replace")
        self._sheet.line("")  # no Enter ended the line
        return None if not data else data.decode("utf-8", "replace")

    async def _take(self, prompt: str, style: str) -> bytes:
        loop = asyncio.get_running_loop()
        self._sheet.prompt(prompt, style)
        typed: asyncio.Future[bytes] = loop.create_future()
        before, self._typed = self._typed, typed  # a question can come while a line is being read
        loop.add_reader(self._fd, self._readable)
        try:
            return await typed
        finally:
            self._typed = before
            if before is None and not self._listens:
                loop.remove_reader(self._fd)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear the keys also while nothing is asked, as while an agent works: who leaves need not wait."""
        loop = asyncio.get_running_loop()
        self._listens = True
        loop.add_reader(self._fd, self._readable)
        try:
            yield
        finally:
            self._listens = False
            loop.remove_reader(self._fd)

    def ahead(self) -> bytes:
        """What was typed while nobody asked; it is given once."""
        typed, self._ahead = bytes(self._ahead), bytearray()
        return typed

    @asynccontextmanager
    async def attention(self) -> AsyncIterator[None]:
        """Have the terminal for several questions in a row."""
        yield

    def dismiss(self) -> None:
        """Close the open question, if there is one, without an answer."""
        self._answer(b"")

    def _readable(self) -> None:
        try:
            data = os.read(self._fd, _LINE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # the terminal was closed
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._fd)  # it would tell of its end for ever
        if self.on_end is not None and (not data or END in data):
            self.on_end()
        elif self._typed is None:
            self._ahead += data
        else:
            self._answer(data)

    def _answer(self, data: bytes) -> None:
        if self._typed is not None and not self._typed.done():
            self._typed.set_result(data)

    def _forget_typed(self) -> None:
        import termios

        try:
            termios.tcflush(self._fd, termios.TCIFLUSH)
        except termios.error:
            pass  # closed meanwhile: reading will tell


def key_by_key(fd: int) -> AbstractContextManager[None]:
    """A terminal that gives every key as it is, at once, and shows none of them; Ctrl-C stays what it is."""
    return _waiting(fd, for_lines=False)


def line_by_line(fd: int) -> AbstractContextManager[None]:
    """A terminal that gives whole lines and shows what is typed."""
    return _waiting(fd, for_lines=True)


@contextmanager
def _waiting(fd: int, *, for_lines: bool) -> Iterator[None]:
    import termios

    try:
        before = termios.tcgetattr(fd)
    except termios.error:
        yield  # closed meanwhile: reading will tell
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


def somebody(sheet: Sheet) -> Person | None:
    """The person in front of this sheet; None when it is no terminal or nothing can be typed."""
    if not sheet.is_tty:
        return None
    if sys.stdin is not None and sys.stdin.isatty():
        return Person(sheet, sys.stdin.fileno())
    try:  # the prompt came through a pipe; the person is still there
        return Person(sheet, os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return None


def _option(choice: Choice, width: int) -> str:
    name = single(choice.name)
    if not name or name.lower() == choice.meaning.lower():
        return f"  {choice.key}  {choice.meaning}"
    return f"  {choice.key}  {choice.meaning} ({name[:width]})"
