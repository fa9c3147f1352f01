"""`dragoman check agent`: start an agent once for every requirement, or visit it, and say which it keeps."""

from __future__ import annotations

import os
import sys

from dragoman.cli import exit_codes
from dragoman.cli.check.options import (
    EXIT_CODES_HELP,
    StopSignal,
    add_options,
    list_requirements,
    run_check,
    run_until_signal,
    select_requirements,
)
from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import OutputStream
from dragoman.conformance.harness.preflight import check_agent
from dragoman.conformance.harness.targets import CommandAgent, Target
from dragoman.conformance.prompts import read_script
from dragoman.conformance.report.baseline import read_baseline
from dragoman.errors import ConfigFault
from dragoman.transport.remote.address import redact_url

EPILOG = """\
Every requirement is tried with a fresh process in an empty folder; nothing the agent does ends the check. What an agent
did not do (no tool call came, say) is inconclusive, never a failure. Agents with a model are asked in plain words to
read, write and run something; --script FILE gives the words that make yours do it:

  [prompts]
  read = "Read the file {file}."
  slow = "Run: sleep 60"

An agent that is served already is checked at its address: http:// and https:// over Streamable HTTP, ws:// and wss://
over WebSocket, each with the requirements of that transport (agent.http, agent.ws) and all others. Every probe is a
connection of its own to the same server.

"""

EXAMPLES = """

examples:
  dragoman check agent -- my-agent --acp
  dragoman check agent --level must --junit check.xml --html check.html -- my-agent --acp
  dragoman check agent http://127.0.0.1:8000/acp
  dragoman check agent --only agent.ws --token-file ~/.office-token wss://office.example:7437/acp
  dragoman check agent --dialect draft --only agent.draft -- my-agent"""


def main(name: str, arguments: list[str]) -> int:
    """Read the arguments, then check."""
    parser = Parser(
        name,
        "[OPTIONS] URL | -- CMD ARG...",
        "Check whether an agent keeps the protocol: one that a command starts, or one at an address.",
        EPILOG + EXIT_CODES_HELP + EXAMPLES,
    )
    add_options(parser)
    parser.add_argument("--script", metavar="FILE", help="what to prompt the agent with (TOML)")
    parser.add_argument("--token-file", metavar="FILE", help="where the token for an address is")
    parser.add_argument("--ca", metavar="FILE", help="certificate authorities to trust at an address")
    parser.add_argument("url", nargs="?", default="", metavar="URL", help="the address of an agent")
    options, command = parser.read(arguments)
    if options.only and not command and not options.url and _is_url(options.only[-1]):
        options.url = options.only.pop()  # --only takes all words up to the next option
    if options.url and not _is_url(options.url):
        parser.error(f"{options.url!r} is no address (http://, https://, ws://, wss://); a command comes after --")
    if options.url and command:
        parser.error("check an address or a command, not both")
    way = ("ws" if options.url.startswith("ws") else "http") if options.url else ""
    found = select_requirements(parser, options, "agent", "" if options.dialect == "auto" else options.dialect, way)
    if options.list:
        return list_requirements(found, options)
    if not command and not options.url:
        parser.error("name the agent to check after --, as in: -- my-agent --acp; or give its address")

    async def work(stop: StopSignal) -> int:
        before = read_baseline(options.baseline, "agent") if options.baseline else None
        script = read_script(options.script) if options.script else None
        token = _read_token(options.token_file)

        def agent(dialect: str) -> Target:
            if not options.url:
                return CommandAgent(command, dialect, script=script)
            from dragoman.conformance.harness.remote_agent import UrlAgent

            return UrlAgent(options.url, dialect, script=script, token=token, tls=options.ca)

        aside = OutputStream(sys.stderr, os.environ)
        try:
            seen = await check_agent(agent, "" if options.dialect == "auto" else options.dialect, aside.show_footer)
        finally:
            aside.clear_footer()
        meant = select_requirements(parser, options, "agent", seen.dialect, way)
        peer = [redact_url(options.url)] if options.url else command
        code = await run_check(agent(seen.dialect), meant, options, peer, "agent", stop, before)
        if code == exit_codes.OK and not seen.is_initialized:
            return parser.fail(f"the agent cannot be checked: {seen.why}", exit_codes.DIED)
        return code

    return run_until_signal(work, parser, "the agent cannot be checked: ")


def _is_url(text: str) -> bool:
    return text.startswith(("http://", "https://", "ws://", "wss://"))


def _read_token(path: str | None) -> str:
    """Return the token in a file; raises ConfigFault."""
    if path is None:
        return ""
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigFault([f"cannot read the token in {path}: {getattr(error, 'strerror', None) or error}"]) from None
