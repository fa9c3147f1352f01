"""`dragoman tokens`: create, list and revoke access tokens of the user's host; a running host notices."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from operator import methodcaller
from typing import TypeVar

import msgspec

from dragoman.cli import exit_codes
from dragoman.cli.messages import error_kind
from dragoman.cli.parser import Parser, parse_duration
from dragoman.cli.subcommands import Action, CommandGroup
from dragoman.cli.ui.format import format_expiry, report
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.config.config_file import load_config
from dragoman.config.host_section import host_database_path, store_address
from dragoman.config.paths import user_paths
from dragoman.engine.loop import run as run_loop
from dragoman.errors import ConfigFault, ProtocolError, StoreFault
from dragoman.host.auth.database import HostDatabase
from dragoman.host.auth.directory import open_directory
from dragoman.host.auth.token_calls import FileTokens, TokenCalls
from dragoman.host.auth.tokens import Tokens
from dragoman.store.fleet import EngineOptions
from dragoman.store.urls import open_engine
from dragoman.transport.remote.server.origin import current_user

T = TypeVar("T")

# Lifetime of a token unless given otherwise: a forgotten token must expire. Seconds.
DEFAULT_LIFETIME = 90 * 86400.0

# A token that expires within this time is listed with hour and minute. Seconds.
SHOW_TIME_WITHIN = 2 * 86400.0

EPILOG = """\
The role is the highest role that the user can have in any session: a viewer
reads; an editor also prompts, answers and cancels; an admin also deletes and
shares. The user who opens a session is its admin; nobody else sees it until it is
shared. Your own commands need no token for a host at its default address; your
browser does. To create a link to one session: dragoman sessions share SESSION.

Treat a token like a password. The other user stores it in a file or a variable,
never on a command line: `dragoman hosts add NAME URL` reads it from standard
input, and every command reads DRAGOMAN_TOKEN.

exit codes:
   0  done
   1  there is no such token
   2  wrong usage
  10  the token database cannot be used

examples:
  dragoman tokens create ann --role editor --for 30d --label laptop
  dragoman tokens create ci --role viewer --for 1y > token.txt
  dragoman tokens
  dragoman tokens revoke k3f9x2m7qd"""


def main(arguments: list[str]) -> int:
    """Parse the arguments, then run the action."""
    parser = CommandGroup(
        "tokens",
        "[ACTION] [USER | ID...] [OPTIONS]",
        "Create, list and revoke access tokens for your host.",
        _ACTIONS,
        EPILOG,
        default="list",
    )
    parser.add_argument("names", nargs="*", metavar="USER|ID", help="create: user of the token; revoke: ids of tokens")
    parser.add_argument(
        "--role",
        default="editor",
        choices=("viewer", "editor", "admin"),
        help="create: highest role of the user (editor)",
    )
    parser.add_value("--for", "TIME", "create: lifetime, as in 30d, 2h or 45m (90d)", dest="lifetime")
    parser.add_flag("--forever", "create: valid until it is revoked")
    parser.add_value("--label", "TEXT", "create: a note for you, such as the device", default="")
    parser.add_value("--store", "URL", "tokens of a host that was started with this --store", default="")
    parser.add_flag("--json", "print JSON")
    try:
        return parser.run(arguments)
    except ConfigFault as fault:
        return parser.fail(str(fault), exit_codes.USAGE)
    except ProtocolError as error:
        code = exit_codes.NO_STORE if isinstance(error, StoreFault) else exit_codes.FAILED
        return parser.fail(error.message, code, kind=error_kind(error))


def create_token(parser: Parser, options: argparse.Namespace) -> int:
    """Create a token; stdout has only the token, so that it can be redirected to a file."""
    if len(options.names) != 1:
        parser.error("create needs the name of one user, as in: create ann")
    if options.forever and options.lifetime:
        parser.error("--for and --forever cannot be used together")
    seconds = parse_duration(parser, options.lifetime, DEFAULT_LIFETIME, "90d")
    text, token = _run(
        options,
        lambda tokens: tokens.create(
            options.names[0],
            options.role,
            seconds=None if options.forever else seconds,
            label=options.label,
            maker=current_user(),
        ),
    )
    report(options, {"token": text, **msgspec.to_builtins(token)}, text)
    if not options.json:
        until = "until it is revoked" if token.expires is None else _expiry_text(token.expires)
        line = f"{token.id}: {sanitize_line(token.user)}, {token.role}, {until}; the token is not shown again"
        print(line, file=sys.stderr)
    return exit_codes.OK


def list_tokens(parser: Parser, options: argparse.Namespace) -> int:
    """List all tokens."""
    if options.names:
        parser.error("list takes no names")
    tokens = _run(options, lambda tokens: tokens.list_tokens())
    now = time.time()
    lines = []
    width = max((len(token.user) for token in tokens), default=0)
    for token in tokens:
        until = {"valid": _expiry_text(token.expires), "expired": "expired", "revoked": "revoked"}[token.state(now)]
        used = "never used" if token.used is None else f"used {_format_day(token.used)}"
        what = f"link to {token.session[:8]}" if token.session else token.label
        lines.append(f"{token.id}  {token.user:{width}}  {token.role:6}  {until:26}  {used:16}  {what}".rstrip())
    return report(
        options,
        [{**msgspec.to_builtins(token), "state": token.state(now)} for token in tokens],
        lines or "there are no tokens; create one with: dragoman tokens create USER",
    )


def revoke_tokens(parser: Parser, options: argparse.Namespace) -> int:
    """Revoke tokens."""
    if not options.names:
        parser.error("revoke needs the id of a token; `dragoman tokens list` shows the ids")
    for id in options.names:
        token = _run(options, methodcaller("revoke", id))
        if not options.json:
            print(f"revoked {token.id}: {sanitize_line(token.user)}, {token.role}")
    return report(options, {"revoked": options.names}, [])


def _run(options: argparse.Namespace, call: Callable[[TokenCalls], Awaitable[T]]) -> T:
    """Call with the tokens of the host with this store, by default the one in config.toml."""
    here = user_paths()
    address = store_address(options.store or load_config(here.config_file).host.store, here)

    async def run_call() -> T:
        if not address.is_shared:
            with HostDatabase(host_database_path(address, here)) as database:
                return await call(FileTokens(Tokens(database)))
        engine = await open_engine(address, EngineOptions(trusts_engine=True))  # the nodes decide what is safe enough
        try:
            return await call(open_directory(engine, "", current_user()).tokens)
        finally:
            await engine.close()

    return run_loop(run_call())


def _expiry_text(expires: float | None) -> str:
    """Return the day; for a token that expires soon, also the time."""
    if expires is None:
        return "until revoked"
    return format_expiry(expires) if abs(expires - time.time()) < SHOW_TIME_WITHIN else f"until {_format_day(expires)}"


def _format_day(timestamp: float) -> str:
    return f"{datetime.fromtimestamp(timestamp, UTC):%Y-%m-%d}"


_ACTIONS = {
    "create": Action(create_token, "create USER", "create a token and print it once; only its digest is stored"),
    "list": Action(list_tokens, "list", "list all tokens and share links: user, role, expiry, last use (the default)"),
    "revoke": Action(revoke_tokens, "revoke ID...", "revoke tokens; clients that use them are disconnected"),
}
