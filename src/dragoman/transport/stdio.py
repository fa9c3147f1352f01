"""An agent's own standard input and output as a transport that nothing else can use.

The transport gets private descriptors. Descriptor 1 and sys.stdout then lead to stderr and descriptor 0 is empty, so a
stray print, a library or a child process can neither corrupt nor consume the protocol
(docs/protocol/peers.md#reports-stdout).
"""

from __future__ import annotations

import os
import shlex
import stat
import sys

from dragoman.errors import StartFailed
from dragoman.transport.stream import StreamTransport


def stdio(*, peer: str = "the client", chat_command: str = "") -> StreamTransport:
    """Take descriptors 0 and 1 for the protocol; call it once, inside the running loop.

    `chat_command` is what a user who started this on a terminal should run instead.
    """
    if sys.platform == "win32":
        raise StartFailed("the stdio transport needs POSIX pipes; on Windows run the agent inside WSL")
    return StreamTransport(*take_stdio(chat_command), peer=peer)


def take_stdio(chat_command: str = "") -> tuple[int, int]:
    """Move standard input and output to private descriptors (input, output); prints then go to stderr."""
    if sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None:
        chat_command = chat_command or f"dragoman chat -- {shlex.join(_typed_command())}"
        print(_terminal_hint(chat_command), file=sys.stderr, flush=True)
    # Python sets these to None when the descriptor was closed at start; another file may use it by now.
    if sys.__stdin__ is None or sys.__stdout__ is None:
        raise StartFailed("standard input or output is closed; start the agent from an ACP client")
    if sys.stdout is not None:
        sys.stdout.flush()  # printed before the protocol began, so it belongs to stdout
    read_fd, write_fd = private_descriptor(0, os.O_RDONLY), private_descriptor(1, os.O_WRONLY)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started without a stderr
        os.dup2(null, 1)
    os.close(null)
    return read_fd, write_fd


def _terminal_hint(chat_command: str) -> str:
    """Return what a person at a terminal reads: for its width, and with the command in one piece."""
    import textwrap  # only a person at a terminal needs it

    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80  # 0: unknown
    except (OSError, ValueError):
        columns = 80
    text = "This program speaks the Agent Client Protocol on standard input and output; "
    text += "an editor starts it as its agent."
    advice = "To chat in this terminal, press Ctrl-C, then run:"
    gap = " " if len(f"{advice} {chat_command}") < columns else "\n  "
    return f"{textwrap.fill(text, columns - 1)}\n{textwrap.fill(advice, columns - 1)}{gap}{chat_command}"


def _typed_command() -> list[str]:
    """Return how this program was started: a script on PATH by its name, without the interpreter."""
    import shutil  # only a person at a terminal needs it

    name = os.path.basename(sys.argv[0])
    found = shutil.which(name)
    if found is not None and os.path.realpath(found) == os.path.realpath(sys.argv[0]):
        return [name, *sys.argv[1:]]
    return sys.orig_argv


def private_descriptor(fd: int, flags: int) -> int:
    """Return our own descriptor for the same pipe, closed in children.

    Reopened where the system allows it: a duplicate shares the non-blocking flag with every process that inherited the
    pipe (a wrapping shell, a stderr joined to stdout), and their writes would fail.
    """
    copy = os.dup(fd)
    if sys.platform != "linux" or not stat.S_ISFIFO(os.fstat(fd).st_mode):
        return copy
    try:
        new_fd = os.open(f"/proc/self/fd/{fd}", flags | os.O_CLOEXEC)
    except OSError:  # the pipe belongs to another user
        return copy
    os.close(copy)
    return new_fd
