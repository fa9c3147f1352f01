"""Grants: decisions of the user that are remembered, each for one thing and as far as its scope reaches.

A grant covers the operation on the resource it was given for, and nothing beside it: not another file, not another
command, not another tool (peers.md 41), and not the same command in another folder. Pure: ids and times are passed in;
where grants are kept is decided above.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dragoman.policy.decision import ALLOW, DENY, Decision, DecisionSource, Verdict
from dragoman.policy.question import Operation, Question
from dragoman.policy.shell_commands import runs_from_here


class Scope:
    """How far a decision reaches (seed 004 section 5.2.1)."""

    ONCE = "once"
    SESSION = "session"
    WORKSPACE = "workspace"
    ALWAYS = "always"


SCOPES: tuple[str, ...] = (Scope.ONCE, Scope.SESSION, Scope.WORKSPACE, Scope.ALWAYS)

# A grant for a session dies with whoever keeps the session; a crash leaves it behind, and this ends it. Seconds.
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
    env: tuple[str, ...] = ()  # names of variables that the server is started with
    cwd: str = ""  # the folder that the command starts in; "" is the session's own
    session: str = ""
    run: str = ""  # who keeps the session: agents give the same session ids again
    workspace: str = ""
    expires: float | None = None

    def covers(self, question: Question, now: float, run: str = "") -> bool:
        """Whether this decides a question."""
        return (
            self.operation == question.operation
            and self.agent == question.agent
            and self._is_same_target(question)
            and not self.is_expired(now)
            and self.env == question.env
            and self._same_folder(question)
            and _is_in_scope(self, question, run)
        )

    def _is_same_target(self, question: Question) -> bool:
        if self.operation == Operation.MCP_TOOL and self.server:
            return (self.server, self.tool) == (question.server, question.tool)
        if self.resource or question.resource:
            return self.resource == question.resource
        return (self.tool, self.title) == (question.tool, question.title)

    def _same_folder(self, question: Question) -> bool:
        is_command = self.operation == Operation.TERMINAL_EXECUTE
        return not is_command or question.folder == (self.cwd or question.workspace)

    def is_expired(self, now: float) -> bool:
        """Whether it has expired."""
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
    """The grant that remembers an answer; None where there is nothing to hold on to, or nothing to remember."""
    nothing_said = not (question.resource or question.tool or question.server or question.title)
    # The variables of a command can make it any other; those of a server are mostly its credentials.
    is_changed = bool(question.env) and question.operation != Operation.MCP_START
    if verdict not in (ALLOW, DENY) or scope not in SCOPES or nothing_said or is_changed:
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
        cwd=_bound(question, scope),
        session=question.session if is_of_session else "",
        run=run if is_of_session else "",
        workspace=question.workspace,
        expires=None if lifetime is None else now + lifetime,
    )


def _bound(question: Question, scope: str) -> str:
    """The folder that a grant for a command is bound to; none where that is the session's own, whichever that is.

    A program that is named by its place in the folder is another one in every folder, so "always" is for this one.
    """
    if question.operation != Operation.TERMINAL_EXECUTE:
        return ""
    is_own = question.folder == question.workspace
    is_anywhere = scope == Scope.ALWAYS and runs_from_here(question.resource)
    return "" if is_own and not is_anywhere else question.folder


def decide_by_grants(grants: Iterable[Grant], question: Question, now: float, run: str = "") -> Decision | None:
    """What the grants say to a question; a refusal is stronger than leave."""
    found: Grant | None = None
    for grant in grants:
        if grant.covers(question, now, run):
            found = grant
            if grant.verdict == DENY.label:
                break
    if found is None:
        return None
    verdict = ALLOW if found.verdict == ALLOW.label else DENY
    return Decision(verdict, DecisionSource.GRANT, f"grant {found.id} ({found.scope}) says {found.verdict}", found.id)
