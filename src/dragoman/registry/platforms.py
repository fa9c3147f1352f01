"""The platform of this machine as the registry names it, and what keeps a binary from running here."""

from __future__ import annotations

import os
import platform
import struct
import sys
from typing import NamedTuple

SYSTEMS = {"linux": "linux", "darwin": "darwin", "win32": "windows"}
PROCESSORS = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
PLATFORMS = tuple(f"{system}-{processor}" for system in SYSTEMS.values() for processor in ("aarch64", "x86_64"))

_ELF = b"\x7fELF"
_PT_INTERP = 3
# The program headers of a file are at its beginning; its interpreter's path is short.
_ELF_HEAD = 64 * 1024


class Machine(NamedTuple):
    """What decides which distribution fits."""

    platform: str  # "linux-x86_64"; "" where the registry has no name for it
    prefers_packages: bool = False  # dynamic binaries of others rarely start here: musl, NixOS


def this_machine() -> Machine:
    """Return the machine we run on."""
    system, processor = SYSTEMS.get(sys.platform, ""), PROCESSORS.get(platform.machine().lower(), "")
    name = f"{system}-{processor}" if system and processor else ""
    return Machine(name, system == "linux" and (os.path.exists("/etc/NIXOS") or not has_glibc()))


def has_glibc() -> bool:
    """Whether the C library of this Python is glibc; musl is another one."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") is not None
    except (ValueError, OSError, AttributeError):
        return False


def missing_interpreter(path: str) -> str:
    """Return the dynamic loader that an ELF program needs and this machine does not have; "" if nothing is missing."""
    with open(path, "rb") as file:
        head = file.read(_ELF_HEAD)
    loader = elf_interpreter(head)
    return loader if loader and not os.path.exists(loader) else ""


def elf_interpreter(head: bytes) -> str:
    """Return the loader that an ELF file names in its program headers; "" for a static program or another format."""
    if len(head) < 64 or not head.startswith(_ELF) or head[4] != 2:  # 2: 64 bits, as all platforms of the registry
        return ""
    order = "<" if head[5] == 1 else ">"
    table, size, count = *struct.unpack_from(f"{order}Q", head, 32), *struct.unpack_from(f"{order}HH", head, 54)
    for number in range(count):
        at = table + number * size
        if at + 56 > len(head):
            return ""
        if struct.unpack_from(f"{order}I", head, at)[0] == _PT_INTERP:
            start, length = (
                struct.unpack_from(f"{order}Q", head, at + 8)[0],
                struct.unpack_from(f"{order}Q", head, at + 32)[0],
            )
            return head[start : start + length].rstrip(b"\0").decode("utf-8", "replace")
    return ""
