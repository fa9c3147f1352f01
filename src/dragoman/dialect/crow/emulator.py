"""What must be remembered of a crow peer: questions, which have no request id there, and cancel, which has one.

A question is an update and its answer a message of its own, matched by session and tool call (reference 5.14-8, 5.17);
so of two questions about one tool call the second waits. Kept: the open questions of each session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from dragoman.dialect.emulator import Ask, Deliver, Flow, FlowMaker, Ledger, Pass, Report, Send, Settings, Wait, Wake
from dragoman.dialect.side_data import changed, member, noted, side
from dragoman.errors import ProtocolError
from dragoman.schema.permission import (
    CancelledOutcome,
    PermissionOption,
    PermissionOptionKind,
    RequestPermissionResult,
    SelectedOutcome,
)
from dragoman.schema.side import Side

_ASK: Final = "session/request_permission"
_REJECTS: Final = (PermissionOptionKind.REJECT_ONCE, PermissionOptionKind.REJECT_ALWAYS)

# Said when an agent offers nothing but consent: no option it could take for one, and it need not wait for ever.
_REJECT: Final = "reject"

Question = tuple[str, str]  # session, tool call


def open_ledger(peer: Side, settings: Settings) -> Ledger | None:
    """The memory of one connection whose other end plays `peer` and speaks crow."""
    return (ClientLedger if peer is Side.CLIENT else AgentLedger)(peer, settings)


class _Questions(Ledger):
    """One question at a time for each tool call; whoever is next waits for its turn."""

    def __init__(self, peer: Side, settings: Settings) -> None:
        super().__init__(peer, settings)
        self._open: set[Question] = set()

    def _begin(self, question: Question) -> Flow:
        """Wait until no other question about this tool call is open; whether it may still be asked."""
        while question in self._open:
            if (yield Wait(_key("next", question))) is False:
                return False
        self._open.add(question)
        return True

    def _end(self, question: Question) -> Flow:
        self._open.discard(question)
        yield Wake(_key("next", question))

    def _of(self, session: str) -> Iterator[Question]:
        return iter([question for question in self._open if question[0] == session])


class ClientLedger(_Questions):
    """A crow client at the other end: we ask it by an update and wait for its answer."""

    def _question(self, params: Any) -> Flow:
        question = (params.session_id, params.tool_call.tool_call_id)
        if not (yield from self._begin(question)):
            return RequestPermissionResult(outcome=CancelledOutcome())
        try:
            yield Send(_ASK, changed(params, options=_with_primary(params.options)))
            chosen = yield Wait(_key("permission", question))
        except ProtocolError:  # taken back by who asked; the client, which cannot be told, answers nobody
            yield from self._end(question)
            raise
        yield from self._end(question)
        if chosen is not None and any(option.option_id == chosen for option in params.options):
            return RequestPermissionResult(outcome=SelectedOutcome(option_id=chosen))
        if chosen is not None:
            yield Report(f"the client chose {chosen!r} for {question[1]}, which was not offered: taken as cancelled")
        return RequestPermissionResult(outcome=CancelledOutcome())

    def _answer(self, params: Any) -> Flow:
        question = (params.session_id, params.tool_call_id)
        if not (yield Wake(_key("permission", question), params.option_id)):
            yield Report(f"the client answered a question about {question[1]} that is not open")
        return {}

    def _cancel(self, params: Any) -> Flow:
        """A request in crow, a notification everywhere else (5.14-7)."""
        yield Deliver("session/cancel", params, request=False)
        yield from self._close(params.session_id)
        return {}

    def _prompt(self, params: Any) -> Flow:
        """A turn that is over has no open questions."""
        try:
            result = yield Pass(params)
        except ProtocolError:
            yield from self._close(params.session_id)
            raise
        yield from self._close(params.session_id)
        return result

    def _close(self, session: str) -> Flow:
        """Answer the session's questions as cancelled, those that wait for their turn first."""
        for question in self._of(session):
            while (yield Wake(_key("next", question), False)):
                pass
            yield Wake(_key("permission", question))

    incoming: ClassVar[Mapping[str, FlowMaker]] = {
        "permission_response": _answer,
        "session/cancel": _cancel,
        "session/prompt": _prompt,
    }
    outgoing: ClassVar[Mapping[str, FlowMaker]] = {_ASK: _question}


class AgentLedger(_Questions):
    """A crow agent at the other end: its updates ask, and our answers are messages of their own."""

    def _question(self, params: Any) -> Flow:
        question = (params.session_id, params.tool_call.tool_call_id)
        yield from self._begin(question)
        try:
            result = yield Deliver(_ASK, params)
        except ProtocolError as error:
            yield Report(f"the question about {question[1]} could not be put ({error.message}): rejected")
            result = RequestPermissionResult(outcome=CancelledOutcome())
        chosen = member(member(result, "outcome"), "option_id")
        if all(option.option_id != chosen for option in params.options):
            chosen = _rejecting(params.options)
        response = {"sessionId": question[0], "toolCallId": question[1], "optionId": chosen}
        yield Send("permission_response", response)
        yield from self._end(question)

    def _cancel(self, params: Any) -> Flow:
        """A request in crow; whoever cancels expects no answer, so it is swallowed (5.14-7)."""
        try:
            yield Ask("session/cancel", params)
        except ProtocolError as error:
            yield Report(f"the agent answered cancel with an error: {error.message}")

    incoming: ClassVar[Mapping[str, FlowMaker]] = {_ASK: _question}
    outgoing: ClassVar[Mapping[str, FlowMaker]] = {"session/cancel": _cancel}


def _rejecting(options: list[PermissionOption]) -> str:
    """The option that says no; one whose meaning was only guessed is a no as well, never a yes (5.17)."""
    for kind in _REJECTS:
        for option in options:
            if option.kind == kind:
                return option.option_id
    return _REJECT


def _with_primary(options: list[PermissionOption]) -> list[PermissionOption]:
    """The first option is the primary one unless somebody said which is (5.14-8)."""
    if not options or any("primary" in side(option) for option in options):
        return options
    return [noted(options[0], primary=True), *options[1:]]


def _key(what: str, question: Question) -> str:
    return f"{what}:{question[0]}:{question[1]}"
