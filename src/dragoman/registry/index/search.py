"""Search the entries of all sources by words, capabilities, logins, kind and platform. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from dragoman.config.agent_choice import AgentFacts, Candidate, choose, compare
from dragoman.registry.index.entry import BINARY, NPX, UVX, Entry
from dragoman.registry.index.sources import Found
from dragoman.registry.platforms import Machine


class Query(NamedTuple):
    """What is searched for."""

    words: Sequence[str] = ()
    needs: Sequence[str] = ()  # paths of capabilities
    logins: Sequence[str] = ()  # one of them is enough
    kind: str = ""
    platform: str = ""
    shows_all: bool = False  # also what cannot run here


class Match(NamedTuple):
    """An entry that was found: what is known of it, how it compares, and why it cannot run here."""

    found: Found
    facts: AgentFacts | None
    candidate: Candidate
    obstacle: str

    @property
    def entry(self) -> Entry:
        """The entry."""
        return self.found.entry


def search(
    entries: Iterable[Found],
    query: Query,
    machine: Machine,
    facts_of: Callable[[Entry], AgentFacts | None],
    installed: Sequence[str] = (),
) -> list[Match]:
    """Return what matches: those that meet every need first, then installed ones, then the fewest unknown."""
    matches: dict[str, Match] = {}
    platform = query.platform or machine.platform
    for found in entries:
        entry = found.entry
        obstacle = obstacle_of(entry, platform, query.kind)
        if not _has_words(entry, query.words) or (obstacle and not query.shows_all):
            continue
        facts = facts_of(entry)
        candidate = compare(entry.id, facts, query.needs, query.logins, is_installed=entry.id in installed)
        matches[entry.id] = Match(found, facts, candidate, obstacle)
    return [matches[candidate.name] for candidate in choose(match.candidate for match in matches.values())]


def obstacle_of(entry: Entry, platform: str, kind: str = "") -> str:
    """Return why an agent cannot be installed here by its entry; "" if it can."""
    if kind and kind not in entry.kinds:
        return f"it has no {kind}; it has {', '.join(entry.kinds) or 'no kind that is known here'}"
    if not entry.kinds:
        return "; ".join(entry.notes) or "it has no kind of distribution that is known here"
    is_package = any(each in entry.packages for each in (NPX, UVX) if kind in ("", each))
    if is_package or (kind in ("", BINARY) and platform in entry.binaries):
        return ""
    return f"only for {', '.join(sorted(entry.binaries))}"


def _has_words(entry: Entry, words: Sequence[str]) -> bool:
    packages = [package.name for package in entry.packages.values()]
    text = " ".join([entry.id, entry.name, entry.description, *entry.authors, *packages]).lower()
    return all(word.lower() in text for word in words)
