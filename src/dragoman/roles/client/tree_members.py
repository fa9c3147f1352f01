"""The sessions of one agent as members of the trees that they use: leases for their writes, and notices of changes
from outside.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from dragoman.errors import ConnectionFailed, ProtocolError
from dragoman.schema.update import NoticeSeverity
from dragoman.store.contract import EntryKind

if TYPE_CHECKING:
    from dragoman.roles.client.session import ClientSession
    from dragoman.roles.client.workspace import AgentWorkspace
    from dragoman.workspace.coordination import FileCoordinator, MemberFiles
    from dragoman.workspace.terminal import Terminal
    from dragoman.workspace.tree_member import Change, TreeMember

# How often the files of a running turn are looked at for changes from outside, where several sessions use a tree.
# Seconds.
LOOK_INTERVAL = 0.5

# The actor of a change from outside in the log.
OUTSIDE_ACTOR = "outside"


class TreeMembers:
    """The sessions of one agent, each a member of its tree from its first use of the workspace on."""

    def __init__(self, workspace: AgentWorkspace) -> None:
        self._workspace = workspace
        self._trackers: dict[str, MemberFiles] = {}
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._commands: set[asyncio.Task[None]] = set()
        self._indexes: dict[object, tuple[TreeMember, list[str]]] = {}  # that running commands change

    @property
    def _coordinator(self) -> FileCoordinator:
        if self._workspace.access.coordinator is None:
            from dragoman.workspace.coordination import PROCESS_COORDINATOR

            self._workspace.access.coordinator = PROCESS_COORDINATOR
        return self._workspace.access.coordinator

    def find(self, session_id: str) -> TreeMember | None:
        """Return a session that has used its workspace."""
        tracker = self._trackers.get(session_id)
        return None if tracker is None else tracker.member

    def tracker(self, session_id: str, roots: Sequence[str]) -> MemberFiles | None:
        """Return what follows the files of a session; None if the workspace is not coordinated."""
        if not self._workspace.access.coordinates:
            return None
        known = self._trackers.get(session_id)
        if known is not None and known.member.roots == tuple(roots):
            return known
        if known is not None:  # folders and policy can change
            self._coordinator.leave(known.member)
            known.member.roots = tuple(roots)
            self._coordinator.join(known.member)
            return known
        return self._add(session_id, roots)

    def _add(self, session_id: str, roots: Sequence[str]) -> MemberFiles:
        from dragoman.workspace.coordination import MemberFiles
        from dragoman.workspace.tree_member import TreeMember

        session, loop = self._workspace.find_session(session_id), asyncio.get_running_loop()

        def start_watch() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._start_watch, session_id)

        member = TreeMember(
            lambda: self._workspace.agent_name,
            roots,
            activity=lambda: turn_activity(session),
            on_shared=start_watch,
        )
        tracker = self._trackers[session_id] = MemberFiles(self._coordinator, member)
        if session is not None:
            session.on_turn_over.append(lambda: self._coordinator.release(member))
        self._coordinator.join(member)
        self._workspace.access.on_member(session_id, member)
        return tracker

    @asynccontextmanager
    async def writing(self, session_id: str, paths: Sequence[str]) -> AsyncIterator[None]:
        """Hold the leases of these files: until the end of the turn, or of the block if no turn runs."""
        tracker = self._trackers.get(session_id)
        if tracker is None:
            yield
            return
        member = tracker.member
        await self._coordinator.lease(member, paths)
        try:
            yield
        finally:
            if member.activity is None:
                self._coordinator.release(member, paths)

    # --- commands and changes from outside --------------------------------------------------------------------

    @asynccontextmanager
    async def starting_command(
        self, session_id: str, roots: Sequence[str], line: str = "", folder: str = ""
    ) -> AsyncIterator[Callable[[Terminal], None]]:
        """Start a command in the block, and pass its terminal to what the block gets: it may write until it ends.

        A command that changes the index of a git repository waits for one of another session, or is refused.
        """
        tracker, key = self.tracker(session_id, roots), object()
        if tracker is None:
            yield lambda terminal: None
            return
        member, started = tracker.member, []
        await self._lease_indexes(member, key, line, folder)
        await self._coordinator.begin_command(member, key)

        def follow(terminal: Terminal) -> None:
            started.append(terminal)
            task = asyncio.get_running_loop().create_task(self._end_command(member, key, terminal))
            self._commands.add(task)
            task.add_done_callback(self._commands.discard)

        try:
            yield follow
        finally:
            if not started:
                self._release_indexes(key)
                member.end_command(key, self._coordinator.now())

    async def _lease_indexes(self, member: TreeMember, key: object, line: str, folder: str) -> None:
        from dragoman.workspace.git_index import changed_indexes

        indexes = changed_indexes(line, folder)
        if indexes:
            await self._coordinator.lease(member, indexes)
            self._indexes[key] = member, indexes

    def _release_indexes(self, key: object) -> None:
        member, indexes = self._indexes.pop(key, (None, []))
        if member is not None:
            kept = {path for other, paths in self._indexes.values() if other is member for path in paths}
            self._coordinator.release(member, [path for path in indexes if path not in kept])

    async def _end_command(self, member: TreeMember, key: object, terminal: Terminal) -> None:
        await terminal.wait()
        self._release_indexes(key)
        if member.is_shared:  # attribute what it changed, while it is the only suspect
            await asyncio.to_thread(self._coordinator.settle_command, member)
        member.end_command(key, self._coordinator.now())

    def _start_watch(self, session_id: str) -> None:
        if session_id in self._trackers and session_id not in self._watches:
            watch = self._watch(session_id, self._trackers[session_id].member)
            self._watches[session_id] = asyncio.get_running_loop().create_task(watch)

    async def _watch(self, session_id: str, member: TreeMember) -> None:
        """Tell the session about changes from outside to the files that it has read, while its turn runs."""
        while True:
            await asyncio.sleep(LOOK_INTERVAL)
            if member.activity is not None:
                for change in await asyncio.to_thread(self._coordinator.find_outside_changes, member):
                    await self._tell(session_id, change)

    async def _tell(self, session_id: str, change: Change) -> None:
        session = self._workspace.find_session(session_id)
        if session is not None:
            body = {"method": "changed", "path": change.path, "by": change.by}
            session.log.append(EntryKind.FILE, body, actor=OUTSIDE_ACTOR)
        notice: dict[str, Any] = {
            "sessionUpdate": "notice",
            "severity": NoticeSeverity.WARNING,
            "title": f"{change.path} was changed by {change.by}",
            "description": f"{self._workspace.agent_name or 'The agent'} has read an older version of it.",
        }
        with suppress(ProtocolError, ConnectionFailed):
            work = self._workspace.send_update(session_id, notice)
            if work is not None:
                await work

    # --- the end ----------------------------------------------------------------------------------------------

    def end_session(self, session_id: str) -> None:
        """Release the leases of a session, and forget it."""
        watch = self._watches.pop(session_id, None)
        if watch is not None:
            watch.cancel()
        tracker = self._trackers.pop(session_id, None)
        if tracker is not None:
            self._coordinator.leave(tracker.member)

    def close(self) -> None:
        """Forget all sessions."""
        for session_id in list(self._trackers):
            self.end_session(session_id)
        for task in self._commands:
            task.cancel()


def turn_activity(session: ClientSession | None) -> int | None:
    """Return the number of updates of the running turn; None if no turn runs."""
    turn = None if session is None else session.turn
    return None if turn is None or turn.is_over else turn.activity
