"""A sound client on our own library, and its broken twins: the same with one fault.

`converse` is the client: it opens a session or takes one up, prompts once, shows the text, answers what it is asked,
cancels on Ctrl-C. A fault changes its messages (`twin.Fault`), the bytes it reads, or how it treats its agent's process
(traits). As a command, for trying the whole of `dragoman check client` on it:

    dragoman check client -- python -m dragoman.conformance.client_twin --fault client.rpc.04 -- {agent}
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from dragoman import AgentExited, ClientTurn, ConnectionFailed, ProtocolError, WorkspaceAccess, connect
from dragoman.conformance.client_choosing import taken_up
from dragoman.conformance.client_memory import MemoryClient, Surroundings
from dragoman.conformance.harness.timeouts import MEMORY, Pace
from dragoman.conformance.twin import Fault, Faulty, faults
from dragoman.schema.content import TextContent
from dragoman.schema.update import AgentMessageChunk
from dragoman.transport.base import Transport
from dragoman.transport.stream import StreamTransport
from dragoman.wire.frames import Frame, LineSplitter

# What a bad reader does with what one read call gave it.
Reads = Callable[[bytes], bytes]

INTERRUPTED = 130  # as shells count
CRASH = "Traceback (most recent call last):\n  the seeded fault\n"


class ClientFault(Fault, frozen=True, kw_only=True):
    """A fault of a client: besides its messages, how it reads bytes and how it treats its agent's process."""

    reads: Callable[[], Reads] | None = None
    traits: frozenset[str] = frozenset()


SOUND = ClientFault()


def traits_of(fault: Fault) -> frozenset[str]:
    """What a fault does beyond the wire; those written with `seeding` do nothing there."""
    return fault.traits if isinstance(fault, ClientFault) else frozenset()


def trait(*names: str) -> ClientFault:
    """A fault in how the agent's process is treated, or in what the program does."""
    return ClientFault(traits=frozenset(names))


class Life(msgspec.Struct):
    """What the program of the client uses of the world."""

    cwd: str
    show: Callable[[str], None]
    say: Callable[[str], None]
    interrupted: asyncio.Event
    how: Callable[[ConnectionFailed], str]
    """How an agent left: `death` or `closed output`."""


async def converse(target: Transport | list[str] | str, fault: Fault, dialect: str, life: Life) -> int:
    """Be the client, with this fault; gives the exit status."""
    traits = traits_of(fault)
    lines: list[Faulty] = []
    is_met = False

    def faulty(line: Transport) -> Transport:
        lines.append(Faulty(line, fault))
        return lines[-1]

    leaving = Leaving(life.interrupted, traits)
    try:
        async with connect(
            target,
            dialect=dialect,
            cwd=life.cwd,
            permission="allow",
            workspace=WorkspaceAccess(),
            elicit={"form": lambda _: {"name": "Ada"}},
            trace=faulty,
        ) as agent:
            is_met = True
            session = await taken_up(agent, life.cwd, life.say)
            async with session.prompt("Hello") as turn, leaving.by(turn):
                async for update in turn:
                    if "prints a trace" in traits and "vendor_tides" in repr(update):
                        life.say(CRASH)
                    if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContent):
                        life.show(update.content.text)
            life.say(f"the turn ended: {turn.stop_reason}\n")
    except ConnectionFailed as error:
        life.say(f"{error}\n")
        how = life.how(error)
        if f"hangs on a {how if is_met else 'still birth'}" in traits:
            await asyncio.Event().wait()
        if is_met and how == "death" and "hides deaths" in traits:
            return 0
        return _crashed(lines, life) or 1
    except ProtocolError as error:
        life.say(f"{error}\n")
        return _crashed(lines, life) or 1
    except asyncio.CancelledError:
        if not leaving.is_left:
            raise
        return INTERRUPTED
    return _crashed(lines, life)


class Leaving:
    """Ctrl-C: the first cancels the turn, the second leaves."""

    def __init__(self, interrupted: asyncio.Event, traits: frozenset[str]) -> None:
        self.is_left = False
        self._interrupted = interrupted
        self._is_deaf = "deaf to Ctrl-C" in traits

    @asynccontextmanager
    async def by(self, turn: ClientTurn) -> AsyncIterator[None]:
        """While this turn runs."""
        task = asyncio.ensure_future(self._watch(turn, asyncio.current_task()))
        try:
            yield
        finally:
            task.cancel()

    async def _watch(self, turn: ClientTurn, whole: asyncio.Task[Any] | None) -> None:
        await self._interrupted.wait()
        self._interrupted.clear()
        turn.cancel()
        await self._interrupted.wait()
        if whole is not None and not self._is_deaf:
            self.is_left = True
            whole.cancel()


def _crashed(lines: list[Faulty], life: Life) -> int:
    if any(line.is_dead for line in lines):
        life.say(CRASH)
        return 1
    return 0


def twin(id: str, dialect: str, *, pace: Pace = MEMORY) -> MemoryClient:
    """The twin with this fault ("" for the sound one), in memory."""
    fault = faults()[id] if id else SOUND
    reads = fault.reads if isinstance(fault, ClientFault) else None

    async def program(line: StreamTransport, around: Surroundings) -> int:
        life = Life(around.cwd, around.shown.append, around.said.append, around.interrupted, lambda _: around.deed)
        return await converse(misread(line, reads()) if reads else line, fault, dialect, life)

    return MemoryClient(program, dialect, traits=traits_of(fault), pace=pace)


def misread(line: StreamTransport, reads: Reads) -> StreamTransport:
    """The same line, read badly: what a read call gives passes through the fault first."""
    line._splitter = _Misreader(reads)  # the one place where a transport lets bytes be seen
    return line


class _Misreader(LineSplitter):
    def __init__(self, reads: Reads) -> None:
        super().__init__()
        self._reads = reads

    def feed(self, data: bytes) -> list[Frame]:
        return super().feed(self._reads(data))


def main(arguments: list[str]) -> int:
    """Start the agent that is named after `--` and be its client."""
    import argparse

    mark = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(prog="python -m dragoman.conformance.client_twin", description=__doc__)
    parser.add_argument("--fault", default="", metavar="ID", help="the id of the requirement that must find it")
    parser.add_argument("--dialect", default="v1")
    options = parser.parse_args(arguments[:mark])
    if options.fault and options.fault not in faults():
        parser.error(f"there is no fault for {options.fault}")
    fault = faults()[options.fault] if options.fault else SOUND
    return asyncio.run(_run(arguments[mark + 1 :], fault, options.dialect))


async def _run(agent: Sequence[str], fault: Fault, dialect: str) -> int:
    interrupted = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupted.set)

    def printed(stream: Any) -> Callable[[str], None]:
        def put(text: str) -> None:
            stream.write(text)
            stream.flush()

        return put

    traits = traits_of(fault)
    reads = fault.reads if isinstance(fault, ClientFault) else None
    target: Transport | list[str] | str = agent[0] if len(agent) == 1 and "://" in agent[0] else list(agent)
    child: subprocess.Popen[bytes] | None = None
    if reads or traits & PROCESS_TRAITS:
        child = _started(agent, traits)
        assert child.stdin is not None
        assert child.stdout is not None
        line = StreamTransport(os.dup(child.stdout.fileno()), os.dup(child.stdin.fileno()), peer="the agent")
        child.stdin.close()
        child.stdout.close()
        target = misread(line, reads()) if reads else line
    life = Life(os.getcwd(), printed(sys.stdout), printed(sys.stderr), interrupted, _how)
    status = await converse(target, fault, dialect, life)
    if child is not None:
        await asyncio.to_thread(_ended, child, traits, "orphans when left" if status == INTERRUPTED else "orphans")
    return status


def _how(error: ConnectionFailed) -> str:
    return "death" if isinstance(error, AgentExited) else "closed output"


# Those that only a process of its own can have.
PROCESS_TRAITS = frozenset(
    {"unread stderr", "orphans", "orphans when left", "orphans the wrapped", "spares the deaf", "bare environment"}
)


def _started(agent: Sequence[str], traits: frozenset[str]) -> subprocess.Popen[bytes]:
    """Start the agent as badly as the traits say."""
    return subprocess.Popen(
        list(agent),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if "unread stderr" in traits else subprocess.DEVNULL,
        env={"PATH": os.environ.get("PATH", "")} if "bare environment" in traits else None,
    )


def _ended(child: subprocess.Popen[bytes], traits: frozenset[str], leaving: str) -> None:
    """End the agent as badly as the traits say: not at all, only what was started itself, or only by asking."""
    for strike in () if leaving in traits else (child.terminate, child.kill):
        try:
            child.wait(1.0)
        except subprocess.TimeoutExpired:
            strike()
        if "spares the deaf" in traits:
            return


if __name__ == "__main__":
    from importlib import import_module

    # The faults register themselves in the module by its own name, not in this one, which is called __main__.
    sys.exit(import_module("dragoman.conformance.client_twin").main(sys.argv[1:]))
