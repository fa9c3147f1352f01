"""`dragoman check agent`: start an agent or connect to it, once for each requirement, and report which it meets."""

from __future__ import annotations

import argparse
import os
import sys

from dragoman.cli import exit_codes
from dragoman.cli.check import options as checks
from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import OutputStream, sanitize_line
from dragoman.conformance.harness.preflight import check_agent, prompt_refusal
from dragoman.conformance.harness.settings import AgentSettings
from dragoman.conformance.harness.targets import CommandAgent, Target
from dragoman.conformance.prompts import read_script
from dragoman.conformance.report.baseline import read_baseline
from dragoman.errors import ConfigFault
from dragoman.transport.remote.address import redact_url

EPILOG = """\
Each requirement is tried with a new process in an empty folder. Nothing that
the agent does ends the check. What an agent did not do (it made no tool call,
for example) is inconclusive, not a failure. An agent with a model is asked in
plain words to read, write and run something; --script FILE has the prompts that
make yours do it:

  [prompts]
  read = "Read the file {file}."
  slow = "Run: sleep 60"

An agent that is already served is checked at its URL: http:// and https:// over
Streamable HTTP, ws:// and wss:// over WebSocket, with the requirements of that
transport (agent.http, agent.ws) and all others. Each probe opens its own
connection to the server.

"""

EXAMPLES = """

examples:
  dragoman check agent -- my-agent --acp
  dragoman check agent --level must --junit check.xml --html check.html -- my-agent --acp
  dragoman check agent http://127.0.0.1:8000/acp
  dragoman check agent --only agent.ws --token-file ~/.office-token wss://office.example:7437/acp
  dragoman check agent --dialect draft --only agent.draft -- my-agent"""


def main(name: str, arguments: list[str]) -> int:
    """Parse the arguments, then check."""
    parser = Parser(
        name,
        "[OPTIONS] URL | -- CMD ARG...",
        "Test an agent for conformance: one that a command starts, or one at a URL.",
        EPILOG + checks.EXIT_CODES_HELP + EXAMPLES,
    )
    checks.add_options(parser)
    parser.add_argument("--script", metavar="FILE", help="prompts for the agent (TOML)")
    parser.add_argument("--auth-method", default="", metavar="ID", help="log in with this method first")
    parser.add_argument("--allow-logout", action="store_true", help="also test logout, which may log you out")
    parser.add_argument("--agent-mode", default="", metavar="ID", help="set this mode in each session")
    parser.add_argument("--model", default="", metavar="ID", help="set this model in each session")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="ID=VALUE",
        help="set this option of the agent; can be repeated",
    )
    parser.add_argument("--token-file", metavar="FILE", help="file with the access token for the URL")
    parser.add_argument("--ca", metavar="FILE", help="file with additional trusted certificates for the URL")
    parser.add_argument("url", nargs="?", default="", metavar="URL", help="URL of the agent")
    options, command = parser.read(arguments)
    if options.only and not command and not options.url and _is_url(options.only[-1]):
        options.url = options.only.pop()  # --only takes all words up to the next option
    if options.url and not _is_url(options.url):
        parser.error(f"{options.url!r} is not a URL (http://, https://, ws://, wss://); give a command after --")
    if options.url and command:
        parser.error("give a URL or a command, not both")
    transport = ("ws" if options.url.startswith("ws") else "http") if options.url else ""
    found = checks.select_requirements(
        parser, options, "agent", "" if options.dialect == "auto" else options.dialect, transport
    )
    if options.list:
        return checks.list_requirements(found, options)
    if not command and not options.url:
        parser.error("give the command of the agent after --, as in: -- my-agent --acp; or give its URL")

    async def work(stop: checks.StopSignal) -> int:
        before = read_baseline(options.baseline, "agent") if options.baseline else None
        settings = _read_settings(parser, options)
        token = _read_token(options.token_file)

        def agent(dialect: str) -> Target:
            if not options.url:
                return CommandAgent(command, dialect, settings=settings)
            from dragoman.conformance.harness.remote_agent import UrlAgent

            return UrlAgent(options.url, dialect, settings=settings, token=token, tls=options.ca)

        progress = OutputStream(sys.stderr, os.environ)
        try:
            seen = await check_agent(agent, "" if options.dialect == "auto" else options.dialect, progress.show_footer)
            settings.refusal = await prompt_refusal(agent(seen.dialect))
        finally:
            progress.clear_footer()
        if settings.refusal:
            why = sanitize_line(str(settings.refusal.get("message", "")))
            print(
                f"the agent refuses a plain prompt ({why}): requirements about turns are inconclusive", file=sys.stderr
            )
        selected = checks.select_requirements(parser, options, "agent", seen.dialect, transport)
        peer = [redact_url(options.url)] if options.url else command
        code = await checks.run_check(agent(seen.dialect), selected, options, peer, "agent", stop, before)
        if code == exit_codes.OK and not seen.is_initialized:
            return parser.fail(f"the agent cannot be checked: {seen.why}", exit_codes.DIED)
        return code

    return checks.run_until_signal(work, parser, "the agent cannot be checked: ")


def _read_settings(parser: Parser, options: argparse.Namespace) -> AgentSettings:
    pairs = [pair.partition("=") for pair in options.option]
    if not all(id and equals for id, equals, _ in pairs):
        parser.error("--option takes ID=VALUE")
    return AgentSettings(
        script=read_script(options.script) if options.script else None,
        auth_method=options.auth_method,
        allows_logout=options.allow_logout,
        mode=options.agent_mode,
        model=options.model,
        options=[(id, value) for id, _, value in pairs],
    )


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
