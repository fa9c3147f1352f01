"""The options that say which agents work together, and their checked value."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from dragoman.cli.parser import Parser, unknown_word
from dragoman.config.config_file import NAME_PATTERN, NAME_RULE, load_config
from dragoman.config.paths import user_paths
from dragoman.config.teams_section import ROUTES, TeamSection


def add_agents_option(parser: Parser) -> None:
    """Add --agents."""
    parser.add_value("--agents", "A,B", "the agents: names, NAME=AGENT or NAME=COMMAND; or the name of a team")


def add_team_options(parser: Parser) -> None:
    """Add the options of a team that is not in config.toml."""
    add_agents_option(parser)
    parser.add_value("--primary", "NAME", "the agent that answers (the first one)")
    parser.add_value("--route", "HOW", f"who answers: {', '.join(ROUTES)}", choices=ROUTES)
    parser.add_flag("--isolate", "give each agent a git worktree of its own")
    parser.add_value("--depth", "N", "how many agents may wait for each other's answers", type=int)
    parser.add_value("--width", "N", "how many sessions may be open", type=int)
    parser.add_value("--tokens", "N", "stop when the agents have used so many tokens", type=int)
    parser.add_value("--cost", "N", "stop when the agents have cost so much, as they report it", type=float)


def parse_agents(parser: Parser, text: str) -> dict[str, str]:
    """Return the agents of --agents by their names in the team."""
    found: dict[str, str] = {}
    for word in filter(None, (each.strip() for each in text.split(","))):
        name, has_target, target = word.partition("=")
        name, target = (name.strip(), target.strip()) if has_target else (_short_name(word), word)
        if not target or NAME_PATTERN.fullmatch(name) is None:
            parser.error(f"--agents {word}: {NAME_RULE}, as in plan=claude")
        if name in found:
            parser.error(f"--agents: there are two agents {name}; name them, as in one={target},two={target}")
        found[name] = target
    if not found:
        parser.error("--agents: name at least one agent")
    return found


def _short_name(target: str) -> str:
    return target.split()[0].rpartition("/")[2]


def read_team(parser: Parser, options: argparse.Namespace, team: str | None) -> TeamSection:
    """Return the team that the options name or describe; exits if they do not."""
    teams: Mapping[str, TeamSection] = load_config(user_paths().config_file).teams
    if team is not None:
        if options.agents:
            parser.error("give the name of a team or --agents, not both")
        if team not in teams:
            parser.error(f"there is no team {team!r} in config.toml; there are {', '.join(teams) or 'none'}")
        base = {name: getattr(teams[team], name) for name in TeamSection.__struct_fields__}
    elif options.agents:
        base = {"name": "team", "agents": parse_agents(parser, options.agents)}
    else:
        parser.error("which agents? give --agents A,B, or the name of a team of config.toml")
    given = {name: getattr(options, name) for name in ("primary", "route", "isolate", "depth", "width")}
    base |= {name: value for name, value in given.items() if value}
    limits = {name: getattr(options, name) for name in ("tokens", "cost") if getattr(options, name)}
    base["budget"] = {**base.get("budget", {}), **limits}
    section = TeamSection(**base)
    if section.primary and section.primary not in section.agents:
        parser.error(f"--primary: {unknown_word('agent', section.primary, section.agents)}")
    if section.route == "rules" and not section.rules:
        parser.error("--route rules needs rules: write the team into config.toml")
    return section
