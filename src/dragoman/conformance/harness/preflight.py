"""A first look at a peer before the check: its dialect, and whether a plain turn works.

Raises StartFailed, with what to do next, when there is nothing to check.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.harness.client import ClientUnderTest, offer_choices, offer_sessions
from dragoman.conformance.harness.client_process import CommandClient
from dragoman.conformance.harness.hello import ALL, initialize
from dragoman.conformance.harness.peer import NoiseLimitExceeded
from dragoman.conformance.harness.targets import Target
from dragoman.conformance.requirement import Level, Requirement
from dragoman.conformance.verdict import ProbeEnded
from dragoman.dialect.detect import dialect_of_agent, dialect_of_client
from dragoman.errors import ACP_OPTION_HINT, AgentExited, StartFailed
from dragoman.schema.side import Side

# Not in the table: it requires nothing.
CLIENT_PREFLIGHT = Requirement(
    id="client.trial", side=Side.CLIENT, level=Level.MAY, sentence="A first look.", source=""
)

ADVICE = "run it by hand first, and see that it starts the agent of {agent} and prompts it"


class ClientPreflight(msgspec.Struct, frozen=True):
    """What a plain turn shows of a client."""

    dialect: str
    exits_after_turn: bool
    shows_text: bool


async def check_client(client: CommandClient, dialect: str = "") -> ClientPreflight:
    """Start the client once for its dialect, if unknown, and once for a whole turn.

    A client that sends no prompt may want a mode, an option or an older session, so offer them then.
    """
    try:
        client.dialect = dialect or await _detect_dialect(client)
        try:
            return await _run_turn(client)
        except ProbeEnded:
            return await _run_turn(client, offer_choices, offer_sessions)
    except ProbeEnded as found:
        raise StartFailed(f"{' '.join(str(found).split())}; {ADVICE}") from None


async def _detect_dialect(client: CommandClient) -> str:
    async with client.start(CLIENT_PREFLIGHT) as peer:
        assert isinstance(peer, ClientUnderTest)
        frame = await peer.hold_initialize()
        return dialect_of_client("initialize", frame.message.get("params")) or "v1"


async def _run_turn(client: CommandClient, *offers: Callable[[ClientUnderTest], None]) -> ClientPreflight:
    async with client.start(CLIENT_PREFLIGHT) as peer:
        assert isinstance(peer, ClientUnderTest)
        for offer in offers:
            offer(peer)
        prompt = await peer.begin_turn()
        peer.end_turn(prompt)
        ending = await peer.wait_exit()
        return ClientPreflight(client.dialect, peer.closed is not None, "check-begin" in ending.stdout)


# Not in the table: it requires nothing.
AGENT_PREFLIGHT = Requirement(id="agent.look", side=Side.AGENT, level=Level.MAY, sentence="A first look.", source="")

# The dialects to try on an agent, the official ones first. Banjo cannot be distinguished from v1.
LADDER = ("v1", "v2", "draft", "crow", "2025.1")

# The time for all dialects: agents that load a runtime need up to half a minute on a busy machine. Seconds.
DEADLINE = 40.0

# After this time without an answer the next dialect is tried in parallel. Seconds.
NEXT = 6.0

# How often to report that we wait. Seconds.
BEAT = 0.5

# How much of the end of stderr explains a silent agent. Lines, characters.
LINES, CHARACTERS = 3, 400


class AgentPreflight(msgspec.Struct, frozen=True):
    """The answer of an agent to initialize; `why` says what was wrong with it."""

    dialect: str
    is_initialized: bool
    why: str = ""


class Attempt:
    """One dialect that is tried on a fresh agent."""

    def __init__(self, target: Target) -> None:
        self.dialect = target.dialect
        self.result: AgentPreflight | None = None
        self.why = ""
        self.is_flood = False
        self.is_silent = False
        self._agent: AgentUnderTest | None = None
        self.task = asyncio.ensure_future(self._connect(target))

    async def _connect(self, target: Target) -> None:
        try:
            async with target.start(AGENT_PREFLIGHT) as peer:
                assert isinstance(peer, AgentUnderTest)
                self._agent = peer
                params = initialize(self.dialect, peer.cwd, ALL[self.dialect])
                frame = await peer.wait_reply(peer.call("initialize", params), peer.timeouts.start)
                if any(each.method == "initialize" for each in peer.received):
                    self.why = f"it is not an ACP agent: it sends back what it gets; {ACP_OPTION_HINT}"
                elif frame is not None:
                    self._on_answer(frame.message)
                elif peer.closed is not None:
                    self._note_end(peer, peer.closed)
                else:
                    self.note_silence(peer.timeouts.start)
        except ProbeEnded as found:
            self.why = str(found)

    def _note_end(self, peer: AgentUnderTest, error: BaseException) -> None:
        """Note how the connection ended; of a process, also what it wrote that is no message."""
        self.why, self.is_flood = str(error), isinstance(error, NoiseLimitExceeded)
        if isinstance(error, AgentExited):
            noise = next((frame.evidence.text.strip() for frame in peer.received if frame.message is None), "")
            error.stdout = noise
            self.why += error.advice

    def _on_answer(self, message: dict[str, object]) -> None:
        result = message.get("result")
        if isinstance(result, dict):
            self.result = AgentPreflight(dialect_of_agent(result) or self.dialect, True)
            return
        self.why = "it answered initialize with no object"
        if "error" in message:
            self.why = f"it refused initialize: {message['error']}"
        self.result = AgentPreflight(self.dialect, False, self.why)

    @property
    def is_process(self) -> bool:
        """Whether a command of the user runs it."""
        return self._agent is not None and hasattr(self._agent.transport, "stderr_tail")

    def note_silence(self, seconds: float) -> None:
        """Note that nothing came, with the end of the agent's stderr."""
        self.is_silent = True
        if self._agent is None:
            self.why = f"it could not be reached within {seconds:g} seconds"
            return
        stderr = getattr(self._agent.transport, "stderr_tail", str)().strip().splitlines()[-LINES:]
        tail = f"; the end of its stderr: {' / '.join(stderr)[-CHARACTERS:]}" if stderr else ""
        noise = sum(frame.message is None for frame in self._agent.received)
        lines = f", but wrote {noise} lines that are not messages" if noise else ""
        started = "was started, and " if self.is_process else ""
        self.why = f"it {started}did not answer initialize within {seconds:g} seconds{lines}{tail}"


async def check_agent(
    agent: Callable[[str], Target], dialect: str = "", report: Callable[[str], None] = lambda _: None
) -> AgentPreflight:
    """Return the dialect in which an agent answers initialize; `report` gets what we wait for.

    With a known dialect any answer counts; otherwise only a result does.
    """
    ladder = [dialect] if dialect else list(LADDER)
    seconds = agent(dialect).timeouts.start if dialect else DEADLINE
    attempts: list[Attempt] = []
    started = asyncio.get_running_loop().time()
    try:
        while (past := asyncio.get_running_loop().time() - started) < seconds:
            if found := _best(attempts, any_answer=bool(dialect)):
                return found
            running = [attempt.task for attempt in attempts if not attempt.task.done()]
            is_flood = any(attempt.is_flood for attempt in attempts)  # in no other dialect would it end
            due = not running or past >= NEXT * len(attempts)
            if not is_flood and len(attempts) < len(ladder) and due:
                attempts.append(Attempt(agent(ladder[len(attempts)])))
                continue
            if not running or is_flood:
                break
            names = ", ".join(attempt.dialect for attempt in attempts)
            report(f"waiting for the agent to answer initialize ({names}): {past:.0f} of {seconds:g} s")
            await asyncio.wait(running, timeout=BEAT, return_when=asyncio.FIRST_COMPLETED)
        for attempt in attempts:
            if not attempt.task.done() and not attempt.why:
                attempt.note_silence(seconds)
    finally:
        for attempt in attempts:
            attempt.task.cancel()
        await asyncio.gather(*(attempt.task for attempt in attempts), return_exceptions=True)
    raise StartFailed(_reason(attempts, dialect))


async def prompt_refusal(target: Target) -> dict[str, object]:
    """Return the error with which an agent answers a plain prompt; empty when it answers, or opens no session."""
    with suppress(ProbeEnded, TimeoutError):
        async with asyncio.timeout(target.timeouts.probe), target.start(AGENT_PREFLIGHT) as peer:
            assert isinstance(peer, AgentUnderTest)
            await peer.open_session()
            turn = await peer.wait_turn(peer.start_turn("plain"), peer.timeouts.turn)
            return dict(turn.answer.error) if turn.answer else {}
    return {}


def _best(attempts: Sequence[Attempt], *, any_answer: bool) -> AgentPreflight | None:
    for attempt in attempts:
        if attempt.task.done() and not attempt.task.cancelled():
            attempt.task.result()  # an agent that cannot be started at all says so here
        if attempt.result is not None and (attempt.result.is_initialized or any_answer):
            return attempt.result
    return None


def _reason(attempts: Sequence[Attempt], dialect: str) -> str:
    """Return why no attempt worked, preferring an answer over silence, and what to do next."""
    chosen = next((attempt for attempt in attempts if attempt.why and not attempt.is_silent), attempts[0])
    advice = []
    if not dialect and (chosen.result or chosen.is_silent):
        advice.append("say what it speaks with --dialect")
    if chosen.is_process:
        advice.append("start it by hand to see what is wrong")
    return "; ".join([chosen.why or "it did not answer initialize", *([", or ".join(advice)] if advice else [])])
