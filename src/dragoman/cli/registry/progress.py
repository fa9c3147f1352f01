"""Progress of an install: the current step, its seconds and bytes on one line, or a line for each step in a log."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from dragoman.cli.ui.format import format_size
from dragoman.cli.ui.terminal import OutputStream

# How often the line is drawn again. Seconds.
INTERVAL = 0.2
_BAR = 24  # columns


class StepProgress:
    """Shows the steps of an install; use it with `with`."""

    def __init__(self, output: OutputStream, *, quiet: bool = False) -> None:
        self._output, self._quiet = output, quiet
        self._step, self._since = "", 0.0
        self._bytes: tuple[int, int | None] = (0, None)
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> StepProgress:
        if self._output.has_ansi and not self._quiet:
            self._thread = threading.Thread(target=self._draw, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()
        self._finish(failed=kind is not None)

    def report(self, step: str) -> None:
        """Begin a step."""
        self._finish()
        with self._lock:
            self._step, self._since, self._bytes = step, time.monotonic(), (0, None)
        if not self._output.has_ansi and not self._quiet:
            self._output.write_line(f"{step} …", "dim")

    def count(self, done: int, total: int | None) -> None:
        """Tell how many bytes of a download are there."""
        self._bytes = (done, total)

    def _finish(self, *, failed: bool = False) -> None:
        with self._lock:
            step, self._step = self._step, ""
        if step and self._output.has_ansi and not self._quiet:
            self._output.clear_footer()
            size = f"  {format_size(self._bytes[0])}" if self._bytes[0] else ""
            mark, style = ("✗", "red") if failed else ("✓", "green")
            seconds = time.monotonic() - self._since
            self._output.write_pieces([(f"{mark} ", style), (f"{step}{size}", ""), (f"  {seconds:.0f} s\n", "dim")])

    def _draw(self) -> None:
        while not self._end.wait(INTERVAL):
            with self._lock:
                if not self._step:
                    continue
                seconds = time.monotonic() - self._since
                self._output.show_footer(f"  {self._step} … {seconds:.0f} s{self._bytes_text(seconds)} · Ctrl-C stops")

    def _bytes_text(self, seconds: float) -> str:
        done, total = self._bytes
        if not done:
            return ""
        speed = f" · {format_size(int(done / seconds))}/s" if seconds > 0.5 else ""
        if not total:
            return f" · {format_size(done)}{speed}"
        filled = int(_BAR * done / total)
        return f" {'█' * filled}{'░' * (_BAR - filled)} {format_size(done)} of {format_size(total)}{speed}"
