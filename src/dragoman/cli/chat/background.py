"""Updates that arrive while the user types: from an agent that works without a prompt, and about other members.

Shows updates and notices above the input line, or above the open question. During a turn, the turn shows the agent's
updates.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from dragoman import ClientSession
from dragoman.cli.chat.line_editor import InterruptiblePrompter, LineReader
from dragoman.cli.connect.presence import Presence
from dragoman.cli.ui.permission import PermissionUI
from dragoman.cli.ui.terminal import OutputStream, StyledLine
from dragoman.cli.ui.turn_view import TurnView

# An agent without a prompt is finished after this much silence; then the input line returns. Seconds.
QUIET_PERIOD = 0.3


class Background:
    """Shows updates outside of our own turns, in their order."""

    view: TurnView
    line_reader: LineReader

    def __init__(self, output: OutputStream, prompter: InterruptiblePrompter) -> None:
        self.permission_ui: PermissionUI | None = None  # asks the user
        self._output = output
        self._prompter = prompter
        self._is_turn_running = False
        self._pending: deque[Any] = deque()
        self._presence: Presence | None = None
        self._others_flags: deque[bool] = deque()  # per update that the turn will show: whether it is another member's
        self._was_others = False  # of the last shown update
        self._wakeup = asyncio.Event()
        self._is_idle = asyncio.Event()  # cleared while something is shown
        self._is_idle.set()

    @property
    def is_turn_running(self) -> bool:
        """Whether a turn runs, which shows its updates."""
        return self._is_turn_running

    @is_turn_running.setter
    def is_turn_running(self, is_running: bool) -> None:
        self._is_turn_running = is_running
        if not is_running:
            self._wakeup.set()

    def enter_session(self, session: ClientSession, view: TurnView) -> None:
        """Show the updates of this session."""
        self.view = view
        session.on_update = lambda update: self._on_update(session, update)
        self._pending.extend(session.updates_outside_turns)

    def discard_pending(self) -> None:
        """Discard the updates that have arrived so far."""
        self._pending.clear()

    def show_notice(self, text: str, style: str) -> None:
        """Show a notice; an open question stays at the end."""
        if not self._prompter.show_above_question(text, style):
            self.show_notice_after_question(text, style)

    def show_notice_after_question(self, text: str, style: str) -> None:
        """Show a notice once the open question is closed, because another member answered it."""
        if self.permission_ui is not None and self.permission_ui.is_asking:
            asyncio.get_running_loop().call_later(QUIET_PERIOD, self.show_notice_after_question, text, style)
        elif self._is_turn_running:
            self._output.write_prose(text, style)
        else:
            self._pending.append(StyledLine(text, style))
            self._wakeup.set()

    def _on_update(self, session: ClientSession, update: Any) -> None:
        turn = session.turn
        if self._is_turn_running and (turn is None or not turn.is_over):
            if self._presence is not None:
                self._others_flags.append(self._presence.is_others_turn)
            return  # the turn shows it
        if not self.view.is_silent(update):
            self._pending.append(update)
        self._wakeup.set()

    def begin_prompt(self, presence: Presence | None) -> None:
        """Note that a prompt is sent; turns of other members can come before it."""
        self._presence = presence
        self._others_flags.clear()
        self._was_others = False

    def take_own_turn_start(self) -> bool:
        """Return whether the next update is the first of our own turn after a turn of another member."""
        was_others, self._was_others = self._was_others, bool(self._others_flags) and self._others_flags.popleft()
        return was_others and not self._was_others

    async def run(self) -> None:
        """Show updates above the input line, until cancelled."""
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            await self._prompter.wait_until_free()
            if not self._is_turn_running and self._pending:
                self._is_idle.clear()
                try:
                    async with self.line_reader.suspend():
                        await self._show_pending()
                finally:
                    self._is_idle.set()

    async def wait_until_idle(self) -> None:
        """Wait until nothing is being shown: an input line that begins meanwhile would be overwritten."""
        await self._is_idle.wait()

    async def _show_pending(self) -> None:
        while self._pending:
            item = self._pending.popleft()
            if isinstance(item, StyledLine):
                self.view.end_turn()
                self._output.write_prose(item.text, item.style)
                continue
            self.view.show(item)
            if not self._pending:
                self._wakeup.clear()
                try:
                    async with asyncio.timeout(QUIET_PERIOD):
                        await self._wakeup.wait()
                except TimeoutError:
                    pass
        self.view.end_turn()
        self._output.ensure_blank_line()
