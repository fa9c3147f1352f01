"""`dragoman run`: one prompt for an agent, streamed to the terminal; the exit code says how it ended.

The agent's text is stdout; everything else stands beside it on a terminal, and on stderr when stdout is piped.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from dragoman import AgentExited, ConnectionFailed, Kind, ProtocolError, SandboxUnavailable
from dragoman.cli import exit_codes
from dragoman.cli.connect import attachments, local, sandbox
from dragoman.cli.connect.inspect_trace import open_trace
from dragoman.cli.connect.json_output import JsonOutput, NullStream
from dragoman.cli.connect.local import OpenSession
from dragoman.cli.connect.run_turn import Interrupts, run_turn
from dragoman.cli.messages import with_cli_advice
from dragoman.cli.parser import Parser
from dragoman.cli.ui.key_prompt import find_prompter
from dragoman.cli.ui.terminal import TerminalOutput, sanitize, sanitize_line
from dragoman.config.config_file import NamedAgent
from dragoman.engine.loop import run as run_loop
from dragoman.errors import ConfigFault, DragomanError, StoreFault
from dragoman.policy.modes import MODES
from dragoman.schema.content import ContentBlock, ResourceLink, TextContent

# What is left of --timeout for the turn when the agent was ready only just in time. Seconds.
MIN_TURN_TIMEOUT = 0.1

EPILOG = f"""\
What an agent may do is decided by your policy, the project's, and the mode (docs/policy.md). Without any, reading in
the working directory is allowed; writing files and running commands is asked about on a terminal, refused without one,
and allowed by --yes. One yes covers one thing: whoever allows the tool call is not asked again when the agent then
writes that file or runs that command. An answer can also be remembered: for the session, in this folder, or always
(`dragoman grants`). What a command does once it runs is not confined, unless there is a sandbox. `dragoman audit`
tells what was decided and why.

modes: {", ".join(MODES)}

{sandbox.DESCRIPTION}

What is said is kept (`dragoman sessions`): --session gives a session a name and goes on with it another time, in the
folder it was in; --no-store keeps nothing. --json prints what is kept, an entry a line, and the result as the last
(docs/store.md).

--file sends a file along, as a text, a picture or a link, whatever the agent takes. With --quiet only the answer is
printed, and what goes wrong. --timeout is for the whole run; the agent is asked to stop before it is ended.

With --host the agent runs in a host (docs/host.md) and works with its files, unless --lend gives it a folder here: then
your own policy decides what is read, written and run there.

Ctrl-C asks the agent to stop; a second one ends everything.

{exit_codes.help_text()}

examples:
  dragoman run 'What does this project do?'
  dragoman run --agent opencode --file src/main.py 'Is there a bug in it?'
  dragoman run --session roof 'Where were we?'
  dragoman run --host office --session roof 'And if we used tiles?'
  dragoman run --host office --lend ~/project 'Which tests fail?'
  dragoman run --json 'Which files are tests?' | jq -r 'select(.kind == "result").body.text'
  dragoman run --quiet --timeout 300 'Write a summary' > summary.md
  dragoman run --prompt '/write note.txt hello' --yes -- dragoman agent everything
  dragoman run --prompt 'What would you change?' --mode plan -- my-agent --acp
  dragoman run --image shot.png --model large --mcp servers.json 'What is wrong on this page?'
{sandbox.EXAMPLES.format(name="run", rest="--prompt 'Fix it' -- my-agent")}
  git diff | dragoman run 'Review this' -- my-agent --acp > review.md"""


def main(arguments: list[str]) -> int:
    """Read the arguments, then run the prompt."""
    parser = Parser(
        "run",
        f"[PROMPT | --prompt TEXT] {local.USAGE}",
        "Give an agent one prompt (or what comes on standard input, or both) and show its work as it happens.",
        EPILOG,
    )
    parser.add_argument("words", nargs="?", metavar="PROMPT", help="what to ask; what is piped in follows it")
    parser.add_argument("--prompt", metavar="TEXT", help="the same")
    parser.add_argument("--file", metavar="FILE", action="append", default=[], help="send it along; can be repeated")
    parser.add_argument("--image", metavar="FILE", action="append", default=[], help="send a picture along")
    parser.add_argument("--timeout", metavar="SECONDS", type=float, help="give up after that long")
    parser.add_argument("--quiet", action="store_true", help="print only the answer")
    parser.add_argument("--json", action="store_true", help="print each entry of the log as a line, then the result")
    parser.add_argument(
        "--trace", metavar="FILE", help="record every message, for `dragoman inspect show`; spares a FILE that is there"
    )
    local.add_options(parser)
    options, command = parser.read(arguments)
    if options.quiet and options.verbose:
        parser.error("--quiet and --verbose contradict each other")
    if options.timeout is not None and not 0 < options.timeout < 1e9:
        parser.error("--timeout takes a number of seconds")
    for path in [*options.file, *options.image]:
        if not os.path.exists(path):
            parser.error(f"there is no {path}")
    try:
        agent = local.resolve_options(parser, options, command)
        options.prompt = prompt_text(parser, options)
        with open_trace(options.trace, agent.argv) as options.tap:
            return run_loop(run_prompt(agent, options))
    except ConfigFault as fault:
        print(f"{parser.prog}: {sanitize(str(fault))}", file=sys.stderr)
        if options.json:
            JsonOutput(sys.stdout.buffer).write_result(exit_codes.USAGE, error=error_to_json(fault))
        return exit_codes.USAGE


def prompt_text(parser: Parser, options: argparse.Namespace) -> str:
    """What to ask: the words, what is piped in, or both."""
    if options.words is not None and options.prompt is not None:
        parser.error("say what to ask once: as a word or with --prompt")
    said = options.words if options.words is not None else options.prompt
    piped = ""
    if said is None:
        if sys.stdin is None or sys.stdin.isatty():
            parser.error("say what to ask, as in: dragoman run 'What is this?', or pipe it in")
        piped = sys.stdin.buffer.read().decode("utf-8", "replace")
    elif options.words is not None and sys.stdin is not None and _is_piped():
        piped = sys.stdin.buffer.read().decode("utf-8", "replace")
    text = "\n\n".join(part for part in (said, piped) if part and part.strip())
    if not text and not options.file and not options.image:
        parser.error("the prompt is empty")
    return text


def _is_piped() -> bool:
    """Whether somebody gives us something on standard input: a pipe or a file, not a device or nothing."""
    import stat

    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


async def run_prompt(agent: NamedAgent, options: argparse.Namespace) -> int:
    """Start the agent, prompt it, and say how it went; raises ConfigFault when the user's files cannot be used."""
    if not options.json:
        return await prompt_agent(agent, options, TerminalOutput(sys.stdout, sys.stderr))
    entries = JsonOutput(sys.stdout.buffer, asyncio.current_task())
    code = await prompt_agent(agent, options, TerminalOutput(NullStream(), sys.stderr), entries)
    if entries.is_broken:
        raise BrokenPipeError
    return code


async def prompt_agent(
    agent: NamedAgent, options: argparse.Namespace, terminal: TerminalOutput, json_output: JsonOutput | None = None
) -> int:
    """The same, on a terminal; and as entries, if somebody wants them."""
    interrupts = Interrupts()
    clean: Callable[[str], str] = str
    log = ""
    finish: Callable[..., int] = _return_code if json_output is None else json_output.write_result
    clock = asyncio.get_running_loop().time
    began = clock()
    try:
        async with AsyncExitStack() as stack:
            meet = local.open_session(
                agent,
                options,
                terminal,
                find_prompter(terminal.diagnostics),
                timeout=options.timeout,
                on_entry=None if json_output is None else json_output.write_entry,
                quiet=options.quiet or options.json,
            )
            met = await _open_within(options.timeout, stack.enter_async_context(meet))
            clean, log = met.permission_ui.redact, met.session_ref
            asked, screen = prompt_content(met, options), met.create_view(met.session)
            for name in unreachable_files(asked, options):
                terminal.diagnostics.write_line(
                    f"{sanitize_line(name)} goes along as a link, to a file that the host does not have", "yellow"
                )
            left = (
                None
                if options.timeout is None
                else max(MIN_TURN_TIMEOUT, round(options.timeout - (clock() - began), 2))
            )
            turn = await run_turn(
                met.session, asked, screen, met.permission_ui, interrupts, terminal.diagnostics, left, met.is_own_update
            )
            code = report_turn_end(turn.stop_reason or "", terminal, met.permission_ui.refused_count)
        return finish(code)
    except asyncio.CancelledError:
        if json_output is None or not json_output.is_broken:
            terminal.diagnostics.write_line("ended", "yellow")
        return finish(exit_codes.INTERRUPTED)
    except (ProtocolError, ConnectionFailed) as fault:
        error = as_agent_exit(fault)
        code = report_failure(error, terminal, clean, has_timeout=options.timeout is not None)
        if code == exit_codes.DIED and log and not options.quiet and not options.json:
            where = f"{options.afar.flag if options.afar else ''}--session {shlex.quote(sanitize_line(log))}"
            terminal.diagnostics.write_line(f"what was said is kept; go on with: dragoman run {where}", "dim")
        return finish(code, error=error_to_json(error, clean))


def as_agent_exit(error: ProtocolError | ConnectionFailed) -> ProtocolError | ConnectionFailed:
    """A fault as it is: the agent of a host that died is one, though the host lives and answers for it."""
    data = error.data if isinstance(error, ProtocolError) else None
    if not isinstance(data, dict) or data.get("agent") != "exited":
        return error
    words, _, _ = str(error).partition("; the next prompt starts")
    return AgentExited(words, status=data.get("status"), stderr=str(data.get("stderr", "")))


async def _open_within(timeout: float | None, opening: Awaitable[OpenSession]) -> OpenSession:
    """Meet the agent in the time there is: whatever it waits for by then, the time is what ran out."""
    try:
        async with asyncio.timeout(timeout):
            return await opening
    except TimeoutError:
        raise ProtocolError(Kind.TIMEOUT, f"it was not ready within {timeout:g} s") from None


def _return_code(code: int, **_: Any) -> int:
    return code


def error_to_json(error: DragomanError, redact: Callable[[str], str] = str) -> dict[str, str]:
    """A fault for machines: its kind, and the words."""
    if isinstance(error, StoreFault):
        return {"kind": f"store_{error.why}", "message": redact(error.message)}
    if isinstance(error, ProtocolError):
        return {"kind": error.kind, "message": redact(error.message)}
    return {"kind": "usage" if isinstance(error, ConfigFault) else "connection_failed", "message": redact(str(error))}


def prompt_content(open_session: OpenSession, options: argparse.Namespace) -> list[ContentBlock]:
    """The prompt and what goes along with it."""
    takes = open_session.agent.capabilities
    text = [TextContent(text=options.prompt)] if options.prompt else []
    return [
        *text,
        *(attachments.file_block(os.path.abspath(path), takes, as_image=True) for path in options.image),
        *(attachments.file_block(os.path.abspath(path), takes) for path in options.file),
    ]


def unreachable_files(content: list[ContentBlock], options: argparse.Namespace) -> list[str]:
    """Files that an agent on another machine is told of and cannot read."""
    if options.afar is None or options.afar.is_near or options.lend is not None:
        return []
    return [block.name for block in content if isinstance(block, ResourceLink)]


def report_turn_end(reason: str, terminal: TerminalOutput, refused_count: int = 0) -> int:
    """The exit code of a turn that ended; an end out of the ordinary is said."""
    code = exit_codes.BY_STOP_REASON.get(reason, exit_codes.FAILED)
    if code:
        terminal.diagnostics.write_line(f"the turn ended: {reason.replace('_', ' ')}", "yellow")
    return exit_codes.PERMISSION_REFUSED if code == exit_codes.OK and refused_count else code


def report_failure(
    error: ProtocolError | ConnectionFailed,
    terminal: TerminalOutput,
    redact: Callable[[str], str],
    *,
    has_timeout: bool = False,
) -> int:
    """The exit code of a turn that failed, with what to do about it; an agent's words may have secrets in them."""
    if has_timeout and isinstance(error, ProtocolError) and error.kind == Kind.TIMEOUT:
        terminal.diagnostics.write_line(f"dragoman run: given up: {redact(sanitize(error.explanation))}", "red")
        return exit_codes.TIMEOUT
    terminal.diagnostics.write_line(f"dragoman run: {redact(error_text(error))}", "red")
    return exit_code_of(error)


def exit_code_of(error: ProtocolError | ConnectionFailed) -> int:
    """The exit code of a fault."""
    if isinstance(error, SandboxUnavailable):
        return exit_codes.NO_SANDBOX
    if isinstance(error, ConnectionFailed):
        return exit_codes.DIED
    if isinstance(error, StoreFault):
        return exit_codes.NO_STORE
    return exit_codes.FAILED


# What is refused on the way to an agent as well as by one: by a host, by its server, or by our own end.
REFUSAL_KINDS = frozenset({Kind.PERMISSION_DENIED, Kind.ACCESS_DENIED, Kind.RATE_LIMITED, Kind.TOO_LARGE})


def error_text(error: ProtocolError | ConnectionFailed) -> str:
    """One line for a fault, and a hint where there is one; the last words of an agent that died follow."""
    if isinstance(error, AgentExited):
        return sanitize(str(error)).replace("; last words: ", "; it said:\n")
    if isinstance(error, ConnectionFailed):
        return sanitize(with_cli_advice(str(error)))
    if isinstance(error, StoreFault):
        return f"{sanitize(error.message)}; --no-store keeps nothing"
    who = "this was refused" if error.kind in REFUSAL_KINDS else "the agent answered with an error"
    text = f"{who} ({sanitize(error.kind)}): {sanitize(error.explanation)}"
    if error.kind == Kind.AUTH_REQUIRED:
        text += "; log in with the agent's own command first"
    return text
