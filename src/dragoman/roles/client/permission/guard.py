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

from dragoman.config.grants import Grants
from dragoman.dialect.side_data import side
from dragoman.errors import ConfigFault, Kind, ProtocolError
from dragoman.policy.decide import Policy, decide, decide_all
from dragoman.policy.decision import ALLOW, ASK, DENY, Decision, Source
from dragoman.policy.grants import Grant, Scope, granted
from dragoman.policy.modes import mode as mode_of
from dragoman.policy.permission_options import choose
from dragoman.policy.question import Operation, Question
from dragoman.policy.redaction import Redaction, from_environment, from_servers, with_bare
from dragoman.policy.shell_commands import canonical, steering
from dragoman.policy.toolcall_questions import questions
from dragoman.roles.client.permission.audit_writer import Journal, entries, now, of_grant, of_use
from dragoman.roles.client.permission.prompt import Asked, AskUser, Choice, understood
from dragoman.roles.client.permission.session_paths import Premises
from dragoman.schema.permission import RequestPermissionParams
from dragoman.session.toolcall import merge
from dragoman.store.audit import Audit, Damaged, Entry, What

if TYPE_CHECKING:
    from dragoman.config.paths import Places
    from dragoman.roles.client.permission.guarded import GuardedLending
    from dragoman.roles.client.remote_agent import RemoteAgent
    from dragoman.roles.client.session import Conversation
    from dragoman.roles.client.turn import ClientTurn
    from dragoman.roles.client.workspace import Question as Use
    from dragoman.schema.mcp import McpServer

# Longer than a coffee, shorter than a forgotten terminal: then the answer is no. Seconds.
PATIENCE = 600.0

NOBODY = "there is nobody to ask"

# An open question that ended without an answer.
CLOSED = Decision(DENY, Source.CANCELLED, "the question was closed without an answer: the turn was cancelled")

# Who refuses without the user: the agent is told why, so that it need not try again.
UNASKED = frozenset(
    {Source.RULE, Source.MODE, Source.AGENT_MODE, Source.BOUNDARY, Source.NOBODY, Source.TIMEOUT, Source.FAULT}
)

# What is done with something lent -> the operation it is.
USES: dict[str, str] = {
    "read": Operation.FILE_READ,
    "list": Operation.FILE_READ,
    "watch": Operation.FILE_READ,
    "write": Operation.FILE_WRITE,
    "create": Operation.FILE_WRITE,
    "delete": Operation.FILE_DELETE,
    "execute": Operation.TERMINAL_EXECUTE,
}


def _weighs(asked: Asked, decision: Decision) -> bool:
    """Whether a decision must outlive a power cut: all but a plain read, which changes nothing and is done often."""
    return decision.source != Source.MODE or any(each.operation != Operation.FILE_READ for each in asked.questions)


def _untold(asked: Asked, decision: Decision) -> None:
    """Nobody wants to hear what is decided."""


class Guard:
    """Decides for one user what an agent may do; `told` hears every decision, so that people can be shown refusals."""

    def __init__(
        self,
        policy: Policy | Callable[[tuple[str, ...]], Policy] = Policy(),  # noqa: B008  (immutable)
        *,
        grants: Grants | None = None,
        audit: Audit | None = None,
        ask: AskUser | None = None,
        mode: str | None = None,
        agent: str = "",
        patience: float = PATIENCE,
        secrets: Iterable[str] = (),
        protected: Callable[[list[str]], list[str]] = lambda _: [],
        told: Callable[[Asked, Decision], None] = _untold,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.run = uuid4().hex
        self.redaction = Redaction(secrets)
        self.protected = protected
        self._policy = policy if callable(policy) else lambda _: policy
        self._grants = grants
        self._journal = Journal(audit, self.redaction)
        self._ask_user = ask
        self._mode = None if mode is None else mode_of(mode).name
        # By session, not by its id: a session that the agent forgot goes on under another.
        self._modes: WeakKeyDictionary[Conversation, str] = WeakKeyDictionary()
        self._premises = Premises(agent)
        self._patience = patience
        self._told = told
        self._clock = clock
        self._kept: list[Grant] = []  # what is remembered and not stored
        self._once: list[tuple[Grant, ClientTurn]] = []  # answers that cover one use, each with its turn
        self._one_at_a_time: dict[str, asyncio.Lock] = {}

    @classmethod
    def of_user(
        cls,
        places: Places,
        *,
        environ: Mapping[str, str] = os.environ,
        policy: str | None = None,
        grants: Grants | None = None,
        roots: Sequence[str] = (),
        **options: Any,
    ) -> Guard:
        """A guard by the policy, grants and audit of this user, whose secrets are those of the environment.

        `policy` is another file in place of the user's own, `grants` others than the user's. What would make every
        answer a no is told at once: raises ConfigFault for a policy file (also of a project in `roots`), grants or an
        audit that cannot be used.
        """
        from dragoman.config.policy_files import Policies

        policies, audit = Policies(places, own=policy), Audit(places.audit)
        grants = grants or Grants(places.grants)
        policies.load(tuple(map(os.path.realpath, roots)))
        grants.current()
        try:
            audit.check()
        except (OSError, Damaged) as error:
            raise ConfigFault([f"what agents do cannot be written down, so nothing is allowed: {error}"]) from None
        return cls(
            policies,
            grants=grants,
            audit=audit,
            secrets=from_environment(environ),
            protected=policies.protected,
            **options,
        )

    # --- who it guards ----------------------------------------------------------------------------------------

    def attend(self, agent: RemoteAgent, otherwise: str = "") -> None:
        """Know this agent by its name (`otherwise` by another), and its sessions: folders, modes, tool calls, turns.

        The credentials that it is given from now on are kept secret.
        """
        agent.on_secrets = self.keep_secret
        self._premises.attend(agent, otherwise)

    def lend(self, **options: Any) -> GuardedLending:
        """A Lending under this guard: each use approved and audited, what is ours never written."""
        from dragoman.roles.client.permission.guarded import GuardedLending

        return GuardedLending(self, **options)

    def extra_roots(self, session_id: str) -> tuple[str, ...]:
        """Folders that policy lends every session besides its own; none while policy cannot be read."""
        try:
            return self._policy(self._premises.folders(session_id)).roots
        except ConfigFault:
            return ()

    def know_roots(
        self, roots: Callable[[str], Sequence[str]], resolve: Callable[[str], str] = os.path.realpath
    ) -> None:
        """How the folders of a session are found, and where each of them really is."""
        self._premises.roots = roots
        self._premises.resolve = resolve

    def keep_secret(self, values: Iterable[str]) -> None:
        """Values that never reach the audit, the grants or what is shown: credentials that an agent is given, say."""
        self.redaction.add(with_bare(values))

    def mode(self, session_id: str = "") -> str:
        """The policy mode of a session."""
        session = self._premises.find(session_id)
        chosen = self._mode if session is None else self._modes.get(session, self._mode)
        return chosen or self._policy(self._premises.folders(session_id)).mode

    async def switch(self, session: Conversation, mode: str) -> None:
        """The user wants this session in another mode: ours at once, and the agent's where it has one of that name."""
        before = self.mode(session.id)
        self._modes[session] = mode_of(mode).name
        change = Entry(who="user", what=What.MODE, time=now(), session=session.id, mode=mode, detail={"before": before})
        try:
            await self._journal.write(change)
        except OSError as error:
            raise ConfigFault([f"the change of mode cannot be written down: {error}"]) from None
        if session.offers_mode(mode) and session.mode != mode:
            await session.set_mode(mode)

    async def close(self) -> None:
        """Nothing is guarded any more: what was granted for sessions is forgotten."""
        await self._journal.flush()
        if self._grants is not None:
            with suppress(ConfigFault):  # they are of this run alone, and expire
                await asyncio.to_thread(self._grants.end_run, self.run)
        self._kept.clear()
        self._once.clear()

    # --- the questions ----------------------------------------------------------------------------------------

    async def ask(self, params: RequestPermissionParams) -> str | None:
        """session/request_permission: the id of one of the offered options, None for cancelled."""
        session = self._premises.find(params.session_id)
        call = session.tool_calls.get(params.tool_call.tool_call_id) if session is not None else None
        call = call or merge(None, params.tool_call)
        beside = side(params.tool_call)
        at = self._premises
        found = questions(call, beside, at.resolver(params.session_id), at.absolute(params.session_id))
        wanted = [at.place(question, params.session_id, self.mode(params.session_id)) for question in found]
        reason = beside.get("reason")
        asked = Asked(
            questions=tuple(wanted),
            decision=Decision(ASK, Source.MODE, ""),
            options=tuple(params.options),
            call=call,
            reason=reason if isinstance(reason, str) else "",
        )
        decision, choice = await self._decided(asked, session)
        if choice is not None and choice.option_id is not None:
            return choice.option_id
        if decision.source == Source.CANCELLED:
            return None
        return choose(params.options, decision.verdict, choice.scope if choice else Scope.ONCE)

    async def approve(self, use: Use) -> bool:
        """The use of a file or a terminal that is lent; what is refused without the user is told with its reason."""
        operation = USES.get(use.operation, Operation.OTHER)
        resource = canonical(use.resource) if operation == Operation.TERMINAL_EXECUTE else use.resource
        named = self._premises.absolute(use.session_id)(use.named) if use.named else ""
        question = Question(
            operation=operation,
            resource=resource,
            named=named if named != resource else "",
            cwd=use.cwd,
            env=steering(use.env),
        )
        placed = self._premises.place(question, use.session_id, self.mode(use.session_id))
        asked = Asked(
            questions=(placed,),
            decision=Decision(ASK, Source.MODE, ""),
            text=use.text,
            env=use.env,
            interactive=use.interactive,
        )
        decision, _ = await self._decided(asked, self._premises.find(use.session_id), is_use=True)
        if not decision.allows and decision.source in UNASKED:
            why = self.redaction.text(decision.reason)
            raise ProtocolError(Kind.PERMISSION_DENIED, f"not allowed to {use.operation} {use.resource}: {why}")
        return decision.allows

    async def servers(self, servers: Iterable[McpServer], cwd: str = ".") -> list[McpServer]:
        """Those of the MCP servers that may be started or reached; their credentials are secrets from now on."""
        given = list(servers)
        self.redaction.add(from_servers(given))
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
                agent=self._premises.agent,
                roots=(os.path.realpath(cwd),),
                mode=self.mode(),
            )
            shown = {name: self.redaction.text(value) for name, value in env.items()}
            asked = Asked(questions=(question,), decision=Decision(ASK, Source.MODE, ""), env=shown)
            decision, _ = await self._decided(asked, None)
            if decision.allows:
                allowed.append(server)
        return allowed

    async def done(self, method: str, params: Any, error: BaseException | None, result: Any = None) -> None:
        """What was lent was used, or failed: for the audit."""
        with suppress(OSError):  # it is done; the next decision finds that the log cannot be written
            await self._journal.write(*of_use(self._premises.agent, method, params, error, result), durable=False)

    # --- deciding ---------------------------------------------------------------------------------------------

    async def _decided(
        self, asked: Asked, session: Conversation | None, *, is_use: bool = False
    ) -> tuple[Decision, Choice | None]:
        """The decision and, where the user was asked, the answer; both are in the audit before they take effect."""
        decision: Decision | None = None
        choice: Choice | None = None
        try:
            decision, choice = await self._considered(asked, session, is_use)
            await self._journal.write(*entries(What.DECIDED, asked, decision, choice), durable=_weighs(asked, decision))
        except asyncio.CancelledError:
            if decision is None:  # else it is being written already
                with suppress(OSError):
                    await self._journal.write(*entries(What.DECIDED, asked, CLOSED, None))
            raise
        except (OSError, ConfigFault) as error:  # of the audit log, or of the grants
            decision, choice = Decision(DENY, Source.FAULT, f"what is decided cannot be written down: {error}"), None
        self._told(asked, decision)
        return decision, choice

    async def _considered(
        self, asked: Asked, session: Conversation | None, is_use: bool
    ) -> tuple[Decision, Choice | None]:
        turn = session.turn if session is not None else None
        decision = self._weighed(asked.questions, turn if is_use else None)
        if decision.verdict is not ASK:
            return decision, None
        async with self._one_at_a_time.setdefault(asked.questions[0].session, asyncio.Lock()):
            if turn is not None and turn.cancelled:
                return CLOSED, None
            # Whoever waited here may find that the answer to the question before covers this one too.
            decision = self._weighed(asked.questions, turn if is_use else None)
            if decision.verdict is not ASK:
                return decision, None
            return await self._answered(msgspec.structs.replace(asked, decision=decision), session, is_use)

    def _weighed(self, wanted: Sequence[Question], turn: ClientTurn | None) -> Decision:
        """What policy says; in a turn, an answer to the tool call covers the use that it was about."""
        try:
            policy = self._policy(wanted[0].roots)
            grants = [*(self._grants.current() if self._grants is not None else ()), *self._kept]
        except ConfigFault as fault:
            return Decision(DENY, Source.FAULT, str(fault))
        decision = decide_all(policy, wanted, grants, now=self._clock(), run=self.run)
        if turn is not None and decision.verdict is ASK:
            return self._use_up(wanted[0], turn) or decision
        return decision

    def _use_up(self, question: Question, turn: ClientTurn) -> Decision | None:
        """One answer covers the first use that matches, in the same turn and while it lasts."""
        self._once = [(grant, of_turn) for grant, of_turn in self._once if not of_turn.is_over]
        for index, (grant, of_turn) in enumerate(self._once):
            if of_turn is turn and grant.covers(question, self._clock(), self.run):
                del self._once[index]
                verdict = ALLOW if grant.verdict == ALLOW.word else DENY
                return Decision(verdict, Source.USER, f"the user said {grant.verdict} to the tool call")
        return None

    async def _answered(
        self, asked: Asked, session: Conversation | None, is_use: bool
    ) -> tuple[Decision, Choice | None]:
        if self._ask_user is None:
            return Decision(DENY, Source.NOBODY, f"{asked.decision.reason}; {NOBODY}"), None
        await self._journal.write(*entries(What.ASKED, asked, asked.decision, None), durable=False)
        try:
            answer = self._asking(asked)
            # The answers to a tool call's question are watched over by the client itself.
            choice = await (session.unless_cancelled(answer) if is_use and session is not None else answer)
        except TimeoutError:
            return Decision(DENY, Source.TIMEOUT, f"nobody answered within {self._patience:g} seconds"), None
        if choice is None:
            return CLOSED, None
        choice = understood(asked.options, choice)
        await self._remember(asked.questions, choice, session, is_use)
        return Decision(choice.verdict, Source.USER, choice.reason), choice

    async def _asking(self, asked: Asked) -> Any:
        assert self._ask_user is not None
        async with asyncio.timeout(self._patience):
            answer = self._ask_user(asked)
            return await answer if isinstance(answer, Awaitable) else answer

    async def _remember(
        self, wanted: Sequence[Question], choice: Choice, session: Conversation | None, is_use: bool
    ) -> None:
        stored = []
        for question in wanted:
            grant = granted(
                question,
                choice.verdict,
                choice.scope,
                id=uuid4().hex[:8],
                now=self._clock(),
                run=self.run,
                life=choice.life,
            )
            if grant is None or decide(self._policy(question.roots), question).verdict is not ASK:
                continue
            if grant.scope == Scope.ONCE:
                if not is_use and session is not None and session.turn is not None:
                    self._once.append((grant, session.turn))
            elif self._grants is None or self.redaction.text(grant.resource) != grant.resource:
                self._kept.append(grant)  # a command with a secret in it is not written down
            else:
                stored.append(grant)
        if self._grants is not None and stored:
            await asyncio.to_thread(self._grants.add, stored, now=self._clock())
            await self._journal.write(*(of_grant(grant) for grant in stored), durable=False)
