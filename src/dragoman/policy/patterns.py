"""Patterns of rules: globs (`*`, `?`, `[abc]`), path patterns (also `**` and `~/`) and URL patterns. Pure.

A pattern becomes a regular expression that runs in time linear in pattern times text: stars match from the left, the
first position where the text between two stars fits is always good enough, so each match is an atomic group and never
retried. `shell_commands` has the patterns of commands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

_WILD = re.compile(r"[*?\[]")


def wildcards(pattern: str) -> int:
    """Return an upper bound on the number of wildcard characters in a pattern."""
    return len(_WILD.findall(pattern))


@lru_cache(maxsize=4096)
def glob_matcher(pattern: str) -> Callable[[str], object]:
    """Return a function that says whether a pattern matches a whole text; case-sensitive."""
    if not _WILD.search(pattern):
        return pattern.__eq__
    return re.compile(glob_regex(pattern, "."), re.S).fullmatch


def glob_regex(pattern: str, one: str) -> str:
    """Return the regular expression of a glob. A wildcard matches `one`: `.`, or `[^/]` within a file name."""
    first, *others = _between_stars(pattern, one)
    if not others:
        return first
    *middle, last = others
    found = "".join(f"(?>{one}*?{part})" for part in middle if part)
    return f"{first}{found}{one}*{last}" if last else f"{first}{found}{one}*+"


def _between_stars(pattern: str, one: str) -> list[str]:
    """Return the expressions before, between and after the stars; each matches a fixed number of characters."""
    made = [""]
    index = 0
    while index < len(pattern):
        character = pattern[index]
        index += 1
        if character == "*":
            made.append("")
        elif character == "?":
            made[-1] += one
        elif character == "[" and (end := _end_of_class(pattern, index)) > 0:
            made[-1] += _class(pattern[index:end], one)
            index = end + 1
        else:
            made[-1] += re.escape(character)
    return made


def _end_of_class(pattern: str, start: int) -> int:
    """Return the index of the closing bracket, or -1 if there is none. A `]` that comes first is a member."""
    first = start + 1 if pattern.startswith("!", start) else start
    return pattern.find("]", first + 1)


def _class(inner: str, one: str) -> str:
    """Return the expression for a character class, negated after `!`."""
    is_negated = inner.startswith("!")
    members = ""
    rest = inner[1:] if is_negated else inner
    index = 0
    while index < len(rest):
        low = rest[index]
        high = rest[index + 2] if rest[index + 1 : index + 2] == "-" and index + 2 < len(rest) else ""
        index += 3 if high else 1
        if not high:
            members += re.escape(low)
        elif low <= high:  # a reversed range matches nothing
            members += f"{re.escape(low)}-{re.escape(high)}"
    if not members:
        return one if is_negated else "(?!)"
    return f"(?=[{'^' if is_negated else ''}{members}]){one}"


# --- paths ------------------------------------------------------------------------------------------------------------

# The longest path that is compared, in characters: no system opens a longer one.
MAX_PATH_LENGTH = 4096

# One character of a name.
_ONE = "[^/]"
# As few folders as possible, and as many as possible.
_ACROSS_FEW = "(?:.*?/)??"
_ACROSS_ALL = "(?:.*/)?"


def path_pattern_fault(pattern: str) -> str | None:
    """Return what is wrong with a pattern; None if it is valid."""
    if not pattern:
        return "the pattern is empty; use ** to match everything"
    if "\0" in pattern:
        return "a path cannot contain a NUL character"
    if ".." in pattern.split("/"):
        return "'..' never matches, because paths are resolved first; write the resolved path"
    if pattern.startswith("~") and pattern != "~" and not pattern.startswith("~/"):
        return "only ~/ is supported; write the full path of another user's home"
    return None


@lru_cache(maxsize=4096)
def path_matcher(patterns: tuple[str, ...], bases: tuple[str, ...], home: str) -> Callable[[str], object]:
    """Return a function that says whether an absolute path matches one of these patterns.

    A relative pattern counts below each base.
    """
    return re.compile("|".join(_absolute_expressions(patterns, bases, home)) or "(?!)", re.S).fullmatch


def _absolute_expressions(patterns: tuple[str, ...], bases: tuple[str, ...], home: str) -> Iterator[str]:
    for pattern in patterns:
        if pattern.startswith("/"):
            yield _path_expression(pattern.split("/"))
            continue
        is_of_home = pattern == "~" or pattern.startswith("~/")
        for base in ((home,) if home else ()) if is_of_home else bases:
            yield from _expressions_below(base, pattern.removeprefix("~/" if is_of_home else "./"))


def _expressions_below(base: str, pattern: str) -> Iterator[str]:
    """Yield what matches the folder itself, if the pattern does, and what matches inside of it."""
    folder = re.escape(base.rstrip("/"))
    if pattern in (".", "~") or re.fullmatch(_path_expression(pattern.split("/")), "", re.S):
        yield folder or "/"
    if pattern == "~":
        yield f"{folder}/.*"
    elif pattern != ".":
        yield f"{folder}/(?:{_path_expression(pattern.split('/'))})"


def _path_expression(parts: list[str]) -> str:
    """Return names and `**` as one expression.

    Between two `**` is a fixed number of names. The first position where they fit is always good enough, because the
    rest may start anywhere behind it. So each match is atomic and never retried.
    """
    runs: list[list[str]] = [[]]  # the names before, between and after `**`; two in a row count as one
    for index, part in enumerate(parts):
        if part != "**":
            runs[-1].append(glob_regex(part, _ONE))
        elif index == 0 or parts[index - 1] != "**":
            runs.append([])
    first, *others = runs
    if not others:
        return "/".join(first)
    *middle, last = others
    start = "".join(f"{name}/" for name in first)
    found = ["".join(f"{name}/" for name in names) for names in middle]
    if found and not last:
        found[-1] = found[-1].removesuffix("/") + "(?![^/])"
    made = start + "".join(f"(?>{_ACROSS_FEW}{each})" for each in found)
    if last:
        return made + _ACROSS_ALL + "/".join(last)
    if start in ("", "/") and not found:
        return f"{start}.*"
    return made.removesuffix("/") + "(?:/.*)?"  # src/** includes the folder itself


# --- URLs -------------------------------------------------------------------------------------------------------------

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
