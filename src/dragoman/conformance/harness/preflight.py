"""A first look at a client before it is checked: what it speaks, whether it comes to a prompt, leaves, shows text.

Takes the subject, gives a Trial; raises StartFailed, with what to do, when there is nothing to check.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from dragoman.conformance.harness.agent import AgentStage
from dragoman.conformance.harness.client import ClientStage, offer_choices, offer_sessions
from dragoman.conformance.harness.client_process import CommandClient
from dragoman.conformance.harness.hello import ALL, initialize
from dragoman.conformance.harness.peer import Flooded
from dragoman.conformance.harness.targets import Subject
from dragoman.conformance.requirement import Level, Requirement
from dragoman.conformance.verdict import Found
from dragoman.dialect.detect import dialect_of_agent, dialect_of_client
from dragoman.errors import StartFailed
from dragoman.schema.side import Side

# Not of the table: it asks nothing, it only looks.
CLIENT_PREFLIGHT = Requirement(
    id="client.trial", side=Side.CLIENT, level=Level.MAY, sentence="A first look.", source=""
)

ADVICE = "run it by hand first, and see that it starts the agent of {agent} and prompts it"


class Trial(msgspec.Struct, frozen=True):
    """What a plain turn shows of a client."""

    dialect: str
    leaves: bool
    shows: bool


async def tried(client: CommandClient, dialect: str = "") -> Trial:
    """Meet the client once for its dialect, if that is not known, and once for a whole turn.

    One that comes to no prompt may want a mode, an option or an older session: it is then offered them.
    """
    try:
        client.dialect = dialect or await _spoken(client)
        try:
            return await _turn(client)
        except Found:
            return await _turn(client, offer_choices, offer_sessions)
    except Found as found:
        raise StartFailed(f"{' '.join(str(found).split())}; {ADVICE}") from None


async def _spoken(client: CommandClient) -> str:
    async with client.stage(CLIENT_PREFLIGHT) as stage:
        assert isinstance(stage, ClientStage)
        stage.held.add("initialize")
        heard = await stage.introduced()
        return dialect_of_client("initialize", heard.message.get("params")) or "v1"


async def _turn(client: CommandClient, *offers: Callable[[ClientStage], None]) -> Trial:
    async with client.stage(CLIENT_PREFLIGHT) as stage:
        assert isinstance(stage, ClientStage)
        for offer in offers:
            offer(stage)
        prompt = await stage.begun()
        stage.end(prompt)
        ending = await stage.over()
        return Trial(client.dialect, stage.gone is not None, "check-begin" in ending.shown)


# Not of the table: it asks nothing, it only looks.
AGENT_PREFLIGHT = Requirement(id="agent.look", side=Side.AGENT, level=Level.MAY, sentence="A first look.", source="")


# The ladder that finds out what an agent speaks: the official dialect first. Banjo cannot be told from it.
LADDER = ("v1", "draft", "crow", "2025.1")


# All dialects together get so long: agents that load a runtime need up to half a minute on a busy machine. Seconds.
DEADLINE = 40.0


# An agent that is silent for so long may not know the words: the next dialect is tried beside it. Seconds.
NEXT = 6.0


# Whoever waits at a terminal is told so often that we wait. Seconds.
BEAT = 0.5


# So much of the end of its stderr tells why an agent is silent. Lines, characters.
LINES, WORDS = 3, 400


class Look(msgspec.Struct, frozen=True):
    """What an agent answered to initialize; `why` says what was wrong where it did not introduce itself."""

    dialect: str
    is_introduced: bool
    why: str = ""


class Attempt:
    """One dialect that is tried on a fresh agent."""

    def __init__(self, subject: Subject) -> None:
        self.dialect = subject.dialect
        self.look: Look | None = None
        self.why = ""
        self.is_flood = False
        self.is_silent = False
        self._stage: AgentStage | None = None
        self.task = asyncio.ensure_future(self._meet(subject))

    async def _meet(self, subject: Subject) -> None:
        try:
            async with subject.stage(AGENT_PREFLIGHT) as stage:
                assert isinstance(stage, AgentStage)
                self._stage = stage
                params = initialize(self.dialect, stage.cwd, ALL[self.dialect])
                heard = await stage.answered(stage.call("initialize", params), stage.pace.start)
                if heard is not None:
                    self._answered(heard.message)
                elif stage.gone is not None:
                    self.why, self.is_flood = str(stage.gone), isinstance(stage.gone, Flooded)
                else:
                    self.silent(stage.pace.start)
        except Found as found:
            self.why = str(found)

    def _answered(self, message: dict[str, object]) -> None:
        result = message.get("result")
        if isinstance(result, dict):
            self.look = Look(dialect_of_agent(result) or self.dialect, True)
            return
        told = f"refused initialize: {message['error']}" if "error" in message else "answered initialize with no object"
        self.why = f"it {told}"
        self.look = Look(self.dialect, False, self.why)

    @property
    def is_process(self) -> bool:
        """Whether a command of the user's runs it."""
        return self._stage is not None and hasattr(self._stage.transport, "stderr_tail")

    def silent(self, seconds: float) -> None:
        """Remember that nothing came, with the last words of the agent."""
        self.is_silent = True
        if self._stage is None:
            self.why = f"it could not be reached within {seconds:g} seconds"
            return
        said = getattr(self._stage.transport, "stderr_tail", str)().strip().splitlines()[-LINES:]
        words = f"; the end of its stderr: {' / '.join(said)[-WORDS:]}" if said else ""
        noise = sum(heard.message is None for heard in self._stage.heard)
        lines = f", but wrote {noise} lines that are no messages" if noise else ""
        began = "was started, and " if self.is_process else ""
        self.why = f"it {began}did not answer initialize within {seconds:g} seconds{lines}{words}"


async def look(agent: Callable[[str], Subject], dialect: str = "", say: Callable[[str], None] = lambda _: None) -> Look:
    """The dialect an agent introduces itself in; `say` is told now and then what is waited for.

    Where the dialect is known any answer is one; else only an introduction is.
    """
    ladder = [dialect] if dialect else list(LADDER)
    seconds = agent(dialect).pace.start if dialect else DEADLINE
    attempts: list[Attempt] = []
    began = asyncio.get_running_loop().time()
    try:
        while (past := asyncio.get_running_loop().time() - began) < seconds:
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
            say(f"waiting for the agent to answer initialize ({names}): {past:.0f} of {seconds:g} s")
            await asyncio.wait(running, timeout=BEAT, return_when=asyncio.FIRST_COMPLETED)
        for attempt in attempts:
            if not attempt.task.done() and not attempt.why:
                attempt.silent(seconds)
    finally:
        for attempt in attempts:
            attempt.task.cancel()
        await asyncio.gather(*(attempt.task for attempt in attempts), return_exceptions=True)
    raise StartFailed(_reason(attempts, dialect))


def _best(attempts: Sequence[Attempt], *, any_answer: bool) -> Look | None:
    for attempt in attempts:
        if attempt.task.done() and not attempt.task.cancelled():
            attempt.task.result()  # an agent that cannot be started at all says so here
        if attempt.look is not None and (attempt.look.is_introduced or any_answer):
            return attempt.look
    return None


def _reason(attempts: Sequence[Attempt], dialect: str) -> str:
    """What an agent said tells more than that it was silent in another dialect; and what to do next."""
    told = next((attempt for attempt in attempts if attempt.why and not attempt.is_silent), attempts[0])
    advice = []
    if not dialect and (told.look or told.is_silent):
        advice.append("say what it speaks with --dialect")
    if told.is_process:
        advice.append("start it by hand to see what is wrong")
    return "; ".join([told.why or "it did not answer initialize", *([", or ".join(advice)] if advice else [])])
