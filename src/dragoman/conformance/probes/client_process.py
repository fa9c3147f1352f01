"""Probes of how a client treats its agent's process."""

from __future__ import annotations

from dragoman.conformance.harness.client import INTRODUCTION, ClientStage
from dragoman.conformance.harness.client_environment import Ending
from dragoman.conformance.probe import probe

COMPLAINT = b"warning: this agent says a lot about itself on stderr\n"
FLOOD = 1024 * 1024
KILLED = -9
FAILED = 3

# A variable that the checking command put into the client's environment.
CANARY = "DRAGOMAN_CHECK_CANARY"


def watched(stage: ClientStage) -> None:
    """These need to see the client's process."""
    if not stage.grounds.is_watched:
        stage.skip("the process of an editor cannot be watched")


async def left_behind(stage: ClientStage, what: str) -> None:
    """When the client has ended, its agent must be gone."""
    prompt = await stage.begun()
    stage.end(prompt)
    await stage.until(lambda _: False, 2 * stage.pace.leave)
    ending = await stage.grounds.over(4 * stage.pace.leave)
    if ending.status is None and not stage.leaves:
        stage.unsure("the client stays after a turn, so it cannot be seen what it leaves behind")
    stage.require(ending.status is not None, f"the client cannot end its run: {what} is still running")
    stage.note(f"the client ended with status {ending.status}")
    stage.require(
        not await stage.grounds.remains(stage.pace.leave), f"the client has ended, and {what} is still running"
    )


@probe("client.process.01")
async def stderr_is_read(stage: ClientStage) -> None:
    """A megabyte before the answer to initialize."""
    stage.held.add("initialize")
    first = await stage.introduced()
    stage.note(f"{FLOOD} bytes are written to stderr")
    taken = await stage.grounds.complain(COMPLAINT * (FLOOD // len(COMPLAINT)), stage.pace.answer)
    stage.require(taken, "nobody reads what the agent writes to stderr: it is blocked for ever")
    stage.answer_as(first, INTRODUCTION)
    prompt = await stage.wanted("session/prompt", stage.pace.start)
    stage.end(prompt)


@probe("client.process.02")
async def agents_that_stay_are_ended(stage: ClientStage) -> None:
    """As zcodex and openhands do."""
    watched(stage)
    await left_behind(stage, "an agent that ignores the end of its input")


@probe("client.process.03")
async def agents_that_resist_are_ended(stage: ClientStage) -> None:
    """Only KILL helps."""
    watched(stage)
    await stage.introduced()
    await stage.grounds.deafen()
    await left_behind(stage, "an agent that ignores TERM")


@probe("client.process.04")
async def wrapped_agents_are_ended(stage: ClientStage) -> None:
    """The client only knows the wrapper."""
    watched(stage)
    if not stage.grounds.is_wrapped:
        stage.skip("the agent has no wrapper here")
    await left_behind(stage, "the agent behind its wrapper")


@probe("client.process.05")
async def a_death_ends_the_turn(stage: ClientStage) -> None:
    """By a signal, with nothing said."""
    watched(stage)
    await stage.begun()
    await stage.grounds.die(KILLED)
    await gave_up(stage, "an agent that died in a turn")


async def gave_up(stage: ClientStage, what: str) -> None:
    """A client that leaves after turns must leave here too."""
    ending = await stage.grounds.over(2 * stage.pace.leave)
    if ending.status is None and not stage.leaves:
        stage.unsure("the client stays in any case, so it cannot be told whether it waits on")
    stage.require(ending.status is not None, f"the client waits on for {what}")
    stage.note(f"the client ended with status {ending.status}: {ending.said.strip()[-500:]!r}")


@probe("client.process.06")
async def a_still_birth_is_seen(stage: ClientStage) -> None:
    """As of an agent whose runtime is missing."""
    watched(stage)
    stage.held.add("initialize")
    await stage.introduced()
    await stage.grounds.die(FAILED)
    await gave_up(stage, "an agent that died before it introduced itself")


@probe("client.process.07")
async def a_closed_output_is_seen(stage: ClientStage) -> None:
    """Its process lives on."""
    watched(stage)
    await stage.begun()
    stage.note("the agent closes its output")
    await stage.grounds.mute()
    await gave_up(stage, "an agent that closed its output")


@probe("client.process.08")
async def a_death_is_told(stage: ClientStage) -> None:
    """For scripts that look at nothing else."""
    watched(stage)
    await stage.begun()
    await stage.grounds.die(FAILED)
    ending = await stage.grounds.over(2 * stage.pace.leave)
    if ending.status is None:
        stage.unsure("the client did not end")
    stage.require(ending.status != 0, "the client ends with status 0 though its agent died in the turn")


@probe("client.process.09")
async def a_silent_agent_can_be_left(stage: ClientStage) -> None:
    """The agent answers neither prompt nor cancel."""
    ending = await _left(stage)
    stage.require(ending.status is not None, "the client cannot be left while its agent is silent")


async def _left(stage: ClientStage) -> Ending:
    """Ctrl-C, and once more."""
    watched(stage)
    await stage.begun()
    await stage.fence()
    stage.grounds.interrupt()
    await stage.silence(5 * stage.pace.quiet)
    stage.grounds.interrupt()
    await stage.until(lambda _: False, stage.pace.leave)
    return await stage.grounds.over(2 * stage.pace.leave)


@probe("client.process.10")
async def the_environment_is_handed_on(stage: ClientStage) -> None:
    """Keys for models stand there."""
    watched(stage)
    prompt = await stage.prompted()
    stage.require(stage.grounds.inherits(CANARY), "a variable of the client's environment does not reach its agent")
    stage.end(prompt)


@probe("client.process.11")
async def last_words_count(stage: ClientStage) -> None:
    """The answer, and then the end of the process."""
    watched(stage)
    prompt = await stage.begun()
    stage.chunk("last-words\n")
    stage.end(prompt)
    await stage.flush()
    await stage.grounds.die(0)
    ending = await stage.grounds.over(2 * stage.pace.leave)
    stage.require(not ending.crashed, f"the client broke down when its agent went after its answer: {ending.words()}")
    seen = "check-begin" in ending.shown
    stage.require(not seen or "last-words" in ending.shown, "the last words of the agent were not shown")


@probe("client.process.12")
async def a_silent_agent_is_ended(stage: ClientStage) -> None:
    """Nobody else will."""
    if (await _left(stage)).status is None:
        stage.unsure("the client cannot be left while its agent is silent")
    stage.require(not await stage.grounds.remains(stage.pace.leave), "the client was left, and its agent still runs")
