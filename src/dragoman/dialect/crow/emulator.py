"""Emulate a crow peer: permission requests, which have no request id there, and cancel, which has one.

A permission request is an update and its answer a separate message, matched by session and tool call
(docs/protocol/dialect-matrix.md#crow-questions, docs/protocol/extensions.md#crow-permission). So the second request
about one tool call waits. Keeps the open requests of each session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from dragoman.dialect.announced_calls import AnnouncedCalls
from dragoman.dialect.emulator import (
    Deliver,
    Emulator,
    EmulatorSettings,
    Flow,
    FlowMaker,
    NotifyUser,
    Pass,
    SendNotification,
    SendRequest,
    Wait,
    Wake,
)
from dragoman.dialect.side_data import get_member, side_data_of, with_members, with_side_data
from dragoman.dialect.text_chunk import Chunk
from dragoman.errors import ProtocolError
from dragoman.schema.permission import (
    CancelledOutcome,
    PermissionOption,
    PermissionOptionKind,
    RequestPermissionResult,
    SelectedOutcome,
)
from dragoman.schema.side import Side
from dragoman.schema.update import ToolCallProgress, ToolCallStart

_REQUEST_PERMISSION: Final = "session/request_permission"
_REJECT_KINDS: Final = (PermissionOptionKind.REJECT_ONCE, PermissionOptionKind.REJECT_ALWAYS)

# The answer if an agent only offers to allow: it matches no option, and the agent need not wait forever.
_FALLBACK_REJECT_ID: Final = "reject"

QuestionKey = tuple[str, str]  # session, tool call


class _QuestionEmulator(Emulator):
    """Allows one open question per tool call; further ones wait."""

    def __init__(self, peer_side: Side, settings: EmulatorSettings) -> None:
        super().__init__(peer_side, settings)
        self._open_questions: set[QuestionKey] = set()

    def _begin_question(self, question: QuestionKey) -> Flow:
        """Wait until no other question about this tool call is open; return whether to ask it still."""
        while question in self._open_questions:
            if (yield Wait(_wait_key("next", question))) is False:
                return False
        self._open_questions.add(question)
        return True

    def _end_question(self, question: QuestionKey) -> Flow:
        self._open_questions.discard(question)
        yield Wake(_wait_key("next", question))

    def _questions_of(self, session: str) -> Iterator[QuestionKey]:
        return iter([question for question in self._open_questions if question[0] == session])


class ClientEmulator(_QuestionEmulator):
    """For a crow client: ask by an update and wait for its answer."""

    def __init__(self, peer_side: Side, settings: EmulatorSettings) -> None:
        super().__init__(peer_side, settings)
        self._tool_calls = AnnouncedCalls(("title",), ("raw_input", "locations"))

    def _update(self, params: Any) -> Flow:
        if type(params.update) is ToolCallStart or type(params.update) is ToolCallProgress:
            self._tool_calls.note(params.session_id, params.update)
        yield Pass(params)

    def pass_chunk(self, chunk: Chunk) -> Chunk | None:
        """Return the chunk: text announces no tool call."""
        return chunk

    def _request_permission(self, params: Any) -> Flow:
        question = (params.session_id, params.tool_call.tool_call_id)
        if not (yield from self._begin_question(question)):
            return RequestPermissionResult(outcome=CancelledOutcome())
        try:
            call = self._tool_calls.complete(params.session_id, params.tool_call)
            shown = with_members(params, tool_call=call, options=_mark_primary(params.options))
            yield SendNotification(_REQUEST_PERMISSION, shown)
            chosen = yield Wait(_wait_key("permission", question))
        except ProtocolError:  # cancelled by the requester; the client cannot be notified, so its answer is ignored
            yield from self._end_question(question)
            raise
        yield from self._end_question(question)
        if chosen is not None and any(option.option_id == chosen for option in params.options):
            return RequestPermissionResult(outcome=SelectedOutcome(option_id=chosen))
        if chosen is not None:
            yield NotifyUser(
                f"the client chose {chosen!r} for {question[1]}, which was not offered; treated as cancelled"
            )
        return RequestPermissionResult(outcome=CancelledOutcome())

    def _permission_response(self, params: Any) -> Flow:
        question = (params.session_id, params.tool_call_id)
        if not (yield Wake(_wait_key("permission", question), params.option_id)):
            yield NotifyUser(f"the client answered a question about {question[1]} that is not open")
        return {}

    def _cancel(self, params: Any) -> Flow:
        """Convert cancel: a request in crow, a notification elsewhere
        (docs/protocol/dialect-matrix.md#cancel-as-request).
        """
        yield Deliver("session/cancel", params, request=False)
        yield from self._cancel_questions(params.session_id)
        return {}

    def _prompt(self, params: Any) -> Flow:
        """Pass a prompt; when the turn ends, cancel its open questions."""
        try:
            result = yield Pass(params)
        except ProtocolError:
            yield from self._cancel_questions(params.session_id)
            raise
        finally:
            self._tool_calls.forget(params.session_id)
        yield from self._cancel_questions(params.session_id)
        return result

    def _cancel_questions(self, session: str) -> Flow:
        """Answer the session's questions as cancelled, the waiting ones first."""
        for question in self._questions_of(session):
            while (yield Wake(_wait_key("next", question), False)):
                pass
            yield Wake(_wait_key("permission", question))

    incoming: ClassVar[Mapping[str, FlowMaker]] = {
        "permission_response": _permission_response,
        "session/cancel": _cancel,
        "session/prompt": _prompt,
    }
    outgoing: ClassVar[Mapping[str, FlowMaker]] = {
        _REQUEST_PERMISSION: _request_permission,
        "session/update": _update,
    }


class AgentEmulator(_QuestionEmulator):
    """For a crow agent: its updates ask, and our answers are separate messages."""

    def _request_permission(self, params: Any) -> Flow:
        question = (params.session_id, params.tool_call.tool_call_id)
        yield from self._begin_question(question)
        try:
            result = yield Deliver(_REQUEST_PERMISSION, params)
        except ProtocolError as error:
            yield NotifyUser(f"the question about {question[1]} could not be asked ({error.message}); rejected")
            result = RequestPermissionResult(outcome=CancelledOutcome())
        chosen = get_member(get_member(result, "outcome"), "option_id")
        if all(option.option_id != chosen for option in params.options):
            chosen = _reject_option_id(params.options)
        response = {"sessionId": question[0], "toolCallId": question[1], "optionId": chosen}
        yield SendNotification("permission_response", response)
        yield from self._end_question(question)

    def _cancel(self, params: Any) -> Flow:
        """Send cancel as a request; its answer is dropped, since nobody waits for it
        (docs/protocol/dialect-matrix.md#cancel-as-request).
        """
        try:
            yield SendRequest("session/cancel", params)
        except ProtocolError as error:
            yield NotifyUser(f"the agent answered cancel with an error: {error.message}")

    incoming: ClassVar[Mapping[str, FlowMaker]] = {_REQUEST_PERMISSION: _request_permission}
    outgoing: ClassVar[Mapping[str, FlowMaker]] = {"session/cancel": _cancel}


def _reject_option_id(options: list[PermissionOption]) -> str:
    """Return the option that rejects; an option of a guessed kind counts as rejecting, never as allowing
    (docs/protocol/extensions.md#crow-permission).
    """
    for kind in _REJECT_KINDS:
        for option in options:
            if option.kind == kind:
                return option.option_id
    return _FALLBACK_REJECT_ID


def _mark_primary(options: list[PermissionOption]) -> list[PermissionOption]:
    """Mark the first option as primary unless one is marked (docs/protocol/dialect-matrix.md#crow-questions)."""
    if not options or any("primary" in side_data_of(option) for option in options):
        return options
    return [with_side_data(options[0], primary=True), *options[1:]]


def _wait_key(purpose: str, question: QuestionKey) -> str:
    return f"{purpose}:{question[0]}:{question[1]}"
