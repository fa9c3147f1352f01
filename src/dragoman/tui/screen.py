"""The parts of the window as rows: tabs, panels, transcript, question bar, waiting prompts, status."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic
from typing import TYPE_CHECKING

from dragoman.cli.chat.line_editor import usage_text
from dragoman.cli.connect import settings
from dragoman.cli.ui.rows import Piece, Row, clip_pieces, clip_text, peer_line, pieces_width, two_sides
from dragoman.cli.ui.terminal import without_question_bar
from dragoman.tui import texts
from dragoman.tui.flow.view import Position, VisibleRow, mark_words, restyle
from dragoman.tui.overlays import MAX_LIST_WIDTH, Picker
from dragoman.tui.painter import Region
from dragoman.tui.panels import STATE_SIGNS, PanelRow, framed, session_rows, tab_state, work_rows
from dragoman.tui.tab.tab import STARTING, Tab

if TYPE_CHECKING:
    from dragoman.tui.app import TuiApp

# From these widths on there is room for a panel at the left, and for one at each side. Columns.
ONE_PANEL, TWO_PANELS = 100, 140
LEFT_WIDTH, RIGHT_WIDTH = 30, 34

# From this width of the transcript on, the file pane is beside it, else below.
PANE_BESIDE = 110

# Cells that a picture may take.
MAX_IMAGE_ROWS = 20

# Columns of the title of a tab.
MAX_TAB_TITLE = 24

SPINNER = "◐◓◑◒"


class ScreenParts:
    """Draws the state of the app."""

    def __init__(self, app: TuiApp) -> None:
        self._app = app

    # --- the head -----------------------------------------------------------------------------------------------

    def head(self, width: int, height: int) -> Iterator[Region]:
        """Yield the row with the tabs."""
        app = self._app
        pieces: list[Piece] = []
        places: list[tuple[int, int]] = []  # columns of each tab
        for at, tab in enumerate(app.tabs):
            label = clip_text(tab.title, MAX_TAB_TITLE if len(app.tabs) > 1 else max(10, width // 2))
            sign, style = STATE_SIGNS.get(
                tab_state(tab), ("●", "yellow") if tab.is_unread and tab is not app.tab else ("", "")
            )
            is_active = tab is app.tab
            number = f" {at + 1} " if len(app.tabs) > 1 else " "
            begin = pieces_width(pieces)
            pieces += [
                (number, "tab-active" if is_active else "title-dim"),
                (f"{sign} " if sign else "", f"{style} {'tab-active' if is_active else 'title'}"),
                (f"{label} ", "tab-active" if is_active else "title-dim"),
            ]
            places.append((begin, pieces_width(pieces)))
        right = [(f" {self._place_text(app.tab)} ", "title-dim")] if app.tab is not None else []
        row = Row(two_sides(pieces, right, width, "title"), "title")

        def on_mouse(_: int, column: int, event: object) -> object:
            return app.on_tab_click(next((at for at, (a, b) in enumerate(places) if a <= column < b), None), event)

        yield Region(0, 0, width, [row], on_mouse)

    def _place_text(self, tab: Tab) -> str:
        host = tab.options.host
        presence = tab.opened.presence if tab.opened is not None else None
        initials = " ".join(
            peer_line(str(member.get("user", "?")))[:1].upper() + ("…" if member.get("state") == "typing" else "")
            for member in (presence.members if presence is not None else [])[:6]
        )
        where = f"{peer_line(host.display_name)}  " if host is not None else ""
        return f"{where}{tab.folder}{f'  {initials}' if initials else ''}"

    # --- the body -----------------------------------------------------------------------------------------------

    def body(self, width: int, height: int) -> Iterator[Region]:
        """Yield panels, transcript and what covers it."""
        app, left, right = self._app, 0, 0
        if app.shows_panels and width >= ONE_PANEL:
            left, right = LEFT_WIDTH, RIGHT_WIDTH if width >= TWO_PANELS else 0
        if left:
            yield self._left_panel(left, height, has_right=bool(right))
        if right and app.tab is not None:
            yield Region(width - right, 0, right, framed(work_rows(app.tab, right - 2), right, height, at_left=False))
        yield from self._transcript(left, width - left - right, height, has_panel=bool(left))
        if app.overlay is not None:
            yield self._overlay(left, width - left - right, height)

    def _left_panel(self, width: int, height: int, *, has_right: bool) -> Region:
        app = self._app
        rows: list[PanelRow] = []
        work = [] if has_right or app.tab is None else work_rows(app.tab, width - 2)
        room = max(6, height - len(work) - 1)
        rows += session_rows(app.session_list.places, app.tabs, width - 2, room)[:room]
        if work:
            rows += [PanelRow(Row()), *(PanelRow(row) for row in work)]

        def on_mouse(at: int, _: int, event: object) -> object:
            return app.on_panel_click(rows[at].session if at < len(rows) else None, event)

        return Region(0, 0, width, framed([each.row for each in rows], width, height, at_left=True), on_mouse)

    def _transcript(self, x: int, width: int, height: int, *, has_panel: bool) -> Iterator[Region]:
        app, tab = self._app, self._app.tab
        if tab is None:
            return
        pane = app.file_pane
        flow_width, flow_height = width, height
        if pane is not None and width >= PANE_BESIDE:
            flow_width = width // 2
            rows = pane.rows(width - flow_width, height, tab.folder_path)
            yield Region(x + flow_width, 0, width - flow_width, rows, style="panel")
        elif pane is not None and height >= 12:
            flow_height = height // 2
            rows = pane.rows(width, height - flow_height, tab.folder_path)
            yield Region(x, flow_height, width, rows, style="panel")
        view = tab.view
        images = (60, min(MAX_IMAGE_ROWS, max(4, flow_height - 4))) if app.images.is_inline else (0, 0)
        view.options = view.options._replace(
            width=max(20, flow_width - 2), is_split=app.is_split, has_side_panel=has_panel, image_cells=images
        )
        view.height = flow_height
        visible = view.visible()
        rows = [self._transcript_row(each, tab) for each in visible]
        if not rows:
            rows = [Row(), Row([(tab.progress or (texts.STARTING if tab.state == STARTING else texts.EMPTY), "dim")])]
        rows += [Row()] * (flow_height - len(rows))
        app.note_visible(visible)
        yield Region(x + 1, 0, flow_width - 1, rows[:flow_height], app.on_transcript_mouse)
        if not view.follows:
            note = " ↓ End: newest "
            yield Region(x + max(0, flow_width - len(note) - 1), flow_height - 1, len(note), [Row([(note, "key")])])

    def _transcript_row(self, each: VisibleRow, tab: Tab) -> Row:
        app, row = self._app, each.row
        if app.find_words and each.at >= 0:
            here = each.block == tab.view.selected
            row = mark_words(row, app.find_words, "found-here" if here else "found")
        if app.marks is not None:
            return self._marked_row(each, row, *app.marks)
        if app.is_browsing and each.block == tab.view.selected and each.at >= 0:
            row = Row(row.pieces, "cursor-row")
        return row

    def _marked_row(self, each: VisibleRow, row: Row, anchor: Position | None, cursor: Position) -> Row:
        at = (each.block, each.at)
        if anchor is not None:
            begin, end = min(anchor, cursor), max(anchor, cursor)
            if begin[:2] <= at <= end[:2]:
                first = begin.column if at == begin[:2] else 0
                last = end.column + 1 if at == end[:2] else max(1, len(row.text))
                row = restyle(row if row.pieces else Row([(" ", "")]), first, last, "selected")
        if at == cursor[:2]:
            text = row.text
            padded = (
                row if cursor.column < len(text) else Row([*row.pieces, (" " * (cursor.column + 1 - len(text)), "")])
            )
            row = restyle(padded, cursor.column, cursor.column + 1, "reverse")
        return row

    def _overlay(self, x: int, width: int, height: int) -> Region:
        overlay = self._app.overlay
        assert overlay is not None
        if isinstance(overlay, Picker):
            wide = min(MAX_LIST_WIDTH, width - 2)
            rows = overlay.rows(wide, min(height, 30))
            return Region(
                x + (width - wide) // 2, max(0, (height - len(rows)) // 4), wide, rows, self._app.on_overlay_mouse
            )
        rows = overlay.rows(width, height)
        return Region(x, 0, width, rows, self._app.on_overlay_mouse)

    # --- below --------------------------------------------------------------------------------------------------

    def question_height(self, width: int, available: int) -> int:
        """Return the rows that the question bar takes."""
        return len(self._question_rows(width, available))

    def _question_rows(self, width: int, available: int) -> list[Row]:
        tab = self._app.tab
        question = tab.prompter.current if tab is not None else None
        if tab is None or question is None or self._app.overlay is not None:
            return []
        limit = max(4, available * 3 // 5)
        rows = question.rows(
            width - 1, limit, is_focused=self._app.is_question_focused, number=(1, len(tab.prompter.questions))
        )
        return rows[: max(3, available - 6)]

    def question(self, width: int, height: int) -> Iterator[Region]:
        """Yield the question bar."""
        rows = self._question_rows(width, self._app.window_rows)
        if rows and self._app.tab is not None and (question := self._app.tab.prompter.current) is not None:
            self._app.note_question_drawn(question)
        yield Region(0, 0, width, rows[:height], self._app.on_question_mouse)

    def waiting_height(self, width: int, available: int) -> int:
        """Return the rows for prompts that wait."""
        return len(self._waiting_rows(width))

    def _waiting_rows(self, width: int) -> list[Row]:
        tab = self._app.tab
        if tab is None:
            return []
        presence = tab.opened.presence if tab.opened is not None else None
        prompts = [("", text) for text in tab.waiting]
        if presence is not None:
            queued = presence.queued_prompts
            prompts = [(str(each.get("user", "")), str(each.get("preview", ""))) for each in queued] + prompts
        if not prompts or (tab.state == STARTING and not tab.waiting):
            return []
        user, text = prompts[0]
        who = f"{peer_line(user)}: " if user else ""
        one_line = without_question_bar(peer_line(" ".join(text.split())))
        row: list[Piece] = [(f" {texts.waiting(len(prompts))}  ", "dim"), (who, "bold"), (one_line, "")]
        return [Row(clip_pieces(row, width))]

    def waiting(self, width: int, height: int) -> Iterator[Region]:
        """Yield the row about prompts that wait."""
        yield Region(0, 0, width, self._waiting_rows(width))

    def rule(self, width: int, height: int) -> Iterator[Region]:
        """Yield the line above the prompt."""
        yield Region(0, 0, width, [Row([("─" * width, "faint")])])

    def status(self, width: int, height: int) -> Iterator[Region]:
        """Yield the status line."""
        app, tab = self._app, self._app.tab
        left: list[Piece] = [(" ", "")]
        is_message = True
        if app.hint:
            left.append((clip_text(app.hint, width - 2), "yellow"))
        elif app.is_finding:
            left += [("find: ", "dim"), (app.find_words, ""), ("▏", "cyan"), ("  Enter, n, N", "dim")]
        elif tab is not None and tab.start_failure:
            left.append((clip_text(f"{tab.agent_name} {texts.NOT_STARTED}: {tab.start_failure}", width - 2), "yellow"))
        elif tab is not None:
            left.append((" · ".join(self._facts(tab)), "dim"))
            is_message = tab.opened is None  # what takes long now
        right = self._status_end(tab)
        while is_message and right and pieces_width(left) + pieces_width(right) >= width:
            del right[0]  # the keys give way first, then the state
        yield Region(0, 0, width, [Row(two_sides(left, right, width))])

    def _facts(self, tab: Tab) -> list[str]:
        if tab.opened is None:
            return [tab.agent_name, tab.progress or texts.STARTING]
        session = tab.session
        model = settings.model_option(session)
        mode = next((name for id, name in settings.available_modes(session) if id == session.mode), session.mode)
        policy = tab.opened.permission_ui.guard.mode(session.id)
        facts = [
            tab.agent_name,
            settings.current_value_text(model) if model is not None else "",
            mode or "",
            f"policy: {policy}" if policy != "default" else "",
            usage_text(session),
        ]
        return [peer_line(fact) for fact in facts if fact]

    def _status_end(self, tab: Tab | None) -> list[Piece]:
        keys = [text for key, text in texts.STATUS_KEYS.items() if key in self._app.status_keys]
        state: list[Piece] = [("● live ", "live")]
        if tab is not None and tab.is_running:
            seconds = monotonic() - (tab.turn_started or monotonic())
            sign = "●" if tab.is_asking else SPINNER[int(monotonic() * 4) % len(SPINNER)]
            text = f"{sign} {texts.format_seconds(int(seconds)).replace('.0', '')} "
            state = [(text, "yellow" if tab.is_asking else "cyan")]
        elif tab is not None and tab.state != "ready":
            state = [(f"○ {texts.NOT_STARTED if tab.start_failure else tab.state} ", "yellow")]
        return [("  ".join(keys) + "  ", "dim"), *state]
