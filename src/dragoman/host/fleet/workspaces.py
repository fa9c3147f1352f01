"""The folders of sessions that are not bound to one node: made for a room, and saved after each turn."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.errors import Kind, ProtocolError
from dragoman.host.fleet import places
from dragoman.host.fleet.git_workspaces import GitWorkspaces, restored_text
from dragoman.store.contract import EntryKind
from dragoman.workspace.git import GitFailed

if TYPE_CHECKING:
    from dragoman.host.fleet.fleet import Fleet
    from dragoman.host.room.room import Room

# How long a checkpoint may take: a push to a slow server. The answer to the prompt waits for it. Seconds.
CHECKPOINT_TIMEOUT = 60.0


class Workspaces:
    """The workspaces of the sessions of one node."""

    def __init__(self, fleet: Fleet, folder: str, *, has_checkpoints: bool) -> None:
        self._fleet = fleet
        self._git = GitWorkspaces(folder, has_checkpoints=has_checkpoints) if folder else None
        self._faults: dict[str, str] = {}  # by session: what members were told of its last checkpoint

    def check_wanted(self, text: str) -> str:
        """Return the place that a client asks for; raise if no session can be opened there on this node."""
        place = places.parse_place(text)
        info = self._fleet.describe()
        if place.kind != places.GIT:
            message = f"{text}: only git:URL#BRANCH is chosen; other places follow from the folder and the agent"
            raise ProtocolError(Kind.INVALID_PARAMS, message)
        if not places.may_clone(places.git_source(place).url, info.labels):
            message = f"node {info.node} may not clone {places.git_source(place).url}; start it with --labels git:URL"
            raise ProtocolError(Kind.PERMISSION_DENIED, message, {"place": text})
        return text

    async def folders_of(self, room: Room) -> dict[str, str] | None:
        """Return the folder of a session that this node makes; None if the session names its folders itself."""
        place = places.parse_place(room.place) if room.place else places.place_of(room.state)
        if place.kind != places.GIT:
            return None
        if self._git is None:
            raise ProtocolError(Kind.INVALID_STATE, "this node has no folder for repositories; set host.workspaces")
        is_current = room.state.node == self._fleet.node
        restored = await self._git.prepare(room.id, places.git_source(place), is_current=is_current)
        if restored.source != "kept" and room.state.seq:
            text = restored_text(restored, self._fleet.node, room.state.left_out)
            room.report(text)
            body = {"restored": {**msgspec.to_builtins(restored), "message": text, "leftOut": room.state.left_out}}
            await room.log.append_and_wait(EntryKind.MEMBER, body, actor="dragoman")
        return {restored.path: restored.path}

    async def checkpoint(self, room: Room) -> None:
        """Save the folder of a session after a turn. A failure is told to the members, and is not one of the turn."""
        if not room.state.place.startswith(f"{places.GIT}:") or self._git is None or not self._git.has_checkpoints:
            return
        source = places.git_source(places.place_of(room.state))
        epoch = room.log.claim.epoch if room.log.claim is not None else 0
        try:
            async with asyncio.timeout(CHECKPOINT_TIMEOUT):
                saved = await self._git.checkpoint(room.id, source, epoch)
        except (GitFailed, TimeoutError, OSError) as error:
            reason = error.message if isinstance(error, GitFailed) else str(error) or "git did not end in time"
            await self._note_fault(room, f"its working tree could not be saved: {reason}")
            return
        self._faults.pop(room.id, None)
        if saved is not None:
            more = [f"{saved.more_left_out} more"] if saved.more_left_out else []
            body: dict[str, Any] = {"commit": saved.commit, "ref": saved.ref, "leftOut": [*saved.left_out, *more]}
            # A node that was fenced must not answer the prompt: the new owner started from an earlier checkpoint.
            await room.log.append_and_wait(EntryKind.MEMBER, {"checkpoint": body}, actor="dragoman")

    async def remove(self, room: Room) -> None:
        """Delete what a session has here, and its checkpoints."""
        if self._git is not None and room.state.place.startswith(f"{places.GIT}:"):
            await self._git.remove(room.id, places.git_source(places.place_of(room.state)))

    async def _note_fault(self, room: Room, text: str) -> None:
        room.report(text)
        if self._faults.get(room.id) != text:
            self._faults[room.id] = text
            body = {"checkpoint": {"failed": text}}
            await room.log.append_and_wait(EntryKind.MEMBER, body, actor="dragoman")
