"""`dragoman tokens`: who may use the host of this user: make tokens, list them, revoke them; a running host notices."""

from __future__ import annotations

import argparse
import sys
import time
from datetime import UTC, datetime

import msgspec

from dragoman.cli import amounts, exit_codes
from dragoman.cli.parser import Parser
from dragoman.cli.sessions.open_store import format_expiry as shelf_until
from dragoman.cli.sessions.open_store import print_json
from dragoman.cli.ui.terminal import sanitize, sanitize_line
from dragoman.config.config_file import load_config
from dragoman.config.host_section import host_database_path, store_address
from dragoman.config.paths import user_paths
from dragoman.errors import ConfigFault, ProtocolError, StoreFault
from dragoman.host.auth.database import HostDatabase
from dragoman.host.auth.tokens import Tokens
from dragoman.transport.remote.server.origin import current_user

# Who says nothing else gets a token for so long: nobody should find a key that fits in ten years. Seconds.
DEFAULT_LIFETIME = 90 * 86400.0

# What ends within this time is told with the minute. Seconds.
SHOW_TIME_WITHIN = 2 * 86400.0

EPILOG = """\
  create USER      make a token; it is printed once, and only a digest of it is kept
  list             all of them: whose, as what, until when, when last used (also share links; also without a word)
  revoke ID...     from now on they count no more; whoever is in with one is put out

A role is the most that somebody may be in any session: a viewer reads, an editor also prompts, answers and stops, an
admin also deletes and shares. Whoever opens a session is its admin, and nobody else sees it until it is shared. The
owner of this machine's host needs no token on it. A link to one session is made by: dragoman sessions share SESSION.

Give a token away like a password. On the other side it goes into a file or a variable, never on a command line:
dragoman hosts add NAME URL reads it from standard input, and DRAGOMAN_TOKEN is looked at by every command.

exit codes:
  0  done      1  there is no such token      2  wrong usage      10  the file of tokens cannot be used

examples:
  dragoman tokens create ann --role editor --for 30d --label laptop
  dragoman tokens create ci --role viewer --for 1y > token.txt
  dragoman tokens
  dragoman tokens revoke k3f9x2m7qd"""


def main(arguments: list[str]) -> int:
    """Read the arguments, then do the one thing."""
    parser = Parser(
        "tokens",
        "[create USER | list | revoke ID...] [OPTIONS]",
        "Who may use your host: make tokens, list them, revoke them.",
        EPILOG,
    )
    parser.add_argument("action", nargs="?", default="list", choices=tuple(_ACTIONS), help="what to do (list)")
    parser.add_argument("words", nargs="*", metavar="USER|ID", help="create: for whom; revoke: which")
    parser.add_argument(
        "--role", default="editor", choices=("viewer", "editor", "admin"), help="create: as what (editor)"
    )
    parser.add_argument(
        "--for", dest="lasting", metavar="TIME", help="create: how long it counts, such as 30d, 2h or 45m(inutes) (90d)"
    )
    parser.add_argument("--forever", action="store_true", help="create: until it is revoked")
    parser.add_argument("--label", metavar="TEXT", default="", help="create: what it is for, for you to remember")
    parser.add_argument("--store", metavar="URL", default="", help="of a host that was started with this --store")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options, rest = parser.read(arguments)
    if rest:
        parser.error("it takes no command")
    try:
        return _ACTIONS[options.action](parser, options)
    except ConfigFault as fault:
        print(f"{parser.prog}: {sanitize(str(fault))}", file=sys.stderr)
        return exit_codes.USAGE
    except ProtocolError as error:
        print(f"{parser.prog}: {sanitize(error.message)}", file=sys.stderr)
        return exit_codes.NO_STORE if isinstance(error, StoreFault) else exit_codes.FAILED


def create_token(parser: Parser, options: argparse.Namespace) -> int:
    """Make one: its text alone is on stdout, so that it can go into a file."""
    if len(options.words) != 1:
        parser.error("create for whom? say one name, as in: create ann")
    if options.forever and options.lasting:
        parser.error("--for and --forever contradict each other")
    seconds = amounts.parse_duration(parser, options.lasting, DEFAULT_LIFETIME)
    with _open_database(options) as register:
        text, token = Tokens(register).create(
            options.words[0],
            options.role,
            seconds=None if options.forever else seconds,
            label=options.label,
            maker=current_user(),
        )
    if options.json:
        print_json({"token": text, **msgspec.to_builtins(token)})
        return exit_codes.OK
    print(text)
    until = "until it is revoked" if token.expires is None else _expiry_text(token.expires)
    print(f"{token.id}: {sanitize_line(token.user)}, {token.role}, {until}; it is not shown again", file=sys.stderr)
    return exit_codes.OK


def list_tokens(parser: Parser, options: argparse.Namespace) -> int:
    """What there is."""
    if options.words:
        parser.error("list takes no names")
    with _open_database(options) as register:
        tokens = Tokens(register).list_tokens()
    now = time.time()
    if options.json:
        print_json([{**msgspec.to_builtins(token), "state": token.state(now)} for token in tokens])
        return exit_codes.OK
    for token in tokens:
        until = {"valid": _expiry_text(token.expires), "expired": "expired", "revoked": "revoked"}[token.state(now)]
        used = "never used" if token.used is None else f"used {_format_day(token.used)}"
        what = f"link to {token.session[:8]}" if token.session else token.label
        print(sanitize_line(f"{token.id}  {token.user:16}  {token.role:6}  {until:26}  {used:16}  {what}").rstrip())
    if not tokens:
        print("there are none; `dragoman tokens create USER` makes one")
    return exit_codes.OK


def revoke_tokens(parser: Parser, options: argparse.Namespace) -> int:
    """Take them back."""
    if not options.words:
        parser.error("revoke which? `dragoman tokens list` has their ids")
    with _open_database(options) as register:
        tokens = Tokens(register)
        for id in options.words:
            token = tokens.revoke(id)
            if not options.json:
                print(f"revoked {token.id}: {sanitize_line(token.user)}, {token.role}")
    if options.json:
        print_json({"revoked": options.words})
    return exit_codes.OK


def _open_database(options: argparse.Namespace) -> HostDatabase:
    """The file of tokens of the host that keeps its sessions there; of the one that config.toml tells of."""
    here = user_paths()
    return HostDatabase(
        host_database_path(store_address(options.store or load_config(here.config_file).host.store, here), here)
    )


def _expiry_text(expires: float | None) -> str:
    """The day; for what ends soon, also the time."""
    if expires is None:
        return "until revoked"
    return shelf_until(expires) if abs(expires - time.time()) < SHOW_TIME_WITHIN else f"until {_format_day(expires)}"


def _format_day(timestamp: float) -> str:
    return f"{datetime.fromtimestamp(timestamp, UTC):%Y-%m-%d}"


_ACTIONS = {"create": create_token, "list": list_tokens, "revoke": revoke_tokens}
