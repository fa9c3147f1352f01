"""A pilot for the window: the real program in this process, with keys from a pipe and a screen computed by pyte."""

from __future__ import annotations

import asyncio
import io
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pyte
from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from dragoman.cli.connect.options import SessionOptions
from dragoman.config.config_file import NamedAgent
from dragoman.tui.app import TuiApp

EVERYTHING = NamedAgent(name="everything", command=sys.executable, args=("-m", "dragoman", "agent", "everything"))
SMALL = NamedAgent(
    name="small", command=sys.executable, args=(str(Path(__file__).parents[1] / "cli" / "small_agent.py"),)
)

ENTER, ESC, TAB, UP, DOWN, CTRL_C, CTRL_D = "\r", "\x1b", "\t", "\x1b[A", "\x1b[B", "\x03", "\x04"
PAGE_UP, PAGE_DOWN, ALT_UP = "\x1b[5~", "\x1b[6~", "\x1b[1;3A"

# Longer than anything takes on a busy machine. Seconds.
TIMEOUT = 60.0

# What differs from run to run: times of day, ages and durations.
_VARYING = (
    (re.compile(r"\d\d:\d\d"), "HH:MM"),
    (re.compile(r"[◐◓◑◒●] \d+(?:\.\d)? s"), "S 0 s"),
    (re.compile(r"(?:· )?\d+(?:\.\d)? s\b"), ""),
)


_PICTURES = re.compile(r"\x1b_[^\x1b]*\x1b\\")


class Sink(io.StringIO):
    """Takes what the window writes, and draws it."""

    def __init__(self, screen: Any) -> None:
        super().__init__()
        self.raw = ""
        self._stream = pyte.Stream(screen)

    def write(self, text: str) -> int:
        """Draw a part of the output."""
        self.raw += text
        self._stream.feed(_PICTURES.sub("", text))  # pyte would print them
        return len(text)

    def isatty(self) -> bool:
        """Return True: colors are wanted."""
        return True


class Window:
    """The window of a user who reads and types."""

    def __init__(self, app: TuiApp, screen: Any, sink: Sink, pipe: Any, size: list[int]) -> None:
        self.app = app
        self.sink = sink
        self._screen = screen
        self._pipe = pipe
        self._size = size

    @property
    def text(self) -> str:
        """What is on the screen."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    @property
    def transcript(self) -> str:
        """What is on the screen, without the title above it."""
        return self.text.partition("\n")[2]

    @property
    def lines(self) -> list[str]:
        """The lines of the screen."""
        return [line.rstrip() for line in self._screen.display]

    def type(self, text: str) -> None:
        """Type keys."""
        self._pipe.send_text(text)

    async def expect_that(self, reached: Callable[[], object], what: str = "this state") -> None:
        """Wait for a state."""
        deadline = asyncio.get_running_loop().time() + TIMEOUT
        while not reached():
            assert asyncio.get_running_loop().time() < deadline, f"waited for {what}; the screen is:\n{self.text}"
            await asyncio.sleep(0.01)

    async def expect(self, text: str) -> None:
        """Wait until a text is on the screen."""
        await self.expect_that(lambda: text in self.text, repr(text))

    async def expect_gone(self, text: str) -> None:
        """Wait until a text is no longer on the screen."""
        await self.expect_that(lambda: text not in self.text, f"{text!r} to go")

    async def answer(self, key: str) -> None:
        """Wait until the question takes keys, then press one."""
        await self.expect_that(lambda: self.app.is_question_focused, "a question that takes keys")
        self.type(key)

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the terminal."""
        self._size[:] = [columns, rows]
        self._screen.resize(rows, columns)
        self.app.redraw()

    def style_of(self, text: str) -> Any:
        """Return how the first character of a text on the screen looks."""
        for row, line in enumerate(self._screen.display):
            if text in line:
                return self._screen.buffer[row][line.index(text)]
        raise AssertionError(f"{text!r} is not on the screen:\n{self.text}")

    def snapshot(self, *, has_colors: bool) -> str:
        """Return the screen as text; with colors, below each line the styles of its runs."""
        rows = []
        for row, line in enumerate(self._screen.display):
            rows.append(_steady(line.rstrip()))
            if has_colors and (styles := self._styles(row)):
                rows.append(f"    ~ {styles}")
        return "\n".join(rows).rstrip() + "\n"

    def _styles(self, row: int) -> str:
        runs: list[tuple[str, str]] = []
        for column in range(self._screen.columns):
            cell = self._screen.buffer[row][column]
            flags = "".join(mark for mark, on in (("b", cell.bold), ("i", cell.italics), ("u", cell.underscore)) if on)
            name = f"{cell.fg if cell.fg != 'default' else ''}/{cell.bg if cell.bg != 'default' else ''}{flags}"
            if runs and runs[-1][1] == name:
                runs[-1] = (runs[-1][0] + cell.data, name)
            else:
                runs.append((cell.data, name))
        words = [f"{_steady(text).strip()[:12]}={name}" for text, name in runs if name != "/" and _steady(text).strip()]
        return " | ".join(words)


def _steady(text: str) -> str:
    for pattern, steady in _VARYING:
        text = pattern.sub(steady, text)
    return text.rstrip()


@asynccontextmanager
async def open_window(
    cwd: Path,
    *,
    agent: NamedAgent = EVERYTHING,
    columns: int = 120,
    rows: int = 40,
    theme: str = "dark",
    options: SessionOptions | None = None,
    waits_for_session: bool = True,
) -> AsyncIterator[Window]:
    """Run the window with an agent in a folder."""
    screen = pyte.Screen(columns, rows)
    sink, size = Sink(screen), [columns, rows]
    output = Vt100_Output(sink, lambda: Size(rows=size[1], columns=size[0]), term="xterm-256color", enable_cpr=False)
    given = options or SessionOptions(agent=agent, cwd=str(cwd), uses_user_files=False)
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=output):
        app = TuiApp(given, theme=theme, input=pipe, output=output)
        window = Window(app, screen, sink, pipe, size)
        task = asyncio.create_task(app.run())
        try:
            await window.expect_that(
                lambda: task.done() or (app.tab is not None and (not waits_for_session or app.tab.state != "starting")),
                "the session",
            )
            yield window
        finally:
            app.quit()
            async with asyncio.timeout(TIMEOUT):
                await task
