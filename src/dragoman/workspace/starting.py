"""A command being started: with pipes or a terminal of its own, in the folder that was checked.

Takes words, an open folder and an environment, gives the process and the descriptors that its output comes out of.
Raises OSError as the system gives it. Terminals are above; knows nothing of ids and limits.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, NamedTuple

from dragoman.workspace.paths import Spot

if TYPE_CHECKING:
    import subprocess

# A session's leader that opens a terminal gets it as its own: this is how the command gets job control, /dev/tty and
# ^C. Done by a shell, for nothing may run between fork and exec in a program with threads.
_ADOPT = 'tty=$1; shift; exec "$@" 0<>"$tty" 1>&0 2>&0'
_SHELL = "/bin/sh"

# What programs are told they draw on, unless the client says otherwise.
TERM = "xterm-256color"


class Size(NamedTuple):
    """How large a terminal is."""

    rows: int = 24
    columns: int = 80


class Started(NamedTuple):
    """A process, where its output comes out, and whether that is a terminal, which takes input too."""

    process: subprocess.Popen[bytes]
    outlets: list[int]
    is_terminal: bool


def start_piped(words: list[str], spot: Spot, environ: dict[str, str], apart: bool) -> Started:
    """Start a command that writes to one pipe, or to two that keep its streams apart; it has no input."""
    readers, writers = zip(*(os.pipe() for _ in range(2 if apart else 1)), strict=True)
    try:
        for reader in readers:
            os.set_blocking(reader, False)
        process = _start(words, spot, environ, None, writers[0], writers[-1])
    except BaseException:
        for reader in readers:
            os.close(reader)
        raise
    finally:
        for writer in writers:
            os.close(writer)
    return Started(process, list(readers), False)


def start_in_terminal(words: list[str], spot: Spot, environ: dict[str, str], size: Size) -> Started:
    """Start a command in a terminal of its own."""
    _check_program(words[0], spot, environ)
    ours, theirs = os.openpty()
    try:
        os.set_blocking(ours, False)
        resize(ours, size)
        adopted = [_SHELL, "-c", _ADOPT, _SHELL, os.ttyname(theirs), *words]
        process = _start(adopted, spot, environ, theirs, theirs, theirs)
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return Started(process, [ours], True)


def resize(terminal: int, size: Size) -> None:
    """Tell a terminal how large it is; the command in it is told by the system."""
    import fcntl
    import struct
    import termios

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))


def _start(
    words: list[str], spot: Spot, environ: dict[str, str], stdin: int | None, stdout: int, stderr: int
) -> subprocess.Popen[bytes]:
    import subprocess

    # By descriptor where that can be said: the folder that was checked is the folder it starts in.
    by_descriptor = f"/proc/self/fd/{spot.directory}"
    return subprocess.Popen(
        words,
        cwd=by_descriptor if os.path.exists(by_descriptor) else spot.path,
        env=environ,
        stdin=subprocess.DEVNULL if stdin is None else stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )


def _check_program(name: str, spot: Spot, environ: dict[str, str]) -> None:
    """Refuse here what the shell could only tell as a line of output."""
    places = [""] if "/" in name else os.get_exec_path(environ)
    found = [place for place in places if os.access(os.path.join(place, name), os.F_OK, dir_fd=spot.directory)]
    if not found:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    if not any(os.access(os.path.join(place, name), os.X_OK, dir_fd=spot.directory) for place in found):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
