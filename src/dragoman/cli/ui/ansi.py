"""The output of a command as rows: colors and styles are kept, everything else that a terminal would obey is not.

A carriage return writes over the line, as progress bars do. Text that is made invisible stays visible.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dragoman.cli.ui.rows import Piece
from dragoman.cli.ui.terminal import sanitize

# Control sequences, strings (titles, links, pictures), and two-character sequences. A string ends with BEL or ST; one
# without an end is only its beginning, so that it cannot hide the rest of the output.
_SEQUENCE = re.compile(
    r"\x1b\[(?P<params>[0-9;:?<=>]*)[ -/]*(?P<final>[@-~])"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
    r"|\x9b(?P<params8>[0-9;:?]*)[ -/]*(?P<final8>[@-~])"
)

_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "gray")
_FLAGS = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}
_FLAG_ENDS = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("reverse",), 29: ("strike",)}

# The cells of one line on which a carriage return can write over; the rest of a longer line is only appended.
MAX_LINE_CELLS = 2000


def _color_name(number: int) -> str:
    if number < 8:
        return f"ansi{_NAMES[number]}"
    return "ansibrightblack" if number == 8 else "ansiwhite" if number == 15 else f"ansibright{_NAMES[number - 8]}"


def _palette_color(number: int) -> str:
    """Return one of the 256 colors."""
    if number < 16:
        return _color_name(number)
    if number >= 232:
        level = 8 + 10 * (number - 232)
        return f"#{level:02x}{level:02x}{level:02x}"
    levels = (0, 95, 135, 175, 215, 255)
    red, green, blue = (number - 16) // 36, (number - 16) // 6 % 6, (number - 16) % 6
    return f"#{levels[red]:02x}{levels[green]:02x}{levels[blue]:02x}"


class Graphics:
    """The current style of a terminal: colors and flags."""

    def __init__(self) -> None:
        self._colors = {"fg": "", "bg": ""}
        self._flags: set[str] = set()
        self.style = ""

    def apply(self, params: str) -> None:
        """Apply the parameters of one SGR sequence; unknown ones have no effect."""
        numbers = [int(word) if word.isdigit() and len(word) < 4 else 0 for word in re.split("[;:]", params)]
        while numbers:
            number = numbers.pop(0)
            if number == 0:
                self._colors = {"fg": "", "bg": ""}
                self._flags.clear()
            elif number in _FLAGS:
                self._flags.add(_FLAGS[number])
            elif number in _FLAG_ENDS:
                self._flags.difference_update(_FLAG_ENDS[number])
            elif number in (38, 48):
                self._colors["fg" if number == 38 else "bg"] = _take_color(numbers)
            elif number in (39, 49):
                self._colors["fg" if number == 39 else "bg"] = ""
            else:
                for first, part, offset in ((30, "fg", 0), (40, "bg", 0), (90, "fg", 8), (100, "bg", 8)):
                    if first <= number < first + 8:
                        self._colors[part] = _color_name(number - first + offset)
        colors = dict(self._colors)
        if colors["fg"] == colors["bg"]:  # it would hide the text
            colors = {"fg": "", "bg": ""}
        words = [f"{part}:{color}" for part, color in colors.items() if color]
        self.style = " ".join([*words, *sorted(self._flags)])


def _take_color(numbers: list[int]) -> str:
    kind = numbers.pop(0) if numbers else 0
    if kind == 5 and numbers:
        return _palette_color(min(255, numbers.pop(0)))
    if kind == 2 and len(numbers) >= 3:
        red, green, blue = (min(255, numbers.pop(0)) for _ in range(3))
        return f"#{red:02x}{green:02x}{blue:02x}"
    return ""


def ansi_lines(text: str) -> list[list[Piece]]:
    """Return the output as lines of pieces, without its last empty line."""
    lines = []
    graphics = Graphics()
    for line in text.replace("\r\n", "\n").split("\n"):
        lines.append(_line_pieces(line, graphics))
    if lines and not lines[-1]:
        lines.pop()
    return lines


def _line_pieces(line: str, graphics: Graphics) -> list[Piece]:
    if "\x1b" not in line and "\r" not in line and "\b" not in line and "\x9b" not in line:
        return [(sanitize(line), graphics.style)] if line else []
    cells: list[Piece] = []
    column = 0
    for text, erases in _parts(line, graphics):
        if erases:
            del cells[column:]
        for character in text:
            if character == "\r":
                column = 0
            elif character == "\b":
                column = max(0, column - 1)
            else:
                cell = (sanitize(character), graphics.style)
                if column < len(cells):
                    cells[column] = cell
                else:
                    cells.append(cell)
                column = column + 1 if len(cells) <= MAX_LINE_CELLS else len(cells)
    return list(_join(cells))


def _parts(line: str, graphics: Graphics) -> Iterator[tuple[str, bool]]:
    """Yield the texts between the sequences, with the style set for each; True: the rest of the line is erased."""
    at = 0
    for found in _SEQUENCE.finditer(line):
        if found.start() > at:
            yield line[at : found.start()], False
        at = found.end()
        final = found["final"] or found["final8"]
        params = found["params"] or found["params8"] or ""
        if final == "m" and not params.startswith(("?", "<", "=", ">")):
            graphics.apply(params)
        elif final == "K" and params in ("", "0"):
            yield "", True
    if at < len(line):
        yield line[at:], False


def _join(cells: list[Piece]) -> Iterator[Piece]:
    run, run_style = "", ""
    for text, style in cells:
        if style != run_style and run:
            yield run, run_style
            run = ""
        run, run_style = run + text, style
    if run:
        yield run, run_style
