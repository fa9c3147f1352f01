"""Actions on the transcript: scroll, browse, open, find, copy, follow the agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.tui import texts
from dragoman.tui.flow.block import Block
from dragoman.tui.flow.card import ToolCard, output_rows
from dragoman.tui.flow.parts import PictureBlock
from dragoman.tui.flow.view import FlowView, Position
from dragoman.tui.follow import FilePane
from dragoman.tui.keys import BROWSE, COPY, WRITE
from dragoman.tui.overlays import Page
from dragoman.tui.programs import open_file, open_text, show_picture

if TYPE_CHECKING:
    from dragoman.tui.app import TuiApp


class TranscriptActions:
    """The actions on the transcript of the tab that is shown."""

    def __init__(self, app: TuiApp) -> None:
        self._app = app

    @property
    def _view(self) -> FlowView:
        return self._app.shown_tab.view

    @property
    def _block(self) -> Block | None:
        return self._view.selected_block

    # --- position -----------------------------------------------------------------------------------------------

    def page_up(self) -> None:
        """Scroll up by a page."""
        self._view.scroll(2 - self._view.height)

    def page_down(self) -> None:
        """Scroll down by a page."""
        self._view.scroll(self._view.height - 2)

    def line_up(self) -> None:
        """Scroll up by a row."""
        self._view.scroll(-1)

    def line_down(self) -> None:
        """Scroll down by a row."""
        self._view.scroll(1)

    def go_to_end(self) -> None:
        """Show the end."""
        self._view.follow()

    def go_to_start(self) -> None:
        """Show the beginning of what is loaded."""
        self._view.go_to_start()

    # --- browsing -----------------------------------------------------------------------------------------------

    def browse(self) -> None:
        """Let the keys act on the transcript."""
        self._app.base_mode = BROWSE
        self._view.select(-1)

    def write(self) -> None:
        """Go back to the prompt."""
        app = self._app
        app.base_mode, app.marks, app.find_words = WRITE, None, ""
        if app.tab is not None:
            app.tab.view.selected = None

    def select_back(self) -> None:
        """Select the part before."""
        self._view.select(-1)

    def select_forward(self) -> None:
        """Select the next part."""
        self._view.select(1)

    def toggle_block(self) -> None:
        """Show all of a part, or only its beginning."""
        if (block := self._block) is not None:
            block.is_open = not block.is_open

    def toggle_split(self) -> None:
        """Show diffs side by side, or one below the other."""
        self._app.is_split = {None: False, False: True, True: None}[self._app.is_split]

    def show_terminal(self) -> None:
        """Show the output of a command in a pane, or a picture alone."""
        app, block = self._app, self._block
        content = block.content if block is not None else None
        if isinstance(content, PictureBlock):
            app.run_in_background(show_picture(app, content.picture))
        elif isinstance(content, ToolCard) and content.terminal_text is not None:
            card = content
            app.overlay = Page(
                card.call.title or card.call.name,
                lambda width: output_rows(card.terminal_text or "", width),
                version=lambda: len(card.terminal_text or ""),
                follows=True,
                copy_text=card.copy_text,
            )
        else:
            app.show_hint(texts.NO_TERMINAL)

    def open_in_editor(self) -> None:
        """Open the file of a tool call at its line, or the text of a message, in the editor."""
        app, block = self._app, self._block
        if block is None:
            return
        place = block.content.place if isinstance(block.content, ToolCard) else None
        work = open_file(app, *place) if place is not None else open_text(app, block.content.copy_text())
        app.run_in_background(work)

    def show_file(self) -> None:
        """Show the file of a tool call in a pane; the same key closes it."""
        app, block = self._app, self._block
        place = block.content.place if block is not None and isinstance(block.content, ToolCard) else None
        if app.file_pane is not None and (place is None or app.file_pane.path == place[0]):
            app.file_pane = None
        elif place is not None:
            app.file_pane = FilePane(*place)
        else:
            app.show_hint(texts.NO_LOCATION)

    def toggle_follow(self) -> None:
        """Show the file where the agent works, or stop to do so."""
        app = self._app
        app.follows_agent = not app.follows_agent
        location = app.tab.location if app.tab is not None else None
        app.file_pane = None
        if app.follows_agent and location is not None:
            app.file_pane = FilePane(location.path, location.line or 1)
        app.show_hint(texts.FOLLOWING if app.follows_agent else texts.NOT_FOLLOWING)

    # --- finding ------------------------------------------------------------------------------------------------

    def start_find(self) -> None:
        """Ask for words to find."""
        app = self._app
        app.is_finding, app.find_words = True, ""
        if app.base_mode == WRITE:
            app.base_mode = BROWSE

    def find_type(self, text: str) -> None:
        """Find what is typed, from the end."""
        if text.isprintable():
            self._app.find_words += text
            self._find_again()

    def find_backspace(self) -> None:
        """Remove the last letter."""
        self._app.find_words = self._app.find_words[:-1]
        self._find_again()

    def _find_again(self) -> None:
        self._view.selected = None
        self._find(-1)

    def _find(self, step: int) -> None:
        if self._app.find_words and not self._view.find(self._app.find_words, step):
            self._app.show_hint(f"{texts.NOT_FOUND}: {self._app.find_words}")

    def finish_find(self) -> None:
        """Keep the words; n and N go on."""
        self._app.is_finding = False

    def cancel_find(self) -> None:
        """Forget the words."""
        self._app.is_finding = False
        self.write()

    def find_next(self) -> None:
        """Go to the place before, which is older."""
        self._find(-1)

    def find_previous(self) -> None:
        """Go to the place after."""
        self._find(1)

    # --- copying ------------------------------------------------------------------------------------------------

    def _copy(self, text: str) -> None:
        if text.strip():
            self._app.copy(text)
            self._app.show_hint(texts.COPIED)
        else:
            self._app.show_hint(texts.NOTHING_TO_COPY)

    def copy_block(self) -> None:
        """Copy a part as it came: Markdown, the output of a command, the new text of a file."""
        if (block := self._block) is not None:
            self._copy(block.content.copy_text())

    def copy_answer(self) -> None:
        """Copy the last message of the agent."""
        blocks = self._view.flow.blocks
        messages = (block.content for block in reversed(blocks) if block.content.kind == "message")
        content = next(messages, None)
        self._copy(content.copy_text() if content is not None else "")

    def start_copy(self) -> None:
        """Begin copy mode at the selected part."""
        app = self._app
        rows = [each for each in app.visible if each.at >= 0]
        at = next((each for each in rows if each.block == self._view.selected), rows[-1] if rows else None)
        if at is not None:
            app.base_mode, app.marks = COPY, (None, Position(at.block, at.at, 0))
            app.show_hint(texts.COPY_HINT)

    def end_copy(self) -> None:
        """Leave copy mode."""
        self._app.base_mode, self._app.marks = BROWSE, None

    def mark_begin(self) -> None:
        """Begin to mark at the cursor, or stop."""
        app = self._app
        if app.marks is not None:
            anchor, cursor = app.marks
            app.marks = (cursor if anchor is None else None, cursor)

    def copy_marked(self) -> None:
        """Copy what is marked; without marks, the line of the cursor."""
        app = self._app
        if app.marks is not None:
            anchor, cursor = app.marks
            end = cursor if anchor is not None else cursor._replace(column=10**6)
            self._copy(self._view.marked_text(anchor or cursor._replace(column=0), end))
            self.end_copy()

    def _move_mark(self, rows: int, columns: int) -> None:
        app = self._app
        if app.marks is None:
            return
        anchor, cursor = app.marks
        places = [each for each in app.visible if each.at >= 0]
        index = next((n for n, each in enumerate(places) if (each.block, each.at) == cursor[:2]), None)
        if index is None:
            return
        if not 0 <= index + rows < len(places):
            self._view.scroll(rows)
            places = [each for each in self._view.visible() if each.at >= 0]
            index = next((n for n, each in enumerate(places) if (each.block, each.at) == cursor[:2]), None)
            if index is None:
                return
        target = places[max(0, min(index + rows, len(places) - 1))]
        width = max(0, len(target.row.text) - 1)
        column = max(0, min(cursor.column + columns, width)) if columns else min(cursor.column, width)
        app.marks = (anchor, Position(target.block, target.at, column))

    def mark_up(self) -> None:
        """Move up."""
        self._move_mark(-1, 0)

    def mark_down(self) -> None:
        """Move down."""
        self._move_mark(1, 0)

    def mark_left(self) -> None:
        """Move left."""
        self._move_mark(0, -1)

    def mark_right(self) -> None:
        """Move right."""
        self._move_mark(0, 1)

    def mark_line_start(self) -> None:
        """Move to the first column."""
        self._move_mark(0, -(10**6))

    def mark_line_end(self) -> None:
        """Move to the last column."""
        self._move_mark(0, 10**6)
