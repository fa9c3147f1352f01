"""The lists of packages that uv reads and writes: names, versions, markers and hashes; nothing else that uv obeys."""

from __future__ import annotations

import re

from dragoman.registry.fault import RegistryFault

PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s\\;]+)", re.M)

# Behind a semicolon. No two dashes: they would begin an option.
_MARKER = r"(?: *;(?:(?!--)[A-Za-z0-9_ .'\"()<>=!~,*+-])+)?"
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_VERSIONS = r"(?:[<>~=!]=|===|[<>]) *[0-9A-Za-z][0-9A-Za-z.*+!_-]*"
_RANGE = rf"{_VERSIONS}(?: *, *{_VERSIONS})*"
# What a package may say that it needs: name[extra]>=1,<2 ; marker. An address, a folder and an option are none.
REQUIREMENT = re.compile(
    rf" *{_NAME}(?: *\[ *{_NAME}(?: *, *{_NAME})* *\])?(?: *{_RANGE}| *\( *{_RANGE} *\))?{_MARKER} *"
)

_HASH = r"--hash=sha(?:256:[0-9a-f]{64}|384:[0-9a-f]{96}|512:[0-9a-f]{128})"
# name[extra]==version ; marker
_PACKAGE = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9._, -]*\])?==[0-9][0-9A-Za-z.+!_-]*"
    rf"{_MARKER}((?: {_HASH})*)( \\)?"
)
_HASHES = re.compile(rf" +{_HASH}(?: {_HASH})*( \\)?")
# A comment with a line end of another system, or one that goes on, is not the same line for all programs.
_COMMENT = re.compile(r" *(?:#[^\x00-\x1f\x7f-\x9f\u2028\u2029\\]*)?")
# Characters of a refused line that are shown.
_SHOWN = 60
_ADVICE = "ask its author for a lock that `dragoman agents lock` wrote"


def check_list(data: bytes, where: str) -> str:
    """Return a list as text; raise RegistryFault unless each line is a package with hashes, or a comment.

    An option in it, such as `--no-binary NAME`, would count more than those of our command line.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise RegistryFault("hash", f"{where} is no text; {_ADVICE}") from None
    goes_on, has_hash = False, True  # of the package that the line before belongs to
    for number, line in enumerate(text.split("\n"), 1):
        if goes_on:
            found = _HASHES.fullmatch(line)
            if found is None:
                raise _refusal(where, number, line)
            goes_on, has_hash = bool(found[1]), True
        elif package := _PACKAGE.fullmatch(line):
            goes_on, has_hash = bool(package[2]), bool(package[1])
        elif _COMMENT.fullmatch(line) is None:
            raise _refusal(where, number, line)
        if not goes_on and not has_hash:
            raise _refusal(where, number, line)
    if goes_on:
        raise RegistryFault("hash", f"{where} ends within a package; {_ADVICE}")
    return text


def _refusal(where: str, number: int, line: str) -> RegistryFault:
    shown = ascii(line[:_SHOWN])
    return RegistryFault("hash", f"{where}, line {number}: {shown} is not a package with its hashes; {_ADVICE}")
