"""The text of a prompt: from the command line, from a file, or piped in."""

from __future__ import annotations

import argparse
import os
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from dragoman.cli.parser import Parser

# What stands for standard input, as PROMPT and as the file.
STANDARD_INPUT = "-"

# A pipe that stays open longer is one that its owner forgot, or a person who waits for an answer. Seconds.
NOTICE_AFTER = 1.0


def add_prompt_options(parser: Parser) -> None:
    """Add the options that say what the prompt is."""
    parser.add_argument(
        "argument", nargs="?", metavar="PROMPT", help="the prompt; text from standard input is added after it"
    )
    parser.add_value("--prompt", "TEXT", "the prompt, as an option; standard input is not read")
    parser.add_value("--prompt-file", "FILE", "read the prompt from a file; - is standard input")


def read_prompt_text(parser: Parser, options: argparse.Namespace) -> str:
    """Return the prompt; exits if there is more than one, or if the file cannot be read. It may be empty."""
    argument, option, file = options.argument, options.prompt, options.prompt_file
    if sum(each is not None for each in (argument, option, file)) > 1:
        parser.error("give the prompt once: as an argument, with --prompt, or with --prompt-file")
    if file not in (None, STANDARD_INPUT):
        return _read_file(parser, file)
    if STANDARD_INPUT in (argument, file):
        argument = None
    given = argument if argument is not None else option
    piped = ""
    if given is None:
        if sys.stdin is None or sys.stdin.isatty():
            parser.error(f"give a prompt, as in: {parser.prog} 'What is this?', or pipe it in")
        piped = _read_standard_input(parser)
    elif argument is not None and _is_piped():
        piped = _read_standard_input(parser)
    return "\n\n".join(part for part in (given, piped) if part and part.strip())


def _read_file(parser: Parser, path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        parser.error(f"--prompt-file: cannot read {path}: {error.strerror}")
    if b"\0" in data:
        parser.error(f"--prompt-file: {path} is not a text")
    text = data.decode("utf-8-sig", "replace")
    if not text.strip():
        parser.error(f"the prompt is empty: there is no text in {path}")
    return text


def _read_standard_input(parser: Parser) -> str:
    with _notice_while_waiting(parser):
        return sys.stdin.buffer.read().decode("utf-8", "replace")


@contextmanager
def _notice_while_waiting(parser: Parser) -> Iterator[None]:
    """Say what the command waits for if standard input stays open."""

    def tell() -> None:
        text = "waiting for the end of standard input, which is part of the prompt; with < /dev/null it is not read"
        print(f"{parser.prog}: {text}", file=sys.stderr, flush=True)

    timer = threading.Timer(NOTICE_AFTER, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _is_piped() -> bool:
    """Return whether standard input is a pipe or a file, not a device or closed."""
    if sys.stdin is None:
        return False
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)
