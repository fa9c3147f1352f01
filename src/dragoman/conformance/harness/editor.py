"""A client that only its user can start: an editor that runs our stub agent.

Requirements are tried one after the other, one per prompt, as long as the connection is open and they need no new one.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress

from dragoman.conformance.harness.client import ClientUnderTest
from dragoman.conformance.harness.client_process import StubEnvironment
from dragoman.conformance.harness.peer import PROCESS, PeerUnderTest, Timeouts
from dragoman.conformance.requirement import Requirement
from dragoman.testing.fake_agents import StubListener, stub_command

# A person opens threads and types prompts, and may be away for a while. Seconds.
PERSON = 3600.0
EDITOR_TIMEOUTS = Timeouts(
    start=PERSON, answer=PROCESS.answer, turn=300.0, quiet=PROCESS.quiet, exit=1.0, probe=2 * PERSON
)

# These chapters start with a prompt, so they can reuse a connection.
CONTINUABLE = ("client.rpc", "client.update", "client.turn", "client.permission", "client.files", "client.terminal")
# Of these chapters, the requirements about how the connection began.
NEEDS_START = frozenset({"client.rpc.03", "client.rpc.19"})


class EditorClient:
    """An editor as the target of a check; `say` shows the user what to do next."""

    way = ""

    def __init__(
        self, listener: StubListener, dialect: str, say: Callable[[str], None], *, timeouts: Timeouts = EDITOR_TIMEOUTS
    ) -> None:
        self._listener = listener
        self._say = say
        self._last: ClientUnderTest | None = None
        self._environment: StubEnvironment | None = None
        self.dialect = dialect
        self.timeouts = timeouts

    @asynccontextmanager
    async def start(self, requirement: Requirement) -> AsyncIterator[PeerUnderTest]:
        """Reuse the connection, or wait for the next one of the editor."""
        peer = self._continue(requirement) or await self._reconnect(requirement)
        try:
            yield peer
        finally:
            peer.remove_files()
            self._last = peer

    def _continue(self, requirement: Requirement) -> ClientUnderTest | None:
        last = self._last
        goes_on = requirement.chapter in CONTINUABLE and requirement.id not in NEEDS_START
        if last is None or last.closed is not None or not goes_on:
            return None
        self._say(f"{requirement.id}: type a prompt in the same thread")
        peer = ClientUnderTest(last.transport, self.dialect, self.timeouts, last.environment, needs=requirement.needs)
        peer.continue_from(last)
        return peer

    async def _reconnect(self, requirement: Requirement) -> ClientUnderTest:
        await self.close()
        self._say(f"{requirement.id}: open a new thread with the agent and type a prompt")
        stub = await self._listener.accept()
        self._environment = StubEnvironment(stub.about.get("cwd") or "/", say=self._say)
        channel = self._environment.attach(stub)
        return ClientUnderTest(channel, self.dialect, self.timeouts, self._environment, needs=requirement.needs)

    async def close(self) -> None:
        """Release the stub agent."""
        if self._environment is not None:
            await self._environment.release()
        self._last = self._environment = None


@contextmanager
def open_stub_listener() -> Iterator[StubListener]:
    """Open a socket at the same path each time, so that an editor is configured once.

    A second check at the same time gets a socket of its own.
    """
    with ExitStack() as stack:
        path = ""
        with suppress(OSError):
            folder = _private_folder()
            lock = stack.enter_context(open(os.path.join(folder, "check-door.lock"), "wb"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path = os.path.join(folder, "check-door")
            with suppress(FileNotFoundError):  # of one that was killed
                os.unlink(path)
        listener = StubListener(path)
        stack.callback(listener.close)
        yield listener


def _private_folder() -> str:
    """Return this user's private folder, the same each time; raise OSError where there is none."""
    above = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    folder = os.path.join(above, f"dragoman-{os.getuid()}")
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is not for this user alone")
    return folder


def agent_command(listener: StubListener) -> list[str]:
    """Return the command to configure in the editor."""
    return stub_command(listener.path)
