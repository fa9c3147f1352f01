"""Open a session on a host: the host starts, guards and stores; this side has the terminal and its user.

The agent uses files and commands of the host, unless a folder of this machine is lent.
"""

from __future__ import annotations

import os
import shlex
from collections import deque
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from dragoman import ClientSession, SandboxUnavailable
from dragoman.cli.connect import record as records
from dragoman.cli.connect.json_output import LogFollower
from dragoman.cli.connect.local import OpenSession, session_flag
from dragoman.cli.connect.options import sandbox_unavailable_reason
from dragoman.cli.connect.path_mapping import PathMappingTransport
from dragoman.cli.connect.presence import SUBSCRIPTIONS, Presence, ShowLine
from dragoman.cli.host_client import api
from dragoman.cli.host_client.store import HostStore
from dragoman.cli.ui.permission import PermissionUI
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.errors import ConfigFault, Kind, ProtocolError
from dragoman.schema.permission import RequestPermissionParams
from dragoman.store.contract import Summary, decode_entry
from dragoman.transport.base import Transport

# How long a host may take to answer initialize. By default it gives an agent 120 seconds, and 20 in each other dialect;
# it must fail first, because its error says what to do. Seconds.
START_LIMIT = 240.0


class HostedSession(OpenSession):
    """A session on a host, which other members can join."""

    record: records.SessionRecord
    presence: Presence
    _host: api.HostTarget
    _host_folder: str  # the folder on the host; `cwd` is the lent one, if there is one
    _is_share = False  # the token is that of a share link, which gives access to one session only
    _follower: LogFollower | None = None

    async def _prepare(self, stack: AsyncExitStack) -> None:
        """Ask the host about itself; find the session and the folder."""
        options = self._options
        assert options.host is not None
        if options.lend is not None and (reason := sandbox_unavailable_reason(options.sandbox)):
            raise SandboxUnavailable(reason)
        self._host = options.host
        host_info = await api.request_json(self._host, "GET", "/api/host")
        api.check_agent(self._host, host_info, options.host_agent)
        store = HostStore(self._host)
        if host_info.get("session"):
            self._is_share = True
            shared = await store.find(host_info["session"])
            self.record = records.SessionRecord(store, shared.name or shared.session_id, shared)
        else:
            self.record = await records.find_record(store, options.session)
            if host_info.get("role") == "viewer" and self.record.previous is None and self.record.name is not None:
                raise _not_visible_fault(self.record, str(host_info.get("user", "")))
        self._host_folder = self._find_folder(host_info.get("roots"))
        self.cwd = options.lend or self._host_folder
        discard: ShowLine = lambda *_: None  # noqa: E731
        self._show_note: ShowLine = self._show_line or self.diagnostics.write_prose
        self._show_own_note = discard if options.quiet else self._show_note
        self.presence = Presence(str(host_info.get("user", "")), self._show_line or discard, self._show_own_note)
        self.presence.own_workspace = options.lend or ""
        if self._show_line is not None:
            self.prompt_author = lambda: self.presence.prompt_author
        if self._on_entry is not None:
            self._follower = LogFollower(store, self._on_entry, lambda: self.presence.own_turn_id)
            stack.push_async_callback(self._follower.finish)
            self.presence.on_activity = self._follower.wake

    def _find_folder(self, roots: list[str] | None) -> str:
        """Return the folder: given by the user, as before, the current one if the host has it, else the first root."""
        options, previous = self._options, self.record.previous
        if options.is_cwd_given:
            return options.cwd
        if previous is not None and previous.cwd:
            return previous.cwd
        here = options.lend or os.getcwd()
        if self._host.is_local and (
            roots is None or any(here == root or here.startswith(f"{root}/") for root in roots)
        ):
            return here
        if not roots and options.lend is not None:
            raise ConfigFault(["--lend: give the folder on the host that corresponds to it with --cwd"])
        return str(roots[0]) if roots else "/"

    def return_advice(self, command: str, session_id: str = "") -> str:
        """Return how this command joins the session again. The token of a link is not printed."""
        flag = session_flag(session_id or self.session_ref)
        if self._host.is_link:
            return "with the same link" + ("" if self._is_share else f" and {flag}")
        return f"with: {command} {self._host.flag}{flag}"

    def _create_permission_ui(self, **more: Any) -> PermissionUI:
        """Return the permission UI: ask the user what the host asks; for a lent folder, apply the user's policy
        first.
        """
        if self._options.lend is None:
            return super()._create_permission_ui(paths=None, host_decides=True, sandboxed=True)
        return super()._create_permission_ui(sandbox=self._options.sandbox)

    @property
    def _start_text(self) -> str:
        assert self._options.host is not None
        return f"connecting to {sanitize_line(self._options.host.display_name)}"

    @property
    def _start_limit(self) -> float:
        return START_LIMIT

    def _no_answer_text(self) -> str:
        return (
            f"{self._options.host and self._options.host.display_name} did not answer within {START_LIMIT:g} s; "
            "see dragoman hosts; if it answers there, its agent is silent: dragoman serve --verbose says what it tries"
        )

    @property
    def _target(self) -> str:
        return self._host.agent_url(self._options.host_agent)

    def _connect_options(self) -> dict[str, Any]:
        options: dict[str, Any] = {
            "permission": self._request_permission,
            "on": self.presence.notification_handlers(),
            "report": self._report,
            "trace": self._wrap_transport,
            "token": self._host.token,
            "tls": self._host.ca_file or None,
            "upgrade": True,
            "extra_capabilities": SUBSCRIPTIONS,
        }
        return options if self._options.lend is not None else options | {"workspace": None}

    def _report(self, text: str) -> None:
        """Show that the connection was lost or restored, or that a file is missing."""
        if self._options.verbose or not text.startswith("the handler of "):
            self._show_note(self.permission_ui.redact(text), "dim")

    def _wrap_transport(self, transport: Transport) -> Transport:
        """Add the recording, and the path mapping of a lent folder."""
        if self._options.trace is not None:
            transport = self._options.trace(transport)
        if self.cwd == self._host_folder:
            return transport
        return PathMappingTransport(transport, self.cwd, self._host_folder)

    async def _request_permission(self, params: RequestPermissionParams) -> str | None:
        presence, is_shown = self.presence, self._show_line is not None
        presence.note_question(params)
        presence.on_activity()
        # Where the user cannot be asked, other members decide; in their own turns in any case.
        if not is_shown and (
            presence.is_others_turn or (self.permission_ui.is_unattended and await presence.can_others_answer())
        ):
            title = sanitize_line(params.tool_call.title or "a question")
            self._show_own_note(f"left to other members: {title}", "dim")
            return None
        answer = await self.permission_ui.permission(params)
        presence.note_answer(params)
        return answer

    def terminal_output(self, terminal_id: str) -> str:
        """Return the output of a command, from this machine or from the host."""
        return super().terminal_output(terminal_id) or self.presence.terminal_output.get(terminal_id, "")

    # --- the session ------------------------------------------------------------------------------------------

    async def _enter_session(self) -> ClientSession:
        """Join the existing session, or open a new one with the given name."""
        self.agent.separates_host_turns = False  # the command decides whether to show turns of other members
        if self._options.verbose:
            self.diagnostics.write_line("stderr of the agent stays on the host (dragoman serve --verbose)", "dim")
        previous = self.record.previous
        if previous is not None and self._show_line is not None:
            self.permission_ui.ready.clear()  # open questions are asked after the transcript is shown
        session = await (self._open_named_session() if previous is None else self._join_session(previous))
        if self._show_line is None:
            self.is_own_update = _track_own_updates(session, self.presence)
        if self.record.previous is not None and not self._options.quiet:
            name = sanitize_line(self.record.previous.name or self.record.previous.session_id)
            folder = self.record.previous.cwd or self._host_folder
            note = "" if folder == self._host_folder else "; --cwd does not count: a session of a host keeps its folder"
            self.diagnostics.write_line(f"joined {name} in {sanitize_line(folder)}{note}", "dim")
        return session

    async def _open_named_session(self) -> ClientSession:
        record = self.record
        try:
            session = await self._create_session()
        except ProtocolError as error:
            if self._options.is_cwd_given and error.kind == Kind.INVALID_PARAMS and error.message.startswith("cwd "):
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
                return await self._join_session(record.previous)
            self._report_new_session(record)
        self._follow(session.id, 0)
        return await self._apply_settings(session)

    async def _join_session(self, previous: Summary) -> ClientSession:
        self._follow(previous.session_id, previous.entries)
        await self._read_history()
        # What happened since is sent before live updates, so that nothing is missing and nothing comes twice.
        cursor = decode_entry(self.history[-1]).seq if self.history else None
        resumed = await self.agent.resume_session(previous.session_id, self.cwd, cursor=cursor)
        return await self._apply_settings(resumed)

    def _follow(self, session_id: str, entries: int) -> None:
        """Take the notifications of this session, and its log after this many entries."""
        self.presence.session_id = session_id
        if self._follower is not None:
            self._follower.start(session_id, entries)


def _not_visible_fault(record: records.SessionRecord, user: str) -> ConfigFault:
    """Return the error of a viewer for a session that the viewer cannot see and may not open."""
    name, hint = record.name or "", f"; did you mean {record.close_name!r}?" if record.close_name else ""
    share = f"dragoman sessions share {shlex.quote(name)} --user {shlex.quote(user)}"
    message = f"there is no session {name!r} that you can see{hint}; a viewer cannot open a new one"
    return ConfigFault([f"{message}: ask an admin of the session to run: {share}"])


def _track_own_updates(session: ClientSession, presence: Presence) -> Callable[[], bool]:
    """Return whether the next update belongs to our own turn: turns of other members can come before it."""
    marks: deque[bool] = deque()

    def on_update(_: Any) -> None:
        presence.on_activity()
        if session.turn is not None and not session.turn.is_over:
            marks.append(presence.is_own_turn)

    session.on_update = on_update
    return lambda: marks.popleft() if marks else True
