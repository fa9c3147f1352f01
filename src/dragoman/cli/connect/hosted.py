"""Meeting an agent in a host: the host starts, guards and keeps; here are the terminal and who sits at it.

The other way to come to a conversation (meeting.py is the first): `agreed` checks the flags, `meet` connects and opens
a session there, or joins one. The agent works with the files and commands of the host, unless a folder here is lent.
"""

from __future__ import annotations

import argparse
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, cast

from dragoman import Conversation, RemoteAgent, SandboxUnavailable, connect
from dragoman.cli.connect import local, sandbox
from dragoman.cli.connect import record as keeping
from dragoman.cli.connect.follow_log import Following
from dragoman.cli.connect.local import Met
from dragoman.cli.connect.path_mapping import Elsewhere
from dragoman.cli.connect.presence import ANNOUNCED, Company
from dragoman.cli.connect.record import Record
from dragoman.cli.host_client import api
from dragoman.cli.host_client.store import Borrowed
from dragoman.cli.parser import Parser
from dragoman.cli.ui.forms import Facts
from dragoman.cli.ui.key_prompt import Person
from dragoman.cli.ui.permission import Leave
from dragoman.cli.ui.terminal import Terminal, single
from dragoman.cli.ui.turn_view import Screen
from dragoman.config.config_file import NamedAgent
from dragoman.config.paths import places
from dragoman.errors import ConfigFault, Kind, ProtocolError
from dragoman.schema.permission import RequestPermissionParams
from dragoman.store.contract import Entry, Store, Summary
from dragoman.transport.base import Transport

# Flags about things that are the host's to decide, and those of them that are about what is lent.
_ITS_OWN = ("policy", "mode", "sandbox", "no_store", "dialect")
_OF_LENT = frozenset({"policy", "mode", "sandbox"})


def agreed(parser: Parser, options: argparse.Namespace, command: list[str]) -> NamedAgent:
    """Check the flags; the agent is the host's."""
    if command:
        parser.error("with --host, the host starts the agents: leave the command out, or choose one with --agent NAME")
    given = [name for name in vars(options) if name in _ITS_OWN or name.startswith("sandbox_")]
    said = [name for name in given if getattr(options, name)]
    if options.lend is not None:
        said = [name for name in said if name.partition("_")[0] not in _OF_LENT]
    if said:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in said)
        parser.error(f"{flags}: with --host that is the host's to decide (dragoman serve --help)")
    keeping.agreed(parser, options)
    options.afar = api.meant(options.host, options.token_file)
    options.says_cwd = options.cwd is not None
    if options.cwd is not None:
        path = os.path.expanduser(options.cwd)
        if not os.path.isabs(path) and not options.afar.is_near:
            parser.error("--cwd: say the whole path of a folder on the host")
        options.cwd = os.path.abspath(path)
    if options.lend is not None:
        options.lend = os.path.abspath(os.path.expanduser(options.lend))
        if not os.path.isdir(options.lend):
            parser.error(f"--lend: there is no folder {options.lend}; a prompt stands before it, or say --lend=.")
        options.sandbox = sandbox.chosen(parser, options)
    local.settled(parser, options)
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
    """Connect to the host, and open a session or join one; `tell` says what others do, where the person sees it."""
    host: api.Afar = options.afar
    quiet, aside = screening.get("quiet", False), terminal.aside
    if options.lend is not None and (reason := sandbox.missing(options.sandbox)):
        raise SandboxUnavailable(reason)
    about = await api.ask(host, "GET", "/api/host")
    api.check_agent(host, about, options.agent)
    store = Borrowed(host)
    record = Record(cast(Store, store), options.session, await _before(store, options, about))
    there = _folder(options, about, record)
    options.cwd = options.lend or there
    say = tell or (lambda text, style: aside.line(text, style))
    hush: Callable[[str, str], None] = lambda *_: None  # noqa: E731
    company = Company(str(about.get("user", "")), tell or hush, hush if quiet else say)
    company.lends = options.lend or ""
    async with AsyncExitStack() as stack:
        leave = _leave(options, terminal, person)
        stack.push_async_callback(leave.close)
        following = None
        if on_entry is not None:
            following = Following(store, on_entry, lambda: company.turn)
            stack.push_async_callback(following.finish)
            company.stirred = following.stir

        def report(words: str) -> None:  # a connection that is cut or mended, or a file that is not there
            if options.verbose or not words.startswith("the handler of "):
                say(leave.clean(words), "dim")

        remote = await stack.enter_async_context(
            connect(
                host.agent(options.agent or ""),
                cwd=options.cwd,
                permission=_permission(company, leave, hush if quiet else say, is_shown=tell is not None),
                lend=None if options.lend is None else leave.lending,
                elicit=None if person is None else Facts(leave, person, aside),
                on=company.handlers(),
                report=report,
                patience=local.PATIENCE if timeout is None else timeout,
                timeout=timeout,
                trace=_wrapped(options, there),
                token=host.token,
                tls=host.ca or None,
                upgrade=True,
                announce=ANNOUNCED,
            )
        )
        remote.is_sorting = False  # others' turns are shown too, or left out, as the command likes
        leave.attend(remote, "")
        if options.verbose:
            aside.line("what the agent writes to stderr stays in the host (dragoman serve --verbose)", "dim")
        if record.before is not None and tell is not None:
            leave.is_welcome.clear()  # what is being asked there is asked below what was said
        session = await entered(remote, options, leave, record, company, following)
        if record.before is not None and not quiet:
            called = single(record.before.name or record.before.session_id)
            aside.line(f"joined {called}, in {single(there)}", "dim")

        who = (lambda: company.asker) if tell is not None else None
        show = partial(
            Screen,
            terminal,
            output_of=partial(_printed, leave, company),
            known=leave.shown,
            verbose=options.verbose,
            who=who,
        )
        ours = _ours(session, company) if tell is None else None
        yield Met(remote, session, leave, partial(show, **screening), record, company, ours)


def _permission(
    company: Company, leave: Leave, say: Callable[[str, str], None], *, is_shown: bool
) -> Callable[[RequestPermissionParams], Awaitable[str | None]]:
    """Who answers questions here; `is_shown` where a person sees those of everybody."""

    async def permission(params: RequestPermissionParams) -> str | None:
        company.asked(params)
        company.stirred()
        # Where nobody can be asked here, those are left to decide who can; in their own turns in any case.
        if not is_shown and (company.is_theirs or (leave.is_mute and await company.can_answer())):
            say(f"left to the others: {single(params.tool_call.title or 'a question')}", "dim")
            return None
        answer = await leave.permission(params)
        company.answered(params)
        return answer

    return permission


def _printed(leave: Leave, company: Company, id: str) -> str:
    """What a command has printed, here or in the host."""
    mine = leave.lending.terminal(id)
    return mine.output().text if mine is not None else company.printed.get(id, "")


async def _before(store: Borrowed, options: argparse.Namespace, about: dict[str, Any]) -> Any:
    """What is kept of the session that goes on, if one does."""
    if about.get("session"):
        return await store.find(about["session"])  # a link leads to one session and no other
    return None if options.session is None else await keeping.found(cast(Store, store), options.session)


def _leave(options: argparse.Namespace, terminal: Terminal, person: Person | None) -> Leave:
    """Who answers: the person alone, for the host has its policy; with something lent, the user's own policy first."""
    if options.lend is None:
        return Leave(terminal.aside, person, cwd=options.cwd, yes=options.yes, asks=True, sandboxed=True)
    return Leave(
        terminal.aside,
        person,
        cwd=options.lend,
        yes=options.yes,
        places=places(),
        policy=options.policy,
        mode=options.mode,
        sandboxed=options.sandbox is not None,
        sandbox=options.sandbox,
    )


def _wrapped(options: argparse.Namespace, there: str) -> Callable[[Transport], Transport] | None:
    """What is put around the connection: a recording, and the paths of a folder that is called otherwise there."""
    tap, here = getattr(options, "tap", None), options.lend
    if here is None or here == there:
        return cast("Callable[[Transport], Transport] | None", tap)
    return lambda transport: Elsewhere(transport if tap is None else tap(transport), here, there)


def _ours(session: Conversation, company: Company) -> Callable[[], bool]:
    """Whether the next update that a turn gives was said in our own turn: others may have theirs before it."""
    marks: deque[bool] = deque()

    def heard(_: Any) -> None:
        company.stirred()
        if session.turn is not None and not session.turn.is_over:
            marks.append(company.is_ours)

    session.on_update = heard
    return lambda: marks.popleft() if marks else True


async def entered(
    remote: RemoteAgent,
    options: argparse.Namespace,
    leave: Leave,
    record: Record,
    company: Company,
    following: Following | None,
) -> Conversation:
    """The session that is there already, or a new one with the name it was called by."""
    before = record.before
    if before is not None:
        return await _joined(remote, options, leave, before, company, following)
    try:
        session = await local.begun(remote, options, leave)
    except ProtocolError as error:
        if options.says_cwd and error.kind == Kind.INVALID_PARAMS and error.message.startswith("cwd "):
            raise ConfigFault([f"--{error.message}"]) from None
        raise
    if record.name is None:
        record.name = session.id
    else:
        try:
            await record.store.rename(session.id, record.name)
        except ProtocolError as error:  # somebody else has begun one of that name meanwhile: that is meant
            await record.store.delete(session.id)
            record.before = await keeping.found(record.store, record.name)
            if record.before is None:
                raise ConfigFault([error.message]) from None
            return await _joined(remote, options, leave, record.before, company, following)
    company.session = session.id
    if following is not None:
        following.begin(session.id, 0)
    return await local.arranged(session, options, leave)


async def _joined(
    remote: RemoteAgent,
    options: argparse.Namespace,
    leave: Leave,
    before: Summary,
    company: Company,
    following: Following | None,
) -> Conversation:
    company.session = before.session_id  # whatever is told of it follows its answer at once
    if following is not None:
        following.begin(before.session_id, before.entries)
    session = await remote.resume(before.session_id, options.cwd)
    return await local.arranged(session, options, leave)


def _folder(options: argparse.Namespace, about: dict[str, Any], record: Record) -> str:
    """Where the session works: where the user says, where it was, here if here is there, else its first root."""
    if options.says_cwd:
        return str(options.cwd)
    if record.before is not None and record.before.cwd:
        return record.before.cwd
    roots = about.get("roots")
    here = options.lend or os.getcwd()
    if options.afar.is_near and (roots is None or any(here == root or here.startswith(f"{root}/") for root in roots)):
        return here
    if not roots and options.lend is not None:
        raise ConfigFault(["--lend: say with --cwd which folder of the host stands for it"])
    return str(roots[0]) if roots else "/"
