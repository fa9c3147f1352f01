"""Questions to a v2 client, each in a flow of its own: a cancelled turn need not wait for its answer."""

from __future__ import annotations

from typing import Any, Final

from dragoman.dialect.emulator import Flow, SendRequest, Start, Stop, Wait, Wake
from dragoman.dialect.v2.client_session import ClientSession
from dragoman.errors import ProtocolError
from dragoman.schema.elicitation import CreateElicitationResult
from dragoman.schema.permission import CancelledOutcome, RequestPermissionResult

CANCELLED_PERMISSION: Final = RequestPermissionResult(outcome=CancelledOutcome())
_CANCELLED: Final[dict[str, Any]] = {
    "session/request_permission": CANCELLED_PERMISSION,
    "elicitation/create": CreateElicitationResult(action="cancel"),
}


class Questions:
    """The open questions of a connection."""

    def __init__(self) -> None:
        self._count = 0
        self._answers: dict[str, Any] = {}  # of questions that were answered at once
        self._methods: dict[str, str] = {}

    def open(self, session: ClientSession) -> str:
        """Return the key of a new question; from now on its session waits."""
        self._count += 1
        key = f"question {self._count}"
        session.questions[key] = None
        return key

    def ask(self, session: ClientSession, key: str, method: str, params: Any) -> Flow:
        """Send a question and return its answer, or that of a cancelled turn."""
        self._methods[key] = method
        yield Start(self._send(key, method, params), name=f"ask {key}")
        try:
            answer = self._answers.pop(key, None)
            if answer is None:
                answer = yield Wait(key)
        except ProtocolError:  # the agent withdrew it
            yield Stop(f"ask {key}")
            raise
        finally:
            session.questions.pop(key, None)
            self._methods.pop(key, None)
        if isinstance(answer, ProtocolError):
            raise answer
        return answer

    def _send(self, key: str, method: str, params: Any) -> Flow:
        try:
            answer = yield SendRequest(method, params)
        except ProtocolError as error:
            answer = error
        if not (yield Wake(key, answer)) and key in self._methods:
            self._answers[key] = answer

    def cancel(self, session: ClientSession) -> Flow:
        """Answer all questions of a session for the client, and withdraw them; late answers reach nobody."""
        for key in list(session.questions):
            yield Wake(key, _CANCELLED[self._methods[key]])
            yield Stop(f"ask {key}")
