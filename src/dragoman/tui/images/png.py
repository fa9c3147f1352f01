"""What is in a picture: the size of a PNG, GIF or JPEG, and the pixels of a PNG."""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from collections.abc import Iterator

Pixels = list[list[tuple[int, int, int]]]

# A PNG with more pixels is not decoded: it would take seconds.
MAX_PIXELS = 1_000_000


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


def decode_png(data: str) -> Pixels | None:
    """Return the pixels of a PNG with 8 bits a channel, on black; None for any other."""
    size = picture_size(data)
    if size is None or size[0] * size[1] > MAX_PIXELS:
        return None
    try:
        content = base64.b64decode(data)
        # Joined at the end: a picture may be in a million chunks.
        parts: dict[bytes, list[bytes]] = {b"IHDR": [], b"PLTE": [], b"IDAT": []}
        for name, body in _png_chunks(content):
            if name in parts:
                parts[name].append(body)
        chunks = {name: b"".join(bodies) for name, bodies in parts.items()}
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
        length = int.from_bytes(content[at : at + 4])
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
    if kind == 0:
        return row
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
