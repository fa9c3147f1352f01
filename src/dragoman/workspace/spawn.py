"""A command being started: with pipes or a terminal of its own, in the folder that was checked.

Takes words, an open folder and an environment, gives the process and the descriptors that its output comes out of.
Raises OSError as the system gives it. Terminals are above; knows nothing of ids and limits.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from dragoman.workspace.paths import Spot

if TYPE_CHECKING:
    import subprocess

    from dragoman.transport.sandbox.plan import Box

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


class Prepared(NamedTuple):
    """What is executed: the command itself, or what puts it into its sandbox, and the descriptors that this needs."""

    words: list[str]
    environ: dict[str, str]
    handed: tuple[int, ...] = ()


@contextmanager
def prepared(words: list[str], spot: Spot, environ: dict[str, str], box: Box | None) -> Iterator[Prepared]:
    """A command ready to be started, in its sandbox if there is one."""
    if box is None:
        yield Prepared(words, environ)
        return
    wrapped = box.wrap(words, environ, spot.path)
    try:
        yield Prepared(wrapped.words, wrapped.environ, (wrapped.fd,))
    finally:
        os.close(wrapped.fd)


def start_piped(words: list[str], spot: Spot, environ: dict[str, str], apart: bool, box: Box | None = None) -> Started:
    """Start a command that writes to one pipe, or to two that keep its streams apart; it has no input."""
    readers, writers = zip(*(os.pipe() for _ in range(2 if apart else 1)), strict=True)
    try:
        for reader in readers:
            os.set_blocking(reader, False)
        with prepared(words, spot, environ, box) as ready:
            process = _start(ready, spot, None, writers[0], writers[-1])
    except BaseException:
        for reader in readers:
            os.close(reader)
        raise
    finally:
        for writer in writers:
            os.close(writer)
    return Started(process, list(readers), False)


def start_in_terminal(
    words: list[str], spot: Spot, environ: dict[str, str], size: Size, box: Box | None = None
) -> Started:
    """Start a command in a terminal of its own."""
    _check_program(words[0], spot, environ)
    ours, theirs = os.openpty()
    try:
        os.set_blocking(ours, False)
        resize(ours, size)
        with prepared(words, spot, environ, box) as ready:
            # The shell stands outside of the sandbox, which does not open terminals by name.
            adopted = [_SHELL, "-c", _ADOPT, _SHELL, os.ttyname(theirs), *ready.words]
            process = _start(ready._replace(words=adopted), spot, theirs, theirs, theirs)
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


def _start(ready: Prepared, spot: Spot, stdin: int | None, stdout: int, stderr: int) -> subprocess.Popen[bytes]:
    import subprocess

    # By descriptor where that can be said: the folder that was checked is the folder it starts in.
    by_descriptor = f"/proc/self/fd/{spot.directory}"
    return subprocess.Popen(
        ready.words,
        cwd=by_descriptor if os.path.exists(by_descriptor) else spot.path,
        env=ready.environ,
        pass_fds=ready.handed,
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
