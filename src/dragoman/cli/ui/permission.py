"""Permission requests on a terminal: a Guard applies the policy, and this module asks the user.

`permission` and `workspace` go to connect(); `bind_agent` follows. The Guard decides, remembers and audits.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

from msgspec import UNSET

from dragoman import ClientTurn, RemoteAgent
from dragoman.cli.ui.format import diff_lines
from dragoman.cli.ui.key_prompt import KeyChoice, Prompter, QuestionPart, TextChange
from dragoman.cli.ui.terminal import OutputStream, StyledLine, sanitize_line
from dragoman.config.paths import UserPaths
from dragoman.policy.decide import Policy
from dragoman.policy.decision import ALLOW, ASK, DENY, Decision, DecisionSource
from dragoman.policy.grants import SCOPES, Scope
from dragoman.policy.permission_options import choose_option
from dragoman.policy.question import FILE_OPERATIONS, Operation, Question
from dragoman.policy.redaction import environment_secrets
from dragoman.policy.rules import Rule, RuleFile
from dragoman.roles.client.permission.guard import NOBODY_TO_ASK, Guard
from dragoman.roles.client.permission.questions import (
    INTERACTIVE_NOTE,
    NO_SCOPE,
    PermissionChoice,
    PermissionPrompt,
    describe_question,
    has_other_cwd,
)
from dragoman.schema.permission import PermissionOption
from dragoman.schema.toolcall import Diff


class AnswerKey(NamedTuple):
    """One key: how it is shown, and the answer it gives."""

    key_choice: KeyChoice
    answer: PermissionChoice


# Scope -> key, meaning, and meaning where room is short; with what the answer is remembered for.
_ALLOW_KEYS: dict[str, tuple[str, str, str]] = {
    Scope.ONCE: ("y", "yes, this once", "once"),
    Scope.SESSION: ("s", "yes, for {target}, in this session", "{target}, this session"),
    Scope.WORKSPACE: ("w", "yes, for {target}, always in this folder", "{target}, always here"),
    Scope.ALWAYS: ("a", "yes, always for {target}", "{target}, always"),
}

# Operation -> what an answer is remembered for: a grant covers nothing else. Several at once are "exactly this".
_REMEMBERED_TARGETS: dict[str, str] = {
    Operation.FILE_READ: "reading this file",
    Operation.FILE_WRITE: "changing this file",
    Operation.FILE_DELETE: "deleting this file",
    Operation.TERMINAL_EXECUTE: "exactly this command",
    Operation.NETWORK_ACCESS: "exactly this address",
    Operation.MCP_TOOL: "this tool",
    Operation.MCP_START: "this server",
    Operation.SWITCH_MODE: "this mode",
}

# Agents that offer no way to refuse get "cancelled", after which most end their turn
# (docs/protocol/peers.md#lost-options).
_CANCEL_MEANING = "no (this agent offers no way to refuse: the turn is cancelled)"


def answer_keys(prompt: PermissionPrompt, scopes: Sequence[str]) -> list[AnswerKey]:
    """Return the keys that answer a question, in the order in which they are shown."""
    options = prompt.options
    wanted = scopes if prompt.can_be_remembered else (Scope.ONCE,)
    keys: list[AnswerKey] = []
    covered: set[str] = set()  # option ids that have a key
    for scope in wanted:
        option = choose_option(options, ALLOW, scope)
        if options and option is None:
            continue
        # The agent's name of an option is shown only at the first scope that maps to it: at another scope it would
        # mislead.
        name = "" if option is None or option in covered else _option_name(options, option)
        key, meaning, short = (text.format(target=_remembered_target(prompt)) for text in _ALLOW_KEYS[scope])
        keys.append(AnswerKey(KeyChoice(key, meaning, key, name, short), PermissionChoice(ALLOW, scope)))
        covered |= {option} if option is not None else set()
    refusal = choose_option(options, DENY)
    meaning = "no" if refusal is not None or not options else _CANCEL_MEANING
    keys.append(AnswerKey(KeyChoice("n", meaning, "n", _option_name(options, refusal)), PermissionChoice(DENY)))
    covered |= {refusal} if refusal is not None else set()
    for number, each in enumerate(options, 1):
        if each.option_id not in covered:
            used = {key.key_choice.key for key in keys}
            letter, meaning = _OPTION_KEYS.get(each.kind, ("", "choose"))
            key = letter if letter and letter not in used else str(number)
            keys.append(AnswerKey(KeyChoice(key, meaning, key, each.name), PermissionChoice(option_id=each.option_id)))
    return sorted(keys, key=lambda each: _KEY_ORDER.find(each.key_choice.key) % 100)  # -1, a digit, is the last


# Kind of an option that no scope has taken -> its letter and its meaning. The letters are those of the scopes.
_OPTION_KEYS: dict[str, tuple[str, str]] = {
    "allow_once": ("", "yes, this once"),
    "allow_always": ("w", "yes, always"),  # the agent decides what that covers; its own name of it follows
    "reject_once": ("", "no"),
    "reject_always": ("", "no, never"),
}
_KEY_ORDER = "yswan"


def _remembered_target(prompt: PermissionPrompt) -> str:
    first, *others = prompt.questions
    return _REMEMBERED_TARGETS.get(first.operation, "exactly this") if not others else "exactly this"


def _option_name(options: Sequence[PermissionOption], option_id: str | None) -> str:
    return next((option.name for option in options if option.option_id == option_id), "")


# Nobody reads a question of several screens; the lines that are left out are counted.
MAX_DIFF_LINES = 60

# A client that joins a session shows the transcript before it asks the open questions. Seconds.
READY_TIMEOUT = 10.0

# The operation, as a label before the resource.
OPERATION_LABELS: dict[str, str] = {
    Operation.FILE_READ: "read",
    Operation.FILE_WRITE: "write",
    Operation.FILE_DELETE: "delete",
    Operation.TERMINAL_EXECUTE: "command",
    Operation.NETWORK_ACCESS: "address",
    Operation.MCP_TOOL: "tool",
    Operation.MCP_START: "server",
    Operation.SWITCH_MODE: "mode",
    Operation.OTHER: "something else",
}

# The operation, as a verb.
OPERATION_VERBS = {**OPERATION_LABELS, Operation.TERMINAL_EXECUTE: "execute"}

# A host asks because its own policy says so.
ASK_EVERYTHING = RuleFile(name="the host", rules=(Rule(verdict=ASK, reason="the host asks the members"),))

UNCONFINED_WARNING = "  this command is not sandboxed: it can do whatever you can"


class PermissionUI:
    """Answers the permission requests of one session.

    With `paths`, by the user's own policy, grants and audit log (raises ConfigFault when they cannot be used); without,
    by the table of modes alone, and nothing is stored. `policy` is a file that replaces the user's own. `yes` allows
    whatever would be asked. `host_decides`: a host has applied its policy already, so ask the user everything.
    Where several agents work, `agent` is the name of this one, and `question_lock` lets only one of them ask at a time.
    `options` are those of WorkspaceAccess.
    """

    def __init__(
        self,
        output: OutputStream,
        prompter: Prompter | None,
        *,
        cwd: str,
        yes: bool = False,
        paths: UserPaths | None = None,
        policy: str | None = None,
        mode: str | None = None,
        sandboxed: bool = False,
        host_decides: bool = False,
        agent: str = "",
        question_lock: asyncio.Lock | None = None,
        **options: Any,
    ) -> None:
        self.turn: ClientTurn | None = None
        self.refused_count = 0  # refused by policy or because nobody could be asked, not by the user
        self.shown_changes: set[tuple[str, str]] = set()  # changes that a question showed: path and new text
        self._output = output
        self._prompter = prompter
        self._cwd = cwd
        self._yes = yes
        self._sandboxed = sandboxed
        self._host_decides = host_decides
        self._scopes = SCOPES if paths is not None else SCOPES[:2]
        self._question_lock = question_lock or asyncio.Lock()
        self._asker = sanitize_line(agent) or "The agent"
        self._label = f"{sanitize_line(agent)}: " if agent else ""  # before a line about one of several agents
        self.ready = asyncio.Event()  # cleared until the transcript is shown
        self.ready.set()
        self._no_open_question = asyncio.Event()
        self._no_open_question.set()
        ask = self._ask if yes or prompter is not None else None
        guard_options: dict[str, Any] = {"ask": ask, "on_decision": self._show_refusal, "mode": mode, "agent": agent}
        if paths is not None:
            self.guard = Guard.for_user(paths, policy=policy, roots=[cwd], **guard_options)
        else:
            policy_here = Policy(files=(ASK_EVERYTHING,)) if host_decides else Policy()
            self.guard = Guard(policy_here, secrets=environment_secrets(os.environ), **guard_options)
        output.redact = self.guard.redaction.redact_known
        self.permission = self.guard.request_permission
        self.workspace = self.guard.workspace_access(**options)

    def bind_agent(self, agent: RemoteAgent, command: str = "") -> None:
        """Bind to the agent. An agent without a name is known by its command."""
        self.guard.set_agent(agent, os.path.basename(command))

    async def close(self) -> None:
        """End the session: forget what was allowed for it."""
        await self.guard.close()

    def redact(self, text: str) -> str:
        """Return text without secrets, known ones and what looks like one: for errors and for stderr of agents."""
        return self.guard.redaction.redact_text(text)

    # --- the turn ---------------------------------------------------------------------------------------------

    def begin_turn(self, turn: ClientTurn) -> None:
        """Begin a turn. Its questions are shown after the text that came before them."""
        self.turn = turn

    def end_turn(self) -> None:
        """End the turn."""
        self.shown_changes.clear()
        self.turn = None

    @property
    def is_unattended(self) -> bool:
        """Whether there is nobody here to ask."""
        return self._prompter is None and not self._yes

    @property
    def is_asking(self) -> bool:
        """Whether a question is on the terminal; nothing else may be written meanwhile."""
        return not self._no_open_question.is_set()

    async def wait_until_answered(self) -> None:
        """Wait until no question is open."""
        await self._no_open_question.wait()

    def close_question(self) -> None:
        """Close the open question, because the turn is cancelled."""
        if self._prompter is not None:
            self._prompter.close_question()

    @asynccontextmanager
    async def open_question(self) -> AsyncIterator[bool]:
        """Take the terminal for one question, after all earlier text. Yields False when the turn was cancelled
        meanwhile.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(READY_TIMEOUT):
                await self.ready.wait()
        async with self._question_lock:
            if self.turn is not None:
                await self.turn.wait_consumed()
                if self.turn.cancelled:
                    yield False
                    return
            self._no_open_question.clear()
            try:
                yield True
            finally:
                self._no_open_question.set()

    # --- asking -----------------------------------------------------------------------------------------------

    async def _ask(self, prompt: PermissionPrompt) -> PermissionChoice | None:
        """Ask the user; None when the turn was cancelled meanwhile."""
        if self._yes:
            return auto_allow(prompt)
        assert self._prompter is not None
        lines = self._tool_call_lines(prompt) if prompt.tool_call is not None else self._workspace_use_lines(prompt)
        keys = answer_keys(prompt, self._scopes)
        async with self.open_question() as is_wanted:
            if not is_wanted:
                return None
            if not self._prompter.shows_changes:
                lines = _with_diff_lines(lines)
            typed = await self._prompter.choose(lines, [key.key_choice for key in keys])
        if typed is None:  # closing the terminal refuses; only a cancelled turn is answered as one
            return None if self.turn is not None and self.turn.cancelled else PermissionChoice(DENY, NO_SCOPE)
        return next(key.answer for key in keys if key.key_choice.value == typed)

    def _show_refusal(self, prompt: PermissionPrompt, decision: Decision) -> None:
        """Show a refusal that the user did not give."""
        if decision.allows or decision.source in (DecisionSource.USER, DecisionSource.CANCELLED):
            return
        self.refused_count += 1
        if prompt.tool_call is not None:
            subject = sanitize_line(prompt.tool_call.title or prompt.tool_call.name or "a tool call")
        else:
            first = prompt.questions[0]
            verb = OPERATION_VERBS.get(first.operation, first.operation)
            subject = f"{verb} {self._relative_path(describe_question(first))}"
        if decision.source == DecisionSource.NOBODY:
            reason = "the host asks" if self._host_decides else decision.reason.removesuffix(f"; {NOBODY_TO_ASK}")
            text = f"refused ({NOBODY_TO_ASK}): {subject} ({sanitize_line(reason)}; use --yes to allow it)"
        else:
            text = f"refused: {subject} ({sanitize_line(decision.reason)})"
        self._output.write_line(self.redact(self._label + text), "red")

    # --- showing ----------------------------------------------------------------------------------------------

    def _tool_call_lines(self, prompt: PermissionPrompt) -> list[QuestionPart]:
        """Return title, commands, files and changes; never only the title, which the agent can make up."""
        call = prompt.tool_call
        lines: list[QuestionPart] = [
            StyledLine(f"{self._asker} asks for permission:", "ask"),
            StyledLine(sanitize_line(call.title or call.name or "a tool call"), "bold"),
        ]
        if prompt.reason:
            lines.append(StyledLine(f'  reason given by the agent: "{sanitize_line(prompt.reason)}"'))
        lines += self._resource_lines(prompt.questions)
        changes = [block for block in call.content if isinstance(block, Diff)]
        for change in changes:
            if len(changes) > 1:
                lines.append(StyledLine(f"{self._relative_path(change.path)}:", "dim"))
            old = change.old_text if change.old_text is not UNSET else None
            lines.append(TextChange(change.path, old, change.new_text))
            self.shown_changes.add((change.path, change.new_text))
        return [*lines, *self._reason_lines(prompt)]

    def _workspace_use_lines(self, prompt: PermissionPrompt) -> list[QuestionPart]:
        question = prompt.questions[0]
        lines: list[QuestionPart] = [
            StyledLine(f"{self._asker} wants to {OPERATION_VERBS.get(question.operation, question.operation)}:", "ask"),
            StyledLine(self._resource_text(question), "bold"),
        ]
        if has_other_cwd(question):
            lines.append(StyledLine(f"  in the folder {self._relative_path(question.cwd)}"))
        lines += [
            StyledLine(f"  with {sanitize_line(name)}={sanitize_line(value)}") for name, value in prompt.env.items()
        ]
        if prompt.interactive:
            lines.append(StyledLine(f"  {INTERACTIVE_NOTE}"))
        if prompt.new_text is not None:
            lines.append(TextChange(question.resource, prompt.current_text, prompt.new_text))
            self.shown_changes.add((question.resource, prompt.new_text))
        elif prompt.data is not None:
            lines += [StyledLine(line, "green") for line in prompt.data_lines]
        return [*lines, *self._reason_lines(prompt)]

    def _resource_lines(self, questions: tuple[Question, ...]) -> list[StyledLine]:
        return [
            StyledLine(
                f"  {OPERATION_LABELS.get(each.operation, each.operation)}: "
                f"{self._resource_text(each)}{self._where(each)}"
            )
            for each in questions
            if each.resource or each.tool or each.server
        ]

    def _where(self, question: Question) -> str:
        """Return the folder in which a command starts, if it is not the session's own."""
        return f" (in the folder {self._relative_path(question.cwd)})" if has_other_cwd(question) else ""

    def _reason_lines(self, prompt: PermissionPrompt) -> list[StyledLine]:
        """Return what the user should know besides: whether a command is confined, and which rule asks."""
        lines = []
        if not self._sandboxed and any(each.operation == Operation.TERMINAL_EXECUTE for each in prompt.questions):
            lines.append(StyledLine(UNCONFINED_WARNING, "dim"))
        if prompt.decision.source != DecisionSource.MODE and not self._host_decides:
            lines.append(StyledLine(f"  asked because: {sanitize_line(prompt.decision.reason)}", "dim"))
        return lines

    def _resource_text(self, question: Question) -> str:
        """Return the subject; a path as the agent named it, and the real path if that differs."""
        if question.operation in FILE_OPERATIONS and question.requested_path:
            return f"{self._relative_path(question.requested_path)} (real path {sanitize_line(question.resource)})"
        return self._relative_path(describe_question(question))

    def _relative_path(self, path: str) -> str:
        for folder in (self._cwd, os.path.realpath(self._cwd)):
            path = path.removeprefix(folder.rstrip("/") + "/")
        return sanitize_line(path)


def _with_diff_lines(parts: Sequence[QuestionPart]) -> list[QuestionPart]:
    """Return a question whose changes are lines."""
    lines: list[QuestionPart] = []
    for part in parts:
        lines += diff_lines(part.old, part.new, MAX_DIFF_LINES) if isinstance(part, TextChange) else [part]
    return lines


def auto_allow(prompt: PermissionPrompt) -> PermissionChoice:
    """Answer for --yes: allow once. If the agent offers only a lasting option, choose that, and remember nothing."""
    explanation = "--yes was given"
    if not prompt.options or choose_option(prompt.options, ALLOW) is not None:
        return PermissionChoice(ALLOW, Scope.ONCE, explanation=explanation)
    lasting = next((option for option in prompt.options if option.kind.startswith("allow")), None)
    option_id = lasting.option_id if lasting is not None else None
    return PermissionChoice(ALLOW, NO_SCOPE, option_id, explanation=explanation)
