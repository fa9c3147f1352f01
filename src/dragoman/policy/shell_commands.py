"""Split command lines into commands, and match commands against the patterns of rules.

A line is one command, or several joined by `&&`, `||`, `;` or `|`. Anything else (substitutions, redirections, blocks)
makes it *opaque*: no allow rule matches it. Patterns are compared word by word with whole commands. Pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from dragoman.policy.patterns import glob_matcher

Argv = tuple[str, ...]

# Shells that only read the line they are given.
_SHELLS = frozenset({"sh", "bash", "zsh", "dash"})
_SHELL_FLAGS = frozenset({"-c", "-lc"})
# No legitimate command nests more shells than this.
_MAX_DEPTH = 4
# The longest line that is parsed, in characters: the system limit for one argument (Linux 128 KiB).
LONGEST = 128 * 1024

_SEPARATORS = frozenset(";&|")
_UNPARSED = frozenset("`$<>(){}#\n\r\0")
_WILD = frozenset("*?[~")
# Characters that a backslash escapes between double quotes.
_ESCAPED = frozenset('$`"\\')
_OPAQUE_SEPARATORS = re.compile(r"[;&|`$<>(){}\n\r\0'\"]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_BLANK = re.compile(r"\s")
_KEYWORDS = frozenset(
    {"if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "function", "!", "[["}
)

# Programs that run a command given in their arguments; deny and ask rules look there.
_WRAPPERS = frozenset(
    {
        "builtin", "busybox", "chroot", "command", "doas", "env", "eval", "exec", "nice", "nohup", "setsid", "stdbuf",
        "sudo", "time", "timeout", "watch", "xargs",
    }
)  # fmt: skip

# Variables that agents set to turn off paging and color, each with its harmless values. A pager's value is a command;
# any variable that is not listed can change what a command does.
_PAGER = re.compile(r"(?:cat|less)?")
_PLAIN = re.compile(r"[A-Za-z0-9_.@+-]{0,64}")
_NUMBER = re.compile(r"[0-9]{0,9}")
_LOCALE = (
    "ALL", "ADDRESS", "COLLATE", "CTYPE", "IDENTIFICATION", "MEASUREMENT", "MESSAGES", "MONETARY", "NAME", "NUMERIC",
    "PAPER", "TELEPHONE", "TIME",
)  # fmt: skip
HARMLESS_VARIABLES: dict[str, re.Pattern[str]] = {
    **dict.fromkeys(("GH_PAGER", "GIT_PAGER", "MANPAGER", "PAGER"), _PAGER),
    **dict.fromkeys(("COLUMNS", "LINES"), _NUMBER),
    **dict.fromkeys(("CI", "CLICOLOR", "CLICOLOR_FORCE", "COLORTERM", "FORCE_COLOR", "NO_COLOR", "TERM"), _PLAIN),
    **dict.fromkeys(("LANG", *(f"LC_{part}" for part in _LOCALE)), _PLAIN),
    **dict.fromkeys(("GIT_TERMINAL_PROMPT", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONUTF8"), _NUMBER),
}


def behavior_variables(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of variables that can change what a command does: all but the known harmless ones."""
    return tuple(sorted(name for name, value in env.items() if not _is_harmless(name, value)))


def _is_harmless(name: str, value: str) -> bool:
    return name in HARMLESS_VARIABLES and HARMLESS_VARIABLES[name].fullmatch(value) is not None


class CommandLine(NamedTuple):
    """A command line: its commands, and how much of it was understood."""

    commands: tuple[Argv, ...]
    is_opaque: bool = False
    is_wild: bool = False  # a shell would expand names in it, so its arguments are not yet known


class _Opaque(Exception):
    """The line has more than words and operators."""


@lru_cache(maxsize=1024)
def parse_command_line(line: str) -> CommandLine:
    """Parse a line into its commands; a line that is too long is opaque."""
    return _parse_nested(line, 0) if len(line) <= LONGEST else CommandLine((), is_opaque=True)


def runs_from_here(line: str) -> bool:
    """Return whether a line runs a program by a relative path, such as ./run.sh."""
    commands = parse_command_line(line).commands
    return not commands or any(map(_has_relative_path, commands))


def _has_relative_path(words: Argv) -> bool:
    program = next((word for word in words if not _ASSIGNMENT.match(word)), "")
    return ("/" in program and program[0] not in "/~") or any(word.startswith(("./", "../")) for word in words)


def canonical_command(line: str) -> str:
    """Return one spelling for lines that run the same command: without the outer shell, quoted uniformly."""
    for _ in range(_MAX_DEPTH if len(line) <= LONGEST else 0):
        try:
            commands, is_wild = _tokenize(line.strip())
        except _Opaque:
            break
        if len(commands) != 1 or is_wild:
            break
        if not _is_shell(commands[0]):
            return shlex.join(commands[0])
        line = commands[0][2]
    return line.strip()


def _parse_nested(line: str, depth: int) -> CommandLine:
    try:
        commands, is_wild = _tokenize(line.strip())
    except _Opaque:
        return CommandLine(_visible_commands(line), is_opaque=True)
    found: list[Argv] = []
    is_opaque = not commands
    for words in commands:
        if not _is_shell(words):
            is_opaque = is_opaque or words[0] in _KEYWORDS
            found.append(words)
        elif depth >= _MAX_DEPTH:
            is_opaque = True
        else:
            inner = _parse_nested(words[2], depth + 1)
            found += inner.commands
            is_opaque, is_wild = is_opaque or inner.is_opaque, is_wild or inner.is_wild
    return CommandLine(tuple(found), is_opaque, is_wild)


def _is_shell(argv: Argv) -> bool:
    return len(argv) == 3 and argv[0].rpartition("/")[2] in _SHELLS and argv[1] in _SHELL_FLAGS


def _visible_commands(line: str) -> tuple[Argv, ...]:
    """Return the commands that are visible in an opaque line; only for rules that deny or ask."""
    return tuple(tuple(words) for part in _OPAQUE_SEPARATORS.split(line) if (words := part.split()))


def _tokenize(line: str) -> tuple[list[Argv], bool]:
    """Split a line into words and operators as a shell does; a quoted operator is part of a word."""
    commands: list[list[str]] = [[]]
    word: str | None = None
    is_wild = False
    index = 0
    while index < len(line):
        character = line[index]
        index += 1
        if character in _UNPARSED:
            raise _Opaque
        if character in " \t" or character in _SEPARATORS:
            if word is not None:
                commands[-1].append(word)
                word = None
            if character in _SEPARATORS:
                commands.append([])
            continue
        if character in "'\"":
            inner, index = _read_quoted(line, index, character)
            word = (word or "") + inner
            continue
        if character == "\\":
            if index == len(line) or line[index] == "\n":
                raise _Opaque
            character = line[index]
            index += 1
        else:
            is_wild = is_wild or character in _WILD
        word = (word or "") + character
    if word is not None:
        commands[-1].append(word)
    return [tuple(words) for words in commands if words], is_wild


def _read_quoted(line: str, start: int, quote: str) -> tuple[str, int]:
    """Return the text between quotes, and where the line continues."""
    text = ""
    index = start
    while index < len(line):
        character = line[index]
        index += 1
        if character == quote:
            return text, index
        if quote == '"':
            if character in "$`":
                raise _Opaque
            if character == "\\" and index < len(line) and line[index] in _ESCAPED:
                character = line[index]
                index += 1
        text += character
    raise _Opaque


class CommandPattern:
    """A rule's pattern for commands: the first words (a list), or one glob for each word (a string)."""

    __slots__ = ("_globs", "_is_open", "_is_prefix", "_words")

    def __init__(self, words: Argv, *, is_prefix: bool) -> None:
        self._words = words
        self._is_prefix = is_prefix
        self._is_open = words[-1] == "*"  # a final star matches any further words
        self._globs = () if is_prefix else tuple(map(glob_matcher, words[:-1] if self._is_open else words))

    @classmethod
    def parse(cls, source: str | list[str]) -> CommandPattern:
        """Parse a pattern from a policy file; raise ValueError if it is invalid."""
        if isinstance(source, list):
            if not source or not all(isinstance(word, str) and word for word in source):
                raise ValueError('write a list of non-empty words, as in ["git", "status"]')
            return cls(tuple(source), is_prefix=True)
        try:
            words = shlex.split(source)
        except ValueError as error:
            raise ValueError(f"the quotes do not match: {error}") from None
        if not words:
            raise ValueError('the command is empty; use "*" to match every command')
        if any(word and _SEPARATORS.issuperset(word) for word in words):
            raise ValueError("a pattern matches one command; write one pattern for each command of a line")
        return cls(tuple(words), is_prefix=False)

    def matches(self, argv: Argv, *, is_wild: bool = False) -> bool:
        """Return whether one command matches exactly."""
        return self._fits(argv[0] if argv else "", argv, 0, is_wild)

    def _fits(self, program: str, words: Argv, start: int, is_wild: bool = False) -> bool:
        """Return whether the words from `start` on match, with `program` as the first. Nothing is copied."""
        if self._is_prefix:
            return program == self._words[0] and words[start + 1 : start + len(self._words)] == self._words[1:]
        more = len(words) - start - len(self._globs)
        # Shell expansion may produce more words than the pattern has.
        if more < 0 or ((more or is_wild) and not self._is_open):
            return False
        # Compare the program first: it differs for most commands.
        return not self._globs or bool(
            self._globs[0](program) and all(fits(words[start + place]) for place, fits in enumerate(self._globs[1:], 1))
        )

    def may_match(self, argv: Argv, depth: int = 0) -> bool:
        """Return whether a command may match: also after assignments and keywords, inside wrappers and shells, and by a
        program's full path.
        """
        first = 0
        while first < len(argv) and (argv[first] in _KEYWORDS or _ASSIGNMENT.match(argv[first])):
            first += 1
        if first == len(argv):
            return False
        program = argv[first].rpartition("/")[2]
        is_carried = program in _WRAPPERS
        for start in range(first, len(argv) if is_carried else first + 1):
            word = argv[start]
            if self._fits(word, argv, start) or ("/" in word and self._fits(word.rpartition("/")[2], argv, start)):
                return True
        # One argument may hold a whole line: bash -ec "...", env -S "...", eval "...".
        if depth >= _MAX_DEPTH or not (is_carried or program in _SHELLS):
            return False
        lines = [word for word in argv[first + 1 :] if _BLANK.search(word)]
        return any(self.may_match(inner, depth + 1) for line in lines for inner in parse_command_line(line).commands)
