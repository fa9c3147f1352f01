"""`dragoman sessions fork`, `rename`, `share`, `delete` and `expire`."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote
from uuid import uuid4

import msgspec

from dragoman.cli.connect.session_agent import forget_session_agent
from dragoman.cli.host_client.api import request_json
from dragoman.cli.host_client.store import HostStore
from dragoman.cli.parser import BYTES_PER_UNIT, SECONDS_PER_UNIT, Parser, parse_amount, parse_duration
from dragoman.cli.sessions import open_store
from dragoman.cli.sessions.open_store import session_label
from dragoman.cli.ui.format import format_age, format_count, format_expiry, report
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.errors import Kind, ProtocolError
from dragoman.ids import now
from dragoman.store.contract import Retention, Store
from dragoman.store.summary import check_new_name, expired_ids

FORK_HELP = f"""\
The agent does not know the copy: when you continue it, the agent opens a new
session and gets the earlier messages. `dragoman sessions show SESSION --json`
shows the numbers for --upto.

{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions fork roof loft
  dragoman sessions fork roof loft --upto 42"""

RENAME_HELP = f"""\
{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions rename 3f2a9c1e roof
  dragoman sessions rename roof              # removes the name"""

DELETE_HELP = f"""\
Deleted sessions cannot be restored: export them first if you are not sure. What
the agent itself stores is not deleted.

{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions delete roof 3f2a9c1e
  dragoman sessions list --here --names | tr '\\n' '\\0' \\
      | xargs -0 dragoman sessions delete"""

EXPIRE_HELP = f"""\
Deletes sessions beyond any of the limits, the oldest first. Sessions with a
name are kept, unless --named is given. Ages are in hours, days, weeks or years
(12h, 90d, 8w, 1y), sizes in bytes, K, M or G. On a host (--host) only sessions
without members that you may delete are deleted.

{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions expire --older 90d --dry-run
  dragoman sessions expire --keep 200 --size 500M
  dragoman sessions expire --older 1y --named"""


def run_fork(name: str, arguments: list[str]) -> int:
    """Copy a session."""
    parser = Parser(name, "SESSION [NAME] [--upto N] [--json]", "Copy a session.", FORK_HELP)
    open_store.add_session_argument(parser)
    parser.add_argument("name", nargs="?", metavar="NAME", help="name of the copy")
    parser.add_value("--upto", "N", "copy only the entries up to this number", type=int)
    options = open_store.parse_options(parser, arguments)
    if options.upto is not None and options.upto < 1:
        parser.error("--upto: must be at least 1")
    return open_store.run_with_store(parser, options, _fork)


async def _fork(options: argparse.Namespace, store: Store) -> int:
    origin = await open_store.find_session(store, options.session)
    await _check_name_is_free(store, options.name)
    if isinstance(store, HostStore):
        copy = await store.fork(origin.session_id, "", options.upto, options.name)
    else:
        copy = await store.fork(origin.session_id, str(uuid4()), options.upto)
        if options.name is not None:
            copy = await store.rename(copy.session_id, options.name)
    name = session_label(copy)
    host_flag = store.host.flag if isinstance(store, HostStore) else ""
    next_command = f"dragoman run {host_flag}--session {shlex.quote(name)} 'PROMPT'"
    text = f"{name} is a copy of {session_label(origin)}; continue it with: {next_command}"
    return report(options, msgspec.to_builtins(copy), text)


async def _check_name_is_free(store: Store, name: str | None) -> None:
    """Raise before any change if the name cannot be used."""
    if name is None:
        return
    check_new_name(name)
    for summary in await store.sessions():
        if summary.name == name:
            message = f"there is already a session {name}; choose another name, or rename that session"
            raise ProtocolError(Kind.INVALID_PARAMS, message)


def run_rename(name: str, arguments: list[str]) -> int:
    """Give a session a name, or remove it."""
    parser = Parser(name, "SESSION [NAME] [--json]", "Give a session a name, or remove its name.", RENAME_HELP)
    open_store.add_session_argument(parser)
    parser.add_argument("name", nargs="?", metavar="NAME", help="the new name; without it, the name is removed")
    options = open_store.parse_options(parser, arguments)
    return open_store.run_with_store(parser, options, _rename)


async def _rename(options: argparse.Namespace, store: Store) -> int:
    old = await open_store.find_session(store, options.session)
    new = await store.rename(old.session_id, options.name)
    return report(options, msgspec.to_builtins(new), f"renamed {session_label(old)} to {session_label(new)}")


def run_delete(name: str, arguments: list[str]) -> int:
    """Delete sessions."""
    parser = Parser(name, "SESSION... [--json]", "Delete sessions.", DELETE_HELP)
    parser.add_argument("sessions", nargs="+", metavar="SESSION", help="names or ids of sessions")
    options = open_store.parse_options(parser, arguments)
    return open_store.run_with_store(parser, options, _delete)


async def _delete(options: argparse.Namespace, store: Store) -> int:
    # Find all of them before deleting any.
    summaries = [await open_store.find_session(store, name) for name in options.sessions]
    for summary in summaries:
        await store.delete(summary.session_id)
        forget_session_agent(summary.session_id)
        if not options.json:
            turns, title = format_count(summary.turns, "turn"), sanitize_line(summary.title or "")
            print(f"deleted {session_label(summary)}: {turns}, {title}")
    return report(options, {"deleted": [summary.session_id for summary in summaries]}, [])


def run_expire(name: str, arguments: list[str]) -> int:
    """Delete old sessions."""
    parser = Parser(name, "[--older AGE] [--keep N] [--size SIZE]", "Delete old sessions.", EXPIRE_HELP)
    parser.add_value("--older", "AGE", "delete sessions without changes for this long")
    parser.add_value("--keep", "N", "delete all but the newest N", type=int)
    parser.add_value("--size", "SIZE", "delete the oldest, until the others have this size")
    parser.add_flag("--named", "also delete sessions with a name")
    parser.add_flag("--dry-run", "only print what would be deleted")
    options = open_store.parse_options(parser, arguments)
    options.retention = Retention(
        seconds=parse_amount(parser, "--older", options.older, SECONDS_PER_UNIT, "90d"),
        count=options.keep,
        bytes=None if options.size is None else int(parse_amount(parser, "--size", options.size, BYTES_PER_UNIT) or 0),
        spares_named=not options.named,
    )
    if options.older is options.keep is options.size is None:
        parser.error("give a limit: --older 90d, --keep 200 or --size 500M")
    if options.keep is not None and options.keep < 0:
        parser.error("--keep: must not be negative")
    return open_store.run_with_store(parser, options, _expire)


async def _expire(options: argparse.Namespace, store: Store) -> int:
    known = await (store.deletable_sessions() if isinstance(store, HostStore) else store.sessions())
    limits = options.retention
    expired = expired_ids(limits, known, now()) if options.dry_run else await store.expire(limits, now())
    lines = [
        f"{session_label(each, known)}  {format_age(each.updated_at)}  {each.title or ''}"
        for each in known
        if each.session_id in expired
    ]
    verb = "would be deleted" if options.dry_run else "deleted"
    lines.append(f"{format_count(len(expired), 'session')} {verb}, {len(known) - len(expired)} kept")
    return report(options, {"expired": expired, "dryRun": options.dry_run}, lines)


# Lifetime of a link unless given otherwise: a working day. Seconds.
DEFAULT_LIFETIME = 8 * 3600.0

# Roles, the lowest first.
ROLE_RANK = ("viewer", "editor", "admin")

SHARE_HELP = f"""\
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

  # as the guest; the first command asks for the link:
  dragoman hosts add roof
  dragoman chat --host roof"""


def run_share(name: str, arguments: list[str]) -> int:
    """Parse the arguments, then share."""
    parser = Parser(name, "SESSION [--role ROLE] [--for TIME]", "Share a session on a host.", SHARE_HELP)
    open_store.add_session_argument(parser)
    roles = (*ROLE_RANK, "none")
    parser.add_argument("--role", default="viewer", choices=roles, help="role of the guest or user (viewer)")
    parser.add_value("--for", "TIME", "lifetime of the link, as in 45m, 2h or 7d (8h)", dest="lifetime")
    parser.add_value("--as", "NAME", "name of the guest", dest="name", default="")
    parser.add_value("--user", "NAME", "no link: make this user a member; --role none removes the user")
    parser.add_flag("--list", "list the links")
    parser.add_value("--revoke", "ID", "revoke a link and disconnect its guests")
    options = open_store.parse_options(parser, arguments)
    if sum((options.user is not None, options.list, options.revoke is not None)) > 1:
        parser.error("choose one of --user, --list and --revoke")
    if options.user is None and options.role in ("admin", "none"):
        parser.error(f"a link is for a viewer or an editor; use {options.role} with --user NAME")
    options.seconds = parse_duration(parser, options.lifetime, DEFAULT_LIFETIME)
    return open_store.run_with_store(parser, options, _share, needs_host=True)


async def _share(options: argparse.Namespace, store: Store) -> int:
    host = cast(HostStore, store).host
    summary = await open_store.find_session(store, options.session)
    path = f"/api/sessions/{quote(summary.session_id, safe='')}"
    if options.list:
        answer = await request_json(host, "GET", f"{path}/shares")
        lines = []
        for token in answer["shares"]:
            state = "revoked" if token.get("revoked") else format_expiry(token.get("expires"))
            lines.append(f"{token['id']}  {token['user']}  {token['role']}  {state}")
        return report(options, answer, lines or f"there are no links to {session_label(summary)}")
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
    if not options.json:  # on stderr: a script reads only the link
        where = f" {host.flag.strip()}" if host.host_argument else ""
        revoke = f"dragoman sessions share {shlex.quote(options.session)} --revoke {answer['id']}{where}"
        note = f"valid {format_expiry(answer.get('expires'))}; to end it: {revoke}"
        print(sanitize_line(note), file=sys.stderr, flush=True)
    return report(options, {**answer, "link": link}, link)


def _token_warning(membership: Mapping[str, Any], role: str | None) -> str:
    """Return a warning when the user has no token, or one with a lower role."""
    if role is None or "token" not in membership:
        return ""
    token_role = membership["token"]
    if token_role is None:
        return "; this user has no token of the host yet (dragoman tokens create; tokens of an issuer also work)"
    is_lower = ROLE_RANK.index(token_role) < ROLE_RANK.index(role)
    return f", but the user's token allows only {token_role}" if is_lower else ""
