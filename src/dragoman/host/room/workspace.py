"""Files and terminals for the agent of a room: those of a connected client, else those of the host.

The client whose prompt runs comes first, then the one that joined first. A terminal ends with the client that ran it.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from dragoman.engine.incoming import DoneCallback, Handler, Incoming
from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.host.room.member import Member
from dragoman.host.room.notifications import PRESENCE, Notification
from dragoman.host.room.shown_terminals import ClientTerminal, ShownTerminals
from dragoman.roles.client.forwarded_files import COORDINATED_METHODS, ForwardedFiles
from dragoman.roles.client.tree_members import turn_activity
from dragoman.schema.base import to_json
from dragoman.schema.methods import METHODS, methods_that
from dragoman.schema.side import Side

if TYPE_CHECKING:
    from dragoman.host.room.room import Room
    from dragoman.roles.client.permission.guard import Guard
    from dragoman.roles.client.workspace import WorkspaceAccess

HOST = "host"

# The parts of a workspace, and the capability a client needs to provide them.
WORKSPACE_GATES = {"files": "client.fs.readTextFile", "terminals": "client.terminal"}

# Error kinds for a file that the client does not have. A user's refusal is none of these and is final.
_MISSING_KINDS = frozenset({Kind.RESOURCE_NOT_FOUND, Kind.METHOD_NOT_FOUND, Kind.CAPABILITY_UNSUPPORTED, Kind.TIMEOUT})

# How long a client may take to read a file or start a command; then the host does it. The client may ask its user, so
# it is long. Seconds.
CLIENT_TIMEOUT = 120.0

# These take as long as the command.
_UNBOUNDED_METHODS = methods_that("waits")

# Calls that create something with an id, and calls that use it, each with the member that carries the id.
_CREATED_IDS = {row.name: member for row in METHODS.values() if row.effect == "creates" for member in row.result_ids}
_ID_MEMBERS = {
    row.name: member
    for row in METHODS.values()
    if row.effect in ("uses", "waits", "releases")
    for member, kind in row.ids.items()
    if kind in ("terminal", "watch")
}
_RELEASE_METHODS = methods_that("releases")

# After a wait or release of a terminal the members are sent the end of its output.
_OUTPUT_METHODS = frozenset(
    name for name in methods_that("waits", "releases") if "terminalId" in METHODS[Side.CLIENT, name].ids
)


class RoomWorkspace:
    """Whose files and terminals the agent of a room uses."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._calls: _WorkspaceCalls | None = None
        self._providers: dict[str, Any] = {}  # by part of the workspace: whose it is, as members are told
        self.terminals = ShownTerminals(room)

    def for_agent(self, guard: Guard) -> WorkspaceAccess:
        """Return the workspace of a new agent: that of the members if they have one, else the host's, guarded."""
        self._calls = calls = _WorkspaceCalls(self._room, guard)
        access = calls.access
        access.display_name = self._room.agent_title
        access.observer = self._room.host.observer
        access.as_tools = self._room.host.workspace_tools
        self.terminals.find_host_terminal = access.find_terminal
        return access

    def choose_provider(self, gate: str) -> Member | None:
        """Return whose files or terminals are used: the prompter's, else the first member's; None: the host's own.

        A prompter whose socket is not open, or not yet, is waited for: its agent must not use the host's files instead.
        """
        running = self._room.queue.running
        capable = [
            each for each in self._room.members.values() if each.can_control and each.client.connection.offers(gate)
        ]
        own = [each for each in capable if running is not None and each.client.id == running.client_id]
        present = [each for each in capable if each.is_live and each.client.is_connected]
        return next(iter([*own, *present]), None)

    def note_provider(self, what: str, provider: Member | None) -> None:
        """Note whose files or terminals are used, and notify the members of a change."""
        by: Any = HOST
        if provider is not None:
            by = {"user": provider.client.principal.user, "client": provider.client.client_name}
        if self._providers.get(what) != by:
            self._providers[what] = by
            self._room.members.broadcast(*self.notifications())

    def release(self) -> None:
        """Give up what the agent holds of the members' files, because it has ended."""
        if self._calls is not None:
            self._calls.close()

    def on_member_left(self) -> None:
        """Use the workspace of another member, or the host's, if that of the member who left was used."""
        for what, gate in WORKSPACE_GATES.items():
            if self._providers.get(what, HOST) != HOST:
                self.note_provider(what, self.choose_provider(gate))

    def notifications(self) -> list[Notification]:
        """Return the notification of whose workspace is used, if any is."""
        params = {"sessionId": self._room.id, **self._providers}
        return [Notification("_dragoman/workspace", params=params, topic=PRESENCE)] if self._providers else []


class _Call(NamedTuple):
    """A workspace call of the agent, and the handler that does it on the host."""

    method: str
    incoming: Incoming
    local: Handler

    def id(self, member: str) -> str:
        values = self.incoming.values
        return str(values.get(member, "")) if isinstance(values, dict) else ""


class _WorkspaceCalls:
    """The workspace calls of one agent, each sent to whose file or terminal it is."""

    def __init__(self, room: Room, guard: Guard) -> None:
        self._room = room
        self.access = guard.workspace_access(
            route=self._route, check_folder=room.agent.checked_folder, real_folder=room.agent.real_folder
        )
        self._owners: dict[tuple[str, str], Member] = {}  # of terminals and watches
        self._client_ids: dict[tuple[str, str], str] = {}  # the owner's ids, where they differ from ours
        self._forwarded: dict[str, ForwardedFiles] = {}  # by client

    def _route(self, method: str, local: Handler) -> Handler:
        gate = METHODS[Side.CLIENT, method].gate
        id_member = _ID_MEMBERS.get(method)

        def handle(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
            call = _Call(method, incoming, local)
            if id_member is not None:
                owner = self._owners.get((id_member, call.id(id_member)))
                if owner is not None and owner.client.id not in self._room.members:
                    raise _owner_left_error(method, owner)
                if method in _OUTPUT_METHODS:
                    return self._forward_with_output(owner, call, done)
                return self._perform(owner, call, done)
            provider = self._room.workspace.choose_provider(gate)
            self._room.workspace.note_provider("terminals" if method.startswith("terminal") else "files", provider)
            return self._perform(provider, call, done)

        return handle

    def _perform(self, provider: Member | None, call: _Call, done: DoneCallback) -> Awaitable[None] | None:
        """Let a member, or the host (None), do it."""
        return call.local(call.incoming, done) if provider is None else self._forward_to(provider, call, done)

    async def _forward_with_output(self, owner: Member | None, call: _Call, done: DoneCallback) -> None:
        """Wait for a command or release it. Members are sent its output before the agent gets the answer."""
        id = call.id("terminalId")
        if call.method in _RELEASE_METHODS:
            await self._broadcast_output(owner, id, is_last=True)
            self._room.workspace.terminals.forget_sent(id)
        results: list[tuple[Any, ProtocolError | None]] = []
        work = self._perform(owner, call, lambda *result: results.append(result))
        if work is not None:
            await work
        if call.method not in _RELEASE_METHODS:
            await self._broadcast_output(owner, id, end=_exit_members(*results[0]) if results else None)
        for result, error in results:
            done(result, error)

    async def _broadcast_output(
        self, owner: Member | None, id: str, *, is_last: bool = False, end: dict[str, Any] | None = None
    ) -> None:
        """Log the output of a command, and send it to all but its owner, after the tool call that shows it.

        An owner who is alone in the session is asked for it only once: when nobody can be asked any more.
        """
        members, terminals = self._room.members, self._room.workspace.terminals
        if owner is not None and not is_last and all(each.client.id == owner.client.id for each in members.values()):
            return
        await self._room.log.flush()
        if owner is not None:
            await members.wait_current(owner.client.id)
            client_id = self._client_ids.get(("terminalId", id), id)
            params = {"sessionId": self._room.id, "terminalId": client_id}
            with suppress(ConnectionFailed, ProtocolError):
                response = await owner.client.connection.request_raw("terminal/output", params, timeout=CLIENT_TIMEOUT)
                output = str(response.get("output", "")) if isinstance(response, dict) else ""
                terminals.add(id, ClientTerminal(owner.client.id, client_id, output))
        terminals.broadcast_output(id, end)

    async def _forward_to(self, provider: Member, call: _Call, done: DoneCallback) -> None:
        method = call.method
        params = {**call.incoming.values, "sessionId": self._room.id}
        id_member = _ID_MEMBERS.get(method, "")
        key = id_member, call.id(id_member)
        if id_member:
            params[id_member] = self._client_ids.get(key, key[1])
        await self._room.members.wait_current(provider.client.id)
        try:
            limit = None if method in _UNBOUNDED_METHODS else CLIENT_TIMEOUT
            send = partial(provider.client.connection.request_raw, timeout=limit)
            if method in COORDINATED_METHODS:
                result = await self._files_of(provider).call(method, params, send)
            else:
                result = await send(method, params)
        except (ConnectionFailed, ProtocolError) as error:
            if not await self._fall_back(provider, call, done, error):
                raise
            return
        if method in _CREATED_IDS and isinstance(result, dict):
            member = _CREATED_IDS[method]
            result = {**result, member: self._claim_id(provider, member, str(result.get(member)))}
        elif method in _RELEASE_METHODS:
            self._owners.pop(key, None)
            self._client_ids.pop(key, None)
        done(result, None)

    def _files_of(self, provider: Member) -> ForwardedFiles:
        """Return the files of a member, coordinated with the other sessions that use them through this host."""
        known = self._forwarded.get(provider.client.id)
        if known is not None:
            return known
        from dragoman.workspace.tree_member import TreeMember

        session, room = self._room.agent.session, self._room
        member = TreeMember(
            lambda: room.agent_title, tuple(room.agent.folders), activity=lambda: turn_activity(session)
        )
        files = self._forwarded[provider.client.id] = ForwardedFiles(provider.client.coordinator, member)
        if session is not None:
            session.on_turn_over.append(files.release)
        return files

    def close(self) -> None:
        """Release the files of the members."""
        for files in self._forwarded.values():
            files.close()
        self._forwarded.clear()

    def _claim_id(self, provider: Member, member: str, client_id: str) -> str:
        """Return the agent's id for something a client created: the client's id, unless another client uses it."""
        agent_id, count = client_id, 1
        while (
            self._owners.get((member, agent_id), provider) is not provider
            or self.access.find_terminal(agent_id) is not None
        ):
            count += 1
            agent_id = f"{client_id}~{count}"
        self._owners[member, agent_id] = provider
        if agent_id != client_id:
            self._client_ids[member, agent_id] = client_id
        if member == "terminalId":
            self._room.workspace.terminals.add(agent_id, ClientTerminal(provider.client.id, client_id))
        return agent_id

    async def _fall_back(self, provider: Member, call: _Call, done: DoneCallback, error: Exception) -> bool:
        """Let the host do what a client that left, or lacks the file, did not. Return False if that does not apply."""
        is_gone = provider.client.connection.failure is not None or isinstance(error, ConnectionFailed)
        has_not = call.method.startswith("fs/") and getattr(error, "kind", "") in _MISSING_KINDS
        if not is_gone and not has_not:
            return False
        if is_gone and call.method in _ID_MEMBERS:
            raise _owner_left_error(call.method, provider) from None
        work = call.local(call.incoming, done)
        if work is not None:
            await work
        return True


def _owner_left_error(method: str, owner: Member) -> ProtocolError:
    what = "watched this" if method.startswith("fs/") else "ran this terminal"
    user = owner.client.principal.user
    return ProtocolError(
        Kind.RESOURCE_NOT_FOUND, f"the client that {what} has left the session ({user}); start it again"
    )


def _exit_members(result: Any, error: ProtocolError | None) -> dict[str, Any] | None:
    """Return exitCode and signal of the result of a wait; None if it failed."""
    members = to_json(result) if error is None else None
    if not isinstance(members, dict):
        return None
    return {name: members[name] for name in ("exitCode", "signal") if members.get(name) is not None}
