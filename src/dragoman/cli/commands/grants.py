"""`dragoman grants`: list what was remembered, and take it back; running sessions notice at once."""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime

from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import single
from dragoman.config.grants import Grants
from dragoman.config.paths import places
from dragoman.config.private_files import faults_of
from dragoman.policy.grants import Grant

UNKNOWN = 1

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
    ids, grants = [*options.ids, *rest], Grants(places().grants)
    if options.action == "list":
        if ids or options.all:
            parser.error("list takes no ids")
        return listed(grants, options.json)
    if bool(ids) is options.all:
        parser.error("name the ids to revoke, or --all")
    return revoked(parser, grants, ids or [grant.id for grant in grants.current()], options.json)


def listed(grants: Grants, as_json: bool) -> int:
    """What is remembered, the newest last."""
    current = [grant for grant in grants.current() if not grant.is_over(time.time())]
    if as_json:
        import msgspec

        print(json.dumps([msgspec.to_builtins(grant) for grant in current], indent=1))
    else:
        for grant in current:
            print(f"{grant.id}  {grant.verdict:5}  {grant.scope:9}  {grant.operation:16}  {single(described(grant))}")
        if not current:
            print("nothing is remembered")
    return 0


def described(grant: Grant) -> str:
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


def revoked(parser: Parser, grants: Grants, ids: list[str], as_json: bool) -> int:
    """Take back; what was not there is told."""
    found = grants.revoke(ids)
    missing = sorted(set(ids) - {grant.id for grant in found})
    if as_json:
        print(json.dumps({"revoked": [grant.id for grant in found], "unknown": missing}))
    else:
        for grant in found:
            print(f"revoked {grant.id}: {grant.verdict} {grant.operation} {single(described(grant))}")
    if missing and not as_json:
        print(f"{parser.prog}: there is no grant {', '.join(missing)}; see dragoman grants list", file=sys.stderr)
    _note(found)
    return UNKNOWN if missing else 0


def _note(found: list[Grant]) -> None:
    """Taking back is audited too; it stands though it cannot be written down, for that is the safer side."""
    from dragoman.roles.client.permission.audit_writer import of_grant
    from dragoman.store.audit import Audit, What

    if found:
        path = places().audit
        with faults_of(path):
            Audit(path).append([of_grant(grant, What.REVOKED) for grant in found])
