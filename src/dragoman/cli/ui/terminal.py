"""Terminal output: styles, and peer text with control characters removed.

Peer text is always written through `sanitize`. An OutputStream is a stream that tracks its cursor. A TerminalOutput is
two of them: the agent's answer goes to stdout; everything else goes to the same terminal, or to stderr when stdout is
piped.
"""

from __future__ import annotations

import os
import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TextIO

# Characters that a terminal obeys or hides: C0 and C1 controls except tab and newline, DEL, direction marks, zero-width
# characters, line separators, surrogates, tags. Joiners inside words and emoji stay.
_CONTROL_CHARS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)

# Begins each line of a question to the user. It is replaced in peer text, so that no agent can imitate a question.
QUESTION_BAR = "▌"

# Characters that look like it.
_BAR_LIKE = re.compile("[▉-▐❘-❚┃╏║╻╹╿╽ǀ-ǁ⎸⎹\U0001fb70-\U0001fb75\U0001fb87-\U0001fb8b]")

# Screen lines that one line of a question may take. Its beginning and its end are shown.
MAX_LINE_ROWS = 8

# A longer run of blanks in a question is counted instead: it would hide what follows.
_BLANKS = re.compile(r"[^\S\n]{16,}")

# A style is one of these names, or several separated by spaces.
_STYLES = {
    "bold": "1",
    "dim": "2",
    "italic": "3",
    "underline": "4",
    "strike": "9",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
    "code": "36",
    "ask": "1;33",
    # Parts of code (highlight.py), on top of "code".
    "keyword": "35",
    "type": "33",
    "function": "34",
    "string": "32",
    "number": "33",
    "comment": "39;2",
}


class StyledLine(NamedTuple):
    """One styled line. The text may come from a peer; it is sanitized when it is printed."""

    text: str
    style: str = ""


def sanitize(text: str) -> str:
    """Return peer text with every control character replaced by a visible one; newline and tab stay."""
    return _CONTROL_CHARS.sub(_visible_form, text.replace("\r\n", "\n"))


def _visible_form(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)  # the control pictures: ␀ ␁ ... ␛ ...
    return "␡" if code == 0x7F else f"<U+{code:04X}>"


def escape_json(data: bytes) -> bytes:
    """Return JSON with an escape in place of every character that could control a terminal."""
    if data.isascii() and b"\x7f" not in data:
        return data
    return _CONTROL_CHARS.sub(_json_escape, data.decode("utf-8", "surrogatepass")).encode()


def _json_escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def sanitize_line(text: str) -> str:
    """Return peer text as one sanitized line."""
    return sanitize(text.replace("\r\n", "\n").replace("\n", "␊")).replace("\t", " ")


def without_question_bar(text: str) -> str:
    """Return peer text without characters that look like the question bar."""
    return text if text.isascii() else _BAR_LIKE.sub("|", text)


def clip(text: str, width: int) -> str:
    """Cut a line to at most `width` columns; an ellipsis marks the cut."""
    if len(text) * 2 <= width:
        return text
    used = 0
    for index, character in enumerate(text):
        used += char_width(character)
        if used > width:
            kept = text[:index]
            while kept and sum(map(char_width, kept)) > width - 1:
                kept = kept[:-1]
            return f"{kept}…"
    return text


def char_width(character: str) -> int:
    """Return how many columns a character takes."""
    if unicodedata.combining(character) or character in "\u200c\u200d\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


# In our own text: a blank at which no line is broken.
NO_BREAK = "\xa0"


def wrap_words(text: str, width: int) -> list[str]:
    """Return our own text as lines of at most this width, broken between words.

    More lines get the same indent; those of a row with two columns begin below the second one.
    """
    columns = re.fullmatch(r"( *(?:\S+ )*?\S+ {2,})\S+(?: \S+)*", text)
    indent = " " * min(len(columns[1]) if columns else len(text) - len(text.lstrip(" ")), width // 2)
    lines = textwrap.wrap(text, width - 1, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return [line.replace(NO_BREAK, " ") for line in lines] or [""]


class OutputStream:
    """A stream, and what is at its end."""

    def __init__(self, stream: TextIO, environ: Mapping[str, str] = os.environ) -> None:
        self.is_tty = stream.isatty()
        self.has_ansi = self.is_tty and environ.get("TERM") != "dumb"
        self._has_styles = self.has_ansi and not environ.get("NO_COLOR")  # without styles, the layout stays
        self.redact: Callable[[str], str] = str  # removes the user's secrets from lines
        self._stream = stream
        self._at_line_start = True
        self._is_empty = True
        self._ends_blank = False
        self._block: tuple[object, int, int] | None = None
        self._has_footer = False
        self.flush_pending: Callable[[], None] | None = None  # writes text that is held back, before a new line begins
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:  # a character that cannot be encoded must not end the program
            reconfigure(errors="backslashreplace")

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        try:
            return max(20, os.get_terminal_size(self._stream.fileno()).columns or 80)  # 0: unknown
        except (OSError, ValueError):
            return 80

    @property
    def height(self) -> int:
        """Lines of the terminal."""
        try:
            return max(10, os.get_terminal_size(self._stream.fileno()).lines or 24)  # 0: unknown
        except (OSError, ValueError):
            return 24

    def write_text(self, text: str, style: str = "") -> None:
        """Write a piece of peer text, as it streams in."""
        if text:
            self._write_tracked(
                self._styled(self._without_question_bar(sanitize(text)), style), ends_line=text.endswith("\n")
            )

    def write_pieces(self, pieces: Iterable[tuple[str, str]]) -> None:
        """Write several pieces of peer text, each with its style, at once."""
        sanitized = [(self._without_question_bar(sanitize(text)), style) for text, style in pieces]
        text = "".join(text for text, _ in sanitized)
        if text:
            self._write_tracked(
                "".join(self._styled(text, style) for text, style in sanitized), ends_line=text.endswith("\n")
            )

    def write_line(self, text: str, style: str = "") -> None:
        """Write text that starts on a line of its own and ends with a newline."""
        self.ensure_line_start()
        self._write_tracked(
            self._styled(self._without_question_bar(sanitize(self.redact(text))), style) + "\n", ends_line=True
        )

    def write_lines(self, lines: Iterable[StyledLine]) -> None:
        """Write several lines."""
        for line in lines:
            self.write_line(line.text, line.style)

    def write_prose(self, text: str, style: str = "") -> None:
        """Write a line of sentences; one that is longer than the terminal is wide is broken between words."""
        for line in text.split("\n"):
            is_long = self.is_tty and len(line) > self.width
            for row in wrap_words(line, self.width) if is_long else [line]:
                self.write_line(row, style)

    def draw_block(self, key: object, lines: list[StyledLine]) -> None:
        """Write lines that are redrawn when the same block comes again and nothing was written below it."""
        if self.can_redraw(key) and self._block is not None:
            self._write_tracked(f"\x1b[{self._block[1]}A\x1b[J", ends_line=True)
        width = self.width
        for line in lines:
            self.write_line(
                clip(sanitize_line(line.text), width - 1) if self.is_tty else sanitize_line(line.text), line.style
            )
        self._block = (key, len(lines), width)

    def can_redraw(self, key: object) -> bool:
        """Return whether this block is at the end and can be redrawn; not after the window was resized."""
        return self.has_ansi and self._block is not None and self._block[::2] == (key, self.width)

    def show_footer(self, text: str) -> None:
        """Show a line at the end until anything else is written; not in the middle of a line."""
        if self.has_ansi and self._at_line_start and self.flush_pending is None:
            self._write("\r\x1b[K" + self._styled(clip(sanitize_line(text), self.width - 1), "dim"))
            self._has_footer = True

    def clear_footer(self) -> None:
        """Remove the footer."""
        if self._has_footer:
            self._has_footer = False
            self._write("\r\x1b[K")

    def write_question(self, lines: Iterable[StyledLine]) -> int:
        """Write the lines of a question; return how many screen lines they take.

        Each screen line begins with the question bar, which no peer can write.
        """
        self.ensure_line_start()
        count = 0
        for line in lines:
            for part in self._question_rows(line.text):
                count += 1
                self._write_tracked(
                    self._styled(f"{QUESTION_BAR} ", "ask") + self._styled(part, line.style) + "\n", ends_line=True
                )
        return count

    def show_prompt(self, text: str, style: str = "ask") -> None:
        """Write the beginning of a line that the user completes."""
        self.ensure_line_start()
        self._write_tracked(self._styled(text, style), ends_line=True)  # the user's Enter ends the line

    def clear_prompt(self) -> None:
        """Remove the prompt, because something has to be written in between."""
        self._write_tracked("\r\x1b[K" if self.has_ansi else "\n", ends_line=True)

    def note_terminal_echo(self) -> None:
        """Note that the terminal itself wrote something, such as ^C: continue below it."""
        self._at_line_start, self._block = False, None

    def ensure_line_start(self) -> None:
        """Start a new line unless the cursor is at the start of one."""
        if self.flush_pending is not None:
            show, self.flush_pending = self.flush_pending, None
            show()
        if not self._at_line_start:
            self._write_tracked("\n", ends_line=True)

    def ensure_blank_line(self) -> None:
        """Write an empty line, but not at the top and not below another one."""
        self.ensure_line_start()
        if not self._is_empty and not self._ends_blank:
            self._write_tracked("\n", ends_line=True)

    def _question_rows(self, text: str) -> list[str]:
        """Return a line of a question as screen lines; of a long one only its beginning and its end."""
        width = self.width - 3
        visible = _BLANKS.sub(lambda run: f" … {len(run[0])} blanks … ", sanitize(text))
        rows: list[str] = []
        for line in self._without_question_bar(visible).split("\n"):
            size, most = len(line), MAX_LINE_ROWS * width
            if size > 2 * most:  # wrapping takes long; the middle is left out anyway
                line = f"{line[:most]}{line[-most:]}"
            found = list(self._wrap(line))
            if len(found) > MAX_LINE_ROWS:
                left_out = size - sum(map(len, (*found[: MAX_LINE_ROWS - 3], *found[-2:])))
                found = [*found[: MAX_LINE_ROWS - 3], f"… {left_out} more characters …", *found[-2:]]
            rows += found
        return rows

    def _wrap(self, text: str) -> Iterable[str]:
        width = self.width - 3
        for line in text.split("\n"):
            rest = line.expandtabs(4)
            while len(rest) > 1 and sum(map(char_width, rest[: width + 1])) > width:
                end = width
                while end > 1 and sum(map(char_width, rest[:end])) > width:
                    end -= 1
                blank = rest.rfind(" ", end // 2, end)  # a word that ends in the second half of the row
                if blank > 0 and rest[end] != " ":
                    end = blank + 1
                yield rest[:end]
                rest = rest[end:]
            yield rest

    def _without_question_bar(self, text: str) -> str:
        return without_question_bar(text) if self.is_tty else text

    def _styled(self, text: str, style: str) -> str:
        code = ";".join(_STYLES[word] for word in style.split())
        return f"\x1b[{code}m{text}\x1b[0m" if code and self._has_styles else text

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            if not self.is_tty:
                raise
            # The terminal was closed. Nobody reads the output, and the code that reads the keys gets the end of file.

    def _write_tracked(self, text: str, *, ends_line: bool) -> None:
        self.clear_footer()
        self._write(text)
        self._ends_blank = text.endswith("\n\n") or (text == "\n" and self._at_line_start)
        self._at_line_start = ends_line
        self._is_empty = False
        self._block = None


class TerminalOutput:
    """Where the answer goes (`out`) and where everything else goes (`err`, or `out` without it)."""

    def __init__(self, out: TextIO, err: TextIO | None, environ: Mapping[str, str] = os.environ) -> None:
        self.answer = OutputStream(out, environ)
        self.diagnostics = self.answer if err is None or self.answer.is_tty else OutputStream(err, environ)

    @classmethod
    def on(cls, output: OutputStream) -> TerminalOutput:
        """Return one that writes everything to the same output."""
        terminal = cls.__new__(cls)
        terminal.answer = terminal.diagnostics = output
        return terminal
