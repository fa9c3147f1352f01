"""What surrounds a client under test besides its pipes: what it shows, how it ends, what becomes of its agent.

`Grounds` is what a probe can do and see there; `client_process` has it for a real command, `client_memory` for a client
in the same loop. Above is the stage of clients. It refuses to know what is said on the wire.
"""

from __future__ import annotations

import re
from typing import Protocol

import msgspec

# What programs print when something went wrong that nobody expected: Python, node, Rust, Go, the JVM.
_TRACES = re.compile(
    r"Traceback \(most recent call last\)|^\s+at .+[:(]\d+|Unhandled|Uncaught|panicked at|^goroutine \d+|Exception in",
    re.MULTILINE,
)


# What Python tells about objects that outlived their loop is untidy, and no failure.
_IGNORED = re.compile(r"Exception ignored in.*\n(?:Traceback.*\n)?(?:[ \t]+.*\n)*(?:\S+: .*\n?)?")

# For these our stand-in is started by a shell that waits for it.
WRAPPED = frozenset({"client.process.04"})


# So much of what a client said last tells why it failed: a stack trace ends with it. Characters.
WORDS = 500


class Ending(msgspec.Struct, frozen=True):
    """How the client ended: `status` is None while it still runs; what it printed on stdout and stderr."""

    status: int | None
    shown: str
    said: str

    @property
    def crashed(self) -> bool:
        """Whether it ended by a signal, or by an exception that nobody expected."""
        return self.status is not None and (self.status < 0 or (self.status > 0 and self.traced))

    @property
    def traced(self) -> bool:
        """Whether a stack trace stands on its stderr."""
        return bool(_TRACES.search(_IGNORED.sub("", self.said)))

    def words(self) -> str:
        """The end of what it said on stderr, from the beginning of a line; several lines begin on a new one."""
        said = self.said.strip()
        kept = said[-WORDS:]
        if len(said) > WORDS and "\n" in kept:
            kept = kept.partition("\n")[2]
        return f"\n{kept}" if "\n" in kept else kept or "nothing on its stderr"


class Grounds(Protocol):
    """The surroundings of one run of a client."""

    cwd: str
    """Where it was started."""
    is_wrapped: bool
    """Whether our stand-in runs behind a shell, as agents behind npx and uvx do."""
    is_watched: bool
    """Whether the client's own process can be seen; not when an editor starts us."""

    def ending(self) -> Ending:
        """How things stand with the client."""
        ...

    async def over(self, seconds: float) -> Ending:
        """Wait for its end."""
        ...

    def interrupt(self) -> bool:
        """Press Ctrl-C; False when there is no way to."""
        ...

    async def complain(self, data: bytes, seconds: float) -> bool:
        """Write to the agent's stderr; False when nobody took it in time."""
        ...

    async def die(self, status: int) -> None:
        """Let the agent end: with this status, or by minus a signal."""
        ...

    async def mute(self) -> None:
        """Let the agent close its output and live on."""
        ...

    async def deafen(self) -> None:
        """Let the agent ignore TERM from now on."""
        ...

    def dismiss(self) -> None:
        """Let the agent go, as one does whose input has ended."""
        ...

    async def remains(self, seconds: float) -> bool:
        """Whether the agent's process is still there after so long."""
        ...

    def inherits(self, name: str) -> bool:
        """Whether the agent was given this variable of the client's environment."""
        ...
