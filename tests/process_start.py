"""A process that does not outlive its test: `with Popen` waits for ever for one that goes on when a test has failed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


@contextmanager
def started(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """The process, which is killed at the end if it has not ended by then."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()
