"""The questions of a guard: the folders and paths of their session, what the user is asked, and the answers.

Links in the paths of a session's folders are the user's own and are resolved; other paths are kept as written.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.errors import ProtocolError
from dragoman.mcp.names import server_keys
from dragoman.policy.decision import ASK, DENY, Decision, DecisionSource, Verdict
from dragoman.policy.grants import Scope, build_grant
from dragoman.policy.permission_options import option_meaning
from dragoman.policy.question import FILE_OPERATIONS, Operation, Question, is_under
from dragoman.roles.client.permission.shown_changes import ShownChange
from dragoman.schema.permission import PermissionOption

if TYPE_CHECKING:
    from dragoman.roles.client.remote_agent import RemoteAgent
    from dragoman.roles.client.session import ClientSession


class SessionPaths:
    """The sessions of one agent, for the questions of a guard."""

    def __init__(self, agent_name: str = "") -> None:
        self.agent_name = agent_name
        self.find_session: Callable[[str], ClientSession | None] = lambda _: None
        self.find_roots: Callable[[str], Sequence[str]] = lambda _: ()
        self.resolve_folder: Callable[[str], str] = os.path.realpath  # returns the real path of a folder

    def set_agent(self, agent: RemoteAgent, fallback_name: str = "") -> None:
        """Take the agent's name, or else `fallback_name`, and its sessions."""
        self.find_session = agent.find_session
        if not self.agent_name:
            self.agent_name = (agent.info.name if agent.info is not None else "") or fallback_name

    def with_context(self, question: Question, session_id: str, mode: str) -> Question:
        """Return the question with its agent, session, folders and modes."""
        session = self.find_session(session_id)
        return msgspec.structs.replace(
            question,
            server=self._server_name(question.server, session),
            agent=self.agent_name,
            session=session_id,
            roots=self.resolved_roots(session_id),
            mode=mode,
            agent_mode=(session.mode or "") if session is not None else "",
        )

    @staticmethod
    def _server_name(key: str, session: ClientSession | None) -> str:
        """Return the name that the user gave an MCP server: in the name of a tool it has only some characters."""
        names = [server.name for server in session.mcp_servers] if session is not None and key else []
        return next((name for name, each in server_keys(names).items() if each == key), key)

    def resolved_roots(self, session_id: str) -> tuple[str, ...]:
        """Return the folders of a session, resolved."""
        return tuple(map(self.resolve_folder, self._given_roots(session_id)))

    def path_normalizer(self, session_id: str) -> Callable[[str], str]:
        """Return a function that makes paths absolute, with only the session's folders resolved."""
        roots = [os.path.normpath(root) for root in self._given_roots(session_id)]

        def normalize(path: str) -> str:
            full = os.path.normpath(os.path.join(roots[0] if roots else "/", path))
            for root in roots:
                if is_under(full, (root,)):
                    return os.path.normpath(os.path.join(self.resolve_folder(root), os.path.relpath(full, root)))
            return full

        return normalize

    def path_resolver(self, session_id: str) -> Callable[[str], str]:
        """Return a function that resolves paths, with links followed."""
        base = next(iter(self.resolved_roots(session_id)), "/")

        def resolve(path: str) -> str:
            try:
                return os.path.realpath(os.path.join(base, path))
            except (OSError, ValueError):
                return path

        return resolve

    def _given_roots(self, session_id: str) -> Sequence[str]:
        session = self.find_session(session_id)
        try:
            return session.roots if session is not None else self.find_roots(session_id)
        except ProtocolError:
            return ()  # an unknown session, for example of a subagent (docs/protocol/peers.md#subagent-questions)


# The scope of an answer to this question only.
NO_SCOPE = ""

# A note about a command that gets a pseudo-terminal.
INTERACTIVE_NOTE = "in a real terminal, where programs may start a pager or a prompt"


# Bytes shown of a file that is not text, and in one line.
_SHOWN_BYTES = 256
_ROW = 16


def _printable(byte: int) -> str:
    return chr(byte) if 0x20 <= byte < 0x7F else "."


class PermissionPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A question to the user: everything asked at once, the policy's reason, and the agent's options."""

    questions: tuple[Question, ...]
    decision: Decision = Decision(ASK, DecisionSource.MODE, "")
    options: tuple[PermissionOption, ...] = ()  # none for a use of the workspace
    tool_call: Any = None  # the merged tool call; None for a use of the workspace
    reason: str = ""  # given by the agent
    changes: tuple[ShownChange, ...] = ()  # of the tool call
    text: str | None = None  # the text to write
    data: bytes | None = None  # the bytes to write, if they are not text
    read_current: Callable[[], str | None] | None = None  # reads the file to write
    current_text: str | None = None  # of the file to write, read before the user is asked; None if there is none
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
    def new_text(self) -> str | None:
        """The text to write, also if it comes as bytes; None if there is none."""
        if self.text is not None or self.data is None or b"\0" in self.data:
            return self.text
        try:
            return self.data.decode("utf-8")
        except UnicodeDecodeError:
            return None

    @property
    def data_lines(self) -> list[str]:
        """The bytes to write: their size, their hash, and the first of them."""
        import hashlib

        data = self.data or b""
        rows = [data[start : start + _ROW] for start in range(0, min(len(data), _SHOWN_BYTES), _ROW)]
        return [
            f"{len(data)} bytes that are not text, SHA-256 {hashlib.sha256(data).hexdigest()}",
            *(f"{row.hex(' '):<{3 * _ROW}} {''.join(map(_printable, row))}" for row in rows),
            *([f"… {len(data) - _SHOWN_BYTES} more bytes"] if len(data) > _SHOWN_BYTES else ()),
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
    user: str = ""  # the member of a host who answered, for the audit log

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
            return PermissionChoice(verdict, scope, option.option_id, choice.lifetime, why, choice.user)
    return PermissionChoice(DENY, user=choice.user)


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
