"""Addresses taken apart, and the patterns of rules for them: part by part, so that no star reaches into another part.

An address that is spelled to be read in two ways has no parts for us, and no rule may claim to know where it leads.
Pure.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from dragoman.policy.globs import word

# Scheme, perhaps user and password, host, perhaps a port, and the rest.
_URL = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?:[^/?#@]*@)?(?P<host>\[[0-9a-f:.]+\]|[^/?#@:]+)(?::(?P<port>\d*))?"
    r"(?P<path>/[^?#]*)?(?:[?#]|$)",
    re.I,
)
_ODD = re.compile(r"[\\\s\x00-\x1f\x7f]")
_PATTERN = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<host>\[[0-9a-f:.]+\]|[^/?#@:\[\]]+)(?::(?P<port>\d+))?(?P<path>/[^?#]*)?",
    re.I,
)
_PORTS = {"http": "80", "ws": "80", "https": "443", "wss": "443"}
# A path that leads up, in any spelling, is not the path it looks like.
_UP = re.compile(r"(?:^|/|%2f)(?:\.|%2e){1,2}(?:/|%2f|$)", re.I)


class Address(NamedTuple):
    """The parts of an address that say where it leads."""

    scheme: str
    host: str
    port: str  # "" where it is the usual one
    path: str


@lru_cache(maxsize=1024)
def address(url: str) -> Address | None:
    """The parts of an address; None where they are not plain."""
    found = None if _ODD.search(url) else _URL.match(url)
    if found is None:
        return None
    scheme = found["scheme"].lower()
    port = found["port"] or ""
    return Address(
        scheme, found["host"].lower().rstrip("."), "" if port == _PORTS.get(scheme) else port, found["path"] or "/"
    )


class UrlPattern:
    """What a rule says of addresses: scheme, host and port, and perhaps a path; `*` in host and path."""

    __slots__ = ("_host", "_path", "_port", "_scheme")

    def __init__(self, scheme: str, host: str, port: str, path: str | None) -> None:
        self._scheme = scheme
        self._host = host
        self._port = port
        self._path = path

    @classmethod
    def read(cls, written: str) -> UrlPattern:
        """A pattern as it is written in a file; ValueError says what is wrong."""
        found = None if _ODD.search(written) else _PATTERN.fullmatch(written)
        if found is None:
            raise ValueError("an address has a scheme and a host, as in https://docs.example.org/mcp")
        scheme, port = found["scheme"].lower(), found["port"] or ""
        return cls(scheme, found["host"].lower(), "" if port == _PORTS.get(scheme) else port, found["path"])

    def matches(self, wanted: Address) -> bool:
        """Whether an address is meant; one whose path leads up is not, unless every path is."""
        if (wanted.scheme, wanted.port) != (self._scheme, self._port) or not word(self._host)(wanted.host):
            return False
        return self._path is None or (bool(word(self._path)(wanted.path)) and not _UP.search(wanted.path))
