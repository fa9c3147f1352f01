"""One key for one answer: what is offered, and what each key means to the agent and to us."""

from __future__ import annotations

import pytest

from dragoman.cli.ui.permission import answer_keys
from dragoman.policy.decision import ALLOW, ASK, DENY, Decision, DecisionSource
from dragoman.policy.grants import SCOPES
from dragoman.policy.permission_options import choose_option
from dragoman.policy.question import Question
from dragoman.roles.client.permission.prompt import PermissionChoice, PermissionPrompt
from dragoman.schema.permission import PermissionOption


def asked(*kinds: str, question: Question | None = None) -> PermissionPrompt:
    """A question with options of these kinds."""
    options = tuple(
        PermissionOption(option_id=f"{kind}-{number}", name=f"Name {number}", kind=kind)
        for number, kind in enumerate(kinds, 1)
    )
    wanted = question or Question(operation="terminal_execute", resource="make")
    return PermissionPrompt(questions=(wanted,), decision=Decision(ASK, DecisionSource.MODE, ""), options=options)


def offered(question: PermissionPrompt, scopes: tuple[str, ...] = SCOPES) -> dict[str, PermissionChoice]:
    """The answers by their keys."""
    return {key.key_choice.key: key.answer for key in answer_keys(question, scopes)}


def test_each_scope_has_its_key() -> None:
    assert offered(asked()) == {
        "y": PermissionChoice(ALLOW, "once"),
        "s": PermissionChoice(ALLOW, "session"),
        "w": PermissionChoice(ALLOW, "workspace"),
        "a": PermissionChoice(ALLOW, "always"),
        "n": PermissionChoice(DENY),
    }


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (["allow_once", "reject_once"], "yswan"),
        (["allow_once", "allow_always", "reject_once"], "yswan"),
        (["allow_always", "reject_once"], "an"),
        (["reject_once"], "n"),
        (["allow_once", "reject_once", "reject_always"], "yswan3"),
        (["allow_once", "allow_always", "allow_always", "reject_once"], "yswan3"),
        (["something", "reject_once"], "n1"),
        (["allow_once"], "yswan"),
    ],
)
def test_a_key_is_offered_only_where_the_agent_can_be_told_and_no_option_is_lost(
    kinds: list[str], expected: str
) -> None:
    question = asked(*kinds)
    found = offered(question)
    assert "".join(found) == expected
    told = {
        choice.option_id or choose_option(question.options, choice.verdict, choice.scope) for choice in found.values()
    }
    assert told - {None} == {option.option_id for option in question.options}


def test_who_cannot_be_told_no_is_told_what_a_no_does() -> None:
    shown = {key.key_choice.key: key.key_choice.meaning for key in answer_keys(asked("allow_once"), SCOPES)}
    assert "cancelled" in shown["n"]


@pytest.mark.parametrize(
    "question",
    [
        Question(operation="other"),
        Question(operation="terminal_execute", resource="make", env=("LD_PRELOAD",)),
    ],
)
def test_what_cannot_be_remembered_is_not_offered_to_be(question: Question) -> None:
    assert "".join(offered(asked(question=question))) == "yn"


def test_what_the_agent_calls_an_option_stands_where_it_is_told_so() -> None:
    shown = {
        key.key_choice.key: key.key_choice.name
        for key in answer_keys(asked("allow_once", "allow_always", "reject_once"), SCOPES)
    }
    assert shown == {"y": "Name 1", "s": "", "w": "", "a": "Name 2", "n": "Name 3"}


def test_the_drafts_own_scopes_are_told_as_they_are() -> None:
    options = tuple(
        PermissionOption(option_id=scope, name=scope, kind="allow_once" if scope == "once" else "allow_always")
        for scope in SCOPES
    )
    question = PermissionPrompt(questions=asked().questions, decision=asked().decision, options=options)
    found = offered(question)
    assert "".join(found) == "yswan"
    assert [choose_option(options, ALLOW, found[key].scope) for key in "yswa"] == list(SCOPES)
