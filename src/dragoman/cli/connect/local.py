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

from dragoman import Conversation, Kind, ProtocolError, RemoteAgent, connect, in_this_terminal
from dragoman.cli.connect import mcp_file, sandbox, settings, which_agent
from dragoman.cli.connect import record as keeping
from dragoman.cli.connect.presence import Company
from dragoman.cli.connect.record import Record
from dragoman.cli.parser import Parser, offer_host
from dragoman.cli.ui.forms import Facts
from dragoman.cli.ui.key_prompt import Choice, Person
from dragoman.cli.ui.permission import Leave
from dragoman.cli.ui.terminal import Line, Sheet, Terminal, single
from dragoman.cli.ui.turn_view import Screen
from dragoman.config.config_file import NamedAgent
from dragoman.config.paths import places
from dragoman.dialect.dialects import NAMES
from dragoman.policy.modes import MODES
from dragoman.policy.redaction import from_environment
from dragoman.schema.mcp import McpServer
from dragoman.store.contract import Entry
from dragoman.transport.sandbox.spec import AUTO

# How long an agent may take to introduce itself: some install themselves first (peers.md 59). Seconds.
PATIENCE = 120.0

USAGE = "[--agent NAME] [OPTIONS] [-- CMD ARG...]"


class Met(NamedTuple):
    """An agent, one session of it, who answers its questions, and how a session is shown."""

    agent: RemoteAgent
    session: Conversation
    leave: Leave
    shown: Callable[[Conversation], Screen]
    record: Record | None = None
    company: Company | None = None  # the others, in a host
    ours: Callable[[], bool] | None = None  # whether the next update belongs to one's own turn, where others have some

    @property
    def log(self) -> str:
        """What --session takes to go on with it; nothing when it is not kept."""
        if self.record is None or not self.record.is_kept:
            return ""
        return self.record.name or getattr(self.session, "log", None) or ""


def add(parser: Parser) -> None:
    """The flags of every command that talks with an agent."""
    which_agent.offer(parser)
    parser.add_argument("--cwd", metavar="DIR", help="where the agent works (here)")
    parser.add_argument(
        "--dialect", metavar="D", choices=("auto", *NAMES), help=f"auto (found out), {', '.join(NAMES)}"
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
    keeping.add(parser)
    sandbox.add(parser)
    offer_host(parser)
    parser.add_argument(
        "--lend",
        metavar="DIR",
        nargs="?",
        const=".",
        help="with --host: files are read and written, and commands run, in this folder here (where you are)",
    )


def usual(cwd: str) -> argparse.Namespace:
    """The flags of a command that takes none."""
    parser = Parser("", "", "", "")
    add(parser)
    options = parser.parse_args(["--cwd", cwd, "--dialect", "auto"])
    options.servers, options.says_cwd, options.afar = [], True, None
    return options


def agreed(parser: Parser, options: argparse.Namespace, command: list[str]) -> NamedAgent:
    """Which agent is meant; the flags are completed with what is configured for it, and checked."""
    options.afar = None
    if options.host or options.token_file:
        from dragoman.cli.connect import hosted

        return hosted.agreed(parser, options, command)
    if options.lend is not None:
        parser.error("--lend is for --host; without it the agent works here anyway")
    agent = which_agent.which(parser, options.agent, command)
    if options.sandbox is None and agent.sandbox:
        options.sandbox = AUTO
    options.sandbox = sandbox.chosen(parser, options)
    options.dialect = options.dialect or agent.dialect
    options.agent_mode = options.agent_mode or agent.mode or None
    keeping.agreed(parser, options)
    options.says_cwd = options.cwd is not None
    options.cwd = os.path.expanduser(options.cwd or agent.cwd or ".")
    if not os.path.isdir(options.cwd):
        parser.error(f"--cwd: there is no folder {options.cwd}")
    options.cwd = os.path.abspath(options.cwd)
    settled(parser, options)
    return agent


def settled(parser: Parser, options: argparse.Namespace) -> None:
    """The flags that hold wherever the agent is."""
    pairs = [pair.partition("=") for pair in options.option]
    if not all(id and equals for id, equals, _ in pairs):
        parser.error("--option takes ID=VALUE")
    options.option = [(id, value) for id, _, value in pairs]
    options.servers = [server for file in options.mcp for server in mcp_file.load(file)]


@asynccontextmanager
async def meet(
    agent: NamedAgent,
    options: argparse.Namespace,
    terminal: Terminal,
    person: Person | None,
    *,
    keeps: bool = True,
    timeout: float | None = None,
    on_entry: Callable[[str, Entry], None] | None = None,
    tell: Callable[[str, str], None] | None = None,
    **screening: Any,
) -> AsyncIterator[Met]:
    """Start the agent and open a session; `keeps`: in the user's store, by the user's policy, grants and audit."""
    if options.afar is not None:
        from dragoman.cli.connect import hosted

        visit = hosted.meet(options, terminal, person, timeout=timeout, on_entry=on_entry, tell=tell, **screening)
        async with visit as met:
            yield met
        return
    async with AsyncExitStack() as stack:
        record = None
        if keeps:
            record = await stack.enter_async_context(keeping.recorded(options, needs_entries=on_entry is not None))
        options.cwd = keeping.folder(record, options)
        leave = Leave(
            terminal.aside,
            person,
            cwd=options.cwd,
            yes=options.yes,
            places=places() if keeps else None,
            policy=options.policy,
            mode=options.mode,
            sandboxed=options.sandbox is not None,
        )
        stack.push_async_callback(leave.close)
        leave.guard.redaction.add(from_environment(agent.env))
        if record is not None:
            record.discreet.clean = leave.guard.redaction.json
        remote = await stack.enter_async_context(
            connect(
                agent.words,
                dialect=options.dialect,
                cwd=options.cwd,
                env=agent.env or None,
                permission=leave.permission,
                lend=leave.lending,
                elicit=None if person is None else Facts(leave, person, terminal.aside),
                sign_in=None if person is None else in_this_terminal,
                **_overheard(terminal.aside, leave, is_shown=options.verbose),
                sandbox=options.sandbox,
                patience=PATIENCE if timeout is None else timeout,
                timeout=timeout,
                trace=getattr(options, "tap", None),
                store=None if record is None else record.store,
                on_entry=on_entry,
            )
        )
        leave.attend(remote, agent.command)

        def printed(id: str) -> str:
            shown = leave.lending.terminal(id)
            return shown.output().text if shown is not None else ""

        show = partial(Screen, terminal, output_of=printed, known=leave.shown, verbose=options.verbose, **screening)
        enter = partial(entered, remote, options, leave, record, terminal.aside, quiet=screening.get("quiet", False))
        yield Met(remote, await admitted(remote, person, enter), leave, show, record)


def _overheard(aside: Sheet, leave: Leave, *, is_shown: bool) -> dict[str, Any]:
    """What is told beside the conversation, by us and by the agent on stderr: shown line by line, or not at all."""
    begun = bytearray()  # of a line

    def told(words: str) -> None:
        if is_shown:
            aside.line(leave.clean(words), "dim")

    def wrote(data: bytes) -> None:
        if is_shown:
            begun.extend(data)
            *lines, rest = bytes(begun).split(b"\n")
            begun[:] = rest
            for line in lines:
                aside.line(leave.clean(line.decode("utf-8", "replace")), "dim")

    return {"report": told, "stderr": wrote}


async def admitted(
    remote: RemoteAgent, person: Person | None, enter: Callable[[], Awaitable[Conversation]]
) -> Conversation:
    """The session; who has to sign in first is asked how, once."""
    try:
        return await enter()
    except ProtocolError as error:
        if error.kind != Kind.AUTH_REQUIRED or person is None or not await signed_in(remote, person):
            raise
    return await enter()


async def signed_in(remote: RemoteAgent, person: Person) -> bool:
    """Let the person choose a way to sign in; whether one was taken."""
    methods = list(remote.introduction.auth_methods or ())[:9]
    if not methods:
        return False
    choices = [
        Choice(str(number), single(method.name), method.id, single(method.description or ""))
        for number, method in enumerate(methods, 1)
    ]
    lines = [Line("The agent wants you to sign in:", "ask")]
    chosen_id = await person.choose(lines, [*choices, Choice("n", "not now", "")])
    if not chosen_id:
        return False
    await remote.authenticate(chosen_id)
    return True


async def entered(
    remote: RemoteAgent,
    options: argparse.Namespace,
    leave: Leave,
    record: Record | None,
    aside: Sheet,
    *,
    quiet: bool = False,
) -> Conversation:
    """The session that goes on, or a new one; it is kept if that is wanted."""
    if record is None or record.before is None:
        session = await opened(remote, options, leave)
        if record is not None:
            await record.began(session)
        return session
    allowed = await leave.guard.servers(taken(remote, options.servers), options.cwd)
    session = await record.go_on(remote, options.cwd, allowed, aside, quiet=quiet)
    return await arranged(session, options, leave)


async def opened(remote: RemoteAgent, options: argparse.Namespace, leave: Leave) -> Conversation:
    """A new session, with servers, modes, model and options as the user wants them."""
    return await arranged(await begun(remote, options, leave), options, leave)


async def begun(remote: RemoteAgent, options: argparse.Namespace, leave: Leave) -> Conversation:
    """A new session, with the servers that the user wants and policy allows."""
    allowed = await leave.guard.servers(taken(remote, options.servers), options.cwd)
    return await remote.open(options.cwd, mcp_servers=allowed, mode=options.agent_mode)


async def arranged(session: Conversation, options: argparse.Namespace, leave: Leave) -> Conversation:
    """Modes, model and options set as the user wants them."""
    if options.agent_mode and session.modes is not None:
        await settings.set_mode(session, options.agent_mode)
    if options.mode is not None:
        await leave.guard.switch(session, options.mode)
    if options.model:
        await settings.set_model(session, options.model)
    for id, value in options.option:
        await settings.set_option(session, id, value)
    return session


def taken(remote: RemoteAgent, given: list[McpServer]) -> list[McpServer]:
    """The servers, if the agent can connect to all of them: to leave one out would be a surprise."""
    offered = remote.capabilities.mcp_capabilities
    for server in given:
        if server.form != "stdio" and not (offered and getattr(offered, server.form, False)):
            what = f"the agent does not connect to {server.form} servers, such as {single(server.name)}"
            raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, what)
    return given
