"""Start a command with pipes, an environment and its own session; a failure is a StartFailed that says what to try."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dragoman.errors import StartFailed
from dragoman.transport.address import is_address
from dragoman.transport.base import READ_SIZE
from dragoman.transport.process import process_tree

if TYPE_CHECKING:
    import subprocess
    from os import PathLike

    from dragoman.transport.sandbox.plan import ActiveSandbox

# Our own token for a host. Agents and their commands do not inherit it: with it they could act as their user there.
TOKEN_VARIABLE = "DRAGOMAN_TOKEN"


class LaunchedProcess:
    """A started child and our ends of its pipes."""

    __slots__ = ("_child", "pid", "start_time", "stderr", "stdin", "stdout", "token")

    def __init__(self, child: subprocess.Popen[bytes], token: str, stdin: int, stdout: int, stderr: int) -> None:
        self._child = child
        self.pid = child.pid
        self.token = token
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        process = process_tree.read_process_stat(child.pid)
        self.start_time = process.start_time if process else 0

    def mark_reaped(self) -> None:
        """Tell the Popen object that the child was reaped elsewhere, so that it does not try."""
        self._child.returncode = 0


def launch(
    command: Sequence[str],
    token: str,
    *,
    cwd: str | PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    inherit_env: bool | Sequence[str] = True,
    sandbox: ActiveSandbox | None = None,
) -> LaunchedProcess:
    """Start the command, in a sandbox if there is one; raise StartFailed."""
    import subprocess  # slow to import, needed only here

    if sys.platform == "win32":
        raise StartFailed("starting agents needs POSIX process groups; on Windows run Dragoman inside WSL")
    if isinstance(command, str) or not command:
        raise StartFailed("cannot start an agent: give its command as a list, the program first")
    environ = child_environment(env, inherit_env, token, sandbox)
    argv, executable = list(command), None if sandbox is not None else _find_program(command[0], environ)
    our_fds: list[int] = []
    child_fds: list[int] = []
    plan_fds: tuple[int, ...] = ()
    try:
        for readable_by_child in (True, False, False):
            read_fd, write_fd = os.pipe()
            child_fds.append(read_fd if readable_by_child else write_fd)
            our_fds.append(write_fd if readable_by_child else read_fd)
        for fd in our_fds[:2]:
            _enlarge_pipe(fd)
        if sandbox is not None:
            marker = {process_tree.MARKER: environ[process_tree.MARKER]}
            argv, environ, plan = sandbox.wrap(argv, environ, os.fspath(cwd or os.getcwd()), marker, by_user=True)
            plan_fds = (plan,)
        child = subprocess.Popen(
            argv,
            executable=executable,
            stdin=child_fds[0],
            stdout=child_fds[1],
            stderr=child_fds[2],
            cwd=cwd,
            env=environ,
            start_new_session=True,
            pass_fds=plan_fds,
        )
    except (OSError, ValueError, TypeError) as error:
        _close_fds(our_fds)
        raise StartFailed(f"cannot start {command[0]!r}: {_start_error_text(error, command[0], cwd)}") from None
    finally:
        _close_fds([*child_fds, *plan_fds])
    return LaunchedProcess(child, token, *our_fds)


def child_environment(
    env: Mapping[str, str] | None, inherit_env: bool | Sequence[str], token: str, sandbox: ActiveSandbox | None = None
) -> dict[str, str]:
    """Return the child's environment: what it inherits (less in a sandbox), and always the marker."""
    environ = (
        inherited_environment(env, inherit_env)
        if sandbox is None
        else sandbox.environment(inherited_environment(None, inherit_env), env)
    )
    return environ | process_tree.marker_variable(token)


def inherited_environment(env: Mapping[str, str] | None, inherit_env: bool | Sequence[str]) -> dict[str, str]:
    """Return our environment without our own token, the listed names of it, or nothing, with `env` on top."""
    if isinstance(inherit_env, bool):
        environ = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE} if inherit_env else {}
    else:
        environ = {name: os.environ[name] for name in inherit_env if name in os.environ}
    return {**environ, **(env or {})}


def _find_program(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the path of the program when the child's environment has no PATH."""
    if "PATH" in environ or os.sep in name:
        return None
    for folder in os.get_exec_path():
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK):
            return path
    return None


def _start_error_text(error: Exception, name: str, cwd: str | PathLike[str] | None) -> str:
    """Return what went wrong and what to do."""
    if not isinstance(error, OSError):
        return str(error)
    if cwd is not None and not os.path.isdir(cwd):
        return f"its working directory {os.fspath(cwd)!r} does not exist"
    if error.errno == errno.ENOENT:
        if is_address(name):
            return "it is an address; pass it as a string, not as the word of a command"
        if " " in name and not os.path.exists(name):
            return "there is no program of this name; give the program and each of its arguments as a word of its own"
        if os.sep not in name:
            if os.path.isfile(os.path.join(cwd or "", name)):
                how = f"for the file in this folder, write ./{name}, or its interpreter before it"
                return f"no such command on PATH; {how}"
            return "no such command on PATH; install it, or give its full path"
        if not os.path.exists(name):
            return "no such file; check the path"
        return "the interpreter in its first line does not exist"
    if error.errno == errno.EACCES:
        return f"it may not be executed; try chmod +x, or check the rights on {name}"
    if error.errno == errno.ENOEXEC:
        return "it is not a program; a script needs a first line like #!/bin/sh"
    return error.strerror or str(error)


def _enlarge_pipe(fd: int) -> None:
    """Let the pipe hold one read, for fewer context switches; the system may refuse."""
    import fcntl

    if hasattr(fcntl, "F_SETPIPE_SZ"):
        try:
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, READ_SIZE)
        except OSError:
            pass


def _close_fds(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
