"""`dragoman check client`: be the agent of a client, once for every requirement, and say which it keeps."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from dragoman.cli import exit_codes
from dragoman.cli.parser import Parser
from dragoman.dialect.dialects import DEFAULT_DIALECT

if TYPE_CHECKING:
    from dragoman.cli.check.options import StopSignal

EPILOG = """\
The command after -- is the client. It is started once for every requirement, in an empty folder, and has to start our
tester as its agent and prompt it. Where the agent's command belongs, write {agent}: after -- it becomes the tester's
words, anywhere else one quoted word; without {agent} the words are appended. {cwd} is the folder. Let the client allow
what it is asked for (--yes), or files and terminals stay inconclusive. Ctrl-C is sent to it to make it cancel.

A client of remote agents is given an address instead, with {url}: the tester then waits there, one address for each
requirement, and checks what the transport asks of clients (client.http, client.ws) and everything else. --over ws
makes it a WebSocket address, else it is Streamable HTTP.

What a client shows is read from its standard output: order and completeness of the text can only be checked there.

--serve is for editors: it prints the command to configure as an agent, then tries one requirement with each prompt and
shows the verdicts as they come. Ctrl-C ends it, with a report of what was tried.

"""

EXAMPLES = """

examples:
  dragoman check client -- dragoman run --prompt hello --yes -- {agent}
  dragoman check client --level must --html check.html -- my-client --agent {agent}
  dragoman check client --only client.process client.order -- python my_client.py
  dragoman check client --only client.http -- my-client --connect {url}
  dragoman check client --over ws -- my-client --connect {url}
  dragoman check client --serve --only client.update --json editor.json"""


def main(name: str, arguments: list[str]) -> int:
    """Read the arguments, then check."""
    from dragoman.cli.check.options import EXIT_CODES_HELP, add_options, list_requirements, select_requirements

    parser = Parser(
        f"check {name}",
        "[OPTIONS] -- CMD ARG... | --serve",
        "Check whether a client keeps the protocol; the tester is its agent.",
        EPILOG + EXIT_CODES_HELP + EXAMPLES,
    )
    add_options(parser)
    parser.add_argument("--serve", action="store_true", help="wait for an editor to start the tester")
    parser.add_argument("--over", choices=("http", "ws"), default="http", help="what {url} is an address of")
    options, command = parser.read(arguments)
    way = options.over if any("{url}" in word for word in command) else ""
    found = select_requirements(parser, options, "client", "" if options.dialect == "auto" else options.dialect, way)
    if options.list:
        return list_requirements(found, options)
    if options.serve and command:
        parser.error("--serve waits for an editor: leave the command away")
    if options.serve and options.baseline:
        parser.error("--baseline compares whole checks, and --serve has as many as you typed: leave one of them away")
    if not options.serve and not command:
        parser.error("name the client to check after --, as in: -- my-client --agent {agent}; or use --serve")

    from dragoman.cli.check.options import run_until_signal
    from dragoman.cli.ui.terminal import sanitize
    from dragoman.errors import ConfigFault, StartFailed

    try:
        if options.serve:
            return run_until_signal(lambda cut: _serve(parser, options, cut), "client")
        return run_until_signal(lambda cut: _check(parser, options, command, cut), "client")
    except StartFailed as error:
        print(f"dragoman check client: {sanitize(str(error))}", file=sys.stderr)
        return exit_codes.DIED
    except ConfigFault as error:
        print(f"dragoman check client: {sanitize('; '.join(error.faults))}", file=sys.stderr)
        return exit_codes.USAGE


async def _check(parser: Parser, options: argparse.Namespace, command: list[str], stop: StopSignal) -> int:
    from dragoman.cli.check.options import run_check, select_requirements
    from dragoman.cli.ui.terminal import OutputStream
    from dragoman.conformance.harness.client_process import CommandClient
    from dragoman.conformance.harness.preflight import check_client
    from dragoman.conformance.report.baseline import read_baseline

    before = read_baseline(options.baseline, "client") if options.baseline else None
    client = CommandClient(command, DEFAULT_DIALECT)
    if any("{url}" in word for word in command):
        from dragoman.conformance.harness.remote_client import UrlClient

        client = UrlClient(command, DEFAULT_DIALECT, options.over)
    aside = OutputStream(sys.stderr, os.environ)
    aside.show_footer("a first look at the client: does it start its agent, and prompt it?")
    try:
        trial = await check_client(client, "" if options.dialect == "auto" else options.dialect)
    finally:
        aside.clear_footer()
    client.exits_after_turn = trial.exits_after_turn
    if not trial.exits_after_turn:
        print("the client stays after a turn: whether it waits for its agent cannot be told", file=sys.stderr)
    if not trial.shows_text:
        print("the client shows no text on its standard output: the order of it cannot be checked", file=sys.stderr)
    meant = select_requirements(parser, options, "client", trial.dialect, client.way)
    return await run_check(client, meant, options, command, "client", stop, before)


async def _serve(parser: Parser, options: argparse.Namespace, stop: StopSignal) -> int:
    from dragoman.cli.check.editor import serve_check
    from dragoman.cli.check.options import select_requirements
    from dragoman.conformance.harness.editor import open_stub_listener

    dialect = DEFAULT_DIALECT if options.dialect == "auto" else options.dialect
    with open_stub_listener() as listener:
        return await serve_check(
            listener, dialect, select_requirements(parser, options, "client", dialect), options, stop
        )
