"""How a client starts and stops its agent's process."""

from __future__ import annotations

from dragoman.conformance.harness.client import INITIALIZE_RESULT, ClientUnderTest
from dragoman.conformance.harness.client_environment import ClientExit
from dragoman.conformance.harness.client_process import CANARY
from dragoman.conformance.requirement import must, should

COMPLAINT = b"warning: this agent says a lot about itself on stderr\n"
FLOOD = 1024 * 1024
KILLED = -9
FAILED = 3


def _require_watched(client: ClientUnderTest) -> None:
    """Skip unless the client's process can be observed."""
    client.skip_unless(client.environment.is_watched, "the process of an editor cannot be watched")


async def _require_agent_gone(client: ClientUnderTest, what: str) -> None:
    """Require that the agent exits with the client."""
    await client.run_turn()
    await client.wait_for(lambda _: False, 2 * client.timeouts.exit)
    end = await client.environment.wait_exit(4 * client.timeouts.exit)
    if end.status is None and not client.exits_after_turn:
        client.inconclusive("the client stays after a turn, so it cannot be seen what it leaves behind")
    client.require(end.status is not None, f"the client cannot end its run: {what} is still running")
    client.note(f"the client ended with status {end.status}")
    is_left = await client.environment.agent_running(client.timeouts.exit)
    client.require(not is_left, f"the client has ended, and {what} is still running")


@must("client.process.01", "peers.md#sdk-stderr")
async def stderr_is_read(client: ClientUnderTest) -> None:
    """What the agent writes to stderr never blocks it."""
    first = await client.hold_initialize()
    client.note(f"{FLOOD} bytes are written to stderr")
    was_read = await client.environment.write_stderr(COMPLAINT * (FLOOD // len(COMPLAINT)), client.timeouts.answer)
    client.require(was_read, "the client does not read the agent's stderr, which blocks the agent")
    client.reply_in_dialect(first, INITIALIZE_RESULT)
    prompt = await client.wait_call("session/prompt", client.timeouts.start)
    client.end_turn(prompt)


@must("client.process.02", "peers.md#end-of-input")
async def agents_that_stay_are_ended(client: ClientUnderTest) -> None:
    """An agent that ignores the end of its input is not left running."""
    _require_watched(client)
    await _require_agent_gone(client, "an agent that ignores the end of its input")


@should("client.process.03", "peers.md#end-of-input")
async def agents_that_resist_are_ended(client: ClientUnderTest) -> None:
    """An agent that also ignores TERM is not left running."""
    _require_watched(client)
    await client.wait_initialize()
    await client.environment.ignore_sigterm()
    await _require_agent_gone(client, "an agent that ignores TERM")


@must("client.process.04", "peers.md#sdk-wrapper")
async def wrapped_agents_are_ended(client: ClientUnderTest) -> None:
    """An agent behind a shell, npx or uvx is not left running."""
    _require_watched(client)
    client.skip_unless(client.environment.is_wrapped, "the agent has no wrapper here")
    await _require_agent_gone(client, "the agent behind its wrapper")


@must("client.process.05", "peers.md#silent-death")
async def a_death_ends_the_turn(client: ClientUnderTest) -> None:
    """If the agent dies during a turn, the turn ends."""
    _require_watched(client)
    await client.begin_turn()
    await client.environment.exit_agent(KILLED)
    await _require_exit(client, "an agent that died in a turn")


async def _require_exit(client: ClientUnderTest, what: str) -> None:
    """Require that a client which exits after turns exits here too."""
    end = await client.environment.wait_exit(2 * client.timeouts.exit)
    if end.status is None and not client.exits_after_turn:
        client.inconclusive("the client stays in any case, so it is unknown whether it still waits")
    client.require(end.status is not None, f"the client waits on for {what}")
    client.note(f"the client ended with status {end.status}: {end.stderr.strip()[-500:]!r}")


@must("client.process.06", "peers.md#silent-death")
async def an_exit_before_initialize_is_noticed(client: ClientUnderTest) -> None:
    """The client gives up an agent that dies before it answers initialize."""
    _require_watched(client)
    await client.hold_initialize()
    await client.environment.exit_agent(FAILED)
    await _require_exit(client, "an agent that died before it introduced itself")


@must("client.process.07", "peers.md#silent-death")
async def a_closed_output_is_noticed(client: ClientUnderTest) -> None:
    """The client gives up an agent that closes its output."""
    _require_watched(client)
    await client.begin_turn()
    client.note("the agent closes its output")
    await client.environment.close_output()
    await _require_exit(client, "an agent that closed its output")


@should("client.process.08", "peers.md#silent-death")
async def an_agent_exit_is_reported(client: ClientUnderTest) -> None:
    """If the agent died, the client exits with a status other than 0."""
    _require_watched(client)
    await client.begin_turn()
    await client.environment.exit_agent(FAILED)
    end = await client.environment.wait_exit(2 * client.timeouts.exit)
    client.assume(end.status is not None, "the client did not end")
    client.require(end.status != 0, "the client ends with status 0 though its agent died in the turn")


@must("client.process.09", "peers.md#no-watchdog")
async def a_silent_agent_can_be_interrupted(client: ClientUnderTest) -> None:
    """Ctrl-C ends the client though its agent never answers."""
    end = await _interrupt_twice(client)
    client.require(end.status is not None, "the client cannot be left while its agent is silent")


async def _interrupt_twice(client: ClientUnderTest) -> ClientExit:
    """Send Ctrl-C twice."""
    _require_watched(client)
    await client.begin_turn()
    await client.sync()
    client.environment.interrupt()
    await client.collect(5 * client.timeouts.quiet)
    client.environment.interrupt()
    await client.wait_for(lambda _: False, client.timeouts.exit)
    return await client.environment.wait_exit(2 * client.timeouts.exit)


@should("client.process.10", "peers.md#sdk-environment")
async def the_environment_is_handed_on(client: ClientUnderTest) -> None:
    """The agent inherits the environment of the client."""
    _require_watched(client)
    prompt = await client.wait_prompt()
    is_inherited = client.environment.inherits_variable(CANARY)
    client.require(is_inherited, "a variable of the client's environment does not reach its agent")
    client.end_turn(prompt)


@should("client.process.11", "peers.md#silent-death")
async def output_before_the_exit_is_shown(client: ClientUnderTest) -> None:
    """If the agent dies right after its answer, the answer is still shown."""
    _require_watched(client)
    async with client.turn():
        client.chunk("last-words\n")
    await client.flush()
    await client.environment.exit_agent(0)
    end = await client.environment.wait_exit(2 * client.timeouts.exit)
    client.require(not end.crashed, f"the client crashed when its agent went after its answer: {end.stderr_excerpt()}")
    client.require(end.shows("last-words"), "the last words of the agent were not shown")


@must("client.process.12", "peers.md#survivors")
async def a_silent_agent_is_ended(client: ClientUnderTest) -> None:
    """After Ctrl-C the agent is not left running."""
    end = await _interrupt_twice(client)
    client.assume(end.status is not None, "the client cannot be left while its agent is silent")
    is_left = await client.environment.agent_running(client.timeouts.exit)
    client.require(not is_left, "the client was left, and its agent still runs")
