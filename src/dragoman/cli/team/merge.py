"""`dragoman team merge`: bring the branch of an isolated agent into the working tree, or show the conflicts."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from dragoman.cli import exit_codes
from dragoman.cli.parser import Parser
from dragoman.cli.ui.format import report

if TYPE_CHECKING:
    from dragoman.bridge.team.worktrees import MergeResult

EPILOG = """\
The files of this tree change all at once, or not at all if there are conflicts.
Commits, branches and the index stay as they are.

exit codes:
  0  merged
  1  conflicts, or an error
  2  wrong usage

examples:
  dragoman team merge
  dragoman team merge code
  dragoman team merge dragoman/team/code --json"""


def run_merge(command: str, arguments: list[str]) -> int:
    """Merge a branch, or list the branches."""
    parser = Parser(command, "[BRANCH] [--json]", "Merge the work of an isolated agent into this tree.", EPILOG)
    parser.add_argument("branch", nargs="?", metavar="BRANCH", help="a branch, or the end of its name")
    parser.add_flag("--json", "print JSON")
    options = parser.read_options(arguments)
    return asyncio.run(_merge(parser, options))


async def _merge(parser: Parser, options: object) -> int:
    from dragoman.bridge.team.worktrees import base_of, find_branches, merge_branch

    wanted = getattr(options, "branch", None)
    branches = await find_branches(os.getcwd())
    if wanted is None:
        lines = branches or ["no branches of agents; they come from --isolate, compare and race"]
        return report(options, {"branches": branches}, lines)  # type: ignore[arg-type]
    found = [each for each in branches if each == wanted] or [each for each in branches if each.endswith(f"/{wanted}")]
    if len(found) != 1:
        problem = "several branches end with" if found else "there is no branch"
        known = ", ".join(found or branches) or "there are none; they come from --isolate, compare and race"
        return parser.fail(f"{problem} {wanted!r}; {'choose one of: ' if branches else ''}{known}")
    result = await merge_branch(os.getcwd(), await base_of(os.getcwd(), found[0]), found[0])
    value = {"branch": found[0], "files": list(result.files), "conflicts": list(result.conflicts)}
    return report(options, value, merge_lines(result), exit_codes.OK if result.is_clean else exit_codes.FAILED)  # type: ignore[arg-type]


def merge_lines(result: MergeResult) -> list[str]:
    """Return what a merge did."""
    if result.is_clean:
        count = len(result.files)
        return [*result.files, f"merged {result.branch}: {count} file{'' if count == 1 else 's'}"]
    return [
        f"{result.branch} conflicts with this tree; nothing was changed:",
        *(f"  {path}" for path in result.conflicts),
        *(f"  {line}" for line in result.messages.splitlines() if line.strip()),
        f"merge it by hand with: git merge {result.branch}",
    ]
