"""The stage before a client: we are the agent it talks to, and answer its first calls unless the probe does it itself.

A script for tests of clients: what a probe does not answer is answered soundly, so that the client comes to the point.
Below is the stage, above are the probes of clients.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.conformance.pace import Pace
from dragoman.conformance.stage import Heard, Json, Stage
from dragoman.schema.side import Side
from dragoman.transport.stream import StreamTransport


class ClientStage(Stage):
    """One conversation with a fresh client."""

    we = Side.AGENT

    def __init__(self, transport: StreamTransport, dialect: str, pace: Pace, *, needs: str = "") -> None:
        super().__init__(transport, dialect, pace, needs=needs)
        self.serves: dict[str, Callable[[Heard], Json]] = {}
        """How requests are answered, by the vocabulary's method: a function gives the result, None holds it back."""
        self.held: list[Heard] = []

    def attend(self, heard: Heard) -> None:
        """Answer what the client asks for, where the probe said how."""
        serve = self.serves.get(heard.method)
        if not heard.is_request or serve is None:
            return
        result = serve(heard)
        if result is None:
            self.held.append(heard)
        else:
            self.answer_as(heard, result)

    async def called(self, method: str, seconds: float | None = None) -> Heard | None:
        """The next call of this vocabulary method, None when it does not come in time."""
        return await self.until(lambda heard: heard.method == method, seconds)

    def update(self, session: str, update: Json) -> None:
        """Tell an update of the vocabulary in the client's dialect."""
        self.tell(*self.spelled("session/update", {"sessionId": session, "update": update}))
