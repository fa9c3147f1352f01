"""The one decision: rules, mode and grants put together. Pure.

In this order: what is ours is not written; a rule that denies; a mode that denies firmly, ours or the agent's own; a
grant; a rule that allows or asks; the mode's cell, or the agent's own mode where that asks. What would be asked is
asked, except in the modes that ask nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from dragoman.policy import grants as granted
from dragoman.policy import rules
from dragoman.policy.decision import ALLOW, ASK, DENY, Decision, DecisionSource
from dragoman.policy.grants import Grant
from dragoman.policy.modes import AGENT_MODES, MODES, PolicyMode, find_mode
from dragoman.policy.question import FILE_OPERATIONS, WRITE_OPERATIONS, Question, is_under, names_below


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The files that apply, and the mode that the user chose in them."""

    files: tuple[rules.RuleFile, ...] = ()
    mode: str = "default"
    # What is ours, resolved paths, and names of folders wherever they are; nothing at or below is ever written.
    protected: tuple[str, ...] = ()
    # Folders that every session has besides its own, resolved; for files only.
    roots: tuple[str, ...] = ()


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """A decision with all that was looked at."""

    decision: Decision
    considered: tuple[Decision, ...]


def decide(
    policy: Policy, question: Question, grants: Iterable[Grant] = (), *, now: float = 0.0, run: str = ""
) -> Decision:
    """Allow, ask or deny."""
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
    # What the user wrote into a rule is an answer to an agent that only wants to ask.
    if floor is not None and ruled is None and floor.verdict > found.verdict:
        found = floor
    return _resolve_ask(current, found) if found.verdict is ASK else found


def decide_all(
    policy: Policy, questions: Sequence[Question], grants: Sequence[Grant] = (), *, now: float = 0.0, run: str = ""
) -> Decision:
    """The decision on things that are asked for together: the strictest."""
    return max(
        (decide(policy, question, grants, now=now, run=run) for question in questions), key=lambda each: each.verdict
    )


def explain(
    policy: Policy, question: Question, grants: Sequence[Grant] = (), *, now: float = 0.0, run: str = ""
) -> Explanation:
    """The decision, with what each file, the mode and the grants say by themselves."""
    spoken = [_own_files_decision(policy, question)]
    spoken += [file.decide(question) for file in policy.files]
    spoken += [_mode_decision(policy, find_mode(question.mode), question), _agent_mode_decision(question)]
    spoken.append(granted.decide_by_grants(grants, question, now, run))
    return Explanation(
        decision=decide(policy, question, grants, now=now, run=run),
        considered=tuple(decision for decision in spoken if decision is not None),
    )


def _own_files_decision(policy: Policy, question: Question) -> Decision | None:
    """Policy, config, grants and audit are never written for an agent, whatever anybody says."""
    if question.operation not in WRITE_OPERATIONS:
        return None
    names = {place for place in policy.protected if "/" not in place}
    for path in (question.resource, question.requested_path):
        if path and (is_under(path, policy.protected) or not names.isdisjoint(names_below(path, question.roots))):
            return Decision(
                DENY, DecisionSource.BOUNDARY, f"{path} belongs to Dragoman itself and is never written for an agent"
            )
    return None


def _mode_decision(policy: Policy, current: PolicyMode, question: Question) -> Decision:
    verdict = current.verdicts.get(question.operation, current.verdicts["other"])
    what = question.operation if question.operation in current.verdicts else "other"
    is_inside = question.is_inside(policy.roots)
    if verdict is ALLOW and question.operation in FILE_OPERATIONS and not is_inside and current.when_asked is not ALLOW:
        where = question.resource or "a file that is not named"
        return Decision(current.when_asked, DecisionSource.BOUNDARY, f"{where} is outside the session's folders")
    return Decision(verdict, DecisionSource.MODE, f"mode {current.name}: {verdict.label} {what}")


def _agent_mode_decision(question: Question) -> Decision | None:
    """What the agent's own mode adds."""
    strictness = AGENT_MODES.get(question.agent_mode)
    if strictness is None or MODES[question.agent_mode].verdicts.get(question.operation, DENY) is not DENY:
        return None
    return Decision(strictness, DecisionSource.AGENT_MODE, f"the agent itself is in its mode {question.agent_mode}")


def _resolve_ask(current: PolicyMode, found: Decision) -> Decision:
    if current.when_asked is ASK:
        return found
    what = "nothing is asked" if current.when_asked is ALLOW else "nobody is asked, so it is denied"
    return Decision(current.when_asked, DecisionSource.MODE, f"{found.reason}; mode {current.name}: {what}")
