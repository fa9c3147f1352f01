"""The sessions that can be opened: those of the user's store, and those of every configured host.

A host that does not answer is shown as such; it is asked again later.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from dragoman.cli.connect.options import SessionOptions
from dragoman.cli.connect.session_agent import last_agent
from dragoman.cli.connect.which_agent import find_agents_on_path
from dragoman.cli.host_client.api import HostTarget, request_json_blocking, resolve_host
from dragoman.config import config_file as config
from dragoman.config.config_file import Config, NamedAgent
from dragoman.config.paths import user_paths
from dragoman.config.session_agents import as_named_agent
from dragoman.errors import ConfigFault, ConnectionFailed, DragomanError, ProtocolError
from dragoman.store.contract import Summary

# How often the lists are read again, and how long a host may take. Seconds.
REFRESH_INTERVAL, HOST_TIMEOUT = 5.0, 3.0

# Sessions of one place that are listed; the others are found by `dragoman sessions search`.
MAX_LISTED = 200


# The states of a session, those that need somebody or soon may first.
ASKING, RUNNING, IDLE = STATES = ("asking", "running", "idle")


class ListedSession(NamedTuple):
    """One session, and where it is."""

    summary: Summary
    host: HostTarget | None
    members: int = 0
    state: str = IDLE  # or running or asking, as its host says; what runs on this machine is in a tab

    @property
    def key(self) -> tuple[str, str]:
        """What identifies it: its host, "" for this machine, and its id there."""
        return (self.host.base_url if self.host is not None else "", self.summary.session_id)

    @property
    def title(self) -> str:
        """What it is called."""
        return self.summary.name or self.summary.title or self.summary.session_id[:8]


class Place(NamedTuple):
    """A store or a host, with its sessions; `error` says why there are none."""

    name: str
    host: HostTarget | None
    sessions: list[ListedSession]
    error: str = ""
    agents: tuple[str, ...] = ()  # of a host


class SessionList:
    """Reads the lists again and again."""

    def __init__(self, base: SessionOptions, on_change: Callable[[], None]) -> None:
        """`base` has the options of new sessions, and the host of the command line."""
        self.places: list[Place] = []
        self._base = base
        self._on_change = on_change
        self._wakeup = asyncio.Event()

    async def run(self) -> None:
        """Read the lists, until cancelled."""
        while True:
            places = await self._read_places()
            if places != self.places:
                self.places = places
                self._on_change()
            self._wakeup.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(REFRESH_INTERVAL):
                    await self._wakeup.wait()

    def refresh(self) -> None:
        """Read the lists now."""
        self._wakeup.set()

    async def _read_places(self) -> list[Place]:
        targets = _host_targets(self._base)
        local = [] if not self._base.uses_user_files else [await _read_local()]
        return local + list(
            await asyncio.gather(*(asyncio.to_thread(_read_host, name, host) for name, host in targets))
        )

    def options_for(self, listed: ListedSession) -> SessionOptions | None:
        """Return the options that open a session; None if its agent is not known here."""
        id = listed.summary.session_id
        if listed.host is not None:
            return msgspec.structs.replace(
                self.host_options(listed.host, ""), session=id, agent=NamedAgent(name=listed.title, command="")
            )
        known = agents_by_name(self._base)
        used = last_agent(id) if self._base.uses_user_files else None
        agent = as_named_agent(used) if used is not None and used.command else None
        is_command = agent is not None
        if agent is None:
            agent = known.get(used.name if used is not None else listed.summary.agent or "")
        if agent is None:
            agent = self._base.agent if self._base.host is None else next(iter(known.values()), None)
        if agent is None:
            return None
        return msgspec.structs.replace(
            self._base,
            agent=agent,
            is_agent_command=is_command,
            session=id,
            host=None,
            lend=None,
            cwd=os.getcwd(),
            is_cwd_given=False,
        )

    def host_options(self, host: HostTarget, agent: str) -> SessionOptions:
        """Return the options of a new session on a host."""
        return msgspec.structs.replace(
            self._base,
            agent=NamedAgent(name=agent or host.display_name, command=""),
            host=host,
            host_agent=agent,
            session=None,
            cwd="",
            is_cwd_given=False,
            lend=None,
            sandbox=None,
        )

    def local_options(self, agent: NamedAgent) -> SessionOptions:
        """Return the options of a new session on this machine."""
        cwd = self._base.cwd if self._base.host is None and self._base.cwd else os.getcwd()
        return msgspec.structs.replace(
            self._base, agent=agent, host=None, host_agent="", session=None, lend=None, cwd=cwd
        )


def load_known_config() -> Config:
    """Return the configuration; an invalid one is empty, because the commands report it."""
    try:
        return config.load_config(user_paths().config_file)
    except ConfigFault:
        return Config()


def agents_by_name(base: SessionOptions) -> dict[str, NamedAgent]:
    """Return the agents that can be started here: that of the command line, configured ones, those on PATH."""
    known = {**find_agents_on_path(), **load_known_config().agents}
    if base.host is None and base.agent.command:
        known = {base.agent.name: base.agent, **known}
    return known


def _host_targets(base: SessionOptions) -> list[tuple[str, HostTarget]]:
    targets: list[tuple[str, HostTarget]] = []
    if base.host is not None:
        targets.append((base.host.host_argument or base.host.display_name, base.host))
    if base.uses_user_files:
        for name in load_known_config().hosts:
            with suppress(ConfigFault, OSError):
                target = resolve_host(name)
                if all(target.base_url != known.base_url or target.token != known.token for _, known in targets):
                    targets.append((name, target))
    return targets


async def _read_local() -> Place:
    path = user_paths().sessions
    if not os.path.exists(path):
        return Place("", None, [])
    from dragoman.store.sqlite import SqliteStore

    try:
        store = await SqliteStore.open(path)
        try:
            summaries = await store.sessions()
        finally:
            await store.close()
    except (DragomanError, OSError) as error:
        return Place("", None, [], str(error))
    return Place("", None, [ListedSession(each, None) for each in summaries[:MAX_LISTED] if not each.archived])


def _read_host(name: str, host: HostTarget) -> Place:
    try:
        info = request_json_blocking(host, "GET", "/api/host", HOST_TIMEOUT)
        answer = request_json_blocking(host, "GET", "/api/sessions", HOST_TIMEOUT)
        listed = [
            ListedSession(msgspec.convert(each, Summary), host, len(each.get("members") or ()), _state_of(each))
            for each in answer["sessions"][:MAX_LISTED]
        ]
        listed.sort(key=lambda each: STATES.index(each.state))
        agents = tuple(str(each) for each in info.get("agents") or ())
    except (ConnectionFailed, ProtocolError, msgspec.ValidationError, KeyError, TypeError, AttributeError) as error:
        return Place(name, host, [], str(error) or "no answer")
    return Place(name, host, [each for each in listed if not each.summary.archived], "", agents)


def _state_of(session: dict[str, Any]) -> str:
    state = session.get("state")
    return state if state in STATES else IDLE
