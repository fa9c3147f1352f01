"""`dragoman compare`: one prompt for several agents, each in a git worktree of its own; one table of what they did."""

from __future__ import annotations

from dragoman.cli.parser import Parser
from dragoman.cli.team.contest import add_contest_options, read_contest, run_contest
from dragoman.engine.loop import run as run_loop

EPILOG = """\
Each agent starts from this tree as it is, with what you have not committed, and
works on a branch of its own (dragoman/compare/AGENT). The table shows how each
ended, what it changed, whether the command of --until succeeds, and the tokens,
cost and time that it used. --apply brings the work of one agent into this tree:
all of it, or nothing if there are conflicts.

Your policy decides about every agent, as in `dragoman run`.

exit codes:
    0  every agent ended, and the command of --until succeeded for each
    1  an error, a failed test, or conflicts of --apply
    2  wrong usage
  130  interrupted by Ctrl-C

examples:
  dragoman compare 'Add a --version flag' --agents claude,codex,gemini
  dragoman compare --prompt-file task.md --agents claude,codex
  dragoman compare 'Fix the bug' --agents claude,codex --until 'pytest -q'
  dragoman compare 'Rename it' --agents a=claude,b=claude --page diffs.html
  dragoman compare 'Fix it' --agents 'claude,mine=python my_agent.py'
  dragoman compare 'Fix it' --team web --json | jq '.runs[].tests'
  dragoman compare 'Fix it' --agents claude,codex --apply codex --yes"""


def main(arguments: list[str]) -> int:
    """Parse the arguments and compare."""
    parser = Parser("compare", "[PROMPT] --agents A,B [OPTIONS]", "Compare agents on one prompt.", EPILOG)
    add_contest_options(parser)
    parser.add_value("--apply", "NAME", "merge the work of this agent into this tree")
    contest, _ = read_contest(parser, arguments, is_race=False)
    return run_loop(run_contest(contest))
