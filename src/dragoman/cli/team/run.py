"""`dragoman team run`: `dragoman run` with a team as the agent."""

from __future__ import annotations

from dragoman.bridge.team.targets import resolve_target
from dragoman.cli.main import run_command
from dragoman.cli.parser import Parser
from dragoman.cli.team.options import add_team_options, read_team
from dragoman.transport.process.module_command import module_command

EPILOG = """\
All options of `dragoman run` work here too: --yes, --mode, --json, --session,
--cwd, --timeout and so on. Your policy decides about every agent, and each
question says which agent asks.

exit codes: those of `dragoman run`

examples:
  dragoman team run 'Fix the failing test' --agents plan=claude,code=codex
  dragoman team run --team web 'Review src/main.rs' --json
  dragoman team run --agents claude,codex --route all 'What is wrong here?'"""


def run_prompt(command: str, arguments: list[str]) -> int:
    """Run `dragoman run` with `dragoman team serve` as the agent."""
    parser = Parser(command, "PROMPT [OPTIONS]", "Send one prompt to a team and show its work.", EPILOG)
    parser.add_argument("prompt", nargs="?", metavar="PROMPT", help="the prompt")
    parser.add_value("--team", "NAME", "a team of config.toml")
    add_team_options(parser)
    if "--" in arguments:
        parser.error("the agents of a team are named with --agents, not given after --")
    options, rest = parser.read_known(arguments)
    for name, target in read_team(parser, options, options.team).agents.items():
        resolve_target(name, target)  # one that is missing is told here, not by the team in the first turn
    serve = [*module_command(), "team", "serve", *([options.team] if options.team else [])]
    for name in ("agents", "primary", "route", "depth", "width", "tokens", "cost"):
        value = getattr(options, name)
        serve += [f"--{name}", str(value)] if value else []
    serve += ["--isolate"] if options.isolate else []
    prompt = [] if options.prompt is None else [options.prompt]
    return run_command("run", [*prompt, *rest, "--", *serve])
