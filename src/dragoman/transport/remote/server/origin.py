"""Checks of Host and Origin, of the local user behind a socket, and of the address to bind.

A web page can reach every port of its machine under any host name, so Host and Origin must be allowed.
"""

from __future__ import annotations

import asyncio
import getpass
import ipaddress
import os
import sys
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from dragoman.errors import StartFailed
from dragoman.transport.remote.server.auth import AuthRequest, Principal, Refused, unauthorized_error

_PROCESSES = "/proc"

# Whether the system tells which user owns a socket.
_TELLS_OWNERS = sys.platform == "linux"

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

# A request with one of these came through a proxy, so the socket does not show who sent it.
_FORWARDED_HEADERS = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")

# Where a browser may say that a request without Origin comes from: typed by the user, or from our own pages.
_OWN_SITES = ("none", "same-origin")


def check_host(request: AuthRequest, hosts: Collection[str]) -> None:
    """Refuse a Host that is not ours (421): a foreign name may lead a foreign web page here (DNS rebinding)."""
    name = _host_name(request.headers.get("host", ""))
    if name in hosts:
        return
    if is_loopback(request.server_address[0]) or not request.server_address[0]:
        if name in LOOPBACK_NAMES:
            return
    elif not hosts:
        return  # addresses other than loopback have TLS, which checks the name
    raise Refused(
        421,
        f"this server is not called {name!r}; use the address it prints, or start it with --name (hosts=)",
    )


def check_origin(request: AuthRequest, origins: Collection[str]) -> None:
    """Refuse pages of a foreign origin (403); programs other than browsers send no Origin."""
    origin = request.headers.get("origin")
    if origin is None or origin in origins:
        return
    own_origin = f"{'https' if request.is_secure else 'http'}://{request.headers.get('host', '')}"
    if origin.lower() == own_origin.lower():
        return
    raise Refused(
        403,
        f"pages of {origin} may not use this server; if they should, start it with --origin URL (origins=)",
    )


async def authenticate_local(request: AuthRequest) -> Principal:
    """Allow only the owner of this process, on this machine: authentication without tokens."""
    if not is_loopback(request.address):
        raise Refused(403, "only the owner of this server may use it, from the machine it runs on; set up tokens first")
    for name in _FORWARDED_HEADERS:
        if name in request.headers:
            raise Refused(403, f"a proxy passed this on ({name}), so the sender is unknown; set up tokens first")
    if request.headers.get("sec-fetch-site", "none") not in _OWN_SITES and "origin" not in request.headers:
        raise Refused(403, "a page of another site asks for this; open the address yourself")
    uid = _cached_uid(request)
    if uid is None:
        raise unauthorized_error(
            "this system does not tell whose connection this is; prove that you are the owner: send a token of yours "
            "(dragoman tokens create YOUR-USER-NAME --role admin, with the --store of the host if it has one), or "
            "serve with your own `authenticate`"
        )
    if uid != os.getuid():
        raise Refused(403, "another user of this machine runs this server; start one of your own")
    cache = request.socket_cache
    if "confined" not in cache:  # looking at all processes is slow, so requests that come together share it
        cache["confined"] = asyncio.ensure_future(asyncio.to_thread(may_be_confined, cache["inode"], uid))
    if isinstance(cache["confined"], asyncio.Future):
        cache["confined"] = await asyncio.shield(cache["confined"])
    if cache["confined"]:
        raise Refused(403, "this may be a sandboxed program, which must not act as you; it needs a token")
    if "user" not in cache:
        cache["user"] = current_user()
    return Principal(user=cache["user"], is_local=True, address=request.address)


def needs_proof(request: AuthRequest) -> bool:
    """Whether this is a connection on this machine of which the system does not tell whose it is."""
    is_direct = is_loopback(request.address) and not any(name in request.headers for name in _FORWARDED_HEADERS)
    return is_direct and _cached_uid(request) is None


def _cached_uid(request: AuthRequest) -> int | None:
    """Return the user id behind the socket of a request, as `socket_owner` does."""
    cache = request.socket_cache
    if "uid" not in cache:  # the owner of a socket never changes, and the kernel's table is slow to read
        cache["uid"], cache["inode"] = _owner_and_inode((request.address, request.port), request.server_address)
    uid: int | None = cache["uid"]
    return uid


def current_user() -> str:
    """Return the name of the user who runs this process."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return str(os.getuid()) if hasattr(os, "getuid") else "owner"


def socket_owner(client_end: tuple[str, int], server_end: tuple[str, int]) -> int | None:
    """Return the user id behind a local TCP socket; None where that is unknown, -1 where nobody owns it."""
    return _owner_and_inode(client_end, server_end)[0]


def _owner_and_inode(client_end: tuple[str, int], server_end: tuple[str, int]) -> tuple[int | None, str]:
    """Return the same, and the inode of the socket."""
    if not _TELLS_OWNERS:
        return None, ""
    try:
        local, remote = ipaddress.ip_address(client_end[0]), ipaddress.ip_address(server_end[0])
        tables = ("/proc/net/tcp6", "/proc/net/tcp")
        wanted = _proc_net_addresses(local, client_end[1]), _proc_net_addresses(remote, server_end[1])
        for table in tables:
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if len(fields) > 9 and fields[1] in wanted[0] and fields[2] in wanted[1]:
                    # inode 0: the socket was closed by its owner
                    return (int(fields[7]) if fields[9] != "0" else -1), fields[9]
    except (OSError, ValueError):
        return None, ""
    return -1, ""


def _proc_net_addresses(address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> set[str]:
    """Return an end of a socket as in the kernel's tables: words of four bytes in the machine's byte order."""

    def hex_words(packed: bytes) -> str:
        pieces = (packed[start : start + 4] for start in range(0, len(packed), 4))
        return "".join(f"{int.from_bytes(piece, sys.byteorder):08X}" for piece in pieces)

    ipv4 = address if address.version == 4 else address.ipv4_mapped
    spellings = {f"{hex_words(address.packed)}:{port:04X}"}
    if ipv4 is not None:
        mapped = ipaddress.IPv6Address(b"\0" * 10 + b"\xff\xff" + ipv4.packed)
        spellings |= {f"{hex_words(ipv4.packed)}:{port:04X}", f"{hex_words(mapped.packed)}:{port:04X}"}
    return spellings


def may_be_confined(inode: str, uid: int) -> bool:
    """Whether a confined process of this user may hold the socket: one runs, and no other process is seen to hold it.

    A sandboxed process has its user's id but not all rights. Landlock, seccomp without privileges and bubblewrap set
    "no new privileges", which every descendant keeps forever. A confined process can hide its open files, so those are
    not checked. False if we are confined ourselves, which then says nothing about others.
    """
    if _is_confined("self", uid):
        return False
    pids = [name for name in os.listdir(_PROCESSES) if name.isdigit()]
    # One that exited meanwhile (None) may have left the socket to a child that is not in the list.
    if all(_is_confined(pid, uid) is False for pid in pids):
        return False
    # In this order: a process that is not confined now was not confined when it held the socket.
    return not any(_holds(pid, f"socket:[{inode}]") and _is_confined(pid, uid) is False for pid in pids)


def _is_confined(pid: str, uid: int) -> bool | None:
    """Whether this is a confined process of the user; None if it exited."""
    try:
        with open(f"{_PROCESSES}/{pid}/status", encoding="utf-8", errors="replace") as file:
            fields = dict(line.partition(":")[::2] for line in file)
    except OSError:
        return None
    return fields.get("NoNewPrivs", "").strip() == "1" and str(uid) in fields.get("Uid", "").split()


def _holds(pid: str, target: str) -> bool:
    """Whether a process has this open, as far as we may see."""
    folder = f"{_PROCESSES}/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    for name in names:
        try:
            if os.readlink(f"{folder}/{name}") == target:
                return True
        except OSError:  # closed meanwhile
            continue
    return False


@lru_cache(1024)  # every request asks, and most come from the same few addresses
def is_loopback(address: str) -> bool:
    """Whether this address is this machine."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address == "localhost"
    mapped = getattr(ip, "ipv4_mapped", None)
    return (mapped or ip).is_loopback


def check_bind(bind: str, *, has_tls: bool, has_auth: bool) -> tuple[str, int]:
    """Return the address and port to listen at; raise StartFailed when other machines could connect without TLS or
    authentication.
    """
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
            f"{bind}: other machines can reach this address, so clients must authenticate; "
            "set up tokens, or pass your own `authenticate`"
        )
    return address, port


def check_owner_known() -> None:
    """Raise StartFailed where the system does not tell whose connection it is, so that nobody could connect."""
    if not _TELLS_OWNERS:
        raise StartFailed(
            "this system does not tell whose connection it is, so the server would refuse everybody; "
            "pass `authenticate`, for example authenticate=accept_token(SECRET) from "
            "dragoman.transport.remote.server.auth, and connect with that token"
        )


MAX_PORT = 65535


def parse_bind(bind: str) -> tuple[str, int]:
    """Parse `127.0.0.1:8000`, `[::1]:8000`, `localhost:8000` or a bare port, which is on loopback."""
    port_text = bind.rpartition(":")[2]
    if port_text.isascii() and port_text.isdigit() and int(port_text) > MAX_PORT:
        raise StartFailed(f"{bind}: {port_text} is not a port; the largest is {MAX_PORT}")
    if bind.isascii() and bind.isdigit():
        return "127.0.0.1", int(bind)
    try:
        parts = urlsplit(f"//{bind}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or port is None or parts.path or parts.query:
        raise StartFailed(f"{bind}: give the address to listen at, like 127.0.0.1:8000")
    return ("127.0.0.1" if host == "localhost" else host), port


def _host_name(host: str) -> str:
    """Return the name in a Host header, without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
