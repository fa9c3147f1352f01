"""Choose the agent of a command: its command line, its name, the default, or the only one.

If the choice is not clear, list all agents. The built-in agent is never chosen implicitly.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import NoReturn

from dragoman.cli.connect.command_name import command_name
from dragoman.cli.parser import Parser, close_word
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.config import config_file as config
from dragoman.config.config_file import Config, NamedAgent, installed_agents
from dragoman.config.paths import user_paths
from dragoman.transport.address import is_remote
from dragoman.transport.process.module_command import module_command

# Columns of the command in a list of agents: that of an installed agent has long paths, which widen only its own row.
MAX_COMMAND_COLUMN = 40


def resolve_agent(
    parser: Parser,
    name: str | None,
    command: list[str],
    environ: Mapping[str, str] = os.environ,
    *,
    yes: bool = False,
    offers: bool = True,
) -> NamedAgent:
    """Return the agent; exit with advice when the choice is not clear.

    A known agent that is not installed is offered; `yes` installs it without asking, `offers=False` never does.
    """
    if command:
        if name is not None:
            parser.error("give the agent either with --agent or as a command after --")
        if is_remote(command[0]):
            url = sanitize_line(command[0])
            parser.error(f"{url} is an address, not a command; use: -- dragoman attach {url}")
        return NamedAgent(name=command_name(command), command=command[0], args=tuple(command[1:]))
    known = config.load_config(user_paths(environ).config_file)
    if name is not None:
        agent = known.agents.get(name) or find_agents_on_path(environ).get(name)
        if agent is None:
            from dragoman.cli.connect.offer import find_installed, offer_agent

            agent = find_installed(name, known, user_paths(environ).agents)
            if agent is None and offers:
                agent = offer_agent(parser, name, yes=yes)
        if agent is None:
            _exit_with_choices(parser, f"there is no agent {name!r}", known, environ, name)
        return agent
    if known.default:
        return known.agents[known.default]
    candidates = list(known.agents.values()) or list(find_agents_on_path(environ).values())
    if len(candidates) != 1:
        _exit_with_choices(parser, "which agent?", known, environ)
    return candidates[0]


def find_agents_on_path(environ: Mapping[str, str] = os.environ) -> dict[str, NamedAgent]:
    """Return the well-known agents that are on PATH."""
    return {
        name: NamedAgent(name=name, command=known.command[0], args=known.command[1:])
        for name, known in installed_agents(environ).items()
    }


def available_agents(configured: Config, environ: Mapping[str, str] = os.environ) -> list[tuple[NamedAgent, str]]:
    """Return every agent that can be named, with its source: configured ones first."""
    rows = [
        (agent, "configured, the default" if name == configured.default else "configured")
        for name, agent in configured.agents.items()
    ]
    return rows + [
        (agent, "on PATH") for name, agent in find_agents_on_path(environ).items() if name not in configured.agents
    ]


def format_agents(rows: list[tuple[NamedAgent, str]]) -> list[str]:
    """Return agents as lines."""
    names = max((len(agent.name) for agent, _ in rows), default=0)
    lines = [sanitize_line(" ".join(_shown_command(agent))) for agent, _ in rows]
    width = min(max(map(len, lines), default=0), MAX_COMMAND_COLUMN)
    return [
        f"{agent.name:{names}}  {line:{width}}  {source}" for (agent, source), line in zip(rows, lines, strict=True)
    ]


def _shown_command(agent: NamedAgent) -> list[str]:
    """Return the command as the user would type it: that of a chain or a team names our interpreter."""
    words, own = agent.argv, module_command()
    return ["dragoman", *words[len(own) :]] if tuple(words[: len(own)]) == own else list(words)


def _choice_syntax(parser: Parser) -> str:
    """Return how an agent of this machine is named: --agent, or where that is for hosts, the positional argument."""
    if any(action.dest == "agent" and "--agent" in action.option_strings for action in parser._actions):
        return "--agent NAME"
    return " ".join([parser.prog, *(str(action.metavar) for action in parser._actions if not action.option_strings)])


def _exit_with_choices(
    parser: Parser, problem: str, configured: Config, environ: Mapping[str, str], word: str = ""
) -> NoReturn:
    rows = available_agents(configured, environ)
    close = close_word(word, [*(agent.name for agent, _ in rows), *(known.name for known in config.KNOWN_AGENTS)])
    if close:
        problem += f"; did you mean {close}?"
    if not rows:
        how = "dragoman agents add NAME -- my-agent --acp"
        if not word:
            parser.error(
                "no agent is configured or on PATH; give its command after --, as in: -- my-agent --acp; or "
                "install one (`dragoman agents` lists them), as in: dragoman agents install claude"
            )
        parser.error(problem if close else f"{problem}; add it with: {how}")
    advice = f"choose one with {_choice_syntax(parser)}, or permanently with: dragoman agents default NAME"
    text = f"{problem}{'' if problem.endswith('?') else ';'} {advice}"
    parser.print_json_error(text)
    print(f"{parser.prog}: {text}; available agents:", file=sys.stderr)
    for line in format_agents(rows):
        print(f"  {line}", file=sys.stderr)
    sys.exit(2)
