"""One run: mutated frames over whole connections, in rounds; each round ends with a normal turn.

`AgentRun` acts as the client of one of our agents, `ClientRun` as the agent of one of our clients. Both count answers
with `Due`, and fail on a traceback in the log, an exception that nobody handles, or a turn that does not end.
"""

from __future__ import annotations

import asyncio
import logging
import random
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import msgspec

from dragoman import Agent, connect
from dragoman.errors import ProtocolError, TransportClosed
from dragoman.schema.side import Side
from dragoman.transport.memory import MemoryTransport, memory_pair
from tests.fuzz.expected import Due, key_of
from tests.fuzz.mutate import Mutator
from tests.fuzz.peers import AGENTS, CLIENTS, about
from tests.fuzz.seeds import load

# Frames between two normal turns, and after how many rounds a fresh connection begins.
ROUND = 1000
ROUNDS = 5

# Frames that are sent before the other end may run: as many as one read of a pipe brings.
BURST = 50

# Agents that hear a mutated introduction, before one that is introduced as it should be.
INTRODUCTIONS = 25

# Waiting longer for an answer means that it never comes.
TIMEOUT = 30.0


class Surfaced(logging.Handler):
    """Errors that must not occur."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(logging.Formatter().format(record))

    def on_loop(self, _: Any, context: dict[str, Any]) -> None:
        self.found.append(f"{context.get('message')}: {context.get('exception')!r}")


@contextmanager
def watched() -> Iterator[Surfaced]:
    """Collect log records and warnings."""
    surfaced = Surfaced()
    loggers = [logging.getLogger("dragoman"), logging.getLogger("asyncio")]
    for logger in loggers:
        logger.addHandler(surfaced)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield surfaced
            surfaced.found += [str(warning.message) for warning in warned]
    finally:
        for logger in loggers:
            logger.removeHandler(surfaced)


class Run:
    """The common part of both sides: send, count, and wait until everything is answered."""

    side: Side

    def __init__(self, dialect: str, seed: str) -> None:
        self.dialect = dialect
        rng = random.Random(f"{seed} {dialect} {self.side.value}")
        self.rng = rng
        self.mutator = Mutator(load(dialect, self.side), rng)
        self.frames = self.valid = self.requests = 0
        self.faults: list[str] = []
        self.last: list[bytes] = []
        self.begin()

    def begin(self) -> None:
        """A fresh connection."""
        self.due = Due(checks_ids=self.dialect == "v2")
        self.live = "none"
        self.own: dict[Any, asyncio.Future[Any]] = {}
        self._asked = 0
        self.waiting: asyncio.Future[None] | None = None

    async def go(self, frames: int, surfaced: Surfaced) -> None:
        """Send so many mutated frames."""
        asyncio.get_running_loop().set_exception_handler(surfaced.on_loop)
        while self.frames < frames:
            self.begin()
            async with asyncio.timeout(TIMEOUT * ROUNDS):
                await self.connection(frames, surfaced)
            self.frames += self.due.frames
            self.valid += self.due.valid
            self.requests += self.due.requests

    async def connection(self, frames: int, surfaced: Surfaced) -> None:
        """Run everything on one connection."""
        raise NotImplementedError

    async def normal_turn(self) -> None:
        """Run a normal turn."""
        raise NotImplementedError

    async def rounds(self, frames: int, surfaced: Surfaced) -> None:
        """Rounds of mutated frames, each ended by a normal turn."""
        for _ in range(ROUNDS):
            self.last.clear()
            target = self.due.frames + ROUND
            while self.due.frames < target:
                for _ in range(BURST):
                    self.send(self.mutator.frame(self.live))
                await self.burst()
            await self.wait_settled()
            await self.normal_turn()
            self.due.check()
            assert not surfaced.found, "\n".join(surfaced.found[:3])
            assert not self.faults, "\n".join(self.faults[:3])
            if self.frames + self.due.frames >= frames:
                break

    async def burst(self) -> None:
        """Let the other end read."""
        await asyncio.sleep(0)

    def send(self, frame: bytes) -> None:
        self.last.append(frame)
        self.due.sent(frame)
        self.transport.send(frame)

    transport: MemoryTransport
    pumping: asyncio.Task[None]

    async def wait_settled(self) -> None:
        """Wait for all expected answers; a final request makes sure that all frames were read."""
        await self.ask("_are/you/there", {}, may_fail=True)
        if not self.due.is_settled:
            self.waiting = asyncio.get_running_loop().create_future()
            await self.until(self.waiting)
        missing = [self.due.named[key] for key in self.due.open]
        assert not missing, f"{len(missing)} not answered, such as {missing[:3]}"

    async def until(self, waiting: asyncio.Future[Any]) -> None:
        """Wait for a condition, while the other end is connected."""
        await asyncio.wait({waiting, self.pumping}, timeout=TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
        if self.pumping.done():
            self.pumping.result()

    async def pump(self) -> None:
        """Read from the other end until it disconnects."""
        try:
            while True:
                for frame in await self.transport.receive():
                    assert isinstance(frame, bytes)
                    self.receive_message(msgspec.json.decode(frame))
        except TransportClosed:
            return

    def receive_message(self, message: dict[str, Any]) -> None:
        if "method" in message:
            if "id" in message:
                self.due.asked.add(key_of(message["id"]))
                self.serve(message)
            else:
                self.on_notification(message)
            return
        waiting = self.own.pop(message.get("id"), None)
        if waiting is not None:
            waiting.set_result(message)
            return
        self.due.on_answer(message)
        if self.waiting is not None and self.due.is_settled:
            self.waiting.set_result(None)
            self.waiting = None
        data = message.get("error", {}).get("data", {})
        if "exception" in data:
            self.faults.append(f"an internal error was sent to the peer: {message}")

    def serve(self, message: dict[str, Any]) -> None:
        """A request of the other end."""
        raise NotImplementedError

    def on_notification(self, message: dict[str, Any]) -> None:
        """A notification of the other end."""

    def reply(self, id: Any, result: Any) -> None:
        self.transport.send(msgspec.json.encode({"jsonrpc": "2.0", "id": id, "result": result}))

    def refuse(self, id: Any) -> None:
        error = {"code": -32601, "message": "not here"}
        self.transport.send(msgspec.json.encode({"jsonrpc": "2.0", "id": id, "error": error}))

    async def ask(self, method: str, params: Any, *, may_fail: bool = False) -> Any:
        """Send a valid request and return its result."""
        self._asked += 1
        id = f"normal-{self._asked}"
        self.own[id] = asyncio.get_running_loop().create_future()
        self.transport.send(msgspec.json.encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
        waiting = self.own[id]
        await self.until(waiting)
        assert waiting.done(), f"{method} was never answered"
        message = waiting.result()
        assert may_fail or "result" in message, f"{method} failed: {message}"
        return message.get("result")


class AgentRun(Run):
    """Mutated frames to an agent of ours."""

    side = Side.AGENT
    _said = 0
    _idle: asyncio.Future[Any] | None = None

    async def connection(self, frames: int, surfaced: Surfaced) -> None:
        for _ in range(INTRODUCTIONS):
            async with self._attached():
                self.send(self.mutator.about("initialize"))
                self.send(self.mutator.about("session/new"))
                await self.wait_settled()
        async with self._attached():
            await self.ask("initialize", CLIENTS[self.dialect].initialize)
            await self.normal_turn()
            await self.rounds(frames, surfaced)

    @asynccontextmanager
    async def _attached(self) -> AsyncIterator[None]:
        self.transport, theirs = memory_pair()
        connection = _echo(self.dialect).start_connection(theirs, report=lambda _: None)
        self.pumping = asyncio.create_task(self.pump())
        try:
            yield
        finally:
            await connection.close()
            await asyncio.wait_for(self.pumping, TIMEOUT)

    async def normal_turn(self) -> None:
        words = CLIENTS[self.dialect]
        self._chosen = f"chosen-{self.rng.random()}"
        opened = await self.ask("session/new", about(self._chosen, words.new))
        self.live = opened.get("sessionId") or opened.get("session_id") or self._chosen
        self._said = 0
        self._idle = asyncio.get_running_loop().create_future()
        ended = await self.ask("session/prompt", about(self.live, words.prompt))
        if self.dialect == "v2":
            assert "messageId" in ended, ended
            await self.until(self._idle)
            assert self._idle.done(), "the work never ended"
            ended = {"stopReason": self._idle.result()}
        assert ended.get("stopReason", ended.get("stop_reason", ended.get("status"))) in ("end_turn", "ok"), ended
        assert self._said == 1, f"the turn said {self._said} chunks"

    def on_notification(self, message: dict[str, Any]) -> None:
        text = msgspec.json.encode(message)
        update = message["params"].get("update", {}) if message["method"] == "session/update" else {}
        idle = self._idle if update.get("state") == "idle" and message["params"]["sessionId"] == self.live else None
        if idle is not None and not idle.done():
            idle.set_result(update.get("stopReason"))
        self._said += message["method"] == "session/update" and b"heard: are you there?" in text

    def serve(self, message: dict[str, Any]) -> None:
        self.refuse(message["id"])

    def receive_message(self, message: dict[str, Any]) -> None:
        super().receive_message(message)
        result = message.get("result")
        if isinstance(result, dict) and isinstance(result.get("sessionId"), str):
            self.live = result["sessionId"]  # the last one may have been deleted


def _echo(dialect: str) -> Agent:
    agent = Agent("echo", version="1", dialect=dialect, image=True, audio=True)

    @agent.prompt
    async def answer(turn: Any) -> None:
        await turn.say(f"heard: {turn.text[:100]}")
        await asyncio.sleep(0)

    return agent


class ClientRun(Run):
    """Mutated frames to a client of ours."""

    side = Side.CLIENT

    async def connection(self, frames: int, surfaced: Surfaced) -> None:
        theirs, self.transport = memory_pair()
        self._mutating = False
        self._calls: set[asyncio.Task[None]] = set()
        self._held: asyncio.Task[None] | None = None  # the turn during which mutated frames arrive
        self.pumping = asyncio.create_task(self.pump())
        options: dict[str, Any] = {"dialect": self.dialect, "cwd": "/", "report": lambda _: None}
        try:
            async with connect(theirs, permission="allow", on=HANDLERS, **options) as self._agent:
                self._awaits = self.rng.random() < 0.5
                await self.normal_turn()
                await self.rounds(frames, surfaced)
                self._end_held()
        finally:
            await self.transport.close()
            await asyncio.wait_for(self.pumping, TIMEOUT)

    async def burst(self) -> None:
        """Sometimes let our client send a request, and answer it with a mutated frame."""
        self._mutating = True
        agent, rng = self._agent, self.rng
        if self._held is None:
            self._held = asyncio.create_task(self._attempt(self._session.ask(HOLD)))
        for _ in range(3):
            call = rng.choice(
                (
                    agent.open_session,
                    agent.load_session,
                    agent.resume_session,
                    agent.list_sessions,
                    agent.fork_session,
                    self._prompt,
                )
            )
            arguments = (
                ("/",)
                if call == agent.open_session
                else ()
                if call in (agent.list_sessions, self._prompt)
                else ("s", "/")
            )
            task = asyncio.create_task(self._attempt(call(*arguments)))
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)
        await asyncio.sleep(0)

    async def _prompt(self) -> None:
        session = await self._agent.load_session("prompted", "/")
        async with session.prompt("go on") as turn:
            await turn.wait()

    async def _attempt(self, call: Any) -> None:
        try:
            await call
        except ProtocolError:
            pass
        except Exception as error:
            self.faults.append(f"not a ProtocolError: {error!r}")

    async def wait_settled(self) -> None:
        await super().wait_settled()
        self._mutating = False
        self._end_held()
        if self._calls:
            _, pending = await asyncio.wait(set(self._calls), timeout=TIMEOUT)
            assert not pending, f"requests of ours that never ended: {pending}"

    def _end_held(self) -> None:
        if self._held is not None:
            self._calls.add(self._held)
            self._held.add_done_callback(self._calls.discard)
            self._held = None
            if self.dialect == "v2":
                self._run_work(self._held_session, self._held_id)
                for _ in range(2):  # the prompts that were answered with mutated frames
                    self._tell("prompted", sessionUpdate="state_update", state="running")
                    self._tell("prompted", sessionUpdate="state_update", state="idle", stopReason="end_turn")
            else:
                self.reply(self._held_id, AGENTS[self.dialect].prompt)

    def _tell(self, session: str, **update: Any) -> None:
        params = {"sessionId": session, "update": update}
        self.transport.send(msgspec.json.encode({"jsonrpc": "2.0", "method": "session/update", "params": params}))

    def _run_work(self, session: str, id: Any, chunk: Any = None) -> None:
        """Insert a prompt of v2, work, and end the work."""
        self.reply(id, AGENTS["v2"].prompt)
        self._tell(session, sessionUpdate="state_update", state="running")
        if chunk is not None:
            self._tell(session, **chunk["update"])
        self._tell(session, sessionUpdate="state_update", state="idle", stopReason="end_turn")

    def serve(self, message: dict[str, Any]) -> None:
        method, id = message["method"], message["id"]
        if HOLD in str(message.get("params")):
            self._held_id, self._held_session = id, str(message["params"].get("sessionId"))
        elif self._mutating:
            answer = self.mutator.answer(method, id)
            self.last.append(answer)
            expected = self.due.sent(answer)
            self.transport.send(answer)
            if expected is None or "method" in expected or key_of(expected.get("id", "")) != key_of(id):
                self.refuse(id)
        else:
            self._serve_well(method, id, message["params"])

    def _serve_well(self, method: str, id: Any, params: Any) -> None:
        words = AGENTS[self.dialect]
        if method == "initialize":
            self.reply(id, words.initialize)
        elif method == "session/new":
            self.live = params.get("session_id") or f"opened-{id}"
            named = {"session_id": self.live, "status": "ok"} if self.dialect == "2025.1" else {"sessionId": self.live}
            self.reply(id, named)
        elif method == "session/prompt" and self.dialect == "v2":
            self._run_work(params["sessionId"], id, words.chunk)
        elif method == "session/prompt":
            chunk = {"jsonrpc": "2.0", "method": "session/update", "params": about(self.live, words.chunk)}
            self.transport.send(msgspec.json.encode(chunk))
            self.reply(id, words.prompt)
        else:
            self.refuse(id)

    async def normal_turn(self) -> None:
        self._session = session = await self._agent.open_session("/")
        if self._awaits:
            session.on_update = _wait_a_pass
        async with asyncio.timeout(TIMEOUT):
            assert await session.ask("are you there?") == "here"


# What our client says in the turn that is kept open.
HOLD = "until the round is over"


async def _wait_a_pass(_: Any) -> None:
    await asyncio.sleep(0)


async def _read(_: Any) -> Any:
    await asyncio.sleep(0)
    return {"content": "what it says"}


HANDLERS = {
    "fs/read_text_file": _read,
    "fs/write_text_file": lambda _: {},
    "terminal/create": lambda _: {"terminalId": "t"},
    "terminal/output": lambda _: {"output": "", "truncated": False, "exitStatus": {"exitCode": 0}},
    "terminal/wait_for_exit": lambda _: {"exitCode": 0},
    "terminal/kill": lambda _: {},
    "terminal/release": lambda _: {},
}
