"""Move this process into a network namespace that has only loopback.

Linux only, with or without root (then by a user namespace). Where that is not allowed, `closed_proxies` gives variables
that send everything that minds proxies against a closed port of this machine.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS = 0x8913
SIOCSIFFLAGS = 0x8914
IFF_UP = 0x1

# Port 9 (discard) is closed on every machine we know; a connection to it is refused at once.
CLOSED = "http://127.0.0.1:9"


def enter() -> bool:
    """Leave all networks except loopback; return whether that worked. Call it before any thread starts."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        uid, gid = os.getuid(), os.getgid()
        if libc.unshare(CLONE_NEWNET) != 0:
            if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
                return False
            for file, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
                with open(f"/proc/self/{file}", "w") as map:
                    map.write(text)
        _raise_loopback()
    except (OSError, AttributeError):
        return False
    return True


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tool:
        request = struct.pack("16sh", b"lo", 0) + bytes(14)
        flags = struct.unpack("16sh", fcntl.ioctl(tool, SIOCGIFFLAGS, request)[:18])[1]
        fcntl.ioctl(tool, SIOCSIFFLAGS, struct.pack("16sh", b"lo", flags | IFF_UP) + bytes(14))


def closed_proxies() -> dict[str, str]:
    """Proxy variables that point to a closed port, for a machine where `enter` does not work."""
    names = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    here = "127.0.0.1,localhost"
    return {**dict.fromkeys(names, CLOSED), "no_proxy": here, "NO_PROXY": here}
