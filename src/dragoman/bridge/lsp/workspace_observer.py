"""Language servers for the workspace of a client, and for a relay between a client and an agent."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from dragoman.bridge.lsp.edit_observer import EditObserver, SendUpdate
from dragoman.bridge.lsp.language_servers import LanguageServers
from dragoman.bridge.lsp.navigation import TextChange
from dragoman.bridge.lsp.server_table import ServerRow, build_table
from dragoman.bridge.lsp.tools import TOOLS, LanguageTools
from dragoman.config.config_file import load_config
from dragoman.config.paths import protect_user_files, user_paths
from dragoman.engine.codec import json_values
from dragoman.engine.incoming import DoneCallback, Handler, Incoming
from dragoman.errors import Kind, ProtocolError
from dragoman.ids import new_id
from dragoman.mcp.tool_table import ToolTable
from dragoman.roles.client.workspace import AgentWorkspace
from dragoman.roles.proxy.relay import Relay
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side
from dragoman.schema.toolcall import ToolCallStatus, ToolKind
from dragoman.transport.sandbox.spec import Sandbox

# The name of the MCP server with the tools.
SERVER_NAME = "lsp"


def user_table() -> list[ServerRow]:
    """Return the table of servers with the user's own configuration; raise ConfigFault."""
    return build_table(load_config(user_paths().config_file).lsp)


class LanguageServerObserver:
    """For `WorkspaceAccess.observer`: each session of an agent gets its own language servers."""

    def __init__(
        self,
        table: Sequence[ServerRow],
        report: Callable[[str], None] = lambda text: None,
        server_settings: Mapping[str, Any] | None = None,
        *,
        offers_tools: bool = False,
    ) -> None:
        """With `offers_tools`, each session gets an MCP server `lsp` with the tools of `bridge/lsp/tools.py`."""
        self._table = table
        self._report = report
        self._server_settings = server_settings
        self._offers_tools = offers_tools

    def for_agent(self, workspace: AgentWorkspace, send_update: SendUpdate) -> EditObserver:
        """Return the observer of one agent."""
        observer = EditObserver(
            self._table,
            roots=workspace.roots,
            send_update=send_update,
            session_ids=lambda: workspace.session_ids,
            sandbox=lambda: protect_user_files(workspace.sandbox),
            report=self._report,
            server_settings=self._server_settings,
        )
        if self._offers_tools:
            observer.tables.append(tool_table(observer, partial(workspace_tools, workspace)))
        return observer


def tool_table(observer: EditObserver, make: Callable[[LanguageServers, str], LanguageTools]) -> ToolTable:
    """Return the tools of the language servers of an observer's sessions."""

    async def call(session_id: str, name: str, arguments: Mapping[str, Any]) -> str:
        servers = observer.servers_of(session_id)
        if servers is None:
            raise ProtocolError(Kind.SESSION_NOT_FOUND, f"the session {session_id!r} has no folder here")
        return await make(servers, session_id).call(name, arguments)

    return ToolTable(name=SERVER_NAME, rows=TOOLS, call=call)


def workspace_tools(workspace: AgentWorkspace, servers: LanguageServers, session_id: str) -> LanguageTools:
    """Return the tools of a session; files are read and written through its workspace, with its policy."""

    async def approve_read(path: str) -> None:
        await workspace.require_approval("read", path, session_id, requested_path=path)

    async def write(changes: Mapping[str, TextChange]) -> None:
        contents = [(path, change.new) for path, change in changes.items()]
        expected = {path: change.old for path, change in changes.items()}
        await workspace.files.write_batch(session_id, contents, expected=expected)

    return LanguageTools(servers, approve_read, write)


def relay_tools(relay: Relay, servers: LanguageServers, session_id: str) -> LanguageTools:
    """Return the tools of a session behind a relay: its client says what may be read and written."""
    client = relay.client

    async def approve_read(path: str) -> None:
        if client.offers("client.fs.readTextFile"):
            await client.request("fs/read_text_file", {"sessionId": session_id, "path": path, "limit": 1})

    async def write(changes: Mapping[str, TextChange]) -> None:
        await _ask_client(relay, session_id, changes)
        contents = [(path, change.new) for path, change in changes.items()]
        expected = {path: change.old for path, change in changes.items()}
        await asyncio.to_thread(partial(servers.files.write_many, contents, expected=expected))

    return LanguageTools(servers, approve_read, write)


async def _ask_client(relay: Relay, session_id: str, changes: Mapping[str, TextChange]) -> None:
    """Ask the user of the client for all changes at once; raise permission_denied."""
    diffs = [
        {"type": "diff", "path": path, "oldText": change.old, "newText": change.new} for path, change in changes.items()
    ]
    call = {
        "toolCallId": f"lsp-rename-{new_id()}",
        "title": f"Rename in {len(changes)} files",
        "kind": ToolKind.EDIT,
        "status": ToolCallStatus.PENDING,
        "content": diffs,
        "locations": [{"path": path} for path in changes],
    }
    options = [
        {"optionId": kind, "name": name, "kind": kind}
        for kind, name in (("allow_once", "Allow"), ("reject_once", "Reject"))
    ]
    answer = json_values(
        await relay.client.request(
            "session/request_permission", {"sessionId": session_id, "toolCall": call, "options": options}
        )
    )
    if answer.get("outcome", {}).get("optionId") != "allow_once":
        raise ProtocolError(Kind.PERMISSION_DENIED, "the user did not allow the rename; nothing was written")


class RelaySessions:
    """The folders of the sessions behind a relay, from the calls that open them."""

    def __init__(self, relay: Relay, on_end: Callable[[str], Awaitable[None]]) -> None:
        self._relay = relay
        self._on_end = on_end
        self.folders: dict[str, list[str]] = {}

    def claim(self) -> None:
        """Watch the calls that open and end sessions."""
        for row in METHODS.values():
            if row.side is Side.AGENT and row.effect in ("opens", "forks", "reopens"):
                self._relay.claim(Side.AGENT, row.name, self._on_open)
            elif row.side is Side.AGENT and row.effect == "ends":
                self._relay.claim(Side.AGENT, row.name, self._on_close)

    def roots(self, session_id: str) -> list[str]:
        """Return the folders of a session that exist here; raise ProtocolError if it is not open."""
        if session_id not in self.folders:
            raise ProtocolError(Kind.SESSION_NOT_FOUND, f"there is no session {session_id!r}")
        return [folder for folder in self.folders[session_id] if os.path.isdir(folder)]

    def _on_open(self, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        values = incoming.values if isinstance(incoming.values, dict) else {}
        folders = [values.get("cwd"), *(values.get("additionalDirectories") or ())]
        folders = [folder for folder in folders if isinstance(folder, str)]

        def answer(result: Any, error: ProtocolError | None) -> None:
            opened = json_values(result) if error is None else None
            id = opened.get("sessionId") if isinstance(opened, dict) else None
            if error is None:
                self.folders[str(id or values.get("sessionId"))] = folders
            done(result, error)

        return self._relay.forward_to_agent(incoming, answer)

    async def _on_close(self, incoming: Incoming, done: DoneCallback) -> None:
        values = incoming.values
        work = self._relay.forward_to_agent(incoming, done)
        if work is not None:
            await work
        id = str(values.get("sessionId")) if isinstance(values, dict) else ""
        self.folders.pop(id, None)
        await self._on_end(id)


def relay_extension(
    table: Sequence[ServerRow],
    sandbox: Sandbox | None,
    report: Callable[[str], None],
    server_settings: Mapping[str, Any] | None = None,
    tables: list[ToolTable] | None = None,
) -> Callable[[Relay], Callable[[], Awaitable[None]]]:
    """Return the extension of a relay: diagnostics after the writes of the agent, whoever makes them.

    The tools for the agent are added to `tables`.
    """

    def extend(relay: Relay) -> Callable[[], Awaitable[None]]:
        def send_update(session_id: str, update: dict[str, Any]) -> None:
            relay.client.notify("session/update", {"sessionId": session_id, "update": update})

        observer = EditObserver(
            table,
            roots=lambda session_id: sessions.roots(session_id),
            send_update=send_update,
            session_ids=lambda: list(sessions.folders),
            sandbox=lambda: protect_user_files(sandbox),
            report=report,
            server_settings=server_settings,
        )
        sessions = RelaySessions(relay, observer.end_session)
        sessions.claim()
        for method in observer.methods:
            handler: Handler = relay.forward_to_client
            relay.claim(Side.CLIENT, method, observer.wrap(method, handler))
        relay.claim(Side.AGENT, "session/prompt", _after_held_updates(relay, observer))
        if tables is not None:
            tables.append(tool_table(observer, partial(relay_tools, relay)))
        return observer.close

    return extend


def _after_held_updates(relay: Relay, observer: EditObserver) -> Handler:
    """Return a handler of prompts whose answers come after the updates that the observer holds."""
    forward = relay.handler_of(Side.AGENT, "session/prompt")

    def prompt(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        values = incoming.values
        session_id = str(values.get("sessionId")) if isinstance(values, dict) else ""

        def answer(result: Any, error: ProtocolError | None) -> None:
            held = observer.held_updates(session_id)
            if held is None:
                done(result, error)
            else:
                held.add_done_callback(lambda _: done(result, error))
                relay.agent_of(session_id).sender.hold = held  # what follows the answer stays behind it

        return forward(incoming, answer)

    return prompt
