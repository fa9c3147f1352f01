"""Progress while something takes long: a line at the end of the terminal, or now and then a line in a log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from dragoman.cli.ui.terminal import OutputStream

# How often the line on a terminal is written again: people notice a wait after a second.
INTERVAL = 1.0

# Where lines cannot be redrawn, such as in a log: the first line, and the time to the next one. Seconds.
FIRST_LINE = 5
LINE_INTERVAL = 30


@asynccontextmanager
async def show_progress(
    output: OutputStream,
    describe: Callable[[int], str],
    *,
    is_paused: Callable[[], bool] = lambda: False,
    take_lines: Callable[[int], Iterable[str]] = lambda seconds: (),
    first_line: int = FIRST_LINE,
) -> AsyncIterator[None]:
    """Show `describe(seconds)` while the block runs, except while `is_paused`; `take_lines` are shown above it once."""

    async def show() -> None:
        loop = asyncio.get_running_loop()
        started, next_line = loop.time(), first_line
        while True:
            await asyncio.sleep(INTERVAL)
            seconds = round(loop.time() - started)
            if is_paused():
                continue
            for line in take_lines(seconds):
                output.write_line(f"  {line}", "dim")
            if output.has_ansi:
                output.show_footer(describe(seconds))
            elif seconds >= next_line:
                next_line = seconds + LINE_INTERVAL
                output.write_line(describe(seconds), "dim")

    task = asyncio.create_task(show())
    try:
        yield
    finally:
        task.cancel()
        output.clear_footer()
