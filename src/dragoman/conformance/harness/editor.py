"""Checking a client that only its user can start: an editor whose agent our stand-in is.

Each time the editor starts its agent, the next requirements are tried on that connection: one after the other with
each prompt, as long as the connection holds and they need no fresh one. What only a watched process shows is not
applicable here. Above is `dragoman check client --serve`.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress

from dragoman.conformance.harness.client import ClientStage
from dragoman.conformance.harness.client_process import Visited
from dragoman.conformance.harness.peer import Stage
from dragoman.conformance.harness.timeouts import PROCESS, Pace
from dragoman.conformance.requirement import Requirement
from dragoman.testing.reception import Reception, words

# A person opens threads and types prompts; whoever has gone for lunch comes back. Seconds.
PERSON = 3600.0
PACE = Pace(start=PERSON, answer=PROCESS.answer, turn=300.0, quiet=PROCESS.quiet, leave=1.0, probe=2 * PERSON)

# What these ask begins with a prompt, so that it can be asked on a connection that is there.
GO_ON = ("client.rpc", "client.update", "client.turn", "client.permission", "client.files", "client.terminal")
# Of them, those that look at how the connection began.
BEGIN = frozenset({"client.rpc.03", "client.rpc.19"})


class ServedClient:
    """An editor as the subject of a check; `say` tells the user what to do next."""

    way = ""

    def __init__(self, reception: Reception, dialect: str, say: Callable[[str], None], *, pace: Pace = PACE) -> None:
        self._reception = reception
        self._say = say
        self._last: ClientStage | None = None
        self._around: Visited | None = None
        self.dialect = dialect
        self.pace = pace

    @asynccontextmanager
    async def stage(self, requirement: Requirement) -> AsyncIterator[Stage]:
        """The connection that is there, or the next one the editor makes."""
        stage = self._going_on(requirement) or await self._fresh(requirement)
        try:
            yield stage
        finally:
            stage.sweep()
            self._last = stage

    def _going_on(self, requirement: Requirement) -> ClientStage | None:
        last = self._last
        goes_on = requirement.chapter in GO_ON and requirement.id not in BEGIN
        if last is None or last.gone is not None or not goes_on:
            return None
        self._say(f"{requirement.id}: type a prompt in the same thread")
        stage = ClientStage(last.transport, self.dialect, self.pace, last.grounds, needs=requirement.needs)
        stage.go_on(last)
        return stage

    async def _fresh(self, requirement: Requirement) -> ClientStage:
        await self.close()
        self._say(f"{requirement.id}: open a new thread with the agent and type a prompt")
        visitor = await self._reception.visitor()
        self._around = Visited(visitor.about.get("cwd") or "/", say=self._say)
        line = self._around.received(visitor)
        return ClientStage(line, self.dialect, self.pace, self._around, needs=requirement.needs)

    async def close(self) -> None:
        """Let the stand-in go."""
        if self._around is not None:
            await self._around.let_go()
        self._last = self._around = None


@contextmanager
def received() -> Iterator[Reception]:
    """A reception whose door is where it was the last time, so that an editor is configured once.

    A second check at the same time gets a door of its own.
    """
    with ExitStack() as held:
        path = ""
        with suppress(OSError):
            folder = _private()
            lock = held.enter_context(open(os.path.join(folder, "check-door.lock"), "wb"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path = os.path.join(folder, "check-door")
            with suppress(FileNotFoundError):  # of one that was killed
                os.unlink(path)
        reception = Reception(path)
        held.callback(reception.close)
        yield reception


def _private() -> str:
    """A folder of this user's that nobody else may enter, the same each time; raises OSError where there is none."""
    above = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    folder = os.path.join(above, f"dragoman-{os.getuid()}")
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is not for this user alone")
    return folder


def command(reception: Reception) -> list[str]:
    """What to configure in the editor."""
    return words(reception.path)
