"""The grounds of a client of which only our stand-in is known: what a probe can do with it and see of it.

Whoever started it: a command that we watch (`client_process`) or an editor (`client_serving`). Below is the reception
of the testing kit; knows nothing of what is said on the pipes.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress

from dragoman.conformance.harness.client_environment import Ending
from dragoman.conformance.harness.targets import FAREWELL
from dragoman.testing.reception import Visitor
from dragoman.transport.stream import StreamTransport


class Visited:
    """The grounds of a client of which only the stand-in is known."""

    def __init__(
        self,
        cwd: str,
        *,
        is_wrapped: bool = False,
        is_watched: bool = False,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.cwd = cwd
        self._say = say
        self.is_wrapped = is_wrapped
        self.is_watched = is_watched
        self.visitor: Visitor | None = None
        self.line: StreamTransport | None = None
        self._is_deaf = asyncio.Event()
        self._is_gone = asyncio.Event()
        self._watch: asyncio.Future[None] | None = None

    def received(self, visitor: Visitor) -> StreamTransport:
        """From now on this is its stand-in; gives the line to the client."""
        self.visitor = visitor
        self.line = StreamTransport(visitor.stdin, visitor.stdout, peer="the client")
        self._watch = asyncio.ensure_future(self._look(visitor, self.line))
        return self.line

    async def _look(self, visitor: Visitor, line: StreamTransport) -> None:
        """Hear what the stand-in says; when it has ended, its pipes end as well, though it is we who hold them."""
        with suppress(OSError):
            while await asyncio.get_running_loop().sock_recv(visitor.link, 64):
                self._is_deaf.set()
        self._is_gone.set()
        await line.close("its agent has ended")

    async def let_go(self) -> None:
        """Close the line, and let the stand-in go."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        if self.line is not None:
            await self.line.close()
        if self.visitor is not None:
            self.visitor.let_go()

    def ending(self) -> Ending:
        """Nobody knows how things stand with the client."""
        return Ending(None, "", "")

    async def over(self, seconds: float) -> Ending:
        """It is not waited for."""
        return self.ending()

    def interrupt(self) -> bool:
        """Nobody but the user can, who is asked to."""
        if self._say is not None:
            self._say("cancel the turn in the editor now")
        return self._say is not None

    async def complain(self, data: bytes, seconds: float) -> bool:
        """Write to the stderr that the client gave its agent."""
        assert self.visitor is not None
        fd, end = self.visitor.stderr, time.monotonic() + seconds
        os.set_blocking(fd, False)
        while data:
            try:
                data = data[os.write(fd, data[:65536]) :]
            except BlockingIOError:
                if time.monotonic() > end:
                    return False
                await asyncio.sleep(0.005)
            except OSError:
                return True  # it closed the pipe: nothing can be blocked by it
        return True

    async def die(self, status: int) -> None:
        """End the stand-in, then its pipes."""
        assert self.visitor is not None
        assert self.line is not None
        self.visitor.order(f"exit {status}" if status >= 0 else f"kill {-status}")
        await self.remains(FAREWELL.term)
        await self.line.close()

    async def mute(self) -> None:
        """Nobody else holds the pipe."""
        assert self.line is not None
        await self.line.hang_up()

    async def deafen(self) -> None:
        """The stand-in says when it is deaf."""
        assert self.visitor is not None
        self.visitor.order("deaf")
        async with asyncio.timeout(FAREWELL.kill):
            await self._is_deaf.wait()

    def dismiss(self) -> None:
        """The stand-in goes, as an agent does at the end of its input."""
        if self.visitor is not None:
            self.visitor.order("exit 0")

    async def remains(self, seconds: float) -> bool:
        """Whether the stand-in still holds its end of the line after so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._is_gone.wait()
        return not self._is_gone.is_set()

    def inherits(self, name: str) -> bool:
        """Whether the stand-in was given this variable."""
        return self.visitor is not None and name in self.visitor.about.get("environment", [])
