"""`dragoman check client`: act as the agent of a client, once for each requirement, and report which ones it meets.

With --serve, an editor starts the tester, and each verdict is shown as it comes."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Sequence

from dragoman.cli import exit_codes
from dragoman.cli.check import options as checks
from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import OutputStream, sanitize, sanitize_line
from dragoman.conformance.harness.client_process import CommandClient
from dragoman.conformance.harness.editor import EditorClient, agent_command, open_stub_listener
from dragoman.conformance.harness.preflight import check_client
from dragoman.conformance.report.baseline import read_baseline
from dragoman.conformance.requirement import Requirement, requirements
from dragoman.conformance.runner import try_one
from dragoman.conformance.verdict import Outcome, Verdict
from dragoman.dialect.dialects import DEFAULT_DIALECT
from dragoman.testing.fake_agents import StubListener

EPILOG = """\
The command after -- is the client. It is started once for each requirement, in
an empty folder, and must start the tester as its agent and prompt it. Write
{agent} where the command of the agent belongs: after -- it becomes the words of
the tester's command, anywhere else one quoted word; without {agent} the words
are appended. {cwd} is the folder. Let the client allow what it is asked for
(--yes), or files and terminals stay inconclusive. To make the client cancel,
Ctrl-C is sent to it.

A client of remote agents gets a URL instead, with {url}. The tester waits there,
with one URL for each requirement, and also checks the requirements of the
transport (client.http, client.ws). With --over ws it is a WebSocket URL, else
Streamable HTTP.

What a client shows is read from its standard output: order and completeness of
the text can only be checked there.

--serve is for editors: it prints the command to configure as an agent, then
tries one requirement with each prompt and shows the verdicts as they come.
Ctrl-C ends it, with a report of what was tried.

"""

EXAMPLES = """

examples:
  dragoman check client -- dragoman run --prompt hello --yes -- {agent}
  dragoman check client --html check.html -- my-client --agent {agent}
  dragoman check client --only client.order -- python my_client.py
  dragoman check client --only client.http -- my-client --connect {url}
  dragoman check client --over ws -- my-client --connect {url}
  dragoman check client --serve --only client.update --json editor.json"""


def main(name: str, arguments: list[str]) -> int:
    """Parse the arguments, then check."""
    parser = Parser(
        name,
        "[OPTIONS] -- CMD ARG... | --serve",
        "Test a client for conformance; the tester is its agent.",
        EPILOG + checks.EXIT_CODES_HELP + EXAMPLES,
    )
    checks.add_options(parser)
    parser.add_flag("--serve", "wait for an editor to start the tester")
    parser.add_argument("--over", choices=("http", "ws"), default="http", help="transport of {url} (http)")
    options, command = parser.read(arguments)
    way = options.over if any("{url}" in word for word in command) else ""
    found = checks.select_requirements(parser, options, "client", checks.given_dialect(options), way)
    if options.list:
        return checks.list_requirements(found, options)
    if options.serve and command:
        parser.error("--serve waits for an editor: omit the command")
    if options.serve and options.baseline:
        parser.error("--baseline compares complete checks, but --serve ends when you stop it: use only one of them")
    if not options.serve and not command:
        parser.error("give the command of the client after --, as in: -- my-client --agent {agent}; or use --serve")
    if options.serve:
        return checks.run_until_signal(lambda stop: _serve(parser, options, stop), parser)
    return checks.run_until_signal(lambda stop: _check(parser, options, command, stop), parser)


async def _check(parser: Parser, options: argparse.Namespace, command: list[str], stop: checks.StopSignal) -> int:
    before = read_baseline(options.baseline, "client") if options.baseline else None
    client = CommandClient(command, DEFAULT_DIALECT)
    if any("{url}" in word for word in command):
        from dragoman.conformance.harness.remote_client import UrlClient

        client = UrlClient(command, DEFAULT_DIALECT, options.over)
    progress = OutputStream(sys.stderr, os.environ)
    progress.show_footer("checking that the client starts its agent and prompts it")
    try:
        trial = await check_client(client, checks.given_dialect(options))
    finally:
        progress.clear_footer()
    client.exits_after_turn = trial.exits_after_turn
    if not trial.exits_after_turn:
        progress.write_line("the client keeps running after a turn: whether it waits for its agent cannot be checked")
    if not trial.shows_text:
        progress.write_line("the client shows no text on its standard output: the order of it cannot be checked")
    selected = checks.select_requirements(parser, options, "client", trial.dialect, client.way)
    return await checks.run_check(client, selected, options, command, "client", stop, before)


async def _serve(parser: Parser, options: argparse.Namespace, stop: checks.StopSignal) -> int:
    dialect = checks.given_dialect(options) or DEFAULT_DIALECT
    with open_stub_listener() as listener:
        selected = checks.select_requirements(parser, options, "client", dialect)
        return await serve_check(listener, dialect, selected, options, stop)


OUTCOME_STYLES = {
    Outcome.PASS: "green",
    Outcome.FAIL: "red",
    Outcome.INCONCLUSIVE: "yellow",
    Outcome.NOT_APPLICABLE: "dim",
}


async def serve_check(
    listener: StubListener,
    dialect: str,
    selected: Sequence[Requirement],
    options: argparse.Namespace,
    stop: checks.StopSignal,
) -> int:
    """Try one requirement after the other, until all are tried or the user stops."""
    output = OutputStream(sys.stderr if options.json == "-" else sys.stdout, os.environ)
    words = agent_command(listener)
    _show_setup(output, words, len(selected))
    client = EditorClient(listener, dialect, lambda text: output.write_line(text, "dim"))
    verdicts: list[Verdict] = []
    started = time.monotonic()
    try:
        await _try_requirements(client, selected, verdicts, output)
    except asyncio.CancelledError:  # how it usually ends
        if not stop.signal:
            raise
    finally:
        await client.close()
    if not verdicts:
        return stop.exit_code
    seconds = time.monotonic() - started
    result = checks.report_verdicts(output, "client", words, dialect, verdicts, len(selected), seconds, options, stop)
    if stop.signal == signal.SIGTERM:
        return stop.exit_code
    return exit_codes.FAILED if result.is_broken else exit_codes.OK


def _show_setup(output: OutputStream, argv: list[str], count: int) -> None:
    output.write_line("Configure this command as an agent of the editor:", "bold")
    output.write_line(f"  {shlex.join(argv)}")
    output.write_line("In Zed, for example, in settings.json:")
    entry = {"dragoman check": {"type": "custom", "command": argv[0], "args": argv[1:]}}
    output.write_line(f'  "agent_servers": {json.dumps(entry)}')
    output.write_line(f"{count} requirements are tried, one with each prompt. Ctrl-C ends it and shows what was found.")


async def _try_requirements(
    client: EditorClient, selected: Sequence[Requirement], verdicts: list[Verdict], output: OutputStream
) -> None:
    for requirement in selected:
        verdict = await try_one(client, requirement)
        verdicts.append(verdict)
        sentence = requirements()[verdict.requirement].sentence
        why = f" ({sanitize(sanitize_line(verdict.why))})" if verdict.why else ""
        output.write_line(
            f"{verdict.outcome.value:15} {verdict.requirement:20} {sentence}{why}", OUTCOME_STYLES[verdict.outcome]
        )
