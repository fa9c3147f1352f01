"""`dragoman run`: send one prompt to an agent and stream the answer; the exit code says how the turn ended.

The agent's text goes to stdout. Everything else goes to the terminal, or to stderr when stdout is piped.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from dragoman import ClientTurn, ConnectionFailed, Kind, ProtocolError
from dragoman.cli import exit_codes
from dragoman.cli.connect import options as session_options
from dragoman.cli.connect.json_output import JsonOutput, NullStream
from dragoman.cli.connect.local import OpenSession, open_session
from dragoman.cli.connect.options import SessionOptions
from dragoman.cli.connect.prompt import Interrupts, file_block, image_problem, run_turn
from dragoman.cli.connect.prompt_text import add_prompt_options, read_prompt_text
from dragoman.cli.messages import as_agent_exit, error_kind, error_text, exit_code_of, report_turn_end
from dragoman.cli.parser import Parser
from dragoman.cli.ui.key_prompt import find_prompter
from dragoman.cli.ui.progress import show_progress
from dragoman.cli.ui.terminal import TerminalOutput, sanitize, sanitize_line
from dragoman.engine.loop import run as run_loop
from dragoman.errors import ConfigFault, DragomanError, StoreFault
from dragoman.policy.modes import MODES
from dragoman.schema.content import ContentBlock, ResourceLink, TextContent
from dragoman.schema.initialize import AgentCapabilities

if TYPE_CHECKING:
    from dragoman.transport.recording.tap import Tap

# The time that the turn gets of --timeout when the agent was ready only just in time. Seconds.
MIN_TURN_TIMEOUT = 0.1

# Timers and clocks differ by less than this. Seconds.
TIMEOUT_PRECISION = 0.01

EPILOG = f"""\
Your policy, the project's policy and the policy mode decide what an agent may
do (docs/policy.md). Without a policy file, reading in the working directory is
allowed; for writing files and running commands you are asked. Without a
terminal they are refused, and --yes allows them. One answer covers one action:
after you allow a tool call, you are not asked again when the agent writes that
file or runs that command. An answer can also be remembered: for the session,
for this folder, or always (`dragoman grants`). Without a sandbox, a command
that runs is not confined. `dragoman audit` shows what was decided and why.

policy modes:
  {", ".join(MODES)}

{session_options.SANDBOX_HELP}

Sessions are stored (`dragoman sessions`). --session gives the session a name,
and continues it later in the same folder; --no-store stores nothing. --json
prints each stored entry as a line, and the result as the last line
(docs/store.md).

--file attaches a file as text, image or link, depending on what the agent
supports. With --quiet only the answer and errors are printed. --timeout covers
the whole run; the agent is asked to stop before it is terminated.

With --host the agent runs on a host (docs/host.md) and uses the files of the
host. With --lend it uses a folder of this machine instead, and your own policy
decides what it may read, write and run there.

Ctrl-C asks the agent to stop; a second Ctrl-C ends everything.

{exit_codes.help_text()}

examples:
  dragoman run 'What does this project do?'
  dragoman run --agent opencode --prompt-file task.md
  dragoman run --agent opencode --file src/main.py 'Is there a bug in it?'
  dragoman run --session roof 'Where were we?'
  dragoman run --host office --session roof 'And if we used tiles?'
  dragoman run --host office --lend ~/project 'Which tests fail?'
  dragoman run --json 'List tests' | jq 'select(.kind == "result").body.text'
  dragoman run --quiet --timeout 300 'Write a summary' > summary.md
  dragoman run --prompt '/write a.txt hello' --yes -- dragoman agent everything
  dragoman run --prompt 'What would you change?' --mode plan -- my-agent --acp
  dragoman run --image shot.png --model large --mcp mcp.json 'What is wrong?'
{session_options.SANDBOX_EXAMPLES.format(name="run", rest="--prompt 'Fix it' -- my-agent")}
  git diff | dragoman run 'Review this' -- my-agent --acp > review.md"""


def main(arguments: list[str]) -> int:
    """Parse the arguments, then run the prompt."""
    usage = f"[PROMPT] {session_options.USAGE}"
    parser = Parser("run", usage, "Send one prompt to an agent and show its work as it happens.", EPILOG)
    add_prompt_options(parser)
    parser.add_value("--file", "FILE", "attach a file; can be repeated", repeated=True)
    parser.add_value("--image", "FILE", "attach an image; can be repeated", repeated=True)
    parser.add_value("--timeout", "SECONDS", "stop after this time", type=float)
    parser.add_flag("-q --quiet", "print only the answer and errors")
    parser.add_flag("--json", "print each log entry as a JSON line, then the result")
    parser.add_value("--trace", "FILE", "record every message for `dragoman inspect show`; must be a new file")
    session_options.add_session_options(parser)
    parser.write_json_error = lambda message, kind, code: JsonOutput(sys.stdout.buffer).write_result(
        code, error={"kind": kind, "message": message}
    )
    given, command = parser.read(arguments)
    if given.quiet and given.verbose:
        parser.error("--quiet and --verbose cannot be used together")
    if given.timeout is not None and not 0 < given.timeout < 1e9:
        parser.error("--timeout must be a number of seconds")
    for path in [*given.file, *given.image]:
        if not os.path.exists(path):
            parser.error(f"there is no file {path}")
    if problem := next(filter(None, map(image_problem, given.image)), ""):
        parser.error(f"--image: {problem}")
    try:
        is_quiet = given.quiet or given.json
        options = session_options.read_session_options(parser, given, command, quiet=is_quiet, timeout=given.timeout)
        prompt = read_prompt(parser, given)
        with open_trace(given.trace, options.agent.argv) as tap:
            return run_loop(run_prompt(msgspec.structs.replace(options, trace=tap), prompt, as_json=given.json))
    except ConfigFault as fault:
        return parser.fail(str(fault), exit_codes.USAGE)


class Prompt(NamedTuple):
    """The text and the files of a prompt."""

    text: str
    images: Sequence[str] = ()
    files: Sequence[str] = ()

    def content(self, capabilities: AgentCapabilities) -> list[ContentBlock]:
        """Return the prompt as the agent can read it."""
        return [
            *([TextContent(text=self.text)] if self.text else []),
            *(file_block(os.path.abspath(path), capabilities, as_image=True) for path in self.images),
            *(file_block(os.path.abspath(path), capabilities) for path in self.files),
        ]


def read_prompt(parser: Parser, options: argparse.Namespace) -> Prompt:
    """Return the prompt; exits if it has neither text nor files."""
    text = read_prompt_text(parser, options)
    if not text and not options.file and not options.image:
        parser.error("the prompt is empty")
    return Prompt(text, options.image, options.file)


async def run_prompt(options: SessionOptions, prompt: Prompt, *, as_json: bool) -> int:
    """Start the agent, prompt it, and report the end; raises ConfigFault when the user's files cannot be used."""
    if not as_json:
        return await prompt_agent(options, prompt, TerminalOutput(sys.stdout, sys.stderr))
    entries = JsonOutput(sys.stdout.buffer, asyncio.current_task())
    code = await prompt_agent(options, prompt, TerminalOutput(NullStream(), sys.stderr), entries)
    if entries.failure is not None:
        raise entries.failure
    return code


async def prompt_agent(
    options: SessionOptions, prompt: Prompt, terminal: TerminalOutput, json_output: JsonOutput | None = None
) -> int:
    """Run the prompt with this output; also write JSON entries if wanted."""
    interrupts, diagnostics, timeout = Interrupts(), terminal.diagnostics, options.timeout
    redact: Callable[[str], str] = str
    return_advice = ""
    finish: Callable[..., int] = (lambda code, **_: code) if json_output is None else json_output.write_result
    clock = asyncio.get_running_loop().time
    started = clock()
    try:
        async with AsyncExitStack() as stack:
            on_entry = None if json_output is None else json_output.write_entry
            opening = open_session(options, terminal, find_prompter(diagnostics), on_entry=on_entry)
            opened = await _open_within(timeout, stack.enter_async_context(opening))
            redact, return_advice = opened.permission_ui.redact, opened.return_advice("dragoman run")
            content = prompt.content(opened.agent.capabilities)
            for name in unreachable_files(content, options):
                diagnostics.write_line(
                    f"{sanitize_line(name)} is attached as a link to a file that the host does not have", "yellow"
                )
            remaining = None if timeout is None else max(MIN_TURN_TIMEOUT, timeout - (clock() - started))
            view = opened.create_view(opened.session)
            progress = show_progress(
                diagnostics,
                lambda seconds: f"{sanitize_line(options.agent.name)} is working… {seconds} s · Ctrl-C stops it",
                is_paused=lambda: opened.permission_ui.is_asking,
            )
            async with nullcontext() if options.quiet else progress:
                running = run_turn(opened, content, view, interrupts, timeout=remaining)
                turn = await _finish_within(timeout, started, running)
            code = report_turn_end(turn.stop_reason or "", terminal, opened.permission_ui.refused_count)
        return finish(code)
    except asyncio.CancelledError:
        if json_output is None or json_output.failure is None:
            diagnostics.write_line("interrupted", "yellow")
        return finish(interrupts.exit_code)
    except (ProtocolError, ConnectionFailed) as failure:
        error = as_agent_exit(failure)
        code = report_failure(error, terminal, redact, has_timeout=timeout is not None)
        if code == exit_codes.DIED and return_advice and not options.quiet:
            diagnostics.write_line(f"the session is stored; continue {return_advice}", "dim")
        return finish(code, error=error_to_json(error, redact))


async def _open_within(timeout: float | None, session: Awaitable[OpenSession]) -> OpenSession:
    """Open the session within the timeout, whatever it waits for."""
    try:
        async with asyncio.timeout(timeout):
            return await session
    except TimeoutError:
        raise ProtocolError(Kind.TIMEOUT, f"the agent was not ready within {timeout:g} s") from None


async def _finish_within(timeout: float | None, started: float, running: Awaitable[ClientTurn]) -> ClientTurn:
    """Wait for the end of the turn; after a timeout, name the time that the user gave: the start took a part of it."""
    try:
        return await running
    except ProtocolError as error:
        elapsed = asyncio.get_running_loop().time() - started
        if timeout is None or error.kind != Kind.TIMEOUT or elapsed < timeout - TIMEOUT_PRECISION:
            raise
        raise ProtocolError(Kind.TIMEOUT, f"start and turn took longer than {timeout:g} s", error.data) from error


def error_to_json(error: DragomanError, redact: Callable[[str], str] = str) -> dict[str, str]:
    """Return an error for --json: its kind and message."""
    message = str(error)
    if isinstance(error, ProtocolError):  # agents put the reason of an "Internal error" into its data
        message = error.message if isinstance(error, StoreFault) else error.explanation
    return {"kind": error_kind(error), "message": redact(message)}


def unreachable_files(content: list[ContentBlock], options: SessionOptions) -> list[str]:
    """Return the linked files that an agent on another machine cannot read."""
    if options.host is None or options.host.is_local or options.lend is not None:
        return []
    return [block.name for block in content if isinstance(block, ResourceLink)]


def report_failure(
    error: ProtocolError | ConnectionFailed,
    terminal: TerminalOutput,
    redact: Callable[[str], str],
    *,
    has_timeout: bool = False,
) -> int:
    """Report a failed turn, with the secrets redacted; return the exit code."""
    if has_timeout and isinstance(error, ProtocolError) and error.kind == Kind.TIMEOUT:
        terminal.diagnostics.write_line(f"dragoman run: timeout: {redact(sanitize(error.explanation))}", "red")
        return exit_codes.TIMEOUT
    terminal.diagnostics.write_line(f"dragoman run: {redact(error_text(error))}", "red")
    return exit_code_of(error)


@contextmanager
def open_trace(path: str | None, command: Sequence[str]) -> Iterator[Tap | None]:
    """Yield the tap for connect(trace=...), or None without a path."""
    if path is None:
        yield None
        return
    from dragoman.policy.message_secrets import FrameRedactor
    from dragoman.transport.recording.tap import trace_to

    def report(text: str) -> None:
        print(f"dragoman: {sanitize_line(text)}", file=sys.stderr, flush=True)

    with trace_to(path, command, report, redact=FrameRedactor()) as tap:
        yield tap
