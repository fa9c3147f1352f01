"""Which rooms share an agent process: those of one user, with one agent, met and logged in to in the same way.

    dragoman serve --share user

A session whose owner is not known for certain (a log from elsewhere) keeps a process of its own, as do agents in a
sandbox, which is made for one session's folders, and those of dialects whose calls do not say which session they are
about. Above is the room's agent; below are the shared processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

from dragoman.host.auth.roles import ADMIN
from dragoman.host.pool.ids import CROW, V1
from dragoman.host.pool.process import Pier
from dragoman.host.pool.transport import Berth
from dragoman.roles.client.dial import Dial
from dragoman.schema.base import encode
from dragoman.transport.base import Transport

if TYPE_CHECKING:
    from dragoman.config.config_file import NamedAgent
    from dragoman.engine.connection import Connection
    from dragoman.host.room.room import Room

# The dialects whose frames can be sorted: sessions in any folder, and each message says which one it is about.
SHARED = {"v1": V1, "banjo": V1, "crow": CROW}

# Why the others cannot: whose files would be read is not for an agent to leave open.
_UNSHARED = {
    "draft": "an agent of the draft does not say for which session it uses files and terminals",
    "2025.1": "an agent of 2025.1 works in one folder, and does not say for which session it uses files",
}


def unshared(named: NamedAgent, dialect: str) -> str:
    """Why an agent needs a process for each session; "" where it can be shared."""
    if named.sandbox:
        return "its sandbox is made for the folders of one session"
    return "" if dialect in SHARED else _UNSHARED.get(dialect, "it is not known yet which dialect it speaks")


# What is said of a room whose agent is in a process with those of others.
SHARES = "shared"


class Key(NamedTuple):
    """What rooms must have in common to share a process; first of all the user."""

    user: str
    agent: str
    words: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    dialect: str
    login: tuple[str, tuple[tuple[str, str], ...]] | None
    introduction: bytes


class Pool:
    """The processes that are shared."""

    def __init__(self) -> None:
        self._processes: dict[Key, Pier] = {}
        self._starting: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()

    async def berth(self, key: Key, start: Callable[[], Awaitable[Transport]]) -> Berth:
        """A place at the process of this key, which is started for the first who wants it."""
        async with self._starting.setdefault(key, asyncio.Lock()):
            process = self._processes.get(key)
            if process is None:
                process = Pier(await start(), lambda process: self._forget(key, process), SHARED[key.dialect])
                self._processes[key] = process
            return process.berth()

    async def close(self) -> None:
        """End all of them."""
        await asyncio.gather(*(process.end("the host was stopped") for process in list(self._processes.values())))

    def _forget(self, key: Key, process: Pier) -> None:
        if self._processes.get(key) is process:
            del self._processes[key]


class PooledDial(Dial):
    """How the agent of a room is reached where it may be shared."""

    def __init__(self, pool: Pool, room: Room, named: NamedAgent, **more: Any) -> None:
        super().__init__(named.words, **more)
        self._pool = pool
        self._room = room
        self._agent = named

    async def _start(self, name: str, cwd: str) -> Connection:
        user = await owner(self._room)
        if user is None:
            self._room.process = "own: it is not certain whose session it is"
            self._target = self._room.house.roster.reach(self._agent)
        else:
            self._room.process = SHARES
            self._target = await self._pool.berth(self._key(user, name), lambda: self._begin(cwd))
        return await super()._start(name, cwd)

    def _key(self, user: str, dialect: str) -> Key:
        named, house = self._agent, self._room.house
        return Key(
            user=user,
            agent=named.name,
            words=tuple(named.words),
            env=tuple(sorted(named.env.items())),
            dialect=dialect,
            login=house.accounts.known(self._room.standing.owner or self._room.opener, named.name),
            introduction=encode(self._introduction),
        )

    async def _begin(self, cwd: str) -> Transport:
        """The process itself, in the folder of the first session: the others name theirs when they are opened."""
        target = self._room.house.roster.reach(self._agent)
        if not isinstance(target, Sequence):
            return target
        from dragoman.transport.process.transport import spawn

        return await spawn(target, cwd=self._resolve(cwd), env=self._env, inherit_env=self._inherit)


async def owner(room: Room) -> str | None:
    """Whose session it is, as its log and the directory agree; None where that is not beyond doubt."""
    house, user = room.house, room.opener
    if not room.seq:  # it is being opened, by them
        return user
    return user if room.standing.owner == user and await house.directory.role_of(user, room.id) == ADMIN else None
