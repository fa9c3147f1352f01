"""The log of a long-running command on stderr: one line for each event, with its time and level, as text or JSON."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TextIO

from dragoman.cli.ui.terminal import sanitize_line

LOG_FORMATS = ("text", "json")


class LogLines(logging.Handler):
    """Writes events, and what the library logs. Text of peers cannot begin a line."""

    def __init__(self, stream: TextIO, form: str = "text") -> None:
        super().__init__()
        self._stream = stream
        self._form = form

    def write(self, text: str, level: str = "info") -> None:
        """Write one line."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if self._form == "json":
            # A lone surrogate (from a file name that is not UTF-8) becomes its JSON escape.
            line = json.dumps({"time": now, "level": level, "message": text})
        else:
            line = f"{now} {level}: {sanitize_line(text)}"
        print(line, file=self._stream, flush=True)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record of the library; with a traceback if there is one."""
        self.write(self.format(record), record.levelname.lower())
