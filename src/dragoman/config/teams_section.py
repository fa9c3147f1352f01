"""The [teams.NAME] tables of config.toml: several agents as one. Each team can be named like an agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dragoman.config.toml_reader import TomlReader, member_readers
from dragoman.policy.toml_lines import TomlPath

# How a team chooses who answers.
ROUTES = ("primary", "rules", "ask", "all")


class TeamRule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule: a prompt with this word, or that names files like these, goes to this agent."""

    to: str
    when: str = ""  # a word or a phrase in the prompt, in any case
    paths: tuple[str, ...] = ()  # patterns of file names


class TeamSection(msgspec.Struct, frozen=True, kw_only=True):
    """One [teams.NAME] table."""

    name: str
    agents: Mapping[str, str] = {}  # a name in the team: a configured agent, or a command
    primary: str = ""
    route: str = ""
    rules: tuple[TeamRule, ...] = ()
    isolate: bool = False
    depth: float = 0
    width: float = 0
    budget: Mapping[str, float] = {}  # tokens, cost, turns


def _read_rules(reader: TomlReader, value: Any, path: TomlPath) -> tuple[TeamRule, ...]:
    if not isinstance(value, list):
        reader.add_fault(path, 'must be a list, such as [{ when = "review", to = "review" }]')
        return ()
    found = []
    for number, each in enumerate(value):
        place = (*path, number)
        if not isinstance(each, dict) or not each.get("to") or not (each.get("when") or each.get("paths")):
            reader.add_fault(place, 'a rule has `to`, and `when` or `paths`: { paths = ["*.rs"], to = "code" }')
            continue
        members = reader.read_members(each, place, _RULE_KEYS, "a rule")
        if members is not None:
            found.append(TeamRule(**members))
    return tuple(found)


_RULE_KEYS = member_readers(TeamRule)
_KEYS = member_readers(TeamSection, rules=_read_rules, route=TomlReader.choice_reader(*ROUTES))
_BUDGET_KEYS = ("tokens", "cost", "turns")


def read_teams(reader: TomlReader, value: Any, is_name: Callable[[str], Any], name_rule: str) -> dict[str, TeamSection]:
    """Read the tables, and collect every error."""
    found: dict[str, TeamSection] = {}
    for name, table in reader.read_table(value, ("teams",), "teams are written as [teams.NAME]").items():
        path: TomlPath = ("teams", name)
        if not is_name(name):
            reader.add_fault(path, name_rule)
        elif not isinstance(table, dict):
            reader.add_fault(path, f"a team is written as a table: [teams.{name}]")
        else:
            members = reader.read_members(table, path, _KEYS, "a team")
            if members is not None:
                found[name] = team = TeamSection(name=name, **members)
                _check_team(reader, team, path, is_name, name_rule)
    for name, team in found.items():
        if _contains(name, team, found, set()):
            reader.add_fault(("teams", name, "agents"), f"the team contains itself: {name}; name agents")
    return found


def _check_team(
    reader: TomlReader, team: TeamSection, path: TomlPath, is_name: Callable[[str], Any], name_rule: str
) -> None:
    if not team.agents:
        reader.add_fault(path, 'agents must name at least one agent: agents = { code = "codex" }')
    for each in team.agents:
        if not is_name(each):
            reader.add_fault((*path, "agents", each), name_rule)
    named = [(("primary",), team.primary)] if team.primary else []
    named += [(("rules", number, "to"), rule.to) for number, rule in enumerate(team.rules)]  # type: ignore[misc]
    for place, agent in named:
        if agent not in team.agents:
            reader.add_fault((*path, *place), f"there is no agent {agent!r} in the team; {', '.join(team.agents)}")
    if team.route == "rules" and not team.rules:
        reader.add_fault((*path, "route"), 'needs rules = [{ when = "WORD", to = "AGENT" }]')
    for key in team.budget.keys() - set(_BUDGET_KEYS):
        reader.add_fault((*path, "budget", key), f"a budget has {', '.join(_BUDGET_KEYS)}")


def _contains(name: str, team: TeamSection, teams: Mapping[str, TeamSection], seen: set[str]) -> bool:
    """Tell whether a team is one of the agents of another, directly or through others."""
    for target in team.agents.values():
        if target == name:
            return True
        if target in teams and target not in seen and _contains(name, teams[target], teams, seen | {target}):
            return True
    return False
