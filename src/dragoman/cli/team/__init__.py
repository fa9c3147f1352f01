"""`dragoman team`: several agents as one; what they did, and merging what they did apart."""

from __future__ import annotations

from dragoman.cli.subcommands import Action, CommandGroup

ACTIONS: dict[str, Action] = {
    "run": Action("team.run:run_prompt", "run PROMPT", "send one prompt to a team and show its work"),
    "serve": Action("team.serve:run_serve", "serve [TEAM]", "be the agent of an editor: stdin and stdout"),
    "list": Action("team.log:run_list", "list", "list your teams (default)"),
    "log": Action("team.log:run_log", "log [SESSION]", "who asked whom, and what happened"),
    "files": Action("team.log:run_files", "files [SESSION]", "who changed which file; which writes were refused"),
    "leases": Action("team.log:run_leases", "leases [SESSION]", "which agent writes which files now"),
    "merge": Action("team.merge:run_merge", "merge [BRANCH]", "bring the work of an isolated agent into this tree"),
}

COMMAND = CommandGroup(
    "team",
    "[ACTION] ...",
    "Let several agents work on one task, as one agent.",
    ACTIONS,
    """\
A team is a table in config.toml, and can be named wherever an agent can:

  [teams.web]
  agents = { plan = "claude", code = "codex", review = "gemini" }
  primary = "code"
  rules = [{ when = "look", to = "review" }, { paths = ["*.rs"], to = "code" }]
  budget = { tokens = 500000 }

Its agents share one tree and cannot overwrite each other's files; with
isolate = true each has a git worktree of its own. In a session, /to NAME,
/all, /handover NAME, /agents and /files are commands of the team, and
primary_agent and route are its options. docs/teams.md describes everything.

examples:
  dragoman team run 'Fix the failing test' --agents plan=claude,code=codex
  dragoman chat --agent web
  dragoman editors write zed web
  dragoman team files
  dragoman team merge dragoman/web/code

Run `dragoman team ACTION --help` for the options of an action. See also
`dragoman compare` and `dragoman race`.""",
    default="list",
)

main = COMMAND.dispatch
overview = COMMAND.overview
