"""Leave on a terminal: a guard decides by the user's policy, and the person is asked where policy says so.

The one way in which commands answer what agents ask. Takes a sheet and perhaps a person; `permission` and `lending` go
to connect, `attend` follows. Shows questions and refusals; what is decided, remembered and audited is the guard's.
Above are run, demo and whatever else talks with agents on a terminal.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from io import TextIOWrapper
from typing import Any, NamedTuple

from msgspec import UNSET

from dragoman import ClientTurn, RemoteAgent
from dragoman.cli.ui.diff import MAX_COMPARED, diff_lines
from dragoman.cli.ui.key_prompt import KeyChoice as Shown
from dragoman.cli.ui.key_prompt import Prompter
from dragoman.cli.ui.terminal import OutputStream, StyledLine, sanitize_line
from dragoman.config.paths import UserPaths
from dragoman.config.private_files import open_regular
from dragoman.policy.decide import Policy
from dragoman.policy.decision import ALLOW, ASK, DENY, Decision, DecisionSource
from dragoman.policy.grants import SCOPES, Scope
from dragoman.policy.permission_options import choose_option
from dragoman.policy.question import FILE_OPERATIONS, Operation, Question
from dragoman.policy.redaction import environment_secrets
from dragoman.policy.rules import Rule, RuleFile
from dragoman.roles.client.permission.guard import NOBODY_TO_ASK, Guard
from dragoman.roles.client.permission.prompt import (
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

    key_choice: Shown
    answer: PermissionChoice


# Scope -> key and meaning.
_ALLOW_KEYS: dict[str, tuple[str, str]] = {
    Scope.ONCE: ("y", "yes, this once"),
    Scope.SESSION: ("s", "yes, for this session"),
    Scope.WORKSPACE: ("w", "yes, always in this folder"),
    Scope.ALWAYS: ("a", "yes, always and everywhere"),
}


# Agents that can only be told yes are told "cancelled", after which most end their turn (peers.md 42).
_CANCEL_MEANING = "no; the agent offers no way to say so, and is told that the turn is cancelled"


def answer_keys(prompt: PermissionPrompt, scopes: Sequence[str]) -> list[AnswerKey]:
    """The keys that answer a question, in the order in which they are shown."""
    options = prompt.options
    wanted = scopes if prompt.can_be_remembered else (Scope.ONCE,)
    found: list[AnswerKey] = []
    said: set[str] = set()  # the options that our keys say
    for scope in wanted:
        option = choose_option(options, ALLOW, scope)
        if options and option is None:
            continue
        # What the agent calls it is shown where it is told exactly that: beside "once", it would mislead.
        name = "" if option is None or option in said else _option_name(options, option)
        key, meaning = _ALLOW_KEYS[scope]
        found.append(AnswerKey(Shown(key, meaning, key, name), PermissionChoice(ALLOW, scope)))
        said |= {option} if option is not None else set()
    refusal = choose_option(options, DENY)
    meaning = "no" if refusal is not None or not options else _CANCEL_MEANING
    found.append(AnswerKey(Shown("n", meaning, "n", _option_name(options, refusal)), PermissionChoice(DENY)))
    said |= {refusal} if refusal is not None else set()
    for number, each in enumerate(options, 1):
        if each.option_id not in said:
            shown = Shown(str(number), _OPTION_MEANINGS.get(each.kind, "choose"), str(number), each.name)
            found.append(AnswerKey(shown, PermissionChoice(option_id=each.option_id)))
    return found


_OPTION_MEANINGS = {
    "allow_once": "yes, this once",
    "allow_always": "yes, always in this folder",
    "reject_once": "no",
    "reject_always": "no, never in this folder",
}


def _option_name(options: Sequence[PermissionOption], option_id: str | None) -> str:
    return next((option.name for option in options if option.option_id == option_id), "")


# A question that fills several screens is not read; what is left out is counted.
MAX_DIFF_LINES = 60

# Who comes into a session is greeted and told what was said before they are asked what is open in it. Seconds.
READY_TIMEOUT = 10.0

# What is wanted, in one word before it.
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

# The use of something lent, as one says it.
OPERATION_VERBS = {**OPERATION_LABELS, Operation.TERMINAL_EXECUTE: "execute"}

# What a host asks, it asks because its policy says so.
ASK_EVERYTHING = RuleFile(name="the host", rules=(Rule(verdict=ASK, reason="the host asks those who are here"),))

UNCONFINED_WARNING = "  once it runs, it can do whatever you can"


class PermissionUI:
    """Gives and refuses leave during one conversation.

    With `places`, by the user's own policy, grants and audit (ConfigFault when they cannot be used); without, by the
    table of modes alone, and nothing is kept. `policy` is a file in place of the user's own, `yes` answers whatever
    would be asked; `asks`: a host has decided by its policy already, and whatever it asks is for the person. `options`
    are those of Lending.
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
        **options: Any,
    ) -> None:
        self.turn: ClientTurn | None = None
        self.refused_count = 0  # what the person did not refuse, but nobody or policy did
        self.shown_changes: set[tuple[str, str]] = set()  # changes that a question showed: path and new text
        self._output = output
        self._prompter = prompter
        self._cwd = cwd
        self._yes = yes
        self._sandboxed = sandboxed
        self._host_decides = host_decides
        self._scopes = SCOPES if paths is not None else SCOPES[:2]
        self._question_lock = asyncio.Lock()
        self.ready = asyncio.Event()  # cleared while the person is not yet told where they are
        self.ready.set()
        self._no_open_question = asyncio.Event()
        self._no_open_question.set()
        ask = self._ask if yes or prompter is not None else None
        told: dict[str, Any] = {"ask": ask, "told": self._show_refusal, "mode": mode}
        if paths is not None:
            self.guard = Guard.for_user(paths, policy=policy, roots=[cwd], **told)
        else:
            policy_here = Policy(files=(ASK_EVERYTHING,)) if host_decides else Policy()
            self.guard = Guard(policy_here, secrets=environment_secrets(os.environ), **told)
        output.redact = self.guard.redaction.redact_known
        self.permission = self.guard.request_permission
        self.workspace = self.guard.workspace_access(**options)

    def bind_agent(self, agent: RemoteAgent, command: str = "") -> None:
        """The agent is there; one that does not say its name is known by its command."""
        self.guard.set_agent(agent, os.path.basename(command))

    async def close(self) -> None:
        """The conversation is over: what was allowed for its sessions is forgotten."""
        await self.guard.close()

    def redact(self, text: str) -> str:
        """Text without secrets, known ones and what looks like one: for faults and for what agents write to stderr."""
        return self.guard.redaction.redact_text(text)

    # --- the turn ---------------------------------------------------------------------------------------------

    def begin_turn(self, turn: ClientTurn) -> None:
        """A turn begins: its questions are shown after what it said before them."""
        self.turn = turn

    def end_turn(self) -> None:
        """The turn is over."""
        self.shown_changes.clear()
        self.turn = None

    @property
    def is_unattended(self) -> bool:
        """Whether there is nobody here to ask."""
        return self._prompter is None and not self._yes

    @property
    def is_asking(self) -> bool:
        """Whether a question stands on the terminal; nothing else may be written meanwhile."""
        return not self._no_open_question.is_set()

    async def wait_until_answered(self) -> None:
        """Wait until no question is open."""
        await self._no_open_question.wait()

    def close_question(self) -> None:
        """The turn is being cancelled: close the open question."""
        if self._prompter is not None:
            self._prompter.close_question()

    @asynccontextmanager
    async def open_question(self) -> AsyncIterator[bool]:
        """The terminal for one question, after all that was said before it; whether it is still wanted."""
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
        """The guard's question to the person; None when the turn was cancelled meanwhile."""
        if self._yes:
            return auto_allow(prompt)
        assert self._prompter is not None
        lines = (
            self._tool_call_lines(prompt)
            if prompt.tool_call is not None
            else await asyncio.to_thread(self._workspace_use_lines, prompt)
        )
        offered = answer_keys(prompt, self._scopes)
        async with self.open_question() as is_wanted:
            if not is_wanted:
                return None
            typed = await self._prompter.choose(lines, [key.key_choice for key in offered])
        if typed is None:  # who closes the terminal gives no leave; only a cancelled turn is answered as one
            return None if self.turn is not None and self.turn.cancelled else PermissionChoice(DENY, NO_SCOPE)
        return next(key.answer for key in offered if key.key_choice.value == typed)

    def _show_refusal(self, prompt: PermissionPrompt, decision: Decision) -> None:
        """Refusals that the person did not give are said."""
        if decision.allows or decision.source in (DecisionSource.USER, DecisionSource.CANCELLED):
            return
        self.refused_count += 1
        if prompt.tool_call is not None:
            what = sanitize_line(prompt.tool_call.title or prompt.tool_call.name or "a tool call")
        else:
            first = prompt.questions[0]
            verb = OPERATION_VERBS.get(first.operation, first.operation)
            what = f"{verb} {self._relative_path(describe_question(first))}"
        if decision.source == DecisionSource.NOBODY:
            why = "the host asks" if self._host_decides else decision.reason.removesuffix(f"; {NOBODY_TO_ASK}")
            words = f"refused, for {NOBODY_TO_ASK}: {what} ({sanitize_line(why)}; --yes allows it)"
        else:
            words = f"refused: {what} ({sanitize_line(decision.reason)})"
        self._output.write_line(self.redact(words), "red")

    # --- showing ----------------------------------------------------------------------------------------------

    def _tool_call_lines(self, prompt: PermissionPrompt) -> list[StyledLine]:
        """Title, commands, files and changes; never only the title, which may say anything."""
        call = prompt.tool_call
        lines = [
            StyledLine("The agent asks for leave:", "ask"),
            StyledLine(sanitize_line(call.title or call.name or "a tool call"), "bold"),
        ]
        if prompt.reason:
            lines.append(StyledLine(f'  it says: "{sanitize_line(prompt.reason)}"'))
        lines += self._resource_lines(prompt.questions)
        changes = [block for block in call.content if isinstance(block, Diff)]
        for change in changes:
            if len(changes) > 1:
                lines.append(StyledLine(f"{self._relative_path(change.path)}:", "dim"))
            lines += diff_lines(
                change.old_text if change.old_text is not UNSET else None, change.new_text, MAX_DIFF_LINES
            )
            self.shown_changes.add((change.path, change.new_text))
        return lines + self._reason_lines(prompt)

    def _workspace_use_lines(self, prompt: PermissionPrompt) -> list[StyledLine]:
        """What a use of the lent things will do, in lines."""
        question = prompt.questions[0]
        lines = [
            StyledLine(f"The agent wants to {OPERATION_VERBS.get(question.operation, question.operation)}:", "ask"),
            StyledLine(self._resource_text(question), "bold"),
        ]
        if has_other_cwd(question):
            lines.append(StyledLine(f"  in the folder {self._relative_path(question.cwd)}"))
        lines += [
            StyledLine(f"  with {sanitize_line(name)}={sanitize_line(value)}") for name, value in prompt.env.items()
        ]
        if prompt.interactive:
            lines.append(StyledLine(f"  {INTERACTIVE_NOTE}"))
        if question.operation == Operation.FILE_WRITE and prompt.text is not None:
            lines += diff_lines(_read_current(question.resource), prompt.text, MAX_DIFF_LINES)
            self.shown_changes.add((question.resource, prompt.text))
        return lines + self._reason_lines(prompt)

    def _resource_lines(self, questions: tuple[Question, ...]) -> list[StyledLine]:
        said = [(each, self._resource_text(each)) for each in questions]
        # A title that says nothing more than the line above is not said twice.
        return [
            StyledLine(f"  {OPERATION_LABELS.get(each.operation, each.operation)}: {place}{self._where(each)}")
            for each, place in said
            if each.resource or each.tool or each.server
        ]

    def _where(self, question: Question) -> str:
        """In which folder a command starts, where that is not the session's own."""
        return f" (in the folder {self._relative_path(question.cwd)})" if has_other_cwd(question) else ""

    def _reason_lines(self, prompt: PermissionPrompt) -> list[StyledLine]:
        """What the person should know besides: that a command is not confined, and which rule asks."""
        lines = []
        if not self._sandboxed and any(each.operation == Operation.TERMINAL_EXECUTE for each in prompt.questions):
            lines.append(StyledLine(UNCONFINED_WARNING, "dim"))
        if prompt.decision.source != DecisionSource.MODE and not self._host_decides:
            lines.append(StyledLine(f"  asked because: {sanitize_line(prompt.decision.reason)}", "dim"))
        return lines

    def _resource_text(self, question: Question) -> str:
        """What it is about; a path as the agent named it, and where it really leads if that is elsewhere."""
        if question.operation in FILE_OPERATIONS and question.requested_path:
            return f"{self._relative_path(question.requested_path)} (really {sanitize_line(question.resource)})"
        return self._relative_path(describe_question(question))

    def _relative_path(self, path: str) -> str:
        for folder in (self._cwd, os.path.realpath(self._cwd)):
            path = path.removeprefix(folder.rstrip("/") + "/")
        return sanitize_line(path)


def auto_allow(prompt: PermissionPrompt) -> PermissionChoice:
    """--yes: leave for this once; an agent that offers no such option gets the one that lasts, and we forget it."""
    why = "--yes was given"
    if not prompt.options or choose_option(prompt.options, ALLOW) is not None:
        return PermissionChoice(ALLOW, Scope.ONCE, explanation=why)
    lasting = next((option for option in prompt.options if option.kind.startswith("allow")), None)
    option_id = lasting.option_id if lasting is not None else None
    return PermissionChoice(ALLOW, NO_SCOPE, option_id, explanation=why)


def _read_current(path: str) -> str | None:
    """What a file holds now, as far as it can be compared."""
    try:
        with TextIOWrapper(open_regular(path), encoding="utf-8", errors="replace", newline="") as file:
            return file.read(MAX_COMPARED + 1)
    except OSError:
        return None
