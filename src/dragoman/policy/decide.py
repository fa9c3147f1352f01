"""Combine rules, mode and grants into one decision. Pure.

The order: Dragoman's own files are never written; a rule that denies; a firm mode that denies, the user's or the
agent's; a grant; a rule that allows or asks; the mode table, or the agent's own mode if it asks. An ASK is then
resolved by the policy mode.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache, cached_property

import msgspec

from dragoman.policy import grants as granted
from dragoman.policy import rules
from dragoman.policy.behavior_files import behavior_name
from dragoman.policy.decision import ALLOW, ASK, DENY, Decision, DecisionSource
from dragoman.policy.grants import Grant
from dragoman.policy.modes import AGENT_MODES, MODES, PolicyMode, find_mode
from dragoman.policy.question import FILE_OPERATIONS, WRITE_OPERATIONS, Question, is_under, names_below


class Policy(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The policy files that apply, and the mode that the user chose in them."""

    files: tuple[rules.RuleFile, ...] = ()
    mode: str = "default"
    # Dragoman's own files: resolved paths, or folder names at any depth. Nothing at or below them is ever written.
    protected: tuple[str, ...] = ()
    # Resolved folders that every session has in addition to its own; for files only.
    roots: tuple[str, ...] = ()

    @cached_property
    def protected_names(self) -> frozenset[str]:
        """The folder names among the protected files, normalized."""
        return frozenset(_normalize(name) for name in self.protected if "/" not in name)

    @cached_property
    def protected_paths(self) -> tuple[str, ...]:
        """The paths among the protected files, normalized."""
        return tuple(_normalize(path) for path in self.protected if "/" in path)


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """A decision with everything that was considered."""

    decision: Decision
    considered: tuple[Decision, ...]


def decide(
    policy: Policy, question: Question, grants: Iterable[Grant] = (), *, now: float = 0.0, run: str = ""
) -> Decision:
    """Return allow, ask or deny for one question."""
    current = find_mode(question.mode)
    ours = _own_files_decision(policy, question)
    if ours is not None:
        return ours
    ruled = rules.decide_by_rules(policy.files, question)
    if ruled is not None and ruled.verdict is DENY:
        return ruled
    cell = _mode_decision(policy, current, question)
    if current.is_firm and cell.verdict is DENY:
        return cell
    floor = _agent_mode_decision(question)
    if floor is not None and floor.verdict is DENY:
        return floor
    known = granted.decide_by_grants(grants, question, now, run)
    if known is not None:
        return known
    found = ruled if ruled is not None else cell
    # A rule that the user wrote answers an agent mode that only asks.
    if floor is not None and ruled is None and floor.verdict > found.verdict:
        found = floor
    return _resolve_ask(current, found) if found.verdict is ASK else found


def decide_all(
    policy: Policy, questions: Sequence[Question], grants: Sequence[Grant] = (), *, now: float = 0.0, run: str = ""
) -> Decision:
    """Return the strictest decision on questions that are asked together."""
    return max(
        (decide(policy, question, grants, now=now, run=run) for question in questions), key=lambda each: each.verdict
    )


def explain(
    policy: Policy, question: Question, grants: Sequence[Grant] = (), *, now: float = 0.0, run: str = ""
) -> Explanation:
    """Return the decision, and what each file, the mode and the grants say on their own."""
    decisions = [_own_files_decision(policy, question)]
    decisions += [file.decide(question) for file in policy.files]
    decisions += [_mode_decision(policy, find_mode(question.mode), question), _agent_mode_decision(question)]
    decisions.append(granted.decide_by_grants(grants, question, now, run))
    return Explanation(
        decision=decide(policy, question, grants, now=now, run=run),
        considered=tuple(decision for decision in decisions if decision is not None),
    )


def _own_files_decision(policy: Policy, question: Question) -> Decision | None:
    """Deny writes to policy, config, grants and audit files, whatever the rules say."""
    if question.operation not in WRITE_OPERATIONS:
        return None
    for path in (question.resource, question.requested_path):
        if path and (
            is_under(_normalize(path), policy.protected_paths) or _has_protected_name(policy, path, question.roots)
        ):
            return Decision(DENY, DecisionSource.BOUNDARY, f"{path} belongs to Dragoman; agents can never write it")
    return None


def _has_protected_name(policy: Policy, path: str, roots: tuple[str, ...]) -> bool:
    names = policy.protected_names
    return bool(names) and not names.isdisjoint(map(_normalize, names_below(path, roots)))


def _normalize(path: str) -> str:
    """Return one form for all names that a file system may treat as equal (case, Unicode composition)."""
    return path if path.isascii() and path.islower() else unicodedata.normalize("NFC", path).casefold()


def _mode_decision(policy: Policy, current: PolicyMode, question: Question) -> Decision:
    what = question.operation if question.operation in current.verdicts else "other"
    verdict = current.verdicts[what]
    if verdict is ALLOW and current.when_asked is not ALLOW and question.operation in FILE_OPERATIONS:
        if name := behavior_name(question):
            reason = f"{name} can make other programs run commands, so mode {current.name} does not cover it"
            return Decision(current.when_asked, DecisionSource.BOUNDARY, reason)
        if not question.is_inside(policy.roots):
            where = question.resource or "an unnamed file"
            return Decision(current.when_asked, DecisionSource.BOUNDARY, f"{where} is outside the session's folders")
    return _cell_decision(current.name, what)


@cache
def _cell_decision(mode: str, what: str) -> Decision:
    verdict = MODES[mode].verdicts[what]
    return Decision(verdict, DecisionSource.MODE, f"mode {mode}: {verdict.label} {what}")


def _agent_mode_decision(question: Question) -> Decision | None:
    """Return what the agent's own mode adds."""
    strictness = AGENT_MODES.get(question.agent_mode)
    if strictness is None or MODES[question.agent_mode].verdicts.get(question.operation, DENY) is not DENY:
        return None
    return Decision(strictness, DecisionSource.AGENT_MODE, f"the agent is in its own mode {question.agent_mode}")


def _resolve_ask(current: PolicyMode, found: Decision) -> Decision:
    if current.when_asked is ASK:
        return found
    if found.is_hidden:
        return Decision(DENY, DecisionSource.RULE, f"{found.reason}; mode {current.name}: denied without asking")
    what = "allowed without asking" if current.when_asked is ALLOW else "denied without asking"
    return Decision(current.when_asked, DecisionSource.MODE, f"{found.reason}; mode {current.name}: {what}")
