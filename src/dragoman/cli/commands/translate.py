"""`dragoman translate`: act as an agent for an editor of one dialect, with an agent of another dialect behind it."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from dragoman.cli import exit_codes
from dragoman.cli.connect import options as session_options
from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.dialect.dialects import DIALECT_NAMES
from dragoman.engine.loop import run as run_loop
from dragoman.transport.address import is_remote

if TYPE_CHECKING:
    from dragoman import Sandbox
    from dragoman.roles.proxy.proxy import RelayExtension
    from dragoman.roles.proxy.relay import Relay

EPILOG = f"""\
Configure this command as the agent of your editor:

  dragoman translate -- my-agent --acp
  dragoman translate --agent-dialect draft -- my-agent
  dragoman translate --agent opencode
  dragoman translate --lsp --agent opencode

Both dialects are detected unless you name them; they are reported once on
stderr. A client that cannot answer permission requests (2025.1) is assumed to
allow what it does itself; --permission decides for it. The ids that such a
client chooses for its sessions are kept in the state folder, by agent command
and folder, so that it can load them later.

{session_options.SANDBOX_HELP}
Terminals of the editor are not confined: only the agent is, to the folder in
which this command is started.

{session_options.SANDBOX_EXAMPLES.format(name="translate", rest="-- my-agent")}"""


def main(arguments: list[str]) -> int:
    """Parse the arguments, then translate until one side disconnects."""
    parser = Parser(
        "translate",
        "[--agent NAME] [OPTIONS] [-- CMD ARG...]",
        "Connect an editor and an agent that use different dialects of the protocol.",
        EPILOG,
    )
    dialects = ("auto", *DIALECT_NAMES)
    parser.add_value(
        "--client-dialect", "D", f"dialect of the editor: {', '.join(dialects)}", default="auto", choices=dialects
    )
    parser.add_value("--agent-dialect", "D", "dialect of the agent", default="auto", choices=dialects)
    parser.add_argument(
        "--permission",
        default="ask",
        choices=("ask", "allow", "deny"),
        help="permission for clients that cannot be asked",
    )
    parser.add_argument(
        "--probe",
        default="ladder",
        choices=("ladder", "polyglot"),
        help="how to detect the agent's dialect: one attempt after the other, or all in one message",
    )
    parser.add_flag("--lsp", "add the diagnostics of language servers to each write; give the agent their tools")
    parser.add_flag("--workspace-tools", session_options.WORKSPACE_TOOLS_HELP)
    session_options.add_agent_option(parser)
    parser.add_flag("-y --yes", "install an agent of the registry that is missing, without asking")
    session_options.add_sandbox_options(parser)
    options, command = parser.read(arguments)
    agent_dialect, is_sandboxed = options.agent_dialect, False
    if not command or options.agent:
        from dragoman.cli.connect.which_agent import resolve_agent

        agent = resolve_agent(parser, options.agent, command, yes=options.yes)
        command, is_sandboxed = agent.argv, agent.sandbox
        agent_dialect = agent.dialect if agent_dialect == "auto" else agent_dialect
        os.environ.update(agent.env)  # the agent inherits them
    confined = session_options.read_sandbox(parser, options, by_default=is_sandboxed)
    if reason := session_options.sandbox_unavailable_reason(confined):
        return parser.fail(reason, exit_codes.NO_SANDBOX)

    from dragoman.cli.connect.missing_program import report_missing_program
    from dragoman.config.paths import user_paths
    from dragoman.config.session_ids import SessionIdsFile
    from dragoman.roles.proxy.proxy import translate

    if not is_remote(command[0]):
        report_missing_program("the agent", command)

    def report(text: str) -> None:
        print(f"dragoman: {sanitize_line(text)}", file=sys.stderr, flush=True)

    return run_loop(
        translate(
            command,
            client_dialect=options.client_dialect,
            agent_dialect=agent_dialect,
            permission=options.permission,
            detection=options.probe,
            sandbox=confined,
            session_ids=SessionIdsFile(user_paths().session_ids, command, report),
            report=report,
            extension=relay_extension(confined, report, lsp=options.lsp, workspace_tools=options.workspace_tools),
        )
    )


def relay_extension(
    sandbox: Sandbox | None, report: Callable[[str], None], *, lsp: bool, workspace_tools: bool
) -> RelayExtension:
    """Return what serves MCP servers to the agent, and with `lsp` adds diagnostics to its writes."""

    def extend(relay: Relay) -> Callable[[], Awaitable[None]]:
        from dragoman.roles.proxy.mcp_servers import RelayServers

        servers = RelayServers(relay, workspace_tools=workspace_tools)
        closing: list[Callable[[], Awaitable[None]]] = [servers.close]
        if lsp:
            from dragoman.bridge.lsp import workspace_observer

            table = workspace_observer.user_table()
            observe = workspace_observer.relay_extension(table, sandbox, report, tables=servers.tables)
            closing.append(observe(relay))
        servers.claim()

        async def close() -> None:
            for end in closing:
                await end()

        return close

    return extend
