"""What a guard asks the user, and what the user can answer. Values only; the client shows them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from dragoman.policy.decision import DENY, Decision, Verdict
from dragoman.policy.grants import Scope, build_grant
from dragoman.policy.permission_options import option_meaning
from dragoman.policy.question import FILE_OPERATIONS, Operation, Question
from dragoman.schema.permission import PermissionOption

# The scope of an answer to this question only.
NO_SCOPE = ""

# A note about a command that gets a pseudo-terminal.
INTERACTIVE_NOTE = "in a real terminal, where programs may start a pager or a prompt"


class PermissionPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A question to the user: everything asked at once, the policy's reason, and the agent's options."""

    questions: tuple[Question, ...]
    decision: Decision
    options: tuple[PermissionOption, ...] = ()  # none for a use of the workspace
    tool_call: Any = None  # the merged tool call; None for a use of the workspace
    reason: str = ""  # given by the agent
    text: str | None = None  # the text to write
    env: Mapping[str, str] = {}
    interactive: bool = False  # whether the command gets a pseudo-terminal

    @property
    def lines(self) -> list[str]:
        """The question as plain lines, one for each part; not yet escaped for a terminal."""
        lines = [line for each in self.questions for line in _question_lines(each)]
        return [
            *lines,
            *(f"with {name}={value}" for name, value in self.env.items()),
            *([INTERACTIVE_NOTE] if self.interactive else ()),
            f"asked by {self.decision.reason}",
        ]

    @property
    def can_be_remembered(self) -> bool:
        """Whether an answer can be remembered: whether the question says what it is about."""
        return any(build_grant(each, DENY, Scope.SESSION, id="", now=0.0) for each in self.questions)


class PermissionChoice(msgspec.Struct, frozen=True):
    """The user's answer: a verdict and its scope, or one of the agent's options."""

    verdict: Verdict = DENY
    scope: str = Scope.ONCE
    option_id: str | None = None
    lifetime: float | None = None  # seconds until it expires
    explanation: str = ""  # for the audit log, if there was no user

    @property
    def reason(self) -> str:
        """The reason for the decision."""
        return self.explanation or f"the user said {self.verdict.label}" + (f" ({self.scope})" if self.scope else "")


# None is no answer: the question was closed.
AskUser = Callable[[PermissionPrompt], Awaitable[PermissionChoice | None] | PermissionChoice | None]


def resolve_option(options: Sequence[PermissionOption], choice: PermissionChoice) -> PermissionChoice:
    """Return the verdict and scope of one of the agent's options. An option that was not offered is a denial."""
    if choice.option_id is None:
        return choice
    for option in options:
        if option.option_id == choice.option_id:
            # An option of unknown meaning is passed on, and grants nothing.
            verdict, scope = option_meaning(option) or (DENY, NO_SCOPE)
            why = choice.explanation or ("" if scope else f"the user chose {option.name!r}")
            scope = scope if choice.scope else NO_SCOPE
            return PermissionChoice(verdict, scope, option.option_id, choice.lifetime, why)
    return PermissionChoice(DENY)


def _question_lines(question: Question) -> list[str]:
    lines = [f"{question.operation.replace('_', ' ')}: {describe_question(question)}"]
    return [*lines, f"in the folder {question.cwd}"] if has_other_cwd(question) else lines


def has_other_cwd(question: Question) -> bool:
    """Return whether a command starts in another folder than the session's own."""
    return bool(question.cwd) and question.cwd != question.workspace


def describe_question(question: Question) -> str:
    """Return what a question is about, in one line; the agent's own title is quoted."""
    title = f'"{question.title}"' if question.title else ""
    if question.operation in FILE_OPERATIONS or question.operation == Operation.TERMINAL_EXECUTE:
        return question.resource or title
    name = "/".join(part for part in (question.server, question.tool) if part)
    about = question.resource or title
    if question.url and question.url != about:  # a server that has a command and an address
        about = f"{about} {question.url}"
    return about if not name or about == name else ": ".join(part for part in (name, about) if part)
