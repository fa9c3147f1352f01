"""Which addresses may be fetched, how mirrors replace them, and how they are shown without credentials. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit, urlunsplit

from dragoman.registry.fault import RegistryFault


def check_address(url: str, trusted_http: Iterable[str] = ()) -> None:
    """Raise RegistryFault unless this is https, or http to this machine or to a server that the user named."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and parts.hostname:
        if is_loopback(parts.hostname) or origin_of(url) in trusted_http:
            return
        raise RegistryFault("network", f"{shown_address(url)} is not https; nothing is fetched over plain http")
    raise RegistryFault("network", f"{shown_address(url)} is not an https address")


def is_loopback(host: str) -> bool:
    """Whether a host name is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def origin_of(url: str) -> str:
    """Return scheme, host and port."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"


def shown_address(url: str) -> str:
    """Return an address as it may be printed: without user, password, query and fragment."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def mirrored(url: str, mirrors: Mapping[str, str]) -> str:
    """Return the address with the longest matching beginning replaced by its mirror."""
    for start in sorted(mirrors, key=len, reverse=True):
        if url.startswith(start):
            return mirrors[start] + url[len(start) :]
    return url
