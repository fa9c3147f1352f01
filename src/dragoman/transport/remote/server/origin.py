"""What keeps strangers and web pages out: the checks of Host and Origin, who is at the other end, and where to listen.

Takes a Knock, raises Refused. A web page can reach every port of the machine it is shown on, under any name it likes:
so the name it used (Host) and the place it comes from (Origin) must be ours. Tokens are the host's matter.
"""

from __future__ import annotations

import asyncio
import getpass
import ipaddress
import os
import sys
from collections.abc import Collection
from pathlib import Path
from urllib.parse import urlsplit

from dragoman.errors import StartFailed
from dragoman.transport.remote.server.auth import AuthRequest, Principal, Refused
from dragoman.transport.remote.server.confinement import may_be_confined

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

# A request that a proxy passed on comes from somebody else than the socket says.
_FORWARDED_HEADERS = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


def check_host(request: AuthRequest, hosts: Collection[str]) -> None:
    """The name the client used must be one of ours, else a name of its own leads a page of its own here (421)."""
    name = _host_name(request.headers.get("host", ""))
    if name in hosts:
        return
    if is_loopback(request.server_address[0]) or not request.server_address[0]:
        if name in LOOPBACK_NAMES:
            return
    elif not hosts:
        return  # another address than loopback has TLS, which checks the name
    raise Refused(
        421,
        f"this server is not called {name!r}; use the address it prints, or start it with --name (hosts=)",
    )


def check_origin(request: AuthRequest, origins: Collection[str]) -> None:
    """A page of another place must not drive us (403); programs that are no browsers send no Origin."""
    origin = request.headers.get("origin")
    if origin is None or origin in origins:
        return
    own = f"{'https' if request.is_secure else 'http'}://{request.headers.get('host', '')}"
    if origin.lower() == own.lower():
        return
    raise Refused(
        403,
        f"pages of {origin} may not use this server; if they should, start it with --origin URL (origins=)",
    )


async def authenticate_local(request: AuthRequest) -> Principal:
    """The owner of this process on this machine, and nobody else: the door without tokens."""
    if not is_loopback(request.address):
        raise Refused(403, "only the owner of this server may use it, from the machine it runs on; set up tokens first")
    for name in _FORWARDED_HEADERS:
        if name in request.headers:
            raise Refused(403, f"a proxy passed this on ({name}), so nobody knows who asks; set up tokens first")
    if "uid" not in request.socket_cache:  # a socket stays its owner's, and the kernel's table takes a while to read
        request.socket_cache["uid"], request.socket_cache["inode"] = _owner(
            (request.address, request.port), request.server_address
        )
    uid = request.socket_cache["uid"]
    if uid is not None and uid != os.getuid():
        raise Refused(403, "another user of this machine runs this server; start one of your own")
    if "confined" not in request.socket_cache:
        is_known = uid is not None
        request.socket_cache["confined"] = is_known and await asyncio.to_thread(
            may_be_confined, request.socket_cache["inode"], uid
        )
    if request.socket_cache["confined"]:
        raise Refused(403, "a sandboxed program of yours may be asking, and it must not act as you; it needs a token")
    return Principal(user=current_user(), is_local=True, address=request.address)


def current_user() -> str:
    """The name of the user who runs this process."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return str(os.getuid()) if hasattr(os, "getuid") else "owner"


def socket_owner(client_end: tuple[str, int], server_end: tuple[str, int]) -> int | None:
    """The user id behind a TCP socket of this machine; None where that cannot be found out, -1 where nobody is."""
    return _owner(client_end, server_end)[0]


def _owner(there: tuple[str, int], here: tuple[str, int]) -> tuple[int | None, str]:
    """The same, and the inode of the socket."""
    if sys.platform != "linux":
        return None, ""
    try:
        local, remote = ipaddress.ip_address(there[0]), ipaddress.ip_address(here[0])
        tables = ("/proc/net/tcp6", "/proc/net/tcp")
        ends = _proc_net_addresses(local, there[1]), _proc_net_addresses(remote, here[1])
        for table in tables:
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if len(fields) > 9 and fields[1] in ends[0] and fields[2] in ends[1]:
                    # inode 0: the socket was left, nobody owns it
                    return (int(fields[7]) if fields[9] != "0" else -1), fields[9]
    except (OSError, ValueError):
        return None, ""
    return -1, ""


def _proc_net_addresses(address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> set[str]:
    """An end of a socket as the kernel's tables write it: words of four bytes in the machine's order."""

    def words(packed: bytes) -> str:
        pieces = (packed[start : start + 4] for start in range(0, len(packed), 4))
        return "".join(f"{int.from_bytes(piece, sys.byteorder):08X}" for piece in pieces)

    four = address if address.version == 4 else address.ipv4_mapped
    spellings = {f"{words(address.packed)}:{port:04X}"}
    if four is not None:
        mapped = ipaddress.IPv6Address(b"\0" * 10 + b"\xff\xff" + four.packed)
        spellings |= {f"{words(four.packed)}:{port:04X}", f"{words(mapped.packed)}:{port:04X}"}
    return spellings


def is_loopback(address: str) -> bool:
    """Whether this address leads to the same machine."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address == "localhost"
    mapped = getattr(ip, "ipv4_mapped", None)
    return (mapped or ip).is_loopback


def check_bind(bind: str, *, has_tls: bool, has_auth: bool) -> tuple[str, int]:
    """The address and port to listen at; StartFailed when that would open a door without a lock."""
    address, port = parse_bind(bind)
    if is_loopback(address):
        return address, port
    if not has_tls:
        raise StartFailed(
            f"{bind}: other machines can reach this address, so it needs TLS; give a certificate and its key, "
            "or bind 127.0.0.1 and forward the port with ssh -L"
        )
    if not has_auth:
        raise StartFailed(
            f"{bind}: other machines can reach this address, so everybody must show who they are; "
            "set up tokens, or give an `admit` of your own"
        )
    return address, port


def parse_bind(bind: str) -> tuple[str, int]:
    """The parts of `127.0.0.1:8000`, `[::1]:8000`, `localhost:8000` or a bare port, which is on loopback."""
    if bind.isascii() and bind.isdigit():
        return "127.0.0.1", int(bind)
    try:
        parts = urlsplit(f"//{bind}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or port is None or parts.path or parts.query:
        raise StartFailed(f"{bind}: say where to listen like 127.0.0.1:8000")
    return ("127.0.0.1" if host == "localhost" else host), port


def _host_name(host: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
