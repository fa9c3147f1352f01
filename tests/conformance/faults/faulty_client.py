"""Our own client, without a fault or with one.

A fault changes its messages, the bytes it reads, or how it treats its agent's process (traits). As a command:

    dragoman check client -- python -m tests.conformance.faults.faulty_client --fault client.rpc.04 -- {agent}
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
from dragoman.conformance.harness.peer import Timeouts
from dragoman.roles.client.remote_agent import RemoteAgent
from dragoman.roles.client.session import ClientSession
from dragoman.schema.content import TextContent
from dragoman.schema.update import AgentMessageChunk
from dragoman.transport.base import Transport
from dragoman.transport.stream import StreamTransport
from dragoman.wire.frames import Frame, LineSplitter
from tests.conformance.faults.fault import NO_FAULT, ClientFault, Fault, FaultyPeer, Reads, faults, traits_of
from tests.conformance.faults.memory_client import MemoryClient, MemoryEnvironment
from tests.conformance.memory_agent import MEMORY

INTERRUPTED = 130  # as shells count
CRASH = "Traceback (most recent call last):\n  the seeded fault\n"


class ClientRun(msgspec.Struct):
    """What the client's program uses of its environment."""

    cwd: str
    print_stdout: Callable[[str], None]
    print_stderr: Callable[[str], None]
    interrupted: asyncio.Event
    agent_end: Callable[[ConnectionFailed], str]
    """How an agent ended: `death` or `closed output`."""


async def run_client(target: Transport | list[str] | str, fault: Fault, dialect: str, life: ClientRun) -> int:
    """Run the client with this fault; return the exit status."""
    traits = traits_of(fault)
    lines: list[FaultyPeer] = []
    is_met = False

    def faulty(line: Transport) -> Transport:
        lines.append(FaultyPeer(line, fault))
        return lines[-1]

    leaving = CtrlC(life.interrupted, traits)
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
            session = await choose_session(agent, life.cwd, life.print_stderr)
            async with session.prompt("Hello") as turn, leaving.watch(turn):
                async for update in turn:
                    if "prints a trace" in traits and "vendor_tides" in repr(update):
                        life.print_stderr(CRASH)
                    if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContent):
                        life.print_stdout(update.content.text)
            life.print_stderr(f"the turn ended: {turn.stop_reason}\n")
    except ConnectionFailed as error:
        life.print_stderr(f"{error}\n")
        how = life.agent_end(error)
        if f"hangs on a {how if is_met else 'still birth'}" in traits:
            await asyncio.Event().wait()
        if is_met and how == "death" and "hides deaths" in traits:
            return 0
        return _crash_status(lines, life) or 1
    except ProtocolError as error:
        life.print_stderr(f"{error}\n")
        return _crash_status(lines, life) or 1
    except asyncio.CancelledError:
        if not leaving.is_leaving:
            raise
        return INTERRUPTED
    return _crash_status(lines, life)


async def choose_session(agent: RemoteAgent, cwd: str, say: Callable[[str], None]) -> ClientSession:
    """Return the session to prompt in; report what the agent refuses, and continue."""
    session = await _load_older(agent, cwd, say) or await agent.open_session(cwd=cwd)
    try:
        modes = [mode.id for mode in session.modes.available_modes] if session.modes else []
        if modes and modes[-1].startswith("check-"):
            await session.set_mode(modes[-1])
        for option in session.options:
            if option.id.startswith("check-"):
                await session.set_option(option.id, "large")
    except ProtocolError as error:
        say(f"{error}\n")
    return session


async def _load_older(agent: RemoteAgent, cwd: str, say: Callable[[str], None]) -> ClientSession | None:
    offered = agent.capabilities.session_capabilities
    if not (offered and offered.list):
        return None
    try:
        known = [info.session_id async for info in agent.iter_sessions(cwd)]
        if not known:
            return None
        if agent.capabilities.load_session:
            return await agent.load_session(known[-1], cwd)
        return await agent.resume_session(known[-1], cwd) if offered.resume else None
    except ProtocolError as error:
        say(f"{error}\n")
        return None


class CtrlC:
    """Handle Ctrl-C: the first cancels the turn, the second exits."""

    def __init__(self, interrupted: asyncio.Event, traits: frozenset[str]) -> None:
        self.is_leaving = False
        self._interrupted = interrupted
        self._is_deaf = "deaf to Ctrl-C" in traits

    @asynccontextmanager
    async def watch(self, turn: ClientTurn) -> AsyncIterator[None]:
        """Watch while this turn runs."""
        task = asyncio.ensure_future(self._watch(turn, asyncio.current_task()))
        try:
            yield
        finally:
            task.cancel()

    async def _watch(self, turn: ClientTurn, run: asyncio.Task[Any] | None) -> None:
        await self._interrupted.wait()
        self._interrupted.clear()
        turn.cancel()
        await self._interrupted.wait()
        if run is not None and not self._is_deaf:
            self.is_leaving = True
            run.cancel()


def _crash_status(lines: list[FaultyPeer], life: ClientRun) -> int:
    if any(line.is_dead for line in lines):
        life.print_stderr(CRASH)
        return 1
    return 0


async def run_sound_client(url: str, environment: MemoryEnvironment, dialect: str = "v1") -> int:
    """Run our own client without a fault."""
    life = ClientRun(
        environment.cwd,
        environment.stdout.append,
        environment.stderr.append,
        environment.interrupted,
        lambda _: environment.agent_end,
    )
    return await run_client(url, NO_FAULT, dialect, life)


def faulty_client(id: str, dialect: str, *, timeouts: Timeouts = MEMORY) -> MemoryClient:
    """Return the client with this fault ("" for none), in memory."""
    fault = faults()[id] if id else NO_FAULT
    reads = fault.reader if isinstance(fault, ClientFault) else None

    async def program(line: StreamTransport, environment: MemoryEnvironment) -> int:
        life = ClientRun(
            environment.cwd,
            environment.stdout.append,
            environment.stderr.append,
            environment.interrupted,
            lambda _: environment.agent_end,
        )
        return await run_client(read_badly(line, reads()) if reads else line, fault, dialect, life)

    return MemoryClient(program, dialect, traits=traits_of(fault), timeouts=timeouts)


def read_badly(line: StreamTransport, reads: Reads) -> StreamTransport:
    """Return the transport with a faulty reader."""
    line._splitter = FaultySplitter(reads)  # the one place where a transport lets bytes be seen
    return line


class FaultySplitter(LineSplitter):
    def __init__(self, reads: Reads) -> None:
        super().__init__()
        self._reads = reads

    def feed(self, data: bytes) -> list[Frame]:
        return super().feed(self._reads(data))


def main(arguments: list[str]) -> int:
    """Start the agent that is named after `--` and be its client."""
    import argparse

    mark = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.faults.faulty_client", description=__doc__)
    parser.add_argument("--fault", default="", metavar="ID", help="the id of the requirement that must find it")
    parser.add_argument("--dialect", default="v1")
    options = parser.parse_args(arguments[:mark])
    if options.fault and options.fault not in faults():
        parser.error(f"there is no fault for {options.fault}")
    fault = faults()[options.fault] if options.fault else NO_FAULT
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
    reads = fault.reader if isinstance(fault, ClientFault) else None
    target: Transport | list[str] | str = agent[0] if len(agent) == 1 and "://" in agent[0] else list(agent)
    child: subprocess.Popen[bytes] | None = None
    if reads or traits & PROCESS_TRAITS:
        child = _start_agent(agent, traits)
        assert child.stdin is not None
        assert child.stdout is not None
        line = StreamTransport(os.dup(child.stdout.fileno()), os.dup(child.stdin.fileno()), peer="the agent")
        child.stdin.close()
        child.stdout.close()
        target = read_badly(line, reads()) if reads else line
    life = ClientRun(os.getcwd(), printed(sys.stdout), printed(sys.stderr), interrupted, _agent_end)
    status = await run_client(target, fault, dialect, life)
    if child is not None:
        await asyncio.to_thread(_stop_agent, child, traits, "orphans when left" if status == INTERRUPTED else "orphans")
    return status


def _agent_end(error: ConnectionFailed) -> str:
    return "death" if isinstance(error, AgentExited) else "closed output"


# Traits that only a process of its own can have.
PROCESS_TRAITS = frozenset(
    {"unread stderr", "orphans", "orphans when left", "orphans the wrapped", "spares the deaf", "bare environment"}
)


def _start_agent(agent: Sequence[str], traits: frozenset[str]) -> subprocess.Popen[bytes]:
    """Start the agent as badly as the traits say."""
    return subprocess.Popen(
        list(agent),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if "unread stderr" in traits else subprocess.DEVNULL,
        env={"PATH": os.environ.get("PATH", "")} if "bare environment" in traits else None,
    )


def _stop_agent(child: subprocess.Popen[bytes], traits: frozenset[str], leaving: str) -> None:
    """End the agent as badly as the traits say: not at all, only the process itself, or only with SIGTERM."""
    for strike in () if leaving in traits else (child.terminate, child.kill):
        try:
            child.wait(1.0)
        except subprocess.TimeoutExpired:
            strike()
        if "spares the deaf" in traits:
            return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
