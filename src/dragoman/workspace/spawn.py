"""Start a command with pipes or in its own terminal, in an open folder that was checked.

Returns the process and the descriptors of its output. Raises OSError.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from dragoman.transport.process.process_tree import MARKER
from dragoman.workspace.paths import PathTarget

if TYPE_CHECKING:
    import subprocess

    from dragoman.transport.sandbox.plan import ActiveSandbox

# A session leader that opens a terminal becomes its owner: this gives the command job control, /dev/tty and ^C. A
# shell does it, because no code may run between fork and exec in a program with threads.
_ADOPT_TTY = 'tty=$1; shift; exec "$@" 0<>"$tty" 1>&0 2>&0'
_SHELL = "/bin/sh"

# TERM, unless the client sets it.
DEFAULT_TERM = "xterm-256color"


class TerminalSize(NamedTuple):
    """The size of a terminal."""

    rows: int = 24
    columns: int = 80


class StartedCommand(NamedTuple):
    """A process, the descriptors of its output, and whether it has a terminal, which also takes input."""

    process: subprocess.Popen[bytes]
    output_fds: list[int]
    is_terminal: bool


class PreparedCommand(NamedTuple):
    """What is executed: the command itself or its sandbox launcher, and the descriptors to pass."""

    argv: list[str]
    environ: dict[str, str]
    pass_fds: tuple[int, ...] = ()


@contextmanager
def prepare_command(
    argv: list[str], target: PathTarget, environ: dict[str, str], sandbox_plan: ActiveSandbox | None
) -> Iterator[PreparedCommand]:
    """Prepare a command, with a launcher if there is a sandbox."""
    if sandbox_plan is None:
        yield PreparedCommand(argv, environ)
        return
    marker = {name: environ[name] for name in (MARKER,) if name in environ}  # the launcher is found by it too
    wrapped = sandbox_plan.wrap(argv, environ, target.path, marker)
    try:
        yield PreparedCommand(wrapped.argv, wrapped.environ, (wrapped.plan_fd,))
    finally:
        os.close(wrapped.plan_fd)


def start_piped(
    argv: list[str],
    target: PathTarget,
    environ: dict[str, str],
    separate_streams: bool,
    sandbox_plan: ActiveSandbox | None = None,
) -> StartedCommand:
    """Start a command without input that writes to one pipe, or to two for separate streams."""
    readers, writers = zip(*(os.pipe() for _ in range(2 if separate_streams else 1)), strict=True)
    try:
        for reader in readers:
            os.set_blocking(reader, False)
        with prepare_command(argv, target, environ, sandbox_plan) as ready:
            process = _start_process(ready, target, None, writers[0], writers[-1])
    except BaseException:
        for reader in readers:
            os.close(reader)
        raise
    finally:
        for writer in writers:
            os.close(writer)
    return StartedCommand(process, list(readers), False)


def start_in_terminal(
    argv: list[str],
    target: PathTarget,
    environ: dict[str, str],
    size: TerminalSize,
    sandbox_plan: ActiveSandbox | None = None,
) -> StartedCommand:
    """Start a command in its own terminal."""
    _check_program(argv[0], target, environ)
    ours, theirs = os.openpty()
    try:
        os.set_blocking(ours, False)
        resize_terminal(ours, size)
        with prepare_command(argv, target, environ, sandbox_plan) as ready:
            # The shell runs outside the sandbox, which cannot open terminals by name.
            adopted = [_SHELL, "-c", _ADOPT_TTY, _SHELL, os.ttyname(theirs), *ready.argv]
            process = _start_process(ready._replace(argv=adopted), target, theirs, theirs, theirs)
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return StartedCommand(process, [ours], True)


def resize_terminal(terminal_fd: int, size: TerminalSize) -> None:
    """Set the size of a terminal; the system notifies the command."""
    import fcntl
    import struct
    import termios

    fcntl.ioctl(terminal_fd, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))


def _start_process(
    command: PreparedCommand, target: PathTarget, stdin: int | None, stdout: int, stderr: int
) -> subprocess.Popen[bytes]:
    import subprocess

    # By descriptor if possible, so that it starts in the folder that was checked.
    by_descriptor = f"/proc/self/fd/{target.directory}"
    return subprocess.Popen(
        command.argv,
        cwd=by_descriptor if os.path.exists(by_descriptor) else target.path,
        env=command.environ,
        pass_fds=command.pass_fds,
        stdin=subprocess.DEVNULL if stdin is None else stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )


def _check_program(name: str, target: PathTarget, environ: dict[str, str]) -> None:
    """Refuse a missing program, which the shell would report only as output."""
    places = [""] if "/" in name else os.get_exec_path(environ)
    found = [place for place in places if os.access(os.path.join(place, name), os.F_OK, dir_fd=target.directory)]
    if not found:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    if not any(os.access(os.path.join(place, name), os.X_OK, dir_fd=target.directory) for place in found):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
