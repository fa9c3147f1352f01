"""`dragoman sessions share`: share a session on a host by link or with a user; list and revoke links."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from typing import Any, cast
from urllib.parse import quote

from dragoman.cli import exit_codes
from dragoman.cli.host_client.api import request_json
from dragoman.cli.host_client.store import HostStore
from dragoman.cli.parser import Parser, add_host_options, parse_duration
from dragoman.cli.sessions import open_store
from dragoman.cli.sessions.open_store import session_label
from dragoman.cli.ui.format import format_expiry, print_json, report
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.store.contract import Store

# Lifetime of a link unless given otherwise: a working day. Seconds.
DEFAULT_LIFETIME = 8 * 3600.0

# Roles, the lowest first.
ROLE_RANK = ("viewer", "editor", "admin")

EPILOG = f"""\
A link gives access to this session only, to everybody who has it, until it
expires or is revoked; they are shown as guests. The link contains a token:
treat it like a password. With --user, a user with a token of the host becomes a
permanent member. Only admins of a session can share it; who opened it is one.

Without --host, the default host is used, or else the one on this machine
(dragoman serve).

{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions share roof
  dragoman sessions share roof --role editor --for 2h --as ann
  dragoman sessions share roof --user ben --role viewer
  dragoman sessions share roof --user ben --role none
  dragoman sessions share roof --list
  dragoman sessions share roof --revoke k3f9x2m7qd

  # as the guest:
  dragoman chat --host 'http://127.0.0.1:7437/acp?token=...'"""


def main(_: str, arguments: list[str]) -> int:
    """Parse the arguments, then share."""
    parser = Parser("sessions share", "SESSION [--role ROLE] [--for TIME]", "Share a session on a host.", EPILOG)
    parser.add_argument("session", metavar="SESSION", help="name or id of the session")
    parser.add_argument(
        "--role",
        default="viewer",
        choices=("viewer", "editor", "admin", "none"),
        help="role of the guest or user (viewer)",
    )
    parser.add_value("--for", "TIME", "lifetime of the link, as in 45m, 2h or 7d (8h)", dest="lifetime")
    parser.add_value("--as", "NAME", "name of the guest", dest="name", default="")
    parser.add_value("--user", "NAME", "no link: make this user a member; --role none removes the user")
    parser.add_flag("--list", "list the links")
    parser.add_value("--revoke", "ID", "revoke a link and disconnect its guests")
    parser.add_flag("--json", "print JSON")
    add_host_options(parser)
    options = parser.read_options(arguments)
    if sum((options.user is not None, options.list, options.revoke is not None)) > 1:
        parser.error("choose one of --user, --list and --revoke")
    if options.user is None and options.role in ("admin", "none"):
        parser.error(f"a link is for a viewer or an editor; use {options.role} with --user NAME")
    options.seconds = parse_duration(parser, options.lifetime, DEFAULT_LIFETIME)
    return open_store.run_with_store(parser, options, partial(_share, options), needs_host=True)


async def _share(options: argparse.Namespace, store: Store) -> int:
    host = cast(HostStore, store).host
    summary = await open_store.find_session(store, options.session)
    path = f"/api/sessions/{quote(summary.session_id, safe='')}"
    if options.list:
        answer = await request_json(host, "GET", f"{path}/shares")
        if options.json:
            print_json(answer)
            return exit_codes.OK
        for token in answer["shares"]:
            state = "revoked" if token.get("revoked") else format_expiry(token.get("expires"))
            print(sanitize_line(f"{token['id']}  {token['user']}  {token['role']}  {state}"))
        if not answer["shares"]:
            print(f"there are no links to {session_label(summary)}")
        return exit_codes.OK
    if options.revoke is not None:
        answer = await request_json(host, "DELETE", f"{path}/shares/{quote(options.revoke, safe='')}")
        return report(options, answer, f"revoked {options.revoke}")
    if options.user is not None:
        role = None if options.role == "none" else options.role
        answer = await request_json(host, "POST", f"{path}/members", {"user": options.user, "role": role})
        change = "is no longer a member" if role is None else f"is {role}"
        return report(
            options, answer, f"{options.user} {change} of {session_label(summary)}{_token_warning(answer, role)}"
        )
    body = {"role": options.role, "seconds": options.seconds, "name": options.name}
    answer = await request_json(host, "POST", f"{path}/shares", body)
    link = f"{host.agent_url()}?token={answer['token']}"
    if options.json:
        print_json({**answer, "link": link})
    else:
        print(link)
    return exit_codes.OK


def _token_warning(membership: Mapping[str, Any], role: str | None) -> str:
    """Return a warning when the user has no token, or one with a lower role."""
    if role is None or "token" not in membership:
        return ""
    token_role = membership["token"]
    if token_role is None:
        return "; this user has no token of the host yet (dragoman tokens create; tokens of an issuer also work)"
    return (
        f", but the user's token allows only {token_role}"
        if ROLE_RANK.index(token_role) < ROLE_RANK.index(role)
        else ""
    )
