"""The layout of the window: where the parts of the screen and the prompt are, as an application of prompt_toolkit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prompt_toolkit.application import Application
from prompt_toolkit.filters import Condition
from prompt_toolkit.layout import ConditionalContainer, Container, Float, FloatContainer, HSplit, Layout, VSplit, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.menus import CompletionsMenu

from dragoman.cli.ui.terminal import QUESTION_BAR
from dragoman.tui import texts
from dragoman.tui.composer import MAX_ROWS
from dragoman.tui.keys import COPY, TEXT, WRITE, create_bindings
from dragoman.tui.painter import Painter
from dragoman.tui.screen import ScreenParts
from dragoman.tui.themes import color_depth, create_style

if TYPE_CHECKING:
    from dragoman.tui.app import TuiApp

# A lone Esc is known as such after this time: longer than the bytes of one key take to arrive. Seconds.
ESCAPE_TIMEOUT = 0.08


class WindowLayout:
    """The containers of one window."""

    def __init__(self, app: TuiApp, input: Any, output: Any) -> None:
        self._app = app
        is_writing = Condition(lambda: app.mode in (WRITE, TEXT) and not app.is_question_focused)
        self.composer_window = Window(
            BufferControl(app.composer, focusable=True),
            wrap_lines=True,
            height=lambda: Dimension(min=1, max=MAX_ROWS, preferred=min(MAX_ROWS, self._composer_rows())),
            dont_extend_height=True,
            always_hide_cursor=~is_writing,
        )
        self.answer_window = Window(BufferControl(app.answer_line), height=1)
        menu = Float(CompletionsMenu(max_height=8, scroll_offset=1), xcursor=True, ycursor=True)
        self.application: Application[int] = Application(
            layout=Layout(FloatContainer(self._rows(), [menu]), focused_element=self.composer_window),
            key_bindings=create_bindings(app, app.actions),
            style=create_style(app.theme),
            color_depth=lambda: color_depth(app.theme),
            full_screen=True,
            mouse_support=True,
            input=input,
            output=output,
        )
        self.application.ttimeoutlen = ESCAPE_TIMEOUT
        self.application.timeoutlen = 2 * ESCAPE_TIMEOUT
        self.application.key_processor.before_key_press += app.before_key
        self.application.key_processor.after_key_press += app.after_key

    def _rows(self) -> Container:
        app, parts = self._app, ScreenParts(self._app)
        label = Window(FormattedTextControl(self._answer_label), dont_extend_width=True)
        answer = VSplit([label, self.answer_window], height=1)
        has_text_question = Condition(lambda: app.question is not None and app.question.is_text)
        return HSplit(
            [
                Painter(parts.head, lambda *_: 1),
                Painter(parts.body),
                Painter(parts.question, parts.question_height),
                ConditionalContainer(answer, has_text_question),
                Painter(parts.waiting, parts.waiting_height),
                Painter(parts.rule, lambda *_: 1),
                self._prompt(),
                Painter(parts.status, lambda *_: 1),
            ]
        )

    def _prompt(self) -> Container:
        sign = Window(FormattedTextControl(self._prompt_sign), width=3, dont_extend_width=True)
        is_empty = Condition(lambda: not self._app.composer.text)
        hint = ConditionalContainer(Window(FormattedTextControl(self._prompt_hint)), is_empty)
        below = Float(hint, top=0, left=1, height=1, transparent=True)
        return VSplit([sign, FloatContainer(self.composer_window, [below])])

    def _composer_rows(self) -> int:
        width = max(10, self.application.output.get_size().columns - 4)
        return sum(1 + len(line) // width for line in self._app.composer.text.split("\n"))

    def _prompt_sign(self) -> Any:
        is_elsewhere = self._app.is_browsing or self._app.is_finding
        return [("class:dim" if is_elsewhere else "class:cyan bold", " ❯ ")]

    def _prompt_hint(self) -> Any:
        app = self._app
        if app.is_finding:
            hint = texts.PROMPT_HINT_FINDING
        elif app.is_browsing:
            hint = texts.COPY_HINT if app.base_mode == COPY else texts.PROMPT_HINT_BROWSING
        else:
            is_running = app.tab is not None and app.tab.is_running
            hint = texts.PROMPT_HINT_RUNNING if is_running else texts.PROMPT_HINT
        return [("class:dim", hint)]

    def _answer_label(self) -> Any:
        label = self._app.question.label if self._app.question is not None else ""
        return [("class:ask-bar", f"{QUESTION_BAR} "), ("class:ask", f"{label} ")]
