"""Where prompts are written: a buffer with history and completion of /commands, @files and :commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import InMemoryHistory

from dragoman.cli.chat import colon_commands
from dragoman.cli.chat.line_editor import Candidate, InputHistory, complete_file, complete_slash_command
from dragoman.tui.tab.tab import Tab

# Rows of the prompt that are visible; a longer one scrolls, and Ctrl-G opens it in an editor.
MAX_ROWS = 8


class CandidateCompleter(Completer):
    """Completes by a function."""

    def __init__(self, complete: Callable[[str], Iterable[Candidate]]) -> None:
        self._complete = complete

    def get_completions(self, document: Any, complete_event: Any) -> Iterable[Completion]:
        """Yield the candidates for the text before the cursor."""
        for text, replaced_length, description in self._complete(document.text_before_cursor):
            yield Completion(text, -replaced_length, display=text.strip(), display_meta=description)


def candidates(tab: Tab, text_before_cursor: str) -> Iterable[Candidate]:
    """Return what can follow in the prompt of a tab."""
    if tab.opened is None:
        return []
    if colon_commands.is_colon_command(text_before_cursor):
        return colon_commands.complete_colon_command(text_before_cursor, tab.session)
    commands = [(command.name, command.description) for command in tab.session.commands]
    return [
        *complete_slash_command(text_before_cursor, commands),
        *complete_file(text_before_cursor, tab.session.cwd),
    ]


def create_composer(
    history: InputHistory,
    complete: Callable[[str], Iterable[Candidate]],
    on_change: Callable[[str], None],
) -> Buffer:
    """Return the buffer of the prompt."""
    buffer: Buffer

    def completes_itself() -> bool:
        text = buffer.document.text_before_cursor
        return text.startswith(("/", ":")) or "@" in text.rpartition(" ")[2]

    buffer = Buffer(
        completer=CandidateCompleter(complete),
        complete_while_typing=Condition(completes_itself),
        history=InMemoryHistory(history.texts()),
        multiline=True,
        on_text_changed=lambda changed: on_change(changed.text),
    )
    return buffer
