"""`dragoman grants`: list and revoke remembered permissions; running sessions notice at once."""

from __future__ import annotations

import argparse
import time

import msgspec

from dragoman.cli import exit_codes
from dragoman.cli.parser import Parser
from dragoman.cli.subcommands import Action, CommandGroup
from dragoman.cli.ui.format import format_expiry, report
from dragoman.config.grants import GrantsFile
from dragoman.config.paths import user_paths
from dragoman.config.private_files import as_config_faults
from dragoman.policy.grants import Grant

EPILOG = """\
exit codes:
  0  done
  1  there is no grant with this id, or a file cannot be used
  2  wrong usage

examples:
  dragoman grants list
  dragoman grants revoke 3f2a9c1e
  dragoman grants list --json"""


def main(arguments: list[str]) -> int:
    """Parse the arguments, then run the action."""
    parser = CommandGroup(
        "grants",
        "[ACTION] [ID...] [OPTIONS]",
        "List and revoke remembered permissions.",
        _ACTIONS,
        EPILOG,
        default="list",
    )
    parser.add_argument("ids", nargs="*", metavar="ID", help="revoke: ids of grants")
    parser.add_flag("--all", "revoke: all grants")
    parser.add_flag("--json", "print JSON")
    options, rest = parser.read(arguments)
    options.ids += rest
    return parser.run_action(options)


def list_grants(parser: Parser, options: argparse.Namespace) -> int:
    """List the grants, the newest last."""
    if options.ids or options.all:
        parser.error("list takes no ids")
    current = [grant for grant in GrantsFile(user_paths().grants).current() if not grant.is_expired(time.time())]
    lines = [
        f"{grant.id}  {grant.verdict:5}  {grant.scope:9}  {grant.operation:16}  {format_grant(grant)}"
        for grant in current
    ]
    return report(options, msgspec.to_builtins(current), lines or "there are no grants")


def format_grant(grant: Grant) -> str:
    """Return what a grant is for, its agent, folder and expiry."""
    server_tool = "/".join(part for part in (grant.server, grant.tool) if part)
    text = grant.resource or server_tool or grant.title
    if grant.cwd:
        text += f"  started in {grant.cwd}"
    if grant.agent:
        text += f"  by {grant.agent}"
    if grant.workspace and grant.scope != "always":
        text += f"  in {grant.workspace}"
    if grant.expires is not None:
        text += f"  {format_expiry(grant.expires)}"
    return text


def revoke_grants(parser: Parser, options: argparse.Namespace) -> int:
    """Revoke grants; report unknown ids."""
    if bool(options.ids) is options.all:
        parser.error("give the ids to revoke, or --all")
    grants = GrantsFile(user_paths().grants)
    ids = options.ids or [grant.id for grant in grants.current()]
    found = grants.revoke(ids)
    missing = sorted(set(ids) - {grant.id for grant in found})
    lines = [f"revoked {grant.id}: {grant.verdict} {grant.operation} {format_grant(grant)}" for grant in found]
    report(options, {"revoked": [grant.id for grant in found], "unknown": missing}, lines)
    if missing and not options.json:
        parser.fail(f"there is no grant {', '.join(missing)}; see dragoman grants list")
    if found:  # if the audit log cannot be written, the revocation stays, which is the safe side
        from dragoman.roles.client.permission.audit_writer import grant_entry
        from dragoman.store.audit import AuditEvent, AuditLog

        path = user_paths().audit
        with as_config_faults(path):
            AuditLog(path).append([grant_entry(grant, AuditEvent.REVOKED) for grant in found])
    return exit_codes.FAILED if missing else exit_codes.OK


_ACTIONS = {
    "list": Action(list_grants, "list", "list the permissions that were allowed or refused for longer (default)"),
    "revoke": Action(revoke_grants, "revoke ID...", "revoke permissions; running sessions ask again"),
}
