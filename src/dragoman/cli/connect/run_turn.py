"""Run one prompt: send it, show the updates, cancel on Ctrl-C.

The first Ctrl-C asks the agent to stop (session/cancel), the second one ends the program.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence

from dragoman import ClientSession, ClientTurn
from dragoman.cli.connect.local import OpenSession
from dragoman.cli.ui.turn_view import TurnView
from dragoman.schema.content import ContentBlock


class Interrupts:
    """The action of Ctrl-C: the one that was set last, or else the end of the program."""

    def __init__(self) -> None:
        self.on_interrupt: Callable[[], None] | None = None
        self._main_task = asyncio.current_task()
        try:
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._on_sigint)
        except (NotImplementedError, RuntimeError, ValueError):
            pass  # not the main thread: another thread handles Ctrl-C

    def _on_sigint(self) -> None:
        action, self.on_interrupt = self.on_interrupt, None
        if action is not None:
            action()
        elif self._main_task is not None:
            self._main_task.cancel()


async def run_turn(
    opened: OpenSession,
    content: str | Sequence[ContentBlock],
    view: TurnView,
    interrupts: Interrupts,
    *,
    session: ClientSession | None = None,
    timeout: float | None = None,
    is_own_update: Callable[[], bool] | None = None,
) -> ClientTurn:
    """Prompt, show all updates, and return the finished turn; raises what ended it otherwise.

    `session` is another session of the same agent. `is_own_update` says whether the next update belongs to this turn,
    where other members have turns.
    """
    permission_ui, diagnostics = opened.permission_ui, opened.diagnostics
    is_own_update = is_own_update or opened.is_own_update
    async with (session or opened.session).prompt(content, timeout=timeout) as turn:

        def cancel() -> None:
            diagnostics.note_terminal_echo()
            turn.cancel()
            if permission_ui.is_asking:
                permission_ui.close_question()
            else:
                diagnostics.write_line("cancelling; press Ctrl-C again to end at once", "yellow")

        interrupts.on_interrupt = cancel
        permission_ui.begin_turn(turn)
        try:
            async for update in turn:
                if permission_ui.is_asking:
                    await permission_ui.wait_until_answered()
                if is_own_update is None or is_own_update():
                    view.show(update)
        finally:
            interrupts.on_interrupt = None
            permission_ui.end_turn()
            view.end_turn()
    return turn
