"""The open questions of one room: put to all who may answer, closed by the first who does.

Takes a question of the agent's, or of the policy's, and puts it to every member who may answer; also to those who come
later. While nobody is there who could answer, its deadline stands still. Above is the room; below are connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from dragoman.errors import ProtocolError
from dragoman.host.limits import Bounds
from dragoman.host.room.member import Member
from dragoman.schema.elicitation import CreateElicitationResult, ElicitationMode
from dragoman.schema.permission import RequestPermissionParams, RequestPermissionResult, SelectedOutcome
from dragoman.wire.envelope import Id

# Clients of these dialects cannot be asked: their ledger answers for them, by what they lend (dialect/y2025/consent).
# So they are asked only where nobody else is there.
UNASKABLE = frozenset({"2025.1"})


class Answer(NamedTuple):
    """What became of a question: a result, or None; who said so, and in words why nobody did."""

    result: Any
    by: str = ""
    why: str = ""


class _Open:
    """A question that waits for an answer."""

    def __init__(self, method: str, params: Any, gate: str, patience: float) -> None:
        self.method = method
        self.params = params
        self.gate = gate
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.asked: dict[str, tuple[Member, Id]] = {}  # by connection: who is being asked, under which id
        self.dismissed: set[str] = set()  # connections whose users closed it, or that cannot answer
        self.left = patience  # of the time that somebody who may answer is there
        self.alarm: asyncio.TimerHandle | None = None
        self.since: float | None = None  # when the patience began to run again; None while nobody is there

    def close(self, answer: Answer) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)


class Questions:
    """All that is being asked in one room."""

    def __init__(self, members: Callable[[], Iterable[Member]], bounds: Bounds) -> None:
        self._members = members
        self._bounds = bounds
        self._open: list[_Open] = []

    @property
    def are_open(self) -> bool:
        """Whether anything is being asked."""
        return bool(self._open)

    async def ask(self, method: str, params: Any) -> Answer:
        """Ask all who may answer and give the first answer; being cancelled takes the question back everywhere."""
        gate = ""
        if method == "elicitation/create":
            mode = params.mode if params.mode in (ElicitationMode.FORM, ElicitationMode.URL) else ElicitationMode.FORM
            gate = f"client.elicitation.{mode}"
        question = _Open(method, params, gate, self._bounds.patience)
        self._open.append(question)
        try:
            self._put(question)
            return await question.answer
        finally:
            self._open.remove(question)
            if question.alarm is not None:
                question.alarm.cancel()
            for member, id in question.asked.values():
                member.desk.connection.call_off(id, wait=False)

    def came(self, member: Member) -> None:
        """Somebody is there who may hear what is being asked."""
        for question in list(self._open):
            question.dismissed.discard(member.desk.id)
            self._put(question)

    def went(self, member: Member) -> None:
        """Somebody left, or may not answer any more."""
        for question in list(self._open):
            asked = question.asked.pop(member.desk.id, None)
            if asked is not None:
                member.desk.connection.call_off(asked[1], wait=False)
            self._put(question)

    def noticed(self) -> None:
        """Somebody lost the socket, or has one again: deadlines stand still, or run."""
        for question in list(self._open):
            self._put(question)

    # --- one question -----------------------------------------------------------------------------------------

    def _able(self, question: _Open) -> list[Member]:
        """Who may answer and can, dismissed or not."""
        able = [
            member
            for member in self._members()
            if member.is_live
            and member.controls
            and (not question.gate or member.desk.connection.offers(question.gate))
        ]
        return [member for member in able if member.desk.dialect not in UNASKABLE] or able

    def _put(self, question: _Open) -> None:
        """Ask those who were not asked yet, and let the deadline run or stand still."""
        if question.answer.done():
            return
        able = self._able(question)
        if not able and question.gate and any(member.is_live and member.controls for member in self._members()):
            question.close(Answer(None, "", "no client that is here can show it"))  # its prompter would wait in vain
            return
        for member in able:
            if member.desk.id not in question.asked and member.desk.id not in question.dismissed:
                self._put_to(question, member)
        if question.answer.done():
            return
        if able and all(member.desk.id in question.dismissed for member in able):
            question.close(Answer(None, able[-1].desk.visitor.user, "the question was closed without an answer"))
            return
        # Who lost the socket for a moment is there enough not to be answered for, and too far to be hurried.
        is_attended = any(member.desk.is_there for member in able) if self._bounds.waits else bool(able)
        self._time(question, is_attended)

    def _put_to(self, question: _Open, member: Member) -> None:
        desk = member.desk
        is_answered = False

        def done(result: Any, error: ProtocolError | None) -> None:
            nonlocal is_answered
            is_answered = True
            question.asked.pop(desk.id, None)
            if question.answer.done() or desk.connection.failure is not None:
                return
            if error is None and is_given(question.params, result):
                question.close(Answer(result, desk.visitor.user))
                return
            question.dismissed.add(desk.id)
            self._put(question)

        id: Any = desk.connection.call(question.method, question.params, done)
        if not is_answered:
            question.asked[desk.id] = (member, id)

    def _time(self, question: _Open, is_attended: bool) -> None:
        loop = asyncio.get_running_loop()
        if is_attended and question.since is None:
            question.since = loop.time()
            self._alarm(question, question.left, "nobody answered in time")
        elif not is_attended and (question.since is not None or question.alarm is None):
            if question.since is not None:
                question.left -= loop.time() - question.since
                question.since = None
            if not self._bounds.waits:
                question.close(Answer(None, "", "nobody is there who may answer"))
                return
            self._alarm(question, self._bounds.unattended, "nobody came who may answer")

    def _alarm(self, question: _Open, after: float, why: str) -> None:
        if question.alarm is not None:
            question.alarm.cancel()
        loop = asyncio.get_running_loop()
        question.alarm = loop.call_later(max(after, 0.0), question.close, Answer(None, "", why))


def is_given(params: Any, result: Any) -> bool:
    """Whether this is an answer: an option that was offered, or a reply that is not merely a closed window."""
    if isinstance(result, RequestPermissionResult) and isinstance(params, RequestPermissionParams):
        outcome = result.outcome
        offered = {option.option_id for option in params.options}
        return isinstance(outcome, SelectedOutcome) and outcome.option_id in offered
    return isinstance(result, CreateElicitationResult) and result.action in ("accept", "decline")
