"""Pictures in the terminal, by the protocol of kitty with placeholders: the picture belongs to cells of text.

So it scrolls, is covered and is cut like text. Terminals that do not have this get a description, and `o` on it opens
the picture alone, by the protocols of iTerm2 and sixel where the terminal has those.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from dragoman.cli.ui.rows import Row

PLACEHOLDER = "\U0010eeee"

# The marks that number the rows and columns of a placeholder, as the protocol lists them.
_MARKS = (
    0x305, 0x30D, 0x30E, 0x310, 0x312, 0x33D, 0x33E, 0x33F, 0x346, 0x34A, 0x34B, 0x34C, 0x350, 0x351, 0x352, 0x357,
    0x35B, 0x363, 0x364, 0x365, 0x366, 0x367, 0x368, 0x369, 0x36A, 0x36B, 0x36C, 0x36D, 0x36E, 0x36F, 0x483, 0x484,
    0x485, 0x486, 0x487, 0x592, 0x593, 0x594, 0x595, 0x597, 0x598, 0x599, 0x59C, 0x59D, 0x59E, 0x59F, 0x5A0, 0x5A1,
    0x5A8, 0x5A9, 0x5AB, 0x5AC, 0x5AF, 0x5C4, 0x610, 0x611, 0x612, 0x613, 0x614, 0x615, 0x616, 0x617, 0x657, 0x658,
)  # fmt: skip
MAX_CELLS = len(_MARKS)

# Terminals scale pictures; a larger one is described. Bytes of base64, and pixels of a side.
MAX_DATA, MAX_SIDE = 8 * 1024 * 1024, 10_000

# A cell is about twice as high as wide; pixels of its width.
CELL_WIDTH, CELL_HEIGHT = 10, 20

# The most that one escape sequence of the kitty protocol may carry. Characters.
KITTY_CHUNK = 4096

_ids = itertools.count(1)


class Protocol(NamedTuple):
    """How a terminal shows pictures."""

    name: str  # kitty, iterm, sixel or ""


def find_protocol(environ: Mapping[str, str] = os.environ) -> Protocol:
    """Return what this terminal can; DRAGOMAN_IMAGES=kitty, iterm, sixel or none decides.

    Terminals inside a multiplexer do not get pictures unless the user says so: most multiplexers remove them.
    """
    if chosen := environ.get("DRAGOMAN_IMAGES", ""):
        return Protocol(chosen if chosen in ("kitty", "iterm", "sixel") else "")
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    if environ.get("TMUX") or environ.get("STY") or term.startswith(("screen", "tmux")):
        return Protocol("")
    if environ.get("KITTY_WINDOW_ID") or "kitty" in term or program == "ghostty" or "ghostty" in term:
        return Protocol("kitty")
    if program in ("iTerm.app", "WezTerm"):
        return Protocol("iterm")
    if term.startswith(("foot", "mlterm", "yaft", "contour")) or environ.get("SIXEL"):
        return Protocol("sixel")
    return Protocol("")


class Picture:
    """One picture: its bytes in base64, and its size if they say it."""

    def __init__(self, data: str, mime_type: str) -> None:
        self.data = data
        self.mime_type = mime_type
        self.id = next(_ids) % 0xFFFFFF + 1
        self.size = picture_size(data)
        self.is_sent = False  # whether the terminal has it

    @property
    def size_text(self) -> str:
        """Width and height, for a description."""
        return f", {self.size[0]} x {self.size[1]}" if self.size else ""

    @property
    def is_showable(self) -> bool:
        """Whether terminals can show it: small enough, and of a known size."""
        width, height = self.size or (0, 0)
        return len(self.data) <= MAX_DATA and 0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE

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


def picture_size(data: str) -> tuple[int, int] | None:
    """Return width and height of a PNG, GIF or JPEG, from its first bytes; None if they do not say it."""
    try:
        head = base64.b64decode(data[: 64 * 1024 // 3 * 4][: len(data) // 4 * 4])
    except (binascii.Error, ValueError):
        return None
    if head.startswith(b"\x89PNG\r\n\x1a\n") and len(head) >= 24:
        return struct.unpack(">II", head[16:24])
    if head.startswith((b"GIF87a", b"GIF89a")) and len(head) >= 10:
        return struct.unpack("<HH", head[6:10])
    if head.startswith(b"\xff\xd8"):
        at = 2
        while at + 9 < len(head) and head[at] == 0xFF:
            if head[at + 1] in (0xC0, 0xC1, 0xC2):
                height, width = struct.unpack(">HH", head[at + 5 : at + 9])
                return width, height
            at += 2 + int(struct.unpack(">H", head[at + 2 : at + 4])[0])
    return None


# --- sixel ----------------------------------------------------------------------------------------------------

Pixels = list[list[tuple[int, int, int]]]

# A PNG with more pixels is not decoded: it would take seconds.
MAX_PIXELS = 1_000_000


def decode_png(data: str) -> Pixels | None:
    """Return the pixels of a PNG with 8 bits a channel, on black; None for any other."""
    size = picture_size(data)
    if size is None or size[0] * size[1] > MAX_PIXELS:
        return None
    try:
        content = base64.b64decode(data)
        chunks = dict.fromkeys((b"IHDR", b"PLTE", b"IDAT"), b"")
        for name, body in _png_chunks(content):
            if name in chunks:
                chunks[name] += body
        width, height, depth, kind, _, _, interlace = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
        channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[kind]
        if depth != 8 or interlace:
            return None
        unpacker = zlib.decompressobj()
        raw = unpacker.decompress(chunks[b"IDAT"], (width * channels + 1) * height)
        return _png_pixels(raw, width, height, channels, chunks[b"PLTE"] if kind == 3 else b"")
    except (KeyError, IndexError, ValueError, struct.error, zlib.error):
        return None


def _png_chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 8
    while at + 8 <= len(content):
        length = struct.unpack(">I", content[at : at + 4])[0]
        yield content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        at += 12 + length


def _png_pixels(raw: bytes, width: int, height: int, channels: int, palette: bytes) -> Pixels:
    before = bytearray(width * channels)
    pixels: Pixels = []
    for line in range(height):
        start = line * (width * channels + 1)
        row = _unfilter(raw[start], bytearray(raw[start + 1 : start + 1 + width * channels]), before, channels)
        pixels.append([_pixel(row[at : at + channels], palette) for at in range(0, width * channels, channels)])
        before = row
    return pixels


def _unfilter(kind: int, row: bytearray, before: bytearray, channels: int) -> bytearray:
    for at in range(len(row)):
        left = row[at - channels] if at >= channels else 0
        up = before[at]
        corner = before[at - channels] if at >= channels else 0
        if kind == 4:
            guess = left + up - corner
            distances = abs(guess - left), abs(guess - up), abs(guess - corner)
            added = (left, up, corner)[distances.index(min(distances))]
        else:
            added = (0, left, up, (left + up) // 2)[kind]
        row[at] = (row[at] + added) & 0xFF
    return row


def _pixel(channels: bytearray, palette: bytes) -> tuple[int, int, int]:
    if palette:
        red, green, blue = palette[3 * channels[0] : 3 * channels[0] + 3]
        return red, green, blue
    if len(channels) <= 2:
        level = channels[0] * (channels[1] if len(channels) == 2 else 255) // 255
        return level, level, level
    alpha = channels[3] if len(channels) == 4 else 255
    return channels[0] * alpha // 255, channels[1] * alpha // 255, channels[2] * alpha // 255


def scale(pixels: Pixels, width: int, height: int) -> Pixels:
    """Return the picture in at most this size, by its nearest pixels."""
    factor = min(1.0, width / len(pixels[0]), height / len(pixels))
    wide, high = max(1, int(len(pixels[0]) * factor)), max(1, int(len(pixels) * factor))
    columns = [int(x / factor) for x in range(wide)]
    return [[pixels[int(y / factor)][x] for x in columns] for y in range(high)]


def encode_sixel(pixels: Pixels) -> str:
    """Return a picture as sixels, in 216 colors."""
    numbers = [[(r * 6 // 256) * 36 + (g * 6 // 256) * 6 + b * 6 // 256 for r, g, b in row] for row in pixels]
    used = sorted({number for row in numbers for number in row})
    colors = "".join(f"#{n};2;{n // 36 * 20};{n // 6 % 6 * 20};{n % 6 * 20}" for n in used)
    bands = []
    for top in range(0, len(numbers), 6):
        band = numbers[top : top + 6]
        lines = []
        for color in sorted({number for row in band for number in row}):
            bits = [sum((row[x] == color) << y for y, row in enumerate(band)) for x in range(len(band[0]))]
            runs = "".join(f"!{len(list(run))}{chr(63 + value)}" for value, run in itertools.groupby(bits))
            lines.append(f"#{color}{runs}")
        bands.append("$".join(lines))
    return f'\x1bPq"1;1;{len(pixels[0])};{len(pixels)}{colors}{"-".join(bands)}\x1b\\'
