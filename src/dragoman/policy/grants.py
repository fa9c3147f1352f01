"""Grants: remembered decisions of the user, each for one operation and one scope.

A grant covers the operation on its resource only: no other file, command or tool
(docs/protocol/peers.md#too-wide-always), and not the same command in another folder. Pure: the caller passes ids and
times, and stores the grants.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dragoman.policy.decision import ALLOW, DENY, Decision, DecisionSource, Verdict
from dragoman.policy.question import Operation, Question
from dragoman.policy.shell_commands import runs_from_here


class Scope:
    """How far a decision reaches (docs/protocol/draft.md#permission-scopes)."""

    ONCE = "once"
    SESSION = "session"
    WORKSPACE = "workspace"
    ALWAYS = "always"


SCOPES: tuple[str, ...] = (Scope.ONCE, Scope.SESSION, Scope.WORKSPACE, Scope.ALWAYS)

# Session grants are removed when the session closes. After a crash they stay behind, and this limit expires them.
# Seconds.
SESSION_GRANT_LIFETIME = 7 * 24 * 3600.0


class Grant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A remembered decision."""

    id: str
    verdict: str  # allow | deny
    scope: str
    operation: str
    created: float
    resource: str = ""
    agent: str = ""
    tool: str = ""
    server: str = ""
    title: str = ""
    env: tuple[str, ...] = ()  # names of the variables that the server is started with
    cwd: str = ""  # the folder that the command starts in; "" is the session's folder
    session: str = ""
    run: str = ""  # the process that runs the session, because agents reuse session ids
    workspace: str = ""
    expires: float | None = None

    def covers(self, question: Question, now: float, run: str = "") -> bool:
        """Return whether this grant decides a question."""
        return (
            self.operation == question.operation
            and self.agent == question.agent
            and self._is_same_target(question)
            and not self.is_expired(now)
            and self.env == question.env
            and self._is_same_folder(question)
            and _is_in_scope(self, question, run)
        )

    def _is_same_target(self, question: Question) -> bool:
        if self.operation == Operation.MCP_TOOL and self.server:
            return (self.server, self.tool) == (question.server, question.tool)
        if self.resource or question.resource:
            return self.resource == question.resource
        return (self.tool, self.title) == (question.tool, question.title)

    def _is_same_folder(self, question: Question) -> bool:
        is_command = self.operation == Operation.TERMINAL_EXECUTE
        return not is_command or question.folder == (self.cwd or question.workspace)

    def is_expired(self, now: float) -> bool:
        """Return whether the grant has expired."""
        return self.expires is not None and now >= self.expires


def _is_in_scope(grant: Grant, question: Question, run: str) -> bool:
    match grant.scope:
        case Scope.ALWAYS:
            return True
        case Scope.WORKSPACE:
            return bool(grant.workspace) and grant.workspace == question.workspace
        case Scope.SESSION | Scope.ONCE:
            return (grant.session, grant.run) == (question.session, run)
        case _:
            return False


def build_grant(
    question: Question,
    verdict: Verdict,
    scope: str,
    *,
    id: str,
    now: float,
    run: str = "",
    lifetime: float | None = None,
) -> Grant | None:
    """Return the grant that remembers an answer; None if there is nothing to remember or nothing to identify it by."""
    is_unidentified = not (question.resource or question.tool or question.server or question.title)
    # Variables can change what a command does; those of an MCP server are mostly its credentials.
    is_changed = bool(question.env) and question.operation != Operation.MCP_START
    if verdict not in (ALLOW, DENY) or scope not in SCOPES or is_unidentified or is_changed:
        return None
    if scope == Scope.WORKSPACE and not question.workspace:
        scope = Scope.SESSION
    is_of_session = scope in (Scope.SESSION, Scope.ONCE)
    if lifetime is None and is_of_session:
        lifetime = SESSION_GRANT_LIFETIME
    return Grant(
        id=id,
        verdict=verdict.label,
        scope=scope,
        operation=question.operation,
        created=now,
        resource=question.resource,
        agent=question.agent,
        tool=question.tool,
        server=question.server,
        title=question.title,
        env=question.env,
        cwd=_command_folder(question, scope),
        session=question.session if is_of_session else "",
        run=run if is_of_session else "",
        workspace=question.workspace,
        expires=None if lifetime is None else now + lifetime,
    )


def _command_folder(question: Question, scope: str) -> str:
    """Return the folder that a command grant is bound to; "" means the session's folder, whichever it is.

    A program given by a relative path is a different one in every folder, so "always" is bound to this folder.
    """
    if question.operation != Operation.TERMINAL_EXECUTE:
        return ""
    is_own = question.folder == question.workspace
    is_anywhere = scope == Scope.ALWAYS and runs_from_here(question.resource)
    return "" if is_own and not is_anywhere else question.folder


def decide_by_grants(grants: Iterable[Grant], question: Question, now: float, run: str = "") -> Decision | None:
    """Return what the grants say to a question; a denial wins over an allowance."""
    found: Grant | None = None
    for grant in grants:
        if grant.operation == question.operation and grant.covers(question, now, run):
            found = grant
            if grant.verdict == DENY.label:
                break
    if found is None:
        return None
    verdict = ALLOW if found.verdict == ALLOW.label else DENY
    return Decision(verdict, DecisionSource.GRANT, f"grant {found.id} ({found.scope}) says {found.verdict}", found.id)
