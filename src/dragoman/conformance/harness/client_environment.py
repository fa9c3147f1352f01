"""What a probe sees and does of a client besides the wire: its output, its exit, its agent's process."""

from __future__ import annotations

import re
from typing import Protocol

import msgspec

# What programs print after an unexpected error: Python, node, Rust, Go, the JVM.
_TRACES = re.compile(
    r"Traceback \(most recent call last\)|^\s+at .+[:(]\d+|Unhandled|Uncaught|panicked at|^goroutine \d+|Exception in",
    re.MULTILINE,
)

# Python's report on objects that outlived their loop is untidy, but no failure.
_IGNORED = re.compile(r"Exception ignored in.*\n(?:Traceback.*\n)?(?:[ \t]+.*\n)*(?:\S+: .*\n?)?")

# For these requirements a shell starts the stub agent and waits for it.
WRAPPED = frozenset({"client.process.04"})

# How much of the end of stderr a verdict quotes: a stack trace ends there. Characters.
EXCERPT = 500


class ClientExit(msgspec.Struct, frozen=True):
    """How the client ended: `status` is None while it still runs; with its stdout and stderr."""

    status: int | None
    stdout: str
    stderr: str

    @property
    def crashed(self) -> bool:
        """Whether it ended by a signal or an unexpected exception."""
        return self.status is not None and (self.status < 0 or (self.status > 0 and self.has_traceback))

    @property
    def has_traceback(self) -> bool:
        """Whether there is a stack trace on its stderr."""
        return bool(_TRACES.search(_IGNORED.sub("", self.stderr)))

    def shows(self, mark: str) -> bool:
        """Return whether this text was shown; also true for a client that shows no text on its stdout at all."""
        return mark in self.stdout or "check-begin" not in self.stdout

    def stderr_excerpt(self) -> str:
        """Return the end of its stderr, from the start of a line; several lines start on a new one."""
        text = self.stderr.strip()
        excerpt = text[-EXCERPT:]
        if len(text) > EXCERPT and "\n" in excerpt:
            excerpt = excerpt.partition("\n")[2]
        return f"\n{excerpt}" if "\n" in excerpt else excerpt or "nothing on its stderr"


class ClientEnvironment(Protocol):
    """The environment of one run of a client."""

    cwd: str
    """The folder it was started in."""
    is_wrapped: bool
    """Whether the stub agent runs behind a shell, as agents behind npx and uvx do."""
    is_watched: bool
    """Whether the client's own process can be observed; not when an editor starts us."""

    def exit_state(self) -> ClientExit:
        """Return the state of the client."""
        ...

    async def wait_exit(self, seconds: float) -> ClientExit:
        """Wait for the client to exit."""
        ...

    def interrupt(self) -> bool:
        """Send Ctrl-C; return False if that is not possible."""
        ...

    async def write_stderr(self, data: bytes, seconds: float) -> bool:
        """Write to the agent's stderr; return False if the client does not read it in time."""
        ...

    async def exit_agent(self, status: int) -> None:
        """Make the agent exit with this status, or by minus a signal."""
        ...

    async def close_output(self) -> None:
        """Make the agent close its output and keep running."""
        ...

    async def ignore_sigterm(self) -> None:
        """Make the agent ignore SIGTERM."""
        ...

    def release_agent(self) -> None:
        """Make the agent exit, as agents do at the end of their input."""
        ...

    async def agent_running(self, seconds: float) -> bool:
        """Return whether the agent's process still runs after this time."""
        ...

    def inherits_variable(self, name: str) -> bool:
        """Return whether the agent got this variable of the client's environment."""
        ...
