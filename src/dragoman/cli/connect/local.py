"""Open a session with an agent on this machine: start it, guard it, open or continue a session, create its view.

run, chat and demo all use `add_options`, `resolve_options` and `open_session`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

from dragoman import ClientSession, Kind, ProtocolError, RemoteAgent, connect, run_in_terminal
from dragoman.cli.connect import mcp_file, sandbox, settings, which_agent
from dragoman.cli.connect import record as records
from dragoman.cli.connect.presence import Presence
from dragoman.cli.connect.record import SessionRecord
from dragoman.cli.parser import Parser, add_host_options
from dragoman.cli.ui.forms import FormPrompt
from dragoman.cli.ui.key_prompt import KeyChoice, Prompter
from dragoman.cli.ui.permission import PermissionUI
from dragoman.cli.ui.terminal import OutputStream, StyledLine, TerminalOutput, sanitize_line
from dragoman.cli.ui.turn_view import TurnView
from dragoman.config.config_file import NamedAgent
from dragoman.config.paths import user_paths
from dragoman.dialect.dialects import DIALECT_NAMES
from dragoman.policy.modes import MODES
from dragoman.policy.redaction import environment_secrets
from dragoman.schema.mcp import McpServer
from dragoman.store.contract import Entry
from dragoman.transport.sandbox.spec import AUTO

# How long initialize may take: some agents install themselves first (docs/protocol/peers.md#slow-start). Seconds.
INITIALIZE_TIMEOUT = 120.0

USAGE = "[--agent NAME] [OPTIONS] [-- CMD ARG...]"


class OpenSession(NamedTuple):
    """An agent, one session of it, its permission prompts, and its view."""

    agent: RemoteAgent
    session: ClientSession
    permission_ui: PermissionUI
    create_view: Callable[[ClientSession], TurnView]
    record: SessionRecord | None = None
    presence: Presence | None = None  # other members, on a host
    is_own_update: Callable[[], bool] | None = None  # on a host: whether the next update belongs to our own turn

    @property
    def session_ref(self) -> str:
        """What --session takes to continue this session; empty when it is not stored."""
        if self.record is None or not self.record.is_persistent:
            return ""
        return self.record.name or getattr(self.session, "log_id", None) or ""


def add_options(parser: Parser) -> None:
    """Add the options of every command that opens a session."""
    which_agent.add_agent_option(parser)
    parser.add_value("--cwd", "DIR", "working directory of the agent (the current one)")
    parser.add_value(
        "--dialect",
        "D",
        f"dialect of the agent: auto (detect), {', '.join(DIALECT_NAMES)}",
        choices=("auto", *DIALECT_NAMES),
    )
    parser.add_flag(
        "--yes", "allow what would be asked; not what the policy denies, and files only in the working directory"
    )
    parser.add_value("--mode", "MODE", "policy mode (that of your policy file, or default)", choices=tuple(MODES))
    parser.add_value("--policy", "FILE", "use this policy file instead of your own")
    parser.add_value("--agent-mode", "ID", "start in this mode of the agent")
    parser.add_value("--model", "ID", "use this model, if the agent offers a choice")
    parser.add_value("--option", "ID=VALUE", "set another option of the agent; can be repeated", repeated=True)
    parser.add_value("--mcp", "FILE", 'MCP servers for the agent: {"mcpServers": {...}}', repeated=True)
    parser.add_flag("--verbose", "also show the stderr of the agent")
    records.add_options(parser)
    sandbox.add_options(parser)
    add_host_options(parser)
    parser.add_value(
        "--lend",
        "DIR",
        "with --host: the agent uses files and commands in this folder of this machine (the current one)",
        nargs="?",
        const=".",
    )


def default_options(cwd: str) -> argparse.Namespace:
    """Return the options of a command that takes none."""
    parser = Parser("", "", "", "")
    add_options(parser)
    options = parser.parse_args(["--cwd", cwd, "--dialect", "auto"])
    options.servers, options.says_cwd, options.host_target = [], True, None
    return options


def resolve_options(parser: Parser, options: argparse.Namespace, command: list[str]) -> NamedAgent:
    """Return the agent; complete the options with its configuration, and check them."""
    options.host_target = None
    if options.host or options.token_file:
        from dragoman.cli.connect import hosted

        return hosted.resolve_options(parser, options, command)
    if options.lend is not None:
        parser.error("--lend needs --host; without it, the agent works on this machine")
    agent = which_agent.resolve_agent(parser, options.agent, command)
    if options.sandbox is None and agent.sandbox:
        options.sandbox = AUTO
    options.sandbox = sandbox.from_options(parser, options)
    options.dialect = options.dialect or agent.dialect
    options.agent_mode = options.agent_mode or agent.mode or None
    records.check_options(parser, options)
    options.says_cwd = options.cwd is not None
    options.cwd = os.path.expanduser(options.cwd or agent.cwd or ".")
    if not os.path.isdir(options.cwd):
        parser.error(f"--cwd: there is no folder {options.cwd}")
    options.cwd = os.path.abspath(options.cwd)
    resolve_common_options(parser, options)
    return agent


def resolve_common_options(parser: Parser, options: argparse.Namespace) -> None:
    """Check the options that apply to local and hosted agents."""
    pairs = [pair.partition("=") for pair in options.option]
    if not all(id and equals for id, equals, _ in pairs):
        parser.error("--option takes ID=VALUE")
    options.option = [(id, value) for id, _, value in pairs]
    options.servers = [server for file in options.mcp for server in mcp_file.load(file)]


@asynccontextmanager
async def open_session(
    agent: NamedAgent,
    options: argparse.Namespace,
    terminal: TerminalOutput,
    prompter: Prompter | None,
    *,
    persistent: bool = True,
    timeout: float | None = None,
    on_entry: Callable[[str, Entry], None] | None = None,
    show_line: Callable[[str, str], None] | None = None,
    **view_options: Any,
) -> AsyncIterator[OpenSession]:
    """Start the agent and open a session; if `persistent`, with the user's store, policy, grants and audit log."""
    if options.host_target is not None:
        from dragoman.cli.connect import hosted

        opening = hosted.open_session(
            options, terminal, prompter, timeout=timeout, on_entry=on_entry, show_line=show_line, **view_options
        )
        async with opening as opened:
            yield opened
        return
    async with AsyncExitStack() as stack:
        record = None
        if persistent:
            record = await stack.enter_async_context(records.open_record(options, needs_entries=on_entry is not None))
        options.cwd = records.working_directory(record, options)
        permission_ui = PermissionUI(
            terminal.diagnostics,
            prompter,
            cwd=options.cwd,
            yes=options.yes,
            paths=user_paths() if persistent else None,
            policy=options.policy,
            mode=options.mode,
            sandboxed=options.sandbox is not None,
        )
        stack.push_async_callback(permission_ui.close)
        permission_ui.guard.redaction.add_values(environment_secrets(agent.env))
        if record is not None:
            record.store.redact = permission_ui.guard.redaction.redact_json
        remote = await stack.enter_async_context(
            connect(
                agent.argv,
                dialect=options.dialect,
                cwd=options.cwd,
                env=agent.env or None,
                permission=permission_ui.permission,
                workspace=permission_ui.workspace,
                elicit=None if prompter is None else FormPrompt(permission_ui, prompter, terminal.diagnostics),
                terminal_login=None if prompter is None else run_in_terminal,
                **_output_callbacks(terminal.diagnostics, permission_ui, is_shown=options.verbose),
                sandbox=options.sandbox,
                initialize_timeout=INITIALIZE_TIMEOUT if timeout is None else timeout,
                timeout=timeout,
                trace=getattr(options, "tap", None),
                store=None if record is None else record.store,
                on_entry=on_entry,
            )
        )
        permission_ui.bind_agent(remote, agent.command)

        def terminal_output(id: str) -> str:
            shown = permission_ui.workspace.find_terminal(id)
            return shown.output().text if shown is not None else ""

        create_view = partial(
            TurnView,
            terminal,
            output_of=terminal_output,
            shown_changes=permission_ui.shown_changes,
            verbose=options.verbose,
            **view_options,
        )
        enter = partial(
            enter_session,
            remote,
            options,
            permission_ui,
            record,
            terminal.diagnostics,
            quiet=view_options.get("quiet", False),
        )
        yield OpenSession(remote, await enter_with_login(remote, prompter, enter), permission_ui, create_view, record)


def _output_callbacks(diagnostics: OutputStream, permission_ui: PermissionUI, *, is_shown: bool) -> dict[str, Any]:
    """Return the connect() callbacks for reports and for stderr of the agent: shown line by line, or dropped."""
    partial_line = bytearray()  # the beginning of a line

    def report(text: str) -> None:
        if is_shown:
            diagnostics.write_line(permission_ui.redact(text), "dim")

    def on_stderr(data: bytes) -> None:
        if is_shown:
            partial_line.extend(data)
            *lines, rest = bytes(partial_line).split(b"\n")
            partial_line[:] = rest
            for line in lines:
                diagnostics.write_line(permission_ui.redact(line.decode("utf-8", "replace")), "dim")

    return {"report": report, "stderr": on_stderr}


async def enter_with_login(
    remote: RemoteAgent, prompter: Prompter | None, enter: Callable[[], Awaitable[ClientSession]]
) -> ClientSession:
    """Enter the session; if the agent requires a login, let the user choose how, once."""
    try:
        return await enter()
    except ProtocolError as error:
        if error.kind != Kind.AUTH_REQUIRED or prompter is None or not await prompt_login(remote, prompter):
            raise
    return await enter()


async def prompt_login(remote: RemoteAgent, prompter: Prompter) -> bool:
    """Let the user choose a way to log in; return whether one was used."""
    methods = list(remote.initialize_result.auth_methods or ())[:9]
    if not methods:
        return False
    choices = [
        KeyChoice(str(number), sanitize_line(method.name), method.id, sanitize_line(method.description or ""))
        for number, method in enumerate(methods, 1)
    ]
    lines = [StyledLine("The agent requires you to log in:", "ask")]
    chosen_id = await prompter.choose(lines, [*choices, KeyChoice("n", "not now", "")])
    if not chosen_id:
        return False
    await remote.authenticate(chosen_id)
    return True


async def enter_session(
    remote: RemoteAgent,
    options: argparse.Namespace,
    permission_ui: PermissionUI,
    record: SessionRecord | None,
    diagnostics: OutputStream,
    *,
    quiet: bool = False,
) -> ClientSession:
    """Return the continued session, or a new one; store it if wanted."""
    if record is None or record.previous is None:
        session = await open_new_session(remote, options, permission_ui)
        if record is not None:
            await record.name_session(session)
        return session
    allowed = await permission_ui.guard.allowed_servers(check_servers(remote, options.servers), options.cwd)
    session = await record.continue_session(remote, options.cwd, allowed, diagnostics, quiet=quiet)
    return await apply_settings(session, options, permission_ui)


async def open_new_session(
    remote: RemoteAgent, options: argparse.Namespace, permission_ui: PermissionUI
) -> ClientSession:
    """Open a new session and apply the MCP servers, mode, model and options."""
    return await apply_settings(await create_session(remote, options, permission_ui), options, permission_ui)


async def create_session(
    remote: RemoteAgent, options: argparse.Namespace, permission_ui: PermissionUI
) -> ClientSession:
    """Open a new session with the MCP servers that the policy allows."""
    allowed = await permission_ui.guard.allowed_servers(check_servers(remote, options.servers), options.cwd)
    return await remote.open_session(options.cwd, mcp_servers=allowed, mode=options.agent_mode)


async def apply_settings(
    session: ClientSession, options: argparse.Namespace, permission_ui: PermissionUI
) -> ClientSession:
    """Set modes, model and options."""
    if options.agent_mode and session.modes is not None:
        await settings.set_mode(session, options.agent_mode)
    if options.mode is not None:
        await permission_ui.guard.switch_mode(session, options.mode)
    if options.model:
        await settings.set_model(session, options.model)
    for id, value in options.option:
        await settings.set_option(session, id, value)
    return session


def check_servers(remote: RemoteAgent, servers: list[McpServer]) -> list[McpServer]:
    """Return the servers if the agent supports all of them; leaving one out silently would be a surprise."""
    capabilities = remote.capabilities.mcp_capabilities
    for server in servers:
        if server.form != "stdio" and not (capabilities and getattr(capabilities, server.form, False)):
            message = f"the agent does not support {server.form} MCP servers, such as {sanitize_line(server.name)}"
            raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, message)
    return servers
