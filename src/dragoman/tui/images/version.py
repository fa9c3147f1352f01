"""Ask the terminal what it is, before the window has it. Terminals answer on their input, as if somebody typed it."""

from __future__ import annotations

import os
import re
import select
import sys
from contextlib import suppress
from time import monotonic

# How long it may take: over a slow line, and never when the terminal answers nothing. Seconds.
TIMEOUT = 1.0

# Name and version (XTVERSION), then the attributes that every terminal tells: with them, nothing more comes.
_QUESTION = b"\x1b[>q\x1b[c"
_ANSWER = re.compile(rb"\x1bP>\|([^\x1b]*)\x1b\\")
_END = re.compile(rb"\x1b\[\?[\d;]*c")


def ask_version() -> str:
    """Return what the terminal says, such as kitty(0.26.5); "" if it says nothing."""
    try:
        import termios
        import tty
    except ImportError:  # not on a POSIX system
        return ""
    source, target = sys.stdin.fileno(), sys.stdout.fileno()
    before = termios.tcgetattr(source)
    said = b""
    try:
        tty.setcbreak(source, termios.TCSANOW)
        os.write(target, _QUESTION)
        deadline = monotonic() + TIMEOUT
        while not _END.search(said) and (left := deadline - monotonic()) > 0:
            if select.select([source], [], [], left)[0]:
                said += os.read(source, 1024)
    except OSError:
        pass
    finally:
        with suppress(termios.error):
            termios.tcsetattr(source, termios.TCSANOW, before)
    found = _ANSWER.search(said)
    return found[1].decode("ascii", "replace") if found else ""
