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

from dragoman.workspace.paths import PathTarget

if TYPE_CHECKING:
    import subprocess

    from dragoman.transport.sandbox.plan import ActiveSandbox

# A session's leader that opens a terminal gets it as its own: this is how the command gets job control, /dev/tty and
# ^C. Done by a shell, for nothing may run between fork and exec in a program with threads.
_ADOPT_TTY = 'tty=$1; shift; exec "$@" 0<>"$tty" 1>&0 2>&0'
_SHELL = "/bin/sh"

# What programs are told they draw on, unless the client says otherwise.
DEFAULT_TERM = "xterm-256color"


class TerminalSize(NamedTuple):
    """How large a terminal is."""

    rows: int = 24
    columns: int = 80


class StartedCommand(NamedTuple):
    """A process, where its output comes out, and whether that is a terminal, which takes input too."""

    process: subprocess.Popen[bytes]
    output_fds: list[int]
    is_terminal: bool


class PreparedCommand(NamedTuple):
    """What is executed: the command itself, or what puts it into its sandbox, and the descriptors that this needs."""

    argv: list[str]
    environ: dict[str, str]
    pass_fds: tuple[int, ...] = ()


@contextmanager
def prepare_command(
    argv: list[str], target: PathTarget, environ: dict[str, str], sandbox_plan: ActiveSandbox | None
) -> Iterator[PreparedCommand]:
    """A command ready to be started, in its sandbox if there is one."""
    if sandbox_plan is None:
        yield PreparedCommand(argv, environ)
        return
    wrapped = sandbox_plan.wrap(argv, environ, target.path)
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
    """Start a command that writes to one pipe, or to two that keep its streams apart; it has no input."""
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
    """Start a command in a terminal of its own."""
    _check_program(argv[0], target, environ)
    ours, theirs = os.openpty()
    try:
        os.set_blocking(ours, False)
        resize_terminal(ours, size)
        with prepare_command(argv, target, environ, sandbox_plan) as ready:
            # The shell stands outside of the sandbox, which does not open terminals by name.
            adopted = [_SHELL, "-c", _ADOPT_TTY, _SHELL, os.ttyname(theirs), *ready.argv]
            process = _start_process(ready._replace(argv=adopted), target, theirs, theirs, theirs)
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return StartedCommand(process, [ours], True)


def resize_terminal(terminal_fd: int, size: TerminalSize) -> None:
    """Tell a terminal how large it is; the command in it is told by the system."""
    import fcntl
    import struct
    import termios

    fcntl.ioctl(terminal_fd, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))


def _start_process(
    command: PreparedCommand, target: PathTarget, stdin: int | None, stdout: int, stderr: int
) -> subprocess.Popen[bytes]:
    import subprocess

    # By descriptor where that can be said: the folder that was checked is the folder it starts in.
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
    """Refuse here what the shell could only tell as a line of output."""
    places = [""] if "/" in name else os.get_exec_path(environ)
    found = [place for place in places if os.access(os.path.join(place, name), os.F_OK, dir_fd=target.directory)]
    if not found:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    if not any(os.access(os.path.join(place, name), os.X_OK, dir_fd=target.directory) for place in found):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
