"""`dragoman check agent`: start an agent or connect to it, once for each requirement, and report which it meets."""

from __future__ import annotations

import argparse
import os
import sys

from dragoman.cli import exit_codes
from dragoman.cli.check import options as checks
from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import OutputStream, sanitize_line
from dragoman.config.host_section import NamedHost
from dragoman.config.host_tokens import read_token
from dragoman.conformance.harness.preflight import check_agent, prompt_refusal
from dragoman.conformance.harness.settings import AgentSettings
from dragoman.conformance.harness.targets import CommandAgent, Target
from dragoman.conformance.prompts import read_script
from dragoman.conformance.report.baseline import read_baseline
from dragoman.transport.address import is_remote
from dragoman.transport.remote.address import redact_url

EPILOG = """\
Each requirement is tried with a new process. It starts in the current folder,
and its session has a new folder, which is removed. Nothing that the agent does
ends the check. What an agent did not do (it made no tool call, for example) is
inconclusive, not a failure. An agent with a model is asked in plain words to
read, write and run something; --script FILE has the prompts that make yours do
it:

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
  dragoman check agent --level must --html check.html -- my-agent --acp
  dragoman check agent http://127.0.0.1:8000/acp
  dragoman check agent --only agent.ws --token-file t.txt wss://office:7437/acp
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
    parser.add_value("--script", "FILE", "prompts for the agent (TOML)")
    parser.add_value("--auth-method", "ID", "log in with this method first", default="")
    parser.add_flag("--allow-logout", "also test logout, which may log you out")
    parser.add_value("--agent-mode", "ID", "set this mode in each session", default="")
    parser.add_value("--model", "ID", "set this model in each session", default="")
    parser.add_value("--option", "ID=VALUE", "set this option of the agent; can be repeated", repeated=True)
    parser.add_value("--token-file", "FILE", "file with the access token for the URL (or set DRAGOMAN_TOKEN)")
    parser.add_value("--ca", "FILE", "file with additional trusted certificates for the URL")
    parser.add_argument("url", nargs="?", default="", metavar="URL", help="URL of the agent")
    options, command = parser.read(arguments)
    if options.only and not command and not options.url and is_remote(options.only[-1]):
        options.url = options.only.pop()  # --only takes all words up to the next option
    if options.url and not is_remote(options.url):
        parser.error(f"{options.url!r} is not a URL (http://, https://, ws://, wss://); give a command after --")
    if options.url and command:
        parser.error("give a URL or a command, not both")
    transport = ("ws" if options.url.startswith("ws") else "http") if options.url else ""
    found = checks.select_requirements(parser, options, "agent", checks.given_dialect(options), transport)
    if options.list:
        return checks.list_requirements(found, options)
    if not command and not options.url:
        parser.error("give the command of the agent after --, as in: -- my-agent --acp; or give its URL")

    return checks.run_until_signal(
        lambda stop: _check(parser, options, command, transport, stop), parser, "the agent cannot be checked: "
    )


async def _check(
    parser: Parser, options: argparse.Namespace, command: list[str], transport: str, stop: checks.StopSignal
) -> int:
    before = read_baseline(options.baseline, "agent") if options.baseline else None
    settings = _read_settings(parser, options)
    host = NamedHost(name="", url=options.url, token_file=options.token_file or "")
    token = read_token(host, os.environ) if options.url else ""

    def agent(dialect: str) -> Target:
        if not options.url:
            return CommandAgent(command, dialect, settings=settings)
        from dragoman.conformance.harness.remote_agent import UrlAgent

        return UrlAgent(options.url, dialect, settings=settings, token=token, tls=options.ca)

    progress = OutputStream(sys.stderr, os.environ)
    try:
        seen = await check_agent(agent, checks.given_dialect(options), progress.show_footer)
        settings.refusal = await prompt_refusal(agent(seen.dialect))
    finally:
        progress.clear_footer()
    if settings.refusal:
        why = sanitize_line(str(settings.refusal.get("message", "")))
        progress.write_line(f"the agent refuses a plain prompt ({why}): requirements about turns are inconclusive")
    selected = checks.select_requirements(parser, options, "agent", seen.dialect, transport)
    peer = [redact_url(options.url)] if options.url else command
    code = await checks.run_check(agent(seen.dialect), selected, options, peer, "agent", stop, before)
    if code == exit_codes.OK and not seen.is_initialized:
        return parser.fail(f"the agent cannot be checked: {seen.why}", exit_codes.DIED)
    return code


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
