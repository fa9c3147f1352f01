"""Parse URLs, and match them against the patterns of rules part by part, so that a star stays within its part.

An ambiguous URL is not parsed, and no rule matches it. Pure.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from dragoman.policy.globs import glob_matcher

# Scheme, optional user and password, host, optional port, and the rest.
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
# A path with ".." in any encoding is not the path it appears to be.
_UP = re.compile(r"(?:^|/|%2f)(?:\.|%2e){1,2}(?:/|%2f|$)", re.I)


class Address(NamedTuple):
    """The parts of a URL that say where it leads."""

    scheme: str
    host: str
    port: str  # "" for the default port
    path: str


@lru_cache(maxsize=1024)
def parse_url(url: str) -> Address | None:
    """Parse a URL; None if it is ambiguous."""
    found = None if _ODD.search(url) else _URL.match(url)
    if found is None:
        return None
    scheme = found["scheme"].lower()
    port = found["port"] or ""
    return Address(
        scheme, found["host"].lower().rstrip("."), "" if port == _PORTS.get(scheme) else port, found["path"] or "/"
    )


class UrlPattern:
    """A rule's pattern for URLs: scheme, host and port, and an optional path; `*` in host and path."""

    __slots__ = ("_host", "_path", "_port", "_scheme")

    def __init__(self, scheme: str, host: str, port: str, path: str | None) -> None:
        self._scheme = scheme
        self._host = host
        self._port = port
        self._path = path

    @classmethod
    def parse(cls, written: str) -> UrlPattern:
        """Parse a pattern from a policy file; raise ValueError if it is invalid."""
        found = None if _ODD.search(written) else _PATTERN.fullmatch(written)
        if found is None:
            raise ValueError("write a URL with a scheme and a host, as in https://docs.example.org/mcp")
        scheme, port = found["scheme"].lower(), found["port"] or ""
        return cls(scheme, found["host"].lower(), "" if port == _PORTS.get(scheme) else port, found["path"])

    def matches(self, wanted: Address) -> bool:
        """Return whether a URL matches; a path that leads up matches only a pattern without a path."""
        if (wanted.scheme, wanted.port) != (self._scheme, self._port) or not glob_matcher(self._host)(wanted.host):
            return False
        return self._path is None or (bool(glob_matcher(self._path)(wanted.path)) and not _UP.search(wanted.path))
