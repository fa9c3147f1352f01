"""`dragoman team serve`: a team as the agent of a client, on standard input and output."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dragoman.cli import exit_codes
from dragoman.cli.parser import Parser
from dragoman.cli.team.event_file import EventFiles
from dragoman.cli.team.options import add_team_options, read_team
from dragoman.config.paths import user_paths
from dragoman.engine.loop import run as run_loop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.config.teams_section import TeamSection
    from dragoman.roles.client.permission.guard import Guard
    from dragoman.roles.client.permission.questions import AskUser

EPILOG = """\
Configure this command as the agent of your editor, or name the team wherever
an agent can be named:

  dragoman team serve web
  dragoman chat --agent web
  dragoman serve --agent web

The agents use the files and terminals of the editor if it offers them, else
those of this machine by your policy; what it leaves open, the editor asks.

exit codes:
  0  the client disconnected
  1  an error
  2  wrong usage

examples:
  dragoman team serve web
  dragoman team serve --agents plan=claude,code=codex --route ask"""


def run_serve(command: str, arguments: list[str]) -> int:
    """Serve one client until it disconnects."""
    parser = Parser(command, "[TEAM] [OPTIONS]", "Serve a team as one agent on standard input and output.", EPILOG)
    parser.add_argument("team", nargs="?", metavar="TEAM", help="a team of config.toml")
    add_team_options(parser)
    options = parser.read_options(arguments)
    section = read_team(parser, options, options.team)
    try:
        run_loop(_serve(section))
    except ValueError as error:
        return parser.fail(str(error), exit_codes.USAGE)
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
    return exit_codes.OK


async def _serve(section: TeamSection) -> None:
    from dragoman.bridge.team.served import ServedTeam, settings_from_config
    from dragoman.roles.client.permission.guard import Guard
    from dragoman.transport.stdio import stdio

    paths = user_paths()
    events = EventFiles(paths, section.name)

    def make_guard(name: str, roots: Sequence[str], ask: AskUser) -> Guard:
        return Guard.for_user(paths, agent=name, roots=roots, ask=ask)

    def report(text: str) -> None:
        print(f"{section.name}: {text}", file=sys.stderr, flush=True)

    team = ServedTeam(settings_from_config(section), make_guard=make_guard, on_event=events.write, report=report)
    try:
        await team.agent.serve(stdio(), report=report)
    finally:
        await team.close()
