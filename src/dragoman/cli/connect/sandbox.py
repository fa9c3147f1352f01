"""The sandbox options of every command that starts an agent."""

from __future__ import annotations

import argparse
import os

from dragoman import Limits, Sandbox, SandboxUnavailable
from dragoman.cli.parser import Parser
from dragoman.config.paths import protect_user_files
from dragoman.transport.sandbox.spec import AUTO, DEFAULT_NET, MECHANISMS

DESCRIPTION = """\
With --sandbox the agent and its commands can read the system and the working
directory, and write only to the working directory and a private folder. They
get a reduced environment and an empty home, and can connect only to TCP port
443 (for the model). docs/sandbox.md lists what is confined and what is not. If
the sandbox is not available, nothing is started (exit code 8)."""

EXAMPLES = """\
  dragoman {name} --sandbox --sandbox-env MY_API_KEY \\
      --sandbox-read ~/.config/my-agent {rest}"""

_LIMIT_NAMES = tuple(Limits.__struct_fields__)


def add_options(parser: Parser) -> None:
    """Add the options."""
    group = parser.add_argument_group("sandbox")
    group.add_argument(
        "--sandbox",
        metavar="HOW",
        nargs="?",
        const=AUTO,
        choices=MECHANISMS,
        help=f"confine the agent and its commands: {', '.join(MECHANISMS)}",
    )
    group.add_argument(
        "--sandbox-read", metavar="PATH", action="append", help="allow to read this path too; can be repeated"
    )
    group.add_argument(
        "--sandbox-write", metavar="PATH", action="append", help="allow to write this path too; can be repeated"
    )
    group.add_argument(
        "--sandbox-net",
        metavar="NET",
        help=f"none, all, or a list of TCP ports and unix (local sockets), as in 443,8080,unix ({DEFAULT_NET})",
    )
    group.add_argument(
        "--sandbox-env", metavar="NAME", action="append", help="pass on this environment variable; can be repeated"
    )
    group.add_argument(
        "--sandbox-limit", metavar="NAME=N", action="append", help=f"limit {', '.join(_LIMIT_NAMES)}: a number, or none"
    )


def from_options(parser: Parser, options: argparse.Namespace) -> Sandbox | None:
    """Return the sandbox that the options ask for, or None; exits when an option makes no sense."""
    given = {name: value for name, value in vars(options).items() if name.startswith("sandbox_") and value is not None}
    if options.sandbox is None:
        if given:
            parser.error(f"--{next(iter(given)).replace('_', '-')} needs --sandbox")
        return None
    for flag in ("read", "write"):
        for path in given.get(f"sandbox_{flag}", ()):
            if not os.path.exists(os.path.expanduser(path)):
                parser.error(f"--sandbox-{flag}: there is no file or folder {path}")
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
    """Return why this sandbox is not available in this folder, or None."""
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
    for assignment in assignments:
        name, _, value = assignment.partition("=")
        if name not in _LIMIT_NAMES or not (value == "none" or (value.isascii() and value.isdigit())):
            raise ValueError(
                f"--sandbox-limit {assignment}: give NAME=N, where NAME is one of {', '.join(_LIMIT_NAMES)}"
            )
        values[name] = None if value == "none" else int(value)
    return Limits(**values)


def _absolute_path(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))
