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
from dragoman.engine.pending import Done
from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.host.room.member import Member
from dragoman.host.room.notifications import TERMINALS
from dragoman.roles.client.permission.guarded import GuardedLending, GuardedLoan
from dragoman.roles.client.workspace import Loan
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side

if TYPE_CHECKING:
    from dragoman.host.room.room import Room
    from dragoman.roles.client.permission.guard import Guard

HOST = "host"

# What can be lent, and what a client offers who lends it.
GATES = {"files": "client.fs.readTextFile", "terminals": "client.terminal"}

# What a client says of a file that it does not have; a refusal of its user's is none of these, and stays one.
_HAS_NOT = frozenset({Kind.RESOURCE_NOT_FOUND, Kind.METHOD_NOT_FOUND, Kind.CAPABILITY_UNSUPPORTED, Kind.TIMEOUT})

# How long a client may take for a file or to start a command; then its file is the host's own. People may be asked
# meanwhile, so it is long. Seconds.
PATIENCE = 120.0

# What lasts as long as a command does.
_LASTING = frozenset({"terminal/wait_for_exit"})

# Calls that make something which later calls name, and where its id stands.
_MAKES = {"terminal/create": "terminalId", "fs/watch": "watchId"}
_NAMES = {
    "terminal/output": "terminalId",
    "terminal/wait_for_exit": "terminalId",
    "terminal/kill": "terminalId",
    "terminal/release": "terminalId",
    "fs/unwatch": "watchId",
}
_ENDS = frozenset({"terminal/release", "fs/unwatch"})

# When a command has ended or is let go, those in the room are told what it printed: the end of it, in characters. It
# is in no log, for it may be long and belongs to the tool call that shows it.
_PRINTED = frozenset({"terminal/wait_for_exit", "terminal/release"})
TOLD = 32_000


def chosen(members: Sequence[Member], gate: str, prompter: str) -> Member | None:
    """Whose files or terminals are used: the prompter's, else of those who offer them the longest there."""
    there = [each for each in members if each.is_live and each.controls and each.desk.is_there]
    able = [each for each in there if each.desk.connection.offers(gate)]
    return next((each for each in able if each.desk.id == prompter), able[0] if able else None)


class RoomLending(GuardedLending):
    """What a room lends its agent: whatever its members have, else what the host has, under the guard."""

    def __init__(self, room: Room, guard: Guard, **options: Any) -> None:
        super().__init__(guard, **options)
        self._room = room

    def to(
        self,
        connection: Callable[[], Connection],
        roots: Callable[[str], list[str]],
        sessions: Callable[[], Sequence[str]] = lambda: (),
    ) -> Loan:
        """Lend to the room's agent."""
        self._guard.know_roots(roots, self._room.real_folder)
        return _RoomLoan(self._room, self._guard, self, connection, roots, sessions)


class _RoomLoan(GuardedLoan):
    """What the agent of a room has borrowed, and of whom."""

    def __init__(self, room: Room, *args: Any) -> None:
        super().__init__(*args)
        self.resolve = room.checked_folder
        self._room = room
        self._owners: dict[tuple[str, str], Member] = {}  # of terminals and watches
        self._theirs: dict[tuple[str, str], str] = {}  # what their owners call them, where that is another name
        self._printed: dict[str, int] = {}  # characters of a command's output that were told of

    def handlers(self) -> dict[str, Handler]:
        """The handlers of what is lent, by whoever lends it."""
        return {method: self._routed(method, handler) for method, handler in super().handlers().items()}

    def _routed(self, method: str, here: Handler) -> Handler:
        gate = METHODS[Side.CLIENT, method].gate
        named = _NAMES.get(method)

        def handle(incoming: Incoming, done: Done) -> Awaitable[None] | None:
            if named is not None:
                owner = self._owners.get((named, _id(incoming, named)))
                if method in _PRINTED:
                    return self._told(owner, method, incoming, done, here)
                if owner is None:
                    return here(incoming, done)
                if owner.desk.id not in self._room.members:
                    raise _gone(method, owner)
                return self._ask(owner, method, incoming, done, here)
            lender = self._room.lender(gate)
            self._room.lends("terminals" if method.startswith("terminal") else "files", lender)
            return here(incoming, done) if lender is None else self._ask(lender, method, incoming, done, here)

        return handle

    async def _told(self, owner: Member | None, method: str, incoming: Incoming, done: Done, here: Handler) -> None:
        """Wait for a command, or let it go; what it printed is told before that is answered."""
        id = _id(incoming, "terminalId")
        if owner is not None and owner.desk.id not in self._room.members:
            raise _gone(method, owner)
        if method in _ENDS:
            await self._tell_printed(owner, id)
            self._printed.pop(id, None)
        answers: list[tuple[Any, ProtocolError | None]] = []

        def keep(result: Any, error: ProtocolError | None) -> None:
            answers.append((result, error))

        work = here(incoming, keep) if owner is None else self._ask(owner, method, incoming, keep, here)
        if work is not None:
            await work
        if method not in _ENDS:
            await self._tell_printed(owner, id)
        for result, error in answers:
            done(result, error)

    async def _tell_printed(self, owner: Member | None, id: str) -> None:
        """Tell everybody but whoever runs it, once; a command of which nothing is known is none to tell of."""
        others = [
            each for each in self._room.members.values() if each is not owner and TERMINALS in each.desk.announced
        ]
        if not others:
            return
        if owner is None:
            terminal = self.lending.terminal(id)
            text = terminal.output().text if terminal is not None else ""
        else:
            theirs = self._theirs.get(("terminalId", id), id)
            text, params = "", {"sessionId": self._room.id, "terminalId": theirs}
            with suppress(ConnectionFailed, ProtocolError):
                given = await owner.desk.connection.request_raw("terminal/output", params, timeout=PATIENCE)
                text = str(given.get("output", "")) if isinstance(given, dict) else ""
        if not text or self._printed.get(id) == len(text):
            return
        self._printed[id] = len(text)
        self._room.tell_printed(id, text[-TOLD:], but=owner)

    async def _ask(self, lender: Member, method: str, incoming: Incoming, done: Done, here: Handler) -> None:
        params = {**incoming.values, "sessionId": self._room.id}
        named = _NAMES.get(method, "")
        key = named, _id(incoming, named)
        if named:
            params[named] = self._theirs.get(key, key[1])
        try:
            limit = None if method in _LASTING else PATIENCE
            result = await lender.desk.connection.request_raw(method, params, timeout=limit)
        except (ConnectionFailed, ProtocolError) as error:
            if not await self._instead(lender, method, incoming, done, here, error):
                raise
            return
        if method in _MAKES and isinstance(result, dict):
            result = {**result, _MAKES[method]: self._own(lender, _MAKES[method], str(result.get(_MAKES[method])))}
        elif method in _ENDS:
            self._owners.pop(key, None)
            self._theirs.pop(key, None)
        done(result, None)

    def _own(self, lender: Member, named: str, theirs: str) -> str:
        """What the agent calls something a client made: as the client does, unless another has one of that name."""
        ours, count = theirs, 1
        while self._owners.get((named, ours), lender) is not lender or self.lending.terminal(ours) is not None:
            count += 1
            ours = f"{theirs}~{count}"
        self._owners[named, ours] = lender
        if ours != theirs:
            self._theirs[named, ours] = theirs
        return ours

    async def _instead(
        self, lender: Member, method: str, incoming: Incoming, done: Done, here: Handler, error: Exception
    ) -> bool:
        """A client that left, or does not have the file: the host does it; a terminal that went with it is gone."""
        is_gone = lender.desk.connection.failure is not None or isinstance(error, ConnectionFailed)
        has_not = method.startswith("fs/") and getattr(error, "kind", "") in _HAS_NOT
        if not is_gone and not has_not:
            return False
        if is_gone and method in _NAMES:
            raise _gone(method, lender) from None
        work = here(incoming, done)
        if work is not None:
            await work
        return True


def _gone(method: str, lender: Member) -> ProtocolError:
    what = "watched this" if method.startswith("fs/") else "ran this terminal"
    who = lender.desk.visitor.user
    return ProtocolError(
        Kind.RESOURCE_NOT_FOUND, f"the client that {what} has left the session ({who}); start it again"
    )


def _id(incoming: Incoming, named: str) -> str:
    said = incoming.values
    return str(said.get(named, "")) if isinstance(said, dict) else ""
