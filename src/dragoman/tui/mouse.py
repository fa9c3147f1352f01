"""What the mouse does: the wheel scrolls, a click selects and opens, dragging marks text and copies it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prompt_toolkit.mouse_events import MouseButton, MouseEvent, MouseEventType

from dragoman.tui.flow.view import Position
from dragoman.tui.keys import BROWSE, COPY
from dragoman.tui.overlays import Page, Picker
from dragoman.tui.session_list import ListedSession

if TYPE_CHECKING:
    from dragoman.tui.app import TuiApp

# Rows of one step of the wheel.
WHEEL_ROWS = 3

_WHEEL = {MouseEventType.SCROLL_UP: -WHEEL_ROWS, MouseEventType.SCROLL_DOWN: WHEEL_ROWS}


class MouseActions:
    """The mouse in one window."""

    def __init__(self, app: TuiApp) -> None:
        self._app = app
        self._pressed: Position | None = None

    def on_tab(self, at: int | None, event: Any) -> Any:
        """Show the tab that was clicked."""
        if event.event_type != MouseEventType.MOUSE_UP or at is None:
            return NotImplemented
        self._app.show_tab(at)
        return None

    def on_panel(self, listed: ListedSession | None, event: Any) -> Any:
        """Open the session that was clicked."""
        if event.event_type != MouseEventType.MOUSE_UP or listed is None:
            return NotImplemented
        self._app.open_listed(listed)
        return None

    def on_overlay(self, row: int, column: int, event: MouseEvent) -> Any:
        """Scroll a page, or move in a list."""
        overlay, rows = self._app.overlay, _WHEEL.get(event.event_type)
        if rows is None:
            return NotImplemented
        if isinstance(overlay, Page):
            overlay.scroll(rows)
        elif isinstance(overlay, Picker):
            overlay.move(1 if rows > 0 else -1)
        self._app.request_frame()
        return None

    def on_question(self, row: int, column: int, event: MouseEvent) -> Any:
        """Scroll a long question."""
        rows = _WHEEL.get(event.event_type)
        question = self._app.tab.prompter.current if self._app.tab is not None else None
        if rows is None or question is None:
            return NotImplemented
        question.scroll += rows
        self._app.request_frame()
        return None

    def on_transcript(self, row: int, column: int, event: MouseEvent) -> Any:
        """Scroll, select, open, mark."""
        app = self._app
        rows = _WHEEL.get(event.event_type)
        if rows is not None:
            app.shown_tab.view.scroll(rows)
        elif event.event_type == MouseEventType.MOUSE_DOWN:
            self._pressed = self._position(row, column)
        elif event.event_type == MouseEventType.MOUSE_MOVE:
            if event.button != MouseButton.LEFT or self._pressed is None:
                return NotImplemented
            cursor = self._position(row, column)
            if cursor is not None and cursor != self._pressed:
                app.base_mode, app.marks = COPY, (self._pressed, cursor)
        elif event.event_type == MouseEventType.MOUSE_UP:
            self._release()
        app.request_frame()
        return None

    def _position(self, row: int, column: int) -> Position | None:
        visible = self._app.visible
        if row >= len(visible) or visible[row].at < 0:
            return None
        return Position(visible[row].block, visible[row].at, max(0, column))

    def _release(self) -> None:
        app, pressed = self._app, self._pressed
        self._pressed = None
        if app.base_mode == COPY and app.marks is not None and app.marks[0] is not None:
            app.actions.transcript.copy_marked()
            app.actions.write()
        elif pressed is not None:
            view = app.shown_tab.view
            was_here = app.base_mode == BROWSE and view.selected == pressed.block
            app.base_mode, view.selected = BROWSE, pressed.block
            if was_here:
                app.actions.transcript.toggle_block()
