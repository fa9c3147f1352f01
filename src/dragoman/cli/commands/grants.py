"""`dragoman grants`: list what was remembered, and take it back; running sessions notice at once."""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime

from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.config.grants import GrantsFile
from dragoman.config.paths import user_paths
from dragoman.config.private_files import as_config_faults
from dragoman.policy.grants import Grant

EXIT_UNKNOWN = 1

EPILOG = """\
  list              what was allowed or refused for longer than once
  revoke ID...      take back; whoever uses a session that runs is asked again

exit codes:
  0  done
  1  there is no grant of such an id, or a file cannot be used
  2  wrong usage

examples:
  dragoman grants list
  dragoman grants revoke 3f2a9c1e
  dragoman grants list --json"""


def main(arguments: list[str]) -> int:
    """Read the arguments, then do the one thing."""
    parser = Parser(
        "grants", "list|revoke [ID...] [OPTIONS]", "Decisions that were remembered: list them, take them back.", EPILOG
    )
    parser.add_argument("action", choices=("list", "revoke"), help="what to do")
    parser.add_argument("ids", nargs="*", metavar="ID", help="revoke: which")
    parser.add_argument("--all", action="store_true", help="revoke: every grant")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options, rest = parser.read(arguments)
    ids, grants = [*options.ids, *rest], GrantsFile(user_paths().grants)
    if options.action == "list":
        if ids or options.all:
            parser.error("list takes no ids")
        return list_grants(grants, options.json)
    if bool(ids) is options.all:
        parser.error("name the ids to revoke, or --all")
    return revoke_grants(parser, grants, ids or [grant.id for grant in grants.current()], options.json)


def list_grants(grants: GrantsFile, as_json: bool) -> int:
    """What is remembered, the newest last."""
    current = [grant for grant in grants.current() if not grant.is_expired(time.time())]
    if as_json:
        import msgspec

        print(json.dumps([msgspec.to_builtins(grant) for grant in current], indent=1))
    else:
        for grant in current:
            subject = sanitize_line(format_grant(grant))
            print(f"{grant.id}  {grant.verdict:5}  {grant.scope:9}  {grant.operation:16}  {subject}")
        if not current:
            print("nothing is remembered")
    return 0


def format_grant(grant: Grant) -> str:
    """What a grant is for, whose it is, and until when."""
    server_tool = "/".join(part for part in (grant.server, grant.tool) if part)
    words = grant.resource or server_tool or grant.title
    if grant.cwd:
        words += f"  started in {grant.cwd}"
    if grant.agent:
        words += f"  by {grant.agent}"
    if grant.workspace and grant.scope != "always":
        words += f"  in {grant.workspace}"
    if grant.expires is not None:
        words += f"  until {datetime.fromtimestamp(grant.expires, UTC):%Y-%m-%d %H:%M} UTC"
    return words


def revoke_grants(parser: Parser, grants: GrantsFile, ids: list[str], as_json: bool) -> int:
    """Take back; what was not there is told."""
    found = grants.revoke(ids)
    missing = sorted(set(ids) - {grant.id for grant in found})
    if as_json:
        print(json.dumps({"revoked": [grant.id for grant in found], "unknown": missing}))
    else:
        for grant in found:
            print(f"revoked {grant.id}: {grant.verdict} {grant.operation} {sanitize_line(format_grant(grant))}")
    if missing and not as_json:
        print(f"{parser.prog}: there is no grant {', '.join(missing)}; see dragoman grants list", file=sys.stderr)
    _audit_revocation(found)
    return EXIT_UNKNOWN if missing else 0


def _audit_revocation(revoked: list[Grant]) -> None:
    """Taking back is audited too; it stands though it cannot be written down, for that is the safer side."""
    from dragoman.roles.client.permission.audit_writer import grant_entry
    from dragoman.store.audit import AuditEvent, AuditLog

    if revoked:
        path = user_paths().audit
        with as_config_faults(path):
            AuditLog(path).append([grant_entry(grant, AuditEvent.REVOKED) for grant in revoked])
