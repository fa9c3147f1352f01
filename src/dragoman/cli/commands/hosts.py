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
from dragoman.cli.host_client.api import split_token
from dragoman.cli.host_client.probe import probe_hosts
from dragoman.cli.parser import Parser
from dragoman.cli.sessions.open_store import format_count, print_json
from dragoman.cli.ui.terminal import OutputStream, sanitize_line
from dragoman.config import config_file as config
from dragoman.config import hosts
from dragoman.config.config_file import NAME_PATTERN, NAME_RULE
from dragoman.config.host_section import NamedHost
from dragoman.config.paths import UserPaths, user_paths

# The host of this machine, which needs no name.
LOCAL_HOST = ""

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


def list_hosts(parser: Parser, options: argparse.Namespace) -> int:
    """What there is, and how it is now."""
    if options.name:
        parser.error("list takes no name")
    path = user_paths().config_file
    known = config.load_config(path)
    if options.names:
        print("\n".join(known.hosts))
        return exit_codes.OK
    sheet = OutputStream(sys.stderr)
    # Each is brought the token that is kept for it: the variable's is for one of them, and nobody knows for which.
    environ = {name: value for name, value in os.environ.items() if name != hosts.TOKEN_VARIABLE}
    asked = {name: partial(api.resolve_host, name, None, environ) for name in known.hosts} | {
        LOCAL_HOST: api.local_host
    }
    found = probe_hosts(asked, lambda left: sheet.show_footer(f"asking {format_count(left, 'host')}…"))
    sheet.clear_footer()
    local = found.pop(LOCAL_HOST)
    if options.json:
        rows = [
            {
                "name": host.name,
                "url": host.url,
                "default": host.name == known.default_host,
                "token": _token_source(host),
                **found[host.name].to_json,
            }
            for host in known.hosts.values()
        ]
        here = {"url": api.local_host().base_url, **local.to_json}
        print_json({"file": path, "default": known.default_host or None, "hosts": rows, "here": here})
        return exit_codes.OK
    width = max((len(name) for name in known.hosts), default=0)
    for host in known.hosts.values():
        default = ", the default" if host.name == known.default_host else ""
        print(sanitize_line(f"{host.name:{width}}  {host.url}  {_token_source(host) or 'no token'}{default}"))
        print(sanitize_line(f"{'':{width}}  {found[host.name].summary_line}"))
    if not known.hosts:
        print("none is configured; without --host NAME, the one on this machine is meant (dragoman serve)")
    if not local.error:
        print(sanitize_line(f"on this machine: {api.local_host().base_url}  {local.summary_line}"))
    return exit_codes.OK


def add_host(parser: Parser, options: argparse.Namespace) -> int:
    """Keep a host under a name, or change what is kept."""
    name = _required_name(parser, options)
    if NAME_PATTERN.fullmatch(name) is None:
        parser.error(NAME_RULE)
    here = user_paths()
    before = config.load_config(here.config_file).hosts.get(name)
    given = options.url or (before.url if before is not None else "")
    if not given.startswith(("http://", "https://", "ws://", "wss://")):
        parser.error("say where it is, as in: add office https://office.example:7437")
    url, inside = split_token(given)  # the token of a share link belongs into the file, not into the listing
    # A token is for one place: it does not go along to another.
    file = before.token_file if before is not None and urlsplit(before.url)[:2] == urlsplit(url)[:2] else ""
    if options.token_file is not None:
        file = os.path.abspath(os.path.expanduser(options.token_file))
        hosts.read_token(NamedHost(name=name, url=url, token_file=file), {})
    elif token := inside or _read_token(name, "Enter to keep it" if file else "Enter for none"):
        file = hosts.save_token(here, name, token)
    if options.ca is not None:
        ca = os.path.abspath(os.path.expanduser(options.ca)) if options.ca else ""
    else:
        ca = before.ca if before is not None else ""
    (hosts.add_host if before is None else hosts.replace_host)(
        here.config_file, NamedHost(name=name, url=url, token_file=file, ca=ca)
    )
    if options.default:
        hosts.set_default_host(here.config_file, name)
    if before is None:
        return _print_result(
            options, {"added": name, "token": bool(file)}, f"{name} is kept; try: dragoman chat --host {name}"
        )
    lost = ""
    if before.token_file and not file:
        lost = "; its token was for another place and is no longer used"
        _delete_token_file(here, before)
    return _print_result(options, {"changed": name, "token": bool(file)}, f"{name} is changed{lost}")


def remove_host(parser: Parser, options: argparse.Namespace) -> int:
    """Forget a host, and the token that we kept for it."""
    name = _configured_name(parser, options)
    if name is None:
        return exit_codes.FAILED
    here = user_paths()
    before = config.load_config(here.config_file).hosts[name]
    hosts.remove_host(here.config_file, name)
    _delete_token_file(here, before)
    return _print_result(options, {"removed": name}, f"{name} is no longer configured")


def set_default_host(parser: Parser, options: argparse.Namespace) -> int:
    """Choose which one is meant when none is named."""
    path = user_paths().config_file
    if options.name is None:
        hosts.set_default_host(path, "")
        return _print_result(options, {"default": None}, "the host on this machine is meant when none is named")
    name = _configured_name(parser, options)
    if name is None:
        return exit_codes.FAILED
    hosts.set_default_host(path, name)
    return _print_result(options, {"default": name}, f"{name} is meant when no host is named")


def _read_token(name: str, hint: str) -> str:
    """The token from standard input; on a terminal it is asked for, and not shown."""
    if sys.stdin is None:
        return ""
    if sys.stdin.isatty():
        return getpass.getpass(f"token of {name} ({hint}): ").strip()
    return sys.stdin.read().strip()


def _delete_token_file(paths: UserPaths, host: NamedHost) -> None:
    """Only the file that we made; one of the user's own is the user's."""
    if host.token_file == hosts.token_path(paths, host.name) and os.path.exists(host.token_file):
        os.unlink(host.token_file)


def _token_source(host: NamedHost) -> str | None:
    return f"token in {host.token_file}" if host.token_file else None


def _required_name(parser: Parser, options: argparse.Namespace) -> str:
    if options.name is None:
        parser.error(f"{options.action} which one? say its name")
    return str(options.name)


def _configured_name(parser: Parser, options: argparse.Namespace) -> str | None:
    name = _required_name(parser, options)
    known = config.load_config(user_paths().config_file).hosts
    if name in known:
        return name
    print(f"{parser.prog}: there is no host {name!r}; there are: {', '.join(known) or 'none'}", file=sys.stderr)
    return None


def _print_result(options: argparse.Namespace, json_value: dict[str, object], text: str) -> int:
    if options.json:
        print_json(json_value)
    else:
        print(text)
    return exit_codes.OK


_ACTIONS = {"list": list_hosts, "add": add_host, "remove": remove_host, "default": set_default_host}
