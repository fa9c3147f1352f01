"""Guard: answer an agent's permission requests and workspace uses by policy, and ask the user where policy says so."""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import msgspec

from dragoman.config.grants import GrantsFile
from dragoman.dialect.side_data import side_data_of
from dragoman.errors import ConfigFault, Kind, ProtocolError
from dragoman.ids import now
from dragoman.policy.decide import Policy, decide, decide_all
from dragoman.policy.decision import ASK, DENY, Decision, DecisionSource
from dragoman.policy.grants import Scope
from dragoman.policy.modes import find_mode
from dragoman.policy.permission_options import choose_option
from dragoman.policy.question import Operation, Question
from dragoman.policy.redaction import Redactor, environment_secrets, mcp_server_secrets, with_bearer_values
from dragoman.policy.shell_commands import behavior_variables, canonical_command
from dragoman.policy.toolcall_questions import questions_for_call
from dragoman.roles.client.permission import audit_writer as audits
from dragoman.roles.client.permission.questions import (
    AskUser,
    PermissionChoice,
    PermissionPrompt,
    SessionPaths,
    resolve_option,
)
from dragoman.roles.client.permission.run_grants import RunGrants
from dragoman.roles.client.permission.shown_changes import shown_changes
from dragoman.roles.client.workspace import WorkspaceAccess, WorkspaceUse
from dragoman.schema.permission import RequestPermissionParams
from dragoman.session.toolcall import merge_update
from dragoman.store.audit import AuditDamaged, AuditEntry, AuditEvent, AuditLog

if TYPE_CHECKING:
    from dragoman.config.paths import UserPaths
    from dragoman.engine.incoming import Handler
    from dragoman.roles.client.remote_agent import RemoteAgent
    from dragoman.roles.client.session import ClientSession
    from dragoman.roles.client.turn import ClientTurn
    from dragoman.schema.mcp import McpServer

# Long enough for a coffee, short enough for a forgotten terminal: then the answer is no. Seconds.
ANSWER_TIMEOUT = 600.0

NOBODY_TO_ASK = "there is nobody to ask"

# The decision for a question that was closed without an answer.
CANCELLED_DECISION = Decision(
    DENY, DecisionSource.CANCELLED, "the question was closed without an answer: the turn was cancelled"
)

# Sources of a refusal without the user: the agent is told the reason, so that it need not try again.
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

# The policy operation for each operation on the workspace.
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
    # All but a plain read must survive a power cut: a read changes nothing and is frequent.
    return decision.source != DecisionSource.MODE or any(
        each.operation != Operation.FILE_READ for each in prompt.questions
    )


class Guard:
    """Decides for one user what an agent may do, and audits it.

        guard = Guard.for_user(user_paths(), ask=callback)
        async with connect(command, permission=guard.request_permission, workspace=guard.workspace_access()) as agent:
            guard.set_agent(agent)

    Permission requests and uses of the workspace go through the same decision. `on_decision` gets every decision, for
    example to show refusals.
    """

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
        on_decision: Callable[[PermissionPrompt, Decision], None] = lambda prompt, decision: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.redaction = Redactor(secrets)
        self.protected = protected
        self._policy = policy if callable(policy) else lambda _: policy
        # A command with a secret is not stored.
        self._grants = RunGrants(grants, clock, lambda resource: self.redaction.redact_text(resource) == resource)
        self._audit_writer = audits.AuditWriter(audit, self.redaction, self._log_id)
        self._ask_user = ask
        self._mode = None if mode is None else find_mode(mode).name
        # By session, not by its id: a session that the agent lost gets a new id.
        self._modes: WeakKeyDictionary[ClientSession, str] = WeakKeyDictionary()
        self._paths = SessionPaths(agent)
        self._answer_timeout = answer_timeout
        self._on_decision = on_decision
        self._clock = clock
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
        """Create a guard with the policy, grants and audit log of this user; the environment's secrets are redacted.

        `policy` is a file to use instead of the user's own, `grants` replaces the user's. Raises ConfigFault at once if
        a policy file (also of a project in `roots`), the grants or the audit log cannot be used.
        """
        from dragoman.config.policy_files import PolicyLoader

        policies, audit = PolicyLoader(paths, user_file=policy), AuditLog(paths.audit)
        grants = grants or GrantsFile(paths.grants)
        policies.load(tuple(map(os.path.realpath, roots)))
        grants.current()
        try:
            audit.check()
        except (OSError, AuditDamaged) as error:
            advice = "set XDG_STATE_HOME to a folder that can be written"
            raise ConfigFault([f"the audit log cannot be used, so nothing is allowed: {error}; {advice}"]) from None
        return cls(
            policies,
            grants=grants,
            audit=audit,
            secrets=environment_secrets(environ),
            protected=policies.protected_paths,
            **options,
        )

    # --- setup ------------------------------------------------------------------------------------------------

    def set_agent(self, agent: RemoteAgent, fallback_name: str = "") -> None:
        """Guard this agent and its sessions. Without a name of its own, the agent is called `fallback_name`.

        Credentials that the agent gets from now on are redacted.
        """
        agent.on_secrets = self.add_secrets
        self._paths.set_agent(agent, fallback_name)

    def workspace_access(
        self,
        *,
        route: Callable[[str, Handler], Handler] = lambda method, handler: handler,
        check_folder: Callable[[str], str] = os.path.realpath,
        real_folder: Callable[[str], str] = os.path.realpath,
        **options: Any,
    ) -> WorkspaceAccess:
        """Create a WorkspaceAccess whose uses are approved and audited by this guard; it takes the same options.

        `route` may send calls elsewhere. A folder of a session is resolved by `real_folder` for the policy, and by
        `check_folder`, which may raise if it changed, for each use.
        """
        access = WorkspaceAccess(approve=self.approve, protected=self.protected, **options)
        access.wrap_handler = lambda method, handler: route(method, audits.with_audit(method, handler, self._audit_use))
        access.policy_roots = self._policy_roots
        access.resolve_folder = check_folder
        self._paths.find_roots = lambda session_id: access.session_roots(session_id)
        self._paths.resolve_folder = real_folder
        return access

    def _policy_roots(self, session_id: str) -> tuple[str, ...]:
        """Return the folders that policy adds to every session; none while the policy cannot be read."""
        try:
            return self._policy(self._paths.resolved_roots(session_id)).roots
        except ConfigFault:
            return ()

    def add_secrets(self, values: Iterable[str]) -> None:
        """Redact these values in the audit log, the grants and prompts, for example an agent's credentials."""
        self.redaction.add_values(with_bearer_values(values))

    def mode(self, session_id: str = "") -> str:
        """Return the policy mode of a session."""
        session = self._paths.find_session(session_id)
        mode = self._mode if session is None else self._modes.get(session, self._mode)
        return mode or self._policy(self._paths.resolved_roots(session_id)).mode

    async def switch_mode(self, session: ClientSession, mode: str) -> None:
        """Change the policy mode of a session, and the agent's mode if it has one of the same name."""
        before = self.mode(session.id)
        self._modes[session] = find_mode(mode).name
        change = AuditEntry(
            who="user", what=AuditEvent.MODE, time=now(), session=session.id, mode=mode, detail={"before": before}
        )
        try:
            await self._audit_writer.write(change)
        except OSError as error:
            raise ConfigFault([f"the change of mode cannot be written to the audit log: {error}"]) from None
        if session.offers_mode(mode) and session.mode != mode:
            await session.set_mode(mode)

    def _log_id(self, session_id: str) -> str:
        session = self._paths.find_session(session_id)
        return (session.log_id if session is not None else None) or session_id

    async def close(self) -> None:
        """Stop guarding and forget the grants for sessions."""
        await self._audit_writer.flush()
        await self._grants.forget()

    # --- questions --------------------------------------------------------------------------------------------

    async def request_permission(self, params: RequestPermissionParams) -> str | None:
        """Answer session/request_permission: return the id of an offered option, or None for cancelled."""
        session = self._paths.find_session(params.session_id)
        call = session.tool_calls.get(params.tool_call.tool_call_id) if session is not None else None
        call = call or merge_update(None, params.tool_call)
        side = side_data_of(params.tool_call)
        paths = self._paths
        resolve = paths.path_resolver(params.session_id)
        questions = questions_for_call(call, side, resolve, paths.path_normalizer(params.session_id))
        mode = self.mode(params.session_id)
        reason = side.get("reason")
        prompt = PermissionPrompt(
            questions=tuple(paths.with_context(question, params.session_id, mode) for question in questions),
            options=tuple(params.options),
            tool_call=call,
            reason=reason if isinstance(reason, str) else "",
            changes=shown_changes(call, resolve),
        )
        decision, choice = await self._decide(prompt, session)
        if choice is not None and choice.option_id is not None:
            return choice.option_id
        if decision.source == DecisionSource.CANCELLED:
            return None
        return choose_option(params.options, decision.verdict, choice.scope if choice else Scope.ONCE)

    async def approve(self, use: WorkspaceUse) -> bool:
        """Decide about a use of the workspace. Raise with the reason if it is refused without the user."""
        operation = USE_OPERATIONS.get(use.operation, Operation.OTHER)
        is_command = operation == Operation.TERMINAL_EXECUTE
        resource = canonical_command(use.resource) if is_command else use.resource
        path = self._paths.path_normalizer(use.session_id)(use.requested_path) if use.requested_path else ""
        question = Question(
            operation=operation,
            resource=resource,
            requested_path=path if path != resource else "",
            requested_line=use.resource if is_command and use.resource != resource else "",
            cwd=use.cwd,
            env=behavior_variables(use.env),
        )
        question = self._paths.with_context(question, use.session_id, self.mode(use.session_id))
        prompt = PermissionPrompt(
            questions=(question,),
            text=use.text,
            data=use.data,
            read_current=use.read_current,
            env=use.env,
            interactive=use.interactive,
        )
        decision, _ = await self._decide(prompt, self._paths.find_session(use.session_id), is_use=True)
        if not decision.allows and decision.source in REFUSED_WITHOUT_USER:
            why = self.redaction.redact_text(decision.reason)
            raise ProtocolError(Kind.PERMISSION_DENIED, f"not allowed to {use.operation} {use.resource}: {why}")
        return decision.allows

    async def allowed_servers(self, servers: Iterable[McpServer], cwd: str = ".") -> list[McpServer]:
        """Return the MCP servers that may be started or reached, and redact their credentials from now on."""
        servers = list(servers)
        self.redaction.add_values(mcp_server_secrets(servers))
        allowed = []
        for server in servers:
            resource = shlex.join([server.command, *(server.args or ())]) if server.command else server.url or ""
            env = {pair.name: pair.value for pair in server.env or ()}
            question = Question(
                operation=Operation.MCP_START,
                resource=resource,
                server=server.name,
                url=server.url or "",
                env=behavior_variables(env),
                agent=self._paths.agent_name,
                roots=(os.path.realpath(cwd),),
                mode=self.mode(),
            )
            visible_env = {name: self.redaction.redact_text(value) for name, value in env.items()}
            prompt = PermissionPrompt(questions=(question,), env=visible_env)
            decision, _ = await self._decide(prompt, None)
            if decision.allows:
                allowed.append(server)
        return allowed

    async def _audit_use(self, method: str, params: Any, error: BaseException | None, result: Any = None) -> None:
        """Write a use of the workspace, or its failure, to the audit log."""
        with suppress(OSError):  # the use is done; the next decision finds that the log cannot be written
            await self._audit_writer.write(
                *audits.use_entries(self._paths.agent_name, method, params, error, result), durable=False
            )

    # --- deciding ---------------------------------------------------------------------------------------------

    async def _decide(
        self, prompt: PermissionPrompt, session: ClientSession | None, *, is_use: bool = False
    ) -> tuple[Decision, PermissionChoice | None]:
        """Return the decision and, if the user was asked, the choice. Both are audited before they take effect."""
        decision: Decision | None = None
        choice: PermissionChoice | None = None
        try:
            decision, choice = await self._decide_or_ask(prompt, session, is_use)
            await self._audit_writer.write(
                *audits.decision_entries(AuditEvent.DECIDED, prompt, decision, choice),
                durable=_must_be_durable(prompt, decision),
            )
        except asyncio.CancelledError:
            if decision is None:  # otherwise it is already being written
                with suppress(OSError):
                    await self._audit_writer.write(
                        *audits.decision_entries(AuditEvent.DECIDED, prompt, CANCELLED_DECISION, None)
                    )
            raise
        except (OSError, ConfigFault) as error:  # of the audit log, or of the grants
            decision, choice = (
                Decision(DENY, DecisionSource.FAULT, f"the decision cannot be written to the audit log: {error}"),
                None,
            )
        self._on_decision(prompt, decision)
        return decision, choice

    async def _decide_or_ask(
        self, prompt: PermissionPrompt, session: ClientSession | None, is_use: bool
    ) -> tuple[Decision, PermissionChoice | None]:
        turn = session.turn if session is not None else None
        decision = await self._policy_decision(prompt, turn if is_use else None)
        if decision.verdict is not ASK:
            return decision, None
        async with self._question_locks.setdefault(prompt.questions[0].session, asyncio.Lock()):
            if turn is not None and turn.cancelled:
                return CANCELLED_DECISION, None
            # The answer to the question before may cover this one too.
            decision = await self._policy_decision(prompt, turn if is_use else None)
            if decision.verdict is not ASK:
                return decision, None
            return await self._ask_and_remember(msgspec.structs.replace(prompt, decision=decision), session, is_use)

    async def _policy_decision(self, prompt: PermissionPrompt, turn: ClientTurn | None) -> Decision:
        """Return the decision by policy and grants; in a turn, the answer to a tool call covers its use."""
        questions = prompt.questions
        try:
            policy = self._policy(questions[0].roots)
            grants = self._grants.current()
        except ConfigFault as fault:
            return Decision(DENY, DecisionSource.FAULT, str(fault))
        decision = decide_all(policy, questions, grants, now=self._clock(), run=self._grants.run_id)
        if turn is not None and decision.verdict is ASK:
            return await self._grants.take_for_one_use(prompt, turn) or decision
        return decision

    async def _ask_and_remember(
        self, prompt: PermissionPrompt, session: ClientSession | None, is_use: bool
    ) -> tuple[Decision, PermissionChoice | None]:
        if self._ask_user is None:
            return Decision(DENY, DecisionSource.NOBODY, f"{prompt.decision.reason}; {NOBODY_TO_ASK}"), None
        await self._audit_writer.write(
            *audits.decision_entries(AuditEvent.ASKED, prompt, prompt.decision, None), durable=False
        )
        if prompt.read_current is not None and self._may_show_current(prompt.questions[0]):
            prompt = msgspec.structs.replace(prompt, current_text=await asyncio.to_thread(prompt.read_current))
        try:
            answer = self._ask_with_timeout(prompt)
            # The client itself cancels the answer to a tool call's question.
            choice = await (session._unless_cancelled(answer) if is_use and session is not None else answer)
        except TimeoutError:
            return Decision(
                DENY, DecisionSource.TIMEOUT, f"nobody answered within {self._answer_timeout:g} seconds"
            ), None
        if choice is None:
            return CANCELLED_DECISION, None
        choice = resolve_option(prompt.options, choice)
        # Where a rule or a mode decides, an answer changes nothing.
        open_questions = [each for each in prompt.questions if decide(self._policy(each.roots), each).verdict is ASK]
        turn = None if is_use or session is None else session.turn
        stored = await self._grants.add(open_questions, choice, turn, prompt.changes)
        await self._audit_writer.write(*(audits.grant_entry(grant) for grant in stored), durable=False)
        return Decision(choice.verdict, DecisionSource.USER, choice.reason), choice

    def _may_show_current(self, question: Question) -> bool:
        """Return whether the text of a file to write may be shown: not if reading it is denied."""
        reading = msgspec.structs.replace(question, operation=Operation.FILE_READ)
        return decide(self._policy(question.roots), reading).verdict is not DENY

    async def _ask_with_timeout(self, prompt: PermissionPrompt) -> Any:
        assert self._ask_user is not None
        async with asyncio.timeout(self._answer_timeout):
            answer = self._ask_user(prompt)
            return await answer if isinstance(answer, Awaitable) else answer
