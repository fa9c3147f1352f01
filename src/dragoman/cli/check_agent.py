"""`dragoman check agent`: start an agent once for every requirement, and say which it keeps."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from dragoman.cli import exits
from dragoman.cli.arguments import Parser

EPILOG = """\
Every requirement is tried with a fresh process in an empty folder; nothing the agent does ends the check. What an agent
did not do (no tool call came, say) is inconclusive, never a failure. Agents with a model are asked in plain words to
read, write and run something; --script FILE gives the words that make yours do it:

  [prompts]
  read = "Read the file {file}."
  slow = "Run: sleep 60"

"""

EXAMPLES = """

examples:
  dragoman check agent -- my-agent --acp
  dragoman check agent --level must --junit check.xml --html check.html -- my-agent --acp
  dragoman check agent --dialect draft --only agent.draft -- my-agent"""

# The ladder that finds out what an agent speaks: the official dialect first. Banjo cannot be told from it.
LADDER = ("v1", "draft", "crow", "2025.1")


def main(name: str, arguments: list[str]) -> int:
    """Read the arguments, then check."""
    from dragoman.cli.checking import EXITS, add_options, chosen, listed

    parser = Parser(
        f"check {name}",
        "[OPTIONS] -- CMD ARG...",
        "Check whether the agent that a command starts keeps the protocol.",
        EPILOG + EXITS + EXAMPLES,
    )
    add_options(parser)
    parser.add_argument("--script", metavar="FILE", help="what to prompt the agent with (TOML)")
    options, command = parser.read(arguments)
    found = chosen(parser, options, "agent", "" if options.dialect == "auto" else options.dialect)
    if options.list:
        return listed(found)
    if not command:
        parser.error("name the agent to check after --, as in: -- my-agent --acp")

    from dragoman.cli.checking import checked
    from dragoman.conformance.script import read
    from dragoman.conformance.subject import CommandAgent
    from dragoman.errors import ConfigFault, StartFailed

    async def work() -> int:
        script = read(options.script) if options.script else None
        dialect = options.dialect if options.dialect != "auto" else await spoken_by(command)
        subject = CommandAgent(command, dialect, script=script)
        return await checked(subject, chosen(parser, options, "agent", dialect), options, command, "agent")

    try:
        return asyncio.run(work())
    except StartFailed as error:
        return _failed(f"the agent could not be started: {error}", exits.DIED)
    except ConfigFault as error:
        return _failed("; ".join(error.faults), exits.USAGE)


async def spoken_by(command: Sequence[str]) -> str:
    """The dialect an agent answers initialize in; raises StartFailed when it answers in none."""
    from dragoman.conformance.agent_stage import AgentStage
    from dragoman.conformance.requirement import requirements
    from dragoman.conformance.spoken import ALL, initialize
    from dragoman.conformance.subject import CommandAgent
    from dragoman.dialect.detect import of_agent
    from dragoman.errors import StartFailed

    why = "it did not answer initialize"
    for dialect in LADDER:
        async with CommandAgent(command, dialect).stage(requirements()["agent.init.01"]) as stage:
            assert isinstance(stage, AgentStage)
            params = initialize(dialect, stage.cwd, ALL[dialect])
            heard = await stage.asked("initialize", params, stage.pace.start)
            result = heard.message.get("result") if heard else None
            if isinstance(result, dict):
                return of_agent(result) or dialect
            if stage.gone is not None:
                why = str(stage.gone)
    raise StartFailed(f"{why}; say what it speaks with --dialect, or start it by hand to see what is wrong")


def _failed(why: str, code: int) -> int:
    from dragoman.cli.terminal import visible

    print(f"dragoman check agent: {visible(why)}", file=sys.stderr)
    return code
