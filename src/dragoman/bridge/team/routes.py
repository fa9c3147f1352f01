"""Which agent of a team answers a prompt: rules over its text and the files that it names. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatch

from dragoman.config.teams_section import ROUTES, TeamRule

# How a team chooses: its primary agent, the first rule that matches, the primary agent's own choice, or everybody.
PRIMARY, RULES, ASK, ALL = ROUTES

_WORD = re.compile(r"[\w./~+-]+")


def matches(rule: TeamRule, text: str) -> bool:
    """Tell whether a rule applies; both conditions if both are given."""
    if rule.when and re.search(rf"(?<!\w){re.escape(rule.when)}(?!\w)", text, re.I) is None:
        return False
    if not rule.paths:
        return True
    words = [word.rstrip(".,;:") for word in _WORD.findall(text)]
    return any(fnmatch(word.rpartition("/")[2], path) or fnmatch(word, path) for word in words for path in rule.paths)


def find_route(rules: Sequence[TeamRule], text: str, primary: str) -> str:
    """Return the agent of the first rule that matches, else the primary one."""
    return next((rule.to for rule in rules if matches(rule, text)), primary)


def named_agent(answer: str, agents: Sequence[str]) -> str | None:
    """Return the agent that an answer names: the one whose name comes first."""
    found = {name: match.start() for name in agents if (match := re.search(rf"(?<!\w){re.escape(name)}(?!\w)", answer))}
    return min(found, key=lambda name: found[name]) if found else None


def split_command(text: str) -> tuple[str, str]:
    """Return the slash command of a prompt and the rest; "" if there is none."""
    if not text.startswith("/"):
        return "", text
    word, _, rest = text[1:].partition(" ")
    return word, rest.strip()
