"""What a guard asks its user, and what the user can answer.

Values only: who shows the question, and how, is whoever built the client. Above is the guard.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from dragoman.policy.decision import DENY, Decision, Verdict
from dragoman.policy.grants import Scope, build_grant
from dragoman.policy.permission_options import option_meaning
from dragoman.policy.question import FILE_OPERATIONS, Operation, Question
from dragoman.schema.permission import PermissionOption

# The scope of an answer that is good for this one question and covers nothing after it.
NO_SCOPE = ""

# What is said of a command that gets a real terminal.
INTERACTIVE_NOTE = "in a real terminal, where programs may start a pager or a prompt"


class PermissionPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """What the user is asked: all that is wanted at once, why policy asks, and what the agent offers as answers."""

    questions: tuple[Question, ...]
    decision: Decision
    options: tuple[PermissionOption, ...] = ()  # none for the use of something lent
    tool_call: Any = None  # the tool call as far as it was told; None for the use of something lent
    reason: str = ""  # the agent's own
    text: str | None = None  # what is to be written
    env: Mapping[str, str] = {}
    interactive: bool = False  # whether the command gets a real terminal

    @property
    def lines(self) -> list[str]:
        """The question in plain words, one line for each thing; not yet made visible for a terminal."""
        said = [line for each in self.questions for line in _question_lines(each)]
        return [
            *said,
            *(f"with {name}={value}" for name, value in self.env.items()),
            *([INTERACTIVE_NOTE] if self.interactive else ()),
            f"asked by {self.decision.reason}",
        ]

    @property
    def can_be_remembered(self) -> bool:
        """Whether an answer could reach further than this question: whether it says what it is about."""
        return any(build_grant(each, DENY, Scope.SESSION, id="", now=0.0) for each in self.questions)


class PermissionChoice(msgspec.Struct, frozen=True):
    """What the user answers: a verdict and how far it reaches, or one of the agent's own options."""

    verdict: Verdict = DENY
    scope: str = Scope.ONCE
    option_id: str | None = None
    lifetime: float | None = None  # seconds after which it is forgotten
    explanation: str = ""  # for the audit, where nobody was there to be asked

    @property
    def reason(self) -> str:
        """What decided, in words."""
        return self.explanation or f"the user said {self.verdict.label}" + (f" ({self.scope})" if self.scope else "")


# None is no answer: the question was closed.
AskUser = Callable[[PermissionPrompt], Awaitable[PermissionChoice | None] | PermissionChoice | None]


def resolve_option(options: Sequence[PermissionOption], choice: PermissionChoice) -> PermissionChoice:
    """An option of the agent's as what it means to us; one that was never offered is a no."""
    if choice.option_id is None:
        return choice
    for option in options:
        if option.option_id == choice.option_id:
            # What nobody knows the meaning of is passed on, and covers nothing.
            verdict, scope = option_meaning(option) or (DENY, NO_SCOPE)
            kept = scope if choice.scope else NO_SCOPE
            why = choice.explanation or ("" if scope else f"the user chose {option.name!r}")
            return PermissionChoice(verdict, kept, option.option_id, choice.lifetime, why)
    return PermissionChoice(DENY)


def _question_lines(question: Question) -> list[str]:
    lines = [f"{question.operation.replace('_', ' ')}: {describe_question(question)}"]
    return [*lines, f"in the folder {question.cwd}"] if has_other_cwd(question) else lines


def has_other_cwd(question: Question) -> bool:
    """Whether a command starts in another folder than the session's own."""
    return bool(question.cwd) and question.cwd != question.workspace


def describe_question(question: Question) -> str:
    """What a question is about, in one line; in quotes where only the agent's own words tell."""
    said = f'"{question.title}"' if question.title else ""
    if question.operation in FILE_OPERATIONS or question.operation == Operation.TERMINAL_EXECUTE:
        return question.resource or said
    name = "/".join(part for part in (question.server, question.tool) if part)
    about = question.resource or said
    if question.url and question.url != about:  # a server that has a command and an address
        about = f"{about} {question.url}"
    return about if not name or about == name else ": ".join(part for part in (name, about) if part)
