"""Which agent of a team answers a prompt: rules over its text and the files that it names. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatch

import msgspec

# How a team chooses: its primary agent, the first rule that matches, the primary agent's own choice, or everybody.
PRIMARY, RULES, ASK, ALL = "primary", "rules", "ask", "all"
ROUTES = (PRIMARY, RULES, ASK, ALL)

_WORD = re.compile(r"[\w./~+-]+")


class RouteRule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule: a prompt with this word, or that names files like these, goes to this agent."""

    to: str
    when: str = ""  # a word or a phrase in the prompt, in any case
    paths: tuple[str, ...] = ()  # patterns of file names

    def matches(self, text: str) -> bool:
        """Tell whether the rule applies; both conditions if both are given."""
        if self.when and re.search(rf"(?<!\w){re.escape(self.when)}(?!\w)", text, re.I) is None:
            return False
        if not self.paths:
            return True
        words = [word.rstrip(".,;:") for word in _WORD.findall(text)]
        return any(
            fnmatch(word.rpartition("/")[2], path) or fnmatch(word, path) for word in words for path in self.paths
        )


def find_route(rules: Sequence[RouteRule], text: str, primary: str) -> str:
    """Return the agent of the first rule that matches, else the primary one."""
    return next((rule.to for rule in rules if rule.matches(text)), primary)


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
