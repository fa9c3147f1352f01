"""What reaches the terminal: our own styles, and the text of peers with everything removed that could act.

`visible` is the one way peer text goes. A Sheet is a stream that knows where its cursor is; a Terminal is two of them:
the agent's answer goes to stdout, everything else beside it on a terminal and to stderr otherwise, so that stdout can
be piped. Knows nothing of the protocol.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TextIO

# What a terminal obeys or hides: C0 and C1 controls but not tab and newline, DEL, marks that turn the direction of
# writing or take no room, line separators, surrogates, tags. The joiners inside words and emoji are left.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)

# Begins each line of a question to the user. In the text of peers it is replaced, so no agent can draw a question.
MARK = "▌"

# A style is one of these words, or several.
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
}


class Line(NamedTuple):
    """One line of our own making; its text may come from a peer and is made visible when it is printed."""

    text: str
    style: str = ""


def visible(text: str) -> str:
    """Peer text with every character that could act made into one that can be seen; newline and tab stay."""
    return _HIDDEN.sub(_picture, text.replace("\r\n", "\n"))


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)  # the control pictures: ␀ ␁ ... ␛ ...
    return "␡" if code == 0x7F else f"<U+{code:04X}>"


def single(text: str) -> str:
    """Peer text as one visible line."""
    return visible(text.replace("\r\n", "\n").replace("\n", "␊")).replace("\t", " ")


def clip(text: str, width: int) -> str:
    """At most so many columns of a line; what is cut off is shown to be missing."""
    if len(text) * 2 <= width:
        return text
    used = 0
    for index, character in enumerate(text):
        used += columns(character)
        if used > width:
            kept = text[:index]
            while kept and sum(map(columns, kept)) > width - 1:
                kept = kept[:-1]
            return f"{kept}…"
    return text


def columns(character: str) -> int:
    """How many columns a character takes."""
    if unicodedata.combining(character) or character in "\u200c\u200d\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


class Sheet:
    """A stream we write on, and what stands at its end."""

    def __init__(self, stream: TextIO, environ: Mapping[str, str] = os.environ) -> None:
        self.is_tty = stream.isatty()
        self.has_ink = self.is_tty and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
        self.clean: Callable[[str], str] = str  # takes the user's secrets out of lines, where somebody knows them
        self._stream = stream
        self._at_start = True
        self._is_empty = True
        self._is_blank = False
        self._block: tuple[object, int, int] | None = None
        self._has_footer = False
        self.unsettled: Callable[[], None] | None = None  # shows what somebody keeps back, before a new line begins
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:  # an odd character is no reason to die
            reconfigure(errors="backslashreplace")

    @property
    def width(self) -> int:
        """The columns of the terminal."""
        try:
            return max(20, os.get_terminal_size(self._stream.fileno()).columns or 80)  # 0: nobody said how many
        except (OSError, ValueError):
            return 80

    def say(self, text: str, style: str = "") -> None:
        """A piece of peer text, as it streams in."""
        if text:
            self._put(self._inked(self._guarded(visible(text)), style), ends=text.endswith("\n"))

    def pieces(self, pieces: Iterable[tuple[str, str]]) -> None:
        """Several pieces of peer text, each with its style, written at once."""
        shown = [(self._guarded(visible(text)), style) for text, style in pieces]
        text = "".join(text for text, _ in shown)
        if text:
            self._put("".join(self._inked(text, style) for text, style in shown), ends=text.endswith("\n"))

    def line(self, text: str, style: str = "") -> None:
        """A whole line, on a line of its own; several if the text has several."""
        self.fresh()
        self._put(self._inked(self._guarded(visible(self.clean(text))), style) + "\n", ends=True)

    def lines(self, lines: Iterable[Line]) -> None:
        """Several lines."""
        for line in lines:
            self.line(line.text, line.style)

    def block(self, key: object, lines: list[Line]) -> None:
        """Lines that are drawn over when the same block comes again and nothing stands below it."""
        if self.continues(key) and self._block is not None:
            self._put(f"\x1b[{self._block[1]}A\x1b[J", ends=True)
        width = self.width
        for line in lines:
            self.line(clip(single(line.text), width - 1) if self.is_tty else single(line.text), line.style)
        self._block = (key, len(lines), width)

    def continues(self, key: object) -> bool:
        """Whether this block stands at the end and can be drawn over; not after the window became another one."""
        return self.has_ink and self._block is not None and self._block[::2] == (key, self.width)

    def footer(self, text: str) -> None:
        """A line that stands at the end until anything else is written; not in the middle of a line."""
        if self.has_ink and self._at_start and self.unsettled is None:
            self._write("\r\x1b[K" + self._inked(clip(single(text), self.width - 1), "dim"))
            self._has_footer = True

    def unfoot(self) -> None:
        """Take the footer away."""
        if self._has_footer:
            self._has_footer = False
            self._write("\r\x1b[K")

    def mark(self, lines: Iterable[Line]) -> None:
        """Lines of a question: each begins with what no peer can write, however long it is."""
        self.fresh()
        for line in lines:
            for part in self._wrapped(self._guarded(visible(line.text))):
                self._put(self._inked(f"{MARK} ", "ask") + self._inked(part, line.style) + "\n", ends=True)

    def prompt(self, text: str, style: str = "ask") -> None:
        """The beginning of a line that the user ends."""
        self.fresh()
        self._put(self._inked(text, style), ends=True)  # the Enter of the user ends the line

    def unprompt(self) -> None:
        """Take the prompt away again, for something has to be said in between."""
        self._put("\r\x1b[K" if self.has_ink else "\n", ends=True)

    def disturbed(self) -> None:
        """The terminal itself wrote something, such as the ^C that was typed: go on below it."""
        self._at_start, self._block = False, None

    def fresh(self) -> None:
        """Begin a new line unless one has just begun."""
        if self.unsettled is not None:
            show, self.unsettled = self.unsettled, None
            show()
        if not self._at_start:
            self._put("\n", ends=True)

    def gap(self) -> None:
        """Leave an empty line, but not at the top, and not below another one."""
        self.fresh()
        if not self._is_empty and not self._is_blank:
            self._put("\n", ends=True)

    def _wrapped(self, text: str) -> Iterable[str]:
        width = self.width - 3
        for line in text.split("\n"):
            rest = line.expandtabs(4)
            while len(rest) > 1 and sum(map(columns, rest[: width + 1])) > width:
                end = width
                while end > 1 and sum(map(columns, rest[:end])) > width:
                    end -= 1
                yield rest[:end]
                rest = rest[end:]
            yield rest

    def _guarded(self, text: str) -> str:
        return text.replace(MARK, "|") if self.is_tty else text

    def _inked(self, text: str, style: str) -> str:
        code = ";".join(_STYLES[word] for word in style.split())
        return f"\x1b[{code}m{text}\x1b[0m" if code and self.has_ink else text

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            if not self.is_tty:
                raise
            # The terminal was closed: nobody reads, and whoever reads what is typed hears of it.

    def _put(self, text: str, *, ends: bool) -> None:
        self.unfoot()
        self._write(text)
        self._is_blank = text.endswith("\n\n") or (text == "\n" and self._at_start)
        self._at_start = ends
        self._is_empty = False
        self._block = None


class Terminal:
    """Where the answer goes, and where everything else goes: without `err`, always to the same place."""

    def __init__(self, out: TextIO, err: TextIO | None, environ: Mapping[str, str] = os.environ) -> None:
        self.answer = Sheet(out, environ)
        self.aside = self.answer if err is None or self.answer.is_tty else Sheet(err, environ)
