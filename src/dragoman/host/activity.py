"""Tell clients which sessions changed their state: a turn began or ended, a question is open, somebody came or left.

Clients subscribe with the topic `sessions` and read what changed with `GET /api/sessions/ID`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from dragoman.host.room.notifications import SESSIONS, Notification

if TYPE_CHECKING:
    from dragoman.host.host import Host
    from dragoman.host.room.room import Room

# Changes within this time are told together. Seconds.
DELAY = 0.1

# What a session is doing.
ASKING, RUNNING, IDLE = "asking", "running", "idle"


class Activity:
    """The changes of all sessions of one host that its clients are not told yet."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._changed: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def note(self, session: str) -> None:
        """Tell the clients that may see this session, soon."""
        if not any(SESSIONS in client.topics for client in self._host.clients):
            return
        self._changed.add(session)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        try:
            await asyncio.sleep(DELAY)
        finally:
            self._task = None
            changed, self._changed = self._changed, set()
        for client in list(self._host.clients):
            if SESSIONS not in client.topics:
                continue
            for session in changed:
                if await self._host.role_in(client.principal, session) is not None:
                    client.notify(Notification("_dragoman/session", params={"sessionId": session}, topic=SESSIONS))

    async def close(self) -> None:
        """Tell nothing more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def room_activity(room: Room | None, *, may_answer: bool) -> dict[str, Any]:
    """Return what the session of a room is doing, with the title of its first question for those who may answer."""
    if room is None:
        return {"state": IDLE}
    if room.questions.has_open:
        return {"state": ASKING, **({"question": room.questions.first_title} if may_answer else {})}
    if room.queue.running is not None:
        return {"state": RUNNING}
    return {"state": IDLE, **({"exited": True} if room.agent.has_crashed else {})}
