"""`dragoman hosts`: named hosts and the default host; tokens are in private files. The list probes all hosts."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from dragoman.cli import exit_codes
from dragoman.cli.host_client import api
from dragoman.cli.host_client.api import split_token
from dragoman.cli.messages import with_cli_advice
from dragoman.cli.parser import Parser
from dragoman.cli.subcommands import Action, CommandGroup, find_name, require_name
from dragoman.cli.ui.format import format_count, report
from dragoman.cli.ui.terminal import OutputStream
from dragoman.config import config_file as config
from dragoman.config import host_tokens
from dragoman.config.config_file import NAME_PATTERN, NAME_RULE
from dragoman.config.host_section import NamedHost
from dragoman.config.paths import UserPaths, user_paths
from dragoman.errors import ConfigFault, ConnectionFailed, ProtocolError, StartFailed
from dragoman.transport.address import is_remote
from dragoman.transport.remote.address import parse_address

# The name of the host on this machine.
LOCAL_HOST = ""

EPILOG = """\
Every command with --host takes a NAME or a URL. The token is stored in a file
that only you can read; the variable DRAGOMAN_TOKEN overrides the file. Your own
host on this machine needs no token.

exit codes:
  0  done
  1  there is no such host, or a file has an error
  2  wrong usage

examples:
  dragoman hosts add office https://office.example:7437 < token.txt
  dragoman hosts add office https://office.example:7437 \\
      --token-file ~/.office-token --ca office.pem --default
  dragoman hosts
  dragoman hosts --json | jq -r '.hosts[] | select(.reachable).name'
  dragoman hosts add office --ca renewed.pem < /dev/null
  dragoman hosts add roof < link.txt
  dragoman chat --host office
  dragoman hosts default office && dragoman chat --host
  dragoman hosts remove office"""


def main(arguments: list[str]) -> int:
    """Parse the arguments, then run the action."""
    parser = CommandGroup(
        "hosts",
        "[ACTION] [NAME] [URL] [OPTIONS]",
        "List, add and remove hosts; choose the default host.",
        _ACTIONS,
        EPILOG,
        default="list",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="add, remove, default: name of the host")
    parser.add_argument(
        "url",
        nargs="?",
        metavar="URL",
        help="add: URL of the host; without it, standard input has a share link",
    )
    parser.add_value(
        "--token-file", "FILE", "add: file with the token; without it, the token is read from standard input"
    )
    parser.add_value("--ca", "FILE", "add: file with additional trusted certificates")
    parser.add_flag("--default", "add: also make it the default")
    parser.add_flag("--names", "list: print only the names; contact no host")
    parser.add_flag("--json", "print JSON")
    return parser.run(arguments)


def list_hosts(parser: Parser, options: argparse.Namespace) -> int:
    """List the hosts and their state."""
    if options.name:
        parser.error("list takes no name")
    path = user_paths().config_file
    known = config.load_config(path)
    if options.names:
        print("\n".join(known.hosts))
        return exit_codes.OK
    output = OutputStream(sys.stderr)
    # Each host gets its own stored token: DRAGOMAN_TOKEN is for one of them, and we do not know which.
    environ = {name: value for name, value in os.environ.items() if name != host_tokens.TOKEN_VARIABLE}
    targets = {name: partial(api.resolve_host, name, None, environ) for name in known.hosts} | {
        LOCAL_HOST: api.local_host
    }
    results = probe_hosts(targets, lambda left: output.show_footer(f"waiting for {format_count(left, 'host')}…"))
    output.clear_footer()
    local_result = results.pop(LOCAL_HOST)
    width = max((len(name) for name in known.hosts), default=0)
    rows, lines = [], []
    for host in known.hosts.values():
        result, is_default = results[host.name], host.name == known.default_host
        token = f"token in {host.token_file}" if host.token_file else None
        rows.append({"name": host.name, "url": host.url, "default": is_default, "token": token, **result.to_json})
        lines.append(f"{host.name:{width}}  {host.url}  {token or 'no token'}{', the default' if is_default else ''}")
        lines.append(f"{'':{width}}  {result.summary_line}")
    if not known.hosts:
        lines.append(
            "no host is configured; without --host NAME, commands use the host on this machine (dragoman serve)"
        )
    local_url = api.local_host().base_url
    if not local_result.error:
        lines.append(f"on this machine: {local_url}  {local_result.summary_line}")
    here = {"url": local_url, **local_result.to_json}
    answer = {"file": path, "default": known.default_host or None, "hosts": rows, "here": here}
    return report(options, answer, lines)


def add_host(parser: Parser, options: argparse.Namespace) -> int:
    """Add a host, or change it."""
    name = require_name(parser, options, "a host")
    if NAME_PATTERN.fullmatch(name) is None:
        parser.error(NAME_RULE)
    paths = user_paths()
    before = config.load_config(paths.config_file).hosts.get(name)
    given_url = options.url or (before.url if before is not None else "")
    if not given_url:  # a share link is a secret, so it need not be on the command line
        given_url = _read_secret(f"link or URL of {name}: ")
    if not is_remote(given_url):
        parser.error("give the URL of the host, as in: add office https://office.example:7437")
    try:
        parse_address(given_url)
    except StartFailed as error:  # no command could use it
        parser.error(with_cli_advice(str(error)))
    url, url_token = split_token(given_url)  # the token of a share link belongs in the file, not in the list
    # A token is for one server: it is not sent to another.
    file = before.token_file if before is not None and urlsplit(before.url)[:2] == urlsplit(url)[:2] else ""
    if options.token_file is not None:
        file = os.path.abspath(os.path.expanduser(options.token_file))
        host_tokens.read_token(NamedHost(name=name, url=url, token_file=file), {})
    elif token := url_token or _read_secret(f"token of {name} ({'Enter to keep it' if file else 'Enter for none'}): "):
        file = host_tokens.save_token(paths, name, token)
    if options.ca is not None:
        ca = os.path.abspath(os.path.expanduser(options.ca)) if options.ca else ""
    else:
        ca = before.ca if before is not None else ""
    entry = NamedHost(name=name, url=url, token_file=file, ca=ca)
    config.add_entry(paths.config_file, entry, replaces=before is not None)
    if options.default:
        config.set_default(paths.config_file, "hosts", name)
    if before is None:
        return report(options, {"added": name, "token": bool(file)}, f"added {name}; try: dragoman chat --host {name}")
    note = ""
    if before.token_file and not file:
        note = "; its token was for another server and is no longer used"
        _delete_token_file(paths, before)
    return report(options, {"changed": name, "token": bool(file)}, f"changed {name}{note}")


def remove_host(parser: Parser, options: argparse.Namespace) -> int:
    """Remove a host and the token that we stored for it."""
    paths = user_paths()
    known = config.load_config(paths.config_file).hosts
    name = find_name(parser, options, "a host", known)
    if name is None:
        return exit_codes.FAILED
    before = known[name]
    config.remove_entry(paths.config_file, "hosts", name)
    _delete_token_file(paths, before)
    return report(options, {"removed": name}, f"removed {name}")


def set_default_host(parser: Parser, options: argparse.Namespace) -> int:
    """Set the host that is used without a name."""
    path = user_paths().config_file
    if options.name is None:
        config.set_default(path, "hosts", "")
        return report(options, {"default": None}, "the default host is the one on this machine")
    name = find_name(parser, options, "a host", config.load_config(path).hosts)
    if name is None:
        return exit_codes.FAILED
    config.set_default(path, "hosts", name)
    return report(options, {"default": name}, f"the default host is {name}")


def _read_secret(prompt: str) -> str:
    """Read a token or link from standard input; on a terminal, ask without echo."""
    if sys.stdin is None:
        return ""
    return (getpass.getpass(prompt) if sys.stdin.isatty() else sys.stdin.read()).strip()


def _delete_token_file(paths: UserPaths, host: NamedHost) -> None:
    """Delete only the file that we created, not a file of the user."""
    if host.token_file == host_tokens.token_path(paths, host.name) and os.path.exists(host.token_file):
        os.unlink(host.token_file)


_ACTIONS = {
    "list": Action(list_hosts, "list", "list the hosts and their state (the default)"),
    "add": Action(
        add_host,
        "add NAME URL",
        "add a host, with its token from standard input or a file; change only what is given of an existing host",
    ),
    "remove": Action(remove_host, "remove NAME", "remove a host and its token"),
    "default": Action(
        set_default_host,
        "default [NAME]",
        "set the host that `--host` and `attach` use without a name; without NAME: the host on this machine",
    ),
}

# Somebody looks at the list and waits. Seconds.
PROBE_TIMEOUT = 3.0


class ProbeResult(NamedTuple):
    """The answer of one host, or the error."""

    milliseconds: int | None = None  # of the whole request, with the handshake
    host_info: Mapping[str, Any] = {}
    error: str = ""

    @property
    def to_json(self) -> dict[str, Any]:
        """The result for --json."""
        return {
            "reachable": not self.error,
            "milliseconds": self.milliseconds,
            "version": self.host_info.get("dragoman"),
            "agents": self.host_info.get("agents"),
            "user": self.host_info.get("user"),
            "role": self.host_info.get("role"),
            "error": self.error or None,
        }

    @property
    def summary_line(self) -> str:
        """The result in one line."""
        if self.error:
            return self.error
        agents = self.host_info.get("agents")
        names = ", ".join(map(str, agents)) if isinstance(agents, list) else ""
        who = f"you are {self.host_info.get('user')} ({self.host_info.get('role')})"
        return f"{self.milliseconds} ms, dragoman {self.host_info.get('dragoman')}, {who}, agents: {names or 'none'}"


def probe_hosts(
    hosts: Mapping[str, Callable[[], api.HostTarget]], progress: Callable[[int], None], timeout: float = PROBE_TIMEOUT
) -> dict[str, ProbeResult]:
    """Probe all hosts; `progress` gets the number of missing answers."""
    results: dict[str, ProbeResult] = {}
    changed = threading.Condition()

    def ask(name: str, host: Callable[[], api.HostTarget]) -> None:
        result = _probe_host(host, timeout)
        with changed:
            results[name] = result
            changed.notify()

    for name, host in hosts.items():
        # Daemon threads: the program must not wait for a slow resolver at exit.
        threading.Thread(target=ask, args=(name, host), daemon=True).start()
    end = time.monotonic() + timeout
    with changed:
        while len(results) < len(hosts) and time.monotonic() < end:
            progress(len(hosts) - len(results))
            changed.wait(max(0.0, end - time.monotonic()))
        timed_out = ProbeResult(error=f"no answer within {timeout:g} s")
        return {name: results.get(name, timed_out) for name in hosts}


def _probe_host(host: Callable[[], api.HostTarget], timeout: float) -> ProbeResult:
    started = time.monotonic()
    try:
        answer = api.request_json_blocking(host(), "GET", "/api/host", timeout=timeout)
    except (ConnectionFailed, ProtocolError, ConfigFault) as error:
        return ProbeResult(error=with_cli_advice(str(error)))
    if not isinstance(answer, dict):
        return ProbeResult(error="this is not a Dragoman host")
    return ProbeResult(round((time.monotonic() - started) * 1000), answer)
