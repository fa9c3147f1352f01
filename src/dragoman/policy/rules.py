"""Rules: under which conditions a file says allow, ask or deny.

Within a file the first rule that matches decides; across files the strictest wins, and a project's file that nobody
trusts yet counts only where it asks or denies. A rule that would forbid is given the benefit of the doubt: where the
agent does not say which file or command it means, a rule that might be meant asks. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

import msgspec

from dragoman.policy import paths
from dragoman.policy.commands import CommandPattern, taken_apart
from dragoman.policy.decision import ALLOW, ASK, Decision, Source, Verdict, strictest
from dragoman.policy.globs import word
from dragoman.policy.question import ON_FILES, Operation, Question

# Scheme, perhaps user and password, host. A URL that is spelled to be read in two ways has no host for us.
_URL = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^/?#@]*@)?(?P<host>\[[0-9a-f:.]+\]|[^/?#@:]+)(?::\d*)?(?:[/?#]|$)", re.I)
_ODD = re.compile(r"[\\\s\x00-\x1f\x7f]")


class Match(Enum):
    """Whether a rule speaks of a question."""

    NO = 0
    PERHAPS = 1
    YES = 2


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict and its conditions; an empty condition is none, several must all hold."""

    verdict: Verdict
    operations: frozenset[str] = frozenset()
    paths: tuple[str, ...] = ()
    commands: tuple[CommandPattern, ...] = ()
    hosts: tuple[str, ...] = ()
    kinds: frozenset[str] = frozenset()
    tools: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    modes: frozenset[str] = frozenset()
    reason: str = ""
    line: int = 0

    def match(self, question: Question, bases: tuple[str, ...], home: str) -> Match:
        """Whether this rule speaks of a question; relative paths stand below the bases."""
        if (
            (self.operations and question.operation not in self.operations)
            or (self.kinds and question.kind not in self.kinds)
            or (self.modes and question.mode not in self.modes)
            or (self.tools and not _any(self.tools, question.tool))
            or (self.servers and not _any(self.servers, question.server))
            or (self.agents and not _any(self.agents, question.agent))
        ):
            return Match.NO
        # A rule has one of these at most: no operation can meet two of them.
        if self.paths:
            return self._path(question, bases, home)
        if self.commands:
            return self._command(question)
        if self.hosts:
            return self._host(question)
        return Match.YES

    def _path(self, question: Question, bases: tuple[str, ...], home: str) -> Match:
        if question.operation not in ON_FILES:
            return Match.NO
        if not question.resource:
            return Match.PERHAPS
        if len(question.resource) > paths.LONGEST or len(question.named) > paths.LONGEST:
            # No file has such a name; to compare it would only take time.
            return Match.NO if self.verdict is ALLOW else Match.YES
        # Leave is given for what a path leads to. What is forbidden is so by either name.
        names = (question.resource, question.named) if self.verdict is not ALLOW else (question.resource,)
        is_meant = any(paths.matches(pattern, name, bases, home) for pattern in self.paths for name in names if name)
        return Match.YES if is_meant else Match.NO

    def _command(self, question: Question) -> Match:
        if question.operation != Operation.TERMINAL_EXECUTE:
            return Match.NO
        if not question.resource:
            return Match.PERHAPS
        line = taken_apart(question.resource)
        if self.verdict is ALLOW:
            if line.is_opaque or question.env:
                return Match.NO
            is_meant = all(self._allows(words, line.is_wild) for words in line.commands)
            return Match.YES if is_meant else Match.NO
        if any(pattern.concerns(words) for pattern in self.commands for words in line.commands):
            return Match.YES
        return Match.PERHAPS if line.is_opaque else Match.NO

    def _allows(self, words: tuple[str, ...], is_wild: bool) -> bool:
        return any(pattern.allows(words, is_wild=is_wild) for pattern in self.commands)

    def _host(self, question: Question) -> Match:
        if question.operation != Operation.NETWORK_ACCESS:
            return Match.NO
        host = host_of(question.resource)
        if host is None:
            return Match.PERHAPS
        return Match.YES if _any(self.hosts, host) else Match.NO


def _any(patterns: tuple[str, ...], value: str) -> bool:
    return any(word(pattern)(value) for pattern in patterns)


def host_of(url: str) -> str | None:
    """The host that a URL leads to; None where that is not plain."""
    found = None if _ODD.search(url) else _URL.match(url)
    return found["host"].lower().rstrip(".") if found else None


class RuleFile(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one file, in order."""

    name: str  # as it is told to people
    rules: tuple[Rule, ...] = ()
    base: str = ""  # the folder of a project's file; a user's file is about every session's folders
    home: str = ""
    is_trusted: bool = True

    def decide(self, question: Question) -> Decision | None:
        """What this file says; None if nothing."""
        bases = (self.base,) if self.base else question.roots
        for number, rule in enumerate(self.rules, 1):
            found = rule.match(question, bases, self.home)
            if found is Match.NO or (found is Match.PERHAPS and rule.verdict is ALLOW):
                continue
            if rule.verdict is ALLOW and not self.is_trusted:
                return None
            verdict = rule.verdict if found is Match.YES else ASK
            return Decision(verdict, Source.RULE, self._reason(rule, number, found))
        return None

    def _reason(self, rule: Rule, number: int, found: Match) -> str:
        place = f"rule {number} of {self.name}, line {rule.line}"
        doubt = "" if found is Match.YES else ", which may be meant"
        return f"{place}{doubt}" + (f": {rule.reason}" if rule.reason else "")


def decide(files: Iterable[RuleFile], question: Question) -> Decision | None:
    """What the files say together: the strictest."""
    return strictest(decision for file in files if (decision := file.decide(question)) is not None)
