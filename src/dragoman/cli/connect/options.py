"""The options of every command that opens a session or starts an agent, and their checked value, SessionOptions."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman import Limits, Sandbox, SandboxUnavailable
from dragoman.cli.parser import Parser, add_host_options
from dragoman.config.paths import protect_user_files
from dragoman.dialect.dialects import DIALECT_NAMES
from dragoman.transport.sandbox.spec import AUTO, DEFAULT_NET, MECHANISMS

if TYPE_CHECKING:
    from dragoman.cli.host_client.api import HostTarget
    from dragoman.config.config_file import NamedAgent
    from dragoman.schema.mcp import McpServer
    from dragoman.transport.base import Transport

USAGE = "[--agent NAME] [OPTIONS] [-- CMD ARG...]"

# Flags that the host decides, and those of them that apply to a lent folder.
# For agents that have no file and terminal calls of their own in the protocol.
WORKSPACE_TOOLS_HELP = "offer files and commands as MCP tools to agents that do not use those of the protocol (v2)"

_HOST_FLAGS = ("policy", "mode", "sandbox", "no_store", "dialect", "lsp", "workspace_tools")
_WORKSPACE_FLAGS = frozenset({"policy", "mode", "sandbox"})


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the user wants of a session: the flags, completed with the configuration of the agent, and checked."""

    agent: NamedAgent  # on a host: only its name
    is_agent_command: bool = False  # the user gave its command, not its name
    cwd: str = ""  # folder of the agent; "" on a host: the host or the session decides
    is_cwd_given: bool = True  # by a flag, so it also applies to a session that is continued
    dialect: str = "auto"
    yes: bool = False
    policy: str | None = None  # a file instead of the user's own
    mode: str | None = None  # policy mode
    agent_mode: str | None = None
    model: str | None = None
    settings: list[tuple[str, str]] = []  # other options of the agent
    servers: list[McpServer] = []
    lsp: bool = False
    workspace_tools: bool = False
    verbose: bool = False
    quiet: bool = False
    session: str | None = None  # the session to continue, or the name of a new one
    stores: bool = True
    uses_user_files: bool = True  # the user's store, policy, grants and audit log
    sandbox: Sandbox | None = None
    host: HostTarget | None = None
    host_agent: str = ""  # the agent of the host; "" for its first one
    lend: str | None = None  # folder of this machine that an agent on a host uses
    place: str = ""  # where a new session runs in a fleet, instead of a folder: git:URL#BRANCH
    timeout: float | None = None
    trace: Callable[[Transport], Transport] | None = None  # wraps the transport to record it


def add_agent_option(parser: Parser) -> None:
    """Add --agent."""
    parser.add_value(
        "-a --agent", "NAME", "an agent of `dragoman agents`, or of the registry; or give its command after --"
    )


def _take_agent_word(parser: Parser, given: argparse.Namespace, command: list[str]) -> None:
    """Read `chat AGENT` as `chat --agent AGENT`."""
    if getattr(given, "word", None) is not None:
        if given.agent is not None or command:
            parser.error("give one agent: its name, --agent, or its command after --")
        given.agent = given.word


def add_session_options(parser: Parser, *, has_word: bool = False) -> None:
    """Add the options of every command that opens a session; `has_word`: the agent can be given as one word."""
    from dragoman.policy.modes import MODES

    if has_word:
        parser.add_argument("word", nargs="?", metavar="AGENT", help="the same as --agent AGENT")
    add_agent_option(parser)
    parser.add_value("--cwd", "DIR", "working directory of the agent (the current one)")
    parser.add_value(
        "--dialect",
        "D",
        f"dialect of the agent: auto (detect), {', '.join(DIALECT_NAMES)}",
        choices=("auto", *DIALECT_NAMES),
    )
    parser.add_flag(
        "-y --yes", "allow what would be asked; not what the policy denies, and files only in the working directory"
    )
    parser.add_value("--mode", "MODE", "policy mode (that of your policy file, or default)", choices=tuple(MODES))
    parser.add_value("--policy", "FILE", "use this policy file instead of your own")
    parser.add_value("--agent-mode", "ID", "start in this mode of the agent")
    parser.add_value("--model", "ID", "use this model, if the agent offers a choice")
    parser.add_value("--option", "ID=VALUE", "set another option of the agent; can be repeated", repeated=True)
    parser.add_value("--mcp", "FILE", 'MCP servers for the agent: {"mcpServers": {...}}', repeated=True)
    parser.add_flag("--lsp", "show the diagnostics of language servers after each write; give the agent their tools")
    parser.add_flag("--workspace-tools", WORKSPACE_TOOLS_HELP)
    parser.add_flag("--verbose", "also show the stderr of the agent")
    parser.add_value("-s --session", "SESSION", "continue this session, or start one with this name")
    parser.add_flag("--no-store", "do not store the session")
    add_sandbox_options(parser)
    add_host_options(parser)
    parser.add_value("--place", "git:URL#BRANCH", "with --host: work on this repository, at any node of a fleet")
    parser.add_value(
        "--lend",
        "DIR",
        "with --host: the agent uses files and commands in this folder of this machine (the current one)",
        nargs="?",
        const=".",
    )


def read_session_options(parser: Parser, given: argparse.Namespace, command: list[str], **more: Any) -> SessionOptions:
    """Return the checked options; `more` are those that only one command has."""
    from dragoman.cli.connect import mcp_file
    from dragoman.errors import ProtocolError
    from dragoman.store.summary import check_name

    _take_agent_word(parser, given, command)
    is_hosted = bool(given.host or given.token_file)
    values = _host_values(parser, given, command) if is_hosted else _local_values(parser, given, command)
    if given.session is not None:
        if given.no_store:
            parser.error("--session cannot be used with --no-store")
        try:
            check_name(given.session)
        except ProtocolError as error:
            parser.error(f"--session: {error.message}")
    pairs = [pair.partition("=") for pair in given.option]
    if not all(id and equals for id, equals, _ in pairs):
        parser.error("--option takes ID=VALUE")
    return SessionOptions(
        **values,
        is_cwd_given=given.cwd is not None,
        yes=given.yes,
        policy=given.policy,
        mode=given.mode,
        model=given.model,
        settings=[(id, value) for id, _, value in pairs],
        servers=[server for file in given.mcp for server in mcp_file.load(file)],
        lsp=given.lsp,
        workspace_tools=given.workspace_tools,
        verbose=given.verbose,
        session=given.session,
        stores=not given.no_store,
        **more,
    )


def _local_values(parser: Parser, given: argparse.Namespace, command: list[str]) -> dict[str, Any]:
    """Return the options for an agent on this machine."""
    from dragoman.cli.connect.which_agent import resolve_agent
    from dragoman.transport.address import is_remote

    if given.lend is not None:
        parser.error("--lend needs --host; without it, the agent works on this machine")
    if given.place:
        parser.error("--place needs --host; without it, the agent works in --cwd on this machine")
    if command and "/" in command[0] and not is_remote(command[0]):  # named from here, but started in --cwd
        command = [os.path.abspath(command[0]), *command[1:]]
    agent, is_agent_command = None, bool(command)
    if given.session is not None and given.agent is None and not command:
        from dragoman.cli.connect.session_agent import find_session_agent

        agent, is_agent_command = find_session_agent(parser, given.session)
    if agent is None:
        agent = resolve_agent(parser, given.agent, command, yes=given.yes)
    cwd = os.path.expanduser(given.cwd or agent.cwd or ".")
    if not os.path.isdir(cwd):
        parser.error(f"--cwd: there is no folder {cwd}")
    return {
        "agent": agent,
        "is_agent_command": is_agent_command,
        "cwd": os.path.abspath(cwd),
        "dialect": given.dialect or agent.dialect,
        "agent_mode": given.agent_mode or agent.mode or None,
        "sandbox": read_sandbox(parser, given, by_default=agent.sandbox),
    }


def _host_values(parser: Parser, given: argparse.Namespace, command: list[str]) -> dict[str, Any]:
    """Return the options for an agent on a host, which decides some of them."""
    from dragoman.cli.host_client.api import resolve_host
    from dragoman.cli.ui.terminal import sanitize_line
    from dragoman.config.config_file import NamedAgent

    if command:
        parser.error("with --host, the host starts the agents: omit the command, or choose an agent with --agent NAME")
    names = [name for name in vars(given) if name in _HOST_FLAGS or name.startswith("sandbox_")]
    rejected = [name for name in names if getattr(given, name)]
    if given.lend is not None:
        rejected = [name for name in rejected if name.partition("_")[0] not in _WORKSPACE_FLAGS]
    if rejected:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in rejected)
        parser.error(f"{flags}: with --host, the host decides this (dragoman serve --help)")
    host = resolve_host(given.host, given.token_file)
    cwd = os.path.expanduser(given.cwd or "")
    if given.cwd is not None:
        if not os.path.isabs(cwd) and not host.is_local:
            parser.error("--cwd: give the absolute path of a folder on the host")
        cwd = os.path.abspath(cwd)
    if given.place and (given.lend is not None or given.cwd is not None):
        parser.error("--place cannot be used with --cwd or --lend: the host makes the folder")
    lend = None if given.lend is None else _absolute_path(given.lend)
    if lend is not None and not os.path.isdir(lend):
        parser.error(f"--lend: there is no folder {lend}; put the prompt before --lend, or use --lend=.")
    return {
        "agent": NamedAgent(name=given.agent or sanitize_line(host.display_name), command=""),
        "host": host,
        "host_agent": given.agent or "",
        "cwd": cwd,
        "lend": lend,
        "place": given.place or "",
        "agent_mode": given.agent_mode,
        "sandbox": None if lend is None else read_sandbox(parser, given),
    }


# --- the sandbox ----------------------------------------------------------------------------------------------

SANDBOX_HELP = """\
With --sandbox the agent and its commands can read the system and the working
directory, and write only to the working directory and a private folder. They
get a reduced environment and an empty home, and can connect only to TCP port
443 (for the model). docs/sandbox.md lists what is confined and what is not. If
the sandbox is not available, nothing is started (exit code 8)."""

SANDBOX_EXAMPLES = """\
  dragoman {name} --sandbox --sandbox-env MY_API_KEY \\
      --sandbox-read ~/.config/my-agent {rest}"""

_LIMIT_NAMES = tuple(Limits.__struct_fields__)


def add_sandbox_options(parser: Parser) -> None:
    """Add the sandbox options."""
    group = parser.add_argument_group("sandbox")
    group.add_argument(
        "--sandbox",
        metavar="HOW",
        nargs="?",
        const=AUTO,
        choices=MECHANISMS,
        help=f"confine the agent and its commands: {', '.join(MECHANISMS)}",
    )
    group.add_argument(
        "--sandbox-read", metavar="PATH", action="append", help="also allow reading this path; can be repeated"
    )
    group.add_argument(
        "--sandbox-write", metavar="PATH", action="append", help="also allow writing to this path; can be repeated"
    )
    group.add_argument(
        "--sandbox-net",
        metavar="NET",
        help=f"none, all, or a list of TCP ports and unix (local sockets), as in 443,8080,unix ({DEFAULT_NET})",
    )
    group.add_argument(
        "--sandbox-env", metavar="NAME", action="append", help="pass on this environment variable; can be repeated"
    )
    group.add_argument(
        "--sandbox-limit", metavar="NAME=N", action="append", help=f"limit {', '.join(_LIMIT_NAMES)}: a number, or none"
    )


def read_sandbox(parser: Parser, options: argparse.Namespace, *, by_default: bool = False) -> Sandbox | None:
    """Return the sandbox that the options ask for, or None; exits when an option makes no sense."""
    given = {name: value for name, value in vars(options).items() if name.startswith("sandbox_") and value is not None}
    mechanism = options.sandbox or (AUTO if by_default else None)
    if mechanism is None:
        if given:
            parser.error(f"--{next(iter(given)).replace('_', '-')} needs --sandbox")
        return None
    for flag in ("read", "write"):
        for path in given.get(f"sandbox_{flag}", ()):
            if not os.path.exists(os.path.expanduser(path)):
                parser.error(f"--sandbox-{flag}: there is no file or folder {path}")
    try:
        return Sandbox(
            read=tuple(map(_absolute_path, given.get("sandbox_read", ()))),
            write=tuple(map(_absolute_path, given.get("sandbox_write", ()))),
            net=given.get("sandbox_net", DEFAULT_NET),
            env=tuple(given.get("sandbox_env", ())),
            limits=_parse_limits(given.get("sandbox_limit", [])),
            mechanism=mechanism,
        )
    except ValueError as error:
        parser.error(str(error))


def sandbox_unavailable_reason(sandbox: Sandbox | None) -> str | None:
    """Return why this sandbox is not available in this folder, or None."""
    confined = protect_user_files(sandbox)
    if confined is None:
        return None
    from dragoman.transport.sandbox.plan import detect_support, plan_sandbox

    try:
        plan_sandbox(confined, [os.getcwd()], detect_support())
    except SandboxUnavailable as error:
        return str(error)
    return None


def _parse_limits(assignments: list[str]) -> Limits:
    values: dict[str, int | None] = {}
    for assignment in assignments:
        name, _, value = assignment.partition("=")
        if name not in _LIMIT_NAMES or not (value == "none" or (value.isascii() and value.isdigit())):
            raise ValueError(
                f"--sandbox-limit {assignment}: give NAME=N, where NAME is one of {', '.join(_LIMIT_NAMES)}"
            )
        values[name] = None if value == "none" else int(value)
    return Limits(**values)


def _absolute_path(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))
