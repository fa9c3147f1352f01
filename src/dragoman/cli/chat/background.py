"""What is said in a conversation though nobody asked: by an agent that works unasked, and about the others in a host.

Takes updates and lines as they come, shows them above the line on which the person writes, or above the question that
stands there; during a turn the turn shows what the agent says. Above is chat; below are screen, reader and person.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any

from dragoman import Conversation
from dragoman.cli.chat.line_editor import Interruptible, Reader
from dragoman.cli.connect.presence import Company
from dragoman.cli.ui.permission import Leave
from dragoman.cli.ui.terminal import Line, Sheet
from dragoman.cli.ui.turn_view import Screen

# An agent that speaks unasked has ended when it was silent for so long; then the line comes back. Seconds.
SILENCE = 0.3


class Interjections:
    """Shows what comes in between, in its order."""

    screen: Screen
    reader: Reader

    def __init__(self, sheet: Sheet, person: Interruptible) -> None:
        self.leave: Leave | None = None  # who asks the person
        self._sheet = sheet
        self._person = person
        self._is_playing = False
        self._unshown: deque[Any] = deque()
        self._company: Company | None = None
        self._marks: deque[bool] = deque()  # of each update that the turn is to show: whether it is said in it
        self._is_theirs = False  # what was shown last
        self._heard = asyncio.Event()

    @property
    def is_playing(self) -> bool:
        """Whether a turn runs, which shows what is said in it."""
        return self._is_playing

    @is_playing.setter
    def is_playing(self, is_playing: bool) -> None:
        self._is_playing = is_playing
        if not is_playing:
            self._heard.set()

    def enter(self, session: Conversation, screen: Screen) -> None:
        """Show what is said in this session."""
        self.screen = screen
        session.on_update = lambda update: self._overhear(session, update)
        self._unshown.extend(session.between)

    def forget(self) -> None:
        """What has come until now need not be shown."""
        self._unshown.clear()

    def mention(self, text: str, style: str) -> None:
        """Say what others do; a question that stands there stays at the end."""
        if not self._person.interject(text, style):
            self.mention_after(text, style)

    def mention_after(self, text: str, style: str) -> None:
        """The same, but not before the question that stands there has gone: somebody else has answered it."""
        if self.leave is not None and self.leave.is_asking:
            asyncio.get_running_loop().call_later(SILENCE, self.mention_after, text, style)
        elif self._is_playing:
            self._sheet.line(text, style)
        else:
            self._unshown.append(Line(text, style))
            self._heard.set()

    def _overhear(self, session: Conversation, update: Any) -> None:
        turn = session.turn
        if self._is_playing and (turn is None or not turn.is_over):
            if self._company is not None:
                self._marks.append(self._company.is_theirs)
            return  # the turn shows it
        if not self.screen.is_silent(update):
            self._unshown.append(update)
        self._heard.set()

    def mark(self, company: Company | None) -> None:
        """A prompt is sent, in this company: others may have their turns before it."""
        self._company = company
        self._marks.clear()
        self._is_theirs = False

    def is_ours_at_last(self) -> bool:
        """Whether the next update is the first of one's own turn after the turn of somebody else."""
        was_theirs, self._is_theirs = self._is_theirs, bool(self._marks) and self._marks.popleft()
        return was_theirs and not self._is_theirs

    async def tell(self) -> None:
        """Show what comes, above the line on which the person writes, until cancelled."""
        while True:
            await self._heard.wait()
            self._heard.clear()
            await self._person.undisturbed()
            if not self._is_playing and self._unshown:
                async with self.reader.aside():
                    await self._show()

    async def _show(self) -> None:
        while self._unshown:
            unshown = self._unshown.popleft()
            if isinstance(unshown, Line):
                self._lines([unshown])
                continue
            self.screen.show(unshown)
            if not self._unshown:
                self._heard.clear()
                try:
                    async with asyncio.timeout(SILENCE):
                        await self._heard.wait()
                except TimeoutError:
                    pass
        self.screen.end()
        self._sheet.gap()

    def _lines(self, lines: Iterable[Line]) -> None:
        self.screen.end()
        self._sheet.lines(lines)
