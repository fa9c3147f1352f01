"""The terminals of a workspace: commands that run in its folders (docs/protocol/peers.md#terminal-commands).

Only the working directory of a command is confined, unless there is a sandbox. Permission is checked before.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from dragoman.errors import Kind, ProtocolError, SandboxUnavailable
from dragoman.transport.process.launch import inherited_environment
from dragoman.workspace.paths import PathTarget, Roots, find_target
from dragoman.workspace.spawn import DEFAULT_TERM, StartedCommand, TerminalSize, start_in_terminal, start_piped
from dragoman.workspace.terminal import KILL_GRACE, OutputTail, Terminal

if TYPE_CHECKING:
    from dragoman.transport.process.process_tree import ProcessTree
    from dragoman.transport.sandbox.plan import ActiveSandbox
    from dragoman.transport.sandbox.spec import Sandbox

# Real agents open a few; more is a leak.
MAX_OPEN = 32

# Bytes of output kept by default: a long build log that fits one message.
OUTPUT_LIMIT = 1024 * 1024

# The largest limit that an agent can request (docs/protocol/peers.md#unbounded-buffers).
MAX_OUTPUT_LIMIT = 16 * 1024 * 1024

_SHELL = "/bin/sh"
_SHELL_CHARACTERS = frozenset(" \t\r\n|&;<>()$`\\\"'*?[]{}#~=!")

# errno of a failed start -> error kind, and the text after the command.
_START_ERRORS: dict[int, tuple[str, str]] = {
    errno.ENOENT: (Kind.RESOURCE_NOT_FOUND, "was not found; is it installed and on the PATH?"),
    errno.ENOTDIR: (Kind.RESOURCE_NOT_FOUND, "was not found; a part of its path is not a folder"),
    errno.EACCES: (Kind.ACCESS_DENIED, "may not be executed by the user that this client runs as"),
    errno.ENOEXEC: (Kind.INVALID_PARAMS, "is not a program; name its interpreter"),
    errno.E2BIG: (Kind.TOO_LARGE, "has more arguments and environment than the system takes"),
}


# What the ids of our terminals begin with; 16 hexadecimal digits follow.
ID_PREFIX = "term_"
_OWN_ID = re.compile(rf"{ID_PREFIX}[0-9a-f]{{16}}")


def is_own_id(id: str) -> bool:
    """Tell whether an id is one that a workspace of ours gives its terminals."""
    return _OWN_ID.fullmatch(id) is not None


class Terminals:
    """The open terminals of one workspace."""

    def __init__(
        self,
        roots: Sequence[str],
        *,
        max_open: int = MAX_OPEN,
        output_limit: int = OUTPUT_LIMIT,
        environ: Mapping[str, str] | None = None,
        grace: float = KILL_GRACE,
        sandbox: Sandbox | None = None,
        resolve: Callable[[str], str] = os.path.realpath,
    ) -> None:
        self._roots = Roots(roots, resolve=resolve)
        self._max_open = max_open
        self._output_limit = output_limit
        self._environ = environ
        self._grace = grace
        self._sandbox = sandbox
        self._sandbox_plan: ActiveSandbox | None = None
        self._sandbox_lock = asyncio.Lock()
        self._open: dict[str, Terminal] = {}
        self._unreaped: list[Terminal] = []  # including released ones
        self._is_closed = False
        self._tree: ProcessTree | None = None  # all processes of all commands, by the token in their environment
        self._token = os.urandom(16).hex()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def roots(self) -> tuple[str, ...]:
        """The canonical paths of the folders."""
        return self._roots.real_paths

    async def create(
        self,
        command: str,
        args: Sequence[str] = (),
        cwd: str | None = None,
        env: Mapping[str, str] | Iterable[tuple[str, str]] | None = None,
        output_byte_limit: int | None = None,
        timeout: float | None = None,
        *,
        separate_streams: bool = False,
        is_resolved: bool = False,
        pty: bool = False,
        rows: int = TerminalSize().rows,
        columns: int = TerminalSize().columns,
    ) -> Terminal:
        """Start a command and return its terminal at once; kill it after `timeout` seconds.

        `separate_streams` also keeps the streams separate; the combined output is then not in exact order. With
        `is_resolved`, `cwd` is a result of `folder`, links are not followed, and the words are those of `build_argv`.
        With `pty` it runs in a real terminal of that size, which has one stream and takes input.
        """
        if self._sandbox is not None:
            await self._prepare_sandbox(self._sandbox)
        if self._is_closed:
            raise ProtocolError(Kind.INVALID_STATE, "this workspace is closed; no terminal can be opened")
        if len(self._open) >= self._max_open:
            message = f"{self._max_open} terminals are open; release one first"
            raise ProtocolError(Kind.RATE_LIMITED, message, {"limit": self._max_open})
        limit = self._output_limit if output_byte_limit is None else output_byte_limit
        tail = OutputTail(max(0, min(limit, MAX_OUTPUT_LIMIT)))
        base = inherited_environment(None, True) if self._environ is None else self._environ
        environ = _build_environment(base if self._sandbox_plan is None else self._sandbox_plan.environment(base), env)
        size = _terminal_size(rows, columns) if pty else None
        environ |= self._marker_variable()
        started = self._start_command(command, args, cwd, environ, separate_streams, size, is_resolved)
        id = f"{ID_PREFIX}{os.urandom(8).hex()}"
        terminal = Terminal(id, started, tail, self._grace, lambda: self._open.pop(id, None))
        self._open[id] = terminal
        self._unreaped = [other for other in self._unreaped if not other.is_reaped]
        self._unreaped.append(terminal)
        if timeout is not None:
            terminal.kill_after(timeout)
        return terminal

    def folder(self, cwd: str | None = None) -> str:
        """Return the canonical path of the working directory of a command, for permission questions."""
        with self._found(cwd) as target:
            return target.path

    def get(self, id: str) -> Terminal:
        """Return the open terminal with this id, or raise resource_not_found."""
        terminal = self._open.get(id)
        if terminal is None:
            message = f"there is no terminal {id}; it was released or never created here"
            raise ProtocolError(Kind.RESOURCE_NOT_FOUND, message, {"terminalId": id})
        return terminal

    async def close(self) -> None:
        """Release every terminal and end all that their commands left behind; none can be created afterwards.

        Takes at most KILL_GRACE and KILL_TIMEOUT, and the StopTimeouts of what was left behind.
        """
        self._is_closed = True
        if self._tree is not None:
            self._tree.living_members()  # note them while all parents still live
        await asyncio.gather(*(terminal.release() for terminal in self._unreaped))
        if self._tree is not None:
            await self._end_left_behind(self._tree)
        async with self._sandbox_lock:
            if self._sandbox_plan is not None:
                await asyncio.to_thread(self._sandbox_plan.close)

    def _marker_variable(self) -> dict[str, str]:
        """Return the variable that marks a command; from the first on, all are ended also if this process dies."""
        from dragoman.transport.process.process_tree import ProcessTree, marker_variable, read_process_stat
        from dragoman.transport.process.watchdog import WATCHDOG

        if self._tree is None:
            own = read_process_stat(os.getpid())
            self._tree = ProcessTree(0, own.start_time if own is not None else 0, self._token)
            WATCHDOG.guard(self._token, 0)
        return marker_variable(self._token)

    async def _end_left_behind(self, tree: ProcessTree) -> None:
        """End processes that left the groups of their commands."""
        from dragoman.transport.process.process_tree import StopTimeouts
        from dragoman.transport.process.watchdog import WATCHDOG

        try:
            is_gone = await tree.terminate(StopTimeouts(term=self._grace))
        except BaseException:
            tree.kill()
            raise
        if is_gone:  # otherwise the watchdog tries again
            WATCHDOG.unguard(self._token)

    async def _prepare_sandbox(self, sandbox: Sandbox) -> None:
        """Create the sandbox for all commands of this workspace."""
        from dragoman.transport.sandbox.plan import ActiveSandbox

        async with self._sandbox_lock:
            if self._sandbox_plan is None and not self._is_closed:
                try:
                    self._sandbox_plan = await asyncio.to_thread(ActiveSandbox, sandbox, self._roots.real_paths)
                except SandboxUnavailable as error:
                    raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, str(error)) from error

    def _start_command(
        self,
        command: str,
        args: Sequence[str],
        cwd: str | None,
        environ: dict[str, str],
        separate_streams: bool,
        size: TerminalSize | None,
        is_resolved: bool,
    ) -> StartedCommand:
        argv = [command, *args] if is_resolved else build_argv(command, args)
        with self._found(cwd) as target:
            if is_resolved and target.path != cwd:
                message = f"{cwd} is not the folder that was approved: it leads to {target.path}"
                raise ProtocolError(Kind.PERMISSION_DENIED, message)
            environ["PWD"] = target.path
            try:
                if size is None:
                    return start_piped(argv, target, environ, separate_streams, self._sandbox_plan)
                environ.setdefault("TERM", DEFAULT_TERM)
                return start_in_terminal(argv, target, environ, size, self._sandbox_plan)
            except OSError as error:
                unknown = (Kind.INTERNAL_ERROR, f"could not be started: {error.strerror}")
                kind, reason = _START_ERRORS.get(error.errno or 0, unknown)
                raise ProtocolError(kind, f"{command} {reason}", {"command": command}) from error
            except ValueError as error:  # a NUL, or a surrogate that the system cannot encode
                message = f"the command cannot be passed on: {error}"
                raise ProtocolError(Kind.INVALID_PARAMS, message) from error

    def _found(self, cwd: str | None) -> PathTarget:
        """Open the working directory of a command."""
        if cwd is None and not self._roots.real_paths:
            raise ProtocolError(Kind.ACCESS_DENIED, "no folder is shared to start a command in")
        folder = self._roots.real_paths[0] if cwd is None else cwd
        return find_target(self._roots, folder.rstrip("/") + "/")


def build_argv(command: str, args: Sequence[str]) -> list[str]:
    """Return the words to execute; a command without args may be a whole shell line (droid,
    docs/protocol/peers.md#terminal-commands).
    """
    if not command:
        raise ProtocolError(Kind.INVALID_PARAMS, "the command is empty")
    if args or not _SHELL_CHARACTERS.intersection(command) or _is_program(command):
        return [command, *args]
    return [_SHELL, "-c", command]


def _is_program(path: str) -> bool:
    return path.startswith("/") and "\0" not in path and os.path.isfile(path) and os.access(path, os.X_OK)


def _terminal_size(rows: int, columns: int) -> TerminalSize:
    for name, value in (("rows", rows), ("columns", columns)):
        if not 0 < value < 1 << 16:  # two bytes each
            raise ProtocolError(Kind.INVALID_PARAMS, f"a terminal has 1 to 65535 {name}, not {value}")
    return TerminalSize(rows, columns)


def _build_environment(
    base: Mapping[str, str], extra: Mapping[str, str] | Iterable[tuple[str, str]] | None
) -> dict[str, str]:
    environ = dict(base)
    for name, value in extra.items() if isinstance(extra, Mapping) else extra or ():
        if not name or "=" in name or "\0" in name + value:
            raise ProtocolError(Kind.INVALID_PARAMS, f"not an environment variable: {name!r}")
        environ[name] = value
    return environ
