"""Pixels as sixels, for terminals that have no other way."""

from __future__ import annotations

import itertools
import re

from dragoman.tui.images.png import Pixels

# What each level of a channel adds to the number of a color: six levels a channel.
_RED, _GREEN, _BLUE = ([level * 6 // 256 * weight for level in range(256)] for weight in (36, 6, 1))

# The character of six pixels, and characters that are shorter with a number.
_CHARACTERS = bytes(63 + bits if bits < 64 else 0 for bits in range(256))
_REPEATED = re.compile(r"(.)\1{3,}")


def scale(pixels: Pixels, width: int, height: int) -> Pixels:
    """Return the picture in at most this size, by its nearest pixels."""
    factor = min(1.0, width / len(pixels[0]), height / len(pixels))
    wide, high = max(1, int(len(pixels[0]) * factor)), max(1, int(len(pixels) * factor))
    columns = [int(x / factor) for x in range(wide)]
    return [[pixels[int(y / factor)][x] for x in columns] for y in range(high)]


def encode_sixel(pixels: Pixels) -> str:
    """Return a picture as sixels, in 216 colors."""
    numbers = [[_RED[red] + _GREEN[green] + _BLUE[blue] for red, green, blue in row] for row in pixels]
    used = sorted(set(itertools.chain.from_iterable(numbers)))
    colors = "".join(f"#{n};2;{n // 36 * 20};{n // 6 % 6 * 20};{n % 6 * 20}" for n in used)
    bands = [_encode_band(numbers[top : top + 6]) for top in range(0, len(numbers), 6)]
    return f'\x1bPq"1;1;{len(pixels[0])};{len(pixels)}{colors}{"-".join(bands)}\x1b\\'


def _encode_band(band: list[list[int]]) -> str:
    """Return up to six rows: one line for each color. Each pixel is looked at once, whatever the number of colors."""
    width = len(band[0])
    lines: dict[int, bytearray] = {}
    for y, row in enumerate(band):
        bit = 1 << y
        for x, color in enumerate(row):
            line = lines.get(color)
            if line is None:
                line = lines[color] = bytearray(width)
            line[x] |= bit
    return "$".join(f"#{color}{_shorten(lines[color])}" for color in sorted(lines))


def _shorten(bits: bytearray) -> str:
    """Return the characters of one line, with a number before those that repeat."""
    text = bits.rstrip(b"\0").translate(_CHARACTERS).decode("ascii")
    return _REPEATED.sub(lambda run: f"!{len(run[0])}{run[1]}", text)
