"""Open a session on a host: the host starts, guards and stores; this side has the terminal and its user.

The counterpart of local.py: `resolve_options` checks the flags, `open_session` connects and opens or joins a session.
The agent uses files and commands of the host, unless a folder of this machine is lent.
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
from dragoman.cli.connect import record as records
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

# Flags that the host decides, and those of them that apply to a lent folder.
_HOST_FLAGS = ("policy", "mode", "sandbox", "no_store", "dialect")
_WORKSPACE_FLAGS = frozenset({"policy", "mode", "sandbox"})


def resolve_options(parser: Parser, options: argparse.Namespace, command: list[str]) -> NamedAgent:
    """Check the flags; the agent belongs to the host."""
    if command:
        parser.error("with --host, the host starts the agents: omit the command, or choose an agent with --agent NAME")
    given = [name for name in vars(options) if name in _HOST_FLAGS or name.startswith("sandbox_")]
    rejected = [name for name in given if getattr(options, name)]
    if options.lend is not None:
        rejected = [name for name in rejected if name.partition("_")[0] not in _WORKSPACE_FLAGS]
    if rejected:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in rejected)
        parser.error(f"{flags}: with --host, the host decides this (dragoman serve --help)")
    records.check_options(parser, options)
    options.host_target = api.resolve_host(options.host, options.token_file)
    options.says_cwd = options.cwd is not None
    if options.cwd is not None:
        path = os.path.expanduser(options.cwd)
        if not os.path.isabs(path) and not options.host_target.is_local:
            parser.error("--cwd: give the absolute path of a folder on the host")
        options.cwd = os.path.abspath(path)
    if options.lend is not None:
        options.lend = os.path.abspath(os.path.expanduser(options.lend))
        if not os.path.isdir(options.lend):
            parser.error(f"--lend: there is no folder {options.lend}; put the prompt before --lend, or use --lend=.")
        options.sandbox = sandbox.from_options(parser, options)
    local.resolve_common_options(parser, options)
    return NamedAgent(name=options.agent or sanitize_line(options.host_target.display_name), command="")


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
    """Connect to the host, and open or join a session; `show_line` shows what other members do."""
    host: api.HostTarget = options.host_target
    quiet, diagnostics = view_options.get("quiet", False), terminal.diagnostics
    if options.lend is not None and (reason := sandbox.unavailable_reason(options.sandbox)):
        raise SandboxUnavailable(reason)
    host_info = await api.request_json(host, "GET", "/api/host")
    api.check_agent(host, host_info, options.agent)
    store = HostStore(host)
    record = SessionRecord(cast(Store, store), options.session, await _find_previous(store, options, host_info))
    host_folder = _working_directory(options, host_info, record)
    options.cwd = options.lend or host_folder
    show = show_line or (lambda text, style: diagnostics.write_line(text, style))
    discard: Callable[[str, str], None] = lambda *_: None  # noqa: E731
    presence = Presence(str(host_info.get("user", "")), show_line or discard, discard if quiet else show)
    presence.own_workspace = options.lend or ""
    async with AsyncExitStack() as stack:
        permission_ui = _create_permission_ui(options, terminal, prompter)
        stack.push_async_callback(permission_ui.close)
        follower = None
        if on_entry is not None:
            follower = LogFollower(store, on_entry, lambda: presence.own_turn_id)
            stack.push_async_callback(follower.finish)
            presence.on_activity = follower.wake

        def report(text: str) -> None:  # a lost or restored connection, or a missing file
            if options.verbose or not text.startswith("the handler of "):
                show(permission_ui.redact(text), "dim")

        remote = await stack.enter_async_context(
            connect(
                host.agent_url(options.agent or ""),
                cwd=options.cwd,
                permission=_permission_callback(
                    presence, permission_ui, discard if quiet else show, is_shown=show_line is not None
                ),
                workspace=None if options.lend is None else permission_ui.workspace,
                elicit=None if prompter is None else FormPrompt(permission_ui, prompter, diagnostics),
                on=presence.notification_handlers(),
                report=report,
                initialize_timeout=local.INITIALIZE_TIMEOUT if timeout is None else timeout,
                timeout=timeout,
                trace=_transport_wrapper(options, host_folder),
                token=host.token,
                tls=host.ca_file or None,
                upgrade=True,
                extra_capabilities=SUBSCRIPTIONS,
            )
        )
        remote.separates_host_turns = False  # the command decides whether to show turns of other members
        permission_ui.bind_agent(remote, "")
        if options.verbose:
            diagnostics.write_line("stderr of the agent stays on the host (dragoman serve --verbose)", "dim")
        if record.previous is not None and show_line is not None:
            permission_ui.ready.clear()  # open questions are asked after the transcript is shown
        session = await enter_session(remote, options, permission_ui, record, presence, follower)
        if record.previous is not None and not quiet:
            name = sanitize_line(record.previous.name or record.previous.session_id)
            diagnostics.write_line(f"joined {name} in {sanitize_line(host_folder)}", "dim")

        prompt_author = (lambda: presence.prompt_author) if show_line is not None else None
        create_view = partial(
            TurnView,
            terminal,
            output_of=partial(_terminal_output, permission_ui, presence),
            shown_changes=permission_ui.shown_changes,
            verbose=options.verbose,
            prompt_author=prompt_author,
        )
        is_own_update = _track_own_updates(session, presence) if show_line is None else None
        yield OpenSession(
            remote, session, permission_ui, partial(create_view, **view_options), record, presence, is_own_update
        )


def _permission_callback(
    presence: Presence, permission_ui: PermissionUI, show_line: Callable[[str, str], None], *, is_shown: bool
) -> Callable[[RequestPermissionParams], Awaitable[str | None]]:
    """Return the permission callback; `is_shown`: the user sees the questions of all members."""

    async def permission(params: RequestPermissionParams) -> str | None:
        presence.note_question(params)
        presence.on_activity()
        # Where the user cannot be asked, other members decide; in their own turns in any case.
        if not is_shown and (
            presence.is_others_turn or (permission_ui.is_unattended and await presence.can_others_answer())
        ):
            show_line(f"left to other members: {sanitize_line(params.tool_call.title or 'a question')}", "dim")
            return None
        answer = await permission_ui.permission(params)
        presence.note_answer(params)
        return answer

    return permission


def _terminal_output(permission_ui: PermissionUI, presence: Presence, terminal_id: str) -> str:
    """Return the output of a command, from this machine or from the host."""
    terminal = permission_ui.workspace.find_terminal(terminal_id)
    return terminal.output().text if terminal is not None else presence.terminal_output.get(terminal_id, "")


async def _find_previous(store: HostStore, options: argparse.Namespace, host_info: dict[str, Any]) -> Any:
    """Return the stored session that is continued, if any."""
    if host_info.get("session"):
        return await store.find(host_info["session"])  # a share link gives access to one session only
    return None if options.session is None else await records.find_session(cast(Store, store), options.session)


def _create_permission_ui(
    options: argparse.Namespace, terminal: TerminalOutput, prompter: Prompter | None
) -> PermissionUI:
    """Return the permission UI: ask the user what the host asks; for a lent folder, apply the user's policy first."""
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
    """Return a wrapper of the transport: the recording, and the path mapping of a lent folder."""
    tap, here = getattr(options, "tap", None), options.lend
    if here is None or here == host_folder:
        return cast("Callable[[Transport], Transport] | None", tap)
    return lambda transport: PathMappingTransport(transport if tap is None else tap(transport), here, host_folder)


def _track_own_updates(session: ClientSession, presence: Presence) -> Callable[[], bool]:
    """Return whether the next update belongs to our own turn: turns of other members can come before it."""
    marks: deque[bool] = deque()

    def on_update(_: Any) -> None:
        presence.on_activity()
        if session.turn is not None and not session.turn.is_over:
            marks.append(presence.is_own_turn)

    session.on_update = on_update
    return lambda: marks.popleft() if marks else True


async def enter_session(
    remote: RemoteAgent,
    options: argparse.Namespace,
    permission_ui: PermissionUI,
    record: SessionRecord,
    presence: Presence,
    follower: LogFollower | None,
) -> ClientSession:
    """Join the existing session, or open a new one with the given name."""
    previous = record.previous
    if previous is not None:
        return await _join_session(remote, options, permission_ui, previous, presence, follower)
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
        except ProtocolError as error:  # another member has started one of that name meanwhile: join that
            await record.store.delete(session.id)
            record.previous = await records.find_session(record.store, record.name)
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
    presence.session_id = previous.session_id  # notifications about it follow the answer at once
    if follower is not None:
        follower.start(previous.session_id, previous.entries)
    session = await remote.resume_session(previous.session_id, options.cwd)
    return await local.apply_settings(session, options, permission_ui)


def _working_directory(options: argparse.Namespace, host_info: dict[str, Any], record: SessionRecord) -> str:
    """Return the folder: given by the user, as before, the current one if the host has it, else the first root."""
    if options.says_cwd:
        return str(options.cwd)
    if record.previous is not None and record.previous.cwd:
        return record.previous.cwd
    roots = host_info.get("roots")
    here = options.lend or os.getcwd()
    if options.host_target.is_local and (
        roots is None or any(here == root or here.startswith(f"{root}/") for root in roots)
    ):
        return here
    if not roots and options.lend is not None:
        raise ConfigFault(["--lend: give the folder on the host that corresponds to it with --cwd"])
    return str(roots[0]) if roots else "/"
