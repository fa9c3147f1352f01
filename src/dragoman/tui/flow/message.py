"""Messages of the agent, of people, and thoughts; as they stream in, and cut if they are very long."""

from __future__ import annotations

from datetime import datetime
from time import monotonic

from dragoman.cli.ui.format import format_size
from dragoman.cli.ui.markdown import Markdown
from dragoman.cli.ui.rows import Piece, Row, RowWriter, peer_line, wrap_text
from dragoman.cli.ui.terminal import sanitize
from dragoman.tui import texts
from dragoman.tui.flow.block import RenderOptions

# Characters of a message that are shown; and if it is open. A longer one is read in an editor.
MAX_SHOWN, MAX_OPEN = 64 * 1024, 512 * 1024

# Characters of one line that are shown. Code and prose have shorter lines.
MAX_LINE = 4000

# A word that is not complete is held back, so that it can move to the next row, but not a longer one. Characters.
MAX_HELD_WORD = 30

# Chunks that are kept apart before they are joined.
JOIN_AFTER = 1024

# Rows of a thought that are shown while it streams in.
THOUGHT_ROWS = 3


class MessageText:
    """The text of one message. Chunks are only collected; they are rendered with the next frame."""

    def __init__(self, role: str, author: str = "", time: str = "", message_id: str | None = None) -> None:
        self.kind = {"user": "user", "thought": "thought"}.get(role, "message")
        self.version = 0
        self.message_id = message_id
        self.size = 0
        self._author = author
        self._time = time
        self._parts: list[str] = []
        self._fed = 0  # parts that are rendered
        self._is_streaming = True
        self._started = monotonic()
        self._seconds: float | None = None
        self._width = -1
        self._writer = RowWriter(1)
        self._markdown: Markdown | None = None
        self._cut = Cut(MAX_SHOWN)
        self._has_split_word = False  # whether a word was shown before it was complete
        self._is_flushed = True

    # --- content ------------------------------------------------------------------------------------------------

    def add(self, text: str) -> None:
        """Add a chunk."""
        self._parts.append(text)
        self._is_flushed = False
        self.size += len(text)
        self.version += 1
        if len(self._parts) >= self._fed + JOIN_AFTER:
            self._parts[self._fed :] = ["".join(self._parts[self._fed :])]

    def replace(self, text: str) -> None:
        """Set the whole text."""
        self._parts, self.size = [text], len(text)
        self._width = -1
        self.version += 1

    def finish(self) -> None:
        """Note that the message is complete."""
        if self._is_streaming:
            self._is_streaming = False
            self._seconds = monotonic() - self._started
            self.version += 1
            if self._has_split_word:
                self._width = -1  # wrapped anew, between words
            elif self._markdown is not None:
                self._feed(self._take_new())
                self._finish_markdown()

    @property
    def is_waiting(self) -> bool:
        """Whether the end of the text may be held back."""
        return self._is_streaming and not self._is_flushed

    def flush(self) -> None:
        """Show what is held back with the next frame, because nothing came for a while."""
        self._is_flushed = True
        self.version += 1

    def copy_text(self) -> str:
        """Return the whole text."""
        return "".join(self._parts)

    def forget_rows(self) -> None:
        """Drop the rows."""
        self._width = -1

    # --- rows ---------------------------------------------------------------------------------------------------

    def render(self, options: RenderOptions, is_open: bool) -> list[Row]:
        """Return the rows."""
        if self.kind == "user":
            return self._render_user(options.width, is_open)
        if self.kind == "thought":
            return self._render_thought(options.width, is_open)
        self._render_markdown(options.width, is_open, "")
        return self._writer.rows

    def _render_user(self, width: int, is_open: bool) -> list[Row]:
        cut = Cut(MAX_OPEN if is_open else MAX_SHOWN)
        text = cut.take(self.copy_text()) + cut.note()
        head: list[Piece] = [(f"{self._time} ", "dim")] if self._time else []
        head.append((peer_line(self._author) or texts.YOU, "bold"))
        body = wrap_text(sanitize(text.strip("\n")), width - 2)
        return [Row(head), *(Row([("│ ", "you"), *row.pieces]) for row in body)]

    def _render_thought(self, width: int, is_open: bool) -> list[Row]:
        self._render_markdown(width - 2, is_open, "dim")
        rows = [Row([("  ", ""), *row.pieces]) for row in self._writer.rows]
        while rows and not rows[0].text.strip():
            rows.pop(0)
        if is_open or self._is_streaming:
            title = texts.THINKING if self._is_streaming else texts.thought_for(self._seconds)
            return [Row([("▾ ", "dim"), (title, "dim")]), *(rows if is_open else rows[-THOUGHT_ROWS:])]
        return [Row([("▸ ", "dim"), (texts.thought_for(self._seconds), "dim")])]

    def _render_markdown(self, width: int, is_open: bool, style: str) -> None:
        """Render what is new; all of it for another width."""
        limit = MAX_OPEN if is_open else MAX_SHOWN
        if width != self._width or limit != self._cut.limit:
            self._width, self._fed, self._has_split_word = width, 0, False
            self._writer, self._cut = RowWriter(width), Cut(limit)
            self._markdown = Markdown(self._writer.write, lambda: width + 1, style)
        text = self._take_new()
        self._feed(text)
        if not self._is_streaming:
            self._finish_markdown()
        elif self._markdown is not None and (self._is_flushed or self._cut.word_length > MAX_HELD_WORD):
            self._markdown.flush_partial()
            self._has_split_word = True

    def _take_new(self) -> str:
        text = "".join(self._parts[self._fed :])
        self._fed = len(self._parts)
        return text

    def _feed(self, text: str) -> None:
        if text and self._markdown is not None and (kept := self._cut.take(text)):
            self._markdown.feed(kept)

    def _finish_markdown(self) -> None:
        if self._markdown is None:
            return
        if note := self._cut.note():
            self._markdown.feed(note)
        self._markdown.finish()
        self._markdown = None
        rows = self._writer.rows
        while rows and not rows[-1].text.strip():
            rows.pop()


class Cut:
    """Cuts a text as it streams in: lines that are very long, and everything after a limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.word_length = 0  # of the word at the end
        self._left = limit
        self._line = 0  # characters of the current line
        self._omitted = 0  # characters left out at the end

    def take(self, text: str) -> str:
        """Return what is shown of the next piece."""
        if self._left <= 0:
            self._omitted += len(text)
            return ""
        if self._line + len(text) <= MAX_LINE and len(text) <= self._left:
            self._count(text)
            return text
        kept = []
        for at, line in enumerate(text.split("\n")):
            if at:
                kept.append(self._line_note())
                kept.append("\n")
                self._line = 0
            room = max(0, min(MAX_LINE - self._line, self._left))
            kept.append(line[:room])
            self._line += len(line)
            self._left -= len(line[:room]) + 1
        self.word_length = 0
        return "".join(kept)

    def _count(self, text: str) -> None:
        self._left -= len(text)
        self._line = self._line + len(text) if "\n" not in text else len(text) - text.rfind("\n") - 1
        last = text.replace("\n", " ").rpartition(" ")
        self.word_length = len(last[2]) if last[1] else self.word_length + len(text)

    def _line_note(self) -> str:
        return f" {texts.more_characters(self._line - MAX_LINE)}" if self._line > MAX_LINE else ""

    def note(self) -> str:
        """Return what to add at the end of the text: how much is left out."""
        if self._omitted:
            return f"\n{texts.more_text(format_size(self._omitted))}"
        return self._line_note()


def clock_time(time: str = "") -> str:
    """Return the hour and minute of a time of a log; without one, of now."""
    try:
        return f"{(datetime.fromisoformat(time).astimezone() if time else datetime.now()):%H:%M}"
    except ValueError:
        return ""
