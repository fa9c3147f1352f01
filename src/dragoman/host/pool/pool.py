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
from dragoman.host.pool.ids import CROW_CANCEL, V1_CANCEL
from dragoman.host.pool.process import SharedProcess
from dragoman.host.pool.transport import SharedTransport
from dragoman.roles.client.dial import Dialer
from dragoman.schema.base import encode
from dragoman.transport.base import Transport

if TYPE_CHECKING:
    from dragoman.config.config_file import NamedAgent
    from dragoman.engine.connection import Connection
    from dragoman.host.room.room import Room

# The dialects whose frames can be sorted: sessions in any folder, and each message says which one it is about.
SHAREABLE_DIALECTS = {"v1": V1_CANCEL, "banjo": V1_CANCEL, "crow": CROW_CANCEL}

# Why the others cannot: whose files would be read is not for an agent to leave open.
_UNSHAREABLE_DIALECTS = {
    "draft": "an agent of the draft does not say for which session it uses files and terminals",
    "2025.1": "an agent of 2025.1 works in one folder, and does not say for which session it uses files",
}


def reason_not_shared(named: NamedAgent, dialect: str) -> str:
    """Why an agent needs a process for each session; "" where it can be shared."""
    if named.sandbox:
        return "its sandbox is made for the folders of one session"
    return (
        ""
        if dialect in SHAREABLE_DIALECTS
        else _UNSHAREABLE_DIALECTS.get(dialect, "it is not known yet which dialect it speaks")
    )


# What is said of a room whose agent is in a process with those of others.
SHARED_PROCESS = "shared"


class PoolKey(NamedTuple):
    """What rooms must have in common to share a process; first of all the user."""

    user: str
    agent: str
    command: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    dialect: str
    login: tuple[str, tuple[tuple[str, str], ...]] | None
    initialize_params: bytes


class Pool:
    """The processes that are shared."""

    def __init__(self) -> None:
        self._processes: dict[PoolKey, SharedProcess] = {}
        self._starting: WeakValueDictionary[PoolKey, asyncio.Lock] = WeakValueDictionary()

    async def attach(self, key: PoolKey, start: Callable[[], Awaitable[Transport]]) -> SharedTransport:
        """A place at the process of this key, which is started for the first who wants it."""
        async with self._starting.setdefault(key, asyncio.Lock()):
            process = self._processes.get(key)
            if process is None:
                process = SharedProcess(
                    await start(), lambda process: self._forget(key, process), SHAREABLE_DIALECTS[key.dialect]
                )
                self._processes[key] = process
            return process.attach()

    async def close(self) -> None:
        """End all of them."""
        await asyncio.gather(*(process.close("the host was stopped") for process in list(self._processes.values())))

    def _forget(self, key: PoolKey, process: SharedProcess) -> None:
        if self._processes.get(key) is process:
            del self._processes[key]


class PooledDialer(Dialer):
    """How the agent of a room is reached where it may be shared."""

    def __init__(self, pool: Pool, room: Room, named: NamedAgent, **more: Any) -> None:
        super().__init__(named.argv, **more)
        self._pool = pool
        self._room = room
        self._agent = named

    async def _open_connection(self, name: str, cwd: str) -> Connection:
        user = await certain_owner(self._room)
        if user is None:
            self._room.process_note = "own: it is not certain whose session it is"
            self._target = self._room.host.agent_catalog.target_of(self._agent)
        else:
            self._room.process_note = SHARED_PROCESS
            self._target = await self._pool.attach(self._key(user, name), lambda: self._spawn_process(cwd))
        return await super()._open_connection(name, cwd)

    def _key(self, user: str, dialect: str) -> PoolKey:
        named, house = self._agent, self._room.host
        return PoolKey(
            user=user,
            agent=named.name,
            command=tuple(named.argv),
            env=tuple(sorted(named.env.items())),
            dialect=dialect,
            login=house.accounts.login_key(self._room.state.owner or self._room.opener, named.name),
            initialize_params=encode(self._initialize_params),
        )

    async def _spawn_process(self, cwd: str) -> Transport:
        """The process itself, in the folder of the first session: the others name theirs when they are opened."""
        target = self._room.host.agent_catalog.target_of(self._agent)
        if not isinstance(target, Sequence):
            return target
        from dragoman.transport.process.transport import spawn

        return await spawn(target, cwd=self._resolve_folder(cwd), env=self._env, inherit_env=self._inherit_env)


async def certain_owner(room: Room) -> str | None:
    """Whose session it is, as its log and the directory agree; None where that is not beyond doubt."""
    house, user = room.host, room.opener
    if not room.seq:  # it is being opened, by them
        return user
    return user if room.state.owner == user and await house.session_roles.role_of(user, room.id) == ADMIN else None
