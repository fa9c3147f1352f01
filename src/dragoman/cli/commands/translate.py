"""`dragoman translate`: be an agent for an editor of one dialect, with an agent of another one behind it."""

from __future__ import annotations

import argparse
import os
import sys

from dragoman.cli.connect import sandbox
from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import sanitize
from dragoman.dialect.dialects import DIALECT_NAMES
from dragoman.engine.loop import run as run_loop

EPILOG = f"""\
Put it where the editor starts its agent:

  dragoman translate -- my-agent --acp
  dragoman translate --agent-dialect draft -- my-agent
  dragoman translate --agent opencode

Both dialects are found out by themselves unless they are named; which ones they are is said once on stderr. A client
that cannot be asked for leave (2025.1) is taken to allow what it serves itself; --permission decides for it.

{sandbox.DESCRIPTION}
The editor's own terminals are the editor's: here only the agent is confined, to the folder that this is started in.

{sandbox.EXAMPLES.format(name="translate", rest="-- my-agent")}"""


def resolve_command(parser: Parser, options: argparse.Namespace, command: list[str]) -> list[str]:
    """The command of the agent that is meant, whose settings count where no flag says otherwise."""
    from dragoman.cli.connect.which_agent import resolve_agent
    from dragoman.transport.sandbox.spec import AUTO

    agent = resolve_agent(parser, options.agent, command)
    os.environ.update(agent.env)  # which the agent inherits
    if options.agent_dialect == "auto":
        options.agent_dialect = agent.dialect
    if agent.sandbox:
        options.sandbox = options.sandbox or AUTO
    return agent.argv


def main(arguments: list[str]) -> int:
    """Read the arguments, then interpret until one side leaves."""
    parser = Parser(
        "translate",
        "[--agent NAME] [OPTIONS] [-- CMD ARG...]",
        "Stand between an editor and an agent that speak different dialects of the protocol.",
        EPILOG,
    )
    dialects = ("auto", *DIALECT_NAMES)
    parser.add_argument("--client-dialect", metavar="D", default="auto", choices=dialects, help=", ".join(dialects))
    parser.add_argument("--agent-dialect", metavar="D", default="auto", choices=dialects, help="likewise")
    parser.add_argument(
        "--permission", default="ask", choices=("ask", "allow", "deny"), help="for clients that cannot be asked"
    )
    parser.add_argument(
        "--probe",
        default="ladder",
        choices=("ladder", "polyglot"),
        help="how to find out the agent's dialect: one after the other, or all in one message",
    )
    parser.add_argument("--agent", metavar="NAME", help="an agent of `dragoman agents`; or its command, after --")
    sandbox.add_options(parser)
    options, command = parser.read(arguments)
    if not command or options.agent:
        command = resolve_command(parser, options, command)
    confined = sandbox.from_options(parser, options)

    if reason := sandbox.unavailable_reason(confined):
        print(f"{parser.prog}: {sanitize(reason)}", file=sys.stderr)
        return sandbox.EXIT_UNAVAILABLE

    from dragoman.roles.proxy.translate import translate

    return run_loop(
        translate(
            command,
            client_dialect=options.client_dialect,
            agent_dialect=options.agent_dialect,
            permission=options.permission,
            detection=options.probe,
            sandbox=confined,
            report=lambda text: print(f"dragoman: {sanitize(text)}", file=sys.stderr, flush=True),
        )
    )
