"""One prompt in front of a person: sent, shown as it is answered, cancelled by Ctrl-C.

Used by run and chat. The first Ctrl-C asks the agent to stop (session/cancel), the next one ends the program.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence

from dragoman import ClientTurn, Conversation
from dragoman.cli.ui.permission import Leave
from dragoman.cli.ui.terminal import Sheet
from dragoman.cli.ui.turn_view import Screen
from dragoman.schema.content import ContentBlock


class Interrupts:
    """What Ctrl-C means now: whatever was said last, or else the end of the program."""

    def __init__(self) -> None:
        self.action: Callable[[], None] | None = None
        self._main = asyncio.current_task()
        try:
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._hit)
        except (NotImplementedError, RuntimeError, ValueError):
            pass  # not the main thread: Ctrl-C is somebody else's

    def _hit(self) -> None:
        action, self.action = self.action, None
        if action is not None:
            action()
        elif self._main is not None:
            self._main.cancel()


async def play(
    session: Conversation,
    content: str | Sequence[ContentBlock],
    screen: Screen,
    leave: Leave,
    interrupts: Interrupts,
    aside: Sheet,
    timeout: float | None = None,
    ours: Callable[[], bool] | None = None,
) -> ClientTurn:
    """Prompt, show everything, and give the turn when it is over; raises what ended it otherwise.

    `ours` tells of each update whether it is of this turn, where others may have theirs before it.
    """
    async with session.prompt(content, timeout=timeout) as turn:

        def cancel() -> None:
            aside.disturbed()
            turn.cancel()
            if leave.is_asking:
                leave.dismiss()
            else:
                aside.line("cancelling; Ctrl-C again ends at once", "yellow")

        interrupts.action = cancel
        leave.begin(turn)
        try:
            async for update in turn:
                if leave.is_asking:
                    await leave.settled()
                if ours is None or ours():
                    screen.show(update)
        finally:
            interrupts.action = None
            leave.end()
            screen.end()
    return turn
