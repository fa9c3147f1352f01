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
from dragoman.policy.risky_options import has_risky_option

Argv = tuple[str, ...]

# Shells that only read the line they are given, as it is split here.
_PLAIN_SHELLS = frozenset({"sh", "bash", "zsh", "dash"})
# Where they are. A program of the same name in any other folder, such as ./tools/bash, can be anything.
_SYSTEM_FOLDERS = frozenset({"/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin"})
# All shells; rules that deny or ask look into their lines.
_SHELLS = _PLAIN_SHELLS | {
    "ash", "csh", "elvish", "fish", "hush", "ksh", "ksh93", "lksh", "mksh", "nu", "oksh", "pdksh", "posh", "pwsh",
    "rbash", "rksh", "rzsh", "tcsh", "xonsh", "yash",
}  # fmt: skip
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

# Stands for a variable in a line whose commands are otherwise visible: any text, or several words.
_UNKNOWN = "\x01"
_VARIABLE = re.compile(r"\$(?:\w+|\{\w+\}|[?#!@*$-])")
# To a plain name or a descriptor. What it is replaced by ends a word.
_REDIRECTION = re.compile(r"[0-9]*(?:>>?|<)(?:&[0-9-]|[ \t]*[\w./~+-]+)(?=[\s;&|]|$)")
_NAMES_EXPAND = re.compile(r"[*?\[]")
# What a backslash before a line end can be in: quotes, or an escape. A shell removes both, except in single quotes.
_QUOTED = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*+"|\\.""", re.S)
_ESCAPE = re.compile(r"\\.", re.S)

# Programs that run a command given in their arguments; deny and ask rules look there.
_WRAPPERS = frozenset(
    {
        "arch", "builtin", "busybox", "bwrap", "caffeinate", "capsh", "catchsegv", "choom", "chpst", "chroot",
        "chrt", "command", "coproc", "cpulimit", "daemonize", "dbus-launch", "dbus-run-session", "doas",
        "dtruss", "dumb-init", "entr", "env", "eval", "exec", "fakechroot", "fakeroot", "firejail", "flock",
        "gosu", "gtime", "hyperfine", "ionice", "linux32", "linux64", "ltrace", "mosh", "nice", "nocache",
        "nocorrect", "noglob", "nohup", "nsenter", "numactl", "parallel", "perf", "pkexec", "prlimit",
        "proot", "proxychains", "proxychains4", "rlwrap", "rsh", "run0", "runuser", "script", "setarch",
        "setpriv", "setsid", "setuidgid", "softlimit", "ssh", "ssh-agent", "start-stop-daemon", "stdbuf",
        "strace", "su", "su-exec", "sudo", "systemd-inhibit", "systemd-run", "taskset", "time", "timeout",
        "tini", "torify", "torsocks", "toybox", "trap", "truss", "tsocks", "unbuffer", "unshare", "valgrind",
        "watch", "xargs", "xvfb-run",
    }
)  # fmt: skip
# Programs that do so only after one of these options.
_RUN_OPTIONS = {
    "fd": frozenset({"-x", "-X", "--exec", "--exec-batch"}),
    "find": frozenset({"-exec", "-execdir", "-ok", "-okdir"}),
}

# They read commands, or the arguments of one, from their input.
_READS_ARGUMENTS = frozenset({"xargs", "parallel"})
_READS_COMMANDS = _SHELLS | _READS_ARGUMENTS

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
    is_hidden: bool = False  # it may run commands that are not listed
    is_variable: bool = False  # what it runs may depend on variables, input, or the names in its folder
    shells: tuple[Argv, ...] = ()  # each `sh -c LINE` whose commands are listed in its place


class _Opaque(Exception):
    """The line has more than words and operators."""


@lru_cache(maxsize=1024)
def parse_command_line(line: str) -> CommandLine:
    """Parse a line into its commands; a line that is too long is opaque."""
    if len(line) > LONGEST:
        return CommandLine((), is_opaque=True, is_hidden=True)
    parsed = _parse_nested(line, 0)
    words = {word for argv in parsed.commands for word in argv}
    is_variable = parsed.is_wild or any(
        _UNKNOWN in word or _BLANK.search(word) or word.rpartition("/")[2] in _READS_COMMANDS for word in words
    )
    return parsed._replace(is_variable=is_variable)


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
        return _parse_opaque(line, depth)
    return _unnest(commands, is_wild, depth)


def _unnest(commands: list[Argv], is_wild: bool, depth: int) -> CommandLine:
    """Return the commands with the lines of `sh -c LINE` in place."""
    found: list[Argv] = []
    shells: list[Argv] = []
    is_opaque = not commands
    is_hidden = False
    for words in commands:
        if not _is_shell(words):
            is_opaque = is_opaque or words[0] in _KEYWORDS
            found.append(words)
            continue
        shells.append(words)
        if depth >= _MAX_DEPTH:
            is_opaque = is_hidden = True
        else:
            inner = _parse_nested(words[2], depth + 1)
            found += inner.commands
            shells += inner.shells
            is_opaque, is_wild = is_opaque or inner.is_opaque, is_wild or inner.is_wild
            is_hidden = is_hidden or inner.is_hidden
    return CommandLine(tuple(found), is_opaque, is_wild, is_hidden, shells=tuple(shells))


def _is_shell(argv: Argv) -> bool:
    """Whether this is `sh -c LINE`. Further options may follow -c: the line is then not the next word."""
    if len(argv) < 3 or argv[1] not in _SHELL_FLAGS or argv[2].startswith(("-", "+")):
        return False
    folder, slash, name = argv[0].rpartition("/")
    return name in _PLAIN_SHELLS and (not slash or folder in _SYSTEM_FOLDERS)


def _parse_opaque(line: str, depth: int) -> CommandLine:
    """Return the commands that are visible in an opaque line; only for rules that deny or ask.

    All are visible if the line has only variables, redirections and line ends besides words and operators.
    """
    line = _QUOTED.sub(_without_continuations, line)
    plain = _REDIRECTION.sub(" ", _VARIABLE.sub(_UNKNOWN, line.strip().replace("\n", ";")))
    visible = [tuple(words) for part in _OPAQUE_SEPARATORS.split(line) if (words := part.split())]
    try:
        commands, is_wild = _tokenize(plain)
    except _Opaque:
        return CommandLine(tuple(visible), is_opaque=True, is_hidden=True)
    inner = _unnest(commands, is_wild, depth)
    return inner._replace(commands=(*commands, *inner.commands, *visible), is_opaque=True)


def _without_continuations(quoted: re.Match[str]) -> str:
    """Return a quoted text without the line ends that a backslash removes."""
    if quoted[0].startswith("'"):
        return quoted[0]
    return _ESCAPE.sub(lambda escape: "" if escape[0] == "\\\n" else escape[0], quoted[0])


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
            if character in "$`" or line.startswith("\\\n", index - 1):  # a shell removes both
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
        """Return whether one command matches exactly, without further options that write a file or run a program."""
        if not self._fits(argv[0] if argv else "", argv, 0, is_wild):
            return False
        named = len(self._words) - (not self._is_prefix and self._is_open)
        return len(argv) <= named or not has_risky_option(argv, named, is_wild)

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
        """Return whether a command matches, also after assignments and keywords, inside wrappers and shells, and by a
        program's full path.
        """
        if self.may_match_words(argv):
            return True
        program = _find_program(argv)
        return any(
            self.may_match(inner, depth + 1) for line in _inner_lines(argv, program, depth) for inner in line.commands
        )

    def may_match_words(self, argv: Argv) -> bool:
        """Return whether a command matches by its own words, whatever lines are among its arguments."""
        for start in _find_program(argv).starts(argv):
            word = argv[start]
            if self._fits(word, argv, start) or ("/" in word and self._fits(word.rpartition("/")[2], argv, start)):
                return True
        return False

    def could_match(self, argv: Argv, is_wild: bool, depth: int = 0) -> bool:
        """Return whether a command could match, depending on its variables, its input or the names in its folder."""
        program = _find_program(argv)
        is_shell = program.name in _SHELLS
        if is_shell and all(word.startswith("-") for word in argv[program.position + 1 :]):
            return True  # it reads commands from its input
        if is_wild and _NAMES_EXPAND.search(program.name):
            return True  # it can become the name of a program that runs another one
        words = (*argv, _UNKNOWN) if program.name in _READS_ARGUMENTS else argv
        if any(self._could_fit(words, start, is_wild) for start in program.starts(words)):
            return True
        if is_shell and any(_UNKNOWN in word for word in argv[program.position :]):
            return True
        return any(
            line.is_hidden or self.could_match(inner, line.is_wild, depth + 1)
            for line in _inner_lines(argv, program, depth)
            for inner in line.commands or ((),)
        )

    def _could_fit(self, words: Argv, start: int, is_wild: bool) -> bool:
        """Return whether the words from `start` on match up to the first that is not known."""
        for place, wanted in enumerate(self._words):
            if start + place >= len(words):
                return False
            word = words[start + place]
            if _UNKNOWN in word:
                return True
            word = word.rpartition("/")[2] if place == 0 else word
            if is_wild and _NAMES_EXPAND.search(word):  # the first of the names is here, others may follow
                return not self._is_prefix or bool(glob_matcher(word)(wanted))
            if word != wanted if self._is_prefix else not glob_matcher(wanted)(word):
                return False
        return not self._is_prefix and any(_UNKNOWN in word for word in words[start + len(self._words) :])


class _Program(NamedTuple):
    """The program of a command."""

    position: int  # its place, after assignments and keywords
    name: str  # without its folder; "" if there is no program
    is_wrapper: bool  # it runs a command that is given in its arguments

    def starts(self, words: Argv) -> range:
        """Return where a command can start: at the program, and anywhere behind a wrapper."""
        return range(self.position, len(words) if self.is_wrapper else min(self.position + 1, len(words)))


@lru_cache(maxsize=1024)
def _find_program(argv: Argv) -> _Program:
    for position, word in enumerate(argv):
        if word not in _KEYWORDS and not _ASSIGNMENT.match(word):
            name = word.rpartition("/")[2]
            is_wrapper = name in _WRAPPERS or (name in _RUN_OPTIONS and not _RUN_OPTIONS[name].isdisjoint(argv))
            return _Program(position, name, is_wrapper)
    return _Program(len(argv), "", is_wrapper=False)


def _inner_lines(argv: Argv, program: _Program, depth: int) -> list[CommandLine]:
    """Return the whole lines that are arguments of a command: bash -ec "...", env -S "...", su --command="...".

    The line of a shell may be one word; behind a wrapper any word counts as a program already.
    """
    is_shell = program.name in _SHELLS
    if depth >= _MAX_DEPTH or not (program.is_wrapper or is_shell):
        return []
    words = argv[program.position + 1 :]
    lines = [word for word in words if _BLANK.search(word) or (is_shell and not word.startswith("-"))]
    return list(map(parse_command_line, [*lines, *(value for word in words for value in _option_values(word))]))


def _option_values(word: str) -> list[str]:
    """Return what can be a line in the word of an option: --command=LINE, -cLINE, -oProxyCommand=LINE."""
    value = word.partition("=")[2]
    if word.startswith("--"):
        return [value] if value else []
    return [each for each in (word[2:], value) if _BLANK.search(each)] if word.startswith("-") else []
