"""One key per answer: which keys are offered, and what each means to the agent and to us."""

from __future__ import annotations

import pytest

from dragoman.cli.ui.permission import answer_keys
from dragoman.policy.decision import ALLOW, ASK, DENY, Decision, DecisionSource
from dragoman.policy.grants import SCOPES
from dragoman.policy.permission_options import choose_option
from dragoman.policy.question import Question
from dragoman.roles.client.permission.questions import PermissionChoice, PermissionPrompt
from dragoman.schema.permission import PermissionOption


def prompt_with(*kinds: str, question: Question | None = None) -> PermissionPrompt:
    """Return a question with options of these kinds."""
    options = tuple(
        PermissionOption(option_id=f"{kind}-{number}", name=f"Name {number}", kind=kind)
        for number, kind in enumerate(kinds, 1)
    )
    wanted = question or Question(operation="terminal_execute", resource="make")
    return PermissionPrompt(questions=(wanted,), decision=Decision(ASK, DecisionSource.MODE, ""), options=options)


def offered(question: PermissionPrompt, scopes: tuple[str, ...] = SCOPES) -> dict[str, PermissionChoice]:
    """Return the answers by their keys."""
    return {key.key_choice.key: key.answer for key in answer_keys(question, scopes)}


def test_each_scope_has_its_key() -> None:
    assert offered(prompt_with()) == {
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
def test_every_option_has_a_key_and_every_key_has_an_option(kinds: list[str], expected: str) -> None:
    question = prompt_with(*kinds)
    found = offered(question)
    assert "".join(found) == expected
    option_ids = {
        choice.option_id or choose_option(question.options, choice.verdict, choice.scope) for choice in found.values()
    }
    assert option_ids - {None} == {option.option_id for option in question.options}


def test_an_option_that_the_agent_remembers_has_the_letter_of_its_scope_where_we_remember_less() -> None:
    question = prompt_with("allow_once", "allow_always", "reject_once")
    assert "".join(offered(question, SCOPES[:2])) == "yswn"
    assert offered(question, SCOPES[:2])["w"].option_id == question.options[1].option_id


def test_an_agent_without_a_reject_option_shows_that_no_cancels() -> None:
    meanings = {key.key_choice.key: key.key_choice.meaning for key in answer_keys(prompt_with("allow_once"), SCOPES)}
    assert "cancelled" in meanings["n"]


@pytest.mark.parametrize(
    "question",
    [
        Question(operation="other"),
        Question(operation="terminal_execute", resource="make", env=("LD_PRELOAD",)),
    ],
)
def test_a_permission_that_cannot_be_remembered_offers_only_once(question: Question) -> None:
    assert "".join(offered(prompt_with(question=question))) == "yn"


def test_the_agents_option_name_is_shown_at_its_key() -> None:
    meanings = {
        key.key_choice.key: key.key_choice.name
        for key in answer_keys(prompt_with("allow_once", "allow_always", "reject_once"), SCOPES)
    }
    assert meanings == {"y": "Name 1", "s": "", "w": "", "a": "Name 2", "n": "Name 3"}


def test_the_scopes_of_the_draft_map_to_their_keys() -> None:
    options = tuple(
        PermissionOption(option_id=scope, name=scope, kind="allow_once" if scope == "once" else "allow_always")
        for scope in SCOPES
    )
    question = PermissionPrompt(questions=prompt_with().questions, decision=prompt_with().decision, options=options)
    found = offered(question)
    assert "".join(found) == "yswan"
    assert [choose_option(options, ALLOW, found[key].scope) for key in "yswa"] == list(SCOPES)


@pytest.mark.parametrize(
    ("operations", "target"),
    [
        (["file_write"], "changing this file"),
        (["file_read"], "reading this file"),
        (["terminal_execute"], "exactly this command"),
        (["mcp_tool"], "this tool"),
        (["other"], "exactly this"),
        (["file_read", "file_write"], "exactly this"),
    ],
)
def test_each_key_says_what_is_remembered(operations: list[str], target: str) -> None:
    questions = tuple(Question(operation=operation, resource="/here/x") for operation in operations)
    prompt = PermissionPrompt(questions=questions, decision=prompt_with().decision, options=())
    choices = {key.key_choice.key: key.key_choice for key in answer_keys(prompt, SCOPES)}
    assert choices["s"].meaning == f"yes, for {target}, in this session"
    assert choices["w"].meaning == f"yes, for {target}, always in this folder"
    assert choices["a"].meaning == f"yes, always for {target}"
    assert [choices[key].short for key in "yswa"] == [
        "once",
        f"{target}, this session",
        f"{target}, always here",
        f"{target}, always",
    ]


def test_an_option_that_the_agent_remembers_claims_no_scope_of_ours() -> None:
    keys = answer_keys(prompt_with("allow_once", "allow_always", "reject_once", "reject_always"), SCOPES[:2])
    meanings = {key.key_choice.key: (key.key_choice.meaning, key.key_choice.name) for key in keys}
    assert meanings["w"] == ("yes, always", "Name 2")
    assert meanings["4"] == ("no, never", "Name 4")
