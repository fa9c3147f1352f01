"""`dragoman race`: one prompt for several agents; the first whose tests pass wins, and the others are stopped."""

from __future__ import annotations

from dragoman.cli.parser import Parser
from dragoman.cli.team.contest import add_contest_options, read_contest, run_contest
from dragoman.engine.loop import run as run_loop

EPILOG = """\
Each agent works in a git worktree of its own. When it is done, the command of
--until runs there; if it fails, the agent gets its output and tries again, up
to --rounds times. The first agent for which it succeeds wins; without --until,
the first that is done. The others are stopped, and their work is removed. The
winner's work is on a branch (dragoman/race/AGENT), or in this tree with --apply.

exit codes:
    0  an agent won
    1  none won, an error, or conflicts of --apply
    2  wrong usage
  130  interrupted by Ctrl-C

examples:
  dragoman race 'Fix the failing test' --agents claude,codex --until 'pytest -q'
  dragoman race --prompt-file task.md --agents claude,codex --until 'make test'
  dragoman race 'Make it build' --team web --until make --rounds 5 --apply
  dragoman race 'Fix it' --agents claude,codex --until 'make test' --json"""


def main(arguments: list[str]) -> int:
    """Parse the arguments and race."""
    from dragoman.bridge.team.comparison import DEFAULT_ROUNDS

    parser = Parser("race", "[PROMPT] --agents A,B [OPTIONS]", "Race agents on one prompt.", EPILOG)
    add_contest_options(parser)
    parser.add_value(
        "--rounds", "N", f"how often an agent may try ({DEFAULT_ROUNDS})", type=int, default=DEFAULT_ROUNDS
    )
    parser.add_flag("--apply", "merge the work of the winner into this tree")
    contest, options = read_contest(parser, arguments, is_race=True)
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return run_loop(run_contest(contest))
