"""One picture, by the protocol of kitty with placeholders: the picture belongs to cells of text.

So it scrolls, is covered and is cut like text. Terminals that do not have this get a description, and `t` on it shows
the picture alone, by the protocols of kitty, iTerm2 and sixel where the terminal has those.
"""

from __future__ import annotations

import itertools
import re

from dragoman.cli.ui.rows import Row
from dragoman.tui.images.png import decode_png, picture_size
from dragoman.tui.images.sixel import encode_sixel, scale

PLACEHOLDER = "\U0010eeee"

# The marks that number the rows and columns of a placeholder, as the protocol lists them.
_MARKS = (
    0x305, 0x30D, 0x30E, 0x310, 0x312, 0x33D, 0x33E, 0x33F, 0x346, 0x34A, 0x34B, 0x34C, 0x350, 0x351, 0x352, 0x357,
    0x35B, 0x363, 0x364, 0x365, 0x366, 0x367, 0x368, 0x369, 0x36A, 0x36B, 0x36C, 0x36D, 0x36E, 0x36F, 0x483, 0x484,
    0x485, 0x486, 0x487, 0x592, 0x593, 0x594, 0x595, 0x597, 0x598, 0x599, 0x59C, 0x59D, 0x59E, 0x59F, 0x5A0, 0x5A1,
    0x5A8, 0x5A9, 0x5AB, 0x5AC, 0x5AF, 0x5C4, 0x610, 0x611, 0x612, 0x613, 0x614, 0x615, 0x616, 0x617, 0x657, 0x658,
)  # fmt: skip
MAX_CELLS = len(_MARKS)

# Terminals scale pictures; a larger one is only named. Bytes of base64, and pixels of a side.
MAX_DATA, MAX_SIDE = 8 * 1024 * 1024, 10_000

# A cell is about twice as high as wide; pixels of its width.
CELL_WIDTH, CELL_HEIGHT = 10, 20

# The most that one escape sequence of the kitty protocol may carry. Characters.
KITTY_CHUNK = 4096

_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")

_ids = itertools.count(1)


class Picture:
    """One picture: its bytes in base64, and its size if they say it."""

    def __init__(self, data: str, mime_type: str) -> None:
        # The terminal gets it as it is: anything but base64 could be a sequence of the agent's own.
        self.data = data if len(data) <= MAX_DATA and _BASE64.fullmatch(data) else ""
        self.mime_type = mime_type
        self.id = next(_ids) % 0xFFFFFF + 1
        self.size = picture_size(self.data)
        self.is_sent = False  # whether the terminal has it

    @property
    def size_text(self) -> str:
        """Width and height, for a description."""
        return f", {self.size[0]} x {self.size[1]}" if self.size else ""

    @property
    def is_showable(self) -> bool:
        """Whether terminals can show it: small enough, and of a known size."""
        width, height = self.size or (0, 0)
        return bool(self.data) and 0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE

    def cells(self, columns: int, lines: int) -> tuple[int, int]:
        """Return how many cells it takes, at most these."""
        width, height = self.size or (1, 1)
        wanted = min(columns, MAX_CELLS, max(1, -(-width // CELL_WIDTH)))
        needed = max(1, round(wanted * CELL_WIDTH * height / width / CELL_HEIGHT))
        if needed > min(lines, MAX_CELLS):
            needed = min(lines, MAX_CELLS)
            wanted = max(1, min(wanted, round(needed * CELL_HEIGHT * width / height / CELL_WIDTH)))
        return wanted, needed

    def placeholder_rows(self, columns: int, lines: int) -> list[Row]:
        """Return the rows of cells that belong to the picture (kitty). Their color is the id."""
        if not self.is_showable or self.mime_type != "image/png":
            return []
        wide, high = self.cells(columns, lines)
        style = f"fg:#{self.id:06x}"
        rows = []
        for line in range(high):
            cells = [PLACEHOLDER + chr(_MARKS[line]) + chr(_MARKS[column]) for column in range(wide)]
            rows.append(Row([("  ", ""), *((cell, style) for cell in cells)]))
        return rows

    def kitty_transfer(self, columns: int, lines: int) -> str:
        """Return the sequences that give the picture to the terminal, for its placeholders."""
        wide, high = self.cells(columns, lines)
        head = f"a=T,U=1,f=100,t=d,q=2,i={self.id},c={wide},r={high},"
        parts = [self.data[at : at + KITTY_CHUNK] for at in range(0, len(self.data), KITTY_CHUNK)]
        return "".join(
            f"\x1b_G{head if at == 0 else ''}m={int(at < len(parts) - 1)};{part}\x1b\\" for at, part in enumerate(parts)
        )

    def kitty_alone(self, columns: int, lines: int) -> str:
        """Return the sequences that show the picture at the cursor (kitty); empty if it is no PNG."""
        if self.mime_type != "image/png":
            return ""
        return self.kitty_transfer(columns, lines).replace("a=T,U=1,", "a=T,", 1)

    def iterm_sequence(self, columns: int, lines: int) -> str:
        """Return the sequence that shows the picture at the cursor (iTerm2)."""
        wide, high = self.cells(columns, lines)
        return f"\x1b]1337;File=inline=1;width={wide};height={high};preserveAspectRatio=1:{self.data}\x07"

    def sixel_sequence(self, columns: int, lines: int) -> str:
        """Return the sequence that shows a PNG at the cursor (sixel); empty if it cannot be read."""
        wide, high = self.cells(columns, lines)
        pixels = decode_png(self.data)
        if pixels is None:
            return ""
        return encode_sixel(scale(pixels, wide * CELL_WIDTH, high * CELL_HEIGHT))
