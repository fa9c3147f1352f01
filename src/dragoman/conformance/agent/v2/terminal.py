"""Terminals that a v2 agent runs itself: their updates, bytes and exit status."""

from __future__ import annotations

import base64

from dragoman.conformance.agent.v2.work import require_each, run_work, updates, wire
from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.harness.peer import ReceivedFrame
from dragoman.conformance.json_shape import absolute, base64_text, non_empty
from dragoman.conformance.requirement import may, must


async def _terminals(agent: AgentUnderTest) -> tuple[list[ReceivedFrame], list[ReceivedFrame]]:
    """Run a command in a terminal of the agent; return the updates of the terminal and its output."""
    await agent.open_session()
    agent.skip_unless(agent.has_prompt("terminal"), "no prompt makes this agent run a terminal")
    await run_work(agent, "terminal")
    found = agent.skip_unless(updates(agent, "terminal_update"), "the agent shows no terminals")
    return found, updates(agent, "terminal_output_chunk")


@must("agent.v2terminal.01", "v2.md#terminals")
async def terminals_have_an_id(agent: AgentUnderTest) -> None:
    """An update of a terminal has its id."""
    found, _ = await _terminals(agent)
    require_each(agent, found, {"terminalId": non_empty}, "terminal_update")


@must("agent.v2terminal.02", "v2.md#terminals")
async def the_folder_is_absolute(agent: AgentUnderTest) -> None:
    """The folder of a terminal is absolute."""
    found, _ = await _terminals(agent)
    require_each(agent, found, {"cwd?": absolute}, "terminal_update")


@must("agent.v2terminal.03", "v2.md#terminals")
async def output_is_base64(agent: AgentUnderTest) -> None:
    """The output of a terminal is base64, each piece by itself."""
    _, output = await _terminals(agent)
    require_each(agent, output, {"data": base64_text}, "terminal_output_chunk")


@must("agent.v2terminal.04", "v2.md#terminals")
async def output_names_its_terminal(agent: AgentUnderTest) -> None:
    """Output comes after the update that announced its terminal."""
    _, output = await _terminals(agent)
    for frame in agent.assume(output, "the terminal has no output"):
        before = agent.received[: agent.received.index(frame)]
        known = {
            wire(each).get("terminalId") for each in before if wire(each).get("sessionUpdate") == "terminal_update"
        }
        agent.require(wire(frame).get("terminalId") in known, "output of a terminal that was not announced", frame)


@must("agent.v2terminal.05", "v2.md#terminals")
async def terminals_end(agent: AgentUnderTest) -> None:
    """A terminal whose command has ended has an exit status."""
    found, _ = await _terminals(agent)
    ended = [frame for frame in found if "exitStatus" in wire(frame)]
    agent.require(ended, "a terminal whose command has ended has no exit status", *found[-1:])


@must("agent.v2terminal.06", "v2.md#terminals")
async def exit_codes_are_numbers(agent: AgentUnderTest) -> None:
    """An exit status has an integer code, or none."""
    found, _ = await _terminals(agent)
    ended = agent.assume([frame for frame in found if wire(frame).get("exitStatus") is not None], "no exit status")
    require_each(agent, ended, {"exitStatus": {"exitCode?": int, "signal?": str}}, "terminal_update")


@must("agent.v2terminal.07", "v2.md#terminals")
async def nothing_follows_the_exit(agent: AgentUnderTest) -> None:
    """After the exit status of a terminal no output comes."""
    found, output = await _terminals(agent)
    ended = [frame for frame in found if wire(frame).get("exitStatus") is not None]
    agent.assume(ended and output, "the terminal did not end, or has no output")
    late = [frame for frame in output if agent.received.index(frame) > agent.received.index(ended[0])]
    agent.require_none(late, "output came after the exit status")


@must("agent.v2terminal.08", "v2.md#gone-methods")
async def clients_are_asked_for_nothing_of_version_one(agent: AgentUnderTest) -> None:
    """The agent asks the client for no files and no terminals, which version 2 does not have."""
    for purpose in ("read", "run"):
        await run_work(agent, purpose)
    agent.require_none(agent.requests("fs/", "terminal/"), "the agent asked for what version 2 does not have")


@may("agent.v2terminal.09", "v2.md#terminals")
async def shown_terminals_exist(agent: AgentUnderTest) -> None:
    """A terminal that a tool call shows has an update of its own."""
    found, _ = await _terminals(agent)
    known = {wire(frame).get("terminalId") for frame in found}
    for frame in updates(agent, "tool_call_update"):
        for item in wire(frame).get("content") or ():
            is_terminal = isinstance(item, dict) and item.get("type") == "terminal"
            why = "a tool call shows a terminal without updates"
            agent.require(not is_terminal or item.get("terminalId") in known, why, frame)


@may("agent.v2terminal.10", "v2.md#terminals")
async def output_is_that_of_the_command(agent: AgentUnderTest) -> None:
    """The output of a terminal is what its command wrote."""
    found, output = await _terminals(agent)
    agent.skip_unless("printf hello" in agent.prompt_for("terminal"), "the output of the user's prompt is unknown")
    whole = agent.assume(output, "the terminal has no output")
    try:
        data = b"".join(base64.b64decode(str(wire(frame).get("data", "")), validate=True) for frame in whole)
    except ValueError:
        agent.inconclusive("the output is not base64", *whole)
    agent.require(data == b"hello", f"the terminal shows {data!r}", *found[:1], *whole)
