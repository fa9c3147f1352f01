"""The grants that hold while a guard runs: those in the user's file, those kept in memory, and those for one use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import uuid4

from dragoman.config.grants import GrantsFile
from dragoman.errors import ConfigFault
from dragoman.policy.decision import ALLOW, DENY, Decision, DecisionSource
from dragoman.policy.grants import Grant, Scope, build_grant
from dragoman.policy.question import Operation, Question
from dragoman.roles.client.permission.shown_changes import ShownChange, is_as_shown

if TYPE_CHECKING:
    from dragoman.roles.client.permission.questions import PermissionChoice, PermissionPrompt
    from dragoman.roles.client.turn import ClientTurn


class RunGrants:
    """Keeps the user's answers for later questions. `can_store` tells whether a resource may be written to the file."""

    def __init__(self, file: GrantsFile | None, clock: Callable[[], float], can_store: Callable[[str], bool]) -> None:
        self.run_id = uuid4().hex
        self._file = file
        self._clock = clock
        self._can_store = can_store
        self._in_memory: list[Grant] = []
        self._for_one_use: list[tuple[Grant, ClientTurn, tuple[ShownChange, ...]]] = []

    def current(self) -> list[Grant]:
        """Return the grants that policy looks at; raises ConfigFault if the file cannot be read."""
        return [*(self._file.current() if self._file is not None else ()), *self._in_memory]

    async def take_for_one_use(self, use: PermissionPrompt, turn: ClientTurn) -> Decision | None:
        """Use up a grant for one use that matches, of the same turn; None if there is none.

        What is written must be what the tool call showed.
        """
        self._for_one_use = [each for each in self._for_one_use if not each[1].is_over]
        for index, (grant, owner, changes) in enumerate(self._for_one_use):
            if owner is turn and grant.covers(use.questions[0], self._clock(), self.run_id):
                del self._for_one_use[index]
                verdict = ALLOW if grant.verdict == ALLOW.label else DENY
                if verdict is ALLOW and changes and not await asyncio.to_thread(is_as_shown, changes, use):
                    return None
                return Decision(verdict, DecisionSource.USER, f"the user said {grant.verdict} to the tool call")
        return None

    async def add(
        self,
        questions: Sequence[Question],
        choice: PermissionChoice,
        turn: ClientTurn | None,
        changes: tuple[ShownChange, ...] = (),
    ) -> list[Grant]:
        """Remember the answer to these questions, and return the grants that were written to the file.

        An answer for one use holds in `turn`; without a turn, it is not remembered.
        """
        stored = []
        for question in questions:
            grant = build_grant(
                question,
                choice.verdict,
                choice.scope,
                id=uuid4().hex[:8],
                now=self._clock(),
                run=self.run_id,
                lifetime=choice.lifetime,
            )
            if grant is None:
                continue
            if grant.scope == Scope.ONCE:
                if turn is not None:
                    is_write = question.operation == Operation.FILE_WRITE
                    self._for_one_use.append((grant, turn, changes if is_write else ()))
            elif self._file is not None and self._can_store(grant.resource):
                stored.append(grant)
            else:
                self._in_memory.append(grant)
        if self._file is not None and stored:
            await asyncio.to_thread(self._file.add, stored, now=self._clock())
        return stored

    async def forget(self) -> None:
        """Forget the grants for this run's sessions and those in memory."""
        if self._file is not None:
            with suppress(ConfigFault):  # these grants are only for this run, and expire
                await asyncio.to_thread(self._file.forget_run, self.run_id)
        self._in_memory.clear()
        self._for_one_use.clear()
