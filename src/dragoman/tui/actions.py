"""What the keys do; each method is a row of the table in keys.py or of the list of all actions."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING

from dragoman.cli.chat import colon_commands
from dragoman.cli.connect.options import SessionOptions
from dragoman.cli.ui.rows import peer_line
from dragoman.tui import texts
from dragoman.tui.keys import WRITE, help_rows
from dragoman.tui.overlays import Item, Page, Picker
from dragoman.tui.panels import short_age, tab_state
from dragoman.tui.programs import edit_prompt
from dragoman.tui.session_list import ListedSession, agents_by_name
from dragoman.tui.share import share_session
from dragoman.tui.themes import THEMES
from dragoman.tui.transcript_actions import TranscriptActions

if TYPE_CHECKING:
    from dragoman.tui.app import TuiApp

# Earlier prompts in the list of Ctrl-R.
MAX_HISTORY_ITEMS = 300


class Actions:
    """The actions of one window."""

    def __init__(self, app: TuiApp) -> None:
        self._app = app
        self._quit_key = -1  # the number of the key after which Ctrl-C quits
        self.transcript = TranscriptActions(app)

    # --- everywhere ---------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Ctrl-C: close what is open, stop the agent, clear the prompt; a second one quits."""
        app = self._app
        # Only if it is the very next key.
        was_pending, self._quit_key = self._quit_key == app.key_count - 1, -1
        if app.overlay is not None:
            app.overlay = None
        elif app.is_finding:
            self.transcript.cancel_find()
        elif app.is_browsing:
            self.write()
        elif was_pending:
            app.quit()
        elif app.tab is not None and (app.tab.stop() or app.tab.stop_start()):
            self._quit_key = app.key_count
            app.show_hint(texts.STOPPING)
        elif app.composer.text:
            app.composer.reset()
        else:
            self._quit_key = app.key_count
            app.show_hint(texts.QUIT_HINT)

    def quit_if_empty(self) -> None:
        """Ctrl-D: quit, unless there is text: then delete forward."""
        if self._app.composer.text and self._app.mode == WRITE:
            self._app.composer.delete()
        else:
            self._app.quit()

    def suspend(self) -> None:
        """Go to the background of the shell."""
        self._app.suspend_to_shell()

    def redraw(self) -> None:
        """Draw everything again."""
        self._app.redraw()

    def show_help(self) -> None:
        """Show the keys."""
        self._app.overlay = Page(texts.HELP_TITLE, help_rows)

    def close_overlay(self) -> None:
        """Close a list or a page."""
        self._app.overlay = None

    def toggle_panels(self) -> None:
        """Show or hide the panels."""
        self._app.shows_panels = not self._app.shows_panels

    def next_tab(self) -> None:
        """Show the next tab."""
        app = self._app
        app.show_tab((app.tabs.index(app.shown_tab) + 1) % len(app.tabs))

    def previous_tab(self) -> None:
        """Show the tab before."""
        app = self._app
        app.show_tab((app.tabs.index(app.shown_tab) - 1) % len(app.tabs))

    def close_tab(self) -> None:
        """Close the tab; a session on a host continues there."""
        self._app.close_tab(self._app.shown_tab)

    # --- lists --------------------------------------------------------------------------------------------------

    def show_palette(self) -> None:
        """List all actions."""
        app = self._app
        rows: list[tuple[str, str, Callable[[], None]]] = [
            (texts.ACTION_NEW, "Ctrl-N", self.pick_agent),
            (texts.ACTION_OPEN, "Ctrl-O", self.pick_session),
            (texts.ACTION_FIND, "Ctrl-F", self.transcript.start_find),
            (texts.ACTION_FOLLOW, "Ctrl-T", self.transcript.toggle_follow),
            (texts.ACTION_SPLIT, "d", self.transcript.toggle_split),
            (texts.ACTION_COPY, "Ctrl-Y", self.transcript.copy_answer),
            (texts.ACTION_PANELS, "Ctrl-B", self.toggle_panels),
            (texts.ACTION_SHARE_VIEWER, "", lambda: share_session(app, "viewer")),
            (texts.ACTION_SHARE_EDITOR, "", lambda: share_session(app, "editor")),
            (texts.ACTION_CLOSE, "Alt-W", self.close_tab),
            (texts.ACTION_HELP, "?", self.show_help),
            (texts.ACTION_QUIT, "Ctrl-D", app.quit),
        ]
        rows += [(f"{texts.ACTION_THEME}: {name}", "", _theme_setter(app, name)) for name in THEMES]
        rows += [
            (f":{name} {command.usage}".strip(), command.description, self._command_writer(name))
            for name, command in colon_commands.COMMANDS.items()
        ]
        items = [Item(title, about, self._run_after_close(run)) for title, about, run in rows]
        app.overlay = Picker(texts.PALETTE_TITLE, items)

    def _run_after_close(self, run: Callable[[], None]) -> Callable[[], None]:
        def choose() -> None:
            self._app.overlay = None
            run()

        return choose

    def _command_writer(self, name: str) -> Callable[[], None]:
        text = f":{name} " if colon_commands.COMMANDS[name].usage else f":{name}"
        return lambda: self._app.write_prompt(text)

    def pick_session(self) -> None:
        """List the sessions of this machine and of all hosts."""
        app = self._app
        items = [
            Item(f"{tab.title}", f"tab {at + 1} · {tab_state(tab)}", self._run_after_close(_tab_opener(app, at)))
            for at, tab in enumerate(app.tabs)
        ]
        for place in app.session_list.places:
            where = peer_line(place.name) or texts.LOCAL
            for listed in place.sessions:
                if app.find_tab(listed) is None:
                    agent = peer_line(listed.summary.agent or "")
                    about = f"{agent} · {where} · {short_age(listed.summary.updated_at)}"
                    opener = self._run_after_close(_session_opener(app, listed))
                    items.append(Item(peer_line(listed.title), about, opener))
        app.session_list.refresh()
        app.overlay = Picker(texts.OPEN_TITLE, items, empty=texts.NO_SESSIONS)

    def pick_agent(self) -> None:
        """List the agents of this machine and of all hosts."""
        app, sessions = self._app, self._app.session_list
        items = []
        for agent in agents_by_name(app.options).values():
            open_local = self._run_after_close(_options_opener(app, sessions.local_options(agent)))
            items.append(Item(peer_line(agent.name), peer_line(shlex.join(agent.argv)), open_local))
        for place in sessions.places:
            if place.host is not None:
                for name in place.agents or ("",):
                    options = sessions.host_options(place.host, name)
                    opener = self._run_after_close(_options_opener(app, options))
                    items.append(Item(peer_line(name or place.name), peer_line(place.name), opener))
        app.overlay = Picker(texts.NEW_TITLE, items, empty=texts.NO_AGENTS)

    def pick_history(self) -> None:
        """List earlier prompts."""
        app = self._app
        prompts = list(dict.fromkeys(reversed(app.history.texts())))[:MAX_HISTORY_ITEMS]
        items = [
            Item(peer_line(" ".join(text.split())), "", self._run_after_close(_prompt_setter(app, text)))
            for text in prompts
        ]
        app.overlay = Picker(texts.HISTORY_TITLE, items)

    def pick_up(self) -> None:
        """Move up in a list."""
        self._picker.move(-1)

    def pick_down(self) -> None:
        """Move down in a list."""
        self._picker.move(1)

    def pick_type(self, text: str) -> None:
        """Show only items that contain what is typed."""
        if text.isprintable():
            self._picker.type(text)

    def pick_backspace(self) -> None:
        """Remove the last letter."""
        self._picker.type("")

    def pick_item(self) -> None:
        """Choose the item at the cursor."""
        item = self._picker.current
        if item is not None:
            item.choose()

    @property
    def _picker(self) -> Picker:
        assert isinstance(self._app.overlay, Picker)
        return self._app.overlay

    # --- pages --------------------------------------------------------------------------------------------------

    @property
    def _page(self) -> Page:
        assert isinstance(self._app.overlay, Page)
        return self._app.overlay

    def read_up(self) -> None:
        """Scroll up by one row."""
        self._page.scroll(-1)

    def read_down(self) -> None:
        """Scroll down by one row."""
        self._page.scroll(1)

    def read_page_up(self) -> None:
        """Scroll up by one page."""
        self._page.scroll(1 - self._page.page_size)

    def read_page_down(self) -> None:
        """Scroll down by one page."""
        self._page.scroll(self._page.page_size - 1)

    def read_start(self) -> None:
        """Go to the first row."""
        self._page.scroll(-(10**9))

    def read_end(self) -> None:
        """Go to the last row."""
        self._page.scroll(10**9)

    def copy_page(self) -> None:
        """Copy all of a page."""
        if self._page.copy_text is not None:
            self._app.copy(self._page.copy_text())

    # --- prompt -------------------------------------------------------------------------------------------------

    def send(self) -> None:
        """Send the prompt, or take the completion that is selected."""
        app, buffer = self._app, self._app.composer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
            return
        document = buffer.document
        if document.char_before_cursor == "\\" and not document.text_after_cursor:
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
            return
        text = buffer.text
        if text.strip() and app.tab is not None:
            app.history.add(text)
            buffer.append_to_history()
            buffer.reset()
            app.tab.draft = ""
            app.holds_question = app.leaves_question = False
            app.tab.send(text)

    def add_line(self) -> None:
        """Begin another line."""
        self._app.composer.insert_text("\n")

    def complete(self) -> None:
        """Complete, or go to the question."""
        app, buffer = self._app, self._app.composer
        if app.tab is not None and app.tab.prompter.current is not None and buffer.complete_state is None:
            app.holds_question, app.leaves_question = True, False
        elif buffer.complete_state is not None:
            buffer.complete_next()
        else:
            buffer.start_completion(insert_common_part=True)

    def history_back(self) -> None:
        """Go up in the prompt, or to the prompt before."""
        self._app.composer.auto_up()

    def history_forward(self) -> None:
        """Go down in the prompt, or to the next prompt."""
        self._app.composer.auto_down()

    def edit_prompt(self) -> None:
        """Write the prompt in the editor."""
        app = self._app
        app.run_in_background(edit_prompt(app))

    def take_back(self) -> None:
        """Return the last prompt that waits to the prompt line."""
        app = self._app
        text = app.tab.take_back() if app.tab is not None else None
        if text is not None:
            app.write_prompt(text)

    def escape(self) -> None:
        """Esc: close the completions, stop the agent, or browse."""
        app = self._app
        if app.composer.complete_state is not None:
            app.composer.cancel_completion()
        elif app.tab is not None and app.tab.stop():
            app.show_hint(texts.STOPPING)
        else:
            self.transcript.browse()

    def stop(self) -> None:
        """Stop the agent; its question is closed."""
        if self._app.tab is not None and self._app.tab.stop():
            self._app.show_hint(texts.STOPPING)

    def question_mark(self) -> None:
        """Show the keys if nothing is written."""
        if self._app.composer.text:
            self._app.composer.insert_text("?")
        else:
            self.show_help()

    def write(self) -> None:
        """Go back to the prompt."""
        self.transcript.write()

    # --- questions ----------------------------------------------------------------------------------------------

    def answer(self, key: str) -> None:
        """Answer the question."""
        app = self._app
        question = app.tab.prompter.current if app.tab is not None else None
        if question is None:
            return
        choice = question.find_choice(key) if len(key) == 1 else None
        if choice is None:
            question.hint = texts.WRONG_KEY
        else:
            question.resolve(choice.value)
            app.note_answered()

    def refuse_key(self) -> None:
        """Say which keys answer the question."""
        self.answer("")

    def send_answer(self) -> None:
        """Send the line that answers a question."""
        app = self._app
        if app.tab is not None and app.tab.prompter.current is not None and app.is_answer_settled():
            text = app.answer_line.text
            app.answer_line.reset()
            app.tab.prompter.current.resolve(text)
            app.note_answered()

    def leave_question(self) -> None:
        """Go to the prompt; the question stays open."""
        self._app.holds_question, self._app.leaves_question = False, True

    def _scroll_question(self, rows: int) -> None:
        question = self._app.tab.prompter.current if self._app.tab is not None else None
        if question is not None:
            question.scroll += rows

    def question_up(self) -> None:
        """Scroll up in the question."""
        self._scroll_question(-1)

    def question_down(self) -> None:
        """Scroll down in the question."""
        self._scroll_question(1)

    def question_page_up(self) -> None:
        """Scroll up by a page in the question."""
        self._scroll_question(-self._app.window_rows // 2)

    def question_page_down(self) -> None:
        """Scroll down by a page in the question."""
        self._scroll_question(self._app.window_rows // 2)


def _theme_setter(app: TuiApp, name: str) -> Callable[[], None]:
    return lambda: app.set_theme(name)


def _tab_opener(app: TuiApp, at: int) -> Callable[[], None]:
    return lambda: app.show_tab(at)


def _session_opener(app: TuiApp, listed: ListedSession) -> Callable[[], None]:
    return lambda: app.open_listed(listed)


def _options_opener(app: TuiApp, options: SessionOptions) -> Callable[[], None]:
    return lambda: (app.open_tab(options), None)[1]


def _prompt_setter(app: TuiApp, text: str) -> Callable[[], None]:
    return lambda: app.write_prompt(text)
