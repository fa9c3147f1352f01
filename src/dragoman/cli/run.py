"""`dragoman run`: one prompt for an agent, streamed to the terminal; the exit code says how it ended.

The agent's text is stdout; everything else stands beside it on a terminal, and on stderr when stdout is piped.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable

from dragoman import AgentExited, ConnectionFailed, Kind, ProtocolError, SandboxUnavailable, connect
from dragoman.cli import sandbox
from dragoman.cli.arguments import Parser
from dragoman.cli.inspect_trace import traced
from dragoman.cli.leave import Leave
from dragoman.cli.main import INTERRUPTED, USAGE
from dragoman.cli.play import Interrupts, play
from dragoman.cli.questions import somebody
from dragoman.cli.screen import Screen
from dragoman.cli.terminal import Terminal, visible
from dragoman.config.places import places
from dragoman.dialect.registry import NAMES
from dragoman.engine.loop import run as run_loop
from dragoman.errors import ConfigFault
from dragoman.policy.modes import MODES

EXITS: dict[str, int] = {
    "end_turn": 0,
    "refusal": 3,
    "max_tokens": 4,
    "max_turn_requests": 4,
    "cancelled": 5,
}
FAILED = 1
DIED = 7

EPILOG = f"""\
What an agent may do is decided by your policy, the project's, and the mode (docs/policy.md). Without any, reading in
the working directory is allowed; writing files and running commands is asked about on a terminal, refused without one,
and allowed by --yes. One yes covers one thing: whoever allows the tool call is not asked again when the agent then
writes that file or runs that command. An answer can also be remembered: for the session, in this folder, or always
(`dragoman grants`). What a command does once it runs is not confined, unless there is a sandbox. `dragoman audit`
tells what was decided and why.

modes: {", ".join(MODES)}

{sandbox.ABOUT}

Ctrl-C asks the agent to stop; a second one ends everything.

exit codes:
  0  the agent ended its turn      4  a limit was reached (tokens, requests)
  1  an error                      5  cancelled
  2  wrong usage, or a policy,     7  the agent did not start, or died
     grants or audit file that   130  ended by Ctrl-C
     cannot be used
  3  the agent refused             8  the sandbox cannot be had here

examples:
  dragoman run --prompt 'Hello!' -- dragoman agent everything
  dragoman run --prompt '/write note.txt hello' --yes -- dragoman agent everything
  dragoman run --prompt 'What would you change?' --mode plan -- my-agent --acp
{sandbox.EXAMPLES.format(name="run", rest="--prompt 'Fix it' -- my-agent")}
  git diff | dragoman run -- my-agent --acp > review.md"""


def main(arguments: list[str]) -> int:
    """Read the arguments, then run the prompt."""
    parser = Parser(
        "run",
        "[--prompt TEXT] [--yes] [--mode MODE] [--policy FILE] [--dialect D] [--cwd DIR] [--sandbox] [--verbose]"
        " -- CMD ARG...",
        "Give an agent one prompt (or what comes on standard input) and show its work as it happens.",
        EPILOG,
    )
    parser.add_argument("--prompt", metavar="TEXT", help="what to ask; without it, standard input is read")
    parser.add_argument(
        "--yes",
        action="store_true",
        help="allow what would be asked about; not what policy denies, and files only in the working directory",
    )
    parser.add_argument(
        "--mode", metavar="MODE", choices=tuple(MODES), help="the policy mode (that of your policy file, or default)"
    )
    parser.add_argument("--policy", metavar="FILE", help="a policy file in place of your own")
    parser.add_argument(
        "--dialect", metavar="D", default="auto", choices=("auto", *NAMES), help=f"auto (found out), {', '.join(NAMES)}"
    )
    parser.add_argument("--cwd", metavar="DIR", default=".", help="where the agent works (here)")
    parser.add_argument("--verbose", action="store_true", help="also show what the agent writes to stderr")
    parser.add_argument("--trace", metavar="FILE", help="record every message; `dragoman inspect show FILE` shows them")
    sandbox.add(parser)
    options, command = parser.read_with_agent(arguments)
    options.sandbox = sandbox.chosen(parser, options)
    if not os.path.isdir(options.cwd):
        parser.error(f"--cwd: there is no folder {options.cwd}")
    if options.prompt is None:
        if sys.stdin is None or sys.stdin.isatty():
            parser.error("say what to ask with --prompt, or pipe it in")
        options.prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
    if not options.prompt.strip():
        parser.error("the prompt is empty")
    try:
        with traced(options.trace, command) as options.tap:
            return run_loop(converse(command, options))
    except ConfigFault as fault:
        print(f"{parser.prog}: {visible(str(fault))}", file=sys.stderr)
        return USAGE


async def converse(command: list[str], options: argparse.Namespace) -> int:
    """Start the agent, prompt it, and say how it went; raises ConfigFault when the user's files cannot be used."""
    terminal = Terminal(sys.stdout, sys.stderr)
    aside = terminal.aside
    interrupts = Interrupts()
    cwd, verbose = os.path.abspath(options.cwd), options.verbose
    leave = Leave(
        aside,
        somebody(aside),
        cwd=cwd,
        yes=options.yes,
        places=places(),
        policy=options.policy,
        mode=options.mode,
        sandboxed=options.sandbox is not None,
    )

    def told(words: str) -> None:
        if verbose:
            aside.line(leave.clean(words), "dim")

    partial = bytearray()

    def wrote(data: bytes) -> None:
        if verbose:
            partial.extend(data)
            *lines, rest = bytes(partial).split(b"\n")
            partial[:] = rest
            for line in lines:
                aside.line(leave.clean(line.decode("utf-8", "replace")), "dim")

    def printed(id: str) -> str:
        shown = leave.lending.terminal(id)
        return shown.output().text if shown is not None else ""

    try:
        async with connect(
            command,
            dialect=options.dialect,
            cwd=cwd,
            permission=leave.permission,
            lend=leave.lending,
            report=told,
            stderr=wrote,
            sandbox=options.sandbox,
            trace=options.tap,
        ) as agent:
            leave.attend(agent, command[0])
            session = await agent.open(cwd)
            if options.mode is not None:
                await leave.guard.switch(session, options.mode)
            screen = Screen(terminal, session, output_of=printed, known=leave.shown, verbose=verbose)
            turn = await play(session, options.prompt, screen, leave, interrupts, aside)
            return ended(turn.stop_reason or "", terminal)
    except asyncio.CancelledError:
        aside.line("ended", "yellow")
        return INTERRUPTED
    except (ProtocolError, ConnectionFailed) as error:
        return failed(error, terminal, leave.clean)
    finally:
        await leave.close()


def ended(reason: str, terminal: Terminal) -> int:
    """The exit code of a turn that ended; an end out of the ordinary is said."""
    code = EXITS.get(reason, FAILED)
    if code:
        terminal.aside.line(f"the turn ended: {reason.replace('_', ' ')}", "yellow")
    return code


def failed(error: ProtocolError | ConnectionFailed, terminal: Terminal, clean: Callable[[str], str]) -> int:
    """The exit code of a turn that failed, with what to do about it; an agent's words may have secrets in them."""
    terminal.aside.line(f"dragoman run: {clean(explained(error))}", "red")
    if isinstance(error, SandboxUnavailable):
        return sandbox.UNAVAILABLE
    return DIED if isinstance(error, ConnectionFailed) else FAILED


def explained(error: ProtocolError | ConnectionFailed) -> str:
    """One line for a fault, and a hint where there is one; the last words of an agent that died follow."""
    if isinstance(error, AgentExited):
        return visible(str(error)).replace("; last words: ", "; it said:\n")
    if isinstance(error, ConnectionFailed):
        return visible(str(error))
    text = f"the agent answered with an error ({visible(error.kind)}): {visible(error.message)}"
    if error.kind == Kind.AUTH_REQUIRED:
        text += "; log in with the agent's own command first"
    return text
