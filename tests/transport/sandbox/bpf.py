"""An interpreter for classic BPF, as far as system call filters use it."""

from __future__ import annotations

import struct

ALLOWED = 0


def verdict(program: bytes, audit: int, number: int, *arguments: int) -> int:
    """Return 0 where the call is allowed, otherwise its errno."""
    data = struct.pack("=IIQ6Q", number, audit, 0, *(list(arguments) + [0] * 6)[:6])
    code = list(struct.iter_unpack("=HBBI", program))
    at = accumulator = 0
    while True:
        operation, if_true, if_false, value = code[at]
        at += 1
        match operation:
            case 0x20:
                (accumulator,) = struct.unpack_from("=I", data, value)
            case 0x54:
                accumulator &= value
            case 0x15:
                at += if_true if accumulator == value else if_false
            case 0x35:
                at += if_true if accumulator >= value else if_false
            case 0x45:
                at += if_true if accumulator & value else if_false
            case 0x06:
                return ALLOWED if value == 0x7FFF0000 else value & 0xFFFF
            case _:
                raise AssertionError(f"no such instruction: {operation:#x}")
