"""`--trace FILE` of commands that are clients: every message into a recording, for `dragoman inspect` to show."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dragoman.cli.ui.terminal import sanitize

if TYPE_CHECKING:
    from dragoman.inspect.tap import Tap


@contextmanager
def open_trace(path: str | None, command: Sequence[str]) -> Iterator[Tap | None]:
    """The tap for `connect(trace=...)`, or None when nobody asked for one."""
    if path is None:
        yield None
        return
    from dragoman.inspect.tap import trace_to

    with trace_to(path, command, _report) as tap:
        yield tap


def _report(text: str) -> None:
    print(f"dragoman: {sanitize(text)}", file=sys.stderr, flush=True)
