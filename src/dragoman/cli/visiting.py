"""Meeting an agent in a host: the host starts, guards and keeps; here are the terminal and who sits at it.

The other way to come to a conversation (meeting.py is the first): `agreed` checks the flags, `meet` connects and opens
a session there, or joins one. Files and commands of the agent are the host's, so nothing of this machine is lent.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, cast

from dragoman import Conversation, RemoteAgent, connect
from dragoman.cli import afar, keeping, meeting
from dragoman.cli.arguments import Parser
from dragoman.cli.borrowed import Borrowed
from dragoman.cli.company import ANNOUNCED, Company
from dragoman.cli.facts import Facts
from dragoman.cli.keeping import Record
from dragoman.cli.leave import Leave
from dragoman.cli.meeting import Met
from dragoman.cli.questions import Person
from dragoman.cli.screen import Screen
from dragoman.cli.terminal import Terminal, single
from dragoman.config.agents import NamedAgent
from dragoman.errors import ProtocolError
from dragoman.schema.permission import RequestPermissionParams
from dragoman.store.contract import Entry, Store

# Flags about things that are the host's to decide.
_ITS_OWN = {
    "policy": "--policy",
    "mode": "--mode",
    "sandbox": "--sandbox",
    "no_store": "--no-store",
    "dialect": "--dialect",
}


def agreed(parser: Parser, options: argparse.Namespace, command: list[str]) -> NamedAgent:
    """Check the flags; the agent is the host's."""
    if command:
        parser.error("with --host, the host starts the agents: leave the command out, or choose one with --agent NAME")
    said = [flag for name, flag in _ITS_OWN.items() if getattr(options, name, None)]
    if said:
        parser.error(f"{', '.join(said)}: with --host that is the host's to decide (dragoman serve --help)")
    keeping.agreed(parser, options)
    options.afar = afar.meant(options.host, options.token_file)
    options.says_cwd = options.cwd is not None
    if options.cwd is not None:
        path = os.path.expanduser(options.cwd)
        if not os.path.isabs(path) and not options.afar.is_near:
            parser.error("--cwd: say the whole path of a folder on the host")
        options.cwd = os.path.abspath(path)
    meeting.settled(parser, options)
    return NamedAgent(name=options.agent or single(options.afar.shown), command="")


@asynccontextmanager
async def meet(
    options: argparse.Namespace,
    terminal: Terminal,
    person: Person | None,
    *,
    timeout: float | None = None,
    on_entry: Callable[[str, Entry], None] | None = None,
    tell: Callable[[str, str], None] | None = None,
    **screening: Any,
) -> AsyncIterator[Met]:
    """Connect to the host, and open a session or join one."""
    host: afar.Afar = options.afar
    about = await afar.ask(host, "GET", "/api/host")
    store = Borrowed(host)
    before = None
    if about.get("session"):
        before = await store.find(about["session"])  # a link leads to one session and no other
    elif options.session is not None:
        before = await keeping.found(cast(Store, store), options.session)
    record = Record(cast(Store, store), options.session, before)
    options.cwd = _folder(options, about, before.cwd if before is not None else None)
    say = tell or (lambda text, style: terminal.aside.line(text, style))
    company = Company(str(about.get("user", "")), say)
    async with AsyncExitStack() as stack:
        leave = Leave(terminal.aside, person, cwd=options.cwd, yes=options.yes, asks=True, sandboxed=True)
        stack.push_async_callback(leave.close)

        async def permission(params: RequestPermissionParams) -> str | None:
            company.asked(params)
            answer = await leave.permission(params)
            company.answered(params)
            return answer

        remote = await stack.enter_async_context(
            connect(
                host.agent(options.agent or ""),
                cwd=options.cwd,
                permission=permission,
                elicit=None if person is None else Facts(leave, person, terminal.aside),
                on=company.handlers(),
                report=lambda words: say(leave.clean(words), "dim"),
                patience=meeting.PATIENCE if timeout is None else timeout,
                timeout=timeout,
                trace=getattr(options, "tap", None),
                token=host.token,
                tls=host.ca or None,
                upgrade=True,
                announce=ANNOUNCED if tell is not None else None,
            )
        )
        leave.attend(remote, "")
        session = await entered(remote, options, leave, record)
        company.session = session.id
        if on_entry is not None:
            seen = (await store.find(session.id)).entries if before is not None else 0
            stack.push_async_callback(_told, store, session.id, seen, on_entry)
        who = (lambda: company.asker) if tell is not None else None
        show = partial(Screen, terminal, known=leave.shown, verbose=options.verbose, who=who, **screening)
        yield Met(remote, session, leave, show, record, company)


async def entered(remote: RemoteAgent, options: argparse.Namespace, leave: Leave, record: Record) -> Conversation:
    """The session that is there already, or a new one with the name it was called by."""
    if record.before is not None:
        session = await remote.resume(record.before.session_id, options.cwd)
        return await meeting.arranged(session, options, leave)
    session = await meeting.opened(remote, options, leave)
    if record.name is not None:
        await record.store.rename(session.id, record.name)
    else:
        record.name = session.id
    return session


def _folder(options: argparse.Namespace, about: dict[str, Any], before: str | None) -> str:
    """Where the session works: where the user says, where it was, here if here is there, else its first root."""
    if options.says_cwd:
        return str(options.cwd)
    if before:
        return before
    roots = about.get("roots")
    here = os.getcwd()
    if options.afar.is_near and (roots is None or any(here == root or here.startswith(f"{root}/") for root in roots)):
        return here
    return str(roots[0]) if roots else "/"


async def _told(store: Borrowed, session: str, after: int, on_entry: Callable[[str, Entry], None]) -> None:
    """What the host's log has got meanwhile."""
    try:
        for entry in await store.read(session, after):
            on_entry(session, entry)
    except ProtocolError:
        pass  # it was deleted, or we may not look any more
