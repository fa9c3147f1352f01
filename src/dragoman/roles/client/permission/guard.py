"""The guard at a client's door: answers every question of an agent by policy, asks the user where policy says so.

Both kinds of questions go through the same pure decision: session/request_permission (`guard.ask`), and each use of
what is lent (`guard.approve`). All of it is audited. Above are people's clients; below are policy, grants and audit.

    guard = Guard.of_user(places(), ask=callback)
    async with connect(command, permission=guard.ask, lend=guard.lend()) as agent:
        guard.attend(agent)
"""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from weakref import WeakKeyDictionary

import msgspec

from dragoman.config.grants import GrantsFile
from dragoman.dialect.side_data import side_data_of
from dragoman.errors import ConfigFault, Kind, ProtocolError
from dragoman.policy.decide import Policy, decide, decide_all
from dragoman.policy.decision import ALLOW, ASK, DENY, Decision, DecisionSource
from dragoman.policy.grants import Grant, Scope, build_grant
from dragoman.policy.modes import find_mode as mode_of
from dragoman.policy.permission_options import choose_option
from dragoman.policy.question import Operation, Question
from dragoman.policy.redaction import Redactor, environment_secrets, mcp_server_secrets, with_bearer_values
from dragoman.policy.shell_commands import canonical_command, steering
from dragoman.policy.toolcall_questions import questions_for_call
from dragoman.roles.client.permission.audit_writer import AuditWriter, decision_entries, grant_entry, now, use_entries
from dragoman.roles.client.permission.prompt import AskUser, PermissionChoice, PermissionPrompt, resolve_option
from dragoman.roles.client.permission.session_paths import SessionPaths
from dragoman.schema.permission import RequestPermissionParams
from dragoman.session.toolcall import merge_update
from dragoman.store.audit import AuditDamaged, AuditEntry, AuditEvent, AuditLog

if TYPE_CHECKING:
    from dragoman.config.paths import UserPaths
    from dragoman.roles.client.permission.guarded import GuardedWorkspaceAccess
    from dragoman.roles.client.remote_agent import RemoteAgent
    from dragoman.roles.client.session import ClientSession
    from dragoman.roles.client.turn import ClientTurn
    from dragoman.roles.client.workspace import WorkspaceUse as Use
    from dragoman.schema.mcp import McpServer

# Longer than a coffee, shorter than a forgotten terminal: then the answer is no. Seconds.
ANSWER_TIMEOUT = 600.0

NOBODY_TO_ASK = "there is nobody to ask"

# An open question that ended without an answer.
CANCELLED_DECISION = Decision(
    DENY, DecisionSource.CANCELLED, "the question was closed without an answer: the turn was cancelled"
)

# Who refuses without the user: the agent is told why, so that it need not try again.
REFUSED_WITHOUT_USER = frozenset(
    {
        DecisionSource.RULE,
        DecisionSource.MODE,
        DecisionSource.AGENT_MODE,
        DecisionSource.BOUNDARY,
        DecisionSource.NOBODY,
        DecisionSource.TIMEOUT,
        DecisionSource.FAULT,
    }
)

# What is done with something lent -> the operation it is.
USE_OPERATIONS: dict[str, str] = {
    "read": Operation.FILE_READ,
    "list": Operation.FILE_READ,
    "watch": Operation.FILE_READ,
    "write": Operation.FILE_WRITE,
    "create": Operation.FILE_WRITE,
    "delete": Operation.FILE_DELETE,
    "execute": Operation.TERMINAL_EXECUTE,
}


def _must_be_durable(prompt: PermissionPrompt, decision: Decision) -> bool:
    """Whether a decision must outlive a power cut: all but a plain read, which changes nothing and is done often."""
    return decision.source != DecisionSource.MODE or any(
        each.operation != Operation.FILE_READ for each in prompt.questions
    )


def _ignore_decision(prompt: PermissionPrompt, decision: Decision) -> None:
    """Nobody wants to hear what is decided."""


class Guard:
    """Decides for one user what an agent may do; `told` hears every decision, so that people can be shown refusals."""

    def __init__(
        self,
        policy: Policy | Callable[[tuple[str, ...]], Policy] = Policy(),  # noqa: B008  (immutable)
        *,
        grants: GrantsFile | None = None,
        audit: AuditLog | None = None,
        ask: AskUser | None = None,
        mode: str | None = None,
        agent: str = "",
        answer_timeout: float = ANSWER_TIMEOUT,
        secrets: Iterable[str] = (),
        protected: Callable[[list[str]], list[str]] = lambda _: [],
        on_decision: Callable[[PermissionPrompt, Decision], None] = _ignore_decision,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.run_id = uuid4().hex
        self.redaction = Redactor(secrets)
        self.protected = protected
        self._policy = policy if callable(policy) else lambda _: policy
        self._grants = grants
        self._audit_writer = AuditWriter(audit, self.redaction)
        self._ask_user = ask
        self._mode = None if mode is None else mode_of(mode).name
        # By session, not by its id: a session that the agent forgot goes on under another.
        self._modes: WeakKeyDictionary[ClientSession, str] = WeakKeyDictionary()
        self._session_paths = SessionPaths(agent)
        self._answer_timeout = answer_timeout
        self._on_decision = on_decision
        self._clock = clock
        self._unstored_grants: list[Grant] = []  # what is remembered and not stored
        self._once_grants: list[tuple[Grant, ClientTurn]] = []  # answers that cover one use, each with its turn
        self._question_locks: dict[str, asyncio.Lock] = {}

    @classmethod
    def for_user(
        cls,
        paths: UserPaths,
        *,
        environ: Mapping[str, str] = os.environ,
        policy: str | None = None,
        grants: GrantsFile | None = None,
        roots: Sequence[str] = (),
        **options: Any,
    ) -> Guard:
        """A guard by the policy, grants and audit of this user, whose secrets are those of the environment.

        `policy` is another file in place of the user's own, `grants` others than the user's. What would make every
        answer a no is told at once: raises ConfigFault for a policy file (also of a project in `roots`), grants or an
        audit that cannot be used.
        """
        from dragoman.config.policy_files import PolicyLoader

        policies, audit = PolicyLoader(paths, user_file=policy), AuditLog(paths.audit)
        grants = grants or GrantsFile(paths.grants)
        policies.load(tuple(map(os.path.realpath, roots)))
        grants.current()
        try:
            audit.check()
        except (OSError, AuditDamaged) as error:
            raise ConfigFault([f"what agents do cannot be written down, so nothing is allowed: {error}"]) from None
        return cls(
            policies,
            grants=grants,
            audit=audit,
            secrets=environment_secrets(environ),
            protected=policies.protected_paths,
            **options,
        )

    # --- who it guards ----------------------------------------------------------------------------------------

    def set_agent(self, agent: RemoteAgent, fallback_name: str = "") -> None:
        """Know this agent by its name (`otherwise` by another), and its sessions: folders, modes, tool calls, turns.

        The credentials that it is given from now on are kept secret.
        """
        agent.on_secrets = self.add_secrets
        self._session_paths.set_agent(agent, fallback_name)

    def workspace_access(self, **options: Any) -> GuardedWorkspaceAccess:
        """A Lending under this guard: each use approved and audited, what is ours never written."""
        from dragoman.roles.client.permission.guarded import GuardedWorkspaceAccess

        return GuardedWorkspaceAccess(self, **options)

    def extra_roots(self, session_id: str) -> tuple[str, ...]:
        """Folders that policy lends every session besides its own; none while policy cannot be read."""
        try:
            return self._policy(self._session_paths.resolved_roots(session_id)).roots
        except ConfigFault:
            return ()

    def set_roots(
        self, find_roots: Callable[[str], Sequence[str]], resolve_folder: Callable[[str], str] = os.path.realpath
    ) -> None:
        """How the folders of a session are found, and where each of them really is."""
        self._session_paths.find_roots = find_roots
        self._session_paths.resolve_folder = resolve_folder

    def add_secrets(self, values: Iterable[str]) -> None:
        """Values that never reach the audit, the grants or what is shown: credentials that an agent is given, say."""
        self.redaction.add_values(with_bearer_values(values))

    def mode(self, session_id: str = "") -> str:
        """The policy mode of a session."""
        session = self._session_paths.find_session(session_id)
        chosen = self._mode if session is None else self._modes.get(session, self._mode)
        return chosen or self._policy(self._session_paths.resolved_roots(session_id)).mode

    async def switch_mode(self, session: ClientSession, mode: str) -> None:
        """The user wants this session in another mode: ours at once, and the agent's where it has one of that name."""
        before = self.mode(session.id)
        self._modes[session] = mode_of(mode).name
        change = AuditEntry(
            who="user", what=AuditEvent.MODE, time=now(), session=session.id, mode=mode, detail={"before": before}
        )
        try:
            await self._audit_writer.write(change)
        except OSError as error:
            raise ConfigFault([f"the change of mode cannot be written down: {error}"]) from None
        if session.offers_mode(mode) and session.mode != mode:
            await session.set_mode(mode)

    async def close(self) -> None:
        """Nothing is guarded any more: what was granted for sessions is forgotten."""
        await self._audit_writer.flush()
        if self._grants is not None:
            with suppress(ConfigFault):  # they are of this run alone, and expire
                await asyncio.to_thread(self._grants.forget_run, self.run_id)
        self._unstored_grants.clear()
        self._once_grants.clear()

    # --- the questions ----------------------------------------------------------------------------------------

    async def request_permission(self, params: RequestPermissionParams) -> str | None:
        """session/request_permission: the id of one of the offered options, None for cancelled."""
        session = self._session_paths.find_session(params.session_id)
        call = session.tool_calls.get(params.tool_call.tool_call_id) if session is not None else None
        call = call or merge_update(None, params.tool_call)
        beside = side_data_of(params.tool_call)
        at = self._session_paths
        found = questions_for_call(
            call, beside, at.path_resolver(params.session_id), at.path_normalizer(params.session_id)
        )
        wanted = [at.with_context(question, params.session_id, self.mode(params.session_id)) for question in found]
        reason = beside.get("reason")
        asked = PermissionPrompt(
            questions=tuple(wanted),
            decision=Decision(ASK, DecisionSource.MODE, ""),
            options=tuple(params.options),
            tool_call=call,
            reason=reason if isinstance(reason, str) else "",
        )
        decision, choice = await self._decide(asked, session)
        if choice is not None and choice.option_id is not None:
            return choice.option_id
        if decision.source == DecisionSource.CANCELLED:
            return None
        return choose_option(params.options, decision.verdict, choice.scope if choice else Scope.ONCE)

    async def approve(self, use: Use) -> bool:
        """The use of a file or a terminal that is lent; what is refused without the user is told with its reason."""
        operation = USE_OPERATIONS.get(use.operation, Operation.OTHER)
        resource = canonical_command(use.resource) if operation == Operation.TERMINAL_EXECUTE else use.resource
        named = self._session_paths.path_normalizer(use.session_id)(use.requested_path) if use.requested_path else ""
        question = Question(
            operation=operation,
            resource=resource,
            requested_path=named if named != resource else "",
            cwd=use.cwd,
            env=steering(use.env),
        )
        placed = self._session_paths.with_context(question, use.session_id, self.mode(use.session_id))
        asked = PermissionPrompt(
            questions=(placed,),
            decision=Decision(ASK, DecisionSource.MODE, ""),
            text=use.text,
            env=use.env,
            interactive=use.interactive,
        )
        decision, _ = await self._decide(asked, self._session_paths.find_session(use.session_id), is_use=True)
        if not decision.allows and decision.source in REFUSED_WITHOUT_USER:
            why = self.redaction.redact_text(decision.reason)
            raise ProtocolError(Kind.PERMISSION_DENIED, f"not allowed to {use.operation} {use.resource}: {why}")
        return decision.allows

    async def allowed_servers(self, servers: Iterable[McpServer], cwd: str = ".") -> list[McpServer]:
        """Those of the MCP servers that may be started or reached; their credentials are secrets from now on."""
        given = list(servers)
        self.redaction.add_values(mcp_server_secrets(given))
        allowed = []
        for server in given:
            words = shlex.join([server.command, *(server.args or ())]) if server.command else server.url or ""
            env = {pair.name: pair.value for pair in server.env or ()}
            question = Question(
                operation=Operation.MCP_START,
                resource=words,
                server=server.name,
                url=server.url or "",
                env=steering(env),
                agent=self._session_paths.agent_name,
                roots=(os.path.realpath(cwd),),
                mode=self.mode(),
            )
            shown = {name: self.redaction.redact_text(value) for name, value in env.items()}
            asked = PermissionPrompt(questions=(question,), decision=Decision(ASK, DecisionSource.MODE, ""), env=shown)
            decision, _ = await self._decide(asked, None)
            if decision.allows:
                allowed.append(server)
        return allowed

    async def audit_use(self, method: str, params: Any, error: BaseException | None, result: Any = None) -> None:
        """What was lent was used, or failed: for the audit."""
        with suppress(OSError):  # it is done; the next decision finds that the log cannot be written
            await self._audit_writer.write(
                *use_entries(self._session_paths.agent_name, method, params, error, result), durable=False
            )

    # --- deciding ---------------------------------------------------------------------------------------------

    async def _decide(
        self, prompt: PermissionPrompt, session: ClientSession | None, *, is_use: bool = False
    ) -> tuple[Decision, PermissionChoice | None]:
        """The decision and, where the user was asked, the answer; both are in the audit before they take effect."""
        decision: Decision | None = None
        choice: PermissionChoice | None = None
        try:
            decision, choice = await self._decide_or_ask(prompt, session, is_use)
            await self._audit_writer.write(
                *decision_entries(AuditEvent.DECIDED, prompt, decision, choice),
                durable=_must_be_durable(prompt, decision),
            )
        except asyncio.CancelledError:
            if decision is None:  # else it is being written already
                with suppress(OSError):
                    await self._audit_writer.write(
                        *decision_entries(AuditEvent.DECIDED, prompt, CANCELLED_DECISION, None)
                    )
            raise
        except (OSError, ConfigFault) as error:  # of the audit log, or of the grants
            decision, choice = (
                Decision(DENY, DecisionSource.FAULT, f"what is decided cannot be written down: {error}"),
                None,
            )
        self._on_decision(prompt, decision)
        return decision, choice

    async def _decide_or_ask(
        self, prompt: PermissionPrompt, session: ClientSession | None, is_use: bool
    ) -> tuple[Decision, PermissionChoice | None]:
        turn = session.turn if session is not None else None
        decision = self._policy_decision(prompt.questions, turn if is_use else None)
        if decision.verdict is not ASK:
            return decision, None
        async with self._question_locks.setdefault(prompt.questions[0].session, asyncio.Lock()):
            if turn is not None and turn.cancelled:
                return CANCELLED_DECISION, None
            # Whoever waited here may find that the answer to the question before covers this one too.
            decision = self._policy_decision(prompt.questions, turn if is_use else None)
            if decision.verdict is not ASK:
                return decision, None
            return await self._ask_and_remember(msgspec.structs.replace(prompt, decision=decision), session, is_use)

    def _policy_decision(self, wanted: Sequence[Question], turn: ClientTurn | None) -> Decision:
        """What policy says; in a turn, an answer to the tool call covers the use that it was about."""
        try:
            policy = self._policy(wanted[0].roots)
            grants = [*(self._grants.current() if self._grants is not None else ()), *self._unstored_grants]
        except ConfigFault as fault:
            return Decision(DENY, DecisionSource.FAULT, str(fault))
        decision = decide_all(policy, wanted, grants, now=self._clock(), run=self.run_id)
        if turn is not None and decision.verdict is ASK:
            return self._take_once_grant(wanted[0], turn) or decision
        return decision

    def _take_once_grant(self, question: Question, turn: ClientTurn) -> Decision | None:
        """One answer covers the first use that matches, in the same turn and while it lasts."""
        self._once_grants = [(grant, of_turn) for grant, of_turn in self._once_grants if not of_turn.is_over]
        for index, (grant, of_turn) in enumerate(self._once_grants):
            if of_turn is turn and grant.covers(question, self._clock(), self.run_id):
                del self._once_grants[index]
                verdict = ALLOW if grant.verdict == ALLOW.label else DENY
                return Decision(verdict, DecisionSource.USER, f"the user said {grant.verdict} to the tool call")
        return None

    async def _ask_and_remember(
        self, prompt: PermissionPrompt, session: ClientSession | None, is_use: bool
    ) -> tuple[Decision, PermissionChoice | None]:
        if self._ask_user is None:
            return Decision(DENY, DecisionSource.NOBODY, f"{prompt.decision.reason}; {NOBODY_TO_ASK}"), None
        await self._audit_writer.write(
            *decision_entries(AuditEvent.ASKED, prompt, prompt.decision, None), durable=False
        )
        try:
            answer = self._ask_with_timeout(prompt)
            # The answers to a tool call's question are watched over by the client itself.
            choice = await (session.unless_cancelled(answer) if is_use and session is not None else answer)
        except TimeoutError:
            return Decision(
                DENY, DecisionSource.TIMEOUT, f"nobody answered within {self._answer_timeout:g} seconds"
            ), None
        if choice is None:
            return CANCELLED_DECISION, None
        choice = resolve_option(prompt.options, choice)
        await self._remember_choice(prompt.questions, choice, session, is_use)
        return Decision(choice.verdict, DecisionSource.USER, choice.reason), choice

    async def _ask_with_timeout(self, prompt: PermissionPrompt) -> Any:
        assert self._ask_user is not None
        async with asyncio.timeout(self._answer_timeout):
            answer = self._ask_user(prompt)
            return await answer if isinstance(answer, Awaitable) else answer

    async def _remember_choice(
        self, wanted: Sequence[Question], choice: PermissionChoice, session: ClientSession | None, is_use: bool
    ) -> None:
        stored = []
        for question in wanted:
            grant = build_grant(
                question,
                choice.verdict,
                choice.scope,
                id=uuid4().hex[:8],
                now=self._clock(),
                run=self.run_id,
                lifetime=choice.lifetime,
            )
            if grant is None or decide(self._policy(question.roots), question).verdict is not ASK:
                continue
            if grant.scope == Scope.ONCE:
                if not is_use and session is not None and session.turn is not None:
                    self._once_grants.append((grant, session.turn))
            elif self._grants is None or self.redaction.redact_text(grant.resource) != grant.resource:
                self._unstored_grants.append(grant)  # a command with a secret in it is not written down
            else:
                stored.append(grant)
        if self._grants is not None and stored:
            await asyncio.to_thread(self._grants.add, stored, now=self._clock())
            await self._audit_writer.write(*(grant_entry(grant) for grant in stored), durable=False)
