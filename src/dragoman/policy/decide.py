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
from dragoman.policy.decision import ALLOW, ASK, DENY, Decision, Source
from dragoman.policy.grants import Grant
from dragoman.policy.modes import AGENT_MODES, MODES, Mode, mode
from dragoman.policy.question import ON_FILES, WRITING, Question, is_under, names_below


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The files that apply, and the mode that the user chose in them."""

    files: tuple[rules.RuleFile, ...] = ()
    mode: str = "default"
    # What is ours, resolved paths, and names of folders wherever they are; nothing at or below is ever written.
    protected: tuple[str, ...] = ()
    # Folders that every session has besides its own, resolved; for files only.
    roots: tuple[str, ...] = ()


class Weighed(msgspec.Struct, frozen=True, kw_only=True):
    """A decision with all that was looked at."""

    decision: Decision
    considered: tuple[Decision, ...]


def decide(
    policy: Policy, question: Question, grants: Iterable[Grant] = (), *, now: float = 0.0, run: str = ""
) -> Decision:
    """Allow, ask or deny."""
    current = mode(question.mode)
    ours = _ours(policy, question)
    if ours is not None:
        return ours
    ruled = rules.decide(policy.files, question)
    if ruled is not None and ruled.verdict is DENY:
        return ruled
    cell = _cell(policy, current, question)
    if current.is_firm and cell.verdict is DENY:
        return cell
    floor = _floor(question)
    if floor is not None and floor.verdict is DENY:
        return floor
    known = granted.recall(grants, question, now, run)
    if known is not None:
        return known
    found = ruled if ruled is not None else cell
    # What the user wrote into a rule is an answer to an agent that only wants to ask.
    if floor is not None and ruled is None and floor.verdict > found.verdict:
        found = floor
    return _settled(current, found) if found.verdict is ASK else found


def decide_all(
    policy: Policy, questions: Sequence[Question], grants: Sequence[Grant] = (), *, now: float = 0.0, run: str = ""
) -> Decision:
    """The decision on things that are asked for together: the strictest."""
    return max(
        (decide(policy, question, grants, now=now, run=run) for question in questions), key=lambda each: each.verdict
    )


def explain(
    policy: Policy, question: Question, grants: Sequence[Grant] = (), *, now: float = 0.0, run: str = ""
) -> Weighed:
    """The decision, with what each file, the mode and the grants say by themselves."""
    spoken = [_ours(policy, question)]
    spoken += [file.decide(question) for file in policy.files]
    spoken += [_cell(policy, mode(question.mode), question), _floor(question)]
    spoken.append(granted.recall(grants, question, now, run))
    return Weighed(
        decision=decide(policy, question, grants, now=now, run=run),
        considered=tuple(decision for decision in spoken if decision is not None),
    )


def _ours(policy: Policy, question: Question) -> Decision | None:
    """Policy, config, grants and audit are never written for an agent, whatever anybody says."""
    if question.operation not in WRITING:
        return None
    names = {place for place in policy.protected if "/" not in place}
    for path in (question.resource, question.named):
        if path and (is_under(path, policy.protected) or not names.isdisjoint(names_below(path, question.roots))):
            return Decision(
                DENY, Source.BOUNDARY, f"{path} belongs to Dragoman itself and is never written for an agent"
            )
    return None


def _cell(policy: Policy, current: Mode, question: Question) -> Decision:
    verdict = current.cells.get(question.operation, current.cells["other"])
    what = question.operation if question.operation in current.cells else "other"
    is_inside = question.is_inside(policy.roots)
    if verdict is ALLOW and question.operation in ON_FILES and not is_inside and current.asked is not ALLOW:
        where = question.resource or "a file that is not named"
        return Decision(current.asked, Source.BOUNDARY, f"{where} is outside the session's folders")
    return Decision(verdict, Source.MODE, f"mode {current.name}: {verdict.word} {what}")


def _floor(question: Question) -> Decision | None:
    """What the agent's own mode adds."""
    strictness = AGENT_MODES.get(question.agent_mode)
    if strictness is None or MODES[question.agent_mode].cells.get(question.operation, DENY) is not DENY:
        return None
    return Decision(strictness, Source.AGENT_MODE, f"the agent itself is in its mode {question.agent_mode}")


def _settled(current: Mode, found: Decision) -> Decision:
    if current.asked is ASK:
        return found
    what = "nothing is asked" if current.asked is ALLOW else "nobody is asked, so it is denied"
    return Decision(current.asked, Source.MODE, f"{found.reason}; mode {current.name}: {what}")
