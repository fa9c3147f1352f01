"""Which rooms share an agent process (`serve --share user`): those of one user with the same agent and login.

A session without a certain owner (an imported log) has its own process, as has an agent that cannot be shared.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

from dragoman.dialect.dialects import load_dialect
from dragoman.host.auth.roles import ADMIN
from dragoman.host.pool.process import SharedProcess
from dragoman.host.pool.transport import SharedTransport
from dragoman.policy.stderr_secrets import stderr_redactor
from dragoman.roles.client.dial import Dialer
from dragoman.schema.base import encode
from dragoman.transport.base import Transport

if TYPE_CHECKING:
    from dragoman.config.config_file import NamedAgent
    from dragoman.engine.connection import Connection
    from dragoman.host.room.room import Room


def reason_not_shared(agent_config: NamedAgent, dialect: str) -> str:
    """Return why an agent needs a process for each session; "" if it can be shared."""
    if agent_config.sandbox:
        return "its sandbox is made for the folders of one session"
    return load_dialect(dialect).reason_not_shared if dialect else "its dialect is not known yet"


# The process note of a room whose agent process is shared.
SHARED_PROCESS = "shared"


class PoolKey(NamedTuple):
    """What rooms must have in common to share a process."""

    user: str
    agent: str
    command: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    dialect: str
    login: tuple[str, tuple[tuple[str, str], ...]] | None
    initialize_params: bytes


class Pool:
    """The shared processes of a host."""

    def __init__(self) -> None:
        self._processes: dict[PoolKey, SharedProcess] = {}
        self._starting: WeakValueDictionary[PoolKey, asyncio.Lock] = WeakValueDictionary()

    async def attach(self, key: PoolKey, start: Callable[[], Awaitable[Transport]]) -> SharedTransport:
        """Return a transport to the process of this key. Start the process if there is none."""
        async with self._starting.setdefault(key, asyncio.Lock()):
            process = self._processes.get(key)
            if process is None:
                process = SharedProcess(
                    await start(), lambda process: self._forget(key, process), load_dialect(key.dialect).turn_cancel
                )
                self._processes[key] = process
            return process.attach()

    async def close(self) -> None:
        """Stop all processes."""
        await asyncio.gather(*(process.close("the host was stopped") for process in list(self._processes.values())))

    def _forget(self, key: PoolKey, process: SharedProcess) -> None:
        if self._processes.get(key) is process:
            del self._processes[key]


class PooledDialer(Dialer):
    """A dialer for an agent whose process may be shared."""

    def __init__(self, pool: Pool, room: Room, agent_config: NamedAgent, **more: Any) -> None:
        super().__init__(agent_config.argv, **more)
        self._pool = pool
        self._room = room
        self._agent = agent_config

    async def _open_connection(self, name: str, cwd: str) -> Connection:
        user = await certain_owner(self._room)
        if user is None:
            self._room.agent.process_note = "own: the owner of the session is not certain"
            self._target = self._room.host.agent_catalog.target_of(self._agent)
        else:
            self._room.agent.process_note = SHARED_PROCESS
            self._target = await self._pool.attach(self._key(user, name), lambda: self._spawn_process(cwd))
        return await super()._open_connection(name, cwd)

    def _key(self, user: str, dialect: str) -> PoolKey:
        agent_config, host = self._agent, self._room.host
        return PoolKey(
            user=user,
            agent=agent_config.name,
            command=tuple(agent_config.argv),
            env=tuple(sorted(agent_config.env.items())),
            dialect=dialect,
            login=host.accounts.login_key(self._room.state.owner or self._room.opener, agent_config.name),
            initialize_params=encode(self._initialize_params),
        )

    async def _spawn_process(self, cwd: str) -> Transport:
        """Start the process in the folder of the first session. The others name theirs when they are opened."""
        target = self._room.host.agent_catalog.target_of(self._agent)
        if not isinstance(target, Sequence):
            return target
        from dragoman.transport.process.transport import spawn

        return await spawn(
            target,
            cwd=self._resolve_folder(cwd),
            env=self._env,
            inherit_env=self._inherit_env,
            redact=stderr_redactor(os.environ, self._env or {}),
        )


async def certain_owner(room: Room) -> str | None:
    """Return the owner of a session if its log and the session roles agree; else None."""
    host, user = room.host, room.opener
    if not room.state.seq:  # it is being opened by this user
        return user
    return user if room.state.owner == user and await host.session_roles.role_of(user, room.id) == ADMIN else None
