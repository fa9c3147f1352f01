"""Rules: the conditions under which a policy file says allow, ask or deny.

In a file the first matching rule decides; across files the strictest wins. An untrusted project file can only ask or
deny. If the agent does not name the file or command, a rule that might match asks. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from functools import cached_property, lru_cache

import msgspec

from dragoman.policy.behavior_files import BEHAVIOR_SUFFIXES, behavior_name
from dragoman.policy.decision import ALLOW, ASK, DENY, Decision, DecisionSource, Verdict
from dragoman.policy.patterns import MAX_PATH_LENGTH, UrlPattern, glob_matcher, parse_url, path_matcher
from dragoman.policy.question import FILE_OPERATIONS, OPERATIONS, Operation, Question
from dragoman.policy.shell_commands import CommandPattern, parse_command_line


class Match(IntEnum):
    """Whether a rule applies to a question; of several conditions the smallest counts."""

    NO = 0
    MAYBE = 1
    HIDDEN = 2  # a command that may be the one that the rule names, but cannot be seen
    YES = 3


# What a reason adds about the match.
_DOUBTS = {
    Match.YES: "",
    Match.HIDDEN: ", which may apply: not everything that would run is visible",
    Match.MAYBE: ", which may apply",
}

_COMMAND_OPERATIONS = frozenset({Operation.TERMINAL_EXECUTE, Operation.MCP_START})

# The operations that a condition can hold for; it does not hold for any other.
_CONDITION_OPERATIONS: dict[str, frozenset[str]] = {
    "paths": FILE_OPERATIONS,
    "commands": _COMMAND_OPERATIONS,
    "cwds": frozenset({Operation.TERMINAL_EXECUTE}),
    "urls": frozenset({Operation.MCP_START}),
    "env": _COMMAND_OPERATIONS,
    "hosts": frozenset({Operation.NETWORK_ACCESS}),
}


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict and its conditions. An empty condition always holds; all others must hold together."""

    verdict: Verdict
    operations: frozenset[str] = frozenset()
    paths: tuple[str, ...] = ()
    commands: tuple[CommandPattern, ...] = ()
    cwds: tuple[str, ...] = ()
    urls: tuple[UrlPattern, ...] = ()
    env: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    kinds: frozenset[str] = frozenset()
    tools: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    modes: frozenset[str] = frozenset()
    reason: str = ""
    line: int = 0

    @property
    def starts_by_name_alone(self) -> bool:
        """Whether this allows MCP servers to start by name only, without a command or URL."""
        is_of_starts = not self.operations or Operation.MCP_START in self.operations
        return self.verdict is ALLOW and bool(self.servers) and is_of_starts and not (self.commands or self.urls)

    def possible_operations(self) -> frozenset[str]:
        """Return the known operations that this rule can apply to."""
        found = self.operations or frozenset(OPERATIONS)
        for condition, operations in _CONDITION_OPERATIONS.items():
            if getattr(self, condition):
                found &= operations
        return found

    def match(self, question: Question, bases: tuple[str, ...], home: str) -> Match:
        """Return whether this rule applies to a question; relative paths are below `bases`."""
        if (
            (self.operations and question.operation not in self.operations)
            or (self.kinds and question.kind not in self.kinds)
            or (self.modes and question.mode not in self.modes)
            or (self.tools and not _matches_any(self.tools, question.tool))
            or (self.servers and not _matches_any(self.servers, question.server))
            or (self.agents and not _matches_any(self.agents, question.agent))
        ):
            return Match.NO
        # A rule has at most one of these: no operation satisfies two.
        if self.paths:
            found = self._match_path(question, bases, home)
        elif self.commands:
            found = self._match_command(question)
        elif self.urls:
            found = self._match_url(question)
        elif self.hosts:
            found = self._match_host(question)
        else:
            found = Match.YES
        if self.cwds and found:
            found = min(found, self._match_cwd(question, bases, home))
        if (self.env or question.env) and found:
            found = min(found, self._match_env(question))
        if self.verdict is ALLOW and found and (name := behavior_name(question)) and not self._names(name):
            return Match.NO
        return found

    def _names(self, name: str) -> bool:
        """Return whether a path of this rule names a file that other programs obey: `**` does not."""
        parts = [pattern.casefold().split("/") for pattern in self.paths]
        return any(part in pattern for pattern in parts for part in name.split("/")) or (
            name.endswith(BEHAVIOR_SUFFIXES) and any(pattern[-1].endswith(BEHAVIOR_SUFFIXES) for pattern in parts)
        )

    def _match_path(self, question: Question, bases: tuple[str, ...], home: str) -> Match:
        if question.operation not in FILE_OPERATIONS:
            return Match.NO
        if not question.resource:
            return Match.MAYBE
        if len(question.resource) > MAX_PATH_LENGTH or len(question.requested_path) > MAX_PATH_LENGTH:
            # No file has such a long name; comparing it would only cost time.
            return Match.NO if self.verdict is ALLOW else Match.YES
        matches = path_matcher(self.paths, bases, home)
        # Allow by the resolved path only; deny and ask by either path.
        if matches(question.resource) or (
            self.verdict is not ALLOW and question.requested_path and matches(question.requested_path)
        ):
            return Match.YES
        return Match.NO

    def _match_cwd(self, question: Question, bases: tuple[str, ...], home: str) -> Match:
        """Return whether a command starts in one of the folders."""
        if question.operation != Operation.TERMINAL_EXECUTE:
            return Match.NO
        if not question.cwd:
            return Match.MAYBE
        return Match.YES if path_matcher(self.cwds, bases, home)(question.cwd) else Match.NO

    def _match_env(self, question: Question) -> Match:
        """An allow rule permits only these variables; a deny or ask rule matches a command with any of them."""
        if self.env and question.operation not in (Operation.TERMINAL_EXECUTE, Operation.MCP_START):
            return Match.NO
        if self.verdict is not ALLOW:
            is_match = not self.env or any(_matches_any(self.env, name) for name in question.env)
        else:
            is_specific = self.commands or self.urls or self.env
            is_match = not is_specific or all(_matches_any(self.env, name) for name in question.env)
        return Match.YES if is_match else Match.NO

    def _match_command(self, question: Question) -> Match:
        if question.operation == Operation.MCP_START:
            # A rule that names only commands does not apply to servers. Allowing a command does not allow a URL given
            # with it.
            is_of_servers = self.servers or Operation.MCP_START in self.operations
            is_reached = question.url and (self.verdict is ALLOW or question.url == question.resource)
            if not is_of_servers or is_reached:
                return Match.NO
        elif question.operation != Operation.TERMINAL_EXECUTE:
            return Match.NO
        # Allow by what runs; deny and ask also by the shell around it, which the agent named.
        line = question.resource if self.verdict is ALLOW else question.requested_line or question.resource
        return _match_command_line(self.commands, self.verdict, line) if line else Match.MAYBE

    def _match_url(self, question: Question) -> Match:
        if question.operation != Operation.MCP_START:
            return Match.NO
        if not question.resource:
            return Match.MAYBE
        if not question.url or (self.verdict is ALLOW and question.resource != question.url):
            return Match.NO
        wanted = parse_url(question.url)
        if wanted is None:
            return Match.MAYBE
        return Match.YES if any(pattern.matches(wanted) for pattern in self.urls) else Match.NO

    def _match_host(self, question: Question) -> Match:
        if question.operation != Operation.NETWORK_ACCESS:
            return Match.NO
        host = url_host(question.resource)
        if host is None:
            return Match.MAYBE
        return Match.YES if _matches_any(self.hosts, host) else Match.NO


# Agents repeat their commands, and every rule about commands looks at each of them.
@lru_cache(maxsize=4096)
def _match_command_line(patterns: tuple[CommandPattern, ...], verdict: Verdict, written: str) -> Match:
    line = parse_command_line(written)
    if verdict is ALLOW:
        if line.is_opaque:
            return Match.NO
        is_match = all(
            any(pattern.matches(argv, is_wild=line.is_wild) for pattern in patterns) for argv in line.commands
        )
        return Match.YES if is_match else Match.NO
    if any(pattern.may_match(argv) for pattern in patterns for argv in line.commands) or any(
        pattern.may_match_words(shell) for pattern in patterns for shell in line.shells
    ):
        return Match.YES
    if line.is_hidden or (
        line.is_variable
        and any(pattern.could_match(argv, line.is_wild) for pattern in patterns for argv in line.commands)
    ):
        return Match.HIDDEN
    return Match.MAYBE if line.is_opaque else Match.NO


def _matches_any(patterns: tuple[str, ...], value: str) -> bool:
    return any(glob_matcher(pattern)(value) for pattern in patterns)


def url_host(url: str) -> str | None:
    """Return the host of a URL; None if the URL is ambiguous."""
    found = parse_url(url)
    return found.host if found is not None else None


class RuleFile(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The rules of one file, in order."""

    name: str  # as shown to users
    rules: tuple[Rule, ...] = ()
    base: str = ""  # the folder of a project's file; "" for a user's file, which applies to all sessions
    home: str = ""
    is_trusted: bool = True

    @cached_property
    def _all_rules(self) -> tuple[tuple[int, Rule], ...]:
        return tuple(enumerate(self.rules, 1))

    @cached_property
    def _reasons(self) -> dict[tuple[int, Match], str]:
        """The text of each rule, made once for each way in which it matched."""
        return {}

    @cached_property
    def _rules_by_operation(self) -> dict[str, tuple[tuple[int, Rule], ...]]:
        """The numbered rules, by the operations that they can apply to."""
        possible = [(number, rule, rule.possible_operations()) for number, rule in self._all_rules]
        return {
            operation: tuple((number, rule) for number, rule, operations in possible if operation in operations)
            for operation in OPERATIONS
        }

    def decide(self, question: Question) -> Decision | None:
        """Return this file's decision; None if no rule applies."""
        bases = (self.base,) if self.base else question.roots
        doubt: Decision | None = None  # of a rule that may apply; only a later rule that denies is stricter
        for number, rule in self._rules_by_operation.get(question.operation, self._all_rules):
            found = rule.match(question, bases, self.home)
            if found is Match.NO or (found is not Match.YES and rule.verdict is ALLOW):
                continue
            is_hidden = found is Match.HIDDEN and rule.verdict is DENY
            reason = self._reason(rule, number, found)
            if found is not Match.YES:
                if doubt is None or (is_hidden and not doubt.is_hidden):
                    doubt = Decision(ASK, DecisionSource.RULE, reason, is_hidden=is_hidden)
            elif rule.verdict is DENY:
                return Decision(DENY, DecisionSource.RULE, reason)
            elif doubt is not None or (rule.verdict is ALLOW and not self.is_trusted):
                return doubt
            else:
                return Decision(rule.verdict, DecisionSource.RULE, reason)
        return doubt

    def warnings(self) -> list[str]:
        """Return a warning for each rule that allows more than it seems to."""
        return [
            f"rule {number} of {self.name}, line {rule.line}: the client that opens a session chooses server names, so "
            f"any program could start as {' or '.join(rule.servers)}; add command or url to the rule"
            for number, rule in enumerate(self.rules, 1)
            if rule.starts_by_name_alone
        ]

    def _reason(self, rule: Rule, number: int, found: Match) -> str:
        known = self._reasons.get((number, found))
        if known is None:
            reason = f": {rule.reason}" if rule.reason else ""
            known = f"rule {number} of {self.name}, line {rule.line}{_DOUBTS[found]}{reason}"
            self._reasons[number, found] = known
        return known


def decide_by_rules(files: Iterable[RuleFile], question: Question) -> Decision | None:
    """Return the strictest decision of all files, the first of equals."""
    strictest: Decision | None = None
    for file in files:
        decision = file.decide(question)
        if decision is not None and (strictest is None or decision.strictness > strictest.strictness):
            strictest = decision
    return strictest
