"""Sample content of the everything agent: a picture, a sound, a document, a long text. Deterministic."""

from __future__ import annotations

from base64 import b64encode

_FILLER = "all work and no play makes a dull agent "

_SIDE = 16  # pixels of the picture, both ways
_RATE = 8000  # samples of the sound in a second
_SECONDS = 0.25
_PITCH = 440  # Hz

DOCUMENT = "# A note\n\nThis text is part of the message, so nobody has to fetch it.\n"


def chunk(number: int, size: int = 0) -> str:
    """Return the text of chunk `number`: unique, padded to `size` characters."""
    text = f"chunk {number:05d} "
    missing = size - len(text)
    if missing <= 0:
        return text
    return text + (_FILLER * (missing // len(_FILLER) + 1))[:missing]


def picture() -> str:
    """Return a PNG of 16 by 16 pixels, as base64: a gradient of red and green."""
    import struct
    import zlib

    def part(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    step = 256 // _SIDE
    rows = (b"".join(bytes((x * step, y * step, 160)) for x in range(_SIDE)) for y in range(_SIDE))
    pixels = b"".join(b"\0" + row for row in rows)  # each row starts with its filter type: none
    header = struct.pack(">IIBBBBB", _SIDE, _SIDE, 8, 2, 0, 0, 0)  # 8 bits of red, green and blue
    parts = part(b"IHDR", header) + part(b"IDAT", zlib.compress(pixels)) + part(b"IEND", b"")
    return b64encode(b"\x89PNG\r\n\x1a\n" + parts).decode()


def sound() -> str:
    """Return a WAV of a quarter of a second, as base64: a square wave, 8 bits per sample."""
    import struct

    half = _RATE / _PITCH / 2
    samples = bytes(160 if int(number / half) % 2 else 96 for number in range(int(_RATE * _SECONDS)))
    form = struct.pack("<HHIIHH", 1, 1, _RATE, _RATE, 1, 8)  # PCM, one channel
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(samples)) + samples
    return b64encode(b"RIFF" + struct.pack("<I", len(body)) + body).decode()
