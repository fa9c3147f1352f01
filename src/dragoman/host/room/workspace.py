"""Files and terminals of one room: from the attached client that has them, else the host's own.

The client whose prompt runs comes first, then whoever is there longest. What a client does not have, or takes along
when it leaves, is looked for here; a terminal ends with whoever ran it. Above is the room's agent; below is the guarded
lending of the host, and the connections of members.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dragoman.engine.connection import Connection
from dragoman.engine.handler import Handler
from dragoman.engine.incoming import Incoming
from dragoman.engine.pending import DoneCallback
from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.host.room.member import Member
from dragoman.host.room.notifications import TERMINALS
from dragoman.roles.client.permission.guarded import GuardedAgentWorkspace, GuardedWorkspaceAccess
from dragoman.roles.client.workspace import AgentWorkspace
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side

if TYPE_CHECKING:
    from dragoman.host.room.room import Room
    from dragoman.roles.client.permission.guard import Guard

HOST = "host"

# What can be lent, and what a client offers who lends it.
WORKSPACE_GATES = {"files": "client.fs.readTextFile", "terminals": "client.terminal"}

# What a client says of a file that it does not have; a refusal of its user's is none of these, and stays one.
_MISSING_KINDS = frozenset({Kind.RESOURCE_NOT_FOUND, Kind.METHOD_NOT_FOUND, Kind.CAPABILITY_UNSUPPORTED, Kind.TIMEOUT})

# How long a client may take for a file or to start a command; then its file is the host's own. People may be asked
# meanwhile, so it is long. Seconds.
CLIENT_TIMEOUT = 120.0

# What lasts as long as a command does.
_UNBOUNDED_METHODS = frozenset({"terminal/wait_for_exit"})

# Calls that make something which later calls name, and where its id stands.
_CREATED_IDS = {"terminal/create": "terminalId", "fs/watch": "watchId"}
_ID_MEMBERS = {
    "terminal/output": "terminalId",
    "terminal/wait_for_exit": "terminalId",
    "terminal/kill": "terminalId",
    "terminal/release": "terminalId",
    "fs/unwatch": "watchId",
}
_RELEASE_METHODS = frozenset({"terminal/release", "fs/unwatch"})

# When a command has ended or is let go, those in the room are told what it printed: the end of it, in characters. It
# is in no log, for it may be long and belongs to the tool call that shows it.
_OUTPUT_METHODS = frozenset({"terminal/wait_for_exit", "terminal/release"})
MAX_OUTPUT = 32_000


def choose_provider(members: Sequence[Member], gate: str, prompter_id: str) -> Member | None:
    """Whose files or terminals are used: the prompter's, else of those who offer them the longest there."""
    there = [each for each in members if each.is_live and each.can_control and each.client.is_connected]
    able = [each for each in there if each.client.connection.offers(gate)]
    return next((each for each in able if each.client.id == prompter_id), able[0] if able else None)


class RoomWorkspaceAccess(GuardedWorkspaceAccess):
    """What a room lends its agent: whatever its members have, else what the host has, under the guard."""

    def __init__(self, room: Room, guard: Guard, **options: Any) -> None:
        super().__init__(guard, **options)
        self._room = room

    def for_agent(
        self,
        connection: Callable[[], Connection],
        roots: Callable[[str], list[str]],
        session_ids: Callable[[], Sequence[str]] = lambda: (),
    ) -> AgentWorkspace:
        """Lend to the room's agent."""
        self._guard.set_roots(roots, self._room.real_folder)
        return _RoomAgentWorkspace(self._room, self._guard, self, connection, roots, session_ids)


class _RoomAgentWorkspace(GuardedAgentWorkspace):
    """What the agent of a room has borrowed, and of whom."""

    def __init__(self, room: Room, *args: Any) -> None:
        super().__init__(*args)
        self.resolve_folder = room.checked_folder
        self._room = room
        self._owners: dict[tuple[str, str], Member] = {}  # of terminals and watches
        self._client_ids: dict[tuple[str, str], str] = {}  # what their owners call them, where that is another name
        self._sent_lengths: dict[str, int] = {}  # characters of a command's output that were told of

    def handlers(self) -> dict[str, Handler]:
        """The handlers of what is lent, by whoever lends it."""
        return {method: self._route(method, handler) for method, handler in super().handlers().items()}

    def _route(self, method: str, local: Handler) -> Handler:
        gate = METHODS[Side.CLIENT, method].gate
        named = _ID_MEMBERS.get(method)

        def handle(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
            if named is not None:
                owner = self._owners.get((named, _id_of(incoming, named)))
                if method in _OUTPUT_METHODS:
                    return self._forward_with_output(owner, method, incoming, done, local)
                if owner is None:
                    return local(incoming, done)
                if owner.client.id not in self._room.members:
                    raise _owner_left_error(method, owner)
                return self._forward_to(owner, method, incoming, done, local)
            lender = self._room.workspace_provider(gate)
            self._room.set_workspace_provider("terminals" if method.startswith("terminal") else "files", lender)
            return local(incoming, done) if lender is None else self._forward_to(lender, method, incoming, done, local)

        return handle

    async def _forward_with_output(
        self, owner: Member | None, method: str, incoming: Incoming, done: DoneCallback, local: Handler
    ) -> None:
        """Wait for a command, or let it go; what it printed is told before that is answered."""
        id = _id_of(incoming, "terminalId")
        if owner is not None and owner.client.id not in self._room.members:
            raise _owner_left_error(method, owner)
        if method in _RELEASE_METHODS:
            await self._broadcast_output(owner, id)
            self._sent_lengths.pop(id, None)
        answers: list[tuple[Any, ProtocolError | None]] = []

        def keep(result: Any, error: ProtocolError | None) -> None:
            answers.append((result, error))

        work = local(incoming, keep) if owner is None else self._forward_to(owner, method, incoming, keep, local)
        if work is not None:
            await work
        if method not in _RELEASE_METHODS:
            await self._broadcast_output(owner, id)
        for result, error in answers:
            done(result, error)

    async def _broadcast_output(self, owner: Member | None, id: str) -> None:
        """Tell everybody but whoever runs it, once; a command of which nothing is known is none to tell of."""
        others = [each for each in self._room.members.values() if each is not owner and TERMINALS in each.client.topics]
        if not others:
            return
        if owner is None:
            terminal = self.access.find_terminal(id)
            text = terminal.output().text if terminal is not None else ""
        else:
            theirs = self._client_ids.get(("terminalId", id), id)
            text, params = "", {"sessionId": self._room.id, "terminalId": theirs}
            with suppress(ConnectionFailed, ProtocolError):
                given = await owner.client.connection.request_raw("terminal/output", params, timeout=CLIENT_TIMEOUT)
                text = str(given.get("output", "")) if isinstance(given, dict) else ""
        if not text or self._sent_lengths.get(id) == len(text):
            return
        self._sent_lengths[id] = len(text)
        self._room.broadcast_terminal_output(id, text[-MAX_OUTPUT:], except_member=owner)

    async def _forward_to(
        self, provider: Member, method: str, incoming: Incoming, done: DoneCallback, local: Handler
    ) -> None:
        params = {**incoming.values, "sessionId": self._room.id}
        named = _ID_MEMBERS.get(method, "")
        key = named, _id_of(incoming, named)
        if named:
            params[named] = self._client_ids.get(key, key[1])
        try:
            limit = None if method in _UNBOUNDED_METHODS else CLIENT_TIMEOUT
            result = await provider.client.connection.request_raw(method, params, timeout=limit)
        except (ConnectionFailed, ProtocolError) as error:
            if not await self._fall_back(provider, method, incoming, done, local, error):
                raise
            return
        if method in _CREATED_IDS and isinstance(result, dict):
            result = {
                **result,
                _CREATED_IDS[method]: self._claim_id(
                    provider, _CREATED_IDS[method], str(result.get(_CREATED_IDS[method]))
                ),
            }
        elif method in _RELEASE_METHODS:
            self._owners.pop(key, None)
            self._client_ids.pop(key, None)
        done(result, None)

    def _claim_id(self, provider: Member, member: str, client_id: str) -> str:
        """What the agent calls something a client made: as the client does, unless another has one of that name."""
        ours, count = client_id, 1
        while self._owners.get((member, ours), provider) is not provider or self.access.find_terminal(ours) is not None:
            count += 1
            ours = f"{client_id}~{count}"
        self._owners[member, ours] = provider
        if ours != client_id:
            self._client_ids[member, ours] = client_id
        return ours

    async def _fall_back(
        self, provider: Member, method: str, incoming: Incoming, done: DoneCallback, local: Handler, error: Exception
    ) -> bool:
        """A client that left, or does not have the file: the host does it; a terminal that went with it is gone."""
        is_gone = provider.client.connection.failure is not None or isinstance(error, ConnectionFailed)
        has_not = method.startswith("fs/") and getattr(error, "kind", "") in _MISSING_KINDS
        if not is_gone and not has_not:
            return False
        if is_gone and method in _ID_MEMBERS:
            raise _owner_left_error(method, provider) from None
        work = local(incoming, done)
        if work is not None:
            await work
        return True


def _owner_left_error(method: str, owner: Member) -> ProtocolError:
    what = "watched this" if method.startswith("fs/") else "ran this terminal"
    who = owner.client.principal.user
    return ProtocolError(
        Kind.RESOURCE_NOT_FOUND, f"the client that {what} has left the session ({who}); start it again"
    )


def _id_of(incoming: Incoming, member: str) -> str:
    said = incoming.values
    return str(said.get(member, "")) if isinstance(said, dict) else ""
