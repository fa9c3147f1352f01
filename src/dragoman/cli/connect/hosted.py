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

from dragoman import ClientSession, RemoteAgent, SandboxUnavailable, connect
from dragoman.cli.connect import local, sandbox
from dragoman.cli.connect import record as keeping
from dragoman.cli.connect.follow_log import LogFollower
from dragoman.cli.connect.local import OpenSession
from dragoman.cli.connect.path_mapping import PathMappingTransport
from dragoman.cli.connect.presence import SUBSCRIPTIONS, Presence
from dragoman.cli.connect.record import SessionRecord
from dragoman.cli.host_client import api
from dragoman.cli.host_client.store import HostStore
from dragoman.cli.parser import Parser
from dragoman.cli.ui.forms import FormPrompt
from dragoman.cli.ui.key_prompt import Prompter
from dragoman.cli.ui.permission import PermissionUI
from dragoman.cli.ui.terminal import TerminalOutput, sanitize_line
from dragoman.cli.ui.turn_view import TurnView
from dragoman.config.config_file import NamedAgent
from dragoman.config.paths import user_paths
from dragoman.errors import ConfigFault, Kind, ProtocolError
from dragoman.schema.permission import RequestPermissionParams
from dragoman.store.contract import Entry, Store, Summary
from dragoman.transport.base import Transport

# Flags about things that are the host's to decide, and those of them that are about what is lent.
_HOST_FLAGS = ("policy", "mode", "sandbox", "no_store", "dialect")
_WORKSPACE_FLAGS = frozenset({"policy", "mode", "sandbox"})


def resolve_options(parser: Parser, options: argparse.Namespace, command: list[str]) -> NamedAgent:
    """Check the flags; the agent is the host's."""
    if command:
        parser.error("with --host, the host starts the agents: leave the command out, or choose one with --agent NAME")
    given = [name for name in vars(options) if name in _HOST_FLAGS or name.startswith("sandbox_")]
    said = [name for name in given if getattr(options, name)]
    if options.lend is not None:
        said = [name for name in said if name.partition("_")[0] not in _WORKSPACE_FLAGS]
    if said:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in said)
        parser.error(f"{flags}: with --host that is the host's to decide (dragoman serve --help)")
    keeping.check_options(parser, options)
    options.afar = api.resolve_host(options.host, options.token_file)
    options.says_cwd = options.cwd is not None
    if options.cwd is not None:
        path = os.path.expanduser(options.cwd)
        if not os.path.isabs(path) and not options.afar.is_local:
            parser.error("--cwd: say the whole path of a folder on the host")
        options.cwd = os.path.abspath(path)
    if options.lend is not None:
        options.lend = os.path.abspath(os.path.expanduser(options.lend))
        if not os.path.isdir(options.lend):
            parser.error(f"--lend: there is no folder {options.lend}; a prompt stands before it, or say --lend=.")
        options.sandbox = sandbox.from_options(parser, options)
    local.resolve_common_options(parser, options)
    return NamedAgent(name=options.agent or sanitize_line(options.afar.display_name), command="")


@asynccontextmanager
async def open_session(
    options: argparse.Namespace,
    terminal: TerminalOutput,
    prompter: Prompter | None,
    *,
    timeout: float | None = None,
    on_entry: Callable[[str, Entry], None] | None = None,
    show_line: Callable[[str, str], None] | None = None,
    **view_options: Any,
) -> AsyncIterator[OpenSession]:
    """Connect to the host, and open a session or join one; `tell` says what others do, where the person sees it."""
    host: api.HostTarget = options.afar
    quiet, aside = view_options.get("quiet", False), terminal.diagnostics
    if options.lend is not None and (reason := sandbox.unavailable_reason(options.sandbox)):
        raise SandboxUnavailable(reason)
    about = await api.request_json(host, "GET", "/api/host")
    api.check_agent(host, about, options.agent)
    store = HostStore(host)
    record = SessionRecord(cast(Store, store), options.session, await _find_previous(store, options, about))
    there = _working_directory(options, about, record)
    options.cwd = options.lend or there
    say = show_line or (lambda text, style: aside.write_line(text, style))
    hush: Callable[[str, str], None] = lambda *_: None  # noqa: E731
    company = Presence(str(about.get("user", "")), show_line or hush, hush if quiet else say)
    company.own_workspace = options.lend or ""
    async with AsyncExitStack() as stack:
        leave = _create_permission_ui(options, terminal, prompter)
        stack.push_async_callback(leave.close)
        following = None
        if on_entry is not None:
            following = LogFollower(store, on_entry, lambda: company.own_turn_id)
            stack.push_async_callback(following.finish)
            company.on_activity = following.wake

        def report(words: str) -> None:  # a connection that is cut or mended, or a file that is not there
            if options.verbose or not words.startswith("the handler of "):
                say(leave.redact(words), "dim")

        remote = await stack.enter_async_context(
            connect(
                host.agent_url(options.agent or ""),
                cwd=options.cwd,
                permission=_permission_callback(company, leave, hush if quiet else say, is_shown=show_line is not None),
                workspace=None if options.lend is None else leave.workspace,
                elicit=None if prompter is None else FormPrompt(leave, prompter, aside),
                on=company.notification_handlers(),
                report=report,
                initialize_timeout=local.INITIALIZE_TIMEOUT if timeout is None else timeout,
                timeout=timeout,
                trace=_transport_wrapper(options, there),
                token=host.token,
                tls=host.ca_file or None,
                upgrade=True,
                extra_capabilities=SUBSCRIPTIONS,
            )
        )
        remote.separates_host_turns = False  # others' turns are shown too, or left out, as the command likes
        leave.bind_agent(remote, "")
        if options.verbose:
            aside.write_line("what the agent writes to stderr stays in the host (dragoman serve --verbose)", "dim")
        if record.previous is not None and show_line is not None:
            leave.ready.clear()  # what is being asked there is asked below what was said
        session = await enter_session(remote, options, leave, record, company, following)
        if record.previous is not None and not quiet:
            called = sanitize_line(record.previous.name or record.previous.session_id)
            aside.write_line(f"joined {called}, in {sanitize_line(there)}", "dim")

        who = (lambda: company.prompt_author) if show_line is not None else None
        show = partial(
            TurnView,
            terminal,
            output_of=partial(_terminal_output, leave, company),
            shown_changes=leave.shown_changes,
            verbose=options.verbose,
            prompt_author=who,
        )
        ours = _track_own_updates(session, company) if show_line is None else None
        yield OpenSession(remote, session, leave, partial(show, **view_options), record, company, ours)


def _permission_callback(
    presence: Presence, permission_ui: PermissionUI, show_line: Callable[[str, str], None], *, is_shown: bool
) -> Callable[[RequestPermissionParams], Awaitable[str | None]]:
    """Who answers questions here; `is_shown` where a person sees those of everybody."""

    async def permission(params: RequestPermissionParams) -> str | None:
        presence.note_question(params)
        presence.on_activity()
        # Where nobody can be asked here, those are left to decide who can; in their own turns in any case.
        if not is_shown and (
            presence.is_others_turn or (permission_ui.is_unattended and await presence.can_others_answer())
        ):
            show_line(f"left to the others: {sanitize_line(params.tool_call.title or 'a question')}", "dim")
            return None
        answer = await permission_ui.permission(params)
        presence.note_answer(params)
        return answer

    return permission


def _terminal_output(permission_ui: PermissionUI, presence: Presence, terminal_id: str) -> str:
    """What a command has printed, here or in the host."""
    mine = permission_ui.workspace.find_terminal(terminal_id)
    return mine.output().text if mine is not None else presence.terminal_output.get(terminal_id, "")


async def _find_previous(store: HostStore, options: argparse.Namespace, host_info: dict[str, Any]) -> Any:
    """What is kept of the session that goes on, if one does."""
    if host_info.get("session"):
        return await store.find(host_info["session"])  # a link leads to one session and no other
    return None if options.session is None else await keeping.find_session(cast(Store, store), options.session)


def _create_permission_ui(
    options: argparse.Namespace, terminal: TerminalOutput, prompter: Prompter | None
) -> PermissionUI:
    """Who answers: the person alone, for the host has its policy; with something lent, the user's own policy first."""
    if options.lend is None:
        return PermissionUI(
            terminal.diagnostics, prompter, cwd=options.cwd, yes=options.yes, host_decides=True, sandboxed=True
        )
    return PermissionUI(
        terminal.diagnostics,
        prompter,
        cwd=options.lend,
        yes=options.yes,
        paths=user_paths(),
        policy=options.policy,
        mode=options.mode,
        sandboxed=options.sandbox is not None,
        sandbox=options.sandbox,
    )


def _transport_wrapper(options: argparse.Namespace, host_folder: str) -> Callable[[Transport], Transport] | None:
    """What is put around the connection: a recording, and the paths of a folder that is called otherwise there."""
    tap, here = getattr(options, "tap", None), options.lend
    if here is None or here == host_folder:
        return cast("Callable[[Transport], Transport] | None", tap)
    return lambda transport: PathMappingTransport(transport if tap is None else tap(transport), here, host_folder)


def _track_own_updates(session: ClientSession, presence: Presence) -> Callable[[], bool]:
    """Whether the next update that a turn gives was said in our own turn: others may have theirs before it."""
    marks: deque[bool] = deque()

    def heard(_: Any) -> None:
        presence.on_activity()
        if session.turn is not None and not session.turn.is_over:
            marks.append(presence.is_own_turn)

    session.on_update = heard
    return lambda: marks.popleft() if marks else True


async def enter_session(
    remote: RemoteAgent,
    options: argparse.Namespace,
    permission_ui: PermissionUI,
    record: SessionRecord,
    presence: Presence,
    follower: LogFollower | None,
) -> ClientSession:
    """The session that is there already, or a new one with the name it was called by."""
    before = record.previous
    if before is not None:
        return await _join_session(remote, options, permission_ui, before, presence, follower)
    try:
        session = await local.create_session(remote, options, permission_ui)
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
            record.previous = await keeping.find_session(record.store, record.name)
            if record.previous is None:
                raise ConfigFault([error.message]) from None
            return await _join_session(remote, options, permission_ui, record.previous, presence, follower)
    presence.session_id = session.id
    if follower is not None:
        follower.start(session.id, 0)
    return await local.apply_settings(session, options, permission_ui)


async def _join_session(
    remote: RemoteAgent,
    options: argparse.Namespace,
    permission_ui: PermissionUI,
    previous: Summary,
    presence: Presence,
    follower: LogFollower | None,
) -> ClientSession:
    presence.session_id = previous.session_id  # whatever is told of it follows its answer at once
    if follower is not None:
        follower.start(previous.session_id, previous.entries)
    session = await remote.resume_session(previous.session_id, options.cwd)
    return await local.apply_settings(session, options, permission_ui)


def _working_directory(options: argparse.Namespace, host_info: dict[str, Any], record: SessionRecord) -> str:
    """Where the session works: where the user says, where it was, here if here is there, else its first root."""
    if options.says_cwd:
        return str(options.cwd)
    if record.previous is not None and record.previous.cwd:
        return record.previous.cwd
    roots = host_info.get("roots")
    here = options.lend or os.getcwd()
    if options.afar.is_near and (roots is None or any(here == root or here.startswith(f"{root}/") for root in roots)):
        return here
    if not roots and options.lend is not None:
        raise ConfigFault(["--lend: say with --cwd which folder of the host stands for it"])
    return str(roots[0]) if roots else "/"
