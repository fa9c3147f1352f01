"""Pixels as sixels, for terminals that have no other way."""

from __future__ import annotations

import itertools

from dragoman.tui.images.png import Pixels


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
