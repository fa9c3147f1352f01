"""Compare versions, and check them against the ranges of npm (`engines.node`) and of Python (`Requires-Python`).

Pure. Agents of the registry have versions like 2026.10.01 and 3000.6.7, so the comparison accepts more than semver.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

Version = tuple[int, ...]

_LEADING_NUMBERS = re.compile(r"v?(\d+(?:\.\d+)*)")
_PYTHON_PRERELEASE = re.compile(r"(a|b|rc|\.dev|alpha|beta|c|pre|preview)\d*")


def parse_version(text: str) -> Version:
    """Return the leading numbers of a version; () if it has none."""
    match = _LEADING_NUMBERS.match(text.strip())
    return tuple(map(int, match[1].split("."))) if match else ()


def is_prerelease(text: str) -> bool:
    """Whether a version is one before a release, by the rules of npm or of Python."""
    rest = _LEADING_NUMBERS.sub("", text.strip(), count=1).partition("+")[0]
    return rest.startswith("-") or _PYTHON_PRERELEASE.match(rest.lower()) is not None


def sort_key(text: str) -> tuple[Version, bool, tuple[tuple[bool, int, str], ...]]:
    """Return a key that orders versions: by numbers, a prerelease before its release."""
    numbers = parse_version(text)
    while numbers and numbers[-1] == 0:
        numbers = numbers[:-1]
    rest = _LEADING_NUMBERS.sub("", text.strip(), count=1).partition("+")[0].lstrip("-.")
    words = re.findall(r"\d+|[A-Za-z]+", rest)
    # Numbers come before words, as in semver.
    parts = tuple((not word.isdigit(), int(word) if word.isdigit() else 0, word) for word in words)
    return numbers, not is_prerelease(text), parts


def is_newer(version: str, than: str) -> bool:
    """Whether one version comes after another."""
    return sort_key(version) > sort_key(than)


def newest(versions: Iterable[str]) -> str:
    """Return the newest release, or the newest prerelease if there is no release; "" if there is none."""
    known = list(versions)
    releases = [version for version in known if not is_prerelease(version)]
    return max(releases or known, key=sort_key, default="")


# --- ranges of npm --------------------------------------------------------------------------------------------


def satisfies_npm_range(version: str, wanted: str) -> bool:
    """Whether a version is in a range such as ">=20", "^20.19.0 || >=22.12.0" or "18.x"."""
    have = _padded(parse_version(version))
    return any(all(_in_bounds(have, *each) for each in _npm_bounds(part)) for part in wanted.split("||"))


def _npm_bounds(text: str) -> list[tuple[Version, Version | None]]:
    """Return pairs (from, below) that all must hold; an unreadable part holds, as npm only warns."""
    text = text.strip()
    if match := re.fullmatch(r"(\S+)\s+-\s+(\S+)", text):
        upper = parse_version(match[2])
        return [(_padded(parse_version(match[1])), _after(upper, len(upper) - 1) if upper else None)]
    bounds = []
    for operator, number in re.findall(r"(>=|<=|>|<|=|\^|~)?\s*v?([\dxX*][\w.*-]*)", text):
        known = parse_version(re.sub(r"\.?[xX*].*", "", number))
        bounds.append(_bounds_of(operator, known))
    return bounds


def _bounds_of(operator: str, known: Version) -> tuple[Version, Version | None]:
    low = _padded(known)
    if not known:  # "*" and "x"
        return (0, 0, 0), None
    match operator:
        case ">=":
            return low, None
        case ">":
            return _after(known, len(known) - 1), None
        case "<":
            return (0, 0, 0), low
        case "<=":
            return (0, 0, 0), _after(known, len(known) - 1)
        case "^":
            first = next((index for index, part in enumerate(known) if part), len(known) - 1)
            return low, _after(known, first)
        case "~":
            return low, _after(known, min(1, len(known) - 1))
    return low, _after(known, len(known) - 1)


def _in_bounds(version: Version, low: Version, below: Version | None) -> bool:
    return low <= version and (below is None or version < below)


def _padded(version: Version) -> Version:
    return (*version, 0, 0, 0)[:3]


def _after(version: Version, index: int) -> Version:
    """Return the first version whose number at this place is greater."""
    return _padded((*version[:index], version[index] + 1))


# --- ranges of Python -----------------------------------------------------------------------------------------


def satisfies_python_range(version: str, wanted: str) -> bool:
    """Whether a version is in a range such as ">=3.12,<3.15" or "~=3.11"."""
    have = parse_version(version)
    return all(_holds(have, part.strip()) for part in wanted.split(",") if part.strip())


def _holds(have: Version, part: str) -> bool:
    match = re.fullmatch(r"(>=|<=|>|<|===?|!=|~=)\s*([\d.]+?)(\.\*)?", part)
    if match is None:
        return True  # unreadable: the installer decides
    operator, number, is_prefix = match[1], parse_version(match[2]), match[3]
    width = max(len(have), len(number))
    left, right = (*have, *[0] * (width - len(have))), (*number, *[0] * (width - len(number)))
    if operator == "~=":
        return left >= right and have[: len(number) - 1] == number[:-1]
    if is_prefix:
        same = left[: len(number)] == number
        return same if operator.startswith("=") else not same
    return {
        ">=": left >= right,
        "<=": left <= right,
        ">": left > right,
        "<": left < right,
        "!=": left != right,
    }.get(operator, left == right)
