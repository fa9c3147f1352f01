"""The keys: one table for the bindings and for the help page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.keys import Keys

from dragoman.cli.ui.rows import Row, wrap_text
from dragoman.tui import texts

if TYPE_CHECKING:
    from dragoman.tui.actions import Actions
    from dragoman.tui.app import TuiApp

# What the keys act on: the prompt, a question, a line that answers a question, the transcript, marked text in it, the
# words to find, a list, a page.
WRITE, ASK, TEXT, BROWSE, COPY, FIND, PICK, PAGE = (
    "write", "ask", "text", "browse", "copy", "find", "pick", "page",
)  # fmt: skip
ALL = (WRITE, ASK, TEXT, BROWSE, COPY, FIND, PICK, PAGE)
AT_PROMPT = (WRITE, ASK, TEXT)


class Key(NamedTuple):
    """Keys, where they work, what they do, and how the help writes them; without a text they are not in the help."""

    keys: tuple[str, ...]
    modes: tuple[str, ...]
    action: str
    name: str = ""
    text: str = ""


KEYS: tuple[Key, ...] = (
    # Everywhere.
    Key(("c-c",), ALL, "interrupt", "Ctrl-C", "stop the agent; clear the prompt; twice: quit"),
    Key(("<sigint>",), ALL, "interrupt"),
    Key(("c-d",), AT_PROMPT, "quit_if_empty", "Ctrl-D", "quit; turns on a host continue"),
    Key(("c-z",), ALL, "suspend", "Ctrl-Z", "suspend; `fg` returns"),
    Key(("c-l",), ALL, "redraw", "Ctrl-L", "draw the screen again"),
    Key(("f1",), ALL, "show_help", "?, F1", "show the keys"),
    Key(("c-k",), (WRITE, ASK, BROWSE), "show_palette", "Ctrl-K", "all actions"),
    Key(("c-o",), (WRITE, ASK, BROWSE), "pick_session", "Ctrl-O", "open a session of this machine or of a host"),
    Key(("c-n",), (WRITE, ASK, BROWSE), "pick_agent", "Ctrl-N", "new session in a new tab"),
    Key(("c-pagedown",), ALL, "next_tab", "Alt-1 to 9, Ctrl-PgUp, Ctrl-PgDn", "another tab"),
    Key(("c-pageup",), ALL, "previous_tab"),
    Key(("escape", "w"), (WRITE, BROWSE), "close_tab", "Alt-W", "close the tab"),
    Key(("c-b",), (WRITE, ASK, BROWSE), "toggle_panels", "Ctrl-B", "show or hide the panels"),
    # Prompt.
    Key(("enter",), (WRITE,), "send", "Enter", "send; while the agent works, the prompt waits"),
    Key(("escape", "enter"), (WRITE,), "add_line", "Alt-Enter, Ctrl-J", "another line"),
    Key(("c-j",), (WRITE,), "add_line"),
    Key(("tab",), (WRITE,), "complete", "Tab", "complete /command, @file, :command; go to the question"),
    Key(("up",), (WRITE,), "history_back", "Up, Down", "earlier prompts; after text, those that begin with it"),
    Key(("down",), (WRITE,), "history_forward"),
    Key(("c-r",), (WRITE,), "pick_history", "Ctrl-R", "search in earlier prompts"),
    Key(("c-g",), (WRITE,), "edit_prompt", "Ctrl-G", "write the prompt in $EDITOR"),
    Key(("escape", "backspace"), (WRITE,), "take_back", "Alt-Backspace", "take back the last prompt that waits"),
    Key(("escape",), (WRITE,), "escape", "Esc", "stop the agent; if it does not work: browse"),
    Key(("?",), (WRITE,), "question_mark"),
    Key(("pageup",), (WRITE, BROWSE), "page_up", "PgUp, PgDn, wheel", "scroll"),
    Key(("pagedown",), (WRITE, BROWSE), "page_down"),
    Key(("c-up",), (WRITE, BROWSE), "line_up"),
    Key(("c-down",), (WRITE, BROWSE), "line_down"),
    Key(("c-end",), (WRITE, BROWSE), "go_to_end", "Ctrl-Home, Ctrl-End", "the beginning, the end"),
    Key(("c-home",), (WRITE, BROWSE), "go_to_start"),
    Key(("c-f",), (WRITE, BROWSE), "start_find", "Ctrl-F", "find in the transcript"),
    Key(("c-y",), (WRITE, BROWSE), "copy_answer", "Ctrl-Y", "copy the last answer"),
    Key(("c-t",), (WRITE, BROWSE), "toggle_follow", "Ctrl-T", "follow the agent: show the file where it works"),
    Key(("escape", "up"), (WRITE, ASK), "browse", "Alt-Up", "browse the transcript"),
    # Question.
    Key(("tab",), (ASK, TEXT), "leave_question", "Tab", "back to the prompt; the question stays"),
    Key(("escape",), (ASK, TEXT), "stop", "Esc", "stop the agent"),
    Key(("up",), (ASK,), "question_up", "Up, Down, PgUp, PgDn", "scroll in a long question"),
    Key(("down",), (ASK,), "question_down"),
    Key(("pageup",), (ASK,), "question_page_up"),
    Key(("pagedown",), (ASK,), "question_page_down"),
    Key(("enter",), (TEXT,), "send_answer"),
    Key(("enter",), (ASK,), "refuse_key"),
    Key(("<any>",), (ASK,), "answer", "y s w a n", "once; what is named: in this session, always here, always; no"),
    # Transcript.
    Key(("up",), (BROWSE,), "select_back", "Up, Down, k, j", "the previous or the next part"),
    Key(("k",), (BROWSE,), "select_back"),
    Key(("escape", "up"), (BROWSE,), "select_back"),
    Key(("down",), (BROWSE,), "select_forward"),
    Key(("j",), (BROWSE,), "select_forward"),
    Key(("enter",), (BROWSE,), "toggle_block", "Enter, o", "open or close it: all lines, input, thoughts"),
    Key(("o",), (BROWSE,), "toggle_block"),
    Key(("t",), (BROWSE,), "show_terminal", "t", "its terminal output, or its picture, in a pane of its own"),
    Key(("e",), (BROWSE,), "open_in_editor", "e", "open its file at its line in $EDITOR; a text as a whole"),
    Key(("f",), (BROWSE,), "show_file", "f", "show its file in a pane"),
    Key(("d",), (BROWSE,), "toggle_split", "d", "diffs side by side, or one below the other"),
    Key(("y",), (BROWSE,), "copy_block", "y", "copy it"),
    Key(("v",), (BROWSE,), "start_copy", "v", "copy mode"),
    Key(("/",), (BROWSE,), "start_find", "/, n, N", "find, next, previous"),
    Key(("n",), (BROWSE,), "find_next"),
    Key(("N",), (BROWSE,), "find_previous"),
    Key(("g",), (BROWSE,), "go_to_start", "g, G", "the beginning, the end"),
    Key(("G",), (BROWSE,), "go_to_end"),
    Key(("?",), (ASK,), "show_help"),
    Key(("?",), (BROWSE,), "show_help"),
    Key(("escape",), (BROWSE,), "write", "Esc, i", "back to the prompt"),
    Key(("i",), (BROWSE,), "write"),
    Key(("q",), (BROWSE,), "write"),
    # Copy mode.
    Key(("up",), (COPY,), "mark_up", "arrows, h j k l", "move"),
    Key(("down",), (COPY,), "mark_down"),
    Key(("left",), (COPY,), "mark_left"),
    Key(("right",), (COPY,), "mark_right"),
    Key(("k",), (COPY,), "mark_up"),
    Key(("j",), (COPY,), "mark_down"),
    Key(("h",), (COPY,), "mark_left"),
    Key(("l",), (COPY,), "mark_right"),
    Key(("0",), (COPY,), "mark_line_start", "0, $", "the beginning, the end of the line"),
    Key(("$",), (COPY,), "mark_line_end"),
    Key(("v",), (COPY,), "mark_begin", "v", "begin to mark"),
    Key(("y",), (COPY,), "copy_marked", "y, Enter", "copy what is marked, or the line"),
    Key(("enter",), (COPY,), "copy_marked"),
    Key(("escape",), (COPY,), "end_copy", "Esc, q", "leave copy mode"),
    Key(("q",), (COPY,), "end_copy"),
    # Words to find.
    Key(("enter",), (FIND,), "finish_find"),
    Key(("escape",), (FIND,), "cancel_find"),
    Key(("backspace",), (FIND,), "find_backspace"),
    Key(("<any>",), (FIND,), "find_type"),
    # Lists.
    Key(("up",), (PICK,), "pick_up", "Up, Down", "move"),
    Key(("down",), (PICK,), "pick_down"),
    Key(("c-p",), (PICK,), "pick_up"),
    Key(("c-n",), (PICK,), "pick_down"),
    Key(("enter",), (PICK,), "pick_item", "Enter", "choose"),
    Key(("escape",), (PICK,), "close_overlay", "Esc", "close"),
    Key(("backspace",), (PICK,), "pick_backspace"),
    Key(("<any>",), (PICK,), "pick_type", "letters", "show only what contains them"),
    # Pages.
    Key(("up",), (PAGE,), "read_up", "Up, Down, PgUp, PgDn, g, G", "scroll"),
    Key(("down",), (PAGE,), "read_down"),
    Key(("k",), (PAGE,), "read_up"),
    Key(("j",), (PAGE,), "read_down"),
    Key(("pageup",), (PAGE,), "read_page_up"),
    Key(("pagedown",), (PAGE,), "read_page_down"),
    Key(("g",), (PAGE,), "read_start"),
    Key(("G",), (PAGE,), "read_end"),
    Key(("y",), (PAGE,), "copy_page", "y", "copy all of it"),
    Key(("escape",), (PAGE,), "close_overlay", "Esc, q", "close"),
    Key(("q",), (PAGE,), "close_overlay"),
)

_TITLES = {
    "Everywhere": ALL,
    "Prompt": (WRITE,),
    "Question": (ASK, TEXT),
    "Transcript": (BROWSE,),
    "Copy mode": (COPY,),
    "Lists": (PICK,),
    "Pages": (PAGE,),
}

# Keys that would change the prompt.
_EDITING_KEYS = ("enter", "backspace", "delete", "c-h", "c-w", "c-u", "c-a", "c-e", "c-v", "c-q", "up", "down")

# Columns of the names of keys in the help.
NAME_WIDTH = 22


def create_bindings(app: TuiApp, actions: Actions) -> KeyBindings:
    """Return the bindings of the table."""
    bindings = KeyBindings()
    for number in range(1, 10):
        bindings.add("escape", str(number))(_tab_shower(app, number - 1))
    # Whatever has no key of its own does nothing outside the prompt.
    is_reading = Condition(lambda: app.mode not in (WRITE, TEXT))
    for name in _EDITING_KEYS:
        bindings.add(name, filter=is_reading)(lambda event: None)
    is_elsewhere = Condition(lambda: app.mode in (BROWSE, COPY, PAGE))
    for others in (Keys.Any, Keys.BracketedPaste):
        bindings.add(others, filter=is_elsewhere)(lambda event: None)
    for key in KEYS:
        _bind(bindings, app, actions, key)

    @bindings.add(Keys.BracketedPaste, filter=Condition(lambda: app.mode in (WRITE, ASK)))
    def _paste(event: Any) -> None:
        app.paste(event.data)

    return bindings


def _tab_shower(app: TuiApp, at: int) -> Any:
    return lambda event: app.show_tab(at)


def _bind(bindings: KeyBindings, app: TuiApp, actions: Actions, key: Key) -> None:
    method = getattr(actions, key.action, None) or getattr(actions.transcript, key.action)
    needs_text = key.keys == ("<any>",)

    def on_key(event: Any) -> None:
        app.hint = ""
        if needs_text:
            method(event.data)
        else:
            method()
        app.request_frame()

    bindings.add(*key.keys, filter=Condition(lambda: app.mode in key.modes))(on_key)


def help_rows(width: int) -> list[Row]:
    """Return the help page."""
    rows: list[Row] = []
    listed: set[str] = set()
    for title, modes in _TITLES.items():
        rows.append(Row([(title, "bold cyan")]))
        for key in KEYS:
            is_here = key.modes == modes or (key.modes[0] == modes[0] and modes != ALL)
            is_everywhere = len(key.modes) > 2 and modes == ALL
            if key.text and key.name + key.text not in listed and (is_everywhere or (is_here and len(key.modes) <= 2)):
                listed.add(key.name + key.text)
                first, *more = wrap_text(key.text, max(20, width - NAME_WIDTH - 2))
                name = f"  {key.name:{NAME_WIDTH}}" if len(key.name) <= NAME_WIDTH else f"  {key.name}"
                if len(key.name) > NAME_WIDTH:
                    rows.append(Row([(name, "bold")]))
                    name = " " * (NAME_WIDTH + 2)
                rows.append(Row([(name, "bold"), *first.pieces]))
                rows += [Row([(" " * (NAME_WIDTH + 2), ""), *row.pieces]) for row in more]
        rows.append(Row())
    return [*rows, *(Row([(line, "dim")]) for line in texts.HELP_END)]
