"""Argument parsing: options first, then `--`, then the agent's command line.

A thin layer on argparse: every usage error is one line with exit code 2, and shell completion can look at the parser of
a command without running it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NoReturn

from dragoman.cli.json_error import JsonErrorWriter, set_json_error_writer

# The value of `--host` without an argument. No host can have this name.
DEFAULT_HOST = "-"

# Units of amounts on the command line: 90d, 2h, 500M.
SECONDS_PER_UNIT: Mapping[str, float] = {
    "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0, "y": 365 * 86400.0
}  # fmt: skip
_UNIT_NAMES = {"s": "s(econds)", "m": "m(inutes)", "h": "h(ours)", "d": "d(ays)", "w": "w(eeks)", "y": "y(ears)"}
BYTES_PER_UNIT: Mapping[str, float] = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

# Words of other programs, and what they are here: the first that a command knows.
SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "rm": ("remove", "delete", "revoke"),
    "del": ("delete", "remove", "revoke"),
    "delete": ("remove", "revoke"),
    "remove": ("delete", "revoke"),
    "uninstall": ("remove",),
    "ls": ("list",),
    "cat": ("show",),
    "view": ("show",),
    "new": ("create", "add"),
    "create": ("add",),
    "add": ("create", "install"),
    "mv": ("rename",),
    "cp": ("fork",),
    "copy": ("fork",),
    "upgrade": ("update",),
    "--continue": ("--session",),
    "--resume": ("--session",),
    "--limit": ("--last", "--keep"),
    "--output": ("--out",),
    "-o": ("--out",),
    "--token": ("--token-file",),
    "--dir": ("--cwd",),
    "--directory": ("--cwd",),
}

_is_capturing: ContextVar[bool] = ContextVar("is_capturing", default=False)


# Help has at most this many columns; a narrower terminal gets it wrapped again.
HELP_WIDTH = 80


def fit_help(text: str, columns: int | None = None) -> str:
    """Return help for the width of the terminal: paragraphs are filled again, other lines get a hanging indent."""
    width = min(columns or shutil.get_terminal_size().columns, HELP_WIDTH)
    return "\n\n".join(_fit_block(block, width) for block in text.split("\n\n"))


def _fit_block(block: str, width: int) -> str:
    lines = block.split("\n")
    if max(map(len, lines)) <= width or lines[0] in ("example:", "examples:"):
        return block  # a command is copied as one line
    if not lines[0].endswith(":") and not any(line.startswith(" ") for line in lines):
        lines = [" ".join(lines)]
    return "\n".join(part for line in lines for part in _fit_line(line, width))


def _fit_line(line: str, width: int) -> list[str]:
    """Wrap a line below the text of its last column."""
    columns = re.match(r" *(?:\S+ )*?\S+ {2,}(?=\S)|  ?", line)
    indent = " " * min(columns.end() if columns else 0, width // 2)
    return textwrap.wrap(line, width - 1, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [
        ""
    ]


class ParserCaptured(Exception):
    """Raised instead of parsing, while shell completion looks at the options."""

    def __init__(self, parser: Parser) -> None:
        self.parser = parser


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def __init__(self, name: str, usage: str, description: str, epilog: str) -> None:
        super().__init__(
            prog=f"dragoman {name}",
            usage=f"dragoman {name} {usage}",
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self._words: list[str] = []  # that are parsed
        # What --json prints for an error: its message, its kind and the exit code.
        self.write_json_error: JsonErrorWriter = _print_json_error

    def add_flag(self, name: str, help: str) -> None:
        """Add an option without a value; `name` may have a short form before it: "-q --quiet"."""
        self.add_argument(*name.split(), action="store_true", help=help)

    def add_value(self, name: str, metavar: str, help: str, *, repeated: bool = False, **settings: Any) -> None:
        """Add an option with a value; `name` may have a short form before it; `repeated` collects a list."""
        if repeated:
            settings |= {"action": "append", "default": []}
        self.add_argument(*name.split(), metavar=metavar, help=help, **settings)

    def format_help(self) -> str:
        """Return the help, for the width of the terminal."""
        return fit_help(super().format_help())

    def print_help(self, file: Any = None) -> None:
        """Print the help. argparse would hide that it cannot be written."""
        print(self.format_help(), end="", file=file or sys.stdout)

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and where the help is, then exit."""
        # argparse takes the value of an option that it does not know for a positional argument.
        if re.match("argument [A-Z]", message) and (unknown := self._unknown_option()):
            message = f"unrecognized arguments: {unknown}"
        message += self._advice(message)
        self.print_json_error(message)
        print(f"{self.prog}: {message}; see {self.prog} --help", file=sys.stderr)
        sys.exit(2)

    def print_json_error(self, message: str, kind: str = "usage", code: int = 2) -> None:
        """Print an error as JSON to stdout, if JSON is wanted."""
        option = self._option_string_actions.get("--json")
        if option is not None and option.nargs == 0 and "--json" in self._words:  # not the name of a file
            self.write_json_error(message, kind, code)

    def _unknown_option(self) -> str:
        """Return the first word that looks like an option and is none; "" if there is none."""
        for word in self._words:
            name = word.partition("=")[0] if word.startswith("--") else word[:2]
            if re.match("--?[A-Za-z]", word) and " " not in word and name not in self._option_string_actions:
                return word
        return ""

    def _advice(self, message: str) -> str:
        """Return advice for a word that argparse does not know."""
        if choice := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message):
            known, word = [each.strip(" '") for each in choice[2].split(",")], choice[1]
            return f"; did you mean {close}?" if (close := close_word(word, known)) else ""
        _, found, rest = message.partition("the following arguments are required: ")
        if found:
            return self._choices_of(rest.split(",")[0])
        _, found, rest = message.partition("unrecognized arguments: ")
        words, options = rest.split(), self._option_string_actions
        if not found or not words:
            return ""
        if words[0].startswith("-"):
            close = close_word(words[0].partition("=")[0], options)
            return f"; did you mean {close}?" if close else ""
        if "--prompt" in options:
            return f"; put a prompt of several words in quotes, as in: {self.prog} 'fix the tests'"
        return "; name an agent with --agent, or give its command after --" if "--agent" in options else ""

    def _choices_of(self, name: str) -> str:
        """Return the values that a missing argument can have."""
        choices = next((each.choices for each in self._actions if name in (each.metavar, each.dest)), None)
        return f"; choose one of: {', '.join(choices)}" if choices else ""

    def fail(self, message: str, code: int = 1, *, kind: str = "", is_json_done: bool = False) -> int:
        """Print an error that is no wrong usage; return the exit code.

        With --json it is JSON on stdout, too, unless the command has printed its JSON.
        """
        from dragoman.cli.ui.terminal import sanitize

        if not is_json_done:
            self.print_json_error(message, kind or ("usage" if code == 2 else "failed"), code)
        print(f"{self.prog}: {sanitize(message)}", file=sys.stderr)
        return code

    def read(self, arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
        """Return the options, and the arguments after `--`."""
        if _is_capturing.get():
            raise ParserCaptured(self)
        mark = arguments.index("--") if "--" in arguments else len(arguments)
        self._words = arguments[:mark]
        set_json_error_writer(self.print_json_error)
        # Options may stand between positional arguments, also before one that can be omitted.
        return self.parse_intermixed_args(self._words), arguments[mark + 1 :]

    def read_known(self, arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
        """Return the options that this parser knows, and the arguments of another one."""
        if _is_capturing.get():
            raise ParserCaptured(self)
        return self.parse_known_args(arguments)

    def read_options(self, arguments: list[str], hint: str = "") -> argparse.Namespace:
        """Return the options of a command that takes nothing after `--`."""
        options, rest = self.read(arguments)
        if rest:
            self.error(f"{self.prog.removeprefix('dragoman ')} takes no command{hint}")
        return options

    def read_with_agent(self, arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
        """Return the options, and the command of an agent, which is required."""
        options, command = self.read(arguments)
        if not command:
            self.error("give the command of the agent after --, as in: -- my-agent --acp")
        return options, command


def _print_json_error(message: str, kind: str, code: int) -> None:
    import json

    print(json.dumps({"error": {"kind": kind, "message": message}}), flush=True)


def add_host_options(parser: Parser) -> None:
    """Add the options of commands that can use a host."""
    parser.add_argument(
        "--host",
        metavar="HOST",
        nargs="?",
        const=DEFAULT_HOST,
        help="use this host: a name from `dragoman hosts`, or a URL; without a value, the default host",
    )
    parser.add_argument(
        "--token-file", metavar="FILE", help="with --host: file with the access token (or set DRAGOMAN_TOKEN)"
    )


def reject_host_options(parser: Parser, options: argparse.Namespace, instead: str) -> None:
    """Exit with a usage error if a host is given for an action that only works on the host's own machine."""
    if options.host or options.token_file:
        parser.error(f"run this on the machine of the host, without --host: {instead}")


def close_word(word: str, known: Iterable[str]) -> str:
    """Return the known word that the user may mean: a synonym, else one that looks similar; "" if there is none."""
    from difflib import get_close_matches

    names = list(known)
    synonym = next((each for each in SYNONYMS.get(word, ()) if each in names), "")
    return synonym or next(iter(get_close_matches(word, names, 1)), "")


def unknown_word(noun: str, word: str, known: Iterable[str]) -> str:
    """Return the error for a word that is unknown: the closest known one, or all."""
    names = list(known)
    close = close_word(word, names)
    advice = f"did you mean {close}?" if close else f"choose one of: {', '.join(names)}"
    return f"there is no {noun} {word!r}; {advice}"


def unknown_name(noun: str, name: str, configured: Iterable[str]) -> str:
    """Return the error for a name that is not configured: the closest one, or all."""
    names = list(configured)
    close = close_word(name, names)
    advice = f"did you mean {close}?" if close else f"configured {noun}s: {', '.join(names) or 'none'}"
    return f"there is no {noun} {name!r}; {advice}"


def capture_parser(main: Callable[[list[str]], int], arguments: Sequence[str] = ()) -> Parser | None:
    """Return the parser of a command after these arguments; None for a command that parses by hand."""
    token = _is_capturing.set(True)
    try:
        main(list(arguments))
    except ParserCaptured as captured:
        return captured.parser
    finally:
        _is_capturing.reset(token)
    return None


def parse_amount(
    parser: Parser, flag: str, text: str | None, units: Mapping[str, float], example: str = ""
) -> float | None:
    """Return the amount; None when the flag is not given."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([A-Za-z]?)", text)
    unit = "" if match is None else next((unit for unit in units if unit.lower() == match[2].lower()), None)
    if match is None or unit is None or unit not in units:
        unit_list = ", ".join(
            _UNIT_NAMES.get(unit, unit) if units is SECONDS_PER_UNIT else unit for unit in units if unit
        )
        parser.error(f"{flag}: give a number and a unit ({unit_list}), for example {example or f'90{list(units)[1]}'}")
    return float(match[1]) * units[unit]


def parse_duration(parser: Parser, text: str | None, default: float, example: str = "7d") -> float:
    """Return the seconds of --for, or the default; zero is an error."""
    seconds = parse_amount(parser, "--for", text, SECONDS_PER_UNIT, example)
    if seconds == 0:
        parser.error(f"--for: must be longer than zero, for example {example}")
    return default if seconds is None else seconds
