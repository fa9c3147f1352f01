"""The flags of a sandbox, the same for every command that starts an agent.

Takes a parser and what was given, gives a Sandbox or None. Above are run and translate; what is confined and how is
decided below.
"""

from __future__ import annotations

import argparse
import os

from dragoman import Limits, Sandbox, SandboxUnavailable
from dragoman.cli.parser import Parser
from dragoman.config.paths import protect_user_files
from dragoman.transport.sandbox.spec import AUTO, DEFAULT_NET, MECHANISMS

# A sandbox was asked for and cannot be had: nothing was started.
EXIT_UNAVAILABLE = 8

USAGE = "[--sandbox]"

DESCRIPTION = """\
With --sandbox the agent and the commands it has run see the system and the working directory, write only there and
in a private folder, get a scrubbed environment and an empty home, and reach TCP port 443 (their model) and no other.
docs/sandbox.md tells what is confined and what is not. Where it cannot be had, nothing is started (exit code 8)."""

EXAMPLES = """\
  dragoman {name} --sandbox --sandbox-env MY_API_KEY --sandbox-read ~/.config/my-agent {rest}"""

_LIMIT_NAMES = tuple(Limits.__struct_fields__)


def add_options(parser: Parser) -> None:
    """Add the flags."""
    group = parser.add_argument_group("sandbox")
    group.add_argument(
        "--sandbox",
        metavar="HOW",
        nargs="?",
        const=AUTO,
        choices=MECHANISMS,
        help=f"confine the agent and its commands; {', '.join(MECHANISMS)}",
    )
    group.add_argument("--sandbox-read", metavar="PATH", action="append", help="may be read too; can be repeated")
    group.add_argument("--sandbox-write", metavar="PATH", action="append", help="may be written too; can be repeated")
    group.add_argument(
        "--sandbox-net",
        metavar="NET",
        help=f"none, all, or TCP ports, and unix for sockets of this machine: 443,8080,unix ({DEFAULT_NET})",
    )
    group.add_argument("--sandbox-env", metavar="NAME", action="append", help="a variable it may see; can be repeated")
    group.add_argument(
        "--sandbox-limit", metavar="NAME=N", action="append", help=f"{', '.join(_LIMIT_NAMES)}; a number, or none"
    )


def from_options(parser: Parser, options: argparse.Namespace) -> Sandbox | None:
    """The sandbox that was asked for, if one was; ends the program when it makes no sense."""
    given = {name: value for name, value in vars(options).items() if name.startswith("sandbox_") and value is not None}
    if options.sandbox is None:
        if given:
            parser.error(f"--{next(iter(given)).replace('_', '-')} is for a sandbox; add --sandbox")
        return None
    for flag in ("read", "write"):
        for path in given.get(f"sandbox_{flag}", ()):
            if not os.path.exists(os.path.expanduser(path)):
                parser.error(f"--sandbox-{flag}: there is no {path}")
    try:
        return Sandbox(
            read=tuple(map(_absolute_path, given.get("sandbox_read", ()))),
            write=tuple(map(_absolute_path, given.get("sandbox_write", ()))),
            net=given.get("sandbox_net", DEFAULT_NET),
            env=tuple(given.get("sandbox_env", ())),
            limits=_parse_limits(given.get("sandbox_limit", [])),
            mechanism=options.sandbox,
        )
    except ValueError as error:
        parser.error(str(error))


def unavailable_reason(sandbox: Sandbox | None) -> str | None:
    """Why this sandbox cannot be had for an agent in this folder; for commands that would learn it too late."""
    confined = protect_user_files(sandbox)
    if confined is None:
        return None
    from dragoman.transport.sandbox.plan import detect_support, plan_sandbox

    try:
        plan_sandbox(confined, [os.getcwd()], detect_support())
    except SandboxUnavailable as error:
        return str(error)
    return None


def _parse_limits(assignments: list[str]) -> Limits:
    values: dict[str, int | None] = {}
    for word in assignments:
        name, _, value = word.partition("=")
        if name not in _LIMIT_NAMES or not (value == "none" or (value.isascii() and value.isdigit())):
            raise ValueError(f"--sandbox-limit {word}: say NAME=N, where NAME is one of {', '.join(_LIMIT_NAMES)}")
        values[name] = None if value == "none" else int(value)
    return Limits(**values)


def _absolute_path(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))
