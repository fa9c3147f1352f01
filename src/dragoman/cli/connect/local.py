"""Meeting an agent on a terminal: started, guarded, a session opened as the user wants it, a screen to show it on.

The one way in which run, chat and demo come to a conversation: `add` gives them the same flags, `agreed` reads these,
`meet` does the rest. Above are the commands; below are connect, leave and screen.
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
from dragoman.cli.connect import record as keeping
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

# How long an agent may take to introduce itself: some install themselves first (peers.md 59). Seconds.
INITIALIZE_TIMEOUT = 120.0

USAGE = "[--agent NAME] [OPTIONS] [-- CMD ARG...]"


class OpenSession(NamedTuple):
    """An agent, one session of it, who answers its questions, and how a session is shown."""

    agent: RemoteAgent
    session: ClientSession
    permission_ui: PermissionUI
    create_view: Callable[[ClientSession], TurnView]
    record: SessionRecord | None = None
    presence: Presence | None = None  # the others, in a host
    is_own_update: Callable[[], bool] | None = (
        None  # whether the next update belongs to one's own turn, where others have some
    )

    @property
    def session_ref(self) -> str:
        """What --session takes to go on with it; nothing when it is not kept."""
        if self.record is None or not self.record.is_persistent:
            return ""
        return self.record.name or getattr(self.session, "log_id", None) or ""


def add_options(parser: Parser) -> None:
    """The flags of every command that talks with an agent."""
    which_agent.add_agent_option(parser)
    parser.add_argument("--cwd", metavar="DIR", help="where the agent works (here)")
    parser.add_argument(
        "--dialect", metavar="D", choices=("auto", *DIALECT_NAMES), help=f"auto (found out), {', '.join(DIALECT_NAMES)}"
    )
    parser.add_argument(
        "--yes",
        action="store_true",
        help="allow what would be asked about; not what policy denies, and files only in the working directory",
    )
    parser.add_argument(
        "--mode", metavar="MODE", choices=tuple(MODES), help="the policy mode (that of your policy file, or default)"
    )
    parser.add_argument("--policy", metavar="FILE", help="a policy file in place of your own")
    parser.add_argument("--agent-mode", metavar="ID", help="the agent's own mode to begin in")
    parser.add_argument("--model", metavar="ID", help="the model that shall answer, where the agent lets one choose")
    parser.add_argument(
        "--option", metavar="ID=VALUE", action="append", default=[], help="another option of the agent; can be repeated"
    )
    parser.add_argument(
        "--mcp", metavar="FILE", action="append", default=[], help='MCP servers for the agent: {"mcpServers": {...}}'
    )
    parser.add_argument("--verbose", action="store_true", help="also show what the agent writes to stderr")
    keeping.add_options(parser)
    sandbox.add_options(parser)
    add_host_options(parser)
    parser.add_argument(
        "--lend",
        metavar="DIR",
        nargs="?",
        const=".",
        help="with --host: files are read and written, and commands run, in this folder here (where you are)",
    )


def default_options(cwd: str) -> argparse.Namespace:
    """The flags of a command that takes none."""
    parser = Parser("", "", "", "")
    add_options(parser)
    options = parser.parse_args(["--cwd", cwd, "--dialect", "auto"])
    options.servers, options.says_cwd, options.afar = [], True, None
    return options


def resolve_options(parser: Parser, options: argparse.Namespace, command: list[str]) -> NamedAgent:
    """Which agent is meant; the flags are completed with what is configured for it, and checked."""
    options.afar = None
    if options.host or options.token_file:
        from dragoman.cli.connect import hosted

        return hosted.resolve_options(parser, options, command)
    if options.lend is not None:
        parser.error("--lend is for --host; without it the agent works here anyway")
    agent = which_agent.resolve_agent(parser, options.agent, command)
    if options.sandbox is None and agent.sandbox:
        options.sandbox = AUTO
    options.sandbox = sandbox.from_options(parser, options)
    options.dialect = options.dialect or agent.dialect
    options.agent_mode = options.agent_mode or agent.mode or None
    keeping.check_options(parser, options)
    options.says_cwd = options.cwd is not None
    options.cwd = os.path.expanduser(options.cwd or agent.cwd or ".")
    if not os.path.isdir(options.cwd):
        parser.error(f"--cwd: there is no folder {options.cwd}")
    options.cwd = os.path.abspath(options.cwd)
    resolve_common_options(parser, options)
    return agent


def resolve_common_options(parser: Parser, options: argparse.Namespace) -> None:
    """The flags that hold wherever the agent is."""
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
    """Start the agent and open a session; `keeps`: in the user's store, by the user's policy, grants and audit."""
    if options.afar is not None:
        from dragoman.cli.connect import hosted

        visit = hosted.open_session(
            options, terminal, prompter, timeout=timeout, on_entry=on_entry, tell=show_line, **view_options
        )
        async with visit as met:
            yield met
        return
    async with AsyncExitStack() as stack:
        record = None
        if persistent:
            record = await stack.enter_async_context(keeping.open_record(options, needs_entries=on_entry is not None))
        options.cwd = keeping.working_directory(record, options)
        leave = PermissionUI(
            terminal.diagnostics,
            prompter,
            cwd=options.cwd,
            yes=options.yes,
            paths=user_paths() if persistent else None,
            policy=options.policy,
            mode=options.mode,
            sandboxed=options.sandbox is not None,
        )
        stack.push_async_callback(leave.close)
        leave.guard.redaction.add_values(environment_secrets(agent.env))
        if record is not None:
            record.redacting_store.redact = leave.guard.redaction.redact_json
        remote = await stack.enter_async_context(
            connect(
                agent.argv,
                dialect=options.dialect,
                cwd=options.cwd,
                env=agent.env or None,
                permission=leave.permission,
                workspace=leave.workspace,
                elicit=None if prompter is None else FormPrompt(leave, prompter, terminal.diagnostics),
                terminal_login=None if prompter is None else run_in_terminal,
                **_output_callbacks(terminal.diagnostics, leave, is_shown=options.verbose),
                sandbox=options.sandbox,
                initialize_timeout=INITIALIZE_TIMEOUT if timeout is None else timeout,
                timeout=timeout,
                trace=getattr(options, "tap", None),
                store=None if record is None else record.store,
                on_entry=on_entry,
            )
        )
        leave.bind_agent(remote, agent.command)

        def printed(id: str) -> str:
            shown = leave.workspace.find_terminal(id)
            return shown.output().text if shown is not None else ""

        show = partial(
            TurnView,
            terminal,
            output_of=printed,
            shown_changes=leave.shown_changes,
            verbose=options.verbose,
            **view_options,
        )
        enter = partial(
            enter_session, remote, options, leave, record, terminal.diagnostics, quiet=view_options.get("quiet", False)
        )
        yield OpenSession(remote, await enter_with_login(remote, prompter, enter), leave, show, record)


def _output_callbacks(diagnostics: OutputStream, permission_ui: PermissionUI, *, is_shown: bool) -> dict[str, Any]:
    """What is told beside the conversation, by us and by the agent on stderr: shown line by line, or not at all."""
    begun = bytearray()  # of a line

    def told(words: str) -> None:
        if is_shown:
            diagnostics.write_line(permission_ui.redact(words), "dim")

    def wrote(data: bytes) -> None:
        if is_shown:
            begun.extend(data)
            *lines, rest = bytes(begun).split(b"\n")
            begun[:] = rest
            for line in lines:
                diagnostics.write_line(permission_ui.redact(line.decode("utf-8", "replace")), "dim")

    return {"report": told, "stderr": wrote}


async def enter_with_login(
    remote: RemoteAgent, prompter: Prompter | None, enter: Callable[[], Awaitable[ClientSession]]
) -> ClientSession:
    """The session; who has to sign in first is asked how, once."""
    try:
        return await enter()
    except ProtocolError as error:
        if error.kind != Kind.AUTH_REQUIRED or prompter is None or not await prompt_login(remote, prompter):
            raise
    return await enter()


async def prompt_login(remote: RemoteAgent, prompter: Prompter) -> bool:
    """Let the person choose a way to sign in; whether one was taken."""
    methods = list(remote.initialize_result.auth_methods or ())[:9]
    if not methods:
        return False
    choices = [
        KeyChoice(str(number), sanitize_line(method.name), method.id, sanitize_line(method.description or ""))
        for number, method in enumerate(methods, 1)
    ]
    lines = [StyledLine("The agent wants you to sign in:", "ask")]
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
    """The session that goes on, or a new one; it is kept if that is wanted."""
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
    """A new session, with servers, modes, model and options as the user wants them."""
    return await apply_settings(await create_session(remote, options, permission_ui), options, permission_ui)


async def create_session(
    remote: RemoteAgent, options: argparse.Namespace, permission_ui: PermissionUI
) -> ClientSession:
    """A new session, with the servers that the user wants and policy allows."""
    allowed = await permission_ui.guard.allowed_servers(check_servers(remote, options.servers), options.cwd)
    return await remote.open_session(options.cwd, mcp_servers=allowed, mode=options.agent_mode)


async def apply_settings(
    session: ClientSession, options: argparse.Namespace, permission_ui: PermissionUI
) -> ClientSession:
    """Modes, model and options set as the user wants them."""
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
    """The servers, if the agent can connect to all of them: to leave one out would be a surprise."""
    offered = remote.capabilities.mcp_capabilities
    for server in servers:
        if server.form != "stdio" and not (offered and getattr(offered, server.form, False)):
            what = f"the agent does not connect to {server.form} servers, such as {sanitize_line(server.name)}"
            raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, what)
    return servers
