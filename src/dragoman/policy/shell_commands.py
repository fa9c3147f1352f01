"""Command lines taken apart into the commands that they run, and the patterns of rules for commands.

A line may be one command, several joined by `&&`, `||`, `;`, `|`, or something more involved (substitutions,
redirections, blocks) that is not taken apart: it is *opaque*, and no rule may claim to know what it does. Patterns are
compared word by word with whole commands, never with parts of the text. Pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from dragoman.policy.globs import word as glob

Argv = tuple[str, ...]

# Shells that only read the line they are given.
_SHELLS = frozenset({"sh", "bash", "zsh", "dash"})
_SHELL_FLAGS = frozenset({"-c", "-lc"})
# More shells in shells than this are not honest work.
_MAX_DEPTH = 4
# The longest line that is read, in characters: the most that a system takes as one word of a command (Linux 128 KiB).
LONGEST = 128 * 1024

_SEPARATORS = frozenset(";&|")
_UNPARSED = frozenset("`$<>(){}#\n\r\0")
_WILD = frozenset("*?[~")
# What a backslash escapes between double quotes.
_ESCAPED = frozenset('$`"\\')
_OPAQUE_SEPARATORS = re.compile(r"[;&|`$<>(){}\n\r\0'\"]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_BLANK = re.compile(r"\s")
_KEYWORDS = frozenset(
    {"if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "function", "!", "[["}
)

# Programs that run a command which stands among their arguments; a rule that forbids looks there.
_WRAPPERS = frozenset(
    {
        "builtin", "busybox", "chroot", "command", "doas", "env", "eval", "exec", "nice", "nohup", "setsid", "stdbuf",
        "sudo", "time", "timeout", "watch", "xargs",
    }
)  # fmt: skip

# Variables that agents set so that programs neither page nor colour, each with the values that change nothing else. The
# value of a pager is a command; whatever is not listed here can change what a command does.
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


def steering(env: Mapping[str, str]) -> tuple[str, ...]:
    """The names of variables that can change what a command does: all but those that are known to change nothing."""
    return tuple(sorted(name for name, value in env.items() if not _is_harmless(name, value)))


def _is_harmless(name: str, value: str) -> bool:
    values = HARMLESS_VARIABLES.get(name)
    return values is not None and values.fullmatch(value) is not None


class CommandLine(NamedTuple):
    """A command line: the commands in it, and how much of it was understood."""

    commands: tuple[Argv, ...]
    is_opaque: bool = False
    is_wild: bool = False  # a shell would expand names in it, so its words are not yet known


class _Opaque(Exception):
    """The line is more than words and joints."""


@lru_cache(maxsize=1024)
def parse_command_line(line: str) -> CommandLine:
    """The commands that a line runs; one that is too long is opaque."""
    return _parse_nested(line, 0) if len(line) <= LONGEST else CommandLine((), is_opaque=True)


def runs_from_here(line: str) -> bool:
    """Whether a line runs a program that it names by its place in the current folder, as ./run.sh does."""
    commands = parse_command_line(line).commands
    return not commands or any(map(_names_a_place_here, commands))


def _names_a_place_here(words: Argv) -> bool:
    program = next((word for word in words if not _ASSIGNMENT.match(word)), "")
    return ("/" in program and program[0] not in "/~") or any(word.startswith(("./", "../")) for word in words)


def canonical_command(line: str) -> str:
    """One spelling for lines that run the same command: without a shell that only reads it, words quoted alike."""
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
    """As many commands as can be seen in an opaque line: only good for forbidding."""
    return tuple(tuple(words) for part in _OPAQUE_SEPARATORS.split(line) if (words := part.split()))


def _tokenize(line: str) -> tuple[list[Argv], bool]:
    """Words and joints as a shell reads them; a quoted joint is part of a word."""
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
    """The text between quotes, and where the line goes on."""
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
    """What a rule says of commands: the first words (a list), or one glob a word (a text)."""

    __slots__ = ("_globs", "_is_open", "_is_prefix", "_words")

    def __init__(self, words: Argv, *, is_prefix: bool) -> None:
        self._words = words
        self._is_prefix = is_prefix
        self._is_open = words[-1] == "*"  # a last star stands for any further words
        self._globs = () if is_prefix else tuple(map(glob, words[:-1] if self._is_open else words))

    @classmethod
    def parse(cls, source: str | list[str]) -> CommandPattern:
        """A pattern as it is written in a file; ValueError says what is wrong."""
        if isinstance(source, list):
            if not source or not all(isinstance(word, str) and word for word in source):
                raise ValueError('a list of words has at least one word, as in ["git", "status"]')
            return cls(tuple(source), is_prefix=True)
        try:
            words = shlex.split(source)
        except ValueError as error:
            raise ValueError(f"the quotes do not match: {error}") from None
        if not words:
            raise ValueError('the command is empty; "*" stands for every command')
        if any(word and _SEPARATORS.issuperset(word) for word in words):
            raise ValueError("a pattern is for one command; lines of several are taken apart before they are compared")
        return cls(tuple(words), is_prefix=False)

    def matches(self, argv: Argv, *, is_wild: bool = False) -> bool:
        """Whether one command is meant, exactly as it stands."""
        return self._fits(argv[0] if argv else "", argv, 0, is_wild)

    def _fits(self, program: str, words: Argv, start: int, is_wild: bool = False) -> bool:
        """Whether the words from a place on are meant, the first of them read as `program`. Nothing is copied."""
        if self._is_prefix:
            return program == self._words[0] and words[start + 1 : start + len(self._words)] == self._words[1:]
        more = len(words) - start - len(self._globs)
        # What a shell expands may become more words than the pattern has.
        if more < 0 or ((more or is_wild) and not self._is_open):
            return False
        # The program first: most commands are another one.
        return not self._globs or bool(
            self._globs[0](program) and all(fits(words[start + place]) for place, fits in enumerate(self._globs[1:], 1))
        )

    def may_match(self, argv: Argv, depth: int = 0) -> bool:
        """Whether a command may be meant: also after assignments and keywords, inside carriers and in what a shell is
        given to read, and by a program's full path."""
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
        # A whole line may stand in one word: bash -ec "...", env -S "...", eval "...".
        if depth >= _MAX_DEPTH or not (is_carried or program in _SHELLS):
            return False
        lines = [word for word in argv[first + 1 :] if _BLANK.search(word)]
        return any(self.may_match(inner, depth + 1) for line in lines for inner in parse_command_line(line).commands)
