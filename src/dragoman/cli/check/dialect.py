"""`dragoman check dialect`: start an agent, or connect to it, and say which dialect it speaks."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from typing import Any

from dragoman import ConnectionFailed, ProtocolError, RemoteAgent, connect
from dragoman.cli import exit_codes
from dragoman.cli.connect.which_agent import resolve_agent
from dragoman.cli.messages import error_text, exit_code_of
from dragoman.cli.parser import Parser
from dragoman.cli.ui.format import report
from dragoman.cli.ui.progress import show_progress
from dragoman.cli.ui.terminal import OutputStream, sanitize_line
from dragoman.config.host_section import NamedHost
from dragoman.config.host_tokens import read_token
from dragoman.dialect.dialects import DEFAULT_DIALECT
from dragoman.engine.loop import run as run_loop
from dragoman.transport.address import is_remote
from dragoman.transport.remote.address import redact_url

EPILOG = """\
The agent is started and gets one message, `initialize`; it opens no session and
needs no model. docs/dialects.md describes the dialects, and who uses which.

exit codes:
    0  the dialect is known
    1  an error
    2  wrong usage
    7  the agent did not start, exited, or speaks no known dialect
  130  interrupted by Ctrl-C

examples:
  dragoman check dialect -- my-agent --acp
  dragoman check dialect --agent opencode
  dragoman check dialect --json https://office.example:7437/acp"""


def main(name: str, arguments: list[str]) -> int:
    """Parse the arguments, then ask the agent."""
    parser = Parser(name, "[--agent NAME] [--json] URL | -- CMD ARG...", "Say which dialect an agent speaks.", EPILOG)
    parser.add_value("-a --agent", "NAME", "use this agent of `dragoman agents`")
    parser.add_value("--token-file", "FILE", "file with the access token for the URL (or set DRAGOMAN_TOKEN)")
    parser.add_flag("--json", "print the result as JSON")
    parser.add_argument("url", nargs="?", default="", metavar="URL", help="URL of the agent")
    options, command = parser.read(arguments)
    if options.url and not is_remote(options.url):
        parser.error(f"{options.url!r} is not a URL (http://, https://, ws://, wss://); give a command after --")
    if options.url and (command or options.agent):
        parser.error("give a URL or an agent, not both")
    if options.url:
        host = NamedHost(name="", url=options.url, token_file=options.token_file or "")
        target: Any = options.url
        settings: dict[str, Any] = {"token": read_token(host, os.environ)}
        shown = redact_url(options.url)
    else:
        agent = resolve_agent(parser, options.agent, command)
        target, settings, shown = agent.argv, {"env": agent.env, "sandbox": agent.confinement}, shlex.join(agent.argv)
    try:
        found = run_loop(_ask(target, settings))
    except (ProtocolError, ConnectionFailed) as error:
        return parser.fail(error_text(error), exit_code_of(error) if isinstance(error, ConnectionFailed) else 1)
    except asyncio.CancelledError:
        return exit_codes.INTERRUPTED
    advice = (
        f"Editors that speak {DEFAULT_DIALECT} can start it directly."
        if found["dialect"] == DEFAULT_DIALECT
        else f"For an editor that speaks another dialect, use: dragoman translate -- {shown}"
    )
    title = " ".join(str(part) for part in (found["name"] or shown, found["version"]) if part)
    return report(options, found, [f"{title} speaks {found['dialect']}.", *([] if options.url else [advice])])


async def _ask(target: Any, settings: dict[str, Any]) -> dict[str, Any]:
    progress = OutputStream(sys.stderr)

    def waiting(seconds: int) -> str:
        return f"waiting for the agent… {seconds} s"

    async with show_progress(progress, waiting), connect(target, **settings) as agent:
        return _description(agent)


def _description(agent: RemoteAgent) -> dict[str, Any]:
    info = agent.info
    return {
        "dialect": agent.dialect,
        "protocolVersion": agent.initialize_result.protocol_version,
        "name": sanitize_line(info.title or info.name) if info else None,
        "version": sanitize_line(info.version) if info else None,
    }
