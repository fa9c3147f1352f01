"""The command as users run it: as a process, with pipes or with a terminal."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import chdir, redirect_stderr, redirect_stdout
from fcntl import ioctl
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dragoman.cli.main import main

DRAGOMAN = [sys.executable, "-m", "dragoman"]
EVERYTHING = [*DRAGOMAN, "agent", "everything"]

# Longer than anything takes on a busy machine; a test that waits this long has failed. Seconds.
TIMEOUT = 120.0

_STYLE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def dragoman(*arguments: str, cwd: Path | None = None, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, without a terminal."""
    source = {"stdin": subprocess.DEVNULL} if text is None else {"input": text}
    return subprocess.run([*DRAGOMAN, *arguments], cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT, **source)


def run(prompt: str, *options: str, cwd: Path, agent: list[str] = EVERYTHING) -> subprocess.CompletedProcess[str]:
    """Run `dragoman run` with the everything agent, without a terminal."""
    return dragoman("run", "--prompt", prompt, *options, "--", *agent, cwd=cwd)


def in_process(*arguments: str, cwd: Path | None = None, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command in this process, which is faster; not for tests of terminals, signals or broken pipes."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    piped = None if text is None else io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8")
    before, sys.stdin = sys.stdin, piped
    try:
        with redirect_stdout(out), redirect_stderr(err), chdir(cwd or os.getcwd()):
            try:
                code = main(arguments)
            except SystemExit as exit_error:
                code = int(exit_error.code or 0)
    finally:
        sys.stdin = before
    out.flush()
    return subprocess.CompletedProcess(arguments, code, out.buffer.getvalue().decode(), err.getvalue())


class OnTerminal:
    """The command on a terminal of its own, with a user who reads and types."""

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        columns: int = 100,
        piped: str | None = None,
        program: list[str] | None = None,
    ) -> None:
        self._master, slave = pty.openpty()
        ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        self.raw = ""
        self._process = subprocess.Popen(
            [*(program or DRAGOMAN), *arguments],
            cwd=cwd,
            stdin=slave if piped is None else subprocess.PIPE,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: ioctl(1, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        if piped is not None:
            assert self._process.stdin is not None
            self._process.stdin.write(piped.encode())
            self._process.stdin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._master)

    @property
    def text(self) -> str:
        """The output without styles."""
        return _STYLE.sub("", self.raw).replace("\r\n", "\n")

    def see(self, text: str) -> None:
        """Wait until this text is written, after what was seen before."""
        start = len(self.text)
        self._read_until(lambda: text in self.text[max(0, start - len(text)) :], f"{text!r} to appear")

    def await_text(self, text: str) -> None:
        """Wait until this text is anywhere."""
        self._read_until(lambda: text in self.text, f"{text!r} to appear")

    def await_count(self, text: str, count: int) -> None:
        """Wait until this text is there this many times."""
        self._read_until(lambda: self.text.count(text) >= count, f"{text!r} to appear {count} times")

    def type(self, text: str) -> None:
        """Type something, such as a line and Enter (a carriage return) or Ctrl-C (\\x03)."""
        os.write(self._master, text.encode())

    def hang_up(self) -> None:
        """Close the window, and wait until the command has noticed."""
        os.close(self._master)
        self._process.wait(TIMEOUT)
        self._master = os.open(os.devnull, os.O_RDWR)  # closed at the end

    def end(self) -> int:
        """Wait for the end; return the exit code."""
        self._read_until(lambda: self._process.poll() is not None and not self._more(), "the end")
        return self._process.wait()

    def _more(self) -> bool:
        return bool(select.select([self._master], [], [], 0)[0]) and self._take()

    def _take(self) -> bool:
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other end was closed
            return False
        self.raw += data.decode("utf-8", "replace")
        return bool(data)

    def _read_until(self, reached: object, what: str) -> None:
        assert callable(reached)
        deadline = time.monotonic() + TIMEOUT
        while not reached():
            assert time.monotonic() < deadline, f"waited for {what} without success; the output is:\n{self.text}"
            if select.select([self._master], [], [], 0.05)[0]:
                self._take()


class OnScreen(OnTerminal):
    """The command on a terminal with a screen: the text as a user sees it."""

    def __init__(self, *arguments: str, cwd: Path, columns: int = 80, lines: int = 40) -> None:
        import pyte

        super().__init__(*arguments, cwd=cwd, columns=columns)
        self._screen: Any = pyte.Screen(columns, lines)
        # Queries of the program (where is the cursor?) are answered like a terminal does.
        setattr(self._screen, "write_process_input", self.type)  # noqa: B010  (it is a method to mypy)
        self._stream = pyte.Stream(self._screen)
        self._drawn = 0
        self.resize(columns, lines)

    def resize(self, columns: int, lines: int = 40) -> None:
        """Resize the window."""
        ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self._screen.resize(lines, columns)

    def _take(self) -> bool:
        taken = super()._take()
        drawn, self._drawn = self._drawn, len(self.raw)
        self._stream.feed(self.raw[drawn:])
        return taken

    @property
    def text(self) -> str:
        """The text on the screen, without the empty lines at its end."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def style_of(self, text: str) -> Any:
        """Return how the first character of a text on the screen looks: fg, bold, italics, ..."""
        for row, line in enumerate(self._screen.display):
            if text in line:
                return self._screen.buffer[row][line.index(text)]
        raise AssertionError(f"{text!r} is not on the screen:\n{self.text}")

    def await_line(self, text: str) -> None:
        """Wait until a line of the screen is this."""
        self._read_until(lambda: text in self.text.split("\n"), f"the line {text!r}")

    def await_joined(self, text: str) -> None:
        """Wait until this text is on the screen, also where a full line of the screen breaks it."""
        self._read_until(lambda: text in "".join(self._screen.display), f"{text!r} to appear")

    def await_last(self, text: str) -> None:
        """Wait until the line with the cursor begins with this."""
        self._read_until(
            lambda: self._screen.display[self._screen.cursor.y].startswith(text), f"{text!r} at the cursor"
        )
