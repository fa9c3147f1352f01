"""`dragoman sessions share`: let others into a session of a host, by a link or by name; look at links, revoke them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from typing import Any, cast
from urllib.parse import quote

from dragoman.cli import amounts, exit_codes
from dragoman.cli.host_client.api import request_json
from dragoman.cli.host_client.store import HostStore
from dragoman.cli.parser import Parser, add_host_options
from dragoman.cli.sessions import open_store
from dragoman.cli.sessions.open_store import print_json, session_label
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.store.contract import Store

# A link is good for a working day unless told otherwise. Seconds.
DEFAULT_LIFETIME = 8 * 3600.0

# Roles, from the least.
ROLE_RANK = ("viewer", "editor", "admin")

EPILOG = f"""\
A link is for whoever has it, for this session alone, until its time is over or it is revoked; who comes by it is shown
as a guest. It holds a token: send it as you would send a password. With --user somebody who has a token of the host
becomes a member for good. Only admins of a session can share it; whoever opened it is one.

Without --host the default host is meant, else the one on this machine (dragoman serve).

{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions share roof
  dragoman sessions share roof --role editor --for 2h --as ann
  dragoman sessions share roof --user ben --role viewer
  dragoman sessions share roof --user ben --role none
  dragoman sessions share roof --list
  dragoman sessions share roof --revoke k3f9x2m7qd
  dragoman chat --host 'http://127.0.0.1:7437/acp?token=...'     # on the other side"""


def main(_: str, arguments: list[str]) -> int:
    """Read the arguments, then share."""
    parser = Parser("sessions share", "SESSION [--role ROLE] [--for TIME]", "Let others into a session.", EPILOG)
    parser.add_argument("session", metavar="SESSION", help="its name or id")
    parser.add_argument(
        "--role", default="viewer", choices=("viewer", "editor", "admin", "none"), help="as what (viewer)"
    )
    parser.add_argument(
        "--for", dest="lasting", metavar="TIME", help="how long the link is good, such as 45m(inutes), 2h or 7d (8h)"
    )
    parser.add_argument("--as", dest="name", metavar="NAME", default="", help="what the guest is called")
    parser.add_argument("--user", metavar="NAME", help="no link: make this user a member; --role none takes them out")
    parser.add_argument("--list", action="store_true", help="the links there are")
    parser.add_argument("--revoke", metavar="ID", help="end a link, and put out who came by it")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_host_options(parser)
    options, rest = parser.read(arguments)
    if rest:
        parser.error("it takes no command")
    if sum((options.user is not None, options.list, options.revoke is not None)) > 1:
        parser.error("choose one of --user, --list and --revoke")
    if options.user is None and options.role in ("admin", "none"):
        parser.error(f"a link is for a viewer or an editor; {options.role} is for --user NAME")
    options.seconds = amounts.parse_duration(parser, options.lasting, DEFAULT_LIFETIME)
    return open_store.run_with_store(parser, options, partial(_share, options), needs_host=True)


async def _share(options: argparse.Namespace, store: Store) -> int:
    host = cast(HostStore, store).host
    summary = await open_store.find_session(store, options.session)
    place = f"/api/sessions/{quote(summary.session_id, safe='')}"
    if options.list:
        given = await request_json(host, "GET", f"{place}/shares")
        if options.json:
            print_json(given)
            return exit_codes.OK
        for token in given["shares"]:
            state = "revoked" if token.get("revoked") else open_store.format_expiry(token.get("expires"))
            print(sanitize_line(f"{token['id']}  {token['user']}  {token['role']}  {state}"))
        if not given["shares"]:
            print(f"there is no link to {session_label(summary)}")
        return exit_codes.OK
    if options.revoke is not None:
        given = await request_json(host, "DELETE", f"{place}/shares/{quote(options.revoke, safe='')}")
        return _print_result(options, given, f"revoked {options.revoke}")
    if options.user is not None:
        role = None if options.role == "none" else options.role
        given = await request_json(host, "POST", f"{place}/members", {"user": options.user, "role": role})
        what = "is no member" if role is None else f"is {role}"
        return _print_result(
            options, given, f"{options.user} {what} of {session_label(summary)} now{_token_warning(given, role)}"
        )
    body = {"role": options.role, "seconds": options.seconds, "name": options.name}
    given = await request_json(host, "POST", f"{place}/shares", body)
    link = f"{host.agent_url()}?token={given['token']}"
    if options.json:
        print_json({**given, "link": link})
    else:
        print(link)
    return exit_codes.OK


def _token_warning(membership: Mapping[str, Any], role: str | None) -> str:
    """What is to be known beside: that nobody has a token of that name, or one that is good for less."""
    if role is None or "token" not in membership:
        return ""
    most = membership["token"]
    if most is None:
        return (
            "; nobody of that name has a token of the host (dragoman tokens create makes one, an issuer's counts too)"
        )
    return f", and with the token they have {most} at most" if ROLE_RANK.index(most) < ROLE_RANK.index(role) else ""


def _print_result(options: argparse.Namespace, json_value: object, text: str) -> int:
    if options.json:
        print_json(json_value)
    else:
        print(sanitize_line(text))
    return exit_codes.OK
