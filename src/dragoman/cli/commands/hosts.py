"""`dragoman hosts`: hosts by name, and which one is meant when none is named; their tokens are in private files."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from functools import partial
from urllib.parse import urlsplit

from dragoman.cli import exit_codes
from dragoman.cli.host_client import api
from dragoman.cli.host_client.api import parted
from dragoman.cli.host_client.probe import reached
from dragoman.cli.parser import Parser
from dragoman.cli.sessions.open_store import counted, put
from dragoman.cli.ui.terminal import Sheet, single
from dragoman.config import config_file as config
from dragoman.config import hosts
from dragoman.config.config_file import NAME, NAMING
from dragoman.config.host_section import NamedHost
from dragoman.config.paths import Places, places

# The host of this machine, which needs no name.
HERE = ""

EPILOG = """\
  list              those that are configured, and how they are now (also without a word)
  add NAME URL      keep a host under a name; its token is read from standard input, or from a file of yours; of one
                    that is there already, what is said is changed, and the rest stays
  remove NAME       forget it, and its token
  default [NAME]    which one `--host` alone, and `attach` alone, mean; without a name: the one on this machine

Every command that takes --host takes a NAME or an URL. The token goes into a file that only you can read; the variable
DRAGOMAN_TOKEN is stronger than the file. A host of your own on this machine needs none.

exit codes:
  0  done      1  there is no such host, or a file has a fault      2  wrong usage

examples:
  dragoman hosts add office https://office.example:7437 < token.txt
  dragoman hosts add office https://office.example:7437 --token-file ~/.office-token --ca office.pem --default
  dragoman hosts
  dragoman hosts --json | jq -r '.hosts[] | select(.reachable).name'
  dragoman hosts add office --ca renewed.pem < /dev/null
  dragoman chat --host office
  dragoman hosts default office && dragoman chat --host
  dragoman hosts remove office"""


def main(arguments: list[str]) -> int:
    """Read the arguments, then do the one thing."""
    parser = Parser(
        "hosts", "[list|add|remove|default] [NAME] [URL] [OPTIONS]", "Hosts by name: add, list, remove, choose.", EPILOG
    )
    parser.add_argument("action", nargs="?", default="list", choices=tuple(_ACTIONS), help="what to do")
    parser.add_argument("name", nargs="?", metavar="NAME", help="add, remove, default: which")
    parser.add_argument("url", nargs="?", metavar="URL", help="add: where it is")
    parser.add_argument("--token-file", metavar="FILE", help="add: where its token is; else it is read from stdin")
    parser.add_argument("--ca", metavar="FILE", help="add: certificates to trust beside the system's")
    parser.add_argument("--default", action="store_true", help="add: and make it the default")
    parser.add_argument("--names", action="store_true", help="list: only the names; asks nobody")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options, rest = parser.read(arguments)
    if rest:
        parser.error("it takes no command")
    return _ACTIONS[options.action](parser, options)


def listing(parser: Parser, options: argparse.Namespace) -> int:
    """What there is, and how it is now."""
    if options.name:
        parser.error("list takes no name")
    path = places().agents
    known = config.load(path)
    if options.names:
        print("\n".join(known.hosts))
        return exit_codes.OK
    sheet = Sheet(sys.stderr)
    # Each is brought the token that is kept for it: the variable's is for one of them, and nobody knows for which.
    environ = {name: value for name, value in os.environ.items() if name != hosts.VARIABLE}
    asked = {name: partial(api.meant, name, None, environ) for name in known.hosts} | {HERE: api.here}
    found = reached(asked, lambda left: sheet.footer(f"asking {counted(left, 'host')}…"))
    sheet.unfoot()
    local = found.pop(HERE)
    if options.json:
        rows = [
            {
                "name": host.name,
                "url": host.url,
                "default": host.name == known.default_host,
                "token": _source(host),
                **found[host.name].told,
            }
            for host in known.hosts.values()
        ]
        here = {"url": api.here().base, **local.told}
        put({"file": path, "default": known.default_host or None, "hosts": rows, "here": here})
        return exit_codes.OK
    width = max((len(name) for name in known.hosts), default=0)
    for host in known.hosts.values():
        default = ", the default" if host.name == known.default_host else ""
        print(single(f"{host.name:{width}}  {host.url}  {_source(host) or 'no token'}{default}"))
        print(single(f"{'':{width}}  {found[host.name].said}"))
    if not known.hosts:
        print("none is configured; without --host NAME, the one on this machine is meant (dragoman serve)")
    if not local.error:
        print(single(f"on this machine: {api.here().base}  {local.said}"))
    return exit_codes.OK


def add(parser: Parser, options: argparse.Namespace) -> int:
    """Keep a host under a name, or change what is kept."""
    name = _named(parser, options)
    if NAME.fullmatch(name) is None:
        parser.error(NAMING)
    here = places()
    before = config.load(here.agents).hosts.get(name)
    given = options.url or (before.url if before is not None else "")
    if not given.startswith(("http://", "https://", "ws://", "wss://")):
        parser.error("say where it is, as in: add office https://office.example:7437")
    url, inside = parted(given)  # the token of a share link belongs into the file, not into the listing
    # A token is for one place: it does not go along to another.
    file = before.token_file if before is not None and urlsplit(before.url)[:2] == urlsplit(url)[:2] else ""
    if options.token_file is not None:
        file = os.path.abspath(os.path.expanduser(options.token_file))
        hosts.token_of(NamedHost(name=name, url=url, token_file=file), {})
    elif token := inside or _typed(name, "Enter to keep it" if file else "Enter for none"):
        file = hosts.keep_token(here, name, token)
    if options.ca is not None:
        ca = os.path.abspath(os.path.expanduser(options.ca)) if options.ca else ""
    else:
        ca = before.ca if before is not None else ""
    (hosts.add if before is None else hosts.replace)(here.agents, NamedHost(name=name, url=url, token_file=file, ca=ca))
    if options.default:
        hosts.set_default(here.agents, name)
    if before is None:
        return _done(options, {"added": name, "token": bool(file)}, f"{name} is kept; try: dragoman chat --host {name}")
    lost = ""
    if before.token_file and not file:
        lost = "; its token was for another place and is no longer used"
        _forget_token(here, before)
    return _done(options, {"changed": name, "token": bool(file)}, f"{name} is changed{lost}")


def remove(parser: Parser, options: argparse.Namespace) -> int:
    """Forget a host, and the token that we kept for it."""
    name = _configured(parser, options)
    if name is None:
        return exit_codes.FAILED
    here = places()
    before = config.load(here.agents).hosts[name]
    hosts.remove(here.agents, name)
    _forget_token(here, before)
    return _done(options, {"removed": name}, f"{name} is no longer configured")


def default(parser: Parser, options: argparse.Namespace) -> int:
    """Choose which one is meant when none is named."""
    path = places().agents
    if options.name is None:
        hosts.set_default(path, "")
        return _done(options, {"default": None}, "the host on this machine is meant when none is named")
    name = _configured(parser, options)
    if name is None:
        return exit_codes.FAILED
    hosts.set_default(path, name)
    return _done(options, {"default": name}, f"{name} is meant when no host is named")


def _typed(name: str, otherwise: str) -> str:
    """The token from standard input; on a terminal it is asked for, and not shown."""
    if sys.stdin is None:
        return ""
    if sys.stdin.isatty():
        return getpass.getpass(f"token of {name} ({otherwise}): ").strip()
    return sys.stdin.read().strip()


def _forget_token(here: Places, host: NamedHost) -> None:
    """Only the file that we made; one of the user's own is the user's."""
    if host.token_file == hosts.token_place(here, host.name) and os.path.exists(host.token_file):
        os.unlink(host.token_file)


def _source(host: NamedHost) -> str | None:
    return f"token in {host.token_file}" if host.token_file else None


def _named(parser: Parser, options: argparse.Namespace) -> str:
    if options.name is None:
        parser.error(f"{options.action} which one? say its name")
    return str(options.name)


def _configured(parser: Parser, options: argparse.Namespace) -> str | None:
    name = _named(parser, options)
    known = config.load(places().agents).hosts
    if name in known:
        return name
    print(f"{parser.prog}: there is no host {name!r}; there are: {', '.join(known) or 'none'}", file=sys.stderr)
    return None


def _done(options: argparse.Namespace, machine: dict[str, object], words: str) -> int:
    if options.json:
        put(machine)
    else:
        print(words)
    return exit_codes.OK


_ACTIONS = {"list": listing, "add": add, "remove": remove, "default": default}
